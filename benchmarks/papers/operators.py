"""The operators of the DABA paper's experiments, from cheap to expensive, in plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from mta import Collect, Monoid

BLOOM_BITS = 16_384


@dataclass(frozen=True)
class Operator:
    """An aggregation of the paper, some values for it, and what a partial weighs in bytes."""

    name: str
    monoid: Monoid
    values: Sequence[Any]
    weight: int = 100


@cache
def operators() -> dict[str, Operator]:
    """The paper's operators from cheap to expensive, in plain Python."""
    drawn = Random(7)
    numbers = [drawn.random() + 0.5 for _ in range(4096)]
    pairs = [(value, number) for number, value in enumerate(numbers)]
    hashes = [
        sum(1 << bit for bit in {drawn.randrange(BLOOM_BITS) for _ in range(3)}) for _ in pairs
    ]
    smallest = (math.inf, 0)
    found = [
        Operator("Sum", Monoid(0.0, operator.add, inverse=operator.sub, name="Sum"), numbers),
        Operator("Max", Monoid(-math.inf, larger, name="Max", selective=True), numbers),
        Operator("ArgMax", Monoid((-math.inf, 0), first_max, name="ArgMax", selective=True), pairs),
        Operator("MinCount", Monoid(smallest, min_count, lambda v: (v, 1), name="Min"), numbers),
        Operator("ArithMean", _mean("ArithMean", lambda v: (v, 1), lambda p: p[0] / p[1]), numbers),
        Operator(
            "StdDev",
            Monoid((0, 0.0, 0.0), moments, lambda v: (1, v, 0.0), deviation, "StdDev"),
            numbers,
        ),
        Operator(
            "GeoMean",
            _mean("GeoMean", lambda v: (math.log(v), 1), lambda p: math.exp(p[0] / p[1])),
            numbers,
        ),
        Operator("Bloom", Monoid(0, operator.or_, name="Bloom"), hashes, BLOOM_BITS // 8),
        Operator("Collect", Collect(), numbers),
    ]
    return {one.name: one for one in found}


def larger(a: float, b: float) -> float:
    """The larger of two numbers."""
    return a if a >= b else b


def first_max(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
    """The pair with the larger value, the first of equal ones."""
    return a if a[0] >= b[0] else b


def min_count(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
    """The smaller value, and how often it was there."""
    if a[0] == b[0]:
        return a[0], a[1] + b[1]
    return a if a[0] < b[0] else b


def moments(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """Merge counts, means and squares around the mean."""
    count = a[0] + b[0]
    if not count:
        return a
    delta = b[1] - a[1]
    return count, a[1] + delta * b[0] / count, a[2] + b[2] + delta * delta * a[0] * b[0] / count


def deviation(partial: tuple[Any, ...]) -> float:
    """The standard deviation that merged moments stand for."""
    return math.sqrt(partial[2] / partial[0]) if partial[0] else math.nan


def _mean(name: str, lift: Callable[[Any], Any], lower: Callable[[Any], Any]) -> Monoid:
    def combine(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]

    def undo(whole: tuple[float, int], part: tuple[float, int]) -> tuple[float, int]:
        return whole[0] - part[0], whole[1] - part[1]

    return Monoid((0.0, 0), combine, lift, lower, name, inverse=undo, empty=math.nan)
