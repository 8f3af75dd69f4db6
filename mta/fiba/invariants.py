"""What holds in a tree between operations: the size, order and aggregation invariants.

FiBA paper, sections 3.1 and 3.2. Everything is computed anew from the events: O(n) combines, and
every page is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from mta.columns.schemas import Row
from mta.errors import InvariantViolation
from mta.fiba.node import Node
from mta.monoids.base import AbstractMonoid, Partial, Refold

#: The aggregate of each subtree and how many events it has, folded from the events.
Folds = dict[Node, tuple[Refold, int]]


class Tree(Protocol):
    """What is asked of any tree (``btree.Tree``)."""

    monoid: AbstractMonoid
    root: Node
    size: int

    def least(self, level: int) -> int: ...
    def child(self, node: Node, index: int) -> Node: ...
    def is_spine(self, node: Node) -> bool: ...
    def nodes(self) -> Iterator[Node]: ...
    def entries(self) -> Iterator[tuple[int, Row]]: ...


class FingerTree(Tree, Protocol):
    """What is asked of one with fingers, too (``fingers.FingerTree``)."""

    right: list[Node]
    is_folded: bool

    @property
    def has_left(self) -> bool: ...
    @property
    def left(self) -> list[Node]: ...


def check_tree(tree: Tree) -> Folds:
    """Sizes, order, the sums of subtrees off the spines. Raises InvariantViolation."""
    for node in tree.nodes():
        _check_node(tree, node)
    last = None
    for time, _ in tree.entries():
        require(last is None or time >= last, f"time {time} stands after {last}")
        last = time
    folds: Folds = {}
    _, size = _check_sums(tree, tree.root, folds)
    require(size == tree.size, f"there are {size} entries in a tree of {tree.size}")
    return folds


def _check_node(tree: Tree, node: Node) -> None:
    least, where = tree.least(node.level), f"a node of level {node.level}"
    require(node.arity <= 2 * least, f"{where} has arity {node.arity}")
    if node is tree.root:
        require(node.parent is None, "the root has a parent")
        require(not node.level or node.count > 0, "the root has one child")
    else:
        require(node.arity >= least, f"{where} has arity {node.arity}")
    children = node.arity if node.level else 0
    found = len(node.links), node.sums.count
    require(found == (children, children), f"{where} has {found} children and sums at {node.arity}")
    for index, link in enumerate(node.links):
        below = tree.child(node, index)
        fits = below.parent is node and below.link is link and below.level == node.level - 1
        require(fits, f"a child of {where} is not where its parent says")


def _check_sums(tree: Tree, node: Node, folds: Folds) -> tuple[Refold, int]:
    """Check what is known of the subtrees below a node; the fold and the size of all of it."""
    size = node.count
    for index in range(len(node.links)):
        below = tree.child(node, index)
        fold, count = _check_sums(tree, below, folds)
        size += count
        if not tree.is_spine(below):
            known, known_size = node.sums.at(index)
            require_same("a sum", known, fold)
            require(known_size == count, f"a subtree of {count} events counts as {known_size}")
    folds[node] = fold_of(tree, _items(tree, node, folds)), size
    if node.stack is not None:
        at = tree.monoid.partials.at(node.stack.suffixes, node.stack.at)
        stacked = tree.monoid.combine(at, node.stack.added)
        require_same("a leaf's stack", stacked, folds[node][0])
    return folds[node]


def _items(tree: Tree, node: Node, folds: Folds) -> list[Refold]:
    """Every subtree and entry of a node in turn."""
    items: list[Refold] = []
    for index in range(node.arity):
        if node.level:
            items.append(folds[tree.child(node, index)][0])
        if index < node.count:
            items.append(Refold(tree.monoid, [tree.monoid.lift(node.entries.at(index)[1])]))
    return items


def check_fingers(tree: FingerTree, folds: Folds) -> None:
    """The inner, left and right aggregates that there are, from the root down to the fingers."""
    left = right = Refold(tree.monoid)
    for node in reversed(tree.left if tree.has_left else []):
        left = fold_of(tree, _items(tree, node, folds)[node.level > 0 :]) + left
        require_same("a left aggregate", node.agg, left)
    if not tree.is_folded:
        return
    items, cut = _items(tree, tree.root, folds), 1 if tree.root.level else 0
    inner = fold_of(tree, items[cut : len(items) - cut])
    require_same("the inner aggregate", tree.root.agg, inner)
    for node in reversed(tree.right):
        items = _items(tree, node, folds)
        right += fold_of(tree, items[: len(items) - (node.level > 0)])
        require_same("a right aggregate", node.agg, right)


def check_spines(tree: FingerTree) -> None:
    """The spines are the first and the last nodes of each level, and the fingers are leaves."""
    spines = [(tree.right, -1), (tree.left, 0)] if tree.has_left else [(tree.right, -1)]
    for spine, end in spines:
        node = tree.root
        for below in reversed(spine):
            is_end = bool(node.level) and node.links[end].node is below
            require(is_end, f"the spine's node of level {below.level} is not the end of its level")
            node = below
        require(not node.level, "a spine does not reach the leaves")


def fold_of(tree: Tree, items: Iterable[Refold]) -> Refold:
    """Folds side by side, as one."""
    return sum(items, start=Refold(tree.monoid))


def require(holds: bool, what: str) -> None:
    """Raises InvariantViolation with what is wrong unless something holds."""
    if not holds:
        raise InvariantViolation(f"{what}; report this as a bug")


def require_same(what: str, found: Partial, fold: Refold) -> None:
    """Raises InvariantViolation unless an aggregate is what was folded anew."""
    if not fold.agrees(found):
        raise InvariantViolation(f"{what} is {found!r} instead of {fold!r}; report this as a bug")
