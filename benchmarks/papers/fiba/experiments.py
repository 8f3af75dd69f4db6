"""FiBA beside the classic B-tree and in-order algorithms: the FiBA paper's Figures 11 to 14.

A *round* is evict, insert, query on a full window, as in the paper, in nanoseconds of the
processor's time, the best of a few stretches, so that other processes show little. Everything is
plain Python on plain Python operations, where the paper's is C++; windows are as large as its own
(2^22) at the full size.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from math import inf
from time import thread_time_ns
from typing import Any, Protocol

import numpy as np

from benchmarks.papers.operators import Operator, operators
from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Rows,
    distinct,
    exponents,
    points,
    where,
)
from benchmarks.report.fits import CLOSE, shape
from benchmarks.report.plots import lines, percentile_boxes
from mta.algorithms import DABA, TwoStacks
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.finger_tree import FingerTree, Tree
from mta.logs.finger_tree.bulk import insert_sorted
from mta.logs.finger_tree.fingers import after_time
from mta.monoids.base import AbstractMonoid

OPERATORS = ("Sum", "GeoMean", "Bloom")
MIN_ARITIES = (2, 4, 8)
#: Powers of two: the window of Figures 11 and 12 (Figure 14: a quarter), the largest of Figure 13.
WINDOW, LARGEST = 18, 18
#: The paper's own window.
PAPER = 22
ROUNDS = 20_000
#: Figure 13's windows are slid by their length, of which so many rounds suffice but for a flip.
SLID, FLIPS = 2**16, ("TwoStacks",)
#: In plain Python a B-tree of 2^22 values takes a quarter of an hour to fill: Figure 11 has it for
#: Sum alone, the other operators a window of 2^20, and in Figure 13 B-trees go to 2^18.
MOST_DISTANT, MOST_CLASSIC = 20, 18
#: A window is not measured where its partials would take more memory than this.
MOST_BYTES = 1 << 33
#: Between the times of the events that a window begins with, so that many fit in anywhere.
GAP = 1 << 20

Build = Callable[[AbstractMonoid], Tree]


def scaled(exponent: int, size: float, least: int = 8) -> int:
    """An exponent of two, less or more by the size; the paper's at most."""
    return max(least, min(PAPER, exponent + round(math.log2(size))))


def idle() -> int:
    """The nanoseconds that it takes to read the time."""
    taken = []
    for _ in range(1000):
        began = thread_time_ns()
        taken.append(thread_time_ns() - began)
    return int(np.median(taken))


def trees() -> dict[str, Build]:
    """The paper's trees."""
    named: dict[str, Build] = {}
    for arity in MIN_ARITIES:
        named[f"B-tree {arity}"] = partial(Tree, min_arity=arity)
        named[f"FiBA {arity}"] = partial(FingerTree, min_arity=arity)
    return named


# --- Figures 11 and 12 --------------------------------------------------------------------------


class Sliding:
    """A full tree that is slid by inserting at a distance."""

    def __init__(self, build: Build, one: Operator, size: int) -> None:
        self.tree, self.values = build(one.monoid), cycle(one.values)
        self._before, self._after = deque(i * GAP for i in range(size)), deque[int]()
        for time in self._before:
            self.tree.insert(time, next(self.values))

    def plan(self, distance: int, rounds: int) -> Iterator[tuple[int, int]]:
        """The times that go and come, round by round; each that comes has so many after it."""
        before, after = self._before, self._after
        while len(after) < distance:
            after.appendleft(before.pop())
        while len(after) > distance:
            before.append(after.popleft())
        for _ in range(rounds):
            gone = before.popleft()
            new = before[-1] + 1 if before else after[0] - 1
            before.append(new)
            yield gone, new

    @property
    def times(self) -> list[int]:
        """The times that the window has."""
        return [*self._before, *self._after]

    def rounds(self, distance: int, rounds: int) -> np.ndarray:
        """Nanoseconds of each round at a distance."""
        lower, tree = self.tree.monoid.lower, self.tree
        insert, query = tree.insert, tree.query
        evict = evicts_oldest(tree)
        taken = np.empty(rounds, "i8")
        for at, (gone, new) in enumerate(list(self.plan(distance, rounds))):
            value = next(self.values)
            began = thread_time_ns()
            evict(gone)
            insert(new, value)
            lower(query())
            taken[at] = thread_time_ns() - began
        return (taken - idle()).clip(min=1)


def evicts_oldest(tree: Tree) -> Callable[[int], object]:
    """How a tree's oldest value, of which the time is known, goes."""
    if isinstance(tree, FingerTree):
        return lambda time: tree.evict_oldest()
    return tree.evict


def verify(one: Operator, size: int = 60, rounds: int = 50) -> None:
    """What is timed must be right: all trees have what Two-Stacks would."""
    for distance in (0, 7, size // 2, size - 1):
        windows = [Sliding(build, one, size) for build in trees().values()]
        for window in windows:
            window.rounds(distance, rounds)
            fold = one.monoid.identity
            for _, value in window.tree.entries():
                fold = one.monoid.combine(fold, one.monoid.lift(value))
            if not one.monoid.same(window.tree.query(), fold):
                raise AssertionError(f"{one.name}, distance {distance}: not the fold of its values")
        contents = {tuple(window.tree.entries()) for window in windows}
        if len(contents) != 1:
            raise AssertionError(f"{one.name}, distance {distance}: the trees differ")


def at_distances(size: float, progress: Progress) -> Rows:
    """Rounds a second at each distance, and the spread of the rounds."""
    top, rounds = scaled(WINDOW, size), 4 * max(25, int(ROUNDS / 4 * min(size, 1)))
    for name in OPERATORS:
        verify(operators()[name])
    cells = [
        (name, label, top if name == OPERATORS[0] else min(top, MOST_DISTANT))
        for name in OPERATORS
        for label in trees()
    ]

    def measure(cell: tuple[str, str, int]) -> Rows:
        name, label, exponent = cell
        rows: Rows = []
        n = 2**exponent
        # From far to near: each distance is then reached among values that came in order.
        distances = [n - 1, n // 2, *(2**k for k in range(exponent - 3, -1, -2)), 0]
        window = Sliding(trees()[label], operators()[name], n)
        for distance in distances:
            window.rounds(distance, rounds // 4)
            taken = window.rounds(distance, rounds)
            row = {"operator": name, "algorithm": label, "window": n, "distance": distance}
            stretches = taken.reshape(4, -1).mean(axis=1)
            speed = {"rounds_a_second": 1e9 / float(stretches.min())}
            rows.append(row | speed | spread_of(taken))
        return rows

    return progress.rows(cells, measure, lambda cell: "{}, {}, window 2^{}".format(*cell))


def spread_of(taken: np.ndarray) -> dict[str, float]:
    """What Figure 12 shows of the rounds, in nanoseconds."""
    parts = (0, 10, 25, 50, 75, 90, 99, 99.9, 100)
    return {f"p{p:g}": float(ns) for p, ns in zip(parts, np.percentile(taken, parts), strict=True)}


# --- Figure 13 ----------------------------------------------------------------------------------


class Queue(Protocol):
    """What every algorithm does in order."""

    def insert(self, value: Any) -> object:
        """Add a value at the end."""

    def evict(self) -> None:
        """Remove the oldest value."""

    def query(self) -> Any:
        """The result."""


class TreeQueue:
    """A tree in order."""

    def __init__(self, build: Build, monoid: AbstractMonoid) -> None:
        self.tree, self._lower = build(monoid), monoid.lower
        self._evict = evicts_oldest(self.tree)
        self._oldest = self._newest = 0

    def insert(self, value: Any) -> None:
        """Add a value at the end."""
        self.tree.insert(self._newest, value)
        self._newest += 1

    def evict(self) -> None:
        """Remove the oldest value."""
        self._evict(self._oldest)
        self._oldest += 1

    def query(self) -> Any:
        """The result."""
        return self._lower(self.tree.query())


class ReactiveQueue(ReactiveAggregator):
    """The Reactive Aggregator, with results lowered as the others do."""

    def query(self) -> Any:
        """The result."""
        return self.monoid.lower(super().query())


def queues() -> dict[str, Callable[[AbstractMonoid], Queue]]:
    """Every algorithm of Figure 13, from its monoid."""
    named: dict[str, Callable[[AbstractMonoid], Queue]] = {
        "TwoStacks": TwoStacks,
        "DABA": DABA,
        "Reactive": partial(ReactiveQueue, fifo=True),
    }
    return named | {label: partial(TreeQueue, build) for label, build in trees().items()}


def in_order(size: float, progress: Progress) -> Rows:
    """Rounds a second in order over the window."""
    cells = [
        (name, exponent, label)
        for exponent in exponents(2, scaled(LARGEST, size))
        for name in OPERATORS
        for label in queues()
        if exponent <= MOST_CLASSIC or not label.startswith("B-tree")
        if 2**exponent * operators()[name].weight * 3 <= MOST_BYTES
    ]

    def measure(cell: tuple[str, int, str]) -> Rows:
        name, exponent, label = cell
        one, queue = operators()[name], queues()[label](operators()[name].monoid)
        slid = 2**exponent if label in FLIPS else min(2**exponent, SLID)
        for value in islice(cycle(one.values), 2**exponent):
            queue.insert(value)
        queue.query()
        row = {"operator": name, "algorithm": label, "window": 2**exponent}
        speed = rounds_a_second(queue, one, max(slid, int(ROUNDS * min(size, 1))))
        return [row | {"rounds_a_second": speed}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, {cell[2]}, window 2^{cell[1]}")


def rounds_a_second(queue: Queue, one: Operator, rounds: int) -> float:
    """Of a full window, the best of three."""
    evict, insert, query = queue.evict, queue.insert, queue.query
    taken = []
    for _ in range(3):
        values = list(islice(cycle(one.values), rounds))
        began = thread_time_ns()
        for value in values:
            evict()
            insert(value)
            query()
        taken.append(thread_time_ns() - began)
    return 1e9 * rounds / min(taken)


# --- Figure 14 ----------------------------------------------------------------------------------


def sharing(size: float, progress: Progress) -> Rows:
    """A large and a small window over one stream: two trees, or one with range queries."""
    exponent, rounds = scaled(WINDOW - 2, size, 6), 4 * max(20, int(ROUNDS / 8 * min(size, 1)))
    cells = [(name, arity) for name in OPERATORS for arity in MIN_ARITIES]

    def measure(cell: tuple[str, int]) -> Rows:
        name, arity = cell
        rows: Rows = []
        sides = {kind: Shared(operators()[name], arity, 2**exponent) for kind in ("twin", "range")}
        for k in reversed(range(2, exponent + 1, 2)):
            for kind, both in sides.items():
                taken = getattr(both, kind)(2**k, rounds).reshape(4, -1).mean(axis=1)
                row = {"operator": name, "algorithm": f"FiBA {arity} {kind}", "small": 2**k}
                rows.append(row | {"rounds_a_second": 1e9 / float(taken.min())})
        return rows[::-1]

    return progress.rows(cells, measure, lambda cell: "{}, FiBA {}".format(*cell))


def filled(one: Operator, arity: int, entries: Sequence[tuple[int, Any]]) -> FingerTree:
    """A tree of values by time, put in by small batches."""
    tree = FingerTree(one.monoid, arity)
    for start in range(0, len(entries), 3 * arity):
        times, values = zip(*entries[start : start + 3 * arity], strict=True)
        insert_sorted(tree, np.array(times), list(values), len(values))
    return tree


class Shared:
    """A large window and smaller ones, into the middle of which a value comes each round.

    The smaller ones come from the largest on: so none has the crowd in its middle that the rounds
    of the one before it left.
    """

    def __init__(self, one: Operator, arity: int, large: int) -> None:
        self.one, self._arity = one, arity
        self._times = list(range(0, large * GAP, GAP))
        values = islice(cycle(one.values), large)
        self.tree = filled(one, arity, list(zip(self._times, values, strict=True)))

    def plan(self, small: int, rounds: int) -> list[tuple[int, int, Any]]:
        """Each round's time that comes, the smaller window's oldest time then, and the value."""
        cutover = len(self._times) - small // 2
        before, after = self._times[:cutover], self._times[cutover:]
        before += [before[-1] + 1 + i for i in range(rounds)]
        first = len(self._times) - small + 1
        self._times = (before + after)[rounds:]
        values = islice(cycle(self.one.values), rounds)
        return list(zip(before[cutover:], before[first : first + rounds], values, strict=True))

    def twin(self, small: int, rounds: int) -> np.ndarray:
        """Nanoseconds a round of two trees, into which each value goes."""
        smaller = filled(self.one, self._arity, list(self.tree.entries())[-small:])
        lower, both, taken = self.one.monoid.lower, (self.tree, smaller), []
        for new, _, value in self.plan(small, rounds):
            began = thread_time_ns()
            for tree in both:
                tree.evict_oldest()
                tree.insert(new, value)
                lower(tree.query())
            taken.append(thread_time_ns() - began)
        return np.array(taken)

    def range(self, small: int, rounds: int) -> np.ndarray:
        """Nanoseconds a round of one tree, which is asked twice."""
        lower, tree, taken = self.one.monoid.lower, self.tree, []
        for new, oldest, value in self.plan(small, rounds):
            began = thread_time_ns()
            tree.evict_oldest()
            tree.insert(new, value)
            lower(tree.query())
            lower(tree.fold_between(after_time(oldest - 1), "all before"))
            taken.append(thread_time_ns() - began)
        return np.array(taken)


def near_and_far(rows: Rows) -> Rows:
    """The rounds in order, and those at half the window."""
    places = {0: "in order", 1: "at half the window"}
    return [
        row | {"place": places[2 * row["distance"] // row["window"]]}
        for row in rows
        if row["distance"] in (0, row["window"] // 2)
    ]


SETTING = (
    "Plain Python instead of C++. A round is evict, insert and query on a full window. Processor "
    "time, the best of a few stretches. The numbers 2, 4 and 8 are the min-arities."
)
ROUNDS_LABEL = "rounds a second"

# --- findings ------------------------------------------------------------------------------------


#: What the paper's words are taken to mean.
FASTER, LIKE = (1.5, inf), (1 / CLOSE, CLOSE)
SMALL = (
    "In FiBA 2, 4 and 8, a round in order calls 264, 113 and 67 Python functions. In the B-trees, "
    "it calls 1,003, 521 and 331, 4 to 5 times as many (counted by a profiler in a window of 2^12)."
)


def value_of(rows: Rows, key: str, **wanted: Any) -> float:
    """A number of the one row that is wanted."""
    (row,) = where(rows, **wanted)
    return float(row[key])


def fibas(rows: Rows) -> list[str]:
    """The names of FiBA's trees."""
    return [name for name in distinct(rows, "algorithm") if name.startswith("FiBA")]


def seconds(rows: Rows) -> Rows:
    """The same rows with the nanoseconds of a round."""
    return [row | {"ns": 1e9 / row["rounds_a_second"]} for row in rows]


def compared(
    what: str,
    paper: str,
    sides: tuple[float, float],
    unit: str,
    least: float,
    most: float = inf,
    less: str = "",
    more: str = "",
) -> Finding:
    """A ratio of two sides beside what the paper says in words, and what that is taken to mean.

    With the reasons why it is less, or more.
    """
    ratio = sides[0] / sides[1]
    seen = f"{ratio:.2f} times ({sides[0]:,.0f} to {sides[1]:,.0f} {unit})"
    meant = f"{least:g} times and more" if most == inf else f"{least:.3g} to {most:.3g} times"
    agrees = least <= ratio <= most
    why = less if ratio < least else more if ratio > most else ""
    return Finding(what, f"{paper} ({meant})", seen, agrees, why)


def found_far(rows: Rows) -> list[Finding]:
    """Shapes over the distance, and FiBA beside the classic tree of its arity, near and far."""
    n, found = rows[0]["window"], []
    between = [row for row in seconds(where(rows, operator="Sum")) if 0 < row["distance"] < n - 1]
    for name in distinct(rows, "algorithm"):
        expected = "logarithmic" if name.startswith("FiBA") else "constant"
        x, y = points(where(between, algorithm=name), "distance", "ns")
        found.append(shape(f"{name}: Sum, time by distance", x, y, expected, "ns"))
    for name in fibas(rows):
        tree = name.replace("FiBA", "B-tree")
        here = partial(value_of, rows, "rounds_a_second", operator="Sum")
        at_finger = 1e6 / here(algorithm=name, distance=n - 1)
        once = (
            "A B-tree goes down from its root twice per round, to evict and to insert. FiBA goes "
            "down only once, because it evicts at a finger. When it also inserts at a finger, a "
            f"round takes {at_finger:.1f} us."
        )
        for distance, paper, least, most, less, more in (
            (0, "significantly faster", *FASTER, SMALL, ""), (n // 2, "alike", *LIKE, "", once),
        ):  # fmt: skip
            what = f"{name} to {tree}: Sum at distance {distance:,}"
            there = partial(here, distance=distance)
            sides = there(algorithm=name), there(algorithm=tree)
            found.append(compared(what, paper, sides, "rounds/s", least, most, less, more))
    for name in distinct(rows, "algorithm"):
        here = partial(value_of, rows, "rounds_a_second", operator="Sum", algorithm=name)
        what = f"{name}: Sum at distance {n - 1:,}, the window's end, to {n // 2:,}"
        sides = here(distance=n - 1), here(distance=n // 2)
        found.append(compared(what, "faster again", sides, "rounds/s", 1.0))
    for operator in distinct(rows, "operator"):
        here = partial(value_of, rows, "p50", operator=operator, distance=0)
        what = f"median latency of B-tree 4 to FiBA 4: {operator} in order"
        sides = here(algorithm="B-tree 4"), here(algorithm="FiBA 4")
        found.append(compared(what, "orders of magnitude", sides, "ns", 10, less=SMALL))
    return found


def found_in_order(rows: Rows) -> list[Finding]:
    """Shapes over the window, and the fastest FiBA beside DABA in the largest one."""
    found: list[Finding] = []
    larger = [row for row in seconds(where(rows, operator="Sum")) if row["window"] >= 64]
    for name in distinct(rows, "algorithm"):
        grows = name.startswith(("B-tree", "Reactive"))
        x, y = points(where(larger, algorithm=name), "window", "ns")
        expected = "logarithmic" if grows else "constant"
        found.append(shape(f"{name}: Sum, time by window", x, y, expected, "ns"))
    for operator in distinct(rows, "operator"):
        n = max(row["window"] for row in where(rows, operator=operator))
        here = partial(value_of, rows, "rounds_a_second", operator=operator, window=n)
        best = max(here(algorithm=name) for name in fibas(rows))
        what = f"DABA to the best FiBA: {operator}, window {n:,}"
        sides = here(algorithm="DABA"), best
        found.append(compared(what, "faster, by a moderate factor", sides, "rounds/s", 1, 10))
    return found


def found_shared(rows: Rows) -> list[Finding]:
    """One tree with range queries beside two trees."""
    found, sizes = [], sorted(set(distinct(rows, "small")))
    for operator in distinct(rows, "operator"):
        for small in (sizes[0], sizes[-1]):
            here = partial(value_of, rows, "rounds_a_second", operator=operator, small=small)
            sides = here(algorithm="FiBA 4 range"), here(algorithm="FiBA 4 twin")
            what = f"one tree to two: {operator}, smaller window {small:,}, FiBA 4"
            found.append(compared(what, "alike", sides, "rounds/s", *LIKE))
    return found


EXPERIMENTS = (
    Experiment(
        "fiba_distance",
        "Out-of-order distance: throughput and latency",
        "FiBA paper, sections 5.1 and 5.2, Figures 11 and 12",
        "The distance d hardly affects the throughput of the classic B-tree. FiBA's throughput is "
        "much higher in order, and falls with log d to that of the B-tree at half the window. "
        "Every throughput rises again when the distance is the whole window. In order, FiBA's "
        "minimum and median latency are orders of magnitude below the B-tree's; far out of order, "
        "they are similar.",
        f"{SETTING} The window has 2^{WINDOW} values, at full scale 2^{PAPER} as in the paper "
        f"(2^{MOST_DISTANT} for GeoMean and Bloom, because Python takes a quarter of an hour to "
        "fill a larger B-tree).",
        at_distances,
        {"figure_11": partial(lines, x="distance", y="rounds_a_second", panel="operator",
                              labels=("out-of-order distance", ROUNDS_LABEL),
                              scales=("symlog", "log")),
         "figure_12": lambda rows: percentile_boxes(near_and_far(rows), "place", "operator")},
        found_far,
        captions={
            "figure_11": (
                "rounds per second by the distance from the end at which a value is inserted; both "
                "axes are logarithmic. In the paper, B-trees are level. FiBA falls from far above "
                "them, and meets them where the distance is half the window."
            ),
            "figure_12": (
                "the spread of single rounds on a logarithmic axis: boxes show quartiles, whiskers "
                "show the 10th and 90th percentiles, and marks show the fastest round, the 99.9th "
                "percentile and the slowest round. In the paper, FiBA's boxes are far below the "
                "B-trees' in order, and level with them at half the window."
            ),
        },
        quick=2**-7,
        full=2**4,
        columns=("operator", "algorithm", "window", "distance", "rounds_a_second", "p50", "p99"),
    ),
    Experiment(
        "fiba_in_order",
        "FiBA in order, compared with first-in, first-out algorithms",
        "FiBA paper, section 5.3, Figure 13",
        "Two-Stacks is the fastest, and DABA the second. FiBA is constant over the window size: "
        "close behind DABA for cheap operators, and further behind for Bloom. B-trees and the "
        "Reactive Aggregator grow with the logarithm of the window.",
        f"{SETTING} Windows have up to 2^{LARGEST} values, at full scale up to 2^{PAPER} as in the "
        f"paper. Each window slides over its length, but by 2^{SLID.bit_length() - 1} values at "
        "most; Two-Stacks, which flips once per window, always slides over its whole length. "
        f"Because of time and memory, B-trees stop at 2^{MOST_CLASSIC} values, and Bloom at 2^20.",
        in_order,
        {"figure_13": partial(lines, x="window", y="rounds_a_second", panel="operator",
                              labels=("window", ROUNDS_LABEL))},
        found_in_order,
        captions={
            "figure_13": (
                "rounds per second in order by window size; both axes are logarithmic. In the "
                "paper, Two-Stacks, DABA and FiBA are level, in this order from the top. B-trees "
                "and the Reactive Aggregator fall slowly."
            ),
        },
        quick=2**-7,
        full=2**4,
    ),
    Experiment(
        "fiba_sharing",
        "Two windows over one stream: two trees, or one tree with range queries",
        "FiBA paper, section 5.4, Figure 14",
        "Sharing one tree does not consistently improve the throughput: both ways cost the same "
        "up to a constant factor, and ranges cost slightly more. Sharing saves space.",
        f"{SETTING} The larger window has 2^{WINDOW - 2} values, at full scale 2^{PAPER - 2}. Each "
        "new value is inserted into the middle of the smaller window.",
        sharing,
        {"figure_14": partial(lines, x="small", y="rounds_a_second", panel="operator",
                              labels=("smaller window", ROUNDS_LABEL))},
        found_shared,
        captions={
            "figure_14": (
                "rounds per second by the size of the smaller of two windows, with two trees or "
                "with one tree that is queried twice; both axes are logarithmic. In the paper, "
                "neither line is consistently above the other at the same arity."
            ),
        },
        quick=2**-7,
        full=2**4,
    ),
)  # fmt: skip
