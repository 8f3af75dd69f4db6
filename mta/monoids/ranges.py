"""Monoids that answer ranges of events better from the events than from combined partials.

Some results need all values of a window (a median, a distinct count: *holistic* aggregates, in the
words of Gray et al., Data Cube, 1997). Their partials combine as those of any monoid do, and grow
with the window. But where the events of many windows lie side by side, as in a batch or under many
keys, all results together follow from these events in a few passes over whole columns. Such a
monoid has ``folds_ranges``: the folds of ranges of rows are ``RangeFolds``, which name the ranges
and combine nothing, and ``lower_ranges`` returns their results.

A single partial that is taken out of them is folded at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from mta.columns.schemas import Rows
from mta.monoids.base import AbstractMonoid, Monoid, Out, Partial


class RangeFolds(Sequence[Partial]):
    """The folds of ranges of lifted events, none of which is combined before it is asked for.

    >>> from mta.monoids.text import Collect
    >>> folds = RangeFolds(Collect(), [("a",), ("b",), ("c",)], np.array([0, 1]), np.array([2, 3]))
    >>> list(folds)
    [('a', 'b'), ('b', 'c')]
    """

    __slots__ = ("lifted", "monoid", "starts", "stops")

    def __init__(
        self, monoid: AbstractMonoid, lifted: Rows, starts: np.ndarray, stops: np.ndarray
    ) -> None:
        self.monoid, self.lifted, self.starts, self.stops = monoid, lifted, starts, stops

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> Partial: ...
    @overload
    def __getitem__(self, at: slice) -> RangeFolds: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return RangeFolds(self.monoid, self.lifted, self.starts[at], self.stops[at])
        start, stop = int(self.starts[at]), int(self.stops[at])
        rows = self.monoid.partials.cut(self.lifted, start, stop)
        return self.monoid.fold(rows, stop - start)

    def without(self, identity: Partial) -> RangeFolds:
        """The same ranges of the events that are not lifted to the identity."""
        if isinstance(self.lifted, np.ndarray):
            return self
        stands = np.array([row is not identity for row in self.lifted], bool)
        if stands.all():
            return self
        before = np.zeros(len(stands) + 1, np.int64)
        np.cumsum(stands, out=before[1:])
        rows = [row for row in self.lifted if row is not identity]
        return RangeFolds(self.monoid, rows, before[self.starts], before[self.stops])


class RangeMonoid(Monoid[Any, Any, Out]):
    """A monoid of plain functions that has the results of ranges of events."""

    folds_ranges = True

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        """The result of each range; here by folding each of them."""
        return super().lower_rows(list(folds))

    def lower_rows(self, partials: Rows) -> Rows:
        if isinstance(partials, RangeFolds):
            return self.lower_ranges(partials)
        return super().lower_rows(partials)


def slide(
    folds: RangeFolds, rows: Sequence[Any], add: Callable[[Any], None], take: Callable[[Any], None]
) -> Iterator[None]:
    """``add`` and ``take`` rows so that after each step those of the next range are in.

    Two calls per row while neither end of the ranges decreases; others start from an empty range.
    """
    left = right = 0
    for start, stop in zip(folds.starts.tolist(), folds.stops.tolist(), strict=True):
        if start < left or stop < right or start >= right:
            for row in rows[left:right]:
                take(row)
            left = right = start
        for row in rows[right:stop]:
            add(row)
        for row in rows[left:start]:
            take(row)
        left, right = start, stop
        yield
