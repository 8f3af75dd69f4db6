"""The slowest of many single events: Amortized MTA, and SteadyMTA, which has no pauses.

Each event is an insert, its evictions, and a query. Each is timed in processor time of the thread.
The sides take turns, and figures are medians of each percentile. Combines are counted separately.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from math import inf
from statistics import median
from time import thread_time_ns
from typing import Any

import numpy as np

from benchmarks.ours.single import larger
from benchmarks.papers.mta.algorithms import Counter
from benchmarks.report.beside import Figure, beside
from mta import CountWindow, Monoid, Window
from mta.algorithms import AmortizedMTA, SteadyMTA

WINDOW, EVENTS, TIMES = 2**16, 100_000, 3
PERCENTILES = {"median": 50.0, "p99": 99.0, "p99.99": 99.99, "slowest": 100.0}
#: The number of events after which the state of the previous batch is gone.
SETTLED = 1100
#: The number of columns in an expensive partial.
_WIDTH = 64

Make = Callable[[], tuple[Monoid, Callable[[float], Any]]]


def cheap() -> tuple[Monoid, Callable[[float], Any]]:
    """Return a maximum, and the conversion of a number to its input."""
    return Monoid(-inf, larger, name="larger"), float


def expensive() -> tuple[Monoid, Callable[[float], Any]]:
    """Return the maximum of many columns; a combine takes some microseconds."""

    def combine(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(map(max, a, b))

    columns = np.arange(_WIDTH) / 7
    least = (-inf,) * _WIDTH
    return Monoid(least, combine, name="largest"), lambda x: tuple((x * columns % 1).tolist())


def run(size: float) -> list[Figure]:
    """Measure microseconds and combines per event, without and with pauses."""
    window, events = max(4096, int(WINDOW * size)), max(4096, int(EVENTS * size))
    figures = []
    for what, make in (("cheap", cheap), ("expensive", expensive)):
        monoid, value = make()
        numbers = np.random.default_rng(1).random(window + events).tolist()
        values = [value(number) for number in numbers]
        found: dict[type, list[list[float]]] = {SteadyMTA: [], AmortizedMTA: []}
        for _ in range(TIMES):
            results = []
            for kind, taken in found.items():
                times, result = timed(monoid, kind, values, window)
                taken.append(np.percentile(times, list(PERCENTILES.values())).tolist())
                results.append(result)
            if results[0] != results[1]:
                raise AssertionError(f"{what}: the results differ")
        mine, theirs = ([median(c) for c in zip(*rows, strict=True)] for rows in found.values())
        for name, ours, peer in zip(PERCENTILES, mine, theirs, strict=True):
            figures.append(
                Figure(
                    f"{what}, {name}", f"{ours:.1f} us", f"{peer:.1f} us, AmortizedMTA", ours / peer
                )
            )
    mine, theirs = (counted(kind, numbers, window) for kind in (SteadyMTA, AmortizedMTA))
    for name, ours, peer in zip(("mean", "most"), mine, theirs, strict=True):
        what = f"combines per event, {name}"
        figures.append(Figure(what, f"{ours:,.4g}", f"{peer:,.4g}, AmortizedMTA", ours / peer))
    return figures


def timed(monoid: Monoid, kind: type, values: list[Any], size: int) -> tuple[list[float], Any]:
    """Return the microseconds of each event after the first ``size``, and the last result."""
    window = Window(monoid, CountWindow(size), None, "w", aggregator=kind)
    window.extend(values[:size], emit="last")
    insert, query, times, result = window.insert, window.query, [], None
    gc.collect()
    gc.disable()
    try:
        for value in values[size:]:
            began = thread_time_ns()
            insert(value)
            result = query()
            times.append((thread_time_ns() - began) / 1e3)
    finally:
        gc.enable()
    return times[SETTLED:], result


def counted(kind: type, values: list[float], size: int) -> list[float]:
    """Return the mean and the most combines per event."""
    counter = Counter(cheap()[0])
    window = Window(counter.monoid, CountWindow(size), None, "w", aggregator=kind)
    window.extend(values[:size], emit="last")
    taken = []
    for value in values[size:]:
        before = counter.count
        window.insert(value)
        window.query()
        taken.append(counter.count - before)
    return [float(np.mean(taken[SETTLED:])), float(max(taken[SETTLED:]))]


EXPERIMENTS = (
    beside(
        "pauses",
        "The slowest event",
        "The slowest of 100,000 single events in a window of 2^16, in plain Python: with a cheap "
        "combine, and with an expensive one over 64 columns. `SteadyMTA`, which spreads its "
        "work, is compared with `AmortizedMTA`. Processor time of the thread.",
        run,
        quick=0.1,
    ),
)
