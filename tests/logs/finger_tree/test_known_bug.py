"""The published bug of FiBA, by name.

A reference implementation returned wrong aggregates for years: when an evict left a node with too
few places and it borrowed from its left neighbour, and that neighbour was on the left spine, the
flag that the left spine needs repair was not set (papers/README.md). The left finger then still
had what had gone over to the right node, and a query counted it twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mta.errors import InvariantViolation
from mta.logs.finger_tree import FingerTree
from mta.logs.finger_tree.node import Node
from tests.support.naive import joined
from tests.support.trees import Shape, grown, shape_of, text_of, time_of


class Watched(FingerTree):
    """A tree that notes each move from a node of the left spine to one that is not on it."""

    def __init__(self, min_arity: int = 2) -> None:
        super().__init__(joined(), min_arity)
        self.borrowed: list[tuple[int, str]] = []

    def _move(self, parent: Node, at: int, left: Node, right: Node) -> None:
        if self.on_left(left) and left.arity > right.arity:
            place = "root" if parent is self.root else "spine"
            self.borrowed.append((right.level, place))
        super()._move(parent, at, left, right)


class Forgetful(FingerTree):
    """The known bug: a node borrows from the left spine, which does not learn of it."""

    def _move(self, parent: Node, at: int, left: Node, right: Node) -> None:
        super()._move(parent, at, left, right)
        if self.on_left(left) and left.arity >= right.arity:
            self._untouch(left)


LEAVES: Shape = ["abc", "d", "e"]
MIDDLE: Shape = ["abc", "d", "e", "f", "g"]
INNER: Shape = [["a", "b", "c", "d", "e"], "f", ["g", "h", "i"]]
INNER_OF_THREE: Shape = [["a", "b", "c", "d", "e"], "f", ["g", "h", "i"], "j", ["k", "l", "m"]]
DEEP: Shape = [["abc", "d", "e", "f", "g"], "h", ["i", "j", "k"]]

CASES = [
    # The right node is on the right spine, and its parent is the root.
    pytest.param(LEAVES, "e", ["ab", "c", "d"], (0, "root"), id="last leaf"),
    # It is on no spine.
    pytest.param(MIDDLE, "e", ["ab", "c", "d", "f", "g"], (0, "root"), id="middle leaf"),
    # A level higher, after a merge below: a subtree goes over as well.
    pytest.param(
        INNER, "i", [["a", "b", "c"], "d", ["e", "f", "gh"]], (1, "root"), id="last inner node"
    ),
    pytest.param(
        INNER_OF_THREE,
        "g",
        [["a", "b", "c"], "d", ["e", "f", "hi"], "j", ["k", "l", "m"]],
        (1, "root"),
        id="middle inner node",
    ),
    # The parent is on the left spine itself, which is then repaired from there down.
    pytest.param(
        DEEP,
        "e",
        [["ab", "c", "d", "f", "g"], "h", ["i", "j", "k"]],
        (0, "spine"),
        id="below the spine",
    ),
]


@pytest.mark.parametrize(("shape", "gone", "after", "reached"), CASES)
def test_a_right_node_that_borrows_from_the_left_spine(
    shape: Shape, gone: str, after: Shape, reached: tuple[int, str]
) -> None:
    tree = Watched()
    grown(tree, shape)
    assert tree.evict(time_of(gone))
    assert tree.borrowed == [reached]
    assert shape_of(tree) == after
    assert tree.query() == text_of(after)
    assert tree.left[0].agg == text_of(after[0])  # what the bug left as it was
    tree.check()


@pytest.mark.parametrize(("shape", "gone", "after", "reached"), CASES)
def test_the_bug_would_be_seen(
    shape: Shape, gone: str, after: Shape, reached: tuple[int, str]
) -> None:
    """The tests above fail if the left spine is not repaired, unless its parent's repair does."""
    tree = Forgetful(joined())
    grown(tree, shape)
    tree.evict(time_of(gone))
    assert shape_of(tree) == after
    if reached[1] == "spine":
        assert tree.query() == text_of(after)
        return
    assert tree.query() != text_of(after)
    with pytest.raises(InvariantViolation, match="a left aggregate"):
        tree.check()


def evicting(min_arity: int, seed: int) -> Iterator[tuple[Watched, str]]:
    """A tree from which values go anywhere, and what should be left in it after each."""
    draw, tree = random.Random(seed), Watched(min_arity)
    text = "".join(chr(ord("a") + i % 26) for i in range(300))
    for time, letter in enumerate(text):
        tree.insert(time, letter)
    left = list(enumerate(text))
    while left:
        # Mostly near the front, so that the left spine's neighbours are often short of places.
        at = draw.randrange(len(left)) if draw.random() < 0.3 else min(len(left), 12) * 2 // 3
        time, _ = left.pop(min(at, len(left) - 1))
        assert tree.evict(time)
        yield tree, "".join(letter for _, letter in left)


@pytest.mark.parametrize("min_arity", [2, 3, 5])
def test_borrowing_from_the_left_spine_at_random(min_arity: int) -> None:
    seen: set[tuple[int, str]] = set()
    for seed in range(6):
        for tree, text in evicting(min_arity, seed):
            assert tree.query() == text
            seen.update(tree.borrowed)
        tree.check()
    assert {(0, "root"), (0, "spine"), (1, "root")} <= seen
