"""Where windows by time begin after each event of a batch, searched for only as far as need be.

Front i is the number of times that are not later than time i less the window's length. To search
for all of them takes as long as all else that a window costs. But where the folds that begin at
each row change seldom from row to row, as those of maxima do, the result of most events is that of
the event before; then it is enough to search, the other way round, for the events after which the
front has passed such a change:

    fold from each row on    9 9 9 7 7 5 5 5        changes at rows 3 and 5
    times of rows 2 and 4, plus the window's length, among those of the events:  3 and 7
    fold at each front       9 9 9 7 7 7 7 5        so 9 three times, 7 four times, 5 once

A compiled kernel finds all fronts in less time than that takes, so this is numpy's way.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, overload

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.scans import repeat_rows
from mta.kernels.ranks import SortedTimes
from mta.monoids.base import AbstractMonoid

#: Front positions after each event of a run: one for all, one more each time, or any.
Fronts = int | range | np.ndarray

#: Folds that change more often than at every so many rows are taken one by one; so many tell it.
_SELDOM, _SAMPLES = 8, 256


class Stretch(NamedTuple):
    """Some times, the position of the first of them, and where the fronts end that are there."""

    among: SortedTimes
    first: int
    end: int

    def at(self, times: Any) -> Any:
        """The fronts of windows that reach back to some times, or to one; searched one by one."""
        return self.among.times.searchsorted(times, side="right") + self.first


class TimeFronts:
    """The front at each of some times, which never decrease, by stretches of earlier times.

    None is before ``stood``.
    """

    def __init__(
        self, times: np.ndarray, age: int, stretches: list[Stretch], stood: int | None = None
    ) -> None:
        self._times, self._age, self._stretches, self._stood = times, age, stretches, stood

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> TimeFronts: ...
    def __getitem__(self, at: int | slice) -> int | TimeFronts:
        if not isinstance(at, slice):
            at %= len(self)
            stretch = next(stretch for stretch in self._stretches if at < stretch.end)
            front = int(stretch.at(self._times[at] - self._age))
            return front if self._stood is None else max(front, self._stood)
        start, stop, _ = at.indices(len(self))
        kept = [(s.among, s.first, min(s.end, stop) - start) for s in self._stretches]
        ends = [0, *(end for _, _, end in kept)]
        cut = [Stretch(*s) for s, begin in zip(kept, ends, strict=False) if s[2] > max(begin, 0)]
        return TimeFronts(self._times[start:stop], self._age, cut, self._stood)

    def not_before(self, stood: int) -> TimeFronts:
        """These fronts, none of them before a position."""
        return TimeFronts(self._times, self._age, self._stretches, stood)

    def some(self, places: np.ndarray) -> np.ndarray:
        """Those at some places, which grow; searched for one by one."""
        found, begin = np.empty(len(places), np.int64), 0
        for stretch in self._stretches:
            end = int(places.searchsorted(stretch.end))
            found[begin:end] = stretch.at(self._times[places[begin:end]] - self._age)
            begin = end
        return found if self._stood is None else np.maximum(found, self._stood)

    def below(self, positions: np.ndarray) -> np.ndarray:
        """How many of them lie before each of some positions, which grow; a search for each."""
        found, begin, passed = np.full(len(positions), len(self)), 0, 0
        for among, first, end_of_fronts in self._stretches:
            end = int(positions.searchsorted(first + len(among.times), side="right"))
            rows = positions[begin:end] - 1 - first
            counts = self._times.searchsorted(among.times[rows] + self._age)
            found[begin:end] = np.where(rows < 0, passed, counts)
            begin, passed = end, end_of_fronts
        if self._stood is not None:
            found[positions <= self._stood] = 0
        return found

    def seem_steady(self) -> bool:
        """Whether they may well grow by one from event to event, as a few of them tell."""
        begins = [0, *(stretch.end for stretch in self._stretches)]
        return all(
            stretch.among.guess(self._times[begin : stretch.end], self._age) is not None
            for begin, stretch in zip(begins, self._stretches, strict=False)
        )

    def known(self) -> range | np.ndarray:
        """All of them: a range, if they are one."""
        if len(self._stretches) == 1:
            among, first, _ = self._stretches[0]
            return self._held(moved(among.ranks(self._times, self._age), first))
        room, begin, searched = np.empty(len(self), np.int64), 0, False
        ranges: list[tuple[int, range]] = []
        for among, first, end in self._stretches:
            ranks = among.ranks(self._times[begin:end], self._age, room[begin:end])
            found = moved(ranks, first)
            if isinstance(found, range):
                ranges.append((begin, found))
            else:
                searched = True
            begin = end
        pieces = [piece for _, piece in ranges]
        if not searched and all(one.stop == two.start for one, two in pairwise(pieces)):
            return self._held(range(pieces[0].start, pieces[-1].stop))
        for begin, piece in ranges:
            room[begin : begin + len(piece)] = np.arange(piece.start, piece.stop)
        return self._held(room)

    def _held(self, found: range | np.ndarray) -> range | np.ndarray:
        """Fronts, none of them before where the window stood."""
        if self._stood is None or found[0] >= self._stood:
            return found
        held: np.ndarray = np.maximum(as_array(found, len(found)), self._stood)
        return held


def as_array(fronts: Fronts, count: int) -> np.ndarray:
    """The front after each of ``count`` events."""
    if isinstance(fronts, range):
        return np.arange(fronts.start, fronts.stop)[:count]
    return np.full(count, fronts) if isinstance(fronts, int) else np.asarray(fronts)[:count]


#: The front after each event, where there may be many.
EachFront = range | np.ndarray | TimeFronts


@overload
def fronts_upto(fronts: range | np.ndarray, last: int, count: int) -> range | np.ndarray: ...
@overload
def fronts_upto(fronts: EachFront, last: int, count: int) -> EachFront: ...
def fronts_upto(fronts: EachFront, last: int, count: int) -> EachFront:
    """Those of the first ``count`` fronts, which never decrease, that are at most ``last``."""
    if isinstance(fronts, TimeFronts):
        return fronts[: min(count, int(fronts.below(np.array([last + 1]))[0]))]
    if isinstance(fronts, range):
        return fronts[: max(0, min(count, last - fronts.start + 1))]
    return fronts[: min(count, int(np.searchsorted(fronts, last, side="right")))]


def moved(ranks: range | np.ndarray, first: int) -> range | np.ndarray:
    """Ranks as positions, in place."""
    if isinstance(ranks, range):
        return range(ranks.start + first, ranks.stop + first)
    if first:
        ranks += first
    return ranks


@overload
def known(fronts: EachFront) -> range | np.ndarray: ...
@overload
def known(fronts: Fronts | TimeFronts) -> Fronts: ...
def known(fronts: Fronts | TimeFronts) -> Fronts:
    """Fronts that need no search any more."""
    return fronts.known() if isinstance(fronts, TimeFronts) else fronts


def rows_at(monoid: AbstractMonoid, rows: Rows, fronts: EachFront, origin: int) -> Rows:
    """The rows at some fronts, the first row being at ``origin``; as a view where there can be one.

    >>> from mta import Max
    >>> folds = np.array([9.0, 9, 9, 7, 7, 5, 5, 5])
    >>> earlier = SortedTimes(np.array([0, 10, 20, 30, 40, 50, 60, 70]))
    >>> times = np.array([100, 105, 110, 121, 125, 130, 136, 141])
    >>> fronts = TimeFronts(times, 100, [Stretch(earlier, 0, 8)])
    >>> fronts.known().tolist()
    [1, 1, 2, 3, 3, 4, 4, 5]
    >>> rows_at(Max(), folds, fronts, 0).tolist()
    [9.0, 9.0, 9.0, 7.0, 7.0, 7.0, 7.0, 5.0]
    """
    schema = monoid.partials
    if isinstance(fronts, range):
        return schema.cut(rows, fronts.start - origin, fronts.stop - origin)
    if isinstance(fronts, TimeFronts):
        start, stop = fronts[0] - origin, fronts[-1] - origin + 1
        changes = _changes(rows, start, stop)
        if changes is not None:
            ends = fronts.below(changes + origin)
            counts = np.diff(ends, prepend=0, append=len(fronts))
            return repeat_rows(schema.take(rows, np.concatenate(([start], changes))), counts)
        return rows_at(monoid, rows, fronts.known(), origin)
    return schema.take(rows, fronts - origin if origin else fronts)


def _changes(rows: Rows, start: int, stop: int) -> np.ndarray | None:
    """Where a row differs from the one before it; None where that is not seldom."""
    for step in (max(1, (stop - start) // _SAMPLES), 1):
        differ = _differ(rows, start, stop, step)
        if np.count_nonzero(differ) * _SELDOM > len(differ):
            return None
    return np.flatnonzero(differ) + start + 1


def _differ(rows: Rows, start: int, stop: int, step: int) -> Any:
    """Whether some rows differ from those before them, in any of their columns, as an array."""
    if isinstance(rows, tuple):
        return np.logical_or.reduce([_differ(part, start, stop, step) for part in rows])
    if not isinstance(rows, np.ndarray):
        return np.ones(len(range(start + 1, stop, step)), bool)  # objects are taken one by one
    differ = rows[start + 1 : stop : step] != rows[start : stop - 1 : step]
    return differ.reshape(len(differ), -1).any(axis=1) if differ.ndim > 1 else differ
