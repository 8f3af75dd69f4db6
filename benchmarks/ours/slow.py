"""A store that answers in 2 ms compared with one without delay: batches and single inserts.

Both have a write buffer and a head cache, like every remote store. The pages are in memory, so the
sides differ only in the delay. Groups have 512 elements.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, perf_counter_ns

import numpy as np

from benchmarks.ours.single import larger
from benchmarks.report.beside import Figure, beside
from mta import CountWindow, Max, Monoid, Window
from mta.aggregations import AbstractMonoid
from stores import HeadCache, MemoryStore, WriteBuffer
from stores.testing.faults import Constant, LatencyStore

EVENTS, WINDOW, ARITY = 4_000_000, 2**20, 512
AT_ONCE, SLOW = 0.0, 0.002
TIMES = 5


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per event in batches, and percentiles of inserts in microseconds."""
    values = np.random.default_rng(1).random(WINDOW + WINDOW // 4 + int(EVENTS * size))
    at_once, slow = _medians(lambda wait: [batch(wait, values)])
    figures = [
        Figure(
            "one batch, per event",
            f"{slow[0]:.0f} ns",
            f"{at_once[0]:.0f} ns, immediate answers",
            slow[0] / at_once[0],
            "<= 1.2",
        )
    ]
    some = values[: WINDOW + WINDOW // 4 + int(EVENTS * size / 4)]
    at_once, slow = _medians(lambda wait: single(wait, some))
    for what, ours, peer in zip(
        ("median", "99th percentile", "slowest"), slow, at_once, strict=True
    ):
        figures.append(
            Figure(
                f"one insert, {what}",
                f"{ours:.1f} us",
                f"{peer:.1f} us, immediate answers",
                ours / peer,
            )
        )
    return figures


def _medians(measure: Callable[[float], list[float]]) -> list[list[float]]:
    """Return the costs of a fast and a slow store, which take turns so that drift affects both."""
    taken: dict[float, list[list[float]]] = {AT_ONCE: [], SLOW: []}
    for _ in range(TIMES):
        for wait, found in taken.items():
            found.append(measure(wait))
    return [[median(column) for column in zip(*found, strict=True)] for found in taken.values()]


def full_window(monoid: AbstractMonoid, wait: float, values: np.ndarray) -> Window:
    """Return a window in its steady state over a store with a delay of ``wait`` seconds."""
    store = WriteBuffer(HeadCache(LatencyStore(MemoryStore(), Constant(wait))))
    window = Window(monoid, CountWindow(WINDOW), store, arity=ARITY)
    window.extend(values[:WINDOW], emit="last")
    window.extend(values[WINDOW : WINDOW + WINDOW // 4])
    return window


def batch(wait: float, values: np.ndarray) -> float:
    """Return nanoseconds per event of a batch with all results."""
    window = full_window(Max(), wait, values)
    rest = values[WINDOW + WINDOW // 4 :]
    began = perf_counter()
    window.extend(rest)
    seconds = perf_counter() - began
    assert window.store is not None
    window.store.close()
    return 1e9 * seconds / len(rest)


def single(wait: float, values: np.ndarray) -> list[float]:
    """Return the median, the 99th percentile and the maximum of inserts in microseconds."""
    window = full_window(Monoid(float("-inf"), larger, name="larger"), wait, values.tolist())
    rest = values[WINDOW + WINDOW // 4 :].tolist()
    taken = np.empty(len(rest), "<i8")
    for i, value in enumerate(rest):
        began = perf_counter_ns()
        window.insert(value)
        taken[i] = perf_counter_ns() - began
    assert window.store is not None
    window.store.close()
    return [float(np.percentile(taken, q)) / 1e3 for q in (50, 99, 100)]


EXPERIMENTS = (
    beside(
        "slow",
        "A slow store",
        "A window of 2^20 events in groups of 512. The store answers each call after 2 ms, and is "
        "compared with a store that answers immediately. The window reads pages ahead for as long "
        "as the store takes to answer.",
        run,
        quick=0.1,
    ),
)
