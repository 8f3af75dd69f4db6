"""PBA and SBA beside Two-Stacks and SlickDeque: the PBA paper's Figures 4 to 6, and its thread.

There are two kinds of work. *Single* values go one by one through functions of Python, where a
thread can only take turns with another at the interpreter's lock. *Batches* are whole columns of a
numpy monoid, whose folds release that lock, so that PBA's thread runs beside the stream's. Times
are by the clock, since what a thread takes is in no other thread's time; the sides take turns, and
the best of three counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.pba.data import RATE, equipment
from benchmarks.papers.pba.figures import (
    BATCHES,
    SINGLE,
    STREAMED,
    found_count,
    found_thread,
    found_time,
)
from benchmarks.papers.pba.sides import (
    MOST_RECALCULATED,
    PLAIN_MAX,
    Data,
    Side,
    a_combine,
    by_batches,
    by_rounds,
    by_slices,
    by_time,
    counting,
    cut,
    nanoseconds,
    verify,
)
from benchmarks.report.experiment import Experiment, Progress, Row, Rows, where
from benchmarks.report.plots import lines
from mta import Max, SampleStdDev
from mta.algorithms import PBA, SBA, BoundaryAggregator
from mta.monoids.base import AbstractMonoid

#: Figure 4's ranges are 2^3 to 2^20; Figure 5's range is 2^17, its slides 1 to 10.
SMALLEST, LARGEST, FIXED, SLIDES = 3, 20, 17, range(1, 11)
#: Figure 6, in readings at 100 a second: 6 to 60 minutes by 10 ms, and an hour by 10 to 100 ms.
MINUTE, MINUTES = 60 * RATE, range(6, 61, 6)
#: At least so many values are timed, single and in batches, and of batches at most so many windows,
#: as small chunks cost SBA a few calls of numpy each.
SINGLES, BATCHED, LONG = 100_000, 1_000_000, 1000
#: Combines are counted in windows of this range.
COUNTED = 2**7


# --- count windows: Figures 4 and 5 -------------------------------------------------------------


def ranges(size: float) -> list[int]:
    """Figure 4's, at a smaller size those up to a share of the largest."""
    return [2**exponent for exponent in range(SMALLEST, halved(LARGEST, size) + 1)]


def halved(exponent: int, size: float) -> int:
    """A power of two at a share of the full size."""
    return max(SMALLEST + 2, exponent + min(0, round(math.log2(size))))


def timed(reach: int, size: float, single: bool) -> int:
    """How many values: whole windows, so that an algorithm's rare work has its share."""
    least = min(1, 2 * size) * (SINGLES if single else min(BATCHED, LONG * reach))
    return reach * max(1, math.ceil(least / reach))


def uniform(count: int) -> np.ndarray:
    """The paper's synthetic values."""
    return np.random.default_rng(1).uniform(0, 1, count)


def count_windows(size: float, progress: Progress) -> Rows:
    """Throughput over the range and over the slide, of each kind of work."""
    fixed, std = 2 ** halved(FIXED, size), f"{BATCHES}, standard deviation"
    kinds = (SINGLE, BATCHES, std)
    cells = [(4, kind, reach, 1) for kind in kinds for reach in ranges(size)]
    cells += [(5, SINGLE, fixed, slide) for slide in SLIDES]
    cells += [(5, BATCHES, fixed, slide) for slide in SLIDES if fixed % slide == 0]
    return progress.rows(
        cells,
        lambda cell: of_count(*cell, size),
        lambda cell: "figure {}, {}, range {:,}, slide {}".format(*cell),
    )


def of_count(figure: int, kind: str, reach: int, slide: int, size: float) -> Rows:
    """One range and slide."""
    single = kind == SINGLE
    values = uniform(reach + timed(reach, size, single))
    cell: Row = {"figure": figure, "kind": kind, "range": reach, "slide": slide}
    data: Data = (values.tolist(),) if single else (values,)
    combines = {}
    if not single:
        sides = by_batches(reach, slide, SampleStdDev() if "deviation" in kind else Max())
    elif figure == 5:
        sides = by_slices(reach, slide)
    else:
        sides = by_rounds(reach)
        combines = counted(partial(by_rounds, COUNTED), (uniform(5 * COUNTED).tolist(),))
        cell["combine_ns"] = a_combine(PLAIN_MAX, *data[0][:2])
    verify(sides, cut(data, 0, reach + 16 * slide), reach, 4 * slide)
    return [
        cell | {"algorithm": name, "mps": 1e3 / ns, "ns": ns, "combines": combines.get(name)}
        for name, ns in nanoseconds(sides, data, reach).items()
    ]


def counted(sides: Callable[[AbstractMonoid], list[Side]], data: Data) -> dict[str, float]:
    """Combines a value over four windows of ``COUNTED``, counted; PBA's thread's, too."""
    monoid, ticks = counting(PLAIN_MAX)
    found = {}
    for side in sides(monoid):
        window = side.make()
        side.fill(window, cut(data, 0, COUNTED))
        began = next(ticks)
        side.run(window, cut(data, COUNTED, 5 * COUNTED))
        found[side.algorithm] = (next(ticks) - began - 1) / (4 * COUNTED)
    return found


# --- time windows: Figure 6 ---------------------------------------------------------------------


def time_windows(size: float, progress: Progress) -> Rows:
    """Throughput over the range and over the slide, both in time."""
    minute = max(4, int(MINUTE * min(1, size)))
    seconds, watts = equipment(max(2 * 60 * minute, 5 * COUNTED))
    data = watts.tolist(), seconds.tolist()
    cells = [("range", minutes * minute, 1) for minutes in MINUTES]
    cells += [("slide", 60 * minute, slide) for slide in SLIDES]
    kinds = [(kind, *cell) for kind in (SINGLE, STREAMED) for cell in cells]
    combines = counted(partial(by_time, COUNTED, 1), cut(data, 0, 5 * COUNTED))
    combine, reported = a_combine(PLAIN_MAX, *data[0][:2]), "{0}, over the {1}, {2} readings by {3}"

    def measure(of: tuple[str, str, int, int]) -> Rows:
        kind, over, reach, slide = of
        rows: Rows = []
        some = cut(data, 0, 2 * reach)
        sides = by_time(reach, slide, *((Max(), (SBA, PBA)) if kind == STREAMED else ()))
        verify(sides, cut(some, 0, reach + 16 * slide), reach, 4 * slide)
        cell = {"over": over, "kind": kind, "seconds": reach / RATE, "slide_ms": slide * 10}
        known = kind == SINGLE and slide == 1
        for name, ns in nanoseconds(sides, some, reach).items():
            row = cell | {"algorithm": name, "mps": 1e3 / ns, "ns": ns, "combine_ns": combine}
            rows.append(row | {"combines": combines[name] if known else None})
        return rows

    return progress.rows(kinds, measure, lambda cell: reported.format(*cell))


# --- the thread ---------------------------------------------------------------------------------


def boundaries(size: float, progress: Progress) -> Rows:
    """The time of the value with which a chunk begins, insert and query; best of five medians."""
    monoids = (Max(), SampleStdDev())
    exponents = range(8, max(10, halved(LARGEST, size)) + 1, 2)
    cells = [(monoid, 2**exponent) for exponent in exponents for monoid in monoids]

    def measure(cell: tuple[AbstractMonoid, int]) -> Rows:
        monoid, reach = cell
        rows: Rows = []
        values = np.random.default_rng(1).normal(100, 10, reach * 6)
        taken: dict[type[BoundaryAggregator], list[float]] = {SBA: [], PBA: []}
        for _ in range(5):
            for algorithm, found in taken.items():
                found.append(boundary_pause(algorithm(monoid, reach), values))
        for algorithm, found in taken.items():
            row = {"operator": monoid.name, "range": reach, "algorithm": algorithm.__name__}
            rows.append(row | {"pause_us": 1e6 * min(found)})
        return rows

    return progress.rows(cells, measure, lambda cell: f"{cell[0].name}, range {cell[1]:,}")


def boundary_pause(window: BoundaryAggregator, values: np.ndarray) -> float:
    """The median time of the single value, insert and query, with which a new chunk begins."""
    chunk, pauses = window.chunk_size, []
    window.extend(values[: 2 * chunk])
    for start in range(2 * chunk, len(values) - chunk + 1, chunk):
        value = float(values[start])
        began = perf_counter()
        window.insert(value)
        window.query()
        pauses.append(perf_counter() - began)
        window.extend(values[start + 1 : start + chunk])
    return float(np.median(pauses))


# --- the experiments --------------------------------------------------------------------------


def draw_count(rows: Rows, figure: int) -> Figure:
    """Figure 4 over the range, or Figure 5 over the slide."""
    some, labels = where(rows, figure=figure), ("range", "million values a second")
    if figure == 4:
        return lines(some, "range", "mps", labels, panel="kind")
    labels, scales = ("slide", labels[1]), ("linear", "log")
    return lines(some, "slide", "mps", labels, panel="kind", scales=scales)


def draw_time(rows: Rows, over: str) -> Figure:
    """Figure 6 (a) over the range, or (b) over the slide."""
    x, label = ("seconds", "range, s") if over == "range" else ("slide_ms", "slide, ms")
    some, labels = where(rows, over=over), (label, "million values a second")
    return lines(some, x, "mps", labels, panel="kind", scales=("linear", "linear"))


EXPERIMENTS = (
    Experiment(
        "pba_count",
        "Throughput of count windows by range and slide",
        "PBA paper, section 5.1.1, Figures 4 and 5",
        "SBA is faster than Two-Stacks and SlickDeque at every range. PBA's throughput grows up to "
        "a range of 2^15 and then stays level, at 2.5 times that of Two-Stacks and 4 times that of "
        "SlickDeque. In small windows, handing over a chunk costs more than folding it. Larger "
        "slides raise the throughput and bring the algorithms closer together.",
        "Plain Python instead of Java, with uniform values (the paper also uses those of DEBS "
        "2012). Elapsed time; the algorithms take turns, and the best of three runs counts (in the "
        "paper, the median of twenty). Single values go through Python functions. Over the range, "
        "each value takes one evict, insert and query. Over the slide, every window of a stream is "
        "computed, and all algorithms use the same slices. Batches are whole numpy columns, and "
        "include this project's Amortized MTA. Where the slide divides the range, numpy folds the "
        "slices first, and SlicedWindow folds its own. The standard deviation is the more "
        "expensive aggregation. Each measurement covers at least one whole window of values. "
        f"Recalculating stops at a range of {MOST_RECALCULATED:,}. Combines, including those of "
        "PBA's thread, are counted in small windows.",
        count_windows,
        {"figure_4": partial(draw_count, figure=4), "figure_5": partial(draw_count, figure=5)},
        found_count,
        captions={
            "figure_4": (
                "million values per second by the range of a count window, with one panel per kind "
                "of work; both axes are logarithmic. In the paper, PBA rises up to 2^15 and is "
                "then the top line, followed by SBA. Here, a thread can achieve this only where "
                "numpy folds whole chunks."
            ),
            "figure_5": (
                "million values per second, on a logarithmic axis, by the slide at a fixed range. "
                "In the paper, all lines rise with the slide and converge."
            ),
        },
        quick=2**-5,
    ),
    Experiment(
        "pba_time",
        "Throughput of time windows by range and slide",
        "PBA paper, section 5.1.1, Figure 6",
        "The results are as for count windows: PBA is the fastest, and SBA is faster than "
        "Two-Stacks and SlickDeque. A range of 6 minutes with a slide of 10 ms already has many "
        "slices.",
        "The stream is generated in the shape of the DEBS 2012 data, which the project does not "
        "have: 100 readings per second of a machine's power. The ranges are 6 to 60 minutes with a "
        "slide of 10 ms, and an hour with slides of 10 to 100 ms; at a smaller size, a share of "
        "these. Values come one by one with their times, every window gives a result, and the best "
        "of three runs counts. A replay has no pauses between readings, so PBA's chunks are the "
        "same as for count windows (theorem 1). SBA and PBA also run with numpy's Max, whose folds "
        "release the interpreter's lock; over time windows, they accept no batches.",
        time_windows,
        {name: partial(draw_time, over=over)
         for name, over in (("figure_6a", "range"), ("figure_6b", "slide"))},
        found_time,
        captions={
            "figure_6a": (
                "million values per second by the range of a time window; both axes are linear. In "
                "the paper, the lines are level, with PBA on top."
            ),
            "figure_6b": (
                "million values per second by the slide of a window of one hour; both axes are "
                "linear. In the paper, all lines rise with the slide."
            ),
        },
        quick=2**-6,
    ),
    Experiment(
        "pba_thread",
        "When PBA's thread pays off: the first value of a chunk",
        "PBA paper, sections 3 and 5.1.2",
        "SBA computes the lcs buffer of a chunk when the next chunk begins, so the first value of "
        "the next chunk waits. PBA leaves this work to another thread, which pays off in large "
        "windows.",
        "Elapsed time of one insert and query at the first value of a chunk, with numpy monoids: "
        "the median of ten chunks, and the best of five such medians. A chunk is half the range.",
        boundaries,
        {"boundaries": partial(lines, x="range", y="pause_us", panel="operator",
                               labels=("range", "a boundary's value, us"))},
        found_thread,
        captions={
            "boundaries": (
                "the time of a chunk's first value by the range; both axes are logarithmic. SBA "
                "computes the buffer at this value, which takes linear time; PBA's thread has "
                "already computed it. Look for the point where PBA's line falls below SBA's."
            ),
        },
        quick=2**-2,
    ),
)  # fmt: skip
