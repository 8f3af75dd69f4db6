"""Bulk insertion and bulk eviction, each better than one by one.

After "Out-of-Order Sliding-Window Aggregation with Efficient Bulk Evictions and Insertions" (VLDB
2023): a sorted batch of m values at distance d is distributed over the leaves on one way down, a
leaf and every node above it folded once however many values they get; an eviction cuts the tree
along one path and drops what is before it unread.

Costs, in combines, at constant arity: insertion O(m log(d / m)) amortised, eviction of m values
O(log m).

>>> from mta import Monoid
>>> tree = FingerTree(Monoid(identity="", combine=lambda a, b: a + b))
>>> insert_sorted(tree, np.arange(0, 60, 10), list("acegik"), 6)
>>> insert_sorted(tree, np.array([5, 15, 55]), list("bdl"), 3)
>>> tree.query()
'abcdegikl'
>>> evict_first(tree, 4)
>>> tree.query()
'egikl'
"""

from __future__ import annotations

from itertools import pairwise
from operator import index as whole_number

import numpy as np

from mta.columns.schemas import Rows
from mta.fiba.fingers import FingerTree
from mta.fiba.node import Node

#: So many values are put into a leaf one after the other.
_FEW = 2


def insert_sorted(tree: FingerTree, times: np.ndarray, rows: Rows, count: int) -> None:
    """Add values in the order of time, each after those of its time that are there.

    A failed read changes nothing.
    """
    if count == 0 or _append(tree, times, rows, count):
        return
    if not tree.monoid.is_columnar:
        tree.monoid.lift_rows(rows, count)  # what cannot be lifted must not get in
    node = tree.subtree_for(int(times[0]), int(times[-1]))
    _load(tree, node, times)
    _pour(tree, node, times, rows, count)
    tree.size += count
    tree.split_up(node, _ends_of_last(tree, node))
    tree.repair()


def _ends_of_last(tree: FingerTree, node: Node) -> list[int]:
    """Where the overfull last leaf of a tree without a left spine is split; else nothing.

    Only the new last leaf, to which events in order will go, has the least arity; the others are as
    full as may be, so that they are fewer pages. Where single events are evicted, which takes folds
    of the leaf at the front, leaves are halved instead.
    """
    if tree.has_left or node is not tree.last_leaf:
        return []
    least = tree.least(0)
    rest = node.arity - least
    pieces = -(-rest // (2 * least))
    return [rest * piece // pieces - 1 for piece in range(1, pieces + 1)]


def _append(tree: FingerTree, times: np.ndarray, rows: Rows, count: int) -> bool:
    """Add values at the end, if they are in order and the last leaf has room."""
    leaf = tree.last_leaf
    if leaf.arity + count > 2 * tree.least(0):
        return False
    if leaf.count and times[0] < leaf.time_at(leaf.count - 1):
        return False
    monoid = tree.monoid
    if tree.is_folded:
        fold = monoid.fold(monoid.lift_rows(rows, count), count)
        leaf.agg = monoid.combine(leaf.agg, fold)
        if leaf.stack is not None:
            leaf.stack.added = monoid.combine(leaf.stack.added, fold)
    elif not monoid.is_columnar:
        monoid.lift_rows(rows, count)  # what cannot be lifted must not get in
    leaf.entries.extend((times, rows), count)
    tree.size += count
    tree.cache.mark_dirty(leaf)
    return True


def _load(tree: FingerTree, node: Node, times: np.ndarray) -> None:
    """Read the nodes that values of these times belong in."""
    if not node.level:
        return
    cuts = [0, *times.searchsorted(node.times).tolist(), len(times)]
    for index, (start, stop) in enumerate(pairwise(cuts)):
        if start < stop:
            _load(tree, tree.child(node, index), times[start:stop])


def _pour(tree: FingerTree, node: Node, times: np.ndarray, rows: Rows, count: int) -> None:
    """Distribute values over a subtree, splitting what is overfull but for its root."""
    tree.touch(node)
    if not node.level:
        _merge(tree, node, times, rows, count)
        return
    inputs = tree.monoid.inputs
    cuts = [0, *times.searchsorted(node.times).tolist(), count]
    for index in range(node.count, -1, -1):
        start, stop = cuts[index], cuts[index + 1]
        if start < stop:
            below = tree.child(node, index)
            _pour(tree, below, times[start:stop], inputs.cut(rows, start, stop), stop - start)
            if below.arity > 2 * tree.least(below.level):
                tree.split(below, node, _ends_of_last(tree, below))


def _merge(tree: FingerTree, leaf: Node, times: np.ndarray, rows: Rows, count: int) -> None:
    """Merge sorted values into a leaf, which may become overfull."""
    entries, places = leaf.entries, leaf.times.searchsorted(times, side="right")
    first = int(places[0])
    if first == leaf.count:
        entries.extend((times, rows), count)
        return
    if count <= _FEW:
        for i in range(count - 1, -1, -1):
            entries.insert(int(places[i]), (times[i], tree.monoid.inputs.at(rows, i)))
        return
    schema, moved = entries.schema, leaf.count - first
    merged = schema.new(moved + count)
    new = places - first + np.arange(count)
    is_old = np.ones(moved + count, dtype=bool)
    is_old[new] = False
    schema.put_at(merged, new, (times, rows))
    schema.put_at(merged, np.flatnonzero(is_old), entries.cut(first, leaf.count))
    entries.truncate(first)
    entries.extend(merged, moved + count)


def evict_first(tree: FingerTree, count: int) -> None:
    """Remove the oldest values; reads the pages along the cut, and neighbours of underfull nodes.

    Without a left spine the cut begins at the root, and ends where whole subtrees go. A failed read
    changes nothing.
    """
    count = whole_number(count)
    if count <= 0:
        return
    if count >= tree.size:
        tree.clear()
        return
    spine = tree.left if tree.has_left else []
    top = next((node for node in spine if tree.size_below(node) > count), tree.root)
    _load_above(tree, top)
    _load_cut(tree, top, count)
    path = _cut_off(tree, top, count)
    above = spine[top.level + 1 :]
    tree.set_left(path)
    tree.size -= count
    tree.lower()
    for node in path:
        if node.level < tree.root.level and node.arity < tree.least(node.level):
            tree.fill(node)
    for node in [*reversed(path), *above]:
        if node.level < tree.root.level:
            tree.fill_up(node)
    tree.lower()
    tree.repair()


def _load_above(tree: FingerTree, node: Node) -> None:
    """Read what rebalancing may need above a subtree, each level of which loses two at most."""
    while node.parent is not None:
        node = node.parent
        if node.parent is None or node.arity > tree.least(node.level) + 1:
            return
        at = node.parent.index_of(node)
        for index in range(at + 1, min(at + 3, node.parent.arity)):
            tree.child(node.parent, index)


def _load_cut(tree: FingerTree, node: Node, count: int) -> None:
    """Read what cutting off the oldest entries of a subtree, and rebalancing after it, may need.

    A node is merged or filled up at most twice, from the next two nodes of its level.
    """
    neighbours: list[Node] = []
    parent = node.parent
    if parent is not None and node.arity - _reach(tree, node, count) < tree.least(node.level) + 2:
        at = parent.index_of(node)
        neighbours = [tree.child(parent, i) for i in range(at + 1, min(at + 3, parent.arity))]
    while node.level:
        index, passage = tree.at_position(count)(node)
        count -= tree.events_before(node, index)
        if passage == "all after" and not tree.has_left:
            return
        gone = passage == "all before"
        rest = [(node, i) for i in range(index + 1, node.arity)]
        rest += [(next_one, i) for next_one in neighbours for i in range(next_one.arity)]
        below = tree.child(*rest[0]) if gone else tree.child(node, index)
        left = 0 if gone else below.arity - _reach(tree, below, count)
        needed = 2 if left < tree.least(below.level) + 2 else 0
        neighbours = [tree.child(*place) for place in rest[gone : gone + needed]]
        node, count = below, 0 if gone else count


def _reach(tree: FingerTree, node: Node, count: int) -> int:
    """How many places of a node go with its oldest entries."""
    return tree.at_position(count)(node)[0] if node.level else count


def _cut_off(tree: FingerTree, node: Node, count: int) -> list[Node]:
    """Drop the oldest entries of a subtree.

    Answers with the nodes of its left end, from its root down; without a left spine, with those of
    them that have changed.
    """
    path = [node]
    while path[-1].level:
        node = path[-1]
        below, count = _cut_node(tree, node, count) if count else ([], 0)
        if not below and (count or tree.has_left):
            below = [tree.child(node, 0)]
        if not below:
            return path
        path += below
    if count:
        tree.touch(path[-1])
        path[-1].entries.drop(count)
    return path


def _cut_node(tree: FingerTree, node: Node, count: int) -> tuple[list[Node], int]:
    """Drop the oldest entries of a node; how many are then to be dropped of its first child.

    Beside it, new nodes below that are to be filled.
    """
    index, passage = tree.at_position(count)(node)
    tree.touch(node)
    if passage == "all before":
        # The subtree goes as a whole; the entry after it needs an empty one before it.
        _drop(tree, node, index + 1, index)
        below = _empty(tree, node.level - 1)
        node.adopt(0, below[0], tree.monoid.identity)
        return below, 0
    gone = tree.events_before(node, index)
    _drop(tree, node, index, index)
    return [], count - gone


def _drop(tree: FingerTree, node: Node, links: int, entries: int) -> None:
    """Drop the first subtrees and entries of a node."""
    tree.cache.drop(node.level - 1, node.links[:links], node)
    del node.links[:links]
    node.sums.drop(links)
    node.entries.drop(entries)


def _empty(tree: FingerTree, level: int) -> list[Node]:
    """A subtree without entries, to be filled from its neighbours: its nodes from the top down."""
    nodes = [tree.kind.node(0)]
    for above in range(1, level + 1):
        parent = tree.kind.node(above)
        parent.adopt(0, nodes[0], tree.monoid.identity)
        nodes.insert(0, parent)
    for node in nodes:
        tree.touch(node)
    return nodes
