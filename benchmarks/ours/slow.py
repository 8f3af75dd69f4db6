"""A store that answers in 2 ms beside one that answers at once: batches and single inserts.

Write buffer and head cache stand before both, as before every remote store; behind them is a memory
that takes its time, so that nothing but the wait differs. Groups of 512.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, perf_counter_ns

import numpy as np

from benchmarks.ours.single import larger
from benchmarks.report.beside import Figure, beside
from mta import AbstractMonoid, CountWindow, Max, Monoid, Window
from stores import HeadCache, MemoryStore, WriteBuffer
from stores.testing.latency import Constant, LatencyStore

EVENTS, WINDOW, ARITY = 4_000_000, 2**20, 512
AT_ONCE, SLOW = 0.0, 0.002
TIMES = 5


def run(size: float) -> list[Figure]:
    """Nanoseconds an event in batches; microseconds of the 50th and 99th percentile of inserts."""
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
    """What a fast and a slow store cost, in turns so that drift hits both alike."""
    taken: dict[float, list[list[float]]] = {AT_ONCE: [], SLOW: []}
    for _ in range(TIMES):
        for wait, found in taken.items():
            found.append(measure(wait))
    return [[median(column) for column in zip(*found, strict=True)] for found in taken.values()]


def full_window(monoid: AbstractMonoid, wait: float, values: np.ndarray) -> Window:
    """A window over a store with that wait, its front some groups on: the steady state."""
    store = WriteBuffer(HeadCache(LatencyStore(MemoryStore(), Constant(wait))))
    window = Window(monoid, CountWindow(WINDOW), store, arity=ARITY)
    window.extend(values[:WINDOW], emit="last")
    window.extend(values[WINDOW : WINDOW + WINDOW // 4])
    return window


def batch(wait: float, values: np.ndarray) -> float:
    """Nanoseconds an event of a batch with every result."""
    window = full_window(Max(), wait, values)
    rest = values[WINDOW + WINDOW // 4 :]
    began = perf_counter()
    window.extend(rest)
    seconds = perf_counter() - began
    assert window.store is not None
    window.store.close()
    return 1e9 * seconds / len(rest)


def single(wait: float, values: np.ndarray) -> list[float]:
    """Microseconds of the median, the 99th percentile and the slowest of all inserts."""
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
