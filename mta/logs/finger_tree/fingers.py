"""FiBA, the finger B-tree aggregator (FiBA paper, sections 3.2 and 3.3).

Fingers point to the first and the last leaf. The *spines* are the nodes on the paths from the
fingers up to the root. Searches start at the nearer finger. A change far from the root often stops
before it reaches the root, because each node keeps the aggregate for its place (Figure 2):

    up      off the spines: the whole subtree (stored in the parent, see ``node``)
    inner   the root: everything except the first and the last subtree
    left    on the left spine: the root's first subtree without the node's own first subtree
    right   on the right spine: the same from the other side

The fingers and the root together therefore give the result. This is the paper's Figure 3(A), with
letters as values and the spines at the left and the right:

                        [ . g . o . ]                    root: ghijklmno
              [ . c . e . ]          [ . t . ]           left: cdef, right: qst
              [ab] [d] [f]           [qs] [u]            left: abcdef, right: qstu

>>> from mta import Monoid
>>> tree = FingerTree(Monoid(identity="", combine=lambda a, b: a + b))
>>> for time, letter in enumerate("abcdefgh"):
...     tree.insert(10 * time, letter)
>>> tree.insert(65, "!")  # a late event between g and h
>>> tree.evict(0)
True
>>> tree.query()
'bcdefg!h'
>>> tree.left[0].agg, tree.root.agg, tree.right[0].agg
('bc', 'def', 'g!h')
>>> tree.fold_between(after_time(19), after_time(50)), tree.rank(after_time(19))
('cdef', 1)
>>> tree.fold_between(tree.at_position(5), "all before")  # to the end
'g!h'

The paper marks spine nodes with flags, which a published implementation failed to update when a
node borrowed from the left spine. Here each spine is a list with one node per level.

A restored tree has no left spine, and no aggregates on the right spine, until single events need
them. Batches do not need them. Until then the nodes at its left end are like any others, with
up-aggregates in their parents, and a batch neither reads nor folds nodes that it does not change.

One cut evicts any number of the oldest values, without rebalancing: the nodes at the left end of
their levels may then have an arity below MIN_ARITY, or no entry at all. All other nodes keep the
minimum and the root has two children, so the tree does not become higher.

Costs, in combines: query 2; insert and evict amortized O(arity * log d) at distance d from the
nearer end, O(1) at the ends, where a leaf is folded like Two-Stacks; range query O(arity * log n).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import index as whole_number
from typing import Literal

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EmptyWindow
from mta.logs.finger_tree.btree import Folds, Tree, require, require_same
from mta.logs.finger_tree.node import Node, Piece, parent_of
from mta.monoids.base import Partial, Refold

#: A path through a tree between two entries. In each node, it passes through or beside a subtree.
#: Returns the index of the entry after that subtree, and how the path continues in the subtree, or
#: on which side of the path the subtree is.
Cut = Callable[[Node], "tuple[int, Passage]"]
Passage = Cut | Literal["all before", "all after"]


def after_time(time: int) -> Cut:
    """Return the cut after the entries up to a time."""

    def cut(node: Node) -> tuple[int, Passage]:
        return int(node.times.searchsorted(time, side="right")), cut

    return cut


class FingerTree(Tree):
    """A B-tree with fingers and position-aware aggregates."""

    def _begin(self) -> None:
        super()._begin()
        #: The spines from the fingers up, without the root. The left spine is None until it is
        #: created.
        self._left: list[Node] | None = []
        self.right: list[Node] = []
        #: Whether the root and the right spine have their aggregates.
        self.is_folded = True
        #: The highest level with new nodes on the left spine, and the highest levels of both spines
        #: to repair; repairs proceed downwards.
        self._new_left = -1
        self._lowest = [-1, -1]

    # --- spines -------------------------------------------------------------------------------

    @property
    def left(self) -> list[Node]:
        """The left spine from the finger up. Created on first use with one page read per level."""
        return self.load_left() if self._left is None else self._left

    def load_left(self) -> list[Node]:
        """Create the left spine and return it."""
        if self._left is None:
            spine, node = [], self.root
            while node.level:
                node = self.cache.child(node, 0)
                spine.append(node)
            self._left = spine[::-1]
            self._renew_left(self.root.level - 1)
        return self._left

    @property
    def last_leaf(self) -> Node:
        """The leaf with the newest entries."""
        return self.right[0] if self.right else self.root

    @property
    def has_left(self) -> bool:
        """Whether there is a left spine."""
        return self._left is not None

    def on_left(self, node: Node) -> bool:
        """Return whether a node is on the left spine, below the root."""
        spine = self._left
        return spine is not None and node.level < len(spine) and spine[node.level] is node

    def on_right(self, node: Node) -> bool:
        """Return whether a node is on the right spine, below the root."""
        return node.level < len(self.right) and self.right[node.level] is node

    def is_spine(self, node: Node) -> bool:
        """Return whether a node is the root or on a spine."""
        return node is self.root or self.on_left(node) or self.on_right(node)

    def may_lack(self, node: Node) -> bool:
        while node.parent is not None:
            if node.parent.links[0] is not node.link:
                return False
            node = node.parent
        return True

    def _raised(self, old: Node) -> None:
        if self._left is not None:
            self._left.append(old)
        self.right.append(old)

    def _lowered(self) -> None:
        if self._left is not None:
            self._left.pop()
        self.right.pop()
        # Nodes below the root have other aggregates than nodes below a spine node.
        for spine in (self._left, self.right):
            if spine:
                self.touch(spine[-1])

    def _replaced(self, old: Node, new: Node) -> None:
        if self.on_right(old):
            self.right[old.level] = new

    # --- the interface of the paper ---------------------------------------------------------------

    def query(self) -> Partial:
        """Return the aggregate of all values in order of time. 2 combines, no page read."""
        self._fold_spine()
        if not self.root.level:
            return self.root.agg
        left = self.root.fold_at(0) if self._left is None else self._left[0].agg
        combine = self.monoid.combine
        return combine(combine(left, self.root.agg), self.right[0].agg)

    def insert(self, time: int, row: Row) -> None:
        """Add a value. Amortized O(arity * log d) combines, 1 at the end."""
        time, leaf = whole_number(time), self.last_leaf
        is_late = leaf.count > 0 and time < leaf.time_at(leaf.count - 1)
        if is_late or leaf.arity >= 2 * self.least(0):
            super().insert(time, row)
            return
        lifted, combine = self.monoid.lift(row), self.monoid.combine
        if self.is_folded:
            aggregate = combine(leaf.agg, lifted)
            if leaf.stack is not None:
                leaf.stack.added = combine(leaf.stack.added, lifted)
            leaf.agg = aggregate
        leaf.entries.insert(leaf.count, (time, row))
        self.size += 1
        self.cache.mark_dirty(leaf)

    def evict_oldest(self, count: int = 1) -> int:
        """Remove the oldest values; return the time of the last of them, 0 if none.

        Amortized 2 combines for one value, O(log m) for m values; at most one page read per level.
        Raises EmptyWindow if there are too few values. A failed read changes nothing.
        """
        count = whole_number(count)
        if not 0 <= count <= self.size:
            raise EmptyWindow(f"cannot evict {count} events of a window of {self.size}")
        if not count:
            return 0
        leaf = self.root if not self.right else self._left[0] if self._left else None
        if leaf is None or leaf.count < count:
            node, index = self.entry_at(count - 1)
            newest = node.time_at(index)
            self._cut_off(count)
            return newest
        newest = leaf.time_at(count - 1)
        stack = leaf.stack
        if stack is None or stack.at + count > stack.size:
            stack = self.kind.stack(leaf)
        stack.at += count
        monoid = self.monoid
        suffix = monoid.combine(monoid.partials.at(stack.suffixes, stack.at), stack.added)
        leaf.entries.drop(count)
        leaf.agg, leaf.stack = self._with_left_of(leaf, suffix), stack
        # A root that is a leaf is now folded: later insertions update its fold.
        self.is_folded |= leaf is self.root
        self.size -= count
        self.cache.mark_dirty(leaf)
        return newest

    def _cut_off(self, count: int) -> None:
        """Cut the tree along one path; drop everything before the path without reading it."""
        if count == self.size:
            self.clear()
            return
        spine = self._left or []
        top = next((node for node in spine if self.size_below(node) > count), self.root)
        path = self._path_to(top, count)
        for node, index, passage in path:
            gone = index + (passage == "all before")
            if gone:
                self.touch(node)
                node.entries.drop(index)
            if gone and node.level:
                self.cache.drop(node.level - 1, node.links[:gone], node)
                del node.links[:gone]
                node.sums.drop(gone)
        nodes = [node for node, _, _ in path]
        if path[-1][2] == "all before":
            nodes += self._empty_before(nodes[-1])
        self.set_left(nodes)
        self.size -= count
        self.lower()
        self.repair()

    def _path_to(self, node: Node, count: int) -> list[tuple[Node, int, Passage]]:
        """Return the path of the cut after ``count`` entries, as far as nodes must be read."""
        path: list[tuple[Node, int, Passage]] = []
        while node.level:
            index, passage = self.at_position(count)(node)
            path.append((node, index, passage))
            if passage == "all before" or (passage == "all after" and self._left is None):
                return path
            count -= self.events_before(node, index)
            node = self.child(node, index)
        return [*path, (node, count, "all after")]

    def _empty_before(self, node: Node) -> list[Node]:
        """Insert an empty subtree before the first entry of a node; return its nodes, top down."""
        nodes = []
        while node.level:
            below = self.kind.node(node.level - 1)
            node.adopt(0, below, self.monoid.identity)
            self.touch(below)
            nodes.append(below)
            node = below
        return nodes

    @property
    def room(self) -> int:
        """How many values fit in the last leaf."""
        return 2 * self.least(0) - self.last_leaf.arity

    def append(self, times: np.ndarray, rows: Rows, count: int) -> None:
        """Add values at the end, which must fit in the last leaf. No combine."""
        leaf = self.last_leaf
        leaf.entries.extend((times, rows), count)
        self.size += count
        self.cache.mark_dirty(leaf)
        self.unfold()

    def drop_newest(self, count: int) -> None:
        """Remove the newest values, all in the last leaf. The caller appends as many or more."""
        leaf = self.last_leaf
        leaf.entries.truncate(leaf.count - count)
        self.size -= count
        self.cache.mark_dirty(leaf)
        self.unfold()

    def unfold(self) -> None:
        """Defer the aggregates of the root and the right spine until their next use."""
        self.last_leaf.stack, self.is_folded = None, False

    def clear(self) -> None:
        """Remove everything. No combine, no page read."""
        self.cache.drop(self.root.level - 1, self.root.links, self.root)
        self.cache.discard(self.root)
        self._begin()

    def set_left(self, path: list[Node]) -> None:
        """Set the lowest nodes of the left spine, if it exists; ``path`` may include the root."""
        if self._left is None:
            return
        spine, below = self.left, [node for node in path if node is not self.root]
        self._left = below[::-1] + spine[len(below) :]
        self._new_left = max(self._new_left, path[0].level)

    # --- saving and restoring -----------------------------------------------------------------

    def settle_left(self) -> None:
        """Update the sums that parents store for the left spine, so that it can be written."""
        for node in [*self._left[1:], self.root] if self._left else ():
            node.sums.put(0, (self.whole(node, 0), self.size_of(node, 0)))

    def restore(self, spine: list[Node], size: int) -> None:
        """Set the root and the right spine. No combine."""
        self.root, self.right = spine[0], spine[:0:-1]
        self._left, self.is_folded, self.size = None, False, size

    # --- finding ----------------------------------------------------------------------------------

    def entry_at(self, position: int) -> tuple[Node, int]:
        """Return the node and index of the entry at a position, counted from the oldest.

        With a left spine, visits O(log d) nodes at distance d from the nearer end. Reads at most
        one page per level, and a leaf only if it has the entry.
        """
        node, before = self._near(position)
        position -= before
        while node.level:
            index, passage = self.at_position(position)(node)
            if passage == "all before":
                return node, index
            position -= self.events_before(node, index)
            node = self.child(node, index)
        return node, position

    def subtree_for(self, first: int, last: int) -> Node:
        """Return a spine node with all values between two times below it, or the root."""
        node = self._start(first, False)
        while self.on_left(node) and not self.on_right(node) and not self._is_beside(node, last):
            node = parent_of(node)
        return node

    def _is_beside(self, node: Node, time: int) -> bool:
        """Return whether a time is before the entry that follows a node of the left spine."""
        above = parent_of(node)
        return above.count > 0 and time < above.time_at(0)

    def _start(self, time: int, at_first: bool) -> Node:
        root = self.root
        if root.level and time < root.time_at(0):
            spine = self._left or []
            return next((node for node in spine if self._is_beside(node, time)), root)
        for node in self.right:
            above = parent_of(node)
            newest = above.time_at(above.count - 1)
            if time > newest or (time == newest and not at_first):
                return node
        return root

    # --- aggregates -------------------------------------------------------------------------------

    def repair(self) -> None:
        """Repair changed nodes up to the spines and the root, then the spines downwards."""
        self._lowest = [self._new_left, -1]
        self._new_left = -1
        super().repair()
        self._renew_left(self._lowest[0])
        self._renew_right(self._lowest[1])

    def _repair_node(self, node: Node) -> None:
        if node is self.root:
            if self.is_folded:
                node.agg = self.kind.fold(node)
        elif self.on_left(node):
            self._lowest[0] = max(self._lowest[0], node.level)
        elif self.on_right(node):
            self._lowest[1] = max(self._lowest[1], node.level)
        else:
            self._tell_parent(node, self.kind.whole(node))

    def _renew_left(self, level: int) -> None:
        """Compute the left aggregates from a level down to the finger."""
        for node in reversed(self._left[: level + 1] if self._left else []):
            node.agg = self._with_left_of(node, self.kind.but_first(node))

    def _renew_right(self, level: int) -> None:
        """Compute the right aggregates from a level down to the finger, unless deferred."""
        for node in reversed(self.right[: level + 1]) if self.is_folded else ():
            above, node.agg = parent_of(node), self.kind.but_last(node)
            if above is not self.root:
                node.agg = self.monoid.combine(above.agg, node.agg)

    def _fold_spine(self) -> None:
        """Compute the deferred aggregates of the root and the right spine."""
        if not self.is_folded:
            self.is_folded = True
            self.root.agg = self.kind.fold(self.root)
            self._renew_right(self.root.level)

    def _with_left_of(self, node: Node, aggregate: Partial) -> Partial:
        parent = node.parent
        if parent is None or parent is self.root:
            return aggregate
        return self.monoid.combine(aggregate, parent.agg)

    def spine_child(self, node: Node, index: int) -> Node | None:
        """Return a child if it is on a spine and in memory."""
        below = node.links[index].node
        return below if below and (self.on_left(below) or self.on_right(below)) else None

    def whole(self, node: Node, index: int) -> Partial:
        """Return the up-aggregate of a child. O(arity * levels) combines on the spines."""
        below = self.spine_child(node, index)
        return (
            node.fold_at(index) if below is None else self._fold(below, "all after", "all before")
        )

    def size_of(self, node: Node, index: int) -> int:
        """Return the number of events below a child, which may be on a spine."""
        below = self.spine_child(node, index)
        if below is None:
            return node.size_at(index)
        return self.size_below(below)

    def size_below(self, node: Node) -> int:
        """Return the number of events in the subtree of a node, which may be on a spine."""
        count = node.entries.count
        return count + int(self.sizes_of(node).sum()) if node.level else count

    def sizes_of(self, node: Node) -> np.ndarray:
        """Return the number of events below each child of an inner node."""
        sizes = node.sizes()
        if self.is_spine(node):
            sizes = sizes.copy()
            for end in (0, node.count):
                sizes[end] = self.size_of(node, end)
        return sizes

    def places_of(self, node: Node) -> np.ndarray:
        """Return how many events of an inner node's subtree precede each of its entries."""
        sums, first = node.sums, -1
        if self._left and (node is self.root or self.on_left(node)):
            first = self.size_below(self._left[node.level - 1])
        if sums.derived is None or sums.derived[0] != first:
            sizes = node.sizes()[: node.count] + 1  # the last subtree precedes no entry
            if first >= 0:
                sizes[:1] = first + 1
            sums.derived = first, sizes.cumsum() - 1
        places: np.ndarray = sums.derived[1]
        return places

    def child_with(self, node: Node, position: int) -> tuple[int, int]:
        """Return the child with a position, or just after it, and the number of events before."""
        places = self.places_of(node)
        index = int(places.searchsorted(position))
        return index, int(places[index - 1]) + 1 if index else 0

    def above_leaf(self, position: int) -> tuple[Node, int]:
        """Return the node above the leaf with a position, or the root if the root is that leaf.

        Also returns the number of events before its subtree. One page read per level.
        """
        node, first = self.root, 0
        while node.level > 1:
            index, before = self.child_with(node, position - first)
            first += before
            node = self.child(node, index)
        return node, first

    def events_before(self, node: Node, index: int) -> int:
        """Return how many events of a node's subtree precede one of its children."""
        return int(self.places_of(node)[index - 1]) + 1 if index else 0

    # --- between two cuts -------------------------------------------------------------------------

    def at_position(self, position: int) -> Cut:
        """Return the cut before the entry at a position, counted from the oldest in the subtree."""

        def cut(node: Node) -> tuple[int, Passage]:
            if not node.level:
                return min(position, node.count), "all before"
            index, before = self.child_with(node, position)
            if index < node.count and self.places_of(node)[index] == position:
                return index, "all before"
            inside = position - before
            return (index, self.at_position(inside)) if inside else (index, "all after")

        return cut

    def fold_between(self, start: Passage, stop: Passage) -> Partial:
        """Return the aggregate of the entries between two cuts, the identity if there are none.

        Costs O(arity * log n) combines and at most two page reads per level.
        """
        return self._fold(self.root, start, stop)

    def _fold(self, node: Node, start: Passage, stop: Passage) -> Partial:
        pieces: list[Piece] = []
        self._gather(node, start, stop, pieces)
        return self.monoid.fold(*self._joined(pieces)) if pieces else self.monoid.identity

    def _joined(self, pieces: list[Piece]) -> Piece:
        """Concatenate at least one piece."""
        if len(pieces) == 1:
            return pieces[0]
        rows, sizes = zip(*pieces, strict=True)
        return self.monoid.partials.joined(rows, sizes), sum(sizes)

    def _gather(self, node: Node, start: Passage, stop: Passage, pieces: list[Piece]) -> None:
        """Collect the aggregates between two cuts, in order, for a single fold."""
        first, left = (0, start) if isinstance(start, str) else start(node)
        end, right = (node.count, stop) if isinstance(stop, str) else stop(node)
        if node.level and first == end:
            self._gather_child(node, first, left, right, pieces)
        elif not node.level and 0 == first < end == node.count:
            pieces.append((self.monoid.partials.one(self.kind.fold(node)), 1))
        elif first < end:
            inner = node.level > 0
            before = inner and left == "all after" and self.spine_child(node, first) is None
            if inner and not before:
                self._gather_child(node, first, left, "all before", pieces)
            pieces.append(self.kind.piece(node, first, end, before))
            if inner:
                self._gather_child(node, end, "all after", right, pieces)

    def _gather_child(
        self, node: Node, index: int, start: Passage, stop: Passage, pieces: list[Piece]
    ) -> None:
        """Collect the aggregates between two cuts of a subtree. Reads it only to cut it."""
        if start == "all before" or stop == "all after":
            return
        whole = isinstance(start, str) and isinstance(stop, str)
        below = self.spine_child(node, index) if whole else self.child(node, index)
        if below is None:
            pieces.append((node.folds(index, index + 1), 1))
        else:
            self._gather(below, start, stop, pieces)

    def fold_positions(self, start: int, stop: int) -> Partial:
        """Return the aggregate from one position to another, counted from the oldest.

        Costs O(arity * log d) combines and O(log d) nodes if ``start`` is at distance d from the
        newest.
        """
        if start >= stop:
            return self.monoid.identity
        node, before = self._near(start, newest=True)
        end: Passage = "all before" if stop == self.size else self.at_position(stop - before)
        return self._fold(node, self.at_position(start - before), end)

    def folds_behind(self, position: int) -> tuple[np.ndarray, Rows]:
        """Return positions from ``position`` on, and the aggregate from each to the end.

        If a leaf starts at ``position``, the positions are those of its parent's leaves; otherwise
        ``position`` is the only one. Costs as much as one ``fold_positions``.
        """
        schema, (node, first) = self.monoid.partials, self.above_leaf(position)
        index, before = self.child_with(node, position - first) if node.level else (0, 0)
        if 0 < index < node.count and first + before == position:
            starts = first + 1 + self.places_of(node)[index - 1 :]
            right = self.fold_positions(int(starts[-1]), self.size)
            mixed, size = self.kind.piece(node, index, node.count, before=True)
            folds = self.monoid.suffixes(mixed, size, right)
            return starts, schema.take(folds, np.arange(0, size + 1, 2))
        return np.array([position]), schema.one(self.fold_positions(position, self.size))

    def longest_prefix(
        self, position: int, prefix: Partial, accepts: Callable[[Partial], bool]
    ) -> int:
        """Return the end of the longest run whose fold, after a prefix, is accepted.

        Costs O(arity * log n) combines, at most two page reads per level, and O(log n) calls of
        ``accepts``.
        """
        return self._accepted(self.root, self.at_position(position), prefix, accepts)[0]

    def _accepted(
        self, node: Node, start: Passage, prefix: Partial, accepts: Callable[[Partial], bool]
    ) -> tuple[int, Partial, bool]:
        """Return the end and fold of the longest accepted run after a cut, and if all is accepted.

        The end counts from the subtree's first entry.
        """
        first, left = (0, start) if isinstance(start, str) else start(node)
        pieces: list[Piece] = []
        if node.level and not isinstance(left, str):
            end, prefix, is_all = self._accepted(self.child(node, first), left, prefix, accepts)
            if not is_all:
                return self.events_before(node, first) + end, prefix, False
        elif node.level and left == "all after":
            pieces.append((self.monoid.partials.one(self.whole(node, first)), 1))
        if first < node.count:
            pieces.append(self.kind.piece(node, first, node.count))
            if node.level:
                pieces.append((self.monoid.partials.one(self.whole(node, node.count)), 1))
        if not pieces:
            return self.size_below(node), prefix, True
        rows, size = self._joined(pieces)
        folds, at = self.monoid.prefixes(rows, size, prefix), self.monoid.partials.at
        found = bisect_left(range(size), True, key=lambda i: not accepts(at(folds, i)))
        prefix = at(folds, found - 1) if found else prefix
        if found == size:
            return self.size_below(node), prefix, True
        if not node.level:
            return first + found, prefix, False
        # Subtrees and entries alternate.
        index, is_entry = divmod(found + (left != "all after"), 2)
        if is_entry:
            return int(self.places_of(node)[first + index]), prefix, False
        below = self.child(node, first + index)
        end, prefix, _ = self._accepted(below, "all after", prefix, accepts)
        return self.events_before(node, first + index) + end, prefix, False

    def _near(self, position: int, newest: bool = False) -> tuple[Node, int]:
        """Return the lowest node of a spine, or the root, whose subtree contains a position.

        With ``newest``, it contains all later positions too. Also returns the number of entries
        before the subtree.
        """
        first = last = 0
        for level, node in enumerate(self.right):
            last += node.count + (int(node.sizes()[:-1].sum()) if level else 0)
            if position >= self.size - last:
                return node, self.size - last
            if self._left is not None and not newest:
                node = self._left[level]
                first += node.count + (int(node.sizes()[1:].sum()) if level else 0)
                if position < first:
                    return node, 0
        return self.root, 0

    def rank_after(self, time: int) -> int:
        """Return how many entries are not later than a time. O(log d) nodes at distance d."""
        leaf = self.last_leaf
        if leaf.count and leaf.time_at(0) <= time:
            return self.size - leaf.count + int(leaf.times.searchsorted(time, side="right"))
        node = self._start(time, False)
        before = self.size - self.size_below(node) if self.on_right(node) else 0
        return before + self.rank(after_time(time), node=node)

    def rank(self, cut: Passage, reads_leaf: bool = True, node: Node | None = None) -> int:
        """Return how many entries of the tree or a node precede a cut. One page read per level.

        If ``reads_leaf`` is false, return an earlier position in the same leaf instead.
        """
        node, found = node or self.root, 0
        while not isinstance(cut, str):
            index, cut = cut(node)
            if not node.level:
                return found + index if reads_leaf else found
            found += self.events_before(node, index)
            if not reads_leaf and (node.level == 1 or cut == "all before"):
                return found
            if cut == "all before":
                return found + self.size_of(node, index)
            if not isinstance(cut, str):
                node = self.child(node, index)
        return found

    # --- invariants -------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the tree, the spines and their aggregates. Deferred aggregates stay deferred."""
        with self.cache.preserving_state():
            self._check_spine(self.right, -1)
            if self._left is not None:
                self._check_spine(self._left, 0)
            self._check_fingers(self._check_all())

    def _check_spine(self, spine: list[Node], end: int) -> None:
        """Check that a spine has the end node of each level, and that its finger is a leaf."""
        node = self.root
        for below in reversed(spine):
            is_end = bool(node.level) and node.links[end].node is below
            require(is_end, f"the spine's node of level {below.level} is not the end of its level")
            node = below
        require(not node.level, "a spine does not reach the leaves")

    def _check_fingers(self, folds: Folds) -> None:
        """Check the existing inner, left and right aggregates, from the root to the fingers."""
        left = right = Refold(self.monoid)
        for node in reversed(self._left or []):
            left = self._refold(self._items(node, folds)[node.level > 0 :]) + left
            require_same("a left aggregate", node.agg, left)
        if not self.is_folded:
            return
        items, cut = self._items(self.root, folds), 1 if self.root.level else 0
        inner = self._refold(items[cut : len(items) - cut])
        require_same("the inner aggregate", self.root.agg, inner)
        for node in reversed(self.right):
            items = self._items(node, folds)
            right += self._refold(items[: len(items) - (node.level > 0)])
            require_same("a right aggregate", node.agg, right)
