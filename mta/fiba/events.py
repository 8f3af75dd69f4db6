"""A tree's events by position: as cursors read them (``ordered.OrderedEvents``), and added to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mta.columns import Row, Rows
from mta.cuts import cuts
from mta.fiba.bulk import evict_first, insert_sorted
from mta.fiba.fingers import FingerTree
from mta.fiba.node import Node
from mta.fiba.spans import Passage, after_time, at_position, fold_between, rank
from mta.monoid import Partial
from mta.ordered import Hand, Leaf
from mta.policy import AbstractPolicy, as_array

#: How many leaves are remembered: for each of some windows the one its front is in.
_LEAVES = 8


class TreeEvents:
    """Positions count from ``front``, which grows with every event that is evicted for good."""

    def __init__(self, tree: FingerTree) -> None:
        self.tree = tree
        #: The position of the oldest event that the tree has.
        self.front = 0
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
            sizes = tree.sizes_of(node)
            ends = np.cumsum(sizes + 1) + first  # where each subtree begins that follows an entry
            index = int(np.searchsorted(ends, position, side="right"))
            if index:
                first = int(ends[index - 1])
            node = tree.child(node, index)
        return node, first

    def leaf(self, position: int) -> Leaf:
        """The events of a leaf and the one that follows it in a node above."""
        if self._leaves_stamp != self.stamp:
            self._leaves, self._leaves_stamp = [], self.stamp
        for leaf in self._leaves:
            if leaf.first <= position < leaf.stop:
                return leaf
        node, first = self.place(position)
        if not self.tree.right or node is self.tree.right[0]:
            return Leaf(first, node.values(0, node.count), node.times, node.count)
        if node.parent is not None:
            self.tree.keeper.ahead(node.parent, node.parent.index_of(node))
        leaf = self._with_next(node, first)
        self._leaves = [leaf, *self._leaves[: _LEAVES - 1]]
        return leaf

    def _with_next(self, node: Node, first: int) -> Leaf:
        """A leaf but the last, and the entry after it."""
        above, below = node.parent, node
        assert above is not None
        while above.index_of(below) == above.count:
            assert above.parent is not None
            above, below = above.parent, above
        entry = above.entries.at(above.index_of(below))
        schema, count = self.tree.kind.entries, node.count
        entries = schema.new(count + 1)
        schema.put_many(entries, 0, node.entries.rows)
        schema.put(entries, count, entry)
        times, rows = entries
        return Leaf(first, rows, times, count + 1)

    # --- events in and out ----------------------------------------------------------------------

    def newest_time(self) -> int | None:
        """The time of the newest event, None without events; no page read."""
        leaf = self.tree.right[0] if self.tree.right else self.tree.root
        return leaf.time_at(leaf.count - 1) if leaf.count else None

    def place_of(self, time: int) -> int:
        """The position that the next event of a time gets."""
        newest = self.newest_time()
        return self.back if newest is None or time >= newest else self.first_after(time)

    def add(self, row: Row, time: int) -> int:
        """Add one event; its position. A failed read changes nothing."""
        position = self.place_of(time)
        if position < self.back or not self.tree.has_room():
            self.tree.load_left()
        self.tree.insert(time, row)
        if position < self.back - 1:
            self.stamp += 1
        return position

    def add_sorted(self, rows: Rows, times: np.ndarray, count: int) -> None:
        """Add events in order of time. A failed read changes nothing."""
        newest = self.newest_time()
        insert_sorted(self.tree, times, rows, count)
        if newest is not None and times[0] < newest:
            self.stamp += 1

    def take_back(self, time: int) -> int:
        """Remove the event of a time that was added last; the position that it had."""
        position = self.first_after(time) - 1
        self.tree.remove_at(position - self.front)
        self.stamp += 1
        return position

    def cut_off(self, position: int) -> None:
        """Take the events before a position out of the tree. A failed read changes nothing."""
        if position > self.front:
            evict_first(self.tree, position - self.front)
            self.front = position

    # --- reading --------------------------------------------------------------------------------

    def fold(self, start: int, stop: int) -> Partial:
        """The aggregate of the events from ``start`` to ``stop``, the identity for none."""
        tree = self.tree
        if start >= stop:
            return tree.monoid.identity
        left = at_position(tree, start - self.front)
        right: Passage = "all before" if stop == self.back else at_position(tree, stop - self.front)
        return fold_between(tree, left, right)

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than a time."""
        return self.front + rank(self.tree, after_time(time))

    def time_at(self, position: int) -> int:
        """The time of an event; at most a page read a level."""
        leaf = self.leaf(position)
        assert leaf.times is not None
        return int(leaf.times[position - leaf.first])

    def time_before(self, position: int) -> int | None:
        """The time of the event before a position, None if it has left."""
        return self.time_at(position - 1) if self.front < position <= self.back else None

    def hand_with(
        self, rows: Rows, times: np.ndarray, count: int, stop: Callable[[], int] | None = None
    ) -> tuple[Hand, np.ndarray | None]:
        """New events in order of time, and the stored ones among them, as one hand.

        Of the stored ones those up to ``stop``, by default those not later than the last new one.
        Beside it, which are new; None where all are. A page read a leaf.
        """
        position, schema = self.place_of(int(times[0])), self.tree.monoid.inputs
        if position == self.back:
            return Hand(self.tree.monoid, position, rows, times, count), None
        end = self.first_after(int(times[-1])) if stop is None else stop()
        stored_times, stored = self.slice(position, end)
        old = len(stored_times)
        together = schema.new(old + count)
        schema.put_many(together, 0, stored)
        schema.put_many(together, old, rows)
        joined = np.concatenate((stored_times, times))
        order = np.argsort(joined, kind="stable")
        seen = schema.take(together, order)
        return Hand(self.tree.monoid, position, seen, joined[order], old + count), order >= old

    def slice(self, start: int, stop: int) -> tuple[np.ndarray, Rows]:
        """The times and values of some positions, copied; a page read a leaf."""
        schema = self.tree.kind.entries
        entries: tuple[np.ndarray, Rows] = schema.new(stop - start)
        position = start
        while position < stop:
            leaf = self.leaf(position)
            first, last = position - leaf.first, min(leaf.stop, stop) - leaf.first
            times = leaf.times
            assert times is not None
            rows = (times[first:last], self.tree.monoid.inputs.cut(leaf.rows, first, last))
            schema.put_many(entries, position - start, rows)
            position = leaf.first + last
        return entries


def as_of(policy: AbstractPolicy, stored: TreeEvents, time: int) -> int:
    """The front, by a policy on positions, of the window that ends with the events of a time."""
    back = stored.first_after(time)
    fronts = cuts(policy, _Times(stored), back - 1, np.array([time]), 1)
    assert fronts is not None  # only policies on positions are asked
    return max(stored.front, int(as_array(fronts, 1)[0]))


def needed_from(stored: TreeEvents, policy: AbstractPolicy, lateness: int, front: int) -> int:
    """From where on a window with a front may still be asked for, as late events look back."""
    newest = stored.newest_time()
    if not lateness or newest is None or not policy.positional:
        return front
    return min(front, as_of(policy, stored, newest - lateness))


class _Times:
    """What policies on times ask for, of all events that are kept (``cuts.TimeSearch``)."""

    def __init__(self, stored: TreeEvents) -> None:
        self._stored = stored

    def first_after_each(self, times: np.ndarray) -> np.ndarray:
        """The position of the oldest event later than each of some times."""
        return np.array([self._stored.first_after(int(time)) for time in times])
