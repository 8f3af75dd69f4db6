"""Exact results that need every value of the window, stored as sorted runs.

A partial is a few sorted runs of values. Combining two partials concatenates their lists of runs
and copies no values. If there are many runs, the shortest are merged into one, so each value is
merged O(log n) times. Runs are immutable, so the suffix folds of a stack can share them.

    1 3 4 7 | 2 9 | 5      and      6       =      1 3 4 7 | 2 9 | 5 | 6

A window of n events takes 8 bytes per event in each of the O(log n) levels of pages. A result costs
O(runs * log n) for quantiles, and O(n) for most other aggregations. Where windows compute results
from ranges of events (``mta.monoids.ranges``), all results together take a few passes, whatever n
is. This applies to ``rolling``, to vectorized ``KeyedWindows`` and Spark, and to batches that are
not much shorter than the window.

Values are numbers or, with ``dtype=str``, text or other objects of a type that Python orders.
Nothing is rounded. If NaN is accepted, it is one value, which is greater than all numbers. Among
objects, numbers of all types are ordered by size, before other objects; 2, 2.0 and Decimal(2) are
one value, which is returned in the type that comes first in ``_NUMBERS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from mta.columns import codec
from mta.columns.reading import plain
from mta.columns.schemas import Array, Coded, Decimals, Objects, Rows, Schema
from mta.columns.texts import TextColumn, Words
from mta.monoids.base import AbstractMonoid, Monoid, Out, Partial
from mta.monoids.columnar import named
from mta.monoids.ranges import PLAINLY_ORDERED, RangeFolds, RangeMonoid, ranked
from mta.monoids.summary import SummaryMonoid

#: Sorted values: an array of numbers, or a list of objects.
Run = Any
#: The largest number of runs: for values that arrive one by one, and for combined partials.
_RUNS, _MOST_RUNS = 8, 32
#: Runs that many rows share are merged if they hold fewer values than this per row: sorting them
#: then takes as long as searching a few more runs for each row.
_SERVED = 64
#: The approximate size of a partial in a page; it determines the sizes of groups.
_ROW_BYTES = 512
#: The types of numbers, in the order in which equal numbers are returned.
_NUMBERS = {int: 0, float: 1, Decimal: 2, bool: 3}


class SortedRuns:
    """Values as sorted runs: the partial's ``own``, and a ``rest`` that many partials share."""

    __slots__ = ("own", "rest")

    def __init__(self, own: Sequence[Run] = (), rest: SortedRuns | None = None) -> None:
        self.own, self.rest = list(own), rest

    @property
    def runs(self) -> list[Run]:
        return self.own if self.rest is None else self.own + self.rest.runs

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SortedRuns) or len(self) != len(other):
            return False
        one, two = self.merged(), other.merged()
        if isinstance(one, np.ndarray):
            return np.array_equal(one, two, equal_nan=one.dtype.kind in "fmM")
        return list(map(_order, one)) == list(map(_order, two))

    __hash__ = None  # type: ignore[assignment]

    def take(self, runs: Sequence[Run], most: int) -> None:
        """Add runs; if there would be more than ``most``, merge the shortest ones.

        A run is merged once shorter runs hold half as many values: O(log n) merges per value.
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
        """Merge the runs into one if enough rows share them, and return this object."""
        if (self.rest is not None or len(self.own) > 1) and len(self) < rows * _SERVED:
            self.own, self.rest = [self.merged()], None
        return self

    def merged(self) -> Run:
        """Return all values, sorted."""
        runs = self.runs
        return runs[0] if len(runs) == 1 else merged(runs)


def merged(runs: Sequence[Run]) -> Run:
    """Merge runs into one."""
    if not runs or isinstance(runs[0], list):
        return _sorted(list(chain.from_iterable(runs)))
    return np.sort(np.concatenate(runs))


def _sorted(values: list[Any]) -> list[Any]:
    """Return objects in the order of ``_order``."""
    kinds = set(map(type, values))
    is_plain = len(kinds) < 2 and kinds <= PLAINLY_ORDERED
    return sorted(values) if is_plain else sorted(values, key=_order)


def _order(value: Any) -> tuple[Any, ...]:
    """Return the sort key of an object; those of equal values have the same ``_value``.

    Numbers come first, then objects by the names of their types, as types may not be comparable.
    The rest of a number's key orders equal ones, so that results do not depend on how runs merge.
    """
    kind = type(value)
    if kind not in _NUMBERS:
        return kind.__name__, value
    if value != value:
        return "", True, 0, _NUMBERS[kind]
    form = repr(value) if kind is Decimal or not value else ""
    return "", False, value, _NUMBERS[kind], form


def _value(order: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the part of a sort key that equal values share."""
    return order[:3]


class Holistic(SummaryMonoid[Out], RangeMonoid[Out]):
    """A monoid of all values of a window, in any order; subclasses implement ``answer``.

    ``dtype`` is a numeric type, ``Decimals``, ``LongDecimals``, or str for text and other objects.
    """

    def __init__(
        self, name: str, dtype: Any, empty: Any = None, result_type: str | None = None
    ) -> None:
        self._follows, inputs = dtype is None, dtype
        if not isinstance(dtype, Schema):
            inputs = Objects() if dtype in (None, str) else Array(dtype)
        if isinstance(inputs, Coded):
            name = f"{name}[{inputs!r}]"
        name = named(name, inputs) if isinstance(inputs, Array) else name
        super().__init__(name, _ROW_BYTES, inputs, empty, result_type)
        #: Numbers are stored in arrays, which one call sorts.
        self.is_columnar = isinstance(inputs, Array)

    @property
    def taken_as_they_come(self) -> frozenset[type]:
        is_double = isinstance(self.inputs, Array) and self.inputs.kind == "<f8"
        is_usual = is_double and type(self).is_valid is Monoid.is_valid
        return frozenset({float}) if is_usual else super().taken_as_they_come

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
        """Combine row by row. A single row becomes the ``rest`` that all results share."""
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
        """As in the base class, but all suffixes share ``right``."""
        rows = super().suffixes(partials, count, self.identity)
        return self.combine_rows(rows, [right], count + 1)

    def lower_rows(self, partials: Rows) -> Rows:
        found = super().lower_rows(partials)
        return np.asarray(found, self.outputs.dtype) if isinstance(self.outputs, Array) else found

    def results(self, outputs: Rows) -> Any:
        return outputs if isinstance(self.outputs, Array) else super().results(outputs)

    def _as_runs(self, partial: Partial) -> SortedRuns:
        """Convert a partial, which may be a single value, to runs."""
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
            if isinstance(self.inputs, Coded) and set(map(type, run)) != {int}:
                raise ValueError(f"its values are not of {self.inputs!r}")
            if any(_order(other) < _order(one) for one, other in pairwise(run)):
                raise ValueError("its values are not sorted")
            return SortedRuns([run])
        run = np.frombuffer(data, self.inputs.dtype)
        if not len(run) or (run[1:] < run[:-1]).any():
            raise ValueError("it has no values, or they are not sorted")
        return SortedRuns([run])

    def column(self, values: Any, in_order: bool = False) -> Run:
        """Convert values to an array of numbers, or a list of objects."""
        if not isinstance(self.inputs, Array):
            return _sorted(list(values)) if in_order else list(values)
        column = np.asarray(values, self.inputs.dtype)
        return np.sort(column) if in_order else column

    def codes(self, folds: RangeFolds) -> tuple[Run, np.ndarray, RangeFolds]:
        """Return the distinct values of all ranges, sorted, and the index of each row's value.

        The returned ranges leave out rows without a value. The values are None if some of them are
        equal numbers of different types: which of these to return then depends on the range.
        """
        folds = folds.without(self.identity)
        if isinstance(folds.lifted, TextColumn):
            return folds.lifted.words, folds.lifted.codes, folds
        values = self.column(folds.lifted)
        if isinstance(values, np.ndarray):
            distinct, codes = np.unique(values, return_inverse=True)
            return distinct, codes, folds
        if len(kinds := set(map(type, values))) == 1 and kinds <= PLAINLY_ORDERED:
            return *ranked(values), folds
        orders = list(map(_order, values))
        known = dict(sorted(zip(orders, values, strict=True), key=itemgetter(0)))
        places = {mark: at for at, mark in enumerate(dict.fromkeys(map(_value, known)))}
        codes = np.fromiter((places[_value(order)] for order in orders), np.int64, len(orders))
        return list(known.values()) if len(known) == len(places) else None, codes, folds

    def all_shown(self, values: Any) -> list[Any]:
        """Convert distinct values to what users see."""
        return values.texts if isinstance(values, Words) else [*map(self.shown, values)]

    def shown(self, value: Any) -> Any:
        """Convert a value to what users see."""
        if isinstance(self.inputs, Decimals):
            return self.inputs.shown(np.array([value]))[0]
        if isinstance(self.inputs, Coded):
            return self.inputs.shown(value)
        return plain(value)

    def counts(self, summary: SortedRuns) -> tuple[Run, np.ndarray]:
        """Return the distinct values of a window, sorted, and their counts."""
        values = summary.merged()
        if isinstance(values, np.ndarray):
            return np.unique(values, return_counts=True)
        marks = [_value(_order(value)) for value in values]
        starts = [at for at, mark in enumerate(marks) if not at or marks[at - 1] != mark]
        return [values[at] for at in starts], np.diff([*starts, len(values)])


class ValueMonoid(Holistic[Out]):
    """A holistic monoid of values of any type; defaults to the type of its column."""

    def of_types(self, *types: Any) -> AbstractMonoid:
        if not self._follows:
            return self
        return self.with_type("f8" if types[0] is None else types[0])

    def with_type(self, dtype: Any) -> AbstractMonoid:
        """Return this monoid for values of a type."""
        return type(self)(dtype)  # type: ignore[call-arg]
