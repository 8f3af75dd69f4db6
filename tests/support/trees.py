"""Trees written down and drawn with letters: the value 'c' has time 3, as in the FiBA paper.

A leaf is a text, an inner node a list of subtrees and the letters between them in turn:

    [["ab", "c", "d"], "e", ["f", "g", "hi"]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mta.logs.finger_tree import FingerTree, Tree
from mta.logs.finger_tree.node import Node
from mta.monoids.base import AbstractMonoid
from tests.support.naive import joined

Shape = str | list[Any]


def time_of(letter: str) -> int:
    """The paper's timestamp of a letter."""
    return ord(letter) - ord("a") + 1


def letter_at(time: int) -> str:
    return chr(time + ord("a") - 1)


# --- making trees -------------------------------------------------------------------------------


def grown(tree: Tree, shape: Shape) -> Tree:
    """A new tree, made to have exactly this shape, with every aggregate computed."""
    tree.root = _node(tree, shape)
    tree.size = len(text_of(shape))
    if isinstance(tree, FingerTree):
        tree.set_left(_spine(tree.root, 0))
        tree.right = _spine(tree.root, -1)[:0:-1]
    for node in tree.nodes():
        tree.touch(node)
    tree.repair()
    tree.check()
    return tree


def fingers(shape: Shape, monoid: AbstractMonoid | None = None, min_arity: int = 2) -> FingerTree:
    """A finger tree of a shape."""
    tree = FingerTree(monoid or joined(), min_arity)
    grown(tree, shape)
    return tree


def _node(tree: Tree, shape: Shape) -> Node:
    kind = tree.kind
    if isinstance(shape, str):
        leaf = kind.node(0)
        for at, letter in enumerate(shape):
            leaf.entries.insert(at, (time_of(letter), letter))
        return leaf
    children = [_node(tree, child) for child in shape[::2]]
    node = kind.node(children[0].level + 1)
    for at, child in enumerate(children):
        node.adopt(at, child, tree.monoid.identity)
    for at, letter in enumerate(shape[1::2]):
        node.entries.insert(at, (time_of(letter), letter))
    return node


def _spine(root: Node, end: int) -> list[Node]:
    """The nodes of one end of a tree, the root first."""
    spine = [root]
    while spine[-1].level:
        below = spine[-1].links[end].node
        assert below is not None
        spine.append(below)
    return spine


# --- drawing them -------------------------------------------------------------------------------


def text_of(shape: Shape) -> str:
    """All letters in order."""
    return shape if isinstance(shape, str) else "".join(map(text_of, shape))


def shape_of(tree: Tree) -> Shape:
    """The shape that a tree has."""
    return _shape(tree, tree.root)


def _shape(tree: Tree, node: Node) -> Shape:
    letters = [letter_at(time) for time in node.times.tolist()]
    if not node.level:
        return "".join(letters)
    shape: list[Any] = [_shape(tree, tree.child(node, 0))]
    for at, letter in enumerate(letters, 1):
        shape += [letter, _shape(tree, tree.child(node, at))]
    return shape


def aggregates(tree: Tree) -> list[list[str]]:
    """Each node's kind of aggregate and the aggregate, level by level from the root down."""
    levels: list[list[str]] = [[] for _ in range(tree.root.level + 1)]
    _collect(tree, tree.root, "", levels)
    return levels[::-1]


def _collect(tree: Tree, node: Node, up: str, levels: list[list[str]]) -> None:
    levels[node.level].append(_aggregate(tree, node, up))
    for at in range(len(node.links)):
        _collect(tree, tree.child(node, at), node.fold_at(at), levels)


def _aggregate(tree: Tree, node: Node, up: str) -> str:
    """Off the spines it is in the parent, with fingers; else in the node itself."""
    if not isinstance(tree, FingerTree):
        return f"up {node.agg}"
    if node is tree.root:
        return f"inner {node.agg}"
    if tree.on_left(node):
        return f"left {node.agg}"
    return f"right {node.agg}" if tree.on_right(node) else f"up {up}"


def changed(before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> list[str]:
    """The aggregates of a tree that it did not have before."""
    old = [one for level in before for one in level]
    return [one for level in after for one in level if one not in old]


# --- coins --------------------------------------------------------------------------------------


def coins(tree: Tree) -> int:
    """The coins at the nodes: what splits, merges and moves to come are paid with.

    The paper's appendix C is missing in our text; this is the scheme that gives the numbers which
    it prints below Figures 3 to 6 and 9. A node that is neither nearly full nor nearly empty has
    none, and a root may be nearly empty for nothing.
    """
    return sum(_coins(tree, node) for node in tree.nodes())


def _coins(tree: Tree, node: Node) -> int:
    least = tree.least(node.level)
    if node.arity == 2 * least:
        return 2
    return 1 if node.arity == least and node is not tree.root else 0


def spent(tree: Tree) -> int:
    """The splits, merges and moves so far."""
    return sum(tree.steps.values())


# --- looking at nodes ---------------------------------------------------------------------------


class Visits:
    """The nodes whose entries, children or sums are looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: set[int] | None = None
        look = object.__getattribute__

        def looking(node: Node, name: str) -> Any:
            if self.nodes is not None and name in ("entries", "links", "sums"):
                self.nodes.add(id(node))
            return look(node, name)

        monkeypatch.setattr(Node, "__getattribute__", looking)

    def of(self, action: Callable[[], Any]) -> int:
        self.nodes = set()
        try:
            action()
            return len(self.nodes)
        finally:
            self.nodes = None
