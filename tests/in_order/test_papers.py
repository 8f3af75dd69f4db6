"""The figures and worked examples of the papers, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mta import Max, Monoid
from mta.algorithms import DABA, FOA, IOA, DABALite, FlatFIT, SlickDeque, TwoStacks
from mta.in_order.foa import Cell, walk
from mta.in_order.ioa import cells
from tests.support.in_order_windows import VARIANTS, Variant, fill
from tests.support.naive import joined


def largest() -> Monoid:
    return Monoid(float("-inf"), max, name="max", selective=True)


# --- DEBS 2017 paper: Figure 4, the running example ---------------------------------------------


ROOMY = [v for v in VARIANTS if v.range > 5 and v.slide == 1 and v.algorithm.suits(Max())]


@pytest.mark.parametrize("variant", ROOMY, ids=repr)
def test_figure_4_the_trace(variant: Variant) -> None:
    """States a to c as printed; the steps after them go on as the paper says, by turns."""
    window = fill(variant.build(Max()), [2, 6, 3, 5, 3])
    assert window.query() == 6  # a: 2 6 3 5 3
    window.evict()
    assert window.query() == 6  # b: 6 3 5 3
    window.insert(1)
    assert window.query() == 6  # c: 6 3 5 3 1
    found = []
    for value in (None, 4, None, 1, None):
        if value is None:
            window.evict()
        else:
            window.insert(value)
        window.check()
        found.append(window.query())
    assert found == [5, 5, 5, 5, 4]  # 3 5 3 1 | 3 5 3 1 4 | 5 3 1 4 | 5 3 1 4 1 | 3 1 4 1


# --- Two-Stacks, Figure 1 -----------------------------------------------------------------------


def test_figure_1_two_stacks() -> None:
    window = fill(TwoStacks(joined()), "abc")
    assert window.back == [("a", "a"), ("b", "ab"), ("c", "abc")]
    window.evict()
    assert window.front == [("c", "c"), ("b", "bc")]
    assert window.back == []
    fill(window, "de")
    assert (window.front[-1][1], window.back[-1][1], window.query()) == ("bc", "de", "bcde")


# --- FOA and IOA, Figures 5 to 7 ----------------------------------------------------------------


def shown(first: Cell | None) -> list[tuple[Any, Any] | str]:
    """A list as it stands: its cells, and 'rot' where the rest is suspended."""
    found: list[tuple[Any, Any] | str] = []
    while first is not None:
        found.append((first.value, first.agg))
        if first.is_suspended:
            return [*found, "rot"]
        first = first.tail
    return found


def state_b(algorithm: Callable[[Monoid], Any]) -> Any:
    """The window 6, 3, 5, 3 with F = [6, 3], B = [3, 5] and N used up, as in Figure 6."""
    window = fill(algorithm(largest()), [2, 6, 3])
    window.evict()
    return fill(window, [5, 3])


def test_figure_6_an_insertion_begins_a_rotation() -> None:
    window = state_b(FOA)
    before = window.version
    assert shown(before.front) == [(6, 6), (3, 3)]
    assert shown(before.back) == [(3, 5), (5, 5)]
    assert before.next is None
    window.insert(1)
    now = window.version
    # c: the aggregate of 6 is known at once, though all behind it is suspended.
    assert shown(now.front) == [(6, 6), "rot"]
    assert now.next is now.front
    assert now.back is None
    assert [(cell.value, cell.agg) for cell in walk(now.front)] == [
        (6, 6),
        (3, 5),
        (5, 5),
        (3, 3),
        (1, 1),
    ]
    assert shown(now.front) == [(6, 6), "rot"], "to walk is not to force"


def test_figure_7_each_operation_forces_a_step() -> None:
    """N has five cells in state c and advances by one in each step, until it is used up in h."""
    window = state_b(FOA)
    window.insert(1)
    lengths, suspended = [], []
    for value in (None, 4, None, 1, None):
        if value is None:
            window.evict()
        else:
            window.insert(value)
        window.check()
        lengths.append(len(list(walk(window.version.next))))
        suspended.append("rot" in shown(window.version.front))
    assert lengths == [4, 3, 2, 1, 0]
    assert suspended == [True, False, False, False, False]


def test_section_3_2_a_cell_is_delayed_then_forced_in_place() -> None:
    window = state_b(IOA)
    assert cells(window.front) == [(6, 6), (3, 3)]
    assert cells(window.back) == [(3, 5), (5, 5)]
    window.insert(1)
    assert cells(window.front) == [(6, 6), "rot"]
    delayed = window.front.tail
    assert delayed.rotating is not None
    window.evict()
    assert window.front is delayed, "the same cell"
    assert cells(delayed) == [(3, 5), "rot"]
    window.insert(4)
    assert cells(window.front) == [(3, 5), (5, 5), (3, 3), (1, 1)]


# --- DABA, Figures 8, 11 and 12 -----------------------------------------------------------------


def drawn(window: DABA | DABALite) -> dict[str, int]:
    """The pointers as Figure 11 shows them: places, F being 0."""
    n = window.sizes()
    front = n["F"] - n["L"] - n["R"] - n["A"]
    place = {"L": front, "R": front + n["L"], "A": front + n["L"] + n["R"], "B": n["F"]}
    return {**place, "E": n["F"] + n["B"]}


def aggs(window: DABA) -> list[Any]:
    queue = window._queue
    return [window.aggs[p] for p in queue.span(queue.begin, queue.end)]


def state_a(algorithm: Callable[..., Any], chunk_size: int) -> Any:
    """2, 6, 3, 5, 3 with all of it in l_F, and none of l_L, l_R and l_A empty."""
    window = fill(algorithm(largest(), chunk_size=chunk_size), [9, 9, 2, 6])
    window.evict()
    fill(window, [3, 5, 3])
    window.evict()
    return window


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 64])
def test_figure_11_the_cases_of_fixup_in_turn(chunk_size: int) -> None:
    window = state_a(DABA, chunk_size)
    assert drawn(window) == {"L": 1, "R": 2, "A": 3, "B": 5, "E": 5}
    assert aggs(window) == [6, 6, 3, 5, 3]
    trace = []
    for value in (None, 1, None, 4, None, 1, None, 2):
        if value is None:
            window.evict()
        else:
            window.insert(value)
        window.check()
        trace.append((*drawn(window).values(), aggs(window)))
    assert trace == [
        (1, 1, 1, 4, 4, [6, 5, 5, 3]),  # b: 6 3 5 3      evict, shrink
        (2, 2, 2, 4, 5, [6, 5, 5, 3, 1]),  # c: 6 3 5 3 1    insert, shift
        (2, 2, 2, 3, 4, [5, 5, 3, 1]),  # d: 3 5 3 1      evict, shift
        (3, 3, 3, 3, 5, [5, 5, 3, 1, 4]),  # e: 3 5 3 1 4    insert, shift
        (1, 2, 3, 4, 4, [5, 3, 1, 4]),  # f: 5 3 1 4      evict, flip and shrink in one
        (2, 2, 2, 4, 5, [5, 4, 4, 4, 1]),  # g: 5 3 1 4 1    insert, shrink
        (2, 2, 2, 3, 4, [4, 4, 4, 1]),  # h: 3 1 4 1      evict, shift
        (3, 3, 3, 3, 5, [4, 4, 4, 1, 2]),  # i: 3 1 4 1 2    insert, shift; the next one flips
    ]
    window.evict()
    assert window.sizes()["B"] == 0


# --- FlatFIT and SlickDeque ---------------------------------------------------------------------


def test_flatfit_hops_and_shortens() -> None:
    window = fill(FlatFIT(joined()), "abcd")
    assert window.hops() == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert window.query() == "abcd"
    assert window.hops() == [(0, "abcd")]
    fill(window, "ef")
    window.evict()
    assert window.hops() == [(1, "bcd"), (4, "e"), (5, "f")]
    assert window.query() == "bcdef"
    window.evict()
    assert window.hops() == [(2, "cd"), (4, "ef")]


def test_slick_deque_keeps_what_can_still_win() -> None:
    window = fill(SlickDeque(largest()), [2, 6, 3, 5, 3])
    assert window.kept() == [6, 5, 3]
    fill(window, [5])
    assert window.kept() == [6, 5], "an equal one that stays longer replaces the other"
    for expected in ([6, 5], [5]):
        window.evict()
        assert window.kept() == expected
    assert window.query() == 5


def test_slick_deque_with_a_selective_operation_that_does_not_commute() -> None:
    first = Monoid("", lambda a, b: a or b, name="first", selective=True)
    window = fill(SlickDeque(first), ["x", "y", "x", "x"])
    found = []
    for _ in range(4):
        found.append(window.query())
        window.evict()
        window.check()
    assert found == ["x", "y", "x", "x"]
