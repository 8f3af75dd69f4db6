"""The figures and the running example of the MTA paper, step by step, with groups of two.

``tree`` draws each level as a row of pairs from the leaves up, None standing for the paper's
neutral element; the stack's top is its last entry.
"""

from __future__ import annotations

from typing import Any

import pytest

from mta import Collect, CountWindow, Max, Monoid, Product, Sum, Window
from mta.algorithms import AmortizedMTA, LogMTA
from mta.frames import BoundWindow, CustomFrame
from mta.frames.base import Frame
from mta.logs.levels.queues import Levels
from mta.pages import Group

BOTH = pytest.mark.parametrize("aggregator", [AmortizedMTA, LogMTA])


def total() -> Monoid:
    return Monoid(identity=0, combine=lambda a, b: a + b, name="sum")


def latest() -> Monoid:
    return Monoid(identity=float("-inf"), combine=max, name="max")


def window_of(
    values: list[int],
    monoid: Monoid | None = None,
    frame: Frame | None = None,
    aggregator: type = AmortizedMTA,
) -> Window:
    window = Window(monoid or total(), frame or CountWindow(1000), arity=2, aggregator=aggregator)
    for value in values:
        window.insert(value)
    return window


def drawn(window: Window) -> list[list[tuple[Any, ...]]]:
    """Every level as the paper draws it, from the leaves: groups, with None for no element."""
    levels, front, found = window.structure().levels, window.structure().front, []
    for level in range(levels.top(front) + 1):
        arity, span = levels.arities[level > 0], levels.spans[level]
        groups = []
        for number in range(front // span // arity, levels.tails[level].number + 1):
            group = _group(levels, level, number)
            elements: list[Any] = [None] * arity
            for i in range(group.count):
                if (number * arity + i + 1) * span > front:
                    rows = levels.partials(level, group, i, i + 1)
                    elements[i] = levels.monoid.fold(rows, 1)
            groups.append(tuple(elements))
        found.append(groups)
    return found


def pair_of(window: Window) -> tuple[Any, Any]:
    """The result pair: the fold at the front as the stack has it, and what has come since."""
    cursor = window.structure().cursor
    assert cursor.query() == window.query()
    cursor.compute_folds()
    found = cursor.prefetched(0)
    return window.monoid.partials.at(found.folds, 0) if found.size else None, found.right


def stack_of(window: Window) -> list[list[Any]]:
    """The folds of the stack from the outermost group in, each group's from the left."""
    cursor = window.structure().cursor
    cursor.query()
    at = window.monoid.partials.at
    return [
        [at(f.rows, i) for i in range(f.stop - f.start if f.starts is None else len(f.starts))]
        for f in cursor.stack
    ]


def _group(levels: Levels, level: int, number: int) -> Group:
    if number == levels.tails[level].number:
        return levels.tails[level]
    above, index = divmod(number, levels.arity)
    group = _group(levels, level + 1, above)
    return levels.pager.read(level, number, group.names[index])


@BOTH
def test_figure_1_a_tree_as_a_list_of_queues(aggregator: type) -> None:
    # The printed tree also holds the pair above the open ones; here an element goes up when its
    # group is sealed, so the last 3 is still to come and what would be above it is not there yet.
    window = window_of([1, 2, 1, 2, 1, 2], aggregator=aggregator)
    assert drawn(window) == [[(1, 2), (1, 2), (1, 2)], [(3, 3)]]
    assert window.query() == 9
    window.insert(1)
    assert drawn(window) == [[(1, 2), (1, 2), (1, 2), (1, None)], [(3, 3), (3, None)], [(6, None)]]
    assert window.query() == 10
    window.check()


@BOTH
def test_figure_1_grows_a_level_at_a_time(aggregator: type) -> None:
    window = window_of([], aggregator=aggregator)
    steps = {
        1: [[(1, None)]],
        2: [[(1, 2)]],
        3: [[(1, 2), (1, None)], [(3, None)]],
        4: [[(1, 2), (1, 2)], [(3, None)]],
        5: [[(1, 2), (1, 2), (1, None)], [(3, 3)]],
    }
    for count, expected in steps.items():
        window.insert(1 if count % 2 else 2)
        assert drawn(window) == expected
        window.check()


@BOTH
def test_figure_2_bulk_eviction(aggregator: type) -> None:
    """A maximum over times and a window of four units: 8 evicts all the others at once."""
    asked: list[float] = []

    def too_old(old: float, newest: float) -> bool:
        asked.append(old)
        return newest - old >= 4

    window = window_of([1, 2, 3, 4], latest(), CustomFrame(too_old), aggregator)
    assert drawn(window) == [[(1, 2), (3, 4)], [(2, None)]]
    asked.clear()
    window.insert(8)
    assert drawn(window) == [[(8, None)]]
    assert window.query() == 8 and len(window) == 1
    assert 4 in asked  # the aggregate of all that leaves was asked for as one
    window.check()


@BOTH
def test_figure_2_prunes_in_the_middle(aggregator: type) -> None:
    window = window_of(
        [1, 2, 3, 4], latest(), CustomFrame(lambda old, new: new - old >= 4), aggregator
    )
    window.insert(6)
    assert drawn(window) == [[(3, 4), (6, None)], [(None, 4)]]
    assert window.query() == 6 and len(window) == 3
    window.insert(7)
    assert drawn(window) == [[(None, 4), (6, 7)], [(None, 4)]]
    window.check()


def test_figure_4_structure_stack_and_result_pair() -> None:
    window = window_of([1, 2] * 4)
    assert drawn(window) == [[(1, 2)] * 4, [(3, 3), (3, None)], [(6, None)]]
    assert window.query() == 12
    window.evict()
    window.query()
    window.insert(1)
    assert pair_of(window) == (11, 1)
    window.check()


def test_figure_4_insertion_goes_to_the_right() -> None:
    window = window_of([1, 2] * 4)
    left, right = pair_of(window)
    window.insert(1)
    assert pair_of(window) == (left, (right or 0) + 1)
    assert drawn(window)[0][-1] == (1, None)
    # The last full pair has moved up, as has nothing else.
    assert drawn(window)[1:] == [[(3, 3), (3, 3)], [(6, None)]]
    window.check()


def test_figure_4_eviction_pops_the_stack_onto_the_left() -> None:
    window = window_of([1, 2] * 4)
    window.evict()
    # From the leaf's second event, the second pair, the end of the leftmost tree, on.
    assert stack_of(window) == [[9, 6], [11]]
    for left, stack in [(9, [[9, 6], [9, 8]]), (8, [[9, 6], [9, 8]]), (6, [[6, 5]])]:
        window.evict()
        assert pair_of(window) == (left, None)
        assert stack_of(window) == stack
        window.check()
    assert drawn(window) == [[(1, 2), (1, 2)], [(3, None)]]


def test_figure_5_single_evictions() -> None:
    window = window_of([1, 3, 2, 1, 2, 1, 1, 0, 3, 1])
    assert drawn(window) == [
        [(1, 3), (2, 1), (2, 1), (1, 0), (3, 1)],
        [(4, 3), (3, 1)],
        [(7, None)],
    ]
    assert window.query() == 15

    window.evict()
    assert pair_of(window) == (14, None)
    assert drawn(window)[0][0] == (None, 3)
    assert window.query() == 14

    window.evict()
    assert pair_of(window) == (11, None)
    assert drawn(window) == [[(2, 1), (2, 1), (1, 0), (3, 1)], [(None, 3), (3, 1)], [(7, None)]]
    assert window.query() == 11
    window.check()


@BOTH
def test_running_example_sum_at_most_ten(aggregator: type) -> None:
    """Section 3.2: [2, 2, 3, 3] and then 4 makes [3, 3, 4], maximum 4."""
    frame = BoundWindow(("value", Sum()), at_most=10)
    both = Product({"max": ("value", Max()), "all": ("value", Collect())})
    window = Window(both, frame, arity=2, aggregator=aggregator)
    for value in (2, 2, 3, 3):
        window.insert({"value": value})
    assert window.query() == {"max": 3, "all": [2, 2, 3, 3]}
    window.insert({"value": 4})
    assert window.query() == {"max": 4, "all": [3, 3, 4]}
    window.check()


@BOTH
def test_running_example_without_columns(aggregator: type) -> None:
    window = Window(Max(), BoundWindow(Sum(), at_most=10), arity=2, aggregator=aggregator)
    assert window.extend([2, 2, 3, 3, 4]).tolist() == [2, 2, 3, 3, 4]
    assert len(window) == 3
