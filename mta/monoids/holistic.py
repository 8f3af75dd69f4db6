"""Exact results that need every value of the window: its values as sorted runs.

A partial is a few sorted runs of values: combining two puts their runs side by side, and copies
none. Where there are many, the shortest are merged into one, so that a value is merged O(log n)
times. Runs are never changed, so that the suffix folds of a stack share theirs.

    1 3 4 7 | 2 9 | 5      and      6       =      1 3 4 7 | 2 9 | 5 | 6

The cost for a window of n events: 8 bytes per event in each of the O(log n) levels of pages, and
O(n) for most results, O(runs * log n) for quantiles. Where windows are answered from their events
(``mta.monoids.ranges``), all results together take a few passes, whatever n is: in ``rolling``, in
vectorized ``KeyedWindows`` and Spark, and in batches that are not much shorter than the window.

Values are numbers, or with ``dtype=str`` text or other objects of a type that Python orders.
Nothing is rounded. Where NaN is accepted, it is greater than all numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from mta.columns import codec
from mta.columns.reading import plain
from mta.columns.schemas import Array, Decimals, Objects, Rows, Schema
from mta.monoids.base import AbstractMonoid, Out, Partial
from mta.monoids.ranges import RangeFolds, RangeMonoid
from mta.monoids.summary import SummaryMonoid

#: Sorted values: an array of numbers, or a list of objects.
Run = Any
#: More runs than these are merged: where values come one by one, and where partials are combined,
#: which often is for one result.
_RUNS, _MOST_RUNS = 8, 32
#: Runs that serve many rows are merged if these are fewer values than so many per row: to sort them
#: takes as long as to look into a few runs more for each row.
_SERVED = 64
#: About what a partial weighs in a page, from which sizes of groups follow.
_ROW_BYTES = 512


class SortedRuns:
    """Values as sorted runs of their own, and those of a ``rest`` that many partials share."""

    __slots__ = ("own", "rest")

    def __init__(self, own: Sequence[Run] = (), rest: SortedRuns | None = None) -> None:
        self.own, self.rest = list(own), rest

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return self.own if self.rest is None else self.own + self.rest.runs

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SortedRuns) or len(self) != len(other):
            return False
        one, two = self.merged(), other.merged()
        if isinstance(one, np.ndarray):
            return np.array_equal(one, two, equal_nan=one.dtype.kind in "fmM")
        return bool(one == two)

    __hash__ = None  # type: ignore[assignment]

    def take(self, runs: Sequence[Run], most: int) -> None:
        """Add runs; where there would be more than ``most``, merge the shortest ones.

        A run is merged once shorter runs have half as many values, so each value O(log n) times.
        """
        self.own += runs
        at = len(self.own) - 1
        if at < most:
            return
        self.own.sort(key=len, reverse=True)
        size = len(self.own[at])
        while at and (at > most - 2 or len(self.own[at - 1]) <= 2 * size):
            at -= 1
            size += len(self.own[at])
        self.own[at:] = [merged(self.own[at:])]

    def settled(self, rows: int) -> SortedRuns:
        """The same, as a single run from now on where it serves so many rows that this pays."""
        if (self.rest is not None or len(self.own) > 1) and len(self) < rows * _SERVED:
            self.own, self.rest = [self.merged()], None
        return self

    def merged(self) -> Run:
        """All values, sorted."""
        runs = self.runs
        return runs[0] if len(runs) == 1 else merged(runs)


def merged(runs: Sequence[Run]) -> Run:
    """Runs as one."""
    if not runs or isinstance(runs[0], list):
        return sorted(chain.from_iterable(runs), key=_order)
    return np.sort(np.concatenate(runs))


def _order(value: Any) -> Any:
    """What objects are sorted by: first their types, as these may have no order."""
    return type(value).__name__, value


class Holistic(SummaryMonoid[Out], RangeMonoid[Out]):
    """A monoid of all values of a window, in any order; a subclass has the answer.

    ``dtype`` is a type of numbers, ``Decimals``, or str for text and other objects.
    """

    def __init__(
        self, name: str, dtype: Any, empty: Any = None, result_type: str | None = None
    ) -> None:
        inputs = schema_of(dtype)
        kind = _text_of(inputs)
        name = f"{name}[{kind}]" if kind else name
        super().__init__(name, _ROW_BYTES, inputs, empty, result_type)
        #: Numbers lie in columns, and are sorted at once.
        self.is_columnar = isinstance(inputs, Array)

    @property
    def taken_as_they_come(self) -> frozenset[type]:
        is_double = isinstance(self.inputs, Array) and self.inputs.kind == "<f8"
        return frozenset({float}) if is_double else super().taken_as_they_come

    @abstractmethod
    def answer(self, summary: SortedRuns) -> Out:
        """The result of values."""

    def new(self) -> SortedRuns:
        return SortedRuns()

    def is_summary(self, partial: Partial) -> bool:
        return type(partial) is SortedRuns

    def add(self, summary: SortedRuns, values: Any) -> None:
        summary.take([self.column(values, in_order=True)], _RUNS)

    def merge(self, summary: SortedRuns, other: SortedRuns) -> SortedRuns:
        summary.take(other.runs, _MOST_RUNS)
        return summary

    def _combine(self, left: Partial, right: Partial) -> Partial:
        if left is None or right is None:
            return right if left is None else left
        one, other = self._as_runs(left), self._as_runs(right)
        if one.rest is None:
            one, other = other, one
        found = SortedRuns(one.own, one.rest)
        single = type(left) is not SortedRuns or type(right) is not SortedRuns
        found.take(other.runs, _RUNS if single else _MOST_RUNS)
        return found

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        """What serves for every row is the rest of each; rests are combined once for all rows."""
        if len(left) == len(right):
            return super().combine_rows(left, right, count)
        rows, one = (left, right[0]) if len(right) == 1 else (right, left[0])
        if one is None:
            return list(rows)
        shared, rests = self._as_runs(one).settled(len(rows)), dict[int, SortedRuns]()
        found = []
        for row in rows:
            if row is None:
                found.append(one)
                continue
            runs = self._as_runs(row)
            rest = shared
            if runs.rest is not None:
                at = id(runs.rest)
                if at not in rests:
                    rests[at] = self._combine(runs.rest, shared).settled(len(rows))
                rest = rests[at]
            found.append(SortedRuns(runs.own, rest))
        return found

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        """As of any monoid; all of them share what is on the right."""
        rows = super().suffixes(partials, count, self.identity)
        return self.combine_rows(rows, [right], count + 1)

    def _as_runs(self, partial: Partial) -> SortedRuns:
        """A partial that holds values as runs."""
        if type(partial) is SortedRuns:
            return partial
        return SortedRuns([self.column((partial,))])

    def agree(self, one: SortedRuns, other: SortedRuns) -> bool:
        return one == other

    def to_bytes(self, summary: SortedRuns) -> bytes:
        run = summary.merged()
        return run.tobytes() if isinstance(self.inputs, Array) else codec.pack(run)

    def from_bytes(self, data: bytes) -> SortedRuns:
        if not isinstance(self.inputs, Array):
            run = codec.unpack(data)
            if type(run) is not list or not run:
                raise ValueError("it is not a list of values")
            if any(map(_decreases, run, run[1:])):
                raise ValueError("its values are not sorted")
            return SortedRuns([run])
        run = np.frombuffer(data, self.inputs.dtype)
        if not len(run) or (run[1:] < run[:-1]).any():
            raise ValueError("it has no values, or they are not sorted")
        return SortedRuns([run])

    def column(self, values: Any, in_order: bool = False) -> Run:
        """Values as an array of numbers, or a list of objects."""
        if not isinstance(self.inputs, Array):
            return sorted(values, key=_order) if in_order else list(values)
        column = np.asarray(values, self.inputs.dtype)
        return np.sort(column) if in_order else column

    def codes(self, folds: RangeFolds) -> tuple[Run, np.ndarray, RangeFolds]:
        """The distinct values of all ranges, sorted, and for each row the place of its value.

        With the ranges of those rows that have one.
        """
        folds = folds.without(self.identity)
        values = self.column(folds.lifted)
        if isinstance(values, np.ndarray):
            distinct, codes = np.unique(values, return_inverse=True)
            return distinct, codes, folds
        marks = list(map(_order, values))
        known = sorted(set(marks))
        places = {mark: at for at, mark in enumerate(known)}
        codes = np.fromiter(map(places.__getitem__, marks), np.int64, len(marks))
        return [value for _, value in known], codes, folds

    def shown(self, value: Any) -> Any:
        """A value as users have it."""
        if isinstance(self.inputs, Decimals):
            return self.inputs.shown(np.array([value]))[0]
        return plain(value)

    def counts(self, summary: SortedRuns) -> tuple[Run, np.ndarray]:
        """The distinct values of a window, sorted, and how often each is there."""
        values = summary.merged()
        if isinstance(values, np.ndarray):
            return np.unique(values, return_counts=True)
        marks = list(map(_order, values))
        starts = [at for at, mark in enumerate(marks) if not at or marks[at - 1] != mark]
        return [values[at] for at in starts], np.diff([*starts, len(values)])


class ValueMonoid(Holistic[Out]):
    """A holistic monoid of values of any type: that of its column, unless ``dtype`` is given."""

    def __init__(
        self, name: str, dtype: Any, empty: Any = None, result_type: str | None = None
    ) -> None:
        self._follows = dtype is None
        super().__init__(name, dtype, empty, result_type)

    def of_types(self, *types: Any) -> AbstractMonoid:
        if not self._follows:
            return self
        return self.with_type("f8" if types[0] is None else types[0])

    @abstractmethod
    def with_type(self, dtype: Any) -> AbstractMonoid:
        """The same, of values of a type."""


def schema_of(dtype: Any) -> Schema:
    """The column of values of a type: objects for str and None."""
    if isinstance(dtype, Schema):
        return dtype
    return Objects() if dtype in (None, str) else Array(dtype)


def _text_of(schema: Schema) -> str:
    """What a name says of a type, if anything."""
    if type(schema) is not Array:
        return repr(schema) if isinstance(schema, Array) else ""
    return "" if schema.kind == "<f8" else schema.dtype.name


def _decreases(one: Any, other: Any) -> bool:
    return bool(_order(other) < _order(one))
