"""Level queues read by position: leaves, folds of ranges, and times, whatever the front is.

Where Amortized MTA keeps the one path to its front, this finds any leaf from the tails down, and
keeps what it has read for whoever comes next:

- *recent* leaves, those sealed last, so that a window of a few leaves reads no page at all;
- *fetched* ones, read back for a front or a range, and the inner groups above them;
- while a batch is under way its last *hands* (``cursors.ordered``), with what was computed of them.

The first two are bounded in bytes, whatever the arity. Levels are those of ``queues``: a range is
whole elements in the middle and, at either end, one element a level to go down into:

    level 1      [ a b c d e ]            fold(3, 18), pairs of leaves of 4:
    level 0   [0 1 2 3] ... [16 17 18 19]       {3} + b c d + {16 17}
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from mta.cursors.ordered import Hand, Leaf
from mta.levels.queues import BEFORE_ALL
from mta.monoids.base import Partial
from mta.pages.page import Group

if TYPE_CHECKING:
    from mta.levels.pages import LevelPages
    from mta.levels.queues import Tail

_RECENT_BYTES, _FETCHED_BYTES, _INNER_GROUPS = 2 << 20, 1 << 20, 16
_OBJECT_BYTES = 64
#: So many hands are kept while a batch is under way.
_HANDS = 2
_READ_AHEAD = 8


class LeafReader:
    """The events of level queues in order (``ordered.OrderedEvents``).

    Positions from the front of ``pages`` to its back may be asked for.
    """

    #: Events never change positions here.
    stamp, by_time = 0, False

    def __init__(self, pages: LevelPages) -> None:
        self._pages, self._levels, self._monoid = pages, pages.levels, pages.monoid
        weight = self._monoid.inputs.row_bytes
        row = (_OBJECT_BYTES if weight is None else weight) + 8 * self._levels.timed
        leaf = max(row, 1) * self._levels.leaf_arity
        self._most_recent = max(2, _RECENT_BYTES // leaf)
        self._most_fetched = max(4, _FETCHED_BYTES // leaf)
        self._recent: OrderedDict[int, Leaf] = OrderedDict()
        self._fetched: OrderedDict[int, Leaf] = OrderedDict()
        self._inner: OrderedDict[tuple[int, int], Group] = OrderedDict()
        self._open: Leaf | None = None
        #: Hands of the batch under way that have been stored, the newest first.
        self._hands: list[Hand] = []

    @property
    def front(self) -> int:
        """The position of the oldest event that is kept."""
        return self._pages.front

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self._levels.back

    def sealed(self, tail: Tail) -> None:
        """Keep a leaf group that has just been sealed; no store call."""
        self._recent[tail.number] = Leaf(tail.first, tail.rows, tail.times, tail.count)
        if len(self._recent) > self._most_recent:
            self._recent.popitem(last=False)

    def keep(self, hand: Hand) -> None:
        """Keep a hand that has just been stored, for windows that come to it in this batch."""
        self._hands = [hand, *self._hands[: _HANDS - 1]]

    def let_go(self) -> None:
        """Forget the hands of a batch, at its end."""
        self._hands = []

    def taken_back(self) -> None:
        """The newest event has been taken back, and another may stand in its place."""
        self._open = None

    # --- leaves and inner groups ----------------------------------------------------------------

    def stretch(self, position: int) -> Leaf:
        """The hand that holds a position, if it is kept, else the leaf group; costs as ``leaf``."""
        for hand in self._hands:
            if hand.first <= position < hand.stop:
                return hand
        return self.leaf(position)

    def leaf(self, position: int) -> Leaf:
        """The leaf group that holds a position; at most one page read a level."""
        number = position // self._levels.leaf_arity
        if number == self._levels.tails[0].number:
            return self._tail()
        leaf = self._recent.get(number)
        if leaf is None:
            leaf = self._fetched.get(number)
            if leaf is None:
                return self._fetch(number)
            self._fetched.move_to_end(number)
        return leaf

    def _tail(self) -> Leaf:
        tail = self._levels.tails[0]
        if self._open is None or (self._open.first, self._open.count) != (tail.first, tail.count):
            rows = self._monoid.inputs.cut(tail.rows, 0, tail.count)
            times = None if tail.times is None else tail.times[: tail.count]
            self._open = Leaf(tail.first, rows, times, tail.count)
        return self._open

    def _fetch(self, number: int) -> Leaf:
        levels = self._levels
        above, index = divmod(number, levels.arity)
        parent = self._group(1, above)
        if number - 1 not in self._fetched or number % (_READ_AHEAD // 2) == 0:
            names = enumerate(parent.names[index + 1 : index + _READ_AHEAD], number + 1)
            levels.pager.prefetch([(0, ahead, name) for ahead, name in names])
        group = levels.pager.read(0, number, parent.names[index])
        leaf = Leaf(number * levels.leaf_arity, group.rows, group.times, group.count)
        self._fetched[number] = leaf
        if len(self._fetched) > self._most_fetched:
            self._fetched.popitem(last=False)
        return leaf

    def _group(self, level: int, number: int) -> Group:
        """A group above the leaves."""
        tail = self._levels.tails[level]
        if tail.number == number:
            return tail
        group = self._inner.get((level, number))
        if group is None:
            above, index = divmod(number, self._levels.arity)
            name = self._group(level + 1, above).names[index]
            group = self._inner[level, number] = self._levels.pager.read(level, number, name)
            if len(self._inner) > _INNER_GROUPS:
                self._inner.popitem(last=False)
        else:
            self._inner.move_to_end((level, number))
        return group

    # --- ranges -----------------------------------------------------------------------------------

    def fold(self, start: int, stop: int) -> Partial:
        """The aggregate of a range of positions, the identity if it is empty.

        At most 2 * arity combines and two page reads a level.
        """
        monoid, fold = self._monoid, self._monoid.identity
        for tail in reversed(self._levels.tails):
            begin = tail.first * self._levels.span(tail.level)
            if stop <= begin or start >= stop:
                break
            end = min(stop, self._levels.end(tail.level))
            if start < end:
                fold = monoid.combine(fold, self._within(tail.level, tail.number, start, end))
                start = end
        return fold

    def _within(self, level: int, number: int, start: int, stop: int) -> Partial:
        """The aggregate of a range that lies in one group."""
        if level == 0:
            leaf = self.leaf(start)
            return self._monoid.fold(leaf.partials(start, stop, self._monoid), stop - start)
        levels, combine, fold = self._levels, self._monoid.combine, self._monoid.identity
        span, first = levels.span(level), number * levels.arity
        low, high = -(-start // span), stop // span
        if low > high:
            return self._within(level - 1, high, start, stop)
        if start < low * span:
            fold = combine(fold, self._within(level - 1, low - 1, start, low * span))
        if low < high:
            whole = levels.fold(level, self._group(level, number), low - first, high - first)
            fold = combine(fold, whole)
        if high * span < stop:
            fold = combine(fold, self._within(level - 1, high, high * span, stop))
        return fold

    # --- times ------------------------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than a time; at most one page read a level."""
        levels = self._levels
        for tail in reversed(levels.tails):
            assert tail.times is not None
            # A level may have elements before the front alone.
            is_live = tail.count and levels.end(tail.level) > self.front
            if is_live and tail.times[tail.count - 1] > time:
                return max(self.front, self._first_within(tail.level, tail.number, time))
        return self.back

    def _first_within(self, level: int, number: int, time: int) -> int:
        levels = self._levels
        while level:
            times, span = self._group(level, number).times, levels.span(level)
            assert times is not None
            count = levels.tails[level].count if number == levels.tails[level].number else None
            # Elements before the front may be of pages that are gone.
            start = max(self.front // span - number * levels.arity, 0)
            inside = int(times[start:count].searchsorted(time, side="right"))
            number, level = number * levels.arity + start + inside, level - 1
        leaf = self.leaf(number * levels.leaf_arity)
        assert leaf.times is not None
        return leaf.first + int(leaf.times.searchsorted(time, side="right"))

    def time_before(self, position: int) -> int | None:
        """The time of the event just before a position, though its page may be gone.

        None where nothing is known of it any more. At most one page read a level.
        """
        levels = self._levels
        if position == 0:
            return None
        if position % levels.leaf_arity or position > levels.tails[0].first:
            leaf = self.leaf(position - 1)
            assert leaf.times is not None
            return int(leaf.times[position - 1 - leaf.first])
        for tail in levels.tails[1:]:
            span = levels.span(tail.level)  # the position is a multiple of it, or we have returned
            number, index = divmod(position // span - 1, levels.arity)
            if number == tail.number or (number + 1) * levels.arity * span > position:
                times = self._group(tail.level, number).times
                assert times is not None
                return None if times[index] == BEFORE_ALL else int(times[index])
        return None
