"""Places in a tree by position or by time, and the aggregate between two of them (section 4).

A *cut* goes through a tree between two entries. In each node on its way it passes through one
subtree, or beside it: ``cut(node)`` answers with the index of the entry after it, and with how it
goes on in the subtree before that entry, or that all of it is on one side.

Costs of a range query: O(arity * log n) combines, and at most two page reads a level.

>>> from mta import Monoid
>>> from mta.fiba import FingerTree
>>> tree = FingerTree(Monoid(identity="", combine=lambda a, b: a + b))
>>> for time, letter in enumerate("abcdefgh"):
...     tree.insert(10 * time, letter)
>>> fold_between(tree, before_time(20), after_time(50)), rank(tree, before_time(20))
('cdef', 2)
>>> fold_between(tree, at_position(tree, 6), "all before")  # to the end
'gh'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from mta.fiba.node import Node
from mta.monoid import Partial

if TYPE_CHECKING:
    from mta.fiba.fingers import FingerTree

#: A cut, or on which side of it the whole subtree is.
Cut = Callable[[Node], "tuple[int, Passage]"]
Passage = Cut | Literal["all before", "all after"]


def before_time(time: int) -> Cut:
    """The cut before the entries of a time."""

    def cut(node: Node) -> tuple[int, Passage]:
        return int(np.searchsorted(node.times, time, side="left")), cut

    return cut


def after_time(time: int) -> Cut:
    """The cut after the entries of a time."""

    def cut(node: Node) -> tuple[int, Passage]:
        return int(np.searchsorted(node.times, time, side="right")), cut

    return cut


def at_position(tree: FingerTree, position: int) -> Cut:
    """The cut before the entry of a position, which counts from the oldest in the subtree."""

    def cut(node: Node) -> tuple[int, Passage]:
        if not node.level:
            return min(position, node.count), "all before"
        sizes = tree.sizes_of(node)
        ends = np.cumsum(sizes + 1) - 1  # where each subtree ends and the entry after it stands
        index = min(int(np.searchsorted(ends, position)), node.count)
        inside = position - int(ends[index] - sizes[index])
        if inside >= sizes[index]:
            return index, "all before"
        return (index, at_position(tree, inside)) if inside else (index, "all after")

    return cut


def fold_between(tree: FingerTree, start: Passage, stop: Passage) -> Partial:
    """The aggregate of the entries between two cuts, the identity where there are none."""
    return _fold(tree, tree.root, start, stop)


def _fold(tree: FingerTree, node: Node, start: Passage, stop: Passage) -> Partial:
    first, left = (0, start) if isinstance(start, str) else start(node)
    end, right = (node.count, stop) if isinstance(stop, str) else stop(node)
    fold = tree.kind.fold(node, first, end)
    if not node.level or first > end:
        return fold
    if first == end:
        return _fold_child(tree, node, first, left, right)
    combine = tree.monoid.combine
    fold = combine(_fold_child(tree, node, first, left, "all before"), fold)
    return combine(fold, _fold_child(tree, node, end, "all after", right))


def _fold_child(tree: FingerTree, node: Node, index: int, start: Passage, stop: Passage) -> Partial:
    """What is between two cuts of a subtree; it is only read where a cut goes through it."""
    if start == "all before" or stop == "all after":
        return tree.monoid.identity
    if isinstance(start, str) and isinstance(stop, str):
        return tree.whole(node, index)
    return _fold(tree, tree.child(node, index), start, stop)


def rank(tree: FingerTree, cut: Passage) -> int:
    """How many entries are before a cut; at most a page read a level."""
    node, found = tree.root, 0
    while not isinstance(cut, str):
        index, cut = cut(node)
        found += index
        if not node.level:
            return found
        found += int(tree.sizes_of(node)[:index].sum())
        if cut == "all before":
            return found + tree.size_of(node, index)
        if not isinstance(cut, str):
            node = tree.child(node, index)
    return found
