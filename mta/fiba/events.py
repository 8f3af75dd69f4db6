"""A tree's events by position, as cursors read them (``cursor.OrderedEvents``)."""

from __future__ import annotations

import numpy as np

from mta.columns import Rows
from mta.cursor import Leaf
from mta.fiba.fingers import FingerTree
from mta.fiba.node import Node
from mta.fiba.spans import Passage, after_time, at_position, fold_between, rank
from mta.monoid import Partial


class TreeEvents:
    """Positions count from ``front``, which grows with every event that is evicted for good."""

    def __init__(self, tree: FingerTree) -> None:
        self.tree = tree
        #: The position of the oldest event that the tree has.
        self.front = 0
        #: Grows whenever events before the back have changed positions.
        self.stamp = 0

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self.front + self.tree.size

    def place(self, position: int) -> tuple[Node, int, int]:
        """The leaf that has the event of a position, or whose last entry the event follows.

        Answers with the position of the leaf's first entry, and how many events are to the right
        of it up to where another leaf begins. At most a page read a level.
        """
        tree, node, first = self.tree, self.tree.root, self.front
        end = self.back
        while node.level:
            sizes = tree.sizes_of(node)
            ends = np.cumsum(sizes + 1) + first  # where each subtree begins that follows an entry
            index = int(np.searchsorted(ends, position, side="right"))
            if index < node.count:
                end = int(ends[index])
            if index:
                first = int(ends[index - 1])
            node = tree.child(node, index)
        return node, first, end - first

    def leaf(self, position: int) -> Leaf:
        """The events of a leaf and the one that follows it in a node above."""
        node, first, _ = self.place(position)
        if self.tree.right and node is not self.tree.right[0]:
            return self._with_next(node, first)
        return Leaf(first, node.values(0, node.count), node.times, node.count)

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
