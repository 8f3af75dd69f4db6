"""In-order aggregators: the DABA paper's Tables 2 and 3 and Figure 13, and PBA beside SBA.

Every side is plain Python on plain Python operations: what differs is the algorithm. A *round* is
evict, insert, query on a full window, as in the paper (SBA evicts by itself), in nanoseconds of the
processor's time, so that other processes do not show; for PBA, of the clock. The garbage collector
is on, as it is where the algorithms are used. CSV files and plots go to ``bench-output/in_order``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path
from statistics import linear_regression
from time import perf_counter, thread_time, thread_time_ns
from typing import Any

import numpy as np

from mta import Max, SampleStdDev
from mta.in_order import (
    ALL,
    PBA,
    SBA,
    BoundaryAggregator,
    InOrderAggregator,
    RecalculateFromScratch,
)
from spark_integration.bench import Figure
from spark_integration.bench.in_order_operators import Operator, operators
from spark_integration.bench.in_order_plots import draw_boundaries, draw_figure_13
from spark_integration.cli.console import say

OUTPUT = Path("bench-output/in_order")
#: Rounds and window of the latencies (the paper: 1 million and 2^14), top of the throughput.
LATENCY_ROUNDS, LATENCY_WINDOW, LARGEST = 250_000, 2**14, 20
#: A window is not measured where its partials would take more memory than this.
MOST_BYTES = 1 << 29
#: Recalculating is given up above this window, as in the paper.
MOST_RECALCULATED = 2**12
BREAK_EVEN = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]

Algorithm = type[InOrderAggregator]


def run(size: float) -> list[Figure]:
    """Throughput, latencies, break-even points, and when PBA's thread pays."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for one in operators().values():
        verify(one)
    speed = throughput(size)
    delays, series = latencies(size)
    even = break_even(size)
    sides = boundaries(size)
    draw_figure_13(OUTPUT / "figure_13", series, speed)
    draw_boundaries(OUTPUT / "boundaries", sides)
    say(f"CSV files and plots are in {OUTPUT}/")
    return [*_slopes(speed), *_spread(delays), *_break_even(even), *_parallel(sides)]


# --- rounds -------------------------------------------------------------------------------------


def algorithms(one: Operator, size: int) -> list[Algorithm]:
    """The algorithms that take an operator and a window; PBA's thread is for columns alone."""
    suited = [a for a in ALL if a is not PBA and a.suits(one.monoid)]
    return [a for a in suited if a is not RecalculateFromScratch or size <= MOST_RECALCULATED]


def full_window(algorithm: Algorithm, one: Operator, size: int) -> InOrderAggregator:
    """A window of so many values, asked once."""
    sliding = issubclass(algorithm, BoundaryAggregator)
    window = algorithm(one.monoid, size) if sliding else algorithm(one.monoid)  # type: ignore[call-arg]
    for value in islice(cycle(one.values), size):
        window.insert(value)
    window.query()
    return window


def evicts(window: InOrderAggregator) -> Callable[[], None]:
    """A window's evict, which does nothing where the window slides by itself."""
    return do_nothing if isinstance(window, BoundaryAggregator) else window.evict


def do_nothing() -> None:
    """SBA and PBA have evicted when they insert."""


def verify(one: Operator, size: int = 37, rounds: int = 100) -> None:
    """What is timed must be right: all algorithms answer what recalculating does."""
    results = []
    for algorithm in algorithms(one, size):
        window = full_window(algorithm, one, size)
        evict = evicts(window)
        for value in islice(cycle(one.values), rounds):
            evict()
            window.insert(value)
        results.append(window.query())
    if not all(one.monoid.same(result, results[0]) for result in results):
        raise AssertionError(f"{one.name}: the algorithms differ: {results}")


def seconds_a_round(algorithm: Algorithm, one: Operator, size: int, rounds: int) -> float:
    """The average over some rounds, which should be as many as the window is large."""
    window = full_window(algorithm, one, size)
    evict, insert, query = evicts(window), window.insert, window.query
    values = list(islice(cycle(one.values), rounds))
    began = thread_time()
    for value in values:
        evict()
        insert(value)
        query()
    return (thread_time() - began) / rounds


def throughput(size: float) -> list[dict[str, Any]]:
    """Figure 13, bottom: million rounds a second over the window, for three operators."""
    top = LARGEST + min(0, round(math.log2(size)))
    rows = []
    for name in ("Sum", "GeoMean", "Bloom"):
        one = operators()[name]
        for exponent in range(0, top + 1, 2):
            window = 2**exponent
            if window * one.weight * 3 > MOST_BYTES:
                continue
            say(f"throughput: {name}, window 2^{exponent}")
            for algorithm in algorithms(one, window):
                slow = algorithm is RecalculateFromScratch
                least = int(50_000 * min(size, 1))
                rounds = max(20, least // window) if slow else max(least, window)
                seconds = seconds_a_round(algorithm, one, window, rounds)
                rows.append(_row(name, window, algorithm, ns=1e9 * seconds, mps=1e-6 / seconds))
    return write("throughput", rows)


def latencies(size: float) -> tuple[list[dict[str, Any]], dict[tuple[str, str], np.ndarray]]:
    """Table 2: average, deviation and percentiles of a round; and Figure 13, top: all of them."""
    rounds, window = int(LATENCY_ROUNDS * size), int(LATENCY_WINDOW * min(size, 1))
    rows, series = [], {}
    for name, one in operators().items():
        if name == "Collect":
            continue
        say(f"latency: {name}, window {window:,}, {rounds:,} rounds")
        for algorithm in algorithms(one, MOST_RECALCULATED + 1):
            taken = each_round(full_window(algorithm, one, window), one, rounds)
            tail = np.percentile(taken, [50, 90, 99, 99.9])
            names = ("p50", "p90", "p99", "p99.9")
            rows.append(
                _row(name, window, algorithm, average=taken.mean(), deviation=taken.std())
                | dict(zip(names, tail.tolist(), strict=True))
                | {"worst": float(taken.max())}
            )
            if name in ("Sum", "GeoMean", "Bloom"):
                series[name, algorithm.__name__] = taken
    return write("latency", rows), series


def each_round(window: InOrderAggregator, one: Operator, rounds: int) -> np.ndarray:
    """Nanoseconds of every round, less what it takes to read the time."""
    taken, idle, evict = np.empty(rounds, "i8"), np.empty(1000, "i8"), evicts(window)
    for at in range(len(idle)):
        began = thread_time_ns()
        idle[at] = thread_time_ns() - began
    for at, value in enumerate(islice(cycle(one.values), rounds)):
        began = thread_time_ns()
        evict()
        window.insert(value)
        window.query()
        taken[at] = thread_time_ns() - began
    taken -= int(np.median(idle))
    return taken.clip(min=1)


def break_even(size: float) -> list[dict[str, Any]]:
    """Table 3: the window from which on an algorithm is faster than recalculating."""
    rows = []
    for name, one in operators().items():
        say(f"break-even points: {name}")
        sizes = [n for n in BREAK_EVEN if n <= 1024 * min(1, size * 4)]
        times = {
            algorithm: [
                min(
                    seconds_a_round(algorithm, one, n, rounds_at(algorithm, n, size))
                    for _ in range(3)
                )
                for n in sizes
            ]
            for algorithm in algorithms(one, 1)
        }
        baseline = times.pop(RecalculateFromScratch)
        for algorithm, taken in times.items():
            slower = [n for n, a, b in zip(sizes, taken, baseline, strict=True) if a >= b]
            behind = sizes.index(slower[-1]) + 1 if slower else 0
            even = sizes[behind] if behind < len(sizes) else None
            rows.append({"operator": name, "algorithm": algorithm.__name__, "window": even})
    return write("break_even", rows)


def rounds_at(algorithm: Algorithm, window: int, size: float) -> int:
    """Enough rounds for an average, and for recalculating no more than it can do in a moment."""
    if algorithm is RecalculateFromScratch:
        return max(20, int(20_000 * min(size, 1)) // window)
    return max(2 * window, int(2000 * min(size, 1)))


# --- PBA beside SBA -----------------------------------------------------------------------------


def boundaries(size: float) -> list[dict[str, Any]]:
    """Batches of numpy monoids: the time a value, and that of one at a boundary; best of five."""
    top = LARGEST + min(0, round(math.log2(size)))
    rows = []
    for monoid in (Max(), SampleStdDev()):
        for exponent in range(8, top + 1, 2):
            say(f"PBA beside SBA: {monoid.name}, range 2^{exponent}")
            count = max(2**exponent * 4, int(500_000 * min(size, 1)))
            values = np.random.default_rng(1).normal(100, 10, count)
            taken: dict[Any, list[tuple[float, float]]] = {SBA: [], PBA: []}
            for _ in range(5):
                for algorithm, found in taken.items():
                    found.append(
                        (
                            seconds_in_batches(algorithm(monoid, 2**exponent), values),
                            boundary_pause(algorithm(monoid, 2**exponent), values),
                        )
                    )
            for algorithm, found in taken.items():
                batch, pause = np.min(found, axis=0)
                row = {"ns": 1e9 * batch / count, "pause_us": 1e6 * pause}
                rows.append(_row(monoid.name, 2**exponent, algorithm, **row))
    return write("boundaries", rows)


def seconds_in_batches(window: BoundaryAggregator, values: np.ndarray) -> float:
    """All values in batches of at most 2^16, with every result."""
    began = perf_counter()
    for start in range(0, len(values), 1 << 16):
        window.extend(values[start : start + (1 << 16)])
    return perf_counter() - began


def boundary_pause(window: BoundaryAggregator, values: np.ndarray) -> float:
    """The median time of the single value, insert and query, with which a new chunk begins."""
    chunk, pauses = window.chunk_size, []
    window.extend(values[: 2 * chunk])
    for start in range(2 * chunk, min(len(values), 12 * chunk), chunk):
        value = float(values[start])
        began = perf_counter()
        window.insert(value)
        window.query()
        pauses.append(perf_counter() - began)
        window.extend(values[start + 1 : start + chunk])
    return float(np.median(pauses))


# --- tables -------------------------------------------------------------------------------------


def _row(name: str, window: int, algorithm: Algorithm, **numbers: float) -> dict[str, Any]:
    row = {"operator": name, "window": window, "algorithm": algorithm.__name__}
    return row | {key: float(number) for key, number in numbers.items()}


def write(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write a table as CSV, and answer it."""
    with (OUTPUT / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return rows


def _of(rows: Iterable[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _slopes(speed: list[dict[str, Any]]) -> list[Figure]:
    """Time a round over the window as a power of it, fitted from 2^4 on: 0 is constant."""
    figures = []
    for algorithm in dict.fromkeys(row["algorithm"] for row in speed):
        rows = [r for r in _of(speed, operator="Sum", algorithm=algorithm) if r["window"] >= 16]
        if len(rows) < 2:
            continue
        points = [(math.log(row["window"]), math.log(row["ns"])) for row in rows]
        slope = linear_regression(*zip(*points, strict=True)).slope
        linear = algorithm == RecalculateFromScratch.__name__
        figures.append(
            Figure(
                f"Sum: time ~ window^x, {algorithm}",
                f"x = {slope:.2f}",
                "paper: 1" if linear else "paper: 0",
                limit=">= 0.8" if linear else "<= 0.15",
            )
        )
    return figures


def _spread(delays: list[dict[str, Any]]) -> list[Figure]:
    """Average and deviation of a round, DABA and its kin beside Two-Stacks."""
    figures = []
    for name in ("Sum", "GeoMean", "Bloom"):
        rows = {row["algorithm"]: row for row in _of(delays, operator=name)}
        peer = rows["TwoStacks"]
        beside = f"{peer['average']:.0f} +- {peer['deviation']:.0f} ns, Two-Stacks"
        for algorithm in ("FOA", "IOA", "DABA", "DABALite"):
            row = rows[algorithm]
            ours = f"{row['average']:.0f} +- {row['deviation']:.0f} ns"
            ratio = row["average"] / peer["average"]
            figures.append(Figure(f"{name}: a round, {algorithm}", ours, beside, ratio))
    return figures


def _break_even(rows: list[dict[str, Any]]) -> list[Figure]:
    """From which window on it pays not to recalculate."""
    figures = []
    for name in dict.fromkeys(row["operator"] for row in rows):
        windows = {row["algorithm"]: row["window"] or "never" for row in _of(rows, operator=name)}
        ours = ", ".join(f"{a} {windows[a]}" for a in ("TwoStacks", "DABA", "DABALite"))
        figures.append(Figure(f"{name}: break-even window", ours, f"FOA {windows['FOA']}"))
    return figures


def _parallel(sides: list[dict[str, Any]]) -> list[Figure]:
    """PBA's time as a share of SBA's: below 1 the thread pays."""
    figures = []
    for row in _of(sides, algorithm="PBA"):
        (peer,) = _of(sides, operator=row["operator"], window=row["window"], algorithm="SBA")
        what = f"{row['operator']}, range {row['window']:,}, PBA"
        for label, key, unit in (("a value", "ns", "ns"), ("a boundary", "pause_us", "us")):
            ours, beside = f"{row[key]:.1f} {unit}", f"{peer[key]:.1f} {unit}, SBA"
            figures.append(Figure(f"{what}: {label}", ours, beside, row[key] / peer[key]))
    return figures
