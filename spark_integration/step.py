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

from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from mta import Window
from mta.errors import LateEvent
from stores.base import PageStore

from .packing import Counts
from .plan import Plan
from .results import Results
from .rows import Sorted, complete, sort_rows, to_numpy
from .silence import forget, next_call, silences, take_doomed
from .states import Bucket, Saved, decode_state, encode_state


class Advanced(NamedTuple):
    """What a step returns."""

    state: bytes
    rows: pa.Table
    late: int = 0
    """Rows older than their key's last one, or than keys of their bucket that were forgotten."""
    invalid: int = 0
    """Rows without key, time or value, or with one that no window takes."""
    dropped: int = 0
    """Rows that are not among the results."""
    timer: int | None = None
    """Once the watermark is later than this, in microseconds, the step must run again."""

    def counts(self, read: int) -> Counts:
        """What became of the ``read`` rows that the step was given."""
        return Counts(read, self.dropped, self.late, self.invalid)


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
    bucket = decode_state(state, plan.buckets, plan.fingerprint())
    if plan.silent == "emit":
        rows = rows.cast(plan.schema)  # rows of silent keys have these types, and all must agree
    group = sort_rows(complete(rows, plan), plan)
    results = Results(plan, group)
    windows = Windows(plan, store)
    try:
        _slide(group, bucket, plan, windows, results)
    finally:
        windows.discard_temporary()
    timer = _expire(bucket, plan, windows, results, watermark)
    store.flush()
    after = encode_state(bucket, plan.buckets, plan.fingerprint())
    invalid = rows.num_rows - group.rows.num_rows + results.invalid
    dropped = invalid + (0 if plan.late == "side" else results.late)
    return Advanced(after, results.table(), results.late, invalid, dropped, timer)


def _slide(group: Sorted, bucket: Bucket, plan: Plan, windows: Windows, results: Results) -> None:
    """Every key's rows into its window, and what comes of them into bucket and results."""
    moments = group.times.view("datetime64[us]")
    columns = {name: to_numpy(group.rows.column(name)) for name in plan.values}
    wanted: Literal["all", "last"] = "all" if plan.output == "event" else "last"
    lifetime = plan.lifetime
    for i, (key, name) in enumerate(zip(group.keys, group.names, strict=True)):
        before = bucket.keys.get(key)
        end = group.bounds[i + 1]
        start = _first_on_time(group, i, before, bucket.forgotten, plan)
        results.add_late(group.bounds[i], start)
        if start == end:
            continue
        window = windows.open(name, before)
        # Where no aggregation reads a column, a batch is only as many events as it is long.
        values = {column: array[start:end] for column, array in columns.items()}
        found = window.extend(values or range(start, end), moments[start:end], wanted)
        newest = results.add(found, start, end, window.last_accepted)
        if newest is None:
            continue
        if lifetime is not None and plan.silent == "emit" and plan.output == "event":
            times, accepted = group.times[start:end], window.last_accepted
            times = times if accepted is None else times[accepted]
            for index, moment in silences(times, before and before.last_time, lifetime):
                results.add_emptied(key, moment, before=len(times) - index)
        if not plan.temporary:
            # The pages behind this handle are durable only after the flush of the step.
            bucket.keys[key] = Saved(int(group.times[newest]), window.checkpoint(barrier=False))


def _first_on_time(
    group: Sorted, i: int, before: Saved | None, forgotten: int | None, plan: Plan
) -> int:
    """Where the key's rows begin that are not late. Raises LateEvent."""
    first, end = group.bounds[i], group.bounds[i + 1]
    oldest = before.last_time if before else forgotten
    if oldest is None or group.times[first] >= oldest:
        return first
    late = int(np.searchsorted(group.times[first:end], oldest))
    if plan.late == "error":
        why = (
            "are older than its last one"
            if before
            else "are older than what silent keys, of which it may be one, were forgotten for"
        )
        raise LateEvent(
            f"{late} of {end - first} events of key {group.names[i]} {why}, "
            f"at {np.datetime64(oldest, 'us')}, the oldest by {plan.time!r} at "
            f"{np.datetime64(int(group.times[first]), 'us')}; let the source deliver in order"
            f"{'' if before else ' or the watermark wait longer'}, or set late='drop' to drop and "
            "count them, or late='side' to have them marked among the results"
        )
    return first + late


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
        for key, moment in forget(bucket, lifetime, watermark, plan.retain):
            if plan.silent == "emit":
                results.add_emptied(key, moment)
    return next_call(bucket, lifetime, watermark)


class Windows:
    """The windows of one bucket, opened from their handles."""

    def __init__(self, plan: Plan, store: PageStore) -> None:
        self._plan = plan
        self._store = store
        self._prefix = f"{plan.name}.{plan.fingerprint()[:4].hex()}:"
        self._temporary: list[Window] = []
        self._kind: Window | None = None

    def open(self, name: str, saved: Saved | None) -> Window:
        """The key's window as it was saved, or a new one."""
        if saved is not None:
            return self.restore(saved.handle)
        window = self._empty(name)
        if self._plan.temporary:
            self._temporary.append(window)
        else:
            # To begin anew is what a retry of this batch does, and a twin of this attempt right
            # now: their pages are the same, so none may go before the batch is committed.
            window.hold()
        return window

    def restore(self, handle: bytes) -> Window:
        """The window of a handle."""
        # What all windows have in common is made once, in a window that takes no events.
        if self._kind is None:
            self._kind = self._empty("any")
        return self._kind.sibling(handle)

    def _empty(self, name: str) -> Window:
        plan = self._plan
        return Window(
            plan.monoid,
            plan.policy,
            self._store,
            self._prefix + name,
            plan.arity,
            plan.leaf_arity,
            invalid=plan.invalid,
            retain=plan.retain,
        )

    def discard_temporary(self) -> None:
        """Delete the pages of a batch query's windows, also when the batch failed."""
        for window in self._temporary:
            window.delete_pages()
        self._temporary.clear()
