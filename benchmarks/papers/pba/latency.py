"""The time of each window's computation: the PBA paper's Figure 7 with Tables 2 and 3.

A window's computation is what an algorithm does when the window ends: evict, insert and query of a
value, or over time of the slice of a second, whose values have been folded before, as all
algorithms do it alike. Of three runs the quietest counts, the one with the least deviation: so
other processes show less, and what an algorithm and its thread do is all there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle, islice
from time import perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.papers.daba.experiments import evicts, slowest
from benchmarks.papers.pba.data import RATE, equipment
from benchmarks.papers.pba.figures import draw_latency, found_latency
from benchmarks.papers.pba.power_sums import Partials, PowerSums, SlickMoments, slices_of
from benchmarks.papers.pba.sides import ALGORITHMS, PLAIN_MAX, a_combine, counting
from benchmarks.report.experiment import Experiment, Progress, Row, Rows
from mta import Max
from mta.aggregations import MomentSketch
from mta.algorithms import (
    PBA,
    SBA,
    BoundaryAggregator,
    InOrderAggregator,
    TwoStacks,
    count_chunk_size,
)
from mta.monoids.base import AbstractMonoid

#: Max over so many values, and MomentSketch over so many seconds of 100 values.
VALUES, SECONDS = (2**13, 2**14), (3600, 7200)
#: The share of the windows that warm up: the paper reports the last 970,000 of a million.
WARM = 0.03
RUNS = 3
#: Powers of MomentSketch; the least share of a range; combines are counted in a window of this.
SKETCH, LEAST, COUNTED = 10, 2**-7, 2**5
#: Figure 7 shows the last windows, so often as the window is long.
DRAWN = 8


@dataclass(frozen=True)
class Case:
    """An aggregation, its ranges, how many windows are timed, and who computes them."""

    name: str
    monoid: AbstractMonoid
    ranges: Sequence[int]
    windows: int
    sides: Mapping[str, Callable[[AbstractMonoid, int], Any]]
    timed: bool = False


def cases() -> list[Case]:
    """Max in Python and in numpy, and MomentSketch as the paper's powers and as ours."""
    slides = {one.__name__: partial(by_count, one) for one in ALGORITHMS}
    powers, scaled = Partials(PowerSums(SKETCH)), Partials(MomentSketch(k=SKETCH))
    timed = {one.__name__: partial(by_second, one) for one in (TwoStacks, SBA, PBA)}
    slick = {"SlickDeque": lambda monoid, reach: SlickMoments(monoid.partials.width)}
    return [
        Case("Max, Python", PLAIN_MAX, VALUES, 1_000_000, slides),
        Case("Max, numpy", Max(), VALUES, 500_000, slides),
        Case("MomentSketch, powers", powers, SECONDS, 400_000, timed | slick, timed=True),
        Case("MomentSketch, ours", scaled, SECONDS, 20_000, timed, timed=True),
    ]


def by_count(algorithm: type[InOrderAggregator], monoid: AbstractMonoid, reach: int) -> Any:
    """A window of so many values by one."""
    sized = issubclass(algorithm, BoundaryAggregator)
    return algorithm(monoid, *([reach] if sized else []))


def by_second(algorithm: type[InOrderAggregator], monoid: AbstractMonoid, reach: int) -> Any:
    """A window of so many seconds by one, of which each is a slice.

    A replay leaves no time between them, so theorem 1 tells the chunk size.
    """
    if not issubclass(algorithm, BoundaryAggregator):
        return algorithm(monoid)
    return algorithm.timed(monoid, reach, 1, chunk_size=count_chunk_size(reach, 1))


def latencies(size: float, progress: Progress) -> Rows:
    """Tables 2 and 3, with the slowest windows of each stretch for Figure 7."""
    cells = [(case, reach) for case in cases() for reach in scaled(case, size)]

    def measure(cell: tuple[Case, int]) -> Rows:
        case, reach = cell
        rows: Rows = []
        windows = max(2 * reach, int(case.windows * size))
        values, results = stream(case, reach), {}
        combine = a_combine(case.monoid, *values[:2])
        taken: dict[str, list[np.ndarray]] = {name: [] for name in case.sides}
        for _ in range(RUNS):
            for name, make in case.sides.items():
                window = make(case.monoid, reach)
                times, results[name] = each_window(window, case, values, reach, windows)
                taken[name].append(times)
        require_alike(case, results)
        for name, runs in taken.items():
            last = min((run[int(windows * WARM) :] for run in runs), key=np.std)
            row = {"aggregation": case.name, "range": reach, "algorithm": name}
            row |= {"combines": combines(case, name, values), "combine_ns": combine}
            rows.append(row | summary(last, reach))
        return rows

    return progress.rows(cells, measure, lambda cell: f"{cell[0].name}, range {cell[1]:,}")


def scaled(case: Case, size: float) -> list[int]:
    """The case's ranges, or where the timed windows would not reach twice over them, a share."""
    share = min(1.0, max(LEAST, case.windows * size / (2 * max(case.ranges))))
    return [int(reach * share) for reach in case.ranges]


def stream(case: Case, reach: int) -> Sequence[Any]:
    """Values of a window and a half, or partials of as many seconds, which then come again."""
    if not case.timed:
        values: list[float] = np.random.default_rng(1).uniform(0, 1, reach * 3 // 2).tolist()
        return values
    _, watts = equipment(reach * 3 // 2 * RATE)
    assert isinstance(case.monoid, Partials)
    return slices_of(case.monoid.of, watts, RATE)


def each_window(
    window: Any,
    case: Case,
    values: Sequence[Any],
    reach: int,
    windows: int,
    clock: Callable[[], int] = perf_counter_ns,
) -> tuple[np.ndarray, Any]:
    """Nanoseconds of every window after the first that is full, and the last result."""
    insert, evict, query = window.insert, evicts(window), window.query
    if case.timed and isinstance(window, BoundaryAggregator):
        second = count()
        insert = lambda value: window.insert(value, next(second))  # noqa: E731
    coming, taken, result = cycle(values), np.empty(windows, "i8"), None
    for value in islice(coming, reach):
        insert(value)
    query()
    for at, value in enumerate(islice(coming, windows)):
        began = clock()
        evict()
        insert(value)
        result = query()
        taken[at] = clock() - began
    return taken, result


def require_alike(case: Case, results: Mapping[str, Any]) -> None:
    """What is timed must be right: the last window has one result."""
    first, *others = results.items()
    for name, found in others:
        if not np.allclose(found, first[1], rtol=1e-6):
            raise AssertionError(f"{case.name}: {name} answers other than {first[0]}")


def summary(taken: np.ndarray, reach: int) -> Row:
    """The columns of Tables 2 and 3 in nanoseconds, and what Figure 7 shows.

    A spike is the median of as many of the slowest windows as the window went by: Two-Stacks flips
    so often, and SBA begins a chunk twice as often.
    """
    low, middle, high = np.percentile(taken, [25, 50, 75]).tolist()
    drawn = taken[-DRAWN * reach :]
    return {
        "min": float(taken.min()), "max": float(taken.max()), "average": float(taken.mean()),
        "deviation": float(taken.std()), "lq": low, "median": middle, "hq": high,
        "spike": float(np.median(np.sort(taken)[-max(1, len(taken) // reach) :])),
        "windows": len(taken), "drawn": len(drawn), "slowest": slowest(drawn.astype("i8")),
    }  # fmt: skip


def combines(case: Case, name: str, values: Sequence[Any]) -> float:
    """Calls of combine in the median window, counted in a small range."""
    monoid, ticks = counting(case.monoid)
    window = case.sides[name](monoid, COUNTED)
    ticked, _ = each_window(window, case, values, COUNTED, 4 * COUNTED, partial(next, ticks))
    return float(np.median(ticked)) - 1  # a look at the clock is a tick, too


EXPERIMENTS = (
    Experiment(
        "pba_latency",
        "Computation time of each window",
        "PBA paper, section 5.1.2, Figure 7, Tables 2 and 3",
        "Two-Stacks and SBA have spikes that grow with the range; SlickDeque and PBA have none. "
        "SBA and PBA have the lowest medians and averages. A more complex aggregation takes "
        "longer.",
        "Plain Python instead of Java. Max also runs with numpy, whose folds one thread can "
        "compute while another works. The ranges are 2^13 and 2^14 values, and 1 h and 2 h with a "
        "slide of 1 s of 100 values (a generated stream); at a smaller size, expensive windows "
        "have a share of these ranges. Elapsed time of evict, insert and query in the quietest of "
        "three runs; the first 3 % of the windows are warm-up. MomentSketch (l = 10) does not "
        "estimate quantiles. It runs as the paper's sums of powers, and as this project's sums of "
        "scaled values, which SlickDeque does not support; for the sums of powers, SlickDeque "
        "keeps two deques and a running sum. There are up to a million windows, as in the paper, "
        "and fewer where combines are expensive.",
        latencies,
        {"figure_7": draw_latency},
        found_latency,
        captions={
            "figure_7": (
                "the slowest window of each stretch of the last windows. In the paper, Two-Stacks "
                "and SBA have spikes that grow with the range; SlickDeque and PBA have none."
            ),
        },
        quick=0.025,
        columns=(
            "aggregation", "range", "algorithm", "min", "max", "average", "deviation", "lq",
            "median", "hq", "spike", "windows",
        ),
    ),
)  # fmt: skip
