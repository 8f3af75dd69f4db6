"""Combines an operation: the worst case and the average of every algorithm, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from mta import AbstractMonoid
from mta.in_order import (
    DABA,
    FOA,
    IOA,
    DABALite,
    FlatFIT,
    InOrderAggregator,
    RecalculateFromScratch,
    SlickDeque,
    SubtractOnEvict,
    TwoStacks,
    TwoStacksLite,
)
from tests.support.in_order_windows import Counted, cut_off, fill, joined, longest

Step = tuple[str, str]


@dataclass
class Costs:
    """The most combines of an operation, all of them together, and how often there was one."""

    worst: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def average(self, operation: str) -> float:
        return self.total[operation] / self.times[operation]


@dataclass(frozen=True)
class Bounds:
    """What the papers promise: the worst of each operation, and a slide's average of all three."""

    query: Callable[[int], int]
    insert: Callable[[int], int]
    evict: Callable[[int], int]
    slide: float
    monoid: Callable[[], AbstractMonoid] = joined


def at_most(n: int) -> Callable[[int], int]:
    return lambda _: n


BOUNDS: dict[type[InOrderAggregator], Bounds] = {
    SubtractOnEvict: Bounds(at_most(0), at_most(1), at_most(0), 1, monoid=cut_off),
    TwoStacks: Bounds(at_most(1), at_most(1), lambda n: n, 3),
    TwoStacksLite: Bounds(at_most(1), at_most(1), lambda n: n - 1, 3),
    FOA: Bounds(at_most(1), at_most(4), at_most(3), 5),
    IOA: Bounds(at_most(1), at_most(4), at_most(3), 5),
    DABA: Bounds(at_most(1), at_most(4), at_most(3), 5),
    DABALite: Bounds(at_most(1), at_most(3), at_most(2), 4),
    FlatFIT: Bounds(lambda n: n - 1, at_most(0), at_most(0), 3),
    SlickDeque: Bounds(at_most(0), lambda n: n, at_most(0), 2, monoid=longest),
}


def words(seed: int = 3) -> Iterator[str]:
    """Words of up to eight letters."""
    rng = np.random.default_rng(seed)
    while True:
        yield from ("x" * int(n) for n in rng.integers(1, 9, 1000))


def slides(n: int, count: int) -> Iterator[str]:
    """Fill a window of n values, then as many slides."""
    yield from ["insert"] * n
    for _ in range(count):
        yield from ("evict", "insert", "query")


def sawtooth(n: int) -> Iterator[str]:
    """Grow to n, shrink to nothing, and again to half of it and back."""
    for top in (n, n // 2 + 1, n):
        yield from ["insert"] * top
        yield "query"
        yield from ["evict"] * top


def random_walk(n: int) -> Iterator[str]:
    """About n values, coming and going at random."""
    rng, size = np.random.default_rng(n), 0
    for draw in rng.random(12 * n):
        if draw < 0.2 and size:
            yield "query"
        elif size and (size == n or draw < 0.58):
            size -= 1
            yield "evict"
        else:
            size += 1
            yield "insert"


def costs_of(
    algorithm: type[InOrderAggregator], monoid: AbstractMonoid, steps: Iterator[str]
) -> Costs:
    counted, costs, values = Counted(monoid), Costs(), words()
    window = algorithm(counted.monoid)
    for step in steps:
        given = [next(values)] if step == "insert" else []
        cost = counted.of(getattr(window, step), *given)
        costs.worst[step] = max(costs.worst[step], cost)
        costs.total[step] += cost
        costs.times[step] += 1
    return costs


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 500])
@pytest.mark.parametrize("algorithm", BOUNDS, ids=lambda a: a.__name__)
def test_the_worst_case_of_every_operation(algorithm: type[InOrderAggregator], n: int) -> None:
    bounds = BOUNDS[algorithm]
    for steps in (slides(n, 5 * n), sawtooth(n), random_walk(n)):
        costs = costs_of(algorithm, bounds.monoid(), steps)
        assert costs.worst["query"] <= bounds.query(n)
        assert costs.worst["insert"] <= bounds.insert(n)
        assert costs.worst["evict"] <= bounds.evict(n)


@pytest.mark.parametrize("algorithm", [a for a in BOUNDS if a is not SlickDeque])
def test_the_worst_case_is_no_smaller(algorithm: type[InOrderAggregator]) -> None:
    """The bounds are the papers' own, not loose ones."""
    bounds, n = BOUNDS[algorithm], 64
    together: Counter[str] = Counter()
    for steps in (slides(n, 5 * n), sawtooth(n), random_walk(n)):
        together |= costs_of(algorithm, bounds.monoid(), steps).worst
    assert together["query"] == bounds.query(n)
    assert together["insert"] == bounds.insert(n)
    assert together["evict"] == bounds.evict(n)


@pytest.mark.parametrize("n", [2, 5, 64, 1000])
@pytest.mark.parametrize("algorithm", BOUNDS, ids=lambda a: a.__name__)
def test_the_average_of_a_slide(algorithm: type[InOrderAggregator], n: int) -> None:
    count = 20 * n
    costs = costs_of(algorithm, BOUNDS[algorithm].monoid(), slides(n, count))
    filling = costs_of(algorithm, BOUNDS[algorithm].monoid(), slides(n, 0))
    total = costs.total.total() - filling.total.total()
    # A rotation or flip that began before the count, or has not ended, is at most some n.
    assert total <= BOUNDS[algorithm].slide * count + 3 * n


@pytest.mark.parametrize("algorithm", BOUNDS, ids=lambda a: a.__name__)
def test_the_average_over_any_interleaving(algorithm: type[InOrderAggregator]) -> None:
    for n in (3, 40, 300):
        costs = costs_of(algorithm, BOUNDS[algorithm].monoid(), random_walk(n))
        assert costs.total.total() <= 3 * costs.times.total()


def test_theorem_4_3_daba_on_average() -> None:
    """2.5 combines an insert and 1.5 an evict, 1.5 of them in fixup."""
    costs = costs_of(DABA, joined(), slides(256, 20_000))
    fixups = costs.total["insert"] - costs.times["insert"] + costs.total["evict"]
    assert abs(fixups / (costs.times["insert"] + costs.times["evict"]) - 1.5) < 0.02
    assert abs(costs.average("insert") + costs.average("evict") - 4) < 0.04
    assert costs.average("query") == 1


def test_recalculating_takes_the_whole_window() -> None:
    counted = Counted()
    window = fill(RecalculateFromScratch(counted.monoid), ["a"] * 50)
    assert counted.combines == 0
    assert counted.of(window.query) == 50
    assert counted.of(window.evict) == 0


def test_subtracting_undoes_once_an_eviction() -> None:
    counted = Counted(cut_off())
    window = fill(SubtractOnEvict(counted.monoid), ["ab", "c", "d"])
    before = counted.inverses
    assert before == 3  # each insert sees whether its value can be taken out again
    window.evict()
    assert counted.inverses == before + 1
    assert window.query() == "cd"


def test_slick_deque_on_an_invertible_operation() -> None:
    counted = Counted(cut_off())
    window = fill(SlickDeque(counted.monoid), ["ab", "c", "d"])
    assert counted.combines == 3
    before = counted.inverses
    assert counted.of(window.evict) == 0
    assert counted.inverses == before + 1
    assert counted.of(window.query) == 0


def test_slick_deque_at_its_worst() -> None:
    """Falling lengths are all kept, until one beats them all."""
    counted, n = Counted(longest()), 100
    window = fill(SlickDeque(counted.monoid), ["x" * (n - i) for i in range(n)])
    assert counted.combines == n - 1
    assert counted.of(window.insert, "x" * (n + 1)) == n
    assert window.query() == "x" * (n + 1)


def test_flatfit_answers_again_for_nothing() -> None:
    counted = Counted()
    window = fill(FlatFIT(counted.monoid), "abcdefghijklmnop")
    assert counted.of(window.query) == 15
    assert counted.of(window.query) == 0
    window.evict()
    window.insert("q")
    assert counted.of(window.query) == 1
