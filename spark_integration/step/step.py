"""One micro-batch of one bucket of keys: handles and rows in, handles and results out.

A pure function of its arguments and the pages in the store, free of Spark: the same state and the
same rows, in any order, give the same handles, the same results and the same pages. That is what
makes a replay harmless (design: a page is named by its content, so a replay writes it again under
its old name), and Spark's commit of state and results together then makes them exactly once.

Work per row is done by whole columns; Python runs once per key. The pages of all keys are made
durable by one flush at the end, before the handles leave the task. Keys whose windows time has
emptied are forgotten after the rows (see ``silence.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mta import EveryCount, Window
from spark_integration.plan import Plan
from spark_integration.step.columns import to_numpy
from spark_integration.step.every import places_due, places_of, results_due, results_of_silence
from spark_integration.step.lateness import first_on_time, floor_of, saved_after
from spark_integration.step.results import Counts, Results
from spark_integration.step.rows import Sorted, complete, sort_rows
from spark_integration.step.silence import Gap, forget, next_call, silences, take_doomed
from spark_integration.step.states import (
    Bucket,
    Saved,
    decode_state,
    encode_root,
    encode_state,
)
from spark_integration.step.sweep import Sweep, counts_of, results_of, sweeps
from spark_integration.step.windows import AnyWindow, Windows, by_column, events_of
from stores.base import PageStore


class Advanced(NamedTuple):
    """What a step returns."""

    state: bytes
    rows: pa.Table
    counts: Counts
    timer: int | None = None
    """Once the watermark is later than this, in microseconds, the step must run again."""


class Step(Protocol):
    """``step``, or what stands in its place in tests and benchmarks."""

    def __call__(
        self,
        state: bytes | None,
        rows: pa.Table,
        plan: Plan,
        store: PageStore,
        watermark: int | None = None,
    ) -> Advanced: ...


def step(
    state: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None = None,
) -> Advanced:
    """Advance every key's window by its rows and return the results beside the rows.

    O(rows * log rows) for the sort, plus what ``Window.extend`` costs. The results are ordered by
    key and time: all accepted rows, or the last of each key. ``watermark``, in microseconds, is
    what the stream's event time has reached; keys that it finds silent are forgotten if the plan
    says so, and their pages deleted by a later step. Raises NullKey, InvalidTime, InvalidValue,
    LateEvent, StateMismatch, CorruptState, and what the windows and the store raise; nothing is
    lost then, since the old state still stands.
    """
    before = decode_state(state, plan.buckets, plan.fingerprint())
    if plan.silent == "emit" or plan.by_boundaries:
        rows = rows.cast(plan.row_schema)  # rows of no event have these types, and all must agree
    group = sort_rows(complete(rows, plan), plan)
    if isinstance(before, bytes) or sweeps(plan):
        return _by_columns(before, rows.num_rows, group, plan, store, watermark)
    bucket = before
    results = Results(plan, group)
    windows = Windows(plan, store)
    try:
        _slide(group, bucket, plan, windows, results)
    finally:
        windows.discard_temporary()
    timer = _expire(bucket, plan, windows, results, watermark)
    store.flush()
    after = encode_state(bucket, plan.buckets, plan.fingerprint())
    return Advanced(after, results.table(), results.counts(rows.num_rows), timer)


def _by_columns(
    before: Bucket | bytes | None,
    read: int,
    group: Sorted,
    plan: Plan,
    store: PageStore,
    watermark: int | None,
) -> Advanced:
    """As ``step``, the windows of all keys at once."""
    sweep = Sweep(plan, store, before)
    done = sweep.advance(group)
    gone = sweep.forget(watermark)
    rows, counts = results_of(sweep, group, done, gone), counts_of(plan, read, group, done)
    if plan.temporary:
        return Advanced(b"", rows, counts)
    timer = sweep.timer(watermark)
    # The pages behind this root are durable only after the flush.
    root = sweep.windows.checkpoint(barrier=False)
    store.flush()
    return Advanced(encode_root(root, plan.buckets, plan.fingerprint()), rows, counts, timer)


def _slide(group: Sorted, bucket: Bucket, plan: Plan, windows: Windows, results: Results) -> None:
    """Every key's rows into its window, and what comes of them into bucket and results."""
    moments = group.times.view("datetime64[us]")
    columns = {name: to_numpy(group.rows.column(name)) for name in plan.values}
    for i, (key, name) in enumerate(zip(group.keys, group.names, strict=True)):
        before = bucket.keys.get(key)
        floor = floor_of(before, bucket.forgotten, plan)
        end = group.bounds[i + 1]
        start = first_on_time(group, i, before, floor, plan)
        results.add_late(group.bounds[i], start)
        if start == end:
            continue
        window = windows.open(name, before)
        # Where no aggregation reads a column, a batch is only as many events as it is long.
        values = {column: array[start:end] for column, array in columns.items()}
        rows = Given(i, start, end, values or range(start, end), moments[start:end])
        events = events_of(window)
        if plan.every is None:
            late = before is not None and int(group.times[start]) < before.last_time
            newest = _take_in(window, rows, plan, results, late)
        elif plan.counts_rows:
            newest = _take_in_counted(window, rows, plan, results)
        else:
            newest = _take_in_for(window, rows, plan, results, key, before)
        if newest is None:
            continue
        if plan.silent == "emit":
            gaps = _gaps(window, rows, before, plan)
            results.add_gaps(key, gaps, events_of(window) - events)
        if not plan.temporary:
            last = int(group.times[newest])
            # The pages behind this handle are durable only after the flush of the step.
            handle = window.checkpoint(barrier=False)
            bucket.keys[key] = saved_after(last, handle, before, floor, plan)


class Given(NamedTuple):
    """One key's rows that are not late."""

    key: int
    """The key's number."""
    start: int
    end: int
    values: Any
    moments: npt.NDArray[np.datetime64]


def _take_in(
    window: AnyWindow, rows: Given, plan: Plan, results: Results, late: bool
) -> int | None:
    """Rows into a window, and their results out; the newest row that entered, if any did.

    ``late`` tells that the first one is older than what the window has.
    """
    if plan.appends and plan.by_time:
        assert isinstance(window, Window)
        return _revise(window, rows, plan, results)
    # The result after a batch is that of the newest event, which may have come before it.
    every = plan.output == "event" or late
    found = window.extend(rows.values, rows.moments, "all" if every else "last")
    entered = results.enter(rows.start, rows.end, window.last_accepted)
    if entered is None:
        return None
    results.add(by_column(found, plan), *entered)
    return entered[0]


def _take_in_for(
    window: AnyWindow, rows: Given, plan: Plan, results: Results, key: bytes, before: Saved | None
) -> int | None:
    """As ``_take_in``, with the results that are due alone."""
    events = events_of(window)
    found = results_due(window, plan, before, rows.values, rows.moments)
    entered = results.enter(rows.start, rows.end, window.last_accepted)
    if plan.by_boundaries:
        results.boundaries.add(key, found)
    else:
        (due,) = found
        nth = due.moments - events - 1
        results.add_picked(due.results, rows.start + places_of(nth, window))
    return entered and entered[0]


def _take_in_counted(window: AnyWindow, rows: Given, plan: Plan, results: Results) -> int | None:
    """As ``_take_in``, with the results of each k-th event alone, whatever the window."""
    every = plan.every
    assert isinstance(every, EveryCount)
    events = events_of(window)
    # A batch that does not reach the next k-th event needs no results.
    due = len(places_due(every, events, rows.end - rows.start)) > 0
    found = window.extend(rows.values, rows.moments, "all" if due else "last")
    entered = results.enter(rows.start, rows.end, window.last_accepted)
    if entered is None or not due:
        return entered and entered[0]
    nth = places_due(every, events, entered[1])
    picked = {alias: column[nth] for alias, column in by_column(found, plan).items()}
    results.add_picked(picked, rows.start + places_of(nth, window))
    return entered[0]


def _revise(window: Window, rows: Given, plan: Plan, results: Results) -> int | None:
    """As ``_take_in``, and the rows whose results have changed."""
    revision = window.revise(rows.values, rows.moments)
    entered = results.enter(rows.start, rows.end, window.last_accepted)
    if entered is None:
        return None
    again = revision.index < 0
    if plan.output == "last":
        again[:-1] = False  # the key's newest event alone, whenever it came
    results.corrected.add(rows.key, revision, again)
    if plan.output == "event" or not again[-1]:
        new = revision.index >= 0
        results.add({alias: column[new] for alias, column in revision.results.items()}, *entered)
    return entered[0]


def _gaps(window: AnyWindow, rows: Given, before: Saved | None, plan: Plan) -> list[Gap]:
    """Where time has emptied a window between the events that it has just taken in.

    Where events may come late, none is certain.
    """
    if plan.lifetime is None or plan.lateness is not None:
        return []
    times, accepted = rows.moments.view("i8"), window.last_accepted
    times = times if accepted is None else times[accepted]
    return silences(times, before and before.last_time, plan.lifetime)


def _expire(
    bucket: Bucket, plan: Plan, windows: Windows, results: Results, watermark: int | None
) -> int | None:
    """Forget the keys whose windows time has emptied; return when to look again."""
    for handle in take_doomed(bucket):
        windows.restore(handle).delete_pages()
    lifetime = plan.lifetime
    if lifetime is None:
        return None
    if watermark is not None:
        late = plan.patience, plan.period
        for key, moment, saved in forget(bucket, lifetime, watermark, plan.retain, *late):
            if plan.by_boundaries:
                window = windows.restore(saved.handle)
                results.boundaries.add(key, results_of_silence(window, plan, saved))
            elif plan.silent == "emit":
                results.add_emptied(key, moment)
    return next_call(bucket, lifetime, watermark, plan.patience, plan.period)
