"""Monoids whose results are computed from ranges of events, not from combined partials.

Some results need all values of a window, such as a median or a distinct count (*holistic*
aggregates; Gray et al., Data Cube, 1997). Their partials combine as usual, but grow with the
window. If the events of many windows are stored together, as in a batch or under many keys, a few
passes over whole columns compute all results. A monoid that does this has ``folds_ranges``. Its
folds of ranges of rows are ``RangeFolds``, which describe the ranges and combine nothing, and
``lower_ranges`` returns the results.

A single partial is folded when it is read.

Order statistics of many ranges come from a wavelet matrix (Claude, Navarro and Ordóñez, The Wavelet
Matrix, 2015). Its column has small integers, the ranks of values. From the highest bit to the
lowest, its rows are stably sorted by that bit. So a range of rows becomes two ranges, whose bounds
follow from a running count of zeros:

    codes    5 2 7 1 4       bit 2: 1 0 1 0 1       sorted: 2 1 | 5 7 4
    [1, 5)     2 7 1 4       two zeros before it ends, none before it begins
                             zeros are [0, 2), the ones [3, 5)

The k-th smallest code of the range is among the zeros if there are more than k of them. All ranges
take each step together, by a few operations on whole columns, and only one level is in memory. So
the memory is about ten numbers per row and range, and the time is log2(distinct) passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from mta.columns.schemas import Coded, Rows
from mta.columns.texts import TextColumn
from mta.kernels.native import bounds_of, group, spread
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
        lifted = self.lifted
        if isinstance(lifted, np.ndarray):
            return self
        if isinstance(lifted, TextColumn):
            stands = lifted.codes >= 0
        else:
            stands = np.array([row is not identity for row in lifted], bool)
        if stands.all():
            return self
        before = bounds_of(stands)
        if isinstance(lifted, TextColumn):
            rows: Rows = lifted.take(np.flatnonzero(stands))
        else:
            rows = [row for row in lifted if row is not identity]
        return RangeFolds(self.monoid, rows, before[self.starts], before[self.stops])


class RangeMonoid(Monoid[Any, Any, Out]):
    """A monoid of plain functions that computes results from ranges of events."""

    folds_ranges = True
    #: Converts a result of integers to one of the values that they stand for (``Coded``).
    _show: Callable[[Any], Any] | None = None

    def _read_as(self, kind: Coded | None, show: Callable[[Any], Any] | None = None) -> None:
        """Let events be values of a kind, and results be shown; called once, after ``__init__``."""
        if kind is None:
            return
        lower: Callable[[Any], Any] = self.lower
        shown: Callable[[Any], Any] = show or kind.shown
        self.inputs, self.name, self._show = kind, f"{self.name}[{kind!r}]", shown
        self.lower, self.empty = lambda partial: shown(lower(partial)), shown(self.empty)

    @property
    def is_bare(self) -> bool:
        return super().is_bare and self._show is None

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        """Return the result of each range; by default, folds each of them."""
        return super().lower_rows(list(folds))

    def lower_rows(self, partials: Rows) -> Rows:
        is_ranges = isinstance(partials, RangeFolds)
        found = self.lower_ranges(partials) if is_ranges else super().lower_rows(partials)
        return found if self._show is None else [self._show(result) for result in found]


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


#: Types of which equal objects are the same, and have an order.
PLAINLY_ORDERED = frozenset({str, bytes, int, bool})


def ranked(values: Sequence[Any]) -> tuple[list[Any], np.ndarray]:
    """Return the distinct values, sorted, and the index of each value among them."""
    distinct = sorted(set(values))
    rank = {value: at for at, value in enumerate(distinct)}
    return distinct, np.fromiter(map(rank.__getitem__, values), np.int64, len(values))


#: Ranges are short if they have at most this many rows on average.
_SHORT = 64


class Tallies(NamedTuple):
    """How often each code occurs in each range, by range and code."""

    of: np.ndarray
    codes: np.ndarray
    counts: np.ndarray


def tallies(codes: np.ndarray, width: int, folds: RangeFolds) -> Tallies | None:
    """Count the codes, each below ``width``, of every range; None if the ranges are long.

    One sort of the rows of all ranges.

    >>> from mta.monoids.text import Collect
    >>> codes = np.array([1, 0, 1])
    >>> found = tallies(codes, 2, RangeFolds(Collect(), [], np.array([0, 1]), np.array([3, 3])))
    >>> [column.tolist() for column in found]
    [[0, 0, 1, 1], [0, 1, 0, 1], [1, 2, 1, 1]]
    """
    lengths = folds.stops - folds.starts
    if int(lengths.sum()) > _SHORT * len(lengths):
        return None
    of = np.repeat(np.arange(len(lengths)), lengths)
    keys = np.sort(of * width + codes[spread(folds.starts, lengths)])
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(firsts, append=len(keys))
    return Tallies(keys[firsts] // width, keys[firsts] % width, counts)


def smallest(numbers: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Return the smallest number of each range, none of which is empty; log2(longest) passes.

    >>> smallest(np.array([5, 2, 7, 1, 4]), np.array([0, 2]), np.array([3, 5])).tolist()
    [2, 1]
    """
    found, lengths, size = np.empty(len(starts), numbers.dtype), stops - starts, 1
    longest = int(lengths.max(initial=0))
    while size <= longest:
        some = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
        found[some] = np.minimum(numbers[starts[some]], numbers[stops[some] - size])
        if 2 * size <= longest:  # to runs of twice as many rows
            numbers = np.minimum(numbers[:-size], numbers[size:])
        size *= 2
    return found


def distinct_counts(codes: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Return the number of distinct codes of each range.

    Linear if neither end decreases: a row counts from the first range that has it to the last one
    before a range that has a later row with its code, or that starts after it.

    >>> distinct_counts(np.array([5, 2, 5, 5]), np.array([0, 0, 1]), np.array([1, 3, 4])).tolist()
    [1, 2, 2]
    """
    count = len(codes)
    order = group(codes, int(codes.max(initial=0)) + 1)
    again = np.flatnonzero(codes[order[1:]] == codes[order[:-1]])
    if (starts[1:] < starts[:-1]).any() or (stops[1:] < stops[:-1]).any():
        #: The row after the previous occurrence of the same value; 0 if there is none.
        previous = np.zeros(count, np.int64)
        previous[order[again + 1]] = order[again] + 1
        return count_below(previous, starts, stops, starts + 1)
    # How many ranges stop at each row or before, and how many start there or before.
    stopped = np.cumsum(np.bincount(stops, minlength=count + 1))
    started = np.cumsum(np.bincount(starts, minlength=count + 1))
    following = np.full(count, count)
    following[order[again]] = order[again + 1]
    enters, leaves = stopped[:-1], np.minimum(stopped[following], started[:-1])
    inside = np.flatnonzero(enters < leaves)
    entered, left = (
        np.bincount(each[inside], minlength=len(starts) + 1) for each in (enters, leaves)
    )
    return np.cumsum(entered - left)[:-1]


# --- order statistics -----------------------------------------------------------------------------


def _levels(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, int]]:
    """Yield each bit, the highest first, the zeros before each of n + 1 rows, and all zeros."""
    for bit in reversed(range(int(codes.max(initial=0)).bit_length())):
        ones = (codes >> bit & 1).astype(bool)
        before = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(~ones, out=before[1:])
        yield bit, before, int(before[-1])
        codes = np.concatenate((codes[~ones], codes[ones]))


def select(
    codes: np.ndarray, starts: np.ndarray, stops: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """Return the ``ranks[i]``-th smallest code, from 0 on, of rows ``starts[i]`` to ``stops[i]``.

    >>> codes = np.array([5, 2, 7, 1, 4])
    >>> select(codes, np.array([1, 1]), np.array([5, 5]), np.array([0, 2])).tolist()
    [1, 4]
    """
    starts, stops, ranks = starts.copy(), stops.copy(), ranks.copy()
    found = np.zeros(len(starts), np.int64)
    for bit, before, zeros in _levels(codes):
        first, last = before[starts], before[stops]
        count = last - first
        ones = ranks >= count
        ranks -= np.where(ones, count, 0)
        found |= ones.astype(np.int64) << bit
        starts = np.where(ones, starts - first + zeros, first)
        stops = np.where(ones, stops - last + zeros, last)
    return found


def count_below(
    codes: np.ndarray, starts: np.ndarray, stops: np.ndarray, bounds: np.ndarray
) -> np.ndarray:
    """Return how many codes of each range are less than ``bounds[i]``, which is not negative.

    >>> codes = np.array([5, 2, 7, 1, 4])
    >>> count_below(codes, np.array([1, 0]), np.array([5, 5]), np.array([4, 8])).tolist()
    [2, 5]
    """
    starts, stops = starts.copy(), stops.copy()
    beyond = bounds > codes.max(initial=0)
    found = np.where(beyond, stops - starts, 0)
    for bit, before, zeros in _levels(codes):
        first, last = before[starts], before[stops]
        ones = (bounds >> bit & 1).astype(bool)
        found += np.where(ones & ~beyond, last - first, 0)
        starts = np.where(ones, starts - first + zeros, first)
        stops = np.where(ones, stops - last + zeros, last)
    return found
