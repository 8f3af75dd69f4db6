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
from spark_integration.step.columns import Ints, to_numpy
from spark_integration.step.lateness import first_on_time, floor_of, saved_after
from spark_integration.step.results import Counts, Results
from spark_integration.step.rows import Sorted, complete, sort_rows
from spark_integration.step.silence import forget, next_call, silences, take_doomed
from spark_integration.step.states import (
    Bucket,
    Saved,
    decode_state,
    encode_root,
    encode_state,
)
from spark_integration.step.sweep import Sweep, counts_of, may_carry_over, results_of, sweeps
from spark_integration.step.windows import (
    AnyWindow,
    Windows,
    by_column,
    events_of,
    places_due,
    results_due,
    results_of_silence,
)
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
    if isinstance(before, bytes) or (sweeps(plan) and may_carry_over(before, plan)):
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
    rows, counts = results_of(sweep, group, done, gone), counts_of(plan, read, done)
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
        given = Given(key, start, end, values or range(start, end), moments[start:end])
        entered = _take_in(window, given, before, plan, results)
        if not len(entered):
            continue
        times = group.times[entered]
        if plan.silent == "emit" and plan.lateness is None:  # else no moment is certain
            results.add_gaps(key, silences(times, before, plan), len(entered))
        if not plan.temporary:
            # The pages behind this handle are durable only after the flush of the step.
            handle = window.checkpoint(barrier=False)
            bucket.keys[key] = saved_after(int(times[-1]), handle, before, floor, plan)


class Given(NamedTuple):
    """One key's rows that are not late."""

    key: bytes
    start: int
    end: int
    values: Any
    moments: npt.NDArray[np.datetime64]


def _take_in(
    window: AnyWindow, given: Given, before: Saved | None, plan: Plan, results: Results
) -> Ints:
    """Rows into a window, and their results out; the rows that entered."""
    key, start, end, values, moments = given
    if plan.by_boundaries:
        results.add_due(key, results_due(window, plan, before, values, moments))
        return results.enter(start, end, window.last_accepted)
    if plan.appends and plan.by_time:
        assert isinstance(window, Window)
        return _revise(window, given, plan, results)
    every, events = plan.every, events_of(window)
    if isinstance(every, EveryCount):
        # A batch that does not reach the next k-th event needs no results.
        wanted = len(places_due(every, events, end - start)) > 0
    else:
        # The result after a batch is that of the newest event, which may have come before it.
        late = before is not None and moments[0].view("i8") < before.last_time
        wanted = plan.output == "event" or late
    found = by_column(window.extend(values, moments, "all" if wanted else "last"), plan)
    entered = results.enter(start, end, window.last_accepted)
    if isinstance(every, EveryCount):
        nth = places_due(every, events, len(entered))
        results.add(key, entered[nth], {alias: column[nth] for alias, column in found.items()})
    else:
        results.add(key, entered, found)
    return entered


def _revise(window: Window, given: Given, plan: Plan, results: Results) -> Ints:
    """As ``_take_in``, and the rows whose results have changed."""
    revision = window.revise(given.values, given.moments)
    entered = results.enter(given.start, given.end, window.last_accepted)
    if len(entered):
        new, again = revision.index >= 0, revision.index < 0
        if plan.output == "last":
            again[:-1] = False  # the key's newest event alone, whenever it came
        results.add_again(given.key, given.start, revision, again)
        if plan.output == "event" or not again[-1]:
            found = {alias: column[new] for alias, column in revision.results.items()}
            results.add(given.key, entered, found)
    return entered


def _expire(
    bucket: Bucket, plan: Plan, windows: Windows, results: Results, watermark: int | None
) -> int | None:
    """Forget the keys whose windows time has emptied; return when to look again."""
    for handle in take_doomed(bucket):
        windows.restore(handle).delete_pages()
    if plan.lifetime is None:
        return None
    if watermark is not None:
        for key, moment, saved in forget(bucket, plan, watermark):
            if plan.by_boundaries:
                window = windows.restore(saved.handle)
                results.add_due(key, results_of_silence(window, plan, saved))
            elif plan.silent == "emit":
                results.add_emptied(key, moment)
    return next_call(bucket, plan, watermark)
