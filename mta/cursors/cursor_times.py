"""Where windows by time begin after each event in hand: searches among the times before it.

Times are searched a stretch at a time: a hand of the batch under way that has been stored, with the
table that other windows have had of it, or leaves that follow one another, put together; at last
the hand itself (see ``ranks``). So each time is compared about once, by whole columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mta.cursors.ordered import Hand
from mta.folds.fronts import Fronts, Stretch, TimeFronts
from mta.folds.overlaps import may_overlap
from mta.kernels.ranks import SortedTimes

if TYPE_CHECKING:
    from mta.cursors.cursor import Cursor

#: For fewer events fronts are searched for one by one.
_FEW = 1024


class CursorTimes:
    """The times a cursor's policy may search: stored ones from the front on, then those in hand.

    Positions are counted from the first event in hand; those of stored events are negative.
    """

    def __init__(self, cursor: Cursor, hand: Hand) -> None:
        self._cursor, self._hand = cursor, hand

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts | TimeFronts:
        """The position of the oldest event that is less than ``age`` old at each of some times.

        Leaf by leaf; where a whole leaf is passed over, the next is looked up from the top.
        """
        cursor, hand, count = self._cursor, self._hand, len(times)
        position, done = cursor.front, 0
        stretches: list[Stretch] = []
        while done < count and position < hand.first:
            first, stored, end = self._gather(position, times, age, done)
            if done == 0 and times[-1] - age < stored.times[position - first]:
                return position - hand.first
            position = first + len(stored.times)
            if end > done:
                stretches.append(Stretch(stored, first - hand.first, end))
                done = end
            else:
                position = max(position, cursor.events.first_after(int(times[end]) - age))
        if done < count:
            stretches.append(Stretch(hand.sorted_times, 0, count))
        fronts = TimeFronts(times, age, stretches)
        seldom = count >= _FEW and may_overlap(cursor.monoid) and not fronts.seem_steady()
        return fronts if seldom else fronts.known()

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
