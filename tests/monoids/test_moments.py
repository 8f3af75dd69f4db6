"""MomentSketch: its quantiles, and what its moments are and survive."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from mta import CountWindow, SampleStdDev, Window
from mta.aggregations import MomentSketch

QUANTILES = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
SMOOTH: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.normal(0, 1, 20_000),
    "normal near 1e9": lambda rng: rng.normal(1e9, 1, 20_000),
    "normal, tiny": lambda rng: rng.normal(3e-12, 1e-12, 20_000),
    "uniform": lambda rng: rng.uniform(-3, 5, 20_000),
    "exponential": lambda rng: rng.exponential(1, 20_000),
    "lognormal": lambda rng: rng.lognormal(0, 2, 20_000),
    "lognormal, huge": lambda rng: rng.lognormal(600, 20, 20_000),
    "pareto": lambda rng: rng.pareto(1.2, 20_000) + 1,
    "gamma": lambda rng: rng.gamma(0.1, 1, 20_000),
    "two modes": lambda rng: rng.permutation(
        np.concatenate([rng.normal(-5, 1, 10_000), rng.normal(5, 0.5, 10_000)])
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_quantiles_of_smooth_data_within_a_hundredth_of_rank(name: str) -> None:
    data = SMOOTH[name](np.random.default_rng(11))
    window = Window(MomentSketch(QUANTILES), CountWindow(15_000), leaf_arity=256, arity=8)
    for part in np.array_split(data, 7):
        found = window.extend(part, emit="last")[0]
    kept = np.sort(data[-15_000:])
    ranks = np.searchsorted(kept, found) / len(kept)
    assert np.abs(ranks - QUANTILES).max() < 0.01


def test_moments_are_the_papers_sums_of_powers() -> None:
    """Scaled back, they are the sums of x^i and of (log x)^i over all events."""
    data = np.random.default_rng(2).uniform(1, 3, 500)
    monoid = MomentSketch(k=5)
    halves = [monoid.fold(monoid.lift(part), len(part)) for part in np.array_split(data, [123])]
    partial = monoid.combine(*halves)
    assert partial[:3].tolist() == [500, data.min(), data.max()]
    for sums, x in ((partial[3:8], data), (partial[8:], np.log(data))):
        c, h = (x.min() + x.max()) / 2, (x.max() - x.min()) / 2
        scaled = np.concatenate(([500.0], sums))
        for i in range(1, 6):
            raw = sum(math.comb(i, j) * h**j * c ** (i - j) * scaled[j] for j in range(i + 1))
            np.testing.assert_allclose(raw, (x**i).sum(), rtol=1e-12)


def test_moments_do_not_wear_out_in_a_deep_tree() -> None:
    """Brought from range to range at every level, they are what all values at once give."""
    data = np.random.default_rng(3).normal(1e6, 10, 4096)
    monoid = MomentSketch()
    rows = monoid.lift(data)
    level = list(rows)
    while len(level) > 1:
        level = [monoid.combine(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    chain = monoid.identity
    for row in rows[:500]:
        chain = monoid.combine(chain, row)
    at_once = monoid.fold(rows, len(rows))
    np.testing.assert_allclose(level[0], at_once, rtol=1e-12, atol=1e-8)
    np.testing.assert_allclose(chain, monoid.fold(rows[:500], 500), rtol=1e-12, atol=1e-9)


def test_moments_of_few_values() -> None:
    window = Window(MomentSketch([0.0, 0.5, 1.0]), CountWindow(50), arity=4)
    assert window.extend([5.0, 5.0, 5.0])[-1] == [5.0, 5.0, 5.0]
    window.insert(6.0)
    low, middle, high = window.query()
    assert low == 5.0 <= middle <= high == 6.0
    coins = Window(MomentSketch([0.25, 0.75]), CountWindow(1000))
    found = coins.extend([float(i % 2) for i in range(1000)], emit="last")[0]
    assert found[0] < 0.01 and found[1] > 0.99  # only the ends have any mass


def test_what_moments_cannot_take() -> None:
    window = Window(MomentSketch(), CountWindow(5), nulls="drop_row")
    window.extend([1.0, math.inf, -math.inf, math.nan, 3.0])
    window.insert(math.inf)
    assert len(window) == 2 and window.stats().invalid == 4
    extremes = Window(MomentSketch([0.0, 1.0]), CountWindow(5))
    assert extremes.extend([-1e308, 1e308, 0.0])[-1] == [-1e308, 1e308]
    with pytest.raises(ValueError, match="moments"):
        MomentSketch(k=1)
    for wrong in ([], [1.5], -0.1):
        with pytest.raises(ValueError, match="from 0 to 1"):
            MomentSketch(wrong)


def test_the_deviation_of_one_value_is_no_number_and_warns_of_nothing() -> None:
    deviation = SampleStdDev()
    with np.errstate(all="raise"):
        assert math.isnan(deviation.lower_rows(deviation.lift_rows(np.array([3.0]), 1))[0])
