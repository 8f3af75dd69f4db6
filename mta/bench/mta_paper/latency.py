"""The MTA paper's Experiments 1 and 2: latency over the window size, and bulk evictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from statistics import fmean, median
from time import perf_counter_ns, process_time_ns
from typing import Any

from mta import Monoid
from mta.bench.frame.experiment import (
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
from mta.bench.frame.fits import crossover, near, ratio, shapes
from mta.bench.frame.plots import lines
from mta.bench.mta_paper.algorithms import (
    ALGORITHMS,
    Counter,
    Sliding,
    listing_2,
    listing_3,
    opened,
    updates,
)

#: Powers of two: the largest window of Experiment 1, the window of Experiment 2.
LARGEST, BULK = 20, 18
#: Recalculating is given up above this window, and combines are not counted.
MOST_RECALCULATED, MOST_COUNTED = 2**14, 2**16
#: Why a curve is constant that the paper draws as a logarithm.
LESS = {
    "constant": "Less than a logarithm: the search walks up from the front, and groups are wide, "
    "so that a larger eviction passes no more levels."
}
#: Experiment 2's window in the paper, and how many times an MTA's slowest eviction Naive's 2 s are.
PAPER_BULK = 2**23
PAPER_EACH = 2e6 / PAPER_BULK
SLOWEST = {"Log MTA, pairs": 7750, "Amortized MTA, pairs": 4400, "Amortized MTA, on disk": 400}
LEAST_ROUNDS, REPEATS = 2000, 3
#: Combines are a mean over windows whose groups begin elsewhere: so many, or for so many events.
ALIGNED, MOST_ALIGNED, SHIFT = 16, 2**16, 37
SHAPES = {
    "Naive": "linear",
    "RA": "logarithmic",
    "Log MTA, pairs": "logarithmic",
    "Log MTA, on disk": "logarithmic",
}


def scaled(exponent: int, size: float, least: int) -> int:
    """An exponent of two, less or more where less or more is to be measured."""
    return max(least, exponent + round(math.log2(size)))


# --- Experiment 1 -------------------------------------------------------------------------------


def constant_windows(size: float, progress: Progress) -> Rows:
    """Latency and combines of an update of a full window, over its size."""
    top = scaled(LARGEST, size, 4)
    windows = [2**exponent for exponent in exponents(0, top)]
    cells = [
        (name, window)
        for window in windows
        for name in ALGORITHMS
        if name != "Naive" or window <= MOST_RECALCULATED
    ]

    def measure(cell: tuple[str, int]) -> Rows:
        name, window = cell
        rounds = max(window, int(LEAST_ROUNDS * min(1, 4 * size)))
        if name == "Naive":
            rounds = max(20, 4 * int(LEAST_ROUNDS * min(1, size)) // window)
        row: Row = {"algorithm": name, "window": window, "rounds": rounds}
        counted = combines(name, window) if window <= MOST_COUNTED else None
        return [row | latency(name, window, rounds) | {"combines": counted}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, window {cell[1]:,}")


def latency(name: str, window: int, rounds: int) -> Row:
    """Nanoseconds an update: of the processor's time, all threads together, and of the clock."""
    with opened(name, listing_2(), listing_3()) as sliding:
        sliding.fill(updates(window, window))
        stream, slide = updates(window, rounds), sliding.slide
        began, clock = process_time_ns(), perf_counter_ns()
        for update in stream:
            result = slide(update)
        took, passed = process_time_ns() - began, perf_counter_ns() - clock
    require(name, result, window)
    return {"ns": took / rounds, "clock_ns": passed / rounds}


def combines(name: str, window: int) -> float:
    """Combines an update, over as many as the window has, but for recalculating."""
    counter, rounds = Counter(listing_2()), 8 if name == "Naive" else max(window, 64)
    with opened(name, counter.monoid, listing_3()) as sliding:
        sliding.fill(updates(window, window))
        counter.count = 0
        for update in updates(window, rounds):
            sliding.slide(update)
        return counter.count / rounds


def require(name: str, result: Any, window: int) -> None:
    """What is timed must be right."""
    if tuple(result) != (window, window):
        raise AssertionError(f"{name}: {result} instead of a window of {window}")


def found_constant(rows: Rows) -> list[Finding]:
    """The shapes of all algorithms, and where Amortized MTA overtakes."""
    found = []
    for name in distinct(rows, "algorithm"):
        some = [row for row in where(rows, algorithm=name) if row["window"] >= 16]
        expected = SHAPES.get(name, "constant")
        found += shapes(name, some, ("window", "ns"), expected, "ns")
    return [
        *found,
        *(_overtakes(rows, peer, paper) for peer, paper in OVERTAKEN.items()),
        _disk(rows),
    ]


#: From which window on the paper's Amortized MTA in memory is faster.
OVERTAKEN = {"Naive": "at a window of 2^9 at the latest", "DABA": "from a window of 2^9 on"}
OVERTAKES = 2**9


def _overtakes(rows: Rows, peer: str, paper: str) -> Finding:
    shared = {row["window"] for row in where(rows, algorithm=peer)}
    some = [row for row in where(rows, algorithm="Amortized MTA") if row["window"] in shared]
    x, ours = points(some, "window", "ns")
    _, theirs = points(where(rows, algorithm=peer), "window", "ns")
    at = crossover(x, ours, theirs)
    what = f"Amortized MTA is faster than {peer}"
    seen = f"no, {ours[-1] / theirs[-1]:.2f} times at {x[-1]:,.0f}" if at is None else f"{at:,.0f}"
    agrees = None if at is None and x[-1] < OVERTAKES else at is not None and at <= OVERTAKES
    why = (
        "A window checks values, searches for the cut and can take an insertion back; in Python "
        "each of these calls costs more than the combines that are saved."
    )
    return Finding(what, paper, seen, agrees, why if agrees is False else "")


def _disk(rows: Rows) -> Finding:
    largest = max(row["window"] for row in rows)
    at = {row["algorithm"]: row["ns"] for row in where(rows, window=largest)}
    what = f"Amortized MTA: pages in a store to none, at window {largest:,}"
    return ratio(
        what, (1.0, 1.5), at["Amortized MTA, on disk"], at["Amortized MTA"], "ns",
        more="The smaller the window, the larger the share of its pages that each round writes.",
    )  # fmt: skip


# --- Experiment 2 -------------------------------------------------------------------------------


def bulk_evictions(size: float, progress: Progress) -> Rows:
    """The latency of one insertion that evicts 1 to all but one of the others."""
    exponent = scaled(BULK, size, 6)
    window = 2**exponent
    counts = [*(2**k for k in exponents(0, exponent - 1)), window - 1]

    def measure(name: str) -> Rows:
        rows: Rows = []
        times = evictions(name, listing_2(), window, counts, lambda _: REPEATS, process_time_ns)
        counter = Counter(listing_2())
        counted = evictions(name, counter.monoid, window, counts, _aligned, counter.read, fmean)
        for evicted, ns, number in zip(counts, times, counted, strict=True):
            row = {"algorithm": name, "window": window, "evicted": evicted}
            rows.append(row | {"us": max(ns, 100) / 1e3, "combines": number})
        return rows

    return progress.rows(list(ALGORITHMS), measure, lambda name: f"{name}, window {window:,}")


def _aligned(evicted: int) -> int:
    return max(3, min(ALIGNED, MOST_ALIGNED // evicted))


def evictions(
    name: str,
    monoid: Monoid,
    window: int,
    counts: list[int],
    repeats: Callable[[int], int],
    now: Callable[[], int],
    middle: Callable[[list[int]], float] = median,
) -> list[float]:
    """The middle of what passes by a clock, or a counter, while so many are evicted at once.

    The window is filled up again after each time, and slid on a little.
    """
    found = []
    with opened(name, monoid, listing_3()) as sliding:
        sliding.fill(updates(window, window))
        for evicted in counts:
            taken = []
            for _ in range(repeats(evicted)):
                taken.append(evict_once(name, sliding, window, evicted, now))
            found.append(middle(taken))
    return found


def evict_once(
    name: str, sliding: Sliding, window: int, evicted: int, now: Callable[[], int]
) -> int:
    """What passes while an update comes in whose maxSize lets so many go."""
    left = window + 1 - evicted
    began = now()
    result = sliding.slide((1, left))
    passed = now() - began
    require(name, result, left)
    sliding.fill(updates(window, evicted + SHIFT))
    return passed


def found_bulk(rows: Rows) -> list[Finding]:
    """The shapes of all algorithms, the worst times, and where DABA becomes worse than Naive."""
    found, window = [], rows[0]["window"]
    for name in distinct(rows, "algorithm"):
        some = [row for row in where(rows, algorithm=name) if row["evicted"] >= 16]
        linear = name in ("Two-Stacks", "DABA", "RA")
        expected = "constant" if name == "Naive" else "linear" if linear else "logarithmic"
        if name == "FiBA":
            expected = "logarithmic"
        if linear:  # all but one: the structure is empty again
            some = [row for row in some if row["evicted"] < window - 1]
        found += shapes(name, some, ("evicted", "us"), expected, "us", LESS)
    x, daba = points(where(rows, algorithm="DABA"), "evicted", "us")
    _, naive = points(where(rows, algorithm="Naive"), "evicted", "us")
    at = crossover(x, naive, daba)
    seen = "never" if at is None else f"from {at:,.0f} of {window:,} on"
    agrees = at is not None and near(8 * at / window, 1.0)
    why = (
        f"An eviction takes DABA {daba[-2] / x[-2]:.2f} us and recalculating Naive "
        f"{naive[-2] / (window - x[-2]):.2f} us a value that stays, where {x[-2]:,.0f} go: both "
        "are calls of Python."
    )
    what = "DABA is slower than Naive"
    paper = "from an eighth of the window on (2^20 of 2^23)"
    found.append(Finding(what, paper, seen, agrees, "" if agrees else why))
    return [*found, *_slowest(rows, window)]


def _slowest(rows: Rows, window: int) -> list[Finding]:
    """Naive's time beside MTA's slowest eviction, which by the shapes is n to log n."""
    share = (window / PAPER_BULK) / (math.log2(window) / math.log2(PAPER_BULK))
    found = []
    for name, paper in SLOWEST.items():
        naive, ours = (max(_times(rows, one)) for one in ("Naive", name))
        what = (
            f"Naive to the slowest eviction of {name}, the paper's times {share:.2g} for the size"
        )
        each = f"{naive / window:.2f} us a value, in the paper {PAPER_EACH:.2f}"
        why = f"Recalculating takes {each}, which moves the ratio."
        less, more = (why, "") if naive / window < PAPER_EACH else ("", why)
        found.append(ratio(what, paper * share, naive, ours, "us", less, more))
    return found


def _times(rows: Rows, name: str) -> list[float]:
    return points(where(rows, algorithm=name), "evicted", "us")[1]


PAIRS = (
    "\"Pairs\" is the paper's structure; without that word groups have the project's default size. "
    "On disk is the local store (LMDB) in place of Couchbase on three other nodes. All is plain "
    "Python with the monoid and the policy of Listings 2 and 3; times are the processor's, of all "
    "threads."
)

EXPERIMENTS = (
    Experiment(
        "mta_latency",
        "Latency of constant-sized windows",
        "MTA paper, Experiment 1, Figure 6",
        "Naive grows linearly. Amortized MTA and DABA are constant, Log MTA grows with the "
        "logarithm of the window; Amortized MTA in memory is the fastest from 2^9 on, and keeping "
        "its data in a store costs about a microsecond. Windows of 1 to 2^25.",
        f"{PAIRS} Windows to 2^{LARGEST} (Naive to 2^12), each slid once over its length.",
        constant_windows,
        {"figure_6": partial(lines, x="window", y="ns", labels=("window", "ns an update")),
         "combines": partial(lines, x="window", y="combines",
                             labels=("window", "combines an update"))},
        found_constant,
        quick=2**-7,
    ),
    Experiment(
        "mta_bulk",
        "Latency of bulk evictions",
        "MTA paper, Experiment 2, Figure 7",
        "Naive takes about 2 s whatever is evicted, DABA grows linearly and is worse from 2^20 of "
        "2^23 on; all MTA windows grow logarithmically, at most 0.5 ms in memory (Log MTA half of "
        "Amortized MTA) and 5 ms in the store.",
        f"{PAIRS} A window of 2^{BULK}; an update with a smaller maxSize evicts all at once. "
        f"Median of {REPEATS}.",
        bulk_evictions,
        {"figure_7": partial(lines, x="evicted", y="us", labels=("evicted at once", "us")),
         "combines": partial(lines, x="evicted", y="combines",
                             labels=("evicted at once", "combines"))},
        found_bulk,
        quick=2**-5,
    ),
)  # fmt: skip
