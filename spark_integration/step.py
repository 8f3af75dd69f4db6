"""One micro-batch of one bucket of keys: handles and rows in, handles and results out.

A pure function of its arguments and the pages in the store, free of Spark: the same state and the
same rows, in any order, give the same state, the same results and the same pages. That is what
makes a replay harmless (design: a page is named by its content, so a replay writes it again under
its old name), and Spark's commit of state and results together then makes them exactly once.

Work per row is done by whole columns; Python runs once per key. The pages of all keys are made
durable by one flush at the end, before the handles leave the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mta import Window
from stores.base import PageStore

from .plan import Plan
from .rows import Sorted, complete, sort_rows, to_numpy
from .states import decode_state, encode_state


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
    InvalidValue, StateMismatch, CorruptState, and what the windows and the store raise; nothing is
    lost then, since the old state still stands.
    """
    handles = decode_state(state, plan.buckets, plan.fingerprint())
    usable = complete(rows, plan)
    group = sort_rows(usable, plan)
    results = Results(plan, group)
    windows = Windows(plan, store, handles)
    columns = {name: to_numpy(group.rows.column(name)) for name in plan.values}
    try:
        for i, (key, name) in enumerate(zip(group.keys, group.names, strict=True)):
            here = slice(group.bounds[i], group.bounds[i + 1])
            window = windows.open(key, name)
            values = {column: array[here] for column, array in columns.items()}
            found = window.extend(values, times=group.times[here], results=windows.wanted)
            results.add(found, here, window.last_accepted)
            windows.save(key, window)
    finally:
        windows.discard_temporary()
    store.flush()
    dropped = rows.num_rows - results.accepted
    return Advanced(
        encode_state(handles, plan.buckets, plan.fingerprint()), results.table(), dropped
    )


class Windows:
    """The windows of one bucket: opened from their handles, and saved into them."""

    def __init__(self, plan: Plan, store: PageStore, handles: dict[bytes, bytes]) -> None:
        self.wanted = "all" if plan.output == "event" else "last"
        self._plan = plan
        self._store = store
        self._handles = handles
        self._prefix = f"{plan.name}.{plan.fingerprint()[:4].hex()}:"
        self._temporary: list[Window] = []

    def open(self, key: bytes, name: str) -> Window:
        """The key's window as its handle has it, or a new one."""
        plan = self._plan
        handle = self._handles.get(key)
        if handle is not None:
            return Window.restore(
                handle,
                plan.monoid,
                plan.policy,
                store=self._store,
                late=plan.late,
                invalid=plan.invalid,
            )
        window = Window(
            plan.monoid,
            plan.policy,
            store=self._store,
            name=self._prefix + name,
            **plan.window_options(),
        )
        if plan.temporary:
            self._temporary.append(window)
        return window

    def save(self, key: bytes, window: Window) -> None:
        """Keep the window's handle; its pages are durable only after the store's next flush."""
        if not self._plan.temporary:
            self._handles[key] = window.checkpoint(barrier=False)

    def discard_temporary(self) -> None:
        """Delete the pages of a batch query's windows, also when the batch failed."""
        for window in self._temporary:
            window.delete_pages()
        self._temporary.clear()


class Results:
    """The output table, grown key by key in arrays that are allocated once."""

    def __init__(self, plan: Plan, group: Sorted) -> None:
        size = len(group.keys) if plan.output == "last" else group.rows.num_rows
        self._last = plan.output == "last"
        self._rows = group.rows
        self._types = plan.results
        self._arrays = {
            alias: np.empty(size, _numpy_type(kind)) for alias, kind in plan.results.items()
        }
        self._picked = np.empty(size, np.int64) if self._last else None
        self._kept: npt.NDArray[np.bool_] | None = None
        self._size = 0
        self.accepted = 0
        """How many rows entered a window."""

    def add(
        self,
        found: dict[str, npt.NDArray[Any]],
        here: slice,
        accepted: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Take over the results of the rows ``here``, of which ``accepted`` entered (None: all)."""
        count = here.stop - here.start
        if accepted is not None:
            self._drop(here, accepted)
            count = int(np.count_nonzero(accepted))
        self.accepted += count
        if count == 0:
            return
        if self._picked is not None:
            at = count - 1 if accepted is None else np.flatnonzero(accepted)[-1]
            self._picked[self._size] = here.start + at
            count = 1
        end = self._size + count
        for alias, array in self._arrays.items():
            array[self._size : end] = found[alias]
        self._size = end

    def _drop(self, here: slice, accepted: npt.NDArray[np.bool_]) -> None:
        if self._kept is None:
            self._kept = np.ones(self._rows.num_rows, np.bool_)
        self._kept[here] = accepted

    def table(self) -> pa.Table:
        """The rows that have a result, with a column for each aggregation."""
        rows = self._rows
        if self._picked is not None:
            rows = rows.take(pa.array(self._picked[: self._size]))
        elif self._kept is not None:
            rows = rows.filter(pa.array(self._kept))
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
