"""The classic B-tree with aggregates (FiBA paper, section 3.1), the baseline for finger trees.

Every node except the root has an arity from ``MIN_ARITY`` to ``MAX_ARITY = 2 * MIN_ARITY``.
Rebalancing follows each change: an overfull node is split; an underfull node is merged with its
neighbor or filled up from it. With MIN_ARITY 2, inserting 5 into the last leaf:

    [ . 3 . ]                      [ . 3 . 5 . ]
    [1 2] [4 6 7]       becomes    [1 2] [4] [6 7]

>>> from mta import Monoid
>>> joined = Monoid(identity="", combine=lambda a, b: a + b)
>>> tree = Tree(joined, min_arity=2)
>>> for time in (1, 3, 4, 6, 2, 7):
...     tree.insert(time, "abcdefg"[time - 1])
>>> tree.insert(5, "e")
>>> tree.root.times.tolist(), tree.query()
([3, 5], 'abcdefg')
>>> tree.evict(3), tree.query()
(True, 'abdefg')

Deviations from the paper: leaves can have another minimal arity, because their entries are smaller
than those of inner nodes. A split makes as many nodes as a bulk insertion needs. A move takes half
of the neighbor's spare entries (one subtree at MIN_ARITY 2). ``touch`` records each node whose
aggregate needs repair; the paper passes up a top node and two flags.

Costs, in combines: query 0; insert and evict O(arity * log n).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import index as whole_number

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvariantViolation
from mta.logs.finger_tree.node import Kind, Node, parent_of
from mta.logs.finger_tree.node_cache import NodeCache
from mta.monoids.base import AbstractMonoid, Partial, Refold

#: The aggregate of each subtree and its number of events, folded from its events.
Folds = dict[Node, tuple[Refold, int]]


class Tree:
    """A B-tree of timed values with up-aggregates. Raises ValueError for an arity below 2."""

    def __init__(
        self,
        monoid: AbstractMonoid,
        min_arity: int = 2,
        leaf_min_arity: int | None = None,
        cache: NodeCache | None = None,
        kind: Kind | None = None,
    ) -> None:
        self.monoid, self.kind = monoid, kind or Kind(monoid)
        self.cache = cache or NodeCache()
        self._least = (min_arity if leaf_min_arity is None else leaf_min_arity, min_arity)
        if min(self._least) < 2:
            raise ValueError(f"a minimal arity is 2 or more, not {min(self._least)}")
        #: The number of splits, merges and moves so far, which the paper counts in coins.
        self.steps = {"split": 0, "merge": 0, "move": 0}
        self._touched: list[dict[int, Node]] = []
        self._begin()

    def _begin(self) -> None:
        """Start with a single leaf without values."""
        self.root = self.kind.node(0)
        self.root.agg = self.monoid.identity
        self.size = 0

    def least(self, level: int) -> int:
        """Return the smallest arity of a node, MIN_ARITY."""
        return self._least[level > 0]

    def child(self, node: Node, index: int) -> Node:
        """Return a child of a node. One page read unless it is in memory."""
        return self.cache.child(node, index)

    def is_spine(self, node: Node) -> bool:
        """Return whether a node stays in memory because of its place in the tree."""
        return node is self.root

    def __len__(self) -> int:
        return self.size

    # --- the interface of the paper ---------------------------------------------------------------

    def query(self) -> Partial:
        """Return the aggregate of all values in order of time. No combine."""
        return self.root.agg

    def insert(self, time: int, row: Row) -> None:
        """Add a value after others with its time. O(arity * log n) combines."""
        self.monoid.lift(row)  # what cannot be lifted must not be added
        time = whole_number(time)
        node, index = self._place_after(time)
        node.entries.insert(index, (time, row))
        self.size += 1
        self.touch(node)
        self.split_up(node)
        self.repair()

    def evict(self, time: int) -> bool:
        """Remove the oldest value with a given time; return whether there was one."""
        place = self.find(whole_number(time))
        if place is None:
            return False
        self.remove(*place)
        return True

    def replace(self, node: Node, index: int, row: Row) -> None:
        """Replace the value of an entry. Combines as for ``remove``."""
        self.monoid.lift(row)
        node.entries.put(index, (node.time_at(index), row))
        self.touch(node)
        self.repair()

    def remove(self, node: Node, index: int) -> None:
        """Remove one entry. O(arity * log n) combines. A failed read changes nothing."""
        if node.level:
            leaf, younger = self._substitute(node, index)
            self._load_neighbours(leaf)
            self.touch(node)
            node.entries.put(index, leaf.entries.remove(0 if younger else leaf.count - 1))
        else:
            leaf = node
            self._load_neighbours(leaf)
            leaf.entries.remove(index)
        self.size -= 1
        self.touch(leaf)
        self.fill_up(leaf)
        self.repair()

    def _substitute(self, node: Node, index: int) -> tuple[Node, bool]:
        """Return a leaf that has a neighbor of an inner node's entry, and whether that is later."""
        younger = self.child(node, index + 1).arity > self.least(node.level - 1)
        leaf = self._next_to(node, index, younger)
        if not leaf.count:  # a leaf at the left end may have no entry
            leaf, younger = self._next_to(node, index, True), True
        return leaf, younger

    def _next_to(self, node: Node, index: int, younger: bool) -> Node:
        """Return the leaf just before the entry of an inner node, or just after it."""
        leaf = self.child(node, index + younger)
        while leaf.level:
            leaf = self.child(leaf, 0 if younger else leaf.count)
        return leaf

    def _load_neighbours(self, node: Node) -> None:
        """Read the neighbors that rebalancing may need, at every level that a removal can reach."""
        while node.parent is not None and node.arity <= self.least(node.level):
            left = max(node.parent.index_of(node) - 1, 0)
            for index in range(left, min(left + 2, node.parent.arity)):
                self.child(node.parent, index)
            node = node.parent

    # --- finding ----------------------------------------------------------------------------------

    def find(self, time: int) -> tuple[Node, int] | None:
        """Return the node and index of the oldest entry with a given time, or None."""
        node, found = self._start(time, True), None
        while True:
            index = bisect_left(node.times, time)
            if index < node.count and node.time_at(index) == time:
                found = node, index
            if not node.level:
                return found
            node = self.child(node, index)

    def _place_after(self, time: int) -> tuple[Node, int]:
        """Return the leaf and index where a value belongs, after others with its time."""
        node = self._start(time, False)
        while True:
            index = bisect_right(node.times, time)
            if not node.level:
                return node, index
            node = self.child(node, index)

    def _start(self, time: int, at_first: bool) -> Node:
        """Return a node at or above the first entry with this time, or the place after the last."""
        return self.root

    # --- rebalancing ------------------------------------------------------------------------------

    def split_up(self, node: Node, ends: Sequence[int] = ()) -> None:
        """Split overfull nodes from this node up; the first at the entries ``ends``, if given."""
        while node.arity > 2 * self.least(node.level):
            parent = self.parent_above(node)
            self.split(node, parent, ends)
            node, ends = parent, ()

    def parent_above(self, node: Node) -> Node:
        """Return the parent of a node; for the root, a new root above it."""
        if node is self.root:
            self.root = self.kind.node(node.level + 1)
            self.root.adopt(0, node, self.monoid.identity)
            self.touch(self.root)
            self._raised(node)
        return parent_of(node)

    def split(self, node: Node, parent: Node, ends: Sequence[int] = ()) -> None:
        """Split a node of any arity into nodes of the least arity; the last one may be larger."""
        least = self.least(node.level)
        ends = ends or [piece * least - 1 for piece in range(1, node.arity // least)]
        self.steps["split"] += len(ends)
        rights = [
            self._piece(node, end + 1, stop)
            for end, stop in zip(ends, [*ends[1:], node.count], strict=True)
        ]
        between = node.entries.schema.take(node.entries.rows, np.array(ends))
        # Copying lets the memory of a whole batch be freed.
        node.entries = node.entries.copy(0, ends[0])
        if node.level:
            node.sums.truncate(ends[0] + 1)
            del node.links[ends[0] + 1 :]
        self.put_behind(node, parent, rights, between)

    def put_behind(self, node: Node, parent: Node, rights: Sequence[Node], between: Rows) -> None:
        """Insert new nodes after a node, with the entry that precedes each of them."""
        at, sums = parent.index_of(node), self._sums(rights)
        if not node.level:
            parent.sums.put(at, (self.kind.fold(node), node.count))
            node.stack = None
            self.cache.made += len(rights)
        parent.entries.insert_many(at, between, len(rights))
        parent.adopt_many(at + 1, rights, sums)
        self._replaced(node, rights[-1])
        for each in (*rights, node):
            if each.level or self.is_spine(each):
                self.touch(each)
            else:  # the parent already has the sum of a leaf
                self.cache.mark_dirty(each)
        self.touch(parent)

    def _piece(self, node: Node, start: int, stop: int) -> Node:
        """Return some entries of a node, and the subtrees around them, as a new node."""
        entries = node.entries.copy(start, stop)
        if not node.level:
            return self.kind.node(0, entries)
        sums, links = node.sums.copy(start, stop + 1), node.links[start : stop + 1]
        return self.kind.node(node.level, entries, sums, links)

    def _sums(self, nodes: Sequence[Node]) -> Rows:
        """Return what a parent stores of new leaves, and placeholders for inner nodes."""
        schema, identity = self.kind.sums, self.monoid.identity
        sums = schema.new(len(nodes))
        for at, node in enumerate(nodes):
            known = (identity, 0) if node.level else (self.kind.fold(node), node.count)
            schema.put(sums, at, known)
        return sums

    def fill_up(self, node: Node) -> None:
        """Merge or fill up underfull nodes from this node up."""
        while node is not self.root and node.arity < self.least(node.level):
            node = self.fill(node)
        if node is self.root:
            self.lower()

    def fill(self, node: Node) -> Node:
        """Merge an underfull node with a neighbor, if any, or fill it up; return the parent."""
        parent = parent_of(node)
        if parent.arity == 1:
            return parent
        at = parent.index_of(node)
        left = max(at - 1, 0)
        pair = self.child(parent, left), self.child(parent, left + 1)
        if pair[0].arity + pair[1].arity < 2 * self.least(node.level):
            self._merge(parent, left, *pair)
        else:
            self._move(parent, left, *pair)
        return parent

    def lower(self) -> None:
        """Remove every root that has no entries."""
        while self.root.level and not self.root.count:
            old, self.root = self.root, self.child(self.root, 0)
            self.root.parent = None
            self._untouch(old)
            self.cache.discard(old)
            self._lowered()
            self.touch(self.root)

    def _merge(self, parent: Node, at: int, left: Node, right: Node) -> None:
        """Merge two neighbors and the entry between them into one node."""
        self.steps["merge"] += 1
        time, row = parent.entries.remove(at)
        left.entries.insert(left.count, (time, row))
        left.entries.extend(right.entries.rows, right.count)
        if left.level:
            left.sums.extend(right.sums.rows, right.arity)
            left.links += right.links
            left.take(right.links)
        del parent.links[at + 1]
        parent.sums.remove(at + 1)
        self._untouch(right)
        self.cache.discard(right)
        self.touch(left)
        self.touch(parent)
        self._replaced(right, left)

    def _move(self, parent: Node, at: int, left: Node, right: Node) -> None:
        """Fill up one of two neighbors with half of the spare entries of the other."""
        self.steps["move"] += 1
        count = abs(left.arity - right.arity) // 2
        between = parent.entries.at(at)
        if left.arity < right.arity:
            parent.entries.put(at, right.entries.at(count - 1))
            left.entries.insert(left.count, between)
            left.entries.extend(right.entries.cut(0, count - 1), count - 1)
            right.entries.drop(count)
            if left.level:
                left.sums.extend(right.sums.cut(0, count), count)
                right.sums.drop(count)
                self._transfer(left, left.arity - count, right, 0, count)
        else:
            start = left.count - count
            parent.entries.put(at, left.entries.at(start))
            right.entries.insert(0, between)
            right.entries.insert_many(0, left.entries.cut(start + 1, left.count), count - 1)
            left.entries.truncate(start)
            if left.level:
                right.sums.insert_many(0, left.sums.cut(start + 1, start + 1 + count), count)
                left.sums.truncate(start + 1)
                self._transfer(right, 0, left, start + 1, count)
        self.touch(left)
        self.touch(right)
        self.touch(parent)

    def _transfer(self, to: Node, at: int, source: Node, start: int, count: int) -> None:
        """Move children from one node to another."""
        links = source.links[start : start + count]
        del source.links[start : start + count]
        to.links[at:at] = links
        to.take(links)

    # --- extension points for finger trees --------------------------------------------------------

    def may_lack(self, node: Node) -> bool:
        """Return whether a node may have less than the least arity."""
        return False

    def _raised(self, old: Node) -> None:
        """React to a new root above the old one."""

    def _lowered(self) -> None:
        """React to the removal of the root."""

    def _replaced(self, old: Node, new: Node) -> None:
        """React to the move of the right end of a node's content into another node."""

    # --- aggregates -------------------------------------------------------------------------------

    def touch(self, node: Node) -> None:
        """Record that a node has changed and its aggregate needs repair."""
        while len(self._touched) <= node.level:
            self._touched.append({})
        self._touched[node.level][id(node)] = node
        node.stack = None
        self.cache.mark_dirty(node)

    def _untouch(self, node: Node) -> None:
        if node.level < len(self._touched):
            self._touched[node.level].pop(id(node), None)

    def repair(self) -> None:
        """Recompute the aggregates of all changed nodes and of the nodes above them."""
        for touched in self._touched:
            while touched:
                _, node = touched.popitem()
                self._repair_node(node)
        del self._touched[self.root.level + 1 :]

    def _repair_node(self, node: Node) -> None:
        node.agg = self.kind.whole(node)
        self._tell_parent(node, node.agg)

    def _tell_parent(self, node: Node, aggregate: Partial) -> None:
        """Store a node's up-aggregate and size in its parent."""
        parent = node.parent
        if parent is not None:
            parent.sums.put(parent.index_of(node), (aggregate, self.kind.size(node)))
            self.touch(parent)

    # --- iteration --------------------------------------------------------------------------------

    def nodes(self) -> Iterator[Node]:
        """Yield every node, a parent before its children. Reads every page."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(self.child(node, i) for i in range(len(node.links)))

    def resident(self) -> Iterator[Node]:
        """Yield every node in memory."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(link.node for link in node.links if link.node is not None)

    def entries(self) -> Iterator[tuple[int, Row]]:
        """Yield every event in order of time. Reads every page once."""
        yield from self._entries(self.root)

    def _entries(self, node: Node) -> Iterator[tuple[int, Row]]:
        for i in range(node.arity):
            if node.level:
                yield from self._entries(self.child(node, i))
            if i < node.count:
                time, row = node.entries.at(i)
                yield int(time), row

    # --- invariants -------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the size, order and aggregation invariants (FiBA paper, sections 3.1 and 3.2).

        Folds everything again from the events: O(n) combines, and reads every page. Changes
        nothing. Raises InvariantViolation.
        """
        require_same("the root's aggregate", self.query(), self._check_all()[self.root][0])

    def _check_all(self) -> Folds:
        """Check sizes, order, and the sums of subtrees off the spines; return the folds."""
        for node in self.nodes():
            self._check_node(node)
        last = None
        for time, _ in self.entries():
            require(last is None or time >= last, f"time {time} stands after {last}")
            last = time
        folds: Folds = {}
        _, size = self._check_sums(self.root, folds)
        require(size == self.size, f"there are {size} entries in a tree of {self.size}")
        return folds

    def _check_node(self, node: Node) -> None:
        least, where = self.least(node.level), f"a node of level {node.level}"
        require(node.arity <= 2 * least, f"{where} has arity {node.arity}")
        if node is self.root:
            require(node.parent is None, "the root has a parent")
            require(not node.level or node.count > 0, "the root has one child")
        else:
            enough = node.arity >= least or self.may_lack(node)
            require(enough, f"{where} has arity {node.arity}")
        children = node.arity if node.level else 0
        found = len(node.links), node.sums.count
        what = f"{where} has {found} children and sums at {node.arity}"
        require(found == (children, children), what)
        for index, link in enumerate(node.links):
            below = self.child(node, index)
            fits = below.parent is node and below.link is link and below.level == node.level - 1
            require(fits, f"a child of {where} is not where its parent says")

    def _check_sums(self, node: Node, folds: Folds) -> tuple[Refold, int]:
        """Check the sums of the subtrees below a node; return its fold and its size."""
        size = node.count
        for index in range(len(node.links)):
            below = self.child(node, index)
            fold, count = self._check_sums(below, folds)
            size += count
            if not self.is_spine(below):
                known, known_size = node.sums.at(index)
                require_same("a sum", known, fold)
                require(known_size == count, f"a subtree of {count} events counts as {known_size}")
        fold = self._refold(self._items(node, folds))
        if node.stack is not None:
            at = self.monoid.partials.at(node.stack.suffixes, node.stack.at)
            require_same("a leaf's stack", self.monoid.combine(at, node.stack.added), fold)
        folds[node] = fold, size
        return fold, size

    def _items(self, node: Node, folds: Folds) -> list[Refold]:
        """Return the subtrees and entries of a node alternately; for a leaf, one item."""
        lifted = [self.monoid.lift(node.entries.at(index)[1]) for index in range(node.count)]
        if not node.level:
            return [Refold(self.monoid, lifted)]
        items = [folds[self.child(node, 0)][0]]
        for index, entry in enumerate(lifted, 1):
            items += Refold(self.monoid, [entry]), folds[self.child(node, index)][0]
        return items

    def _refold(self, items: list[Refold]) -> Refold:
        return sum(items, start=Refold(self.monoid))


def require(holds: bool, what: str) -> None:
    """Raise InvariantViolation with a message unless a condition holds."""
    if not holds:
        raise InvariantViolation(f"{what}; report this as a bug")


def require_same(what: str, found: Partial, fold: Refold) -> None:
    """Raise InvariantViolation unless an aggregate equals a newly computed one."""
    require(fold.agrees(found), f"{what} is {found!r} instead of {fold!r}")
