"""In-order aggregators: the DABA paper's Table 2 and Figure 13.

Every side is plain Python on plain Python operations: what differs is the algorithm. A *round* is
evict, insert, query on a full window, as in the paper (SBA evicts by itself), in nanoseconds of the
processor's time, so that other processes do not show. The garbage collector is on, as it is where
the algorithms are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from time import thread_time, thread_time_ns

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.operators import Operator, operators
from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Row,
    Rows,
    distinct,
    exponents,
    points,
    where,
)
from benchmarks.report.fits import near, ratio, shape
from benchmarks.report.plots import dress, legend, lines, look
from mta.algorithms import (
    IN_ORDER,
    PBA,
    BoundaryAggregator,
    InOrderAggregator,
    RecalculateFromScratch,
)
from mta.monoids.equality import same

#: Rounds and window of the latencies (the paper: 1 million and 2^14), top of the throughput.
LATENCY_ROUNDS, LATENCY_WINDOW, LARGEST = 250_000, 2**14, 20
#: A window is not measured where its partials would take more memory than this.
MOST_BYTES = 1 << 29
#: Recalculating is given up above this window, as in the paper.
MOST_RECALCULATED = 2**14
#: Whose throughput is measured, from cheap to expensive, as in the paper.
DRAWN = ("Sum", "GeoMean", "Bloom")
STRETCHES = 200

Algorithm = type[InOrderAggregator]


# --- rounds -------------------------------------------------------------------------------------


def algorithms(one: Operator, size: int) -> list[Algorithm]:
    """The algorithms that take an operator and a window; PBA's thread is for columns alone."""
    suited = [a for a in IN_ORDER if a is not PBA and a.suits(one.monoid)]
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
    if not all(same(result, results[0]) for result in results):
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


def throughput(size: float, progress: Progress) -> Rows:
    """Figure 13, bottom: million rounds a second over the window, for three operators."""
    top = LARGEST + min(0, round(math.log2(size)))
    cells = [
        (name, 2**exponent)
        for exponent in exponents(0, top)
        for name in DRAWN
        if 2**exponent * operators()[name].weight * 3 <= MOST_BYTES
    ]

    def measure(cell: tuple[str, int]) -> Rows:
        name, window = cell
        one, rows = operators()[name], []
        for algorithm in algorithms(one, window):
            slow = algorithm is RecalculateFromScratch
            least = int(50_000 * min(size, 1))
            rounds = max(20, least // window) if slow else max(least, window)
            seconds = seconds_a_round(algorithm, one, window, rounds)
            rows.append(_row(name, window, algorithm, ns=1e9 * seconds, mps=1e-6 / seconds))
        return rows

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, window {cell[1]:,}")


def latencies(size: float, progress: Progress) -> Rows:
    """Table 2: average, deviation and percentiles of a round; and Figure 13, top: all of them."""
    rounds, window = int(LATENCY_ROUNDS * size), int(LATENCY_WINDOW * min(size, 1))
    suited = {name: one for name, one in operators().items() if name != "Collect"}

    def measure(name: str) -> Rows:
        verify(suited[name])
        rows = []
        for algorithm in algorithms(suited[name], MOST_RECALCULATED + 1):
            taken = each_round(full_window(algorithm, suited[name], window), suited[name], rounds)
            tail = np.percentile(taken, [50, 90, 99, 99.9])
            names = ("p50", "p90", "p99", "p99.9")
            row = _row(name, window, algorithm, average=taken.mean(), deviation=taken.std())
            row |= dict(zip(names, tail.tolist(), strict=True)) | {"worst": float(taken.max())}
            rows.append(row | {"rounds": rounds, "slowest": slowest(taken)})
        return rows

    return progress.rows(list(suited), measure, lambda name: f"{name}, window {window:,}")


def slowest(taken: np.ndarray) -> str:
    """The slowest round of each of some stretches, as text: all that a plot can show."""
    stretches = np.array_split(taken, min(STRETCHES, len(taken)))
    return " ".join(str(stretch.max()) for stretch in stretches)


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


def _row(name: str, window: int, algorithm: Algorithm, **numbers: float) -> Row:
    row = {"operator": name, "window": window, "algorithm": algorithm.__name__}
    return row | {key: float(number) for key, number in numbers.items()}


SETTING = (
    "Plain Python instead of C++ (for FOA, Standard ML), and nanoseconds of processor time instead "
    "of cycles. A round is evict, insert and query on a full window. In addition to the paper's "
    "algorithms, Subtract-on-Evict, the Lite variants, FlatFIT, SlickDeque and SBA are measured."
)

# --- findings and plots --------------------------------------------------------------------------


#: Average of FOA, IOA and DABA as shares of Two-Stacks', and how many times the average the
#: deviation is, from the paper's Table 2.
PAPER = {
    "Sum": {"FOA": 1.97, "IOA": 14.4, "DABA": 1.52},
    "GeoMean": {"FOA": 1.62, "IOA": 6.87, "DABA": 1.22},
    "Bloom": {"FOA": 2.24, "IOA": 3.90, "DABA": 1.63},
}
CALLED = (
    "A round of Sum calls 24 Python functions in Two-Stacks, 44 in DABA, 41 in FOA and 35 in IOA "
    "(counted by a profiler in a window of 2^12). The costs here are closer to these counts than "
    "to the paper's costs; the paper's IOA and FOA allocate under their own garbage collector."
)
#: Deviations as shares of the average, from Table 2.
SPREAD = {"TwoStacks": (12, 54), "DABA": (0, 1)}
BEST_FIRST = ("TwoStacks", "DABA", "FOA", "IOA")
MEASURED = ("TwoStacks", "FOA", "IOA", "DABA")


#: The algorithms that are not constant.
SHAPES = {"RecalculateFromScratch": "linear", "BaseIntervals": "logarithmic"}


def found_throughput(rows: Rows) -> list[Finding]:
    """Shapes over the window, and who is fastest in the largest that all have."""
    found = []
    for name in distinct(rows, "algorithm"):
        some = [r for r in where(rows, operator="Sum", algorithm=name) if r["window"] >= 16]
        x, y = points(some, "window", "ns")
        expected = SHAPES.get(name, "constant")
        found.append(shape(f"{name}: Sum, time per round", x, y, expected, "ns"))
    for operator in distinct(rows, "operator"):
        some = where(rows, operator=operator)
        largest = max(row["window"] for row in some)
        at = {row["algorithm"]: row["mps"] for row in where(some, window=largest)}
        order = sorted(MEASURED, key=lambda name: -at[name])
        agrees = tuple(order) == BEST_FIRST
        what, seen = f"{operator}: order at window {largest:,}", " > ".join(order)
        found.append(Finding(what, " > ".join(BEST_FIRST), seen, agrees, "" if agrees else CALLED))
    return found


def found_spread(rows: Rows) -> list[Finding]:
    """Averages beside Two-Stacks', and deviations beside averages."""
    found = []
    for operator, paper in PAPER.items():
        here = {row["algorithm"]: row for row in where(rows, operator=operator)}
        peer = here["TwoStacks"]["average"]
        for name, times in paper.items():
            what = f"{operator}: average round, {name} to Two-Stacks"
            found.append(ratio(what, times, here[name]["average"], peer, "ns", CALLED, CALLED))
        for name, (least, most) in SPREAD.items():
            spread = here[name]["deviation"] / here[name]["average"]
            agrees = near(spread, least, most)
            found.append(
                Finding(
                    f"{operator}: deviation of {name} as a share of its average",
                    f"{least} to {most}", f"{spread:.2g}; the worst round took "
                    f"{here[name]['worst'] / here[name]['average']:,.0f} averages",
                    agrees, "" if agrees else _tail(here[name]),
                )
            )  # fmt: skip
    return found


def _tail(row: Row) -> str:
    """How much of the deviation is a few rounds."""
    return (
        f"999 of 1,000 rounds take at most {row['p99.9'] / row['average']:.1f} averages; the "
        f"slowest of {row['rounds']:,} took {row['worst'] / 1e3:,.0f} us."
    )


#: Whose rounds are drawn: the paper's three, and Two-Stacks, which they do without.
SHOWN = ("TwoStacks", "FOA", "IOA", "DABA", "DABALite")


def draw_rounds(rows: Rows) -> Figure:
    """Figure 13, top: the slowest round of each stretch of rounds."""
    figure = Figure(figsize=(13, 4))
    for axes, operator in zip(figure.subplots(1, 3), DRAWN, strict=True):
        for number, name in enumerate(SHOWN):
            (row,) = where(rows, operator=operator, algorithm=name)
            slowest = [int(text) for text in str(row["slowest"]).split()]
            at = np.linspace(0, row["rounds"], len(slowest), endpoint=False)
            axes.plot(at, slowest, lw=0.8, label=name, **look(number))
        dress(axes, ("round", "slowest of a stretch, ns"), ("linear", "log"))
        axes.set_title(operator)
    legend(figure)
    return figure


EXPERIMENTS = (
    Experiment(
        "daba_throughput",
        "Throughput of the in-order algorithms by window size",
        "DABA paper, section 5.2, Figure 13 (bottom)",
        "Recalculating is linear. Two-Stacks has the highest throughput, then DABA, then FOA; all "
        "three are constant until the caches are too small. IOA is far behind.",
        f"{SETTING} Windows have up to 2^{LARGEST} values where memory allows (2^20 in the paper).",
        throughput,
        {"figure_13": partial(lines, x="window", y="mps", panel="operator",
                              labels=("window", "million rounds a second"))},
        found_throughput,
        captions={
            "figure_13": (
                "million rounds per second by window size, for a cheap, a more expensive and an "
                "expensive operator; both axes are logarithmic. In the paper, Two-Stacks is the "
                "top line and DABA the next, and both are level. The throughput of recalculating "
                "falls in proportion to the window."
            ),
        },
        quick=2**-5,
    ),
    Experiment(
        "daba_latency",
        "Latency of single rounds of the in-order algorithms",
        "DABA paper, section 5.1, Table 2 and Figure 13 (top)",
        "Two-Stacks has the lowest average, but also spikes: its deviation is 12 to 54 times the "
        "average (19 to 54 in the table). DABA's average is 20 to 60 % higher, and its deviation "
        "is below its average. FOA costs 1.6 to 2.8 times as much as Two-Stacks, and IOA 6 to 14 "
        "times.",
        f"{SETTING} A window of 2^14 and {LATENCY_ROUNDS:,} rounds; at full scale a million "
        "rounds, as in the paper.",
        latencies,
        {"figure_13": draw_rounds},
        found_spread,
        captions={
            "figure_13": (
                "the slowest round of each of 200 stretches of the run, on a logarithmic axis. In "
                "the paper, Two-Stacks has spikes where it flips, and DABA has none. Look at how "
                "far a line rises above its own floor."
            ),
        },
        quick=0.04,
        full=4,
        columns=("operator", "algorithm", "average", "deviation", "p50", "p99", "p99.9", "worst"),
    ),
)  # fmt: skip
