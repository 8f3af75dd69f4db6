"""Which ready-made monoids always answer one of the two sides, as they declare."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mta import ArgMax, ArgMin, Count, First, Last, Max, Mean, Min, Monoid, Sum
from mta.aggregations import AbstractMonoid, MaxCount

VALUES = [float("nan"), -np.inf, -1.0, 0.0, 0.5, 0.5, 7.0, np.inf]
SELECTIVE = [Max(), Min(), First(), Last(), Max("i8"), ArgMax(), ArgMin()]


def partials(monoid: AbstractMonoid) -> list[object]:
    if monoid.name.startswith("Arg"):
        return [monoid.lift(monoid.row((value, n))) for n, value in enumerate(VALUES)]
    exact = monoid.name.endswith("[int64]")
    return [monoid.lift(monoid.row(int(v) if exact else v)) for v in VALUES[2 * exact : -1]]


@pytest.mark.parametrize("monoid", SELECTIVE, ids=repr)
def test_a_selective_monoid_answers_one_of_the_sides(monoid: AbstractMonoid) -> None:
    assert monoid.selective
    for one, other in itertools.product([*partials(monoid), monoid.identity], repeat=2):
        both = monoid.combine(one, other)
        assert monoid.same(both, one) or monoid.same(both, other)


def test_others_do_not_say_so() -> None:
    assert not any(monoid.selective for monoid in (Sum(), Count(), Mean(), MaxCount()))
    assert Monoid("", max, selective=True).selective
    assert not Monoid("", max).selective
