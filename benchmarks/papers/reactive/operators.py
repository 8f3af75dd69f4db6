"""The aggregations of the Reactive Aggregator paper's Table 3, and how they are recalculated.

As there, integers have 32 bits unless an aggregation is of doubles. Deviations merge counts, means
and squares around the mean, where the paper adds up squares, which cancel.
"""

from __future__ import annotations

import math
import operator
from functools import cache
from random import Random
from typing import Any

from benchmarks.papers.operators import (
    Operator,
    deviation,
    first_max,
    larger,
    min_count,
    moments,
)
from mta import Collect, Monoid

Pair = tuple[Any, int]


@cache
def reactive_operators() -> dict[str, Operator]:
    """Table 3's aggregations, in its order; what is commutative says so."""
    drawn = Random(11)
    integers = [drawn.randrange(-(2**31), 2**31) for _ in range(4096)]
    doubles = [drawn.uniform(-1, 1) for _ in integers]
    places = range(len(integers))
    low = (-math.inf, 0)
    found: list[tuple[Monoid, list[Any]]] = [
        (Monoid(0, operator.add, lambda v: 1, name="Count", commutative=True), integers),
        (Monoid(0, operator.add, name="Sum", commutative=True), integers),
        (Monoid(0.0, operator.add, name="Sum<Double>", commutative=True), doubles),
        (Monoid(-math.inf, larger, name="Max", commutative=True), integers),
        (Monoid(-math.inf, larger, name="Max<Double>", commutative=True), doubles),
        (_mean(), integers),
        (_smallest_and_count(), integers),
        (_deviation("SampleStdDev", sample_deviation), integers),
        (_deviation("PopulationStdDev", deviation), integers),
        (Monoid(low, first_max, name="ArgMax"), list(zip(integers, places, strict=True))),
        (Monoid(low, first_max, name="ArgMax<Double>"), list(zip(doubles, places, strict=True))),
        (Collect(), integers),
    ]
    return {monoid.name: Operator(monoid.name, monoid, values) for monoid, values in found}


def _mean() -> Monoid:
    return Monoid(
        (0, 0), add_pairs, lambda v: (v, 1), lambda p: p[0] / p[1],
        "ArithmeticMean", commutative=True, empty=math.nan,
    )  # fmt: skip


def _smallest_and_count() -> Monoid:
    return Monoid((math.inf, 0), min_count, lambda v: (v, 1), name="MinCount", commutative=True)


def _deviation(name: str, lower: Any) -> Monoid:
    return Monoid((0, 0.0, 0.0), moments, lambda v: (1, v, 0.0), lower, name, commutative=True)


def add_pairs(a: Pair, b: Pair) -> Pair:
    """Sums and counts."""
    return a[0] + b[0], a[1] + b[1]


def sample_deviation(partial: tuple[Any, ...]) -> float:
    """The sample's standard deviation that merged moments stand for; NaN below two values."""
    return math.sqrt(partial[2] / (partial[0] - 1)) if partial[0] > 1 else math.nan
