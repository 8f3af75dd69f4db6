"""check() of the trees notices damage: each kind of it, done by hand to a sound tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mta import Max
from mta.errors import InvariantViolation
from mta.logs.finger_tree import FingerTree, Tree
from tests.support.naive import joined
from tests.support.trees import Shape, fingers, grown

#: Three levels: the left spine is [ab] and [c e], the right one [qs t u v] and [w], off them all
#: that is below the middle.
SHAPE: Shape = [
    ["ab", "c", "d", "e", "f"],
    "g",
    ["h", "i", "jk", "l", "mn"],
    "o",
    ["qs", "t", "u", "v", "w"],
]


def middle(tree: Tree) -> Any:
    return tree.child(tree.root, 1)


def leaf(tree: Tree) -> Any:
    """The leaf jk."""
    return tree.child(middle(tree), 1)


def hide_an_entry(tree: Tree) -> None:
    leaf(tree).entries.truncate(1)


def change_a_value(tree: Tree) -> None:
    leaf(tree).entries.put(0, (10, "X"))


def swap_two_times(tree: Tree) -> None:
    leaf(tree).entries.put(0, (11, "j"))
    leaf(tree).entries.put(1, (10, "k"))


def time_beyond_the_parent(tree: Tree) -> None:
    leaf(tree).entries.put(1, (13, "k"))


def lose_an_event(tree: Tree) -> None:
    tree.size -= 1


def falsify_a_sum(tree: Tree) -> None:
    middle(tree).sums.put(1, ("jx", 2))


def falsify_a_size(tree: Tree) -> None:
    middle(tree).sums.put(1, ("jk", 3))


def drop_a_parent(tree: Tree) -> None:
    leaf(tree).parent = tree.root


def exchange_two_children(tree: Tree) -> None:
    links = middle(tree).links
    links[0], links[1] = links[1], links[0]


def lose_a_child(tree: Tree) -> None:
    del middle(tree).links[2]


def lose_a_sum(tree: Tree) -> None:
    middle(tree).sums.truncate(2)


def add_a_child_alone(tree: Tree) -> None:
    middle(tree).adopt(3, tree.kind.node(0), "")


def give_a_leaf_a_sum(tree: Tree) -> None:
    leaf(tree).sums.insert(0, ("", 0))


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


def confuse_the_levels(tree: Tree) -> None:
    leaf(tree).level = 1


def confuse_a_link(tree: Tree) -> None:
    leaf(tree).link = tree.root.link


def falsify_the_root(tree: Tree) -> None:
    tree.root.agg += "x"


def names(damages: list[tuple[Any, str]]) -> list[str]:
    return [damage.__name__ for damage, _ in damages]


EVERY_TREE = [
    (hide_an_entry, "a sum is 'jk' instead of 'j'"),
    (change_a_value, "a sum is 'jk' instead of 'Xk'"),
    (swap_two_times, "time 10 stands after 11"),
    (time_beyond_the_parent, "time 12 stands after 13"),
    (lose_an_event, "21 entries in a tree of 20"),
    (falsify_a_sum, "a sum is 'jx' instead of 'jk'"),
    (falsify_a_size, "2 events counts as 3"),
    (drop_a_parent, "a child of a node of level 1 is not where"),
    (exchange_two_children, "stands after"),
    (lose_a_child, "children and sums"),
    (lose_a_sum, "children and sums"),
    (add_a_child_alone, "children and sums"),
    (give_a_leaf_a_sum, "children and sums"),
    (underfill, "a node of level 0 has arity 1"),
    (overfill, "a node of level 0 has arity 5"),
    (confuse_the_levels, "not where its parent says"),
    (confuse_a_link, "not where its parent says"),
    (falsify_the_root, "aggregate is"),
]


@pytest.mark.parametrize("kind", [Tree, FingerTree])
@pytest.mark.parametrize(("damage", "message"), EVERY_TREE, ids=names(EVERY_TREE))
def test_damage_to_any_tree(kind: type[Tree], damage: Callable[[Tree], None], message: str) -> None:
    tree = grown(kind(joined()), SHAPE)
    damage(tree)
    with pytest.raises(InvariantViolation, match=message):
        tree.check()


# --- fingers ------------------------------------------------------------------------------------


def falsify_the_finger(tree: FingerTree) -> None:
    tree.left[0].agg = "abcde"


def falsify_the_left_spine(tree: FingerTree) -> None:
    tree.left[1].agg = "abcdef"  # an up-aggregate where a left one belongs


def falsify_the_right_finger(tree: FingerTree) -> None:
    tree.right[0].agg = tree.right[0].agg[::-1]


def falsify_the_right_spine(tree: FingerTree) -> None:
    tree.right[1].agg = ""


def put_up_into_the_root(tree: FingerTree) -> None:
    tree.root.agg = tree.query()


def turn_the_spines_round(tree: FingerTree) -> None:
    tree.right = tree.right[::-1]


def shorten_a_spine(tree: FingerTree) -> None:
    tree.right.pop(0)


def point_beside_the_finger(tree: FingerTree) -> None:
    tree.right[0] = tree.child(tree.right[1], 1)


def point_the_left_finger_elsewhere(tree: FingerTree) -> None:
    tree.left[0] = tree.child(tree.left[1], 1)


def change_below_the_spine(tree: FingerTree) -> None:
    tree.left[1].sums.put(1, ("x", 1))


def falsify_the_stack(tree: FingerTree) -> None:
    tree.evict_oldest()
    stack = tree.left[0].stack
    assert stack is not None
    stack.added = "x"


def crown_a_child(tree: FingerTree) -> None:
    tree.root = middle(tree)
    tree.size = 7
    tree.root.agg = "hijklmn"


FINGERS = [
    (falsify_the_finger, "a left aggregate is 'abcde' instead of 'abcdef'"),
    (falsify_the_left_spine, "a left aggregate is 'abcdef' instead of 'cdef'"),
    (falsify_the_right_finger, "a right aggregate is"),
    (falsify_the_right_spine, "a right aggregate is '' instead of 'qstuv'"),
    (put_up_into_the_root, "the inner aggregate"),
    (turn_the_spines_round, "not the end of its level"),
    (shorten_a_spine, "does not reach the leaves"),
    (point_beside_the_finger, "not the end of its level"),
    (point_the_left_finger_elsewhere, "not the end of its level"),
    (crown_a_child, "not the end of its level"),
    (change_below_the_spine, "a sum is 'x' instead of 'd'"),
    (falsify_the_stack, "a leaf's stack"),
]


@pytest.mark.parametrize(("damage", "message"), FINGERS, ids=names(FINGERS))
def test_damage_to_a_finger_tree(damage: Callable[[FingerTree], None], message: str) -> None:
    tree = fingers(SHAPE)
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
