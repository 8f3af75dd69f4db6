"""Every in-order aggregator against a plain list and a naive fold, all invariants each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import ArgMax, Collect, Count, First, Max, Mean, Product, SampleStdDev, Sum
from mta.aggregations import AbstractMonoid, MinCount
from mta.algorithms import IN_ORDER, BoundaryAggregator, InOrderAggregator, Sliced, pairs, panes
from mta.errors import EmptyWindow, InvalidValue
from mta.monoids.equality import same
from tests.support.in_order_windows import VARIANTS, PlainList, Variant, cut_off, longest
from tests.support.naive import joined
from tests.support.random_windows.kinds import NEIGHBOURS
from tests.support.sampling import REST

#: What an operation does, and how often; windows get long enough for several flips.
STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "evict", "slide", "query"]), st.integers(1, 9)),
    max_size=14,
)


def word(n: int) -> str:
    """Words of different lengths, no two alike."""
    return f"{n}" + "." * (n * 7 % 5)


def number(n: int) -> int:
    return n * 37 % 11


def numbered(n: int) -> str:
    """The n-th of values of which only neighbours, in order, can be combined."""
    return f"{n}:"


def neighbours() -> AbstractMonoid:
    return NEIGHBOURS.monoid(False)


MONOIDS: dict[str, tuple[Callable[[], AbstractMonoid], Callable[[int], Any]]] = {
    "joined": (joined, word),
    "cut off": (cut_off, word),
    "longest": (longest, word),
    "neighbours": (neighbours, numbered),
    "collect": (Collect, number),
    "sum": (lambda: Sum("i8"), number),
    "max": (Max, number),
    "arg max": (ArgMax, lambda n: (number(n), n)),
    "first": (First, number),
    "count": (Count, number),
    "min count": (MinCount, number),
    "deviation": (SampleStdDev, number),
    "product": (
        lambda: Product({"top": ("x", Max()), "mean": ("x", Mean())}),
        lambda n: {"x": float(number(n))},
    ),
}
MATRIX = [
    pytest.param(variant, name, id=f"{variant}-{name}", marks=[REST] if (at + nth) % 3 else [])
    for at, variant in enumerate(VARIANTS)
    for nth, (name, (make, _)) in enumerate(MONOIDS.items())
    if variant.algorithm.suits(make())
    # Sizes are shrunk for the order of events: other monoids need no more than defaults.
    and (name in ("joined", "neighbours", "deviation") or variant in VARIANTS[: len(IN_ORDER)])
]


@pytest.mark.parametrize(("variant", "name"), MATRIX)
@settings(max_examples=4, deadline=None)
@given(steps=STEPS)
def test_any_interleaving_equals_a_plain_list(
    variant: Variant, name: str, steps: list[tuple[str, int]]
) -> None:
    make, value_of = MONOIDS[name]
    monoid = make()
    window, plain = variant.build(monoid), PlainList(variant.range, variant.slide)

    def insert() -> None:
        value = value_of(plain.next)
        window.insert(value)
        plain.insert(value)

    def evict() -> None:
        if not len(plain):
            with pytest.raises(EmptyWindow):
                window.evict()
            return
        window.evict()
        plain.evict()

    def query() -> None:
        assert same(window.query(), plain.result(monoid))

    def slide() -> None:
        insert()
        evict()
        query()

    actions = {"insert": insert, "evict": evict, "slide": slide, "query": query}
    for action, times in steps:
        for _ in range(times):
            actions[action]()
            assert len(window) == len(plain)
            window.check()
    query()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "over",
    [a for a in IN_ORDER if a.suits(neighbours()) and not issubclass(a, BoundaryAggregator)],
    ids=lambda over: over.name,
)
@pytest.mark.parametrize("cut", [panes, pairs])
def test_slices_are_joined_with_their_neighbours_alone(
    over: type[InOrderAggregator], cut: Callable[[int, int], tuple[int, ...]]
) -> None:
    for range_, slide in [(1, 1), (4, 4), (7, 1), (10, 4), (10, 7), (12, 5), (16, 2), (33, 8)]:
        window, ends = Sliced(neighbours(), range_, slide, cut, over), []
        for n in range(5 * range_):
            if window.insert(numbered(n)):
                ends.append(n + 1)
                assert window.query() == (n + 1 - range_, n, range_)
            window.slices.check()
        assert ends == list(range(range_, 5 * range_ + 1, slide))


@pytest.mark.parametrize("variant", VARIANTS, ids=repr)
def test_a_long_life_of_every_window_size(variant: Variant) -> None:
    """It grows, slides, shrinks to nothing and grows again; asked at times only."""
    monoid = next(m() for m in (joined, cut_off, longest) if variant.algorithm.suits(m()))
    window, plain = variant.build(monoid), PlainList(variant.range, variant.slide)
    rng = np.random.default_rng(5)
    for size in (1, 2, 30, 3, 0, 17, 0, 64, 1, 0):
        for _ in range(40):
            if len(plain) <= size:
                value = word(plain.next)
                window.insert(value)
                plain.insert(value)
            while len(plain) > size:
                window.evict()
                plain.evict()
            if rng.random() < 0.3:
                assert window.query() == plain.result(monoid)
            window.check()
        assert len(window) == len(plain)
        assert window.query() == plain.result(monoid)


@pytest.mark.parametrize("variant", VARIANTS, ids=repr)
def test_a_wrong_type_is_refused_and_changes_nothing(variant: Variant) -> None:
    window = variant.build(Sum() if variant.algorithm.suits(Sum()) else Max())
    window.insert(1.0)
    with pytest.raises(InvalidValue):
        window.insert("one")
    assert len(window) == 1
    assert window.query() == 1.0
    window.check()


def test_the_registry_names_each_algorithm_once() -> None:
    assert len({algorithm.name for algorithm in IN_ORDER}) == len(IN_ORDER) == 15
    assert {variant.algorithm for variant in VARIANTS} == set(IN_ORDER)
    assert all(algorithm.__doc__ and "Space:" in algorithm.__doc__ for algorithm in IN_ORDER)
