"""A tree's events by position, as cursors read them (``cursor.OrderedEvents``)."""

from __future__ import annotations

import numpy as np

from mta.columns import Rows
from mta.cursor import Leaf
from mta.fiba.fingers import FingerTree
from mta.fiba.node import Node
from mta.fiba.spans import Passage, after_time, at_position, fold_between, rank
from mta.monoid import Partial

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
