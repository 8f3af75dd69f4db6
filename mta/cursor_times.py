"""Where windows by time begin after each event in hand: searches among the times before it.

Times are searched a stretch at a time: a hand of the batch under way that has been stored, with the
table that other windows have had of it, or leaves that follow one another, put together; at last
the hand itself (see ``ranks``). So each time is compared about once, by whole columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mta.ordered import Hand
from mta.policy import Fronts
from mta.ranks import SortedTimes

if TYPE_CHECKING:
    from mta.cursor import Cursor


class CursorTimes:
    """The times a cursor's policy may search: stored ones from the front on, then those in hand.

    Positions are counted from the first event in hand; those of stored events are negative.
    """

    def __init__(self, cursor: Cursor, hand: Hand) -> None:
        self._cursor, self._hand = cursor, hand

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """The position of the oldest event that is less than ``age`` old at each of some times.

        Leaf by leaf; where a whole leaf is passed over, the next is looked up from the top.
        """
        cursor, hand, count = self._cursor, self._hand, len(times)
        position, found = cursor.front, _Found(times, age)
        while found.done < count and position < hand.first:
            first, stored, end = self._gather(position, times, age, found.done)
            if found.done == 0 and times[-1] - age < stored.times[position - first]:
                return position - hand.first
            if end > found.done:
                found.add(stored, end, first - hand.first)
                position = first + len(stored.times)
            else:
                passed = cursor.events.first_after(int(times[end]) - age)
                position = max(first + len(stored.times), passed)
        if found.done < count:
            found.add(hand.sorted_times, count, 0)
        return found.positions()

    def _gather(
        self, position: int, times: np.ndarray, age: int, done: int
    ) -> tuple[int, SortedTimes, int]:
        """The stored times from a leaf on, and through more while some of the searches end there.

        Answers with the position of the first, and where those of ``times`` end that they serve.
        """
        cursor, back = self._cursor, self._hand.first
        leaf = start = cursor.leaf(position, back)
        stop = leaf.first
        gathered: list[np.ndarray] = []
        while leaf.first == stop and not (gathered and isinstance(leaf, Hand)):
            stored = leaf.times
            assert stored is not None
            gathered.append(stored)
            stop, end = leaf.stop, done + int(times[done:].searchsorted(stored[-1] + age))
            if end == done or end == len(times) or stop == back or isinstance(leaf, Hand):
                break
            done, leaf = end, cursor.leaf(stop, back)
        if len(gathered) == 1:
            return start.first, start.sorted_times, end
        return start.first, SortedTimes(np.concatenate(gathered)), end


class _Found:
    """Positions found a piece after the other: a range, if the pieces are and make one."""

    def __init__(self, times: np.ndarray, age: int) -> None:
        self._times, self._age = times, age
        self._room = np.empty(len(times), np.int64)
        #: Pieces that are ranges, and where they begin.
        self._ranges: list[tuple[int, range]] = []
        #: How many have been found, and how many of them not as ranges.
        self.done = self._searched = 0

    def add(self, among: SortedTimes, end: int, first: int) -> None:
        """Those up to ``end`` are by ranks among some times, of which the first is at ``first``."""
        room = self._room[self.done : end]
        ranks = among.ranks(self._times[self.done : end], self._age, room)
        if isinstance(ranks, range):
            self._ranges.append((self.done, range(ranks.start + first, ranks.stop + first)))
        else:
            self._searched += len(room)
            if first:
                room += first
        self.done = end

    def positions(self) -> range | np.ndarray:
        """All of them."""
        pieces = [piece for _, piece in self._ranges]
        if not self._searched and all(one.stop == two.start for one, two in pairwise(pieces)):
            return range(pieces[0].start, pieces[-1].stop)
        for begin, piece in self._ranges:
            self._room[begin : begin + len(piece)] = np.arange(piece.start, piece.stop)
        return self._room
