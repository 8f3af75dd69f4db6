"""The MTA paper's Experiments 1 and 2: latency over the window size, and bulk evictions."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import fmean, median
from time import perf_counter_ns, process_time_ns
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.mta.algorithms import (
    ON_DISK,
    OVER_REDIS,
    Counter,
    Sliding,
    left_out,
    listing_2,
    listing_3,
    measurable,
    opened,
    updates,
    with_waits,
)
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
from benchmarks.report.fits import crossover, near, ratio, shapes
from benchmarks.report.plots import lines

#: Powers of two: the largest window of Experiment 1, the window of Experiment 2.
LARGEST, BULK = 20, 18
#: Above these windows an algorithm is given up: recalculating; FiBA, whose search for a cut folds
#: the values of small leaves, 0.2 to 0.6 ms an update. Windows of pairs take 500 bytes a value.
MOST = {
    "Naive": 2**14, "FiBA": 2**16,
    "Log MTA, pairs": 2**23, "Amortized MTA, pairs": 2**23, f"Log MTA{OVER_REDIS}": 2**23,
}  # fmt: skip
#: Combines are not counted above this window.
MOST_COUNTED = 2**16
#: A window is slid by its length, of which at most so many updates suffice but for a flip of all of
#: it: a level of a tree that comes to its end more rarely costs a few combines when it does.
SLID, FLIPS = 2**19, ("Two-Stacks",)
#: Experiment 2's window in the paper, and how many times an MTA's slowest eviction Naive's 2 s are.
PAPER_BULK = 2**23
PAPER_EACH = 2e6 / PAPER_BULK
SLOWEST = {
    "Log MTA, pairs": 7750, "Amortized MTA, pairs": 4400,
    f"Amortized MTA{ON_DISK}": 400, f"Amortized MTA{OVER_REDIS}": 400,
}  # fmt: skip
#: What evicts one by one, or recalculates, and so has no place beside a logarithm.
ONE_BY_ONE = ("Naive", "Two-Stacks", "DABA", "RA")
Names = Sequence[str]
LEAST_ROUNDS, REPEATS, STRETCHES = 2000, 3, 16
#: Combines are a mean over windows whose groups begin elsewhere: so many, or for so many events.
ALIGNED, MOST_ALIGNED, SHIFT = 16, 2**16, 37
#: So many and more are evicted once only: filling the window up again takes minutes.
MANY = 2**19
SHAPES = {
    "Naive": "linear",
    "RA": "logarithmic",
    "Log MTA, pairs": "logarithmic",
    "Log MTA, on disk": "logarithmic",
    f"Log MTA{OVER_REDIS}": "logarithmic",
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
        for name in measurable()
        if window <= MOST.get(name, window)
    ]

    def measure(cell: tuple[str, int]) -> Rows:
        name, window = cell
        slid = window if name in FLIPS else min(window, SLID)
        rounds = max(slid, int(LEAST_ROUNDS * min(1, 4 * size)))
        if name == "Naive":
            rounds = max(20, 4 * int(LEAST_ROUNDS * min(1, size)) // window)
        row: Row = {"algorithm": name, "window": window, "rounds": rounds}
        counted = combines(name, window) if window <= MOST_COUNTED else None
        return [row | latency(name, window, rounds) | {"combines": counted}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, window {cell[1]:,}")


def latency(name: str, window: int, rounds: int) -> Row:
    """Nanoseconds an update: of the processor's time, all threads together, and of the clock.

    By the clock it is the median of some stretches, as a machine may stand still for a while.
    """
    step = -(-rounds // STRETCHES)
    with opened(name, listing_2(), listing_3()) as sliding:
        sliding.begin(updates(window, window))
        stream, slide = updates(window, rounds), sliding.slide
        # For the first one RA doubles its room: of a large window that is rarer than measured.
        slide(stream[0])
        # Else the collector would look at all values of a large window, from time to time.
        gc.freeze()
        marks = [both_clocks()]
        for start in range(0, rounds, step):
            for update in stream[start : start + step]:
                result = slide(update)
            marks.append(both_clocks())
        gc.unfreeze()
    require(name, result, window)
    took, passed = np.diff(marks, axis=0).T
    lengths = np.minimum(step, rounds - step * np.arange(len(passed)))
    return {"ns": took.sum() / rounds, "clock_ns": float(np.median(passed / lengths))}


def combines(name: str, window: int) -> float:
    """Combines an update, over as many as the window has, but for recalculating."""
    counter, rounds = Counter(listing_2()), 8 if name == "Naive" else max(window, 64)
    with opened(name, counter.monoid, listing_3()) as sliding:
        sliding.begin(updates(window, window))
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
    rows, found = with_waits(rows, "ns"), []
    for name in distinct(rows, "algorithm"):
        some = [row for row in where(rows, algorithm=name) if row["window"] >= 16]
        expected = SHAPES.get(name, "constant")
        found += shapes(name, some, ("window", "ns"), expected, "ns")
    return [
        *found,
        *(_overtakes(rows, peer, paper) for peer, paper in OVERTAKEN.items()),
        *_stored(rows),
        *left_out(distinct(rows, "algorithm")),
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
    slower = f"no: {ours[-1] / theirs[-1]:.2f} times the time at {x[-1]:,.0f}"
    seen = slower if at is None else f"{at:,.0f}"
    agrees = None if at is None and x[-1] < OVERTAKES else at is not None and at <= OVERTAKES
    why = _around(rows, ("Amortized MTA", peer)) if agrees is False else ""
    return Finding(what, paper, seen, agrees, why)


def _around(rows: Rows, names: Sequence[str]) -> str:
    """What of an update is combines, at the largest window where all of them are counted."""
    each = [{r["window"]: r for r in where(rows, algorithm=n) if r["combines"]} for n in names]
    shared = set(each[0]).intersection(*each)
    naive = max(where(rows, algorithm="Naive"), key=lambda row: row["window"])
    if not shared:
        return ""
    at, combine = max(shared), naive["ns"] / naive["combines"]
    reported = [
        f"{found[at]['combines']:.1f} combines and {found[at]['ns']:,.0f} ns with {name}"
        for name, found in zip(names, each, strict=True)
    ]
    return (
        f"At window {at:,}, an update takes {', and '.join(reported)}. A combine takes "
        f"{combine:.0f} ns (measured in Naive); the rest is overhead of Python."
    )


def _stored(rows: Rows) -> Iterator[Finding]:
    """What keeping the pages in a store costs, in the largest window."""
    largest = max(row["window"] for row in rows)
    at = {row["algorithm"]: row["ns"] for row in where(rows, window=largest)}
    for end in (ON_DISK, OVER_REDIS):
        if (name := f"Amortized MTA{end}") in at:
            what = f"{name} to in memory, at window {largest:,}"
            why = f"The store adds {at[name] - at['Amortized MTA']:,.0f} ns per update."
            yield ratio(what, (1.0, 1.5), at[name], at["Amortized MTA"], "ns", more=why)


def draw(rows: Rows, x: str, y: str, labels: tuple[str, str], without: Names = ()) -> Figure:
    """Algorithms, those with a store on the network by the clock.

    Where the linear ones are left out a linear axis shows logarithms as straight lines.
    """
    some = [row for row in rows if row["algorithm"] not in without]
    scales = ("log", "linear" if without else "log")
    return lines(some if y == "combines" else with_waits(some, y), x, y, labels, scales=scales)


# --- Experiment 2 -------------------------------------------------------------------------------


def bulk_evictions(size: float, progress: Progress) -> Rows:
    """The latency of one insertion that evicts 1 to all but one of the others."""
    exponent = scaled(BULK, size, 6)
    window = 2**exponent
    counts = [*(2**k for k in exponents(0, exponent - 1)), window - 1]
    cells = [
        (name, evicted)
        for name in measurable()
        if name != "FiBA" or exponent <= BULK
        for evicted in counts
    ]
    with closing(Filled(window)) as filled:
        return progress.rows(
            cells,
            lambda cell: [filled.measure(*cell)],
            lambda cell: f"{cell[0]}, window {window:,}, evicted {cell[1]:,}",
        )


def both_clocks() -> tuple[int, int]:
    """Nanoseconds of the processor's time, of all threads, and by the clock."""
    return process_time_ns(), perf_counter_ns()


class Filled:
    """Full windows of the given algorithm, one to time and one to count, for all its evictions.

    They are filled up again after each, and slid on a little.
    """

    def __init__(self, window: int) -> None:
        self._window, self._name, self._open = window, "", ExitStack()

    def measure(self, name: str, evicted: int) -> Row:
        """The row of so many that are evicted at once: medians of times, means of combines."""
        if name != self._name:
            self._fill(name)
        timed, counted, counter = self._sides
        once = evicted >= MANY
        repeats = 1 if once else REPEATS
        times = [self._evict(timed, evicted, both_clocks) for _ in range(repeats)]
        once = once or name == "Naive"  # which has no groups
        repeats = 1 if once else max(3, min(ALIGNED, MOST_ALIGNED // evicted))
        counts = [self._evict(counted, evicted, counter.read) for _ in range(repeats)]
        ns, clock = np.median(times, axis=0).tolist()
        row: Row = {"algorithm": name, "window": self._window, "evicted": evicted}
        row |= {"us": max(ns, 100) / 1e3, "combines": fmean(np.ravel(counts).tolist())}
        return row | {"clock_us": clock / 1e3}

    def _fill(self, name: str) -> None:
        self.close()
        counter = Counter(listing_2())
        self._name, self._open = name, ExitStack()
        timed, counted = (
            self._open.enter_context(opened(name, monoid, listing_3()))
            for monoid in (listing_2(), counter.monoid)
        )
        for sliding in (timed, counted):
            sliding.begin(updates(self._window, self._window))
        self._sides = timed, counted, counter

    def _evict(self, sliding: Sliding, evicted: int, now: Callable[[], Any]) -> np.ndarray:
        """What passes by clocks, or a counter, while an update's maxSize lets so many go."""
        left = self._window + 1 - evicted
        began = now()
        result = sliding.slide((1, left))
        passed: np.ndarray = np.subtract(now(), began)
        require(self._name, result, left)
        sliding.begin(updates(self._window, evicted - 1))
        # Recalculating does not mind where a window begins, and each slide would take it seconds.
        sliding.fill(updates(self._window, 1 if self._name == "Naive" else SHIFT))
        return passed

    def close(self) -> None:
        """Let the windows go."""
        self._open.close()
        self._sides = ()  # type: ignore[assignment]


def found_bulk(rows: Rows) -> list[Finding]:
    """The shapes of all algorithms, the worst times, and where DABA becomes worse than Naive."""
    rows, found, window = with_waits(rows, "us"), [], rows[0]["window"]
    for name in distinct(rows, "algorithm"):
        some = [row for row in where(rows, algorithm=name) if row["evicted"] >= 16]
        linear = name in ("Two-Stacks", "DABA", "RA")
        expected = "constant" if name == "Naive" else "linear" if linear else "logarithmic"
        if name == "FiBA":
            expected = "logarithmic"
        if linear:  # all but one: the structure is empty again
            some = [row for row in some if row["evicted"] < window - 1]
        found += shapes(name, some, ("evicted", "us"), expected, "us")
    x, daba = points(where(rows, algorithm="DABA"), "evicted", "us")
    _, naive = points(where(rows, algorithm="Naive"), "evicted", "us")
    at = crossover(x, naive, daba)
    seen = "never" if at is None else f"from {at:,.0f} of {window:,} on"
    agrees = at is not None and near(8 * at / window, 1.0)
    why = (
        f"When {x[-2]:,.0f} events are evicted, each takes {daba[-2] / x[-2]:.2f} us in DABA and "
        f"{(naive[-2] - naive[0]) / x[-2]:.2f} us in Naive, because the frame checks each one in "
        f"Python. An event that stays takes {naive[0] / window:.2f} us in Naive."
    )
    what = "DABA is slower than Naive"
    paper = "from an eighth of the window on (2^20 of 2^23)"
    found.append(Finding(what, paper, seen, agrees, "" if agrees else why))
    return [*found, *_slowest(rows, window), *left_out(distinct(rows, "algorithm"))]


def _slowest(rows: Rows, window: int) -> list[Finding]:
    """Naive's time beside MTA's slowest eviction, which by the shapes is n to log n.

    Of Naive it is the middle time: where many go, asking about each in Python takes longer than
    recalculating, which is all that the paper's 2 s are.
    """
    share = (window / PAPER_BULK) / (math.log2(window) / math.log2(PAPER_BULK))
    found = []
    for name, paper in SLOWEST.items():
        if not where(rows, algorithm=name):
            continue
        naive, ours = median(_times(rows, "Naive")), max(_times(rows, name))
        scale = "" if share == 1 else f" (the paper's ratio times {share:.2g}, for the size)"
        what = f"Naive to the slowest eviction of {name}{scale}"
        each = f"{naive / window:.2f} us per value here and {PAPER_EACH:.2f} us in the paper"
        why = f"Recalculating takes {each}, which changes the ratio."
        less, more = (why, "") if naive / window < PAPER_EACH else ("", why)
        found.append(ratio(what, paper * share, naive, ours, "us", less, more))
    return found


def _times(rows: Rows, name: str) -> list[float]:
    return points(where(rows, algorithm=name), "evicted", "us")[1]


PAIRS = (
    '"Pairs" is the paper\'s structure; otherwise groups have the project\'s default size. "On '
    'disk" is the local store (LMDB). "Over Redis" is a server on the same machine over TCP; '
    "the paper uses Couchbase on three other nodes. Everything is plain Python, with the monoid "
    "and the frame of Listings 2 and 3. Times are the processor time of all threads, but elapsed "
    "time over Redis."
)

EXPERIMENTS = (
    Experiment(
        "mta_latency",
        "Latency of constant-sized windows",
        "MTA paper, Experiment 1, Figure 6",
        "Naive grows linearly. Amortized MTA and DABA are constant, and Log MTA grows with the "
        "logarithm of the window. Amortized MTA in memory is the fastest from 2^9 on; keeping its "
        "data in a store costs about a microsecond. The windows have 1 to 2^25 events.",
        f"{PAIRS} Windows have up to 2^{LARGEST} events, at full scale 2^25. Naive stops at 2^14, "
        "FiBA at 2^16 and pairs at 2^23, because of their time and memory. Each window slides over "
        f"its length, but by 2^{SLID.bit_length() - 1} updates at most, because rare work is short "
        "in most algorithms. Two-Stacks, which flips once per window, always slides over its whole "
        "length. The first update, for which RA doubles its room, is not counted. Python's garbage "
        "collector ignores the initial contents of a window.",
        constant_windows,
        {"figure_6": partial(draw, x="window", y="ns", labels=("window", "ns an update")),
         "combines": partial(draw, x="window", y="combines", without=("Naive",),
                             labels=("window", "combines an update"))},
        found_constant,
        captions={
            "figure_6": (
                "nanoseconds per update by the number of events in the window; both axes are "
                "logarithmic. In the paper, Naive is a rising line and all others are flat or "
                "nearly so. Look for the lines that stay level, and for the point where Amortized "
                "MTA crosses DABA."
            ),
            "combines": (
                "combines per update (counted) by the number of events in the window. Naive, "
                "which makes one combine per event in the window, is left out. Only the window "
                "axis is logarithmic: a straight line is a logarithm, as expected of Log MTA and "
                "the Reactive Aggregator, and a level line is a constant."
            ),
        },
        quick=2**-7,
        full=32,
    ),
    Experiment(
        "mta_bulk",
        "Latency of bulk evictions",
        "MTA paper, Experiment 2, Figure 7",
        "Naive takes about 2 s however many events are evicted. DABA grows linearly, and is slower "
        "than Naive from 2^20 of 2^23 events on. All MTA windows grow logarithmically: they take "
        "at most 0.5 ms in memory (Log MTA half as long as Amortized MTA) and 5 ms in the store.",
        f"{PAIRS} The window has 2^{BULK} events, at full scale 2^23 (without FiBA, which takes "
        "hours to fill it). One update with a smaller maxSize evicts all the events in one step. "
        f"Median of {REPEATS} runs; from 2^{MANY.bit_length() - 1} evicted events on, a single "
        "run.",
        bulk_evictions,
        {"figure_7": partial(draw, x="evicted", y="us", labels=("evicted at once", "us")),
         "figure_7b": partial(draw, x="evicted", y="us", without=ONE_BY_ONE,
                              labels=("evicted at once", "us")),
         "combines": partial(draw, x="evicted", y="combines", without=ONE_BY_ONE,
                             labels=("evicted at once", "combines"))},
        found_bulk,
        captions={
            "figure_7": (
                "microseconds per insertion by the number of events that it evicts; both axes are "
                "logarithmic (the paper's Figure 7a). Algorithms that evict one by one rise in "
                "proportion, and Naive is level. Look for the point where DABA crosses Naive, and "
                "for how far below them the MTA windows stay."
            ),
            "figure_7b": (
                "the same for the algorithms that find the cut by a search, with a linear time "
                "axis (the paper's Figure 7b). A straight line is a logarithm. Look for the "
                "paper's drop at the end, where all but one event are evicted, and for the "
                "distance between the store and memory."
            ),
            "combines": (
                "combines of one such insertion, counted, in the same windows. A straight line is "
                "a logarithm."
            ),
        },
        quick=2**-5,
        full=32,
    ),
)  # fmt: skip
