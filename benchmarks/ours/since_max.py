"""The MTA paper's window since the maximum, event by event, compared with single evictions.

The windows of all sides have a limited number of readings, and of these only the readings since the
oldest maximum. MTA searches for the maximum and evicts in bulk. Two-Stacks and DABA are queried and
evicted value by value.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from time import process_time

from benchmarks.papers.mta.algorithms import opened
from benchmarks.papers.mta.streams import memory_usage, since_max
from benchmarks.papers.operators import operators
from benchmarks.report.beside import Figure, beside

WINDOW = 2**17
PEERS = ("Two-Stacks", "DABA")
OURS = ("Amortized MTA", "Amortized MTA, on disk")
TIMES = 5


def run(size: float) -> list[Figure]:
    """Measure nanoseconds for an insert, its evictions, and a query."""
    window = max(64, int(WINDOW * size))
    readings = memory_usage(2 * window).tolist()
    sides = {name: partial(slid, name, window, readings) for name in (*PEERS, *OURS)}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(TIMES):
        results = set()
        for name, side in sides.items():
            ns, results_sum = side()
            taken[name].append(ns)
            results.add(results_sum)
        if len(results) > 1:
            raise AssertionError(f"the algorithms differ: {results}")
    found = {name: median(times) for name, times in taken.items()}
    return [
        Figure(
            f"{ours}", f"{found[ours]:.0f} ns", f"{found[peer]:.0f} ns, {peer}",
            found[ours] / found[peer], "<= 1",
        )
        for ours in OURS
        for peer in PEERS
    ]  # fmt: skip


def slid(name: str, window: int, readings: list[float]) -> tuple[float, float]:
    """Return nanoseconds of processor time per event, and the sum of all results."""
    with opened(name, operators()["Max"].monoid, since_max(window)) as sliding:
        slide, total = sliding.slide, 0.0
        for reading in readings[:window]:
            slide(reading)
        began = process_time()
        for reading in readings[window:]:
            total += slide(reading)
        taken = process_time() - began
    return 1e9 * taken / (len(readings) - window), total


EXPERIMENTS = (
    beside(
        "since_max",
        "A window that depends on values",
        "A window that starts at its maximum, over up to 2^17 readings of the MTA paper's stream. "
        "Two-Stacks and DABA apply the frame value by value. Everything is plain Python with a "
        "lambda, and each result is compared. Processor time per event.",
        run,
        quick=2**-4,
        source="MTA paper, Experiment 3: the frame of Max",
    ),
)
