"""check() of the trees notices damage: each kind of it, done by hand to a sound tree.

It changes nothing: a window that is checked folds later results in the same order.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mta import CountWindow, Max, Window
from mta.algorithms import FiBA
from mta.errors import InvariantViolation
from mta.logs.finger_tree import FingerTree, Tree
from tests.support.naive import joined
from tests.support.random_windows.kinds import BRACKETS
from tests.support.trees import Shape, fingers, grown

#: Three levels: the left spine is [ab] and [c e], the right one [qs t u v] and [w], off them all
#: that is below the middle.
SHAPE: Shape = [
    ["ab", "c", "d", "e", "f"], "g", ["h", "i", "jk", "l", "mn"], "o", ["qs", "t", "u", "v", "w"],
]  # fmt: skip


def middle(tree: Tree) -> Any:
    return tree.child(tree.root, 1)


def leaf(tree: Tree) -> Any:
    """The leaf jk."""
    return tree.child(middle(tree), 1)


def swap_two_times(tree: Tree) -> None:
    leaf(tree).entries.put(0, (11, "j"))
    leaf(tree).entries.put(1, (10, "k"))


def underfill(tree: Tree) -> None:
    leaf(tree).entries.truncate(0)
    middle(tree).sums.put(1, ("", 0))
    tree.size -= 2


def overfill(tree: Tree) -> None:
    for _ in range(2):
        leaf(tree).entries.insert(1, (10, "j"))
    middle(tree).sums.put(1, ("jjjk", 4))
    tree.root.sums.put(1, ("hijjjklmn", 9))
    tree.size += 2


#: What is done to a tree, and what a check says of it.
EVERY_TREE: dict[str, tuple[Any, str]] = {
    "an entry hidden": (lambda t: leaf(t).entries.truncate(1), "a sum is 'jk' instead of 'j'"),
    "a value": (lambda t: leaf(t).entries.put(0, (10, "X")), "a sum is 'jk' instead of 'Xk'"),
    "two times swapped": (swap_two_times, "time 10 stands after 11"),
    "a time beyond the parent": (
        lambda t: leaf(t).entries.put(1, (13, "k")), "time 12 stands after 13",
    ),
    "an event lost": (lambda t: setattr(t, "size", t.size - 1), "21 entries in a tree of 20"),
    "a sum": (lambda t: middle(t).sums.put(1, ("jx", 2)), "a sum is 'jx' instead of 'jk'"),
    "a size": (lambda t: middle(t).sums.put(1, ("jk", 3)), "2 events counts as 3"),
    "a parent": (
        lambda t: setattr(leaf(t), "parent", t.root), "a child of a node of level 1 is not where",
    ),
    "all children turned round": (lambda t: middle(t).links.reverse(), "stands after"),
    "a child lost": (lambda t: middle(t).links.pop(2), "children and sums"),
    "a sum lost": (lambda t: middle(t).sums.truncate(2), "children and sums"),
    "a child alone": (lambda t: middle(t).adopt(3, t.kind.node(0), ""), "children and sums"),
    "a sum in a leaf": (lambda t: leaf(t).sums.insert(0, ("", 0)), "children and sums"),
    "too few": (underfill, "a node of level 0 has arity 1"),
    "too many": (overfill, "a node of level 0 has arity 5"),
    "a level": (lambda t: setattr(leaf(t), "level", 1), "not where its parent says"),
    "a link": (lambda t: setattr(leaf(t), "link", t.root.link), "not where its parent says"),
    "the root": (lambda t: setattr(t.root, "agg", t.root.agg + "x"), "aggregate is"),
}  # fmt: skip


@pytest.mark.parametrize("kind", [Tree, FingerTree])
@pytest.mark.parametrize("name", EVERY_TREE)
def test_damage_to_any_tree(kind: type[Tree], name: str) -> None:
    tree, (damage, message) = grown(kind(joined()), SHAPE), EVERY_TREE[name]
    damage(tree)
    with pytest.raises(InvariantViolation, match=message):
        tree.check()


# --- fingers ------------------------------------------------------------------------------------


def falsify_the_stack(tree: FingerTree) -> None:
    tree.evict_oldest()
    stack = tree.left[0].stack
    assert stack is not None
    stack.added = "x"


def crown_a_child(tree: FingerTree) -> None:
    tree.root = middle(tree)
    tree.size = 7
    tree.root.agg = "hijklmn"


FINGERS: dict[str, tuple[Any, str]] = {
    "the left finger": (
        lambda t: setattr(t.left[0], "agg", "abcde"),
        "a left aggregate is 'abcde' instead of 'abcdef'",
    ),
    "the left spine": (  # an up-aggregate where a left one belongs
        lambda t: setattr(t.left[1], "agg", "abcdef"),
        "a left aggregate is 'abcdef' instead of 'cdef'",
    ),
    "the right finger": (
        lambda t: setattr(t.right[0], "agg", t.right[0].agg[::-1]), "a right aggregate is",
    ),
    "the right spine": (
        lambda t: setattr(t.right[1], "agg", ""), "a right aggregate is '' instead of 'qstuv'",
    ),
    "the root has all": (lambda t: setattr(t.root, "agg", t.query()), "the inner aggregate"),
    "spines turned round": (lambda t: t.right.reverse(), "not the end of its level"),
    "a short spine": (lambda t: t.right.pop(0), "does not reach the leaves"),
    "beside the right finger": (
        lambda t: t.right.__setitem__(0, t.child(t.right[1], 1)), "not the end of its level",
    ),
    "beside the left finger": (
        lambda t: t.left.__setitem__(0, t.child(t.left[1], 1)), "not the end of its level",
    ),
    "a child crowned": (crown_a_child, "not the end of its level"),
    "below the spine": (
        lambda t: t.left[1].sums.put(1, ("x", 1)), "a sum is 'x' instead of 'd'",
    ),
    "a stack": (falsify_the_stack, "a leaf's stack"),
}  # fmt: skip


@pytest.mark.parametrize("name", FINGERS)
def test_damage_to_a_finger_tree(name: str) -> None:
    tree, (damage, message) = fingers(SHAPE), FINGERS[name]
    damage(tree)
    with pytest.raises(InvariantViolation, match=message):
        tree.check()


def test_what_a_spine_does_not_keep_may_be_anything() -> None:
    """The sums of subtrees on the spines are not up to date, and nothing reads them."""
    tree = fingers(SHAPE)
    tree.root.sums.put(0, ("!", -1))
    tree.left[1].sums.put(0, ("!", -1))
    tree.root.sums.put(2, ("!", -1))
    tree.check()


def test_numbers_may_differ_by_rounding_alone() -> None:
    tree = FingerTree(Max())
    for time in range(40):
        tree.insert(time, 0.1 * time)
    tree.root.agg = tree.root.agg * (1 + 1e-15)
    tree.check()
    tree.root.agg = tree.root.agg * (1 + 1e-9)
    with pytest.raises(InvariantViolation, match="the inner aggregate"):
        tree.check()


def live(seed: int, size: int, is_checked: bool) -> list[Any]:
    """The results of a window whose events also leave by ``evict``."""
    random, now, found = Random(seed), 20, list[Any]()
    sizes: dict[str, Any] = {"arity": 2, "leaf_arity": 4}
    window = Window(BRACKETS.monoid(False), CountWindow(size), None, "w", aggregator=FiBA, **sizes)
    window.extend(list("abcdefghijklmnopqrst"), range(20))
    for _ in range(40):
        step, count = random.choice(["insert", "insert", "evict", "extend"]), random.choice([1, 4])
        if step == "evict" and len(window) > count:
            window.evict(count)
        elif step == "insert":
            window.insert(random.choice("abc"), now)
        elif step == "extend":
            found += window.extend(random.choices("abc", k=count), range(now, now + count)).tolist()
        now += count
        if is_checked:
            window.check()
    return [*found, window.query()]


@pytest.mark.parametrize("size", [9, 20, 45])
def test_results_after_evictions_do_not_depend_on_checks(size: int) -> None:
    for seed in range(20):
        assert live(seed, size, False) == live(seed, size, True), seed
