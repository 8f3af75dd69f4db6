"""A tree's events by position: as cursors read them (``ordered.OrderedEvents``), and added to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.cursors.ordered import Hand, Leaf
from mta.fiba.bulk import evict_first, insert_sorted
from mta.fiba.fingers import FingerTree, Passage, after_time
from mta.fiba.node import Node
from mta.folds.fronts import as_array, known
from mta.monoids.base import Partial
from mta.policies.base import AbstractPolicy
from mta.policies.windows import TimeWindow

#: How many leaves are remembered: for each of some windows the one its front is in.
_LEAVES = 8


class TreeEvents:
    """Positions count from ``front``, which grows with every event that is evicted for good.

    An event that comes so late that a newer one has left for good has left as well, as soon as it
    comes: it takes a position before the front. So what is kept never has a hole.
    """

    by_time = True

    def __init__(self, tree: FingerTree) -> None:
        self.tree = tree
        #: The position of the oldest event that the tree has.
        self.front = 0
        #: The time of the newest event that has left; None where that is not known, or none has.
        self.newest_left: int | None = None
        #: Whether the event that was added last has left at once.
        self._added_left = False
        #: Grows whenever events before the back have changed positions.
        self.stamp = 0
        #: The leaves handed out last, but for the last of all, which grows; and the stamp then.
        self._leaves: list[Leaf] = []
        self._leaves_stamp = 0

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self.front + self.tree.size

    def place(self, position: int) -> tuple[Node, int]:
        """The leaf that has the event of a position, or whose last entry the event follows.

        Beside it, the position of the leaf's first entry. At most a page read a level.
        """
        tree, node, first = self.tree, self.tree.root, self.front
        while node.level:
            places = tree.places_of(node)
            index = int(places.searchsorted(position - first))
            if index:
                first += int(places[index - 1]) + 1
            node = tree.child(node, index)
        return node, first

    def leaf(self, position: int) -> Leaf:
        """The events of a leaf and the one that follows it in a node above."""
        known = self._known(position)
        if known is not None:
            return known
        node, first = self.place(position)
        if node is self.tree.last_leaf:
            return Leaf(first, node.values(0, node.count), node.times, node.count)
        if node.parent is not None:
            self.tree.cache.ahead(node.parent, node.parent.index_of(node))
        leaf = self._with_next(node, first)
        self._leaves = [leaf, *self._leaves[: _LEAVES - 1]]
        return leaf

    def _known(self, position: int) -> Leaf | None:
        """The leaf of a position, if it is one of those handed out last."""
        if self._leaves_stamp != self.stamp:
            self._leaves, self._leaves_stamp = [], self.stamp
        for leaf in self._leaves:
            if leaf.first <= position < leaf.first + leaf.count:
                return leaf
        return None

    def _with_next(self, node: Node, first: int) -> Leaf:
        """A leaf but the last, and the entry after it."""
        above, index = _entry_after(node)
        schema, count = self.tree.monoid.inputs, node.count
        times, rows = np.empty(count + 1, "<i8"), schema.new(count + 1)
        times[:count], times[count] = node.times, above.time_at(index)
        schema.put_many(rows, 0, node.values(0, count))
        schema.put_many(rows, count, above.values(index, index + 1))
        return Leaf(first, rows, times, count + 1)

    # --- events in and out ----------------------------------------------------------------------

    def newest_time(self) -> int | None:
        """The time of the newest event, None without events; no page read."""
        leaf = self.tree.last_leaf
        return leaf.time_at(leaf.count - 1) if leaf.count else None

    def place_of(self, time: int) -> int:
        """The position that the next event of a time gets."""
        newest = self.newest_time()
        return self.back if newest is None or time >= newest else self.first_after(time)

    def add(self, row: Row, time: int) -> int:
        """Add one event; its position, or one before the front where it has left at once.

        A failed read changes nothing.
        """
        self._added_left = self.newest_left is not None and time < self.newest_left
        if self._added_left:
            self.tree.monoid.lift(row)  # what cannot be lifted must not get in
            self._count_left(1)
            return self.front - 2
        position = self.place_of(time)
        self.tree.insert(time, row)
        if position < self.back - 1:
            self.stamp += 1
        return position

    def add_sorted(self, rows: Rows, times: np.ndarray, count: int) -> int:
        """Add events in order of time; how many have left at once.

        A failed read changes nothing.
        """
        newest, left = self.newest_time(), 0
        if self.newest_left is not None and times[0] < self.newest_left:
            left = int(times.searchsorted(self.newest_left))
            self.tree.monoid.lift_rows(self.tree.monoid.inputs.cut(rows, 0, left), left)
            rows, times = self.tree.monoid.inputs.cut(rows, left, count), times[left:]
        if left < count:
            insert_sorted(self.tree, times, rows, count - left)
            if newest is not None and times[0] < newest:
                self.stamp += 1
        if left:
            self._count_left(left)
        return left

    def _count_left(self, count: int) -> None:
        """So many events have left as soon as they came: all others are that much further on."""
        self.front += count
        self.stamp += 1

    def take_back(self, time: int) -> int:
        """Remove the event of a time that was added last; the position that it had."""
        if self._added_left:
            self._count_left(-1)
            return self.front - 1
        position = self.first_after(time) - 1
        self.tree.remove_at(position - self.front)
        self.stamp += 1
        return position

    def slide_to(self, position: int) -> None:
        """As ``cut_off``; a few events of the first leaf take a combine each, amortised."""
        gone = position - self.front
        if not 0 < gone <= self.tree.spare():
            self.cut_off(position)
            return
        self._note_left(self.tree.evict_oldest(gone), position)

    def cut_off(self, position: int) -> None:
        """Take the events before a position out of the tree. A failed read changes nothing."""
        gone = position - self.front
        if gone > 0:
            newest = self.tree.newest_before(self.tree.at_position(gone))
            evict_first(self.tree, gone)
            self._note_left(newest, position)

    def _note_left(self, newest: int, position: int) -> None:
        """The events before a position have left, the last of them of this time."""
        if self.front == 0:
            self.newest_left = newest
        elif self.newest_left is not None:
            self.newest_left = max(self.newest_left, newest)
        self.front = position

    # --- reading --------------------------------------------------------------------------------

    def fold(self, start: int, stop: int) -> Partial:
        """The aggregate of the events from ``start`` to ``stop``, the identity for none."""
        tree = self.tree
        if start >= stop:
            return tree.monoid.identity
        left = tree.at_position(start - self.front)
        right: Passage = "all before" if stop == self.back else tree.at_position(stop - self.front)
        return tree.fold_between(left, right)

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than a time."""
        return self.front + self.tree.rank(after_time(time))

    def leaf_after(self, time: int) -> int:
        """As ``first_after``, or a position before it where a leaf begins; reads no leaf."""
        return self.front + self.tree.rank(after_time(time), reads_leaf=False)

    def leaf_at(self, position: int) -> int:
        """A position, or one before it where a leaf begins; reads no leaf."""
        cut = self.tree.at_position(position - self.front)
        return self.front + self.tree.rank(cut, reads_leaf=False)

    def time_at(self, position: int) -> int:
        """The time of an event; at most a page read a level."""
        known = self._known(position)
        if known is not None and known.times is not None:
            return int(known.times[position - known.first])
        node, first = self.place(position)
        index = position - first
        if index == node.count:
            node, index = _entry_after(node)
        return node.time_at(index)

    def time_before(self, position: int) -> int | None:
        """The time of the event before a position, of the front the newest one that has left."""
        if position == self.front:
            return self.newest_left
        return self.time_at(position - 1) if self.front < position <= self.back else None

    def hand_with(
        self, rows: Rows, times: np.ndarray, count: int, stop: Callable[[], int] | None = None
    ) -> tuple[Hand, np.ndarray | None]:
        """New events in order of time, and the stored ones among them, as one hand.

        Of the stored ones those up to ``stop``, by default those not later than the last new one.
        Beside it, which are new; None where all are. A page read a leaf.
        """
        start = self.place_of(int(times[0]))
        if start == self.back:
            return Hand(self.tree.monoid, start, rows, times, count), None
        end = self.place_of(int(times[-1])) if stop is None else stop()
        schema, size = self.tree.monoid.inputs, end - start
        together, joined = schema.new(size + count), np.empty(size + count, "<i8")
        at = 0
        while at < size:
            leaf = self.leaf(start + at)
            assert leaf.times is not None
            first, last = start + at - leaf.first, min(leaf.stop, end) - leaf.first
            joined[at : at + last - first] = leaf.times[first:last]
            schema.put_many(together, at, schema.cut(leaf.rows, first, last))
            at += last - first
        joined[size:] = times
        schema.put_many(together, size, rows)
        order = np.argsort(joined, kind="stable")
        seen = schema.take(together, order)
        return Hand(self.tree.monoid, start, seen, joined[order], size + count), order >= size


def _entry_after(node: Node) -> tuple[Node, int]:
    """The entry that follows a leaf but the last: its node and index."""
    while node.parent is not None:
        index = node.parent.index_of(node)
        if index < node.parent.count:
            return node.parent, index
        node = node.parent
    raise IndexError("no entry follows the last leaf")


def as_of(
    policy: AbstractPolicy, stored: TreeEvents, time: int, coming: np.ndarray | None = None
) -> int:
    """The front, by a policy on positions, of the window that ends with the events of a time.

    As it will be once events at the ``coming`` times, in order, are there as well.
    """
    if coming is None:
        return _front_of(policy, stored, time, stored.first_after)

    def after(time: int) -> int:
        return stored.first_after(time) + int(coming.searchsorted(time, side="right"))

    return _front_of(policy, stored, time, after)


def needed_from(stored: TreeEvents, policy: AbstractPolicy, lateness: int, front: int) -> int:
    """From where on a window with a front may still be asked for, as late events look back."""
    newest = stored.newest_time()
    if not lateness or newest is None or not policy.positional:
        return front
    return min(front, as_of(policy, stored, newest - lateness))


def leaf_needed_from(stored: TreeEvents, policy: AbstractPolicy, lateness: int, front: int) -> int:
    """As ``needed_from``, or a position before it where a leaf begins; reads no leaf."""
    newest = stored.newest_time()
    if lateness and newest is not None and policy.positional:
        needed = _front_of(policy, stored, newest - lateness, stored.leaf_after)
        if needed <= front and type(policy) is TimeWindow:
            return needed
        front = min(front, needed)
    return stored.leaf_at(front)


#: The position of the oldest event later than a time.
_Search = Callable[[int], int]


def _front_of(policy: AbstractPolicy, stored: TreeEvents, time: int, after: _Search) -> int:
    if type(policy) is TimeWindow:  # told without counting events
        return max(stored.front, after(time - policy.size))
    fronts = policy.cuts(_Times(after), after(time) - 1, np.array([time]), 1)
    return max(stored.front, int(as_array(known(fronts), 1)[0]))


class _Times:
    """What policies on times ask for, of all events that are kept (``policies.TimeSearch``)."""

    def __init__(self, after: _Search) -> None:
        self._after = after

    def first_after_each(self, times: np.ndarray, age: int = 0) -> np.ndarray:
        """The position of the oldest event that is less than ``age`` old at each of some times."""
        return np.array([self._after(int(time) - age) for time in times])
