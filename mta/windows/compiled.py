"""Compiled stacks: results at once, for sums, means, maxima, minima and products of these.

There is one stack in C (``single.c``) for each window and each number of the aggregate. All of them
accept an event, or none does. They combine in the same order as ``stack.PlainStacks``, so results
have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import inf
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Array, Row, Rows
from mta.kernels import native
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.product import columns_read
from mta.windows.stack import Acceptance, Movement, WindowAhead

#: The code of each kind's operation in C. A partial is one number, and for a mean also a count.
_OPERATIONS = {"sum_f8": 0, "mean": 0, "max_f8": 1, "min_f8": -1}


class _Part(NamedTuple):
    """A number that a monoid aggregates."""

    alias: str
    is_mean: bool
    operation: int
    place: int
    """The column of a product's rows."""


class CompiledStacks:
    """The compiled stacks of windows. All of them accept an event, or none does."""

    __slots__ = (
        "_is_product", "_keys", "_monoid", "_names", "_parts", "_pick", "_pool", "_stacks",
    )  # fmt: skip

    def __init__(self, monoid: AbstractMonoid, parts: Sequence[_Part]) -> None:
        self._monoid, self._parts = monoid, tuple(parts)
        self._is_product = monoid.names_results
        #: Extracts the columns of an event for a product.
        self._pick = monoid.picks_doubles
        #: The stacks of each window that was loaded once, one per part.
        self._pool: dict[str, tuple[Any, ...]] = {}
        #: The names of the loaded windows, and their stacks.
        self._names: list[str] = []
        self._stacks: tuple[Any, ...] = ()
        #: The key of each stack: the window, the part, or both.
        self._keys: tuple[Any, ...] = ()

    @classmethod
    def of(cls, monoid: AbstractMonoid) -> CompiledStacks | None:
        """Return stacks without windows, or None if no compiled stack supports the monoid."""
        if native.compiled is None or (monoid.names_results and monoid.picks_doubles is None):
            return None
        parts, stored = list[_Part](), list(monoid.stored)
        for alias, (columns, each) in monoid.by_alias().items():
            if (part := _part_of(each)) is None:
                return None
            read = columns_read(columns, each)
            parts.append(part._replace(alias=alias, place=stored.index(read[0]) if read else 0))
        return cls(monoid, parts)

    @property
    def windows(self) -> list[str]:
        """The names of the loaded windows."""
        return self._names

    def clear(self) -> None:
        """Discard everything; no event can be added."""
        self._names, self._stacks = [], ()

    def load(self, windows: Mapping[str, WindowAhead], accepted: Acceptance) -> None:
        """Load the prefetched data of windows; from then on, events can be added."""
        self._names = list(windows)
        for name, window in windows.items():
            if name not in self._pool:
                self._pool[name] = tuple([native.compiled.Stack() for _ in self._parts])
            found = window.found
            columns: Sequence[Rows] = found.folds if self._is_product else [found.folds]
            rights = found.right if self._is_product else [found.right]
            pairs = zip(self._parts, self._pool[name], columns, rights, strict=True)
            for part, stack, folds, right in pairs:
                _load(part, stack, window, accepted, folds, right)
        self._stacks = tuple([stack for name in windows for stack in self._pool[name]])
        self._keys = tuple(self._names)
        if self._is_product:
            aliases, is_only = [part.alias for part in self._parts], len(windows) == 1
            self._keys = tuple(aliases if is_only else product(windows, aliases))

    @property
    def event(self) -> Callable[[Any, float], Any]:
        """The function that adds an event of a value and a time; see ``SingleEvents.event``."""
        if self._pick is not None:
            return self._event_of_product
        return self._stacks[0].event if len(self._names) == 1 else self.add

    def _event_of_product(self, value: Any, micros: float) -> Any:
        """Add an event whose columns are all doubles."""
        assert self._pick is not None
        try:
            row = self._pick(value)
        except (KeyError, TypeError, IndexError):
            return None
        return None if row is None else self.add(row, micros)

    def add(self, row: Row, time: float) -> Any:
        """Add an event; return the result of the only window, or the results by window and part.

        None, with nothing changed, if it cannot be added.
        """
        found = native.compiled.events(self._stacks, row, time, self._keys)
        if found is None or len(self._names) > 1 or self._is_product:
            return found
        return found[self._names[0]]

    def computed(self) -> Any:
        """Return the results as ``add`` does, without an event; at most one combine each."""
        combine, lower = self._monoid.combine, self._monoid.lower
        pairs = self.aggregates()
        found = [lower(right if left is None else combine(left, right)) for left, right in pairs]
        return found[0] if len(found) == 1 else self.keyed(found)

    def keyed(self, results: Sequence[Any]) -> dict[Any, Any]:
        """Return the results of multiple windows as ``add`` does."""
        if self._is_product:
            results = [number for each in results for number in each.values()]
        return dict(zip(self._keys, results, strict=True))

    def results(self, shown: dict[Any, Any]) -> dict[str, Any]:
        """Return results that ``add`` has returned by window, as new dictionaries."""
        if len(self._names) == 1:
            return {self._names[0]: shown.copy() if self._is_product else shown}
        if not self._is_product:
            return shown.copy()
        found: dict[str, Any] = {name: {} for name in self._names}
        for (name, alias), number in shown.items():
            found[name][alias] = number
        return found

    @property
    def came(self) -> int:
        """The number of events that arrived."""
        stack = self._stacks[0]
        count: int = stack.count - stack.waiting
        return count

    def evict(self) -> bool:
        """Evict the oldest event of the only window if another fold follows; return whether."""
        return all(stack.evict() for stack in self._stacks)

    def events(self) -> tuple[Rows, np.ndarray]:
        """Return the values and the times of the events that arrived, in order of arrival."""
        firsts = zip(self._parts, self._stacks, strict=False)  # those of the first window
        columns = {part.place: np.frombuffer(stack.column(False), "<f8") for part, stack in firsts}
        rows = tuple([columns[at] for at in sorted(columns)]) if self._is_product else columns[0]
        return rows, np.frombuffer(self._stacks[0].column(True), "<f8")

    def moved(self) -> Iterator[tuple[str, Movement]]:
        """Yield how each window has changed."""
        for name in self._names:
            stacks = self._pool[name]
            yield name, Movement(stacks[0].entered, stacks[0].left, self._rights(stacks))

    def aggregates(self) -> Iterator[tuple[Partial | None, Partial]]:
        """Yield the aggregates of each window's older events, None without any, and newer ones."""
        for stacks in (self._pool[name] for name in self._names):
            lefts = [
                (stack.fold(), float(stack.length - stack.newer)) if part.is_mean else stack.fold()
                for part, stack in zip(self._parts, stacks, strict=True)
            ]
            has_older = stacks[0].fold() is not None
            older = tuple(lefts) if self._is_product else lefts[0]
            yield older if has_older else None, self._rights(stacks)

    def _rights(self, stacks: Sequence[Any]) -> Partial:
        rights = [
            (stack.right, float(stack.newer)) if part.is_mean else stack.right
            for part, stack in zip(self._parts, stacks, strict=True)
        ]
        return tuple(rights) if self._is_product else rights[0]


def _part_of(monoid: AbstractMonoid) -> _Part | None:
    if not isinstance(monoid, ColumnarMonoid) or not monoid.kernel_lowers or monoid.kernel is None:
        return None
    kind, inputs = monoid.kernel.kind, monoid.inputs
    takes_doubles = isinstance(inputs, Array) and inputs.dtype == np.dtype("<f8")
    if kind not in _OPERATIONS or not takes_doubles:
        return None
    return _Part("", kind == "mean", _OPERATIONS[kind], 0)


def _load(
    part: _Part, stack: Any, window: WindowAhead, limits: Acceptance, folds: Rows, right: Partial
) -> None:
    found, lag, by_count = window.found, window.found.lag, window.by_count
    stack.newer, stack.place = 0, part.place
    if part.is_mean:
        folds, (right, stack.newer) = folds[0], (right[0], int(right[1]))
    stack.operation, stack.is_mean, stack.right = part.operation, part.is_mean, right
    stack.by_count, stack.turns, stack.length = by_count, found.turns, window.length
    stack.spare, stack.age = (window.spare, 0.0) if by_count else (0, float(window.size))
    stack.most = limits.room
    stack.last, stack.bound = limits.last, limits.bound
    stack.floor, stack.lateness = limits.late_from, limits.lateness
    values = times = np.empty(0)
    stack.delay, stack.rows = 0.0, 0
    if lag is not None:
        stack.delay, stack.rows, size = float(lag.delay), lag.rows, lag.waiting.size
        rows, waiting = lag.waiting.rows, lag.waiting.times
        values = rows[part.place] if isinstance(rows, tuple) else rows
        times = np.full(size, -inf) if waiting is None else waiting.astype("<f8")
    leaving = np.empty(0) if by_count else found.leaving.astype("<f8")
    stack.load(np.ascontiguousarray(folds), leaving, np.ascontiguousarray(values), times)
