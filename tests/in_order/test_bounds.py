"""Combines an operation: the worst case and the average of every algorithm, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from mta.aggregations import AbstractMonoid
from mta.algorithms import (
    DABA,
    FOA,
    IOA,
    BaseIntervals,
    CachedDABA,
    DABALite,
    FlatFIT,
    InOrderAggregator,
    RecalculateFromScratch,
    Sliced,
    SlickDeque,
    SlideSide,
    SubtractOnEvict,
    TwoStacks,
    TwoStacksLite,
    pairs,
    panes,
)
from tests.support.in_order_windows import Counted, cut_off, fill, longest
from tests.support.naive import joined
from tests.support.sampling import some

Cut = Callable[[int, int], tuple[int, ...]]


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
    CachedDABA: Bounds(at_most(1), at_most(3), at_most(2), 4),
    DABALite: Bounds(at_most(1), at_most(3), at_most(2), 4),
    SlideSide: Bounds(at_most(1), at_most(1), lambda n: n - 1, 3),
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


@pytest.mark.sample(1)
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


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", some([2, 5, 64, 200, 1000], by_default=4))
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


# --- base intervals -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 500])
def test_base_intervals_take_a_logarithm(n: int) -> None:
    """Two intervals a level at most, and a new one a level at most."""
    levels = n.bit_length()
    for steps in (slides(n, 5 * n), sawtooth(n), random_walk(n)):
        costs = costs_of(BaseIntervals, joined(), steps)
        assert costs.worst["query"] <= max(2 * levels - 3, levels - 1)
        assert costs.worst["insert"] <= levels - 1
        assert costs.worst["evict"] == 0
        assert costs.total["insert"] <= costs.times["insert"]


def test_base_intervals_reach_their_worst_case() -> None:
    costs = costs_of(BaseIntervals, joined(), slides(62, 500))
    assert costs.worst["query"] == 2 * 6 - 3  # of [1, 63): two intervals a level
    assert costs.worst["insert"] == 5


# --- results that are known -----------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*BOUNDS, BaseIntervals], ids=lambda a: a.__name__)
def test_a_result_is_computed_once(algorithm: type[InOrderAggregator]) -> None:
    monoid = BOUNDS[algorithm].monoid if algorithm in BOUNDS else joined
    counted = Counted(monoid())
    window = fill(algorithm(counted.monoid), ["a", "bc", "def", "g", "hi"])
    for change in (lambda: window.insert("j"), window.evict):
        change()
        first = window.query()
        assert counted.of(window.query) == 0
        assert window.query() == first


# --- slices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [panes, pairs])
@pytest.mark.parametrize(
    ("length", "slide"), [(1, 1), (10, 1), (10, 3), (10, 4), (12, 4), (10, 7), (9, 9), (64, 48)]
)
def test_sliced_windows_are_those_of_a_plain_list(cut: Cut, length: int, slide: int) -> None:
    counted = Counted()
    window = Sliced(counted.monoid, length, slide, cut)
    stream = [chr(97 + i % 26) for i in range(5 * length + 3 * slide)]
    ends = range(length, len(stream) + 1, slide)
    expected = [(end, "".join(stream[end - length : end])) for end in ends]
    assert list(window.instances(stream)) == expected
    # A value within its slice, and 3 a slice for Two-Stacks: insert, evict, query.
    slices = len(cut(length, slide)) * len(stream) / sum(cut(length, slide))
    assert counted.combines <= len(stream) + 3 * slices + len(ends)


def test_pairs_are_fewer_than_panes() -> None:
    for length in range(1, 60):
        for slide in range(1, length + 1):
            one, two = panes(length, slide), pairs(length, slide)
            assert sum(two) == slide and slide % one[0] == 0 == length % one[0]
            assert len(two) <= slide // one[0]
            held = 2 * (length // slide) + (length % slide > 0)
            assert held <= 2 * -(-length // slide)


def test_a_slide_is_within_the_range() -> None:
    with pytest.raises(ValueError, match="from 1 to the range 3, not 4"):
        Sliced(joined(), 3, 4)
