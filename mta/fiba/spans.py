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

from mta.fiba.node import Node, Piece
from mta.monoids.base import Partial

if TYPE_CHECKING:
    from mta.fiba.fingers import FingerTree

#: A cut, or on which side of it the whole subtree is.
Cut = Callable[[Node], "tuple[int, Passage]"]
Passage = Cut | Literal["all before", "all after"]


def before_time(time: int) -> Cut:
    """The cut before the entries of a time."""

    def cut(node: Node) -> tuple[int, Passage]:
        return int(node.times.searchsorted(time, side="left")), cut

    return cut


def after_time(time: int) -> Cut:
    """The cut after the entries of a time."""

    def cut(node: Node) -> tuple[int, Passage]:
        return int(node.times.searchsorted(time, side="right")), cut

    return cut


def at_position(tree: FingerTree, position: int) -> Cut:
    """The cut before the entry of a position, which counts from the oldest in the subtree."""

    def cut(node: Node) -> tuple[int, Passage]:
        if not node.level:
            return min(position, node.count), "all before"
        places = tree.places_of(node)
        index = int(places.searchsorted(position))
        if index < node.count and places[index] == position:
            return index, "all before"
        inside = position - (int(places[index - 1]) + 1 if index else 0)
        return (index, at_position(tree, inside)) if inside else (index, "all after")

    return cut


def fold_between(tree: FingerTree, start: Passage, stop: Passage) -> Partial:
    """The aggregate of the entries between two cuts, the identity where there are none."""
    return _fold(tree, tree.root, start, stop)


def fold_all(tree: FingerTree, node: Node) -> Partial:
    """The aggregate of a subtree, of the spines too: there O(arity * levels) combines."""
    return _fold(tree, node, "all after", "all before")


def _fold(tree: FingerTree, node: Node, start: Passage, stop: Passage) -> Partial:
    pieces: list[Piece] = []
    _gather(tree, node, start, stop, pieces)
    return tree.kind.fold_pieces(pieces)


def _gather(
    tree: FingerTree, node: Node, start: Passage, stop: Passage, pieces: list[Piece]
) -> None:
    """The aggregates of what is between two cuts, in order, to be folded all at once."""
    first, left = (0, start) if isinstance(start, str) else start(node)
    end, right = (node.count, stop) if isinstance(stop, str) else stop(node)
    if node.level and first == end:
        _gather_child(tree, node, first, left, right, pieces)
    elif first < end:
        if node.level:
            _gather_child(tree, node, first, left, "all before", pieces)
        pieces.append(tree.kind.piece(node, first, end))
        if node.level:
            _gather_child(tree, node, end, "all after", right, pieces)


def _gather_child(
    tree: FingerTree, node: Node, index: int, start: Passage, stop: Passage, pieces: list[Piece]
) -> None:
    """What is between two cuts of a subtree; it is only read where a cut goes through it."""
    if start == "all before" or stop == "all after":
        return
    whole = isinstance(start, str) and isinstance(stop, str)
    below = tree.spine_child(node, index) if whole else tree.child(node, index)
    if below is None:
        pieces.append((node.folds(index, index + 1), 1))
    else:
        _gather(tree, below, start, stop, pieces)


def rank_of_leaf(tree: FingerTree, cut: Passage) -> int:
    """How many entries are before the leaf that a cut goes through, or one before it.

    Reads no leaf, at most a page a level.
    """
    node, found = tree.root, 0
    while node.level and not isinstance(cut, str):
        index, cut = cut(node)
        found += tree.events_before(node, index)
        if node.level == 1:
            break
        if not isinstance(cut, str):
            node = tree.child(node, index)
    return found


def rank(tree: FingerTree, cut: Passage) -> int:
    """How many entries are before a cut; at most a page read a level."""
    node, found = tree.root, 0
    while not isinstance(cut, str):
        index, cut = cut(node)
        if not node.level:
            return found + index
        found += tree.events_before(node, index)
        if cut == "all before":
            return found + tree.size_of(node, index)
        if not isinstance(cut, str):
            node = tree.child(node, index)
    return found


def newest_before(tree: FingerTree, cut: Cut) -> int:
    """The time of the entry just before a cut, of which there must be one.

    At most a page read a level; of a leaf only where the cut goes through it or ends it.
    """
    node, time = tree.root, 0
    while True:
        index, passage = cut(node)
        time = node.time_at(index - 1) if index else time
        if not node.level or passage == "all after":
            return time
        node = tree.child(node, index)
        if passage == "all before":
            while node.level:
                node = tree.child(node, node.count)
            return node.time_at(node.count - 1)
        cut = passage
