"""Bulk insertion: adds many events together, faster than one by one.

After "Out-of-Order Sliding-Window Aggregation with Efficient Bulk Evictions and Insertions" (VLDB
2023): one descent distributes a sorted batch of m values at distance d over the leaves. Each
affected leaf and each node above it is folded once, however many values it gets. Bulk eviction is
``FingerTree.evict_oldest``.

Cost, in combines, at constant arity: amortized O(m log(d / m)).

>>> from mta import Monoid
>>> tree = FingerTree(Monoid(identity="", combine=lambda a, b: a + b))
>>> insert_sorted(tree, np.arange(0, 60, 10), list("acegik"), 6)
>>> insert_sorted(tree, np.array([5, 15, 55]), list("bdl"), 3)
>>> tree.query()
'abcdegikl'
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mta.columns.schemas import Rows
from mta.logs.finger_tree.fingers import FingerTree
from mta.logs.finger_tree.node import Node, RowBuffer

#: Up to this many values are inserted into a leaf one by one.
_FEW = 2


def insert_sorted(tree: FingerTree, times: np.ndarray, rows: Rows, count: int) -> None:
    """Add values in order of time, each after existing values with its time.

    Values that are later than all existing ones are appended. A failed read changes nothing.
    """
    if count == 0 or _append(tree, times, rows, count):
        return
    _require_liftable(tree, rows, count)
    leaf, inputs = tree.last_leaf, tree.monoid.inputs
    late = int(times.searchsorted(leaf.time_at(leaf.count - 1))) or count
    _insert_among(tree, times[:late], inputs.cut(rows, 0, late), late)
    insert_sorted(tree, times[late:], inputs.cut(rows, late, count), count - late)


def _insert_among(tree: FingerTree, times: np.ndarray, rows: Rows, count: int) -> None:
    """Add values among the existing ones, or where the last leaf must give up entries."""
    node = tree.subtree_for(int(times[0]), int(times[-1]))
    _load(tree, node, times)
    _pour(tree, node, times, rows, count)
    tree.split_up(node, _ends_of_last(tree, node, node.arity))
    tree.size += count
    tree.repair()


def _require_liftable(tree: FingerTree, rows: Rows, count: int) -> None:
    """Lift all values, so that none is added if one cannot be lifted."""
    if not tree.monoid.is_columnar:
        tree.monoid.lift_rows(rows, count)


def _ends_of_last(tree: FingerTree, node: Node, arity: int) -> list[int]:
    """Return where to split an overfull last leaf; an empty list for other nodes.

    The pieces are as full as possible, to save pages. The last piece is the new last leaf, which
    gets the events in order; it has the remaining entries, at least the minimum.
    """
    if node is not tree.last_leaf:
        return []
    least = tree.least(0)
    pieces = -(-arity // (2 * least)) - 1
    return [min(2 * least * piece, arity - least) - 1 for piece in range(1, pieces + 1)]


def _append(tree: FingerTree, times: np.ndarray, rows: Rows, count: int) -> bool:
    """Add values at the end if they are in order; return whether they were added."""
    leaf = tree.last_leaf
    held = leaf.count
    if held and times[0] < leaf.time_at(held - 1):
        return False
    if held + 1 + count > 2 * tree.least(0):
        return _append_leaves(tree, leaf, times, rows, count)
    monoid = tree.monoid
    if tree.is_folded:
        fold = monoid.fold(monoid.lift_rows(rows, count), count)
        leaf.agg = monoid.combine(leaf.agg, fold)
        if leaf.stack is not None:
            leaf.stack.added = monoid.combine(leaf.stack.added, fold)
    else:
        _require_liftable(tree, rows, count)
    leaf.entries.extend((times, rows), count)
    tree.size += count
    tree.cache.mark_dirty(leaf)
    return True


def _append_leaves(tree: FingerTree, leaf: Node, times: np.ndarray, rows: Rows, count: int) -> bool:
    """Add values as leaves after the last leaf, unless that must give up some of its entries.

    Creates the leaves that a split would produce, so each value is copied only once.
    """
    held, schema, new = leaf.count, leaf.entries.schema, (times, rows)
    ends = [end - held for end in _ends_of_last(tree, leaf, leaf.arity + count)]
    if ends[0] < 0:
        return False
    _require_liftable(tree, rows, count)
    parent, behind, rights = tree.parent_above(leaf), RowBuffer(schema, new, count), []
    for end, stop in zip(ends, [*ends[1:], count], strict=True):
        room = 2 * tree.least(0) - 1 if stop == count else 0
        rights.append(tree.kind.node(0, behind.copy(end + 1, stop, room)))
    if not leaf.entries.has_room(ends[0]):
        leaf.entries = leaf.entries.copy(0, held, held + ends[0])
    leaf.entries.extend(behind.cut(0, ends[0]), ends[0])
    tree.steps["split"] += len(ends)
    tree.put_behind(leaf, parent, rights, schema.take(new, np.array(ends)))
    tree.split_up(parent)
    tree.size += count
    tree.repair()
    return True


def _load(tree: FingerTree, node: Node, times: np.ndarray) -> None:
    """Read the nodes in which values of these times belong."""
    if not node.level:
        return
    cuts = [0, *times.searchsorted(node.times).tolist(), len(times)]
    for index, (start, stop) in enumerate(pairwise(cuts)):
        if start < stop:
            _load(tree, tree.child(node, index), times[start:stop])


def _pour(tree: FingerTree, node: Node, times: np.ndarray, rows: Rows, count: int) -> None:
    """Distribute values over a subtree, splitting overfull nodes except its root."""
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
                tree.split(below, node, _ends_of_last(tree, below, below.arity))


def _merge(tree: FingerTree, leaf: Node, times: np.ndarray, rows: Rows, count: int) -> None:
    """Merge sorted values into a leaf, which may become overfull."""
    entries, first = leaf.entries, int(leaf.times.searchsorted(times[0], side="right"))
    if first == leaf.count:
        entries.extend((times, rows), count)
        return
    places = leaf.times.searchsorted(times, side="right")
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
