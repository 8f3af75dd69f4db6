"""One micro-batch of one bucket of keys: handles and rows in, handles and results out.

A pure function of its arguments and the pages in the store, free of Spark: the same state and the
same rows, in any order, give the same handles, the same results and the same pages. That is what
makes a replay harmless (design: a page is named by its content, so a replay writes it again under
its old name), and Spark's commit of state and results together then makes them exactly once.

Work per row is done by whole columns; Python runs once per key. The pages of all keys are made
durable by one flush at the end, before the handles leave the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mta import Window
from mta.errors import LateEvent
from stores.base import PageStore

from .plan import Plan
from .rows import Ints, Sorted, complete, sort_rows, to_numpy
from .states import Saved, decode_state, encode_state


class Advanced(NamedTuple):
    """What a step returns."""

    state: bytes
    rows: pa.Table
    dropped: int
    """Rows without key, time or value, invalid or late ones, that the plan said to drop."""


Step = Callable[[bytes | None, pa.Table, Plan, PageStore], Advanced]


def step(state: bytes | None, rows: pa.Table, plan: Plan, store: PageStore) -> Advanced:
    """Advance every key's window by its rows and return the results beside the rows.

    O(rows * log rows) for the sort, plus what ``Window.extend`` costs. The results are ordered by
    key and time: all accepted rows, or the last of each key. Raises NullKey, InvalidTime,
    InvalidValue, LateEvent, StateMismatch, CorruptState, and what the windows and the store raise;
    nothing is lost then, since the old state still stands.
    """
    saved = decode_state(state, plan.buckets, plan.fingerprint())
    group = sort_rows(complete(rows, plan), plan)
    moments = group.times.view("datetime64[us]")
    columns = {name: to_numpy(group.rows.column(name)) for name in plan.values}
    results = Results(plan, group.rows, len(group.keys))
    windows = Windows(plan, store)
    wanted: Literal["all", "last"] = "all" if plan.output == "event" else "last"
    try:
        for i, (key, name) in enumerate(zip(group.keys, group.names, strict=True)):
            before = saved.get(key)
            first, end = group.bounds[i], group.bounds[i + 1]
            start = first if before is None else _skip_late(group, i, before.last_time, plan)
            window = windows.open(name, before)
            # Where no aggregation reads a column, a batch is only as many events as it is long.
            values = {column: array[start:end] for column, array in columns.items()}
            found = window.extend(values or range(start, end), moments[start:end], wanted)
            newest = results.add(found, first, start, end, window.last_accepted)
            if newest is not None and not plan.temporary:
                # The pages behind this handle are durable only after the flush below.
                saved[key] = Saved(int(group.times[newest]), window.checkpoint(barrier=False))
    finally:
        windows.discard_temporary()
    store.flush()
    after = encode_state(saved, plan.buckets, plan.fingerprint())
    return Advanced(after, results.table(), rows.num_rows - results.accepted)


def _skip_late(group: Sorted, i: int, last_time: int, plan: Plan) -> int:
    """Where the key's rows begin that are not older than its last event. Raises LateEvent."""
    first, end = group.bounds[i], group.bounds[i + 1]
    if group.times[first] >= last_time:
        return first
    late = int(np.searchsorted(group.times[first:end], last_time))
    if plan.late == "error":
        raise LateEvent(
            f"{late} of {end - first} events of key {group.names[i]} are older than its last one, "
            f"at {np.datetime64(last_time, 'us')}, the oldest by {plan.time!r} at "
            f"{np.datetime64(int(group.times[first]), 'us')}; let the source deliver in order, or "
            "set late='drop' to drop and count them"
        )
    return first + late


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
            # What all windows have in common is made once, in a window that takes no events.
            if self._kind is None:
                self._kind = self._empty("any")
            return self._kind.sibling(saved.handle)
        window = self._empty(name)
        if self._plan.temporary:
            self._temporary.append(window)
        else:
            # To begin anew is what a retry of this batch does, and a twin of this attempt right
            # now: their pages are the same, so none may go before the batch is committed.
            window.hold()
        return window

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


class Results:
    """The output table, grown key by key in arrays that are allocated once."""

    def __init__(self, plan: Plan, rows: pa.Table, keys: int) -> None:
        last = plan.output == "last"
        size = keys if last else rows.num_rows
        self._rows = rows
        self._types = plan.results
        self._arrays = {
            alias: np.empty(size, _numpy_type(kind)) for alias, kind in plan.results.items()
        }
        #: With output "last" the rows that have a result, otherwise those that have none.
        self._picked: list[int] | None = [] if last else None
        self._dropped: list[Ints] = []
        self._size = 0
        self.accepted = 0
        """How many rows entered a window."""

    def add(
        self,
        found: dict[str, npt.NDArray[Any]],
        first: int,
        start: int,
        end: int,
        accepted: npt.NDArray[np.bool_] | None,
    ) -> int | None:
        """Take over a key's results; return its newest row that entered the window, if any did.

        The key has the rows ``first`` to ``end``; those before ``start`` came too late, and of the
        others the ``accepted`` ones entered (None: all).
        """
        if first < start:
            self._dropped.append(np.arange(first, start))
        newest, count = end - 1, end - start
        if accepted is not None:
            self._dropped.append(start + np.flatnonzero(~accepted))
            inside = np.flatnonzero(accepted)
            count = len(inside)
            newest = start + int(inside[-1]) if count else -1
        if count == 0:
            return None
        self.accepted += count
        if self._picked is not None:
            self._picked.append(newest)
            count = 1
        size = self._size + count
        for alias, array in self._arrays.items():
            array[self._size : size] = found[alias]
        self._size = size
        return newest

    def table(self) -> pa.Table:
        """The rows that have a result, with a column for each aggregation."""
        rows = self._rows
        if self._picked is not None:
            rows = rows.take(pa.array(self._picked, pa.int64()))
        elif self._dropped:
            kept = np.ones(rows.num_rows, np.bool_)
            kept[np.concatenate(self._dropped)] = False
            rows = rows.filter(pa.array(kept))
        for alias, array in self._arrays.items():
            rows = rows.append_column(alias, to_arrow(array[: self._size], self._types[alias]))
        return rows


def _numpy_type(kind: pa.DataType) -> npt.DTypeLike:
    primitive = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind.to_pandas_dtype() if primitive else object


def to_arrow(results: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Results as an Arrow column of the type that the query declared."""
    if results.dtype == object and pa.types.is_string(kind):
        results = np.array([None if r is None else str(r) for r in results], dtype=object)
    return pa.array(results, type=kind)
