"""Monoids whose results are computed from ranges of events, not from combined partials.

Some results need all values of a window, such as a median or a distinct count (*holistic*
aggregates; Gray et al., Data Cube, 1997). Their partials combine as usual, but grow with the
window. If the events of many windows are stored together, as in a batch or under many keys, a few
passes over whole columns compute all results. A monoid that does this has ``folds_ranges``. Its
folds of ranges of rows are ``RangeFolds``, which describe the ranges and combine nothing, and
``lower_ranges`` returns the results.

A single partial is folded when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from mta.columns.schemas import Rows
from mta.monoids.base import AbstractMonoid, Monoid, Out, Partial


class RangeFolds(Sequence[Partial]):
    """The folds of ranges of lifted events; each is combined only when it is read.

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
        """Return the same ranges without the events that are lifted to the identity."""
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
    """A monoid of plain functions that computes results from ranges of events."""

    folds_ranges = True

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        """Return the result of each range; by default, folds each of them."""
        return super().lower_rows(list(folds))

    def lower_rows(self, partials: Rows) -> Rows:
        if isinstance(partials, RangeFolds):
            return self.lower_ranges(partials)
        return super().lower_rows(partials)


def slide(
    folds: RangeFolds, rows: Sequence[Any], add: Callable[[Any], None], take: Callable[[Any], None]
) -> Iterator[None]:
    """Call ``add`` and ``take`` so that after each step, the rows of the next range are added.

    Two calls per row while neither end decreases; otherwise, a range starts from empty.
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
