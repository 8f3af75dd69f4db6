"""The ready-made monoids with naive oracles, and every way to bring events into a window."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from mta import (
    ArgMax,
    ArgMin,
    Collect,
    Count,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Min,
    Product,
    SampleStdDev,
    Sum,
    Window,
)
from mta.aggregations import AbstractMonoid, GeometricMean, MaxCount, MinCount, PopulationStdDev
from mta.algorithms import AmortizedMTA, LogMTA

SIMPLE: dict[str, tuple[type[AbstractMonoid], Callable[[list[float]], float]]] = {
    "Count": (Count, len),
    "Sum": (Sum, math.fsum),
    "Min": (Min, min),
    "Max": (Max, max),
    "Mean": (Mean, lambda v: math.fsum(v) / len(v)),
    "GeometricMean": (GeometricMean, lambda v: math.exp(math.fsum(map(math.log, v)) / len(v))),
    "SampleStdDev": (SampleStdDev, lambda v: deviation(v, 1)),
    "PopulationStdDev": (PopulationStdDev, lambda v: deviation(v, 0)),
    "MinCount": (MinCount, lambda v: v.count(min(v))),
    "MaxCount": (MaxCount, lambda v: v.count(max(v))),
    "First": (First, lambda v: v[0]),
    "Last": (Last, lambda v: v[-1]),
}


PAIRED: dict[str, tuple[type[AbstractMonoid], Callable[[list[tuple[float, float]]], float]]] = {
    "ArgMin": (ArgMin, lambda pairs: min(pairs, key=lambda pair: pair[0])[1]),
    "ArgMax": (ArgMax, lambda pairs: max(pairs, key=lambda pair: pair[0])[1]),
}


EVERY = [*SIMPLE, *PAIRED, "Collect"]


EXACT = {"Count", "Min", "Max", "MinCount", "MaxCount", "First", "Last", "ArgMin", "ArgMax"}


def deviation(values: list[float], lost: int) -> float:
    """Exact up to the last square root."""
    if len(values) <= lost:
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return math.sqrt(sum((value - mean) ** 2 for value in exact) / (len(exact) - lost))


def made(name: str) -> AbstractMonoid:
    if name == "Collect":
        return Collect()
    return (SIMPLE.get(name) or PAIRED[name])[0]()


def paths(
    monoid: Callable[[], AbstractMonoid], events: list[Any], size: int, batch: Callable[..., Any]
) -> dict[str, Any]:
    """The results of every way to bring the events in, over small groups in a store."""
    results: dict[str, Any] = {}
    for aggregator in (AmortizedMTA, LogMTA):
        for arity in (2, 5):

            def window(aggregator: type = aggregator, arity: int = arity) -> Window:
                return Window(monoid(), CountWindow(size), arity=arity, aggregator=aggregator)

            label = f"{aggregator.__name__} {arity}"
            one = window()
            each = []
            for event in events:
                one.insert(event)
                each.append(one.query())
            results[f"{label} insert"] = each
            results[f"{label} all"] = list(window().extend(batch(events)))
            pieces, parts = window(), []
            for start in range(0, len(events), 7):
                parts.extend(pieces.extend(batch(events[start : start + 7])))
            results[f"{label} pieces"] = parts
            last = window()
            results[f"{label} last"] = [
                last.extend(batch(events[i : i + 3]), emit="last")[0]
                for i in range(0, len(events), 3)
            ]
            one.check()
            last.check()
    return results


def wanted(label: str, expected: list[Any]) -> list[Any]:
    """What a path must give: all results, or that after each batch of three."""
    if not label.endswith("last"):
        return expected
    return [expected[min(i + 2, len(expected) - 1)] for i in range(0, len(expected), 3)]


def agree(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        np.array(found, dtype=float), np.array(expected, dtype=float), rtol=1e-12, atol=1e-12
    )


def power() -> Product:
    return Product(
        {
            "peak": ("watts", Max()),
            "when": (("watts", "at"), ArgMax("int64")),
            "mean": ("watts", Mean()),
            "calls": ("calls", Sum("int64")),
            "n": Count(),
        }
    )
