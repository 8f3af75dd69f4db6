"""The figures of the FiBA paper, step by step: MIN_ARITY 2, letters for values.

The figures are pictures, of which our text has the captions and what is said about them. Figure
3(A) is given by the text: the centre child holds hijklmn, the root ghijklmno, the middle of the
left spine cdef, the middle of the right spine qst. Below its children, and in Figures 4 to 6, the
nodes are as wide as the captions' coins, splits, merges and moves ask for; where that leaves a
choice (which letters, not how many), it is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mta.logs.finger_tree import FingerTree, Tree
from mta.logs.finger_tree.fingers import after_time
from tests.support.naive import joined
from tests.support.trees import (
    Shape,
    aggregates,
    changed,
    coins,
    fingers,
    grown,
    shape_of,
    spent,
    text_of,
    time_of,
)

LEFT: Shape = ["ab", "c", "d", "e", "f"]
CENTRE: Shape = ["h", "i", "jk", "l", "mn"]
FIGURE_3A: Shape = [LEFT, "g", CENTRE, "o", ["qs", "t", "u"]]
FIGURE_3B: Shape = [LEFT, "g", CENTRE, "o", ["qs", "t", "uv"]]
FIGURE_3C: Shape = [LEFT, "g", CENTRE, "o", ["qrs", "t", "uv"]]
LEFT_D: Shape = ["b", "c", "d", "e", "f"]
FIGURE_3D: Shape = [LEFT_D, "g", CENTRE, "o", ["qrs", "t", "uv"]]
RIGHT_E: Shape = ["p", "q", "rs", "t", "uv"]
FIGURE_3E: Shape = [LEFT_D, "g", CENTRE, "o", RIGHT_E]
FIGURE_3F: Shape = [["cd", "e", "f"], "g", CENTRE, "o", RIGHT_E]
FIGURE_4G: Shape = ["abd", "e", "fg", "h", "i", "j", "kl"]
FIGURE_4H: Shape = [["a", "b", "cd"], "e", ["fg", "h", "i", "j", "kl"]]
FIGURE_5I: Shape = [["b", "c", "d"], "e", ["fg", "h", "i", "j", "kl"]]
FIGURE_5J: Shape = [["bc", "e", "fg"], "h", ["i", "j", "kl"]]
FIGURE_6K: Shape = [["jk", "l", "m"], "n", ["o", "p", "q"]]
FIGURE_6L: Shape = ["jk", "l", "m", "n", "pq"]
FIGURE_9N: Shape = [LEFT, "g", ["h", "j", "k", "l", "mn"], "o", ["qs", "t", "u"]]


@dataclass(frozen=True)
class Step:
    """One step of a figure: what is done, what it makes of the tree, and its caption."""

    name: str
    before: Shape
    change: str  # "+r" or "-r"
    after: Shape
    steps: dict[str, int]
    #: Coins from outside, less those given back.
    billed: int

    def __repr__(self) -> str:
        return self.name

    def apply(self, tree: Tree) -> None:
        """Do it."""
        letter = self.change[1]
        if self.change[0] == "+":
            tree.insert(time_of(letter), letter)
        else:
            assert tree.evict(time_of(letter))


STEPS = (
    Step("AB, in-order insert 22:v", FIGURE_3A, "+v", FIGURE_3B, {}, -1),
    Step("BC, out-of-order insert 18:r", FIGURE_3B, "+r", FIGURE_3C, {}, 2),
    Step("CD, evict 1:a", FIGURE_3C, "-a", FIGURE_3D, {}, 1),
    Step("DE, out-of-order insert 16:p", FIGURE_3D, "+p", FIGURE_3E, {"split": 1}, -1),
    Step("EF, evict 2:b", FIGURE_3E, "-b", FIGURE_3F, {"merge": 1}, 0),
    Step("GH, insert 3:c", FIGURE_4G, "+c", FIGURE_4H, {"split": 2}, 0),
    Step("IJ, evict 4:d", FIGURE_5I, "-d", FIGURE_5J, {"merge": 1, "move": 1}, 1),
    Step("KL, evict 15:o", FIGURE_6K, "-o", FIGURE_6L, {"merge": 2}, -2),
    Step("MN, out-of-order evict 9:i", FIGURE_3A, "-i", FIGURE_9N, {}, 1),
)
EVERY = pytest.mark.parametrize("step", STEPS, ids=repr)


@EVERY
@pytest.mark.parametrize("kind", [Tree, FingerTree])
def test_every_step_makes_the_tree_of_the_figure(step: Step, kind: type[Tree]) -> None:
    tree = grown(kind(joined()), step.before)
    assert shape_of(tree) == step.before
    assert tree.query() == text_of(step.before)
    had = coins(tree)
    step.apply(tree)
    assert shape_of(tree) == step.after
    assert tree.query() == text_of(step.after)
    tree.check()
    assert {name: count for name, count in tree.steps.items() if count} == step.steps
    assert spent(tree) + coins(tree) - had == step.billed


def test_figure_1_a_classic_tree_keeps_up_aggregates() -> None:
    tree = grown(Tree(joined()), FIGURE_3A)
    assert aggregates(tree) == [
        ["up abcdefghijklmnoqstu"],
        ["up abcdef", "up hijklmn", "up qstu"],
        ["up ab", "up d", "up f", "up h", "up jk", "up mn", "up qs", "up u"],
    ]


def test_figure_3_a_aggregates_suit_the_place() -> None:
    assert aggregates(fingers(FIGURE_3A)) == [
        ["inner ghijklmno"],
        ["left cdef", "up hijklmn", "right qst"],
        ["left abcdef", "up d", "up f", "up h", "up jk", "up mn", "up qs", "right qstu"],
    ]


#: The aggregates before a step and after it, or those alone that the step changes.
BEFORE = {
    "GH": [["inner efghij"], ["left abd", "up fg", "up i", "right kl"]],
    "IJ": [
        ["inner e"], ["left cd", "right fghij"],
        ["left bcd", "up d", "up fg", "up i", "right fghijkl"],
    ],
    "KL": [["inner n"], ["left lm", "right op"], ["left jklm", "up m", "up o", "right opq"]],
}  # fmt: skip
AFTER = {
    "DE": [
        ["inner ghijklmno"], ["left cdef", "up hijklmn", "right pqrst"],
        ["left bcdef", "up d", "up f", "up h", "up jk", "up mn", "up p", "up rs", "right pqrstuv"],
    ],
    "EF": [
        ["inner ghijklmno"], ["left ef", "up hijklmn", "right pqrst"],
        ["left cdef", "up f", "up h", "up jk", "up mn", "up p", "up rs", "right pqrstuv"],
    ],
    "GH": [
        ["inner e"], ["left bcd", "right fghij"],
        ["left abcd", "up cd", "up fg", "up i", "right fghijkl"],
    ],
    "IJ": [
        ["inner h"], ["left efg", "right ij"], ["left bcefg", "up fg", "up i", "right ijkl"],
    ],
    "KL": [["inner lmn"], ["left jk", "up m", "right pq"]],
}  # fmt: skip
CHANGED = {
    "AB": ["right qstuv"],  # in order: the right finger alone
    "BC": ["right qrst", "up qrs", "right qrstuv"],  # a walk to the right finger
    "CD": ["left bcdef"],  # in order: the left finger alone
    "MN": ["inner ghjklmno", "up hjklmn", "up k"],  # the next takes the place in an inner node
}


@EVERY
def test_the_aggregates_of_every_step(step: Step) -> None:
    name, tree = step.name[:2], fingers(step.before)
    before = aggregates(tree)
    assert before == BEFORE.get(name, before)
    step.apply(tree)
    if name in AFTER:
        assert aggregates(tree) == AFTER[name]
    else:
        assert changed(before, aggregates(tree)) == CHANGED[name]


def test_figure_8_where_the_younger_leaf_has_nothing_to_spare_the_older_gives() -> None:
    tree = fingers(FIGURE_9N)
    assert tree.evict(time_of("j"))  # [k] has but one: the youngest of [h], which is filled up
    assert shape_of(tree) == [LEFT, "g", ["hk", "l", "mn"], "o", ["qs", "t", "u"]]
    assert tree.steps == {"split": 0, "merge": 1, "move": 0}
    tree.check()


# --- section 4 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [FIGURE_3A, FIGURE_3E, FIGURE_4H, FIGURE_6L, "", "q"], ids=str)
def test_figure_10_every_range_of_times(shape: Shape) -> None:
    tree, text = fingers(shape), text_of(shape)
    for first in range(28):
        for last in range(28):
            found = tree.fold_between(after_time(first - 1), after_time(last))
            assert found == "".join(c for c in text if first <= time_of(c) <= last)
