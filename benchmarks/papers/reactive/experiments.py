"""The Reactive Aggregator beside recalculating: its paper's Table 3 and Figures 6 to 10.

The paper's names: RA is the Reactive Aggregator over FIFO windows, ISS the Aggregate operator of
IBM InfoSphere Streams, which recalculates. An (m,m)-change is m evictions, m insertions and then
one query, of a full window. All is plain Python on plain Python operations, one tuple at a time, in
the processor's time, the best of a few; every window that was timed must answer right afterwards.

Windows are powers of two, whose slots are all in use, unless said otherwise: a change then frees
the slots that it fills, which is what RA does best. With free slots it is two places that change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import islice, repeat
from time import thread_time
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.break_even import Beside, Slid, judged, recalculated, slots, value_ns
from benchmarks.papers.mta.algorithms import Counter, Reactive
from benchmarks.papers.operators import Operator
from benchmarks.papers.reactive.operators import reactive_operators
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
from benchmarks.report.fits import logarithm, ratio, shape, shapes
from benchmarks.report.plots import dress, grouped_bars, legend, lines, look

#: The largest window of the paper's figures, as a power of two.
PAPER = 23
#: Powers of two: the largest windows of Table 3, Figures 6, 7, 8, 9 and 10.
TABLE_3, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10 = 14, 16, 20, 18, 18, 18
#: Recalculating is given up above this window, and combines are not counted.
MOST_RECALCULATED, MOST_COUNTED = 2**13, 2**19
ROUNDS, REPEATS = 4000, 3
#: At most so many rounds, which tell the mean of paths to the root; windows above are timed once.
MOST_ROUNDS, OFTEN = 2**17, 2**18
#: Tuples that Table 3's windows are slid by at the most.
TABLE_3_ROUNDS = 2**15
OPERATORS = ("Max", "SampleStdDev")
#: Beyond the paper's: what an operation costs that does not commute.
UPDATED = (*OPERATORS, "ArgMax")
#: Figure 10's changes, by name.
CHANGES: dict[str, Callable[[int], int]] = {
    "m = 1": lambda n: 1,
    "m = 4": lambda n: 4,
    "m = 64": lambda n: 64,
    "m = n/16": lambda n: n // 16,
    "m = n/4": lambda n: n // 4,
    "m = n": lambda n: n,
}


def reactive(one: Operator, size: int) -> Slid:
    """A full window of RA, in as few slots as hold it."""
    return Slid(Reactive(one.monoid, slots(size)), one, size)


def scaled(exponent: int, size: float, least: int = 6) -> int:
    """An exponent of two, less or more by the size; the paper's at most."""
    return max(least, min(PAPER, exponent + round(math.log2(size))))


def rounds_at(window: int, size: float) -> int:
    """Once around all slots, as their places differ, or as many as make an average."""
    return max(min(window, MOST_ROUNDS), int(ROUNDS * min(size, 1)), 10)


def repeats(window: int) -> range:
    """How often a window is timed."""
    return range(REPEATS if window <= OFTEN else 1)


def counted(one: Operator) -> tuple[Operator, Counter]:
    """The same operator, its combines counted."""
    counter = Counter(one.monoid)
    return Operator(one.name, counter.monoid, one.values), counter


# --- Table 3 and Figure 6 -----------------------------------------------------------------------


def break_even(size: float, progress: Progress) -> Rows:
    """Table 3: the smallest window at which RA is faster than ISS, and 10 times faster."""
    most = 2 ** max(4, TABLE_3 + min(0, round(math.log2(size) / 3)))

    def measure(name: str) -> Rows:
        rows = []
        one = reactive_operators()[name]
        ours = partial(_ra_rounds, one, size, most=max(100, int(TABLE_3_ROUNDS * size)))
        beside = Beside(ours, partial(recalculated, one, size), most)
        value = value_ns(one, size)
        for times in (1, 10):
            row = {"operator": name, "times": times} | beside.row(times)
            rows.append(row | {"value_ns": value})
        return rows

    return progress.rows(list(reactive_operators()), measure, str)


def _ra_rounds(one: Operator, size: float, window: int, most: int = 0) -> tuple[Slid, int]:
    rounds = rounds_at(window, size)
    return reactive(one, window), min(rounds, most or rounds)


def throughput(size: float, progress: Progress) -> Rows:
    """Figure 6: million tuples a second over the window, one by one."""
    top = scaled(FIGURE_6, size)
    cells = [(name, 2**exponent) for exponent in range(top + 1) for name in OPERATORS]

    def measure(cell: tuple[str, int]) -> Rows:
        name, window = cell
        one = reactive_operators()[name]
        sides = {"RA": _ra_rounds(one, size, window)}
        if window <= MOST_RECALCULATED:
            sides["ISS"] = recalculated(one, size, window)
        return [
            {"operator": name, "algorithm": side, "window": window}
            | {"ns": 1e9 * seconds, "mps": 1e-6 / seconds}
            for side, seconds in best(sides).items()
        ]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, window {cell[1]:,}")


def best(sides: dict[str, tuple[Slid, int]]) -> dict[str, float]:
    """The best seconds a round of each, taken in turns; all must be right."""
    taken = [
        [slid.seconds(rounds) for slid, rounds in sides.values()]
        for _ in repeats(max(slid.size for slid, _ in sides.values()))
    ]
    for slid, _ in sides.values():
        slid.require_right()
    return dict(zip(sides, map(min, zip(*taken, strict=True)), strict=True))


# --- Figure 7 -----------------------------------------------------------------------------------


def update(size: float, progress: Progress) -> Rows:
    """Figure 7: the cost of a (1,1)-change over the window, and its combines."""
    top = scaled(FIGURE_7, size)
    cells = [
        (name, share, 2**exponent * share // 4)
        for exponent in exponents(3, top)
        for name in UPDATED
        for share in (4, 3)
    ]

    def measure(cell: tuple[str, int, int]) -> Rows:
        name, share, window = cell
        one = reactive_operators()[name]
        seconds = best({"RA": _ra_rounds(one, size, window)})["RA"]
        used = "all slots in use" if share == 4 else "three quarters in use"
        row = {"operator": name, "slots": used, "window": window, "us": 1e6 * seconds}
        return [row | {"combines": combines(one, window)}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, window {cell[2]:,}")


# --- (m,m)-changes: Figures 8 and 10 ------------------------------------------------------------


def one_by_one(slid: Slid, m: int, firings: int) -> float:
    """Seconds a firing: an (m,m)-change and its query."""
    values = iter(slid.next(m * firings))
    evict, insert, query = slid.window.evict, slid.window.insert, slid.window.query
    began = thread_time()
    for _ in range(firings):
        for _ in repeat(None, m):
            evict()
        for value in islice(values, m):
            insert(value)
        query()
    return (thread_time() - began) / firings


def in_bulk(slid: Slid, m: int, firings: int) -> float:
    """The same through RA's bulk operations."""
    window, changes = slid.window, [slid.next(m) for _ in range(firings)]
    began = thread_time()
    for values in changes:
        window.bulk_evict(m)
        window.bulk_insert(values, m)
        window.query()
    return (thread_time() - began) / firings


Fire = Callable[[Slid, int, int], float]


def best_firing(slid: Slid, m: int, firings: int, fire: Fire = one_by_one) -> float:
    """The best of a few; the window must be right."""
    seconds = min(fire(slid, m, firings) for _ in repeats(slid.size))
    slid.require_right()
    return seconds


def combines(one: Operator, window: int, m: int = 1, fire: Fire = one_by_one) -> float | None:
    """RA's combines a tuple of (m,m)-changes, once around all slots; None in larger windows."""
    if window > MOST_COUNTED:
        return None
    one, counter = counted(one)
    slid, firings = reactive(one, window), max(1, slots(window) // m)
    counter.count = 0
    fire(slid, m, firings)
    return counter.count / (m * firings)


def tumbling(size: float, progress: Progress) -> Rows:
    """Figure 8: the time to aggregate a window of which nothing can be used again."""
    top = scaled(FIGURE_8, size)
    sides = {"RA": one_by_one, "RA, in bulk": in_bulk, "ISS": one_by_one}
    cells = [
        (name, 2**exponent, side)
        for exponent in exponents(0, top)
        for name in OPERATORS
        for side in sides
    ]

    def measure(cell: tuple[str, int, str]) -> Rows:
        name, window, side = cell
        one, fire = reactive_operators()[name], sides[side]
        firings = max(1, int(ROUNDS * min(1, size)) // window)
        slid = recalculated(one, 1, window)[0] if side == "ISS" else reactive(one, window)
        seconds = best_firing(slid, window, firings, fire)
        # Recalculating begins with the neutral element: a combine a tuple.
        used = 1.0 if side == "ISS" else combines(one, window, window, fire)
        row: Row = {"operator": name, "algorithm": side, "window": window, "us": 1e6 * seconds}
        return [row | {"ns_a_tuple": 1e9 * seconds / window, "combines": used}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, {cell[2]}, window {cell[1]:,}")


def granularity(size: float, progress: Progress) -> Rows:
    """Figure 10: the cost a tuple of (m,m)-changes over the window."""
    top, one = scaled(FIGURE_10, size, 8), reactive_operators()[OPERATORS[1]]
    cells = [
        (label, change(2**exponent), 2**exponent)
        for exponent in exponents(4, top)
        for label, change in CHANGES.items()
        if change(2**exponent) <= 2**exponent
    ]

    def measure(cell: tuple[str, int, int]) -> Rows:
        label, m, window = cell
        firings = max(1, rounds_at(window, size) // m)
        seconds = best_firing(reactive(one, window), m, firings)
        row: Row = {"change": label, "m": m, "window": window, "us": 1e6 * seconds / m}
        return [row | {"combines": combines(one, window, m)}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, window {cell[2]:,}")


# --- Figure 9 -----------------------------------------------------------------------------------


def resize(size: float, progress: Progress) -> Rows:
    """Figure 9: the cost a tuple with slots for n, and with slots that go from n to 2n and back."""
    top = scaled(FIGURE_9, size)
    cells = [(name, 2**exponent) for exponent in exponents(3, top) for name in OPERATORS]

    def measure(cell: tuple[str, int]) -> Rows:
        rows: Rows = []
        name, window = cell
        # The capacity's way back and forth is half a window long.
        one, rounds = reactive_operators()[name], max(window, rounds_at(window, size))
        for kind, slide in (("fixed", fixed), ("osc.", oscillating)):
            slid = reactive(one, window)
            seconds = min(slide(slid, rounds) for _ in repeats(window))
            slid.size = len(slid.window)
            slid.require_right()
            other, counter = counted(one)
            slid, counter.count = reactive(other, window), 0
            slide(slid, window)
            row = {"operator": name, "capacity": kind, "window": window, "us": 1e6 * seconds}
            row |= {"combines": counter.count / window, "doubling_us": None, "resizing_us": None}
            if kind == "osc.":
                row |= resizes(one, window)
            rows.append(row)
        return rows

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, {cell[1]:,} slots")


def fixed(slid: Slid, tuples: int) -> float:
    """Seconds a tuple of (1,1)-changes."""
    return slid.seconds(tuples)


def oscillating(slid: Slid, tuples: int) -> float:
    """Seconds a tuple, each with a query, while the capacity goes back and forth.

    The tuple after the n-th doubles it; then the oldest go until it is halved, half of them.
    """
    window, n, values = slid.window, slid.size, slid.next(tuples)
    evict, insert, query = window.evict, window.insert, window.query
    began = thread_time()
    for value in values:
        insert(value)
        query()
        if window.capacity > n:
            while window.capacity > n:
                evict()
    return (thread_time() - began) / tuples


def resizes(one: Operator, n: int) -> Row:
    """Microseconds of one doubling, and of it and one halving for each tuple between them."""
    double = min(resized(one, n, n, 2 * n) for _ in repeats(n))
    halve = min(resized(one, n // 2, 2 * n, n) for _ in repeats(n))
    return {"doubling_us": 1e6 * double, "resizing_us": 1e6 * (double + halve) / (n / 2)}


def resized(one: Operator, size: int, capacity: int, to: int) -> float:
    """Seconds of one resize of a window with so many tuples."""
    ra = Slid(Reactive(one.monoid, capacity), one, size).window
    began = thread_time()
    ra.resize(to)
    return thread_time() - began


SETTING = (
    "Plain Python instead of C++. Only the aggregation is timed; the paper times a stream engine "
    "that includes it. ISS is Recalculate-from-Scratch. "
)
ROUNDED = (
    f"Each window slides over its length, but by 2^{MOST_ROUNDS.bit_length() - 1} tuples at most, "
    f"because no change is rare or slow. The best of {REPEATS} runs counts; windows above "
    f"2^{OFTEN.bit_length() - 1} run once."
)
AXES = ("window", "us a tuple")

# --- findings and plots --------------------------------------------------------------------------


#: Table 3: break-even and 10 times faster; None is never.
PAPER_TABLE_3: dict[str, tuple[int | None, int | None]] = {
    "Count": (None, None), "Sum": (370, 5200), "Sum<Double>": (290, 5200), "Max": (260, 5200),
    "Max<Double>": (130, 3600), "ArithmeticMean": (10, 900), "MinCount": (200, 4480),
    "SampleStdDev": (10, 700), "PopulationStdDev": (10, 700), "ArgMax": (130, 2770),
    "ArgMax<Double>": (250, 5810), "Collect": (None, None),
}  # fmt: skip
#: Figure 6 in the paper's words: RA to ISS on small windows and at 1,024.
PAPER_FIGURE_6: dict[str, tuple[float, tuple[float, float]]] = {
    "Max": (0.9, (2.5, 3.0)), "SampleStdDev": (0.95, (10.0, math.inf)),
}  # fmt: skip
SMALL, LARGE = 8, 1024
#: A measured cost closely matches its fitted line within this share of it.
CLOSE = 0.15
#: In smaller windows what a walk or a resize costs whatever it does is most of a change, as in the
#: paper's Figure 10.
LARGE_ENOUGH = 64
GROWS = ("m = 1", "m = 4", "m = 64")


def one_of(rows: Rows, **wanted: Any) -> Row:
    """The one row that is wanted."""
    (row,) = where(rows, **wanted)
    return row


# --- Table 3 ------------------------------------------------------------------------------------


def found_break_even(rows: Rows) -> list[Finding]:
    """Table 3, entry by entry, and whether costly functions break even sooner."""
    found = []
    for place, times in enumerate((1, 10)):
        for operator, windows in PAPER_TABLE_3.items():
            row = one_of(rows, operator=operator, times=times)
            what = f"{operator}: faster" if times == 1 else f"{operator}: 10 times faster"
            found.append(judged(what, windows[place], row, _why(rows, operator, place)))
    return [*found, _sooner(rows)]


def _why(rows: Rows, operator: str, place: int) -> str:
    """What recalculating a value costs beside Sum's, here, and in the paper as far as it tells."""
    ours, total = (one_of(rows, operator=name, times=1)["value_ns"] for name in (operator, "Sum"))
    each, to_sum = f"{ours:,.0f} ns per value", f"{ours / total:.1f} times as much as for Sum"
    reported = f"Recalculating costs {each}, {to_sum}"
    paper, sums = PAPER_TABLE_3[operator][place], PAPER_TABLE_3["Sum"][place]
    if paper is None or sums is None:
        return f"{reported}."
    return f"{reported}; in the paper, RA pays off {sums / paper:.1f} times as soon as for Sum."


def _sooner(rows: Rows) -> Finding:
    """By ranks, as neither side need be linear."""
    some = [row for row in where(rows, times=1) if row["onward"] is not None]
    # Not by the smallest window, which fills all slots, as a power of two, whatever the function.
    cost, even = ([row[key] for row in some] for key in ("value_ns", "onward"))
    what, paper = "the more expensive the function, the sooner it pays off", "in general"
    if len(some) < 3:
        return Finding(what, paper, "too few that break even")
    found = float(np.corrcoef(_ranks(cost), _ranks(even))[0, 1])
    seen = f"rank correlation {found:.2f} of the cost per value and the window"
    return Finding(what, paper, seen, found < -0.5)


def _ranks(values: list[float]) -> list[float]:
    """Places in order, equal values sharing theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) - 1) / 2 for v in values]


def draw_break_even(rows: Rows) -> Figure:
    """Table 3 as bars, here and in the paper; none where RA never pays."""
    names = {1: "faster", 10: "10 times faster"}
    bars = [
        {"operator": row["operator"], "bar": f"{names[row['times']]}, {where_}", "window": window}
        for row in rows
        for where_, window in (
            ("here", row["window"]),
            ("paper", PAPER_TABLE_3[row["operator"]][row["times"] == 10]),
        )
    ]
    shown = [bar for bar in bars if bar["window"] is not None]
    figure = grouped_bars(shown, "operator", "bar", "window", "window")
    figure.axes[0].tick_params(axis="x", labelrotation=20)
    return figure


# --- Figures 6 and 8 ----------------------------------------------------------------------------


def found_throughput(rows: Rows) -> list[Finding]:
    """The shapes of both, and RA to ISS in small and in large windows."""
    found = []
    for operator, (slow, fast) in PAPER_FIGURE_6.items():
        for name, expected in (("RA", "logarithmic"), ("ISS", "linear")):
            some = where(rows, operator=operator, algorithm=name)
            x, y = points([row for row in some if row["window"] >= SMALL], "window", "ns")
            found.append(shape(f"{name}: {operator}, time per tuple", x, y, expected, "ns"))
        for window, paper in ((SMALL, slow), (LARGE, fast)):
            both = {row["algorithm"]: row for row in where(rows, operator=operator, window=window)}
            if len(both) < 2:
                continue
            ra, iss = both["RA"], both["ISS"]
            why = (
                f"A change takes {ra['ns']:,.0f} ns with RA and {iss['ns']:,.0f} ns with ISS. The "
                "paper's throughput includes the engine's own time on both sides, which brings the "
                "two closer together."
            )
            # The engine's time lifts a share below 1, and lowers one above.
            lowers = (paper[0] if isinstance(paper, tuple) else paper) >= 1
            less, more = ("", why) if lowers else (why, "")
            what = f"{operator}: throughput of RA to ISS at window {window:,}"
            found.append(
                ratio(what, paper, 1e3 * ra["mps"], 1e3 * iss["mps"], "thousand/s", less, more)
            )
    return found


def found_tumbling(rows: Rows) -> list[Finding]:
    """The shapes, and the two sides beside each other in the largest window."""
    found, largest = [], max(row["window"] for row in rows)
    for operator in distinct(rows, "operator"):
        some = where(rows, operator=operator)
        for name in distinct(rows, "algorithm"):
            x, y = points(where(some, algorithm=name), "window", "us")
            found.append(shape(f"{name}: {operator}, time per window", x, y, "linear", "us"))
        iss = one_of(some, algorithm="ISS", window=largest)
        for name in ("RA", "RA, in bulk"):
            ra = one_of(some, algorithm=name, window=largest)
            what = f"{operator}: {name} to ISS, window {largest:,}"
            why = _bookkeeping(some, name)
            found.append(ratio(what, 1.0, ra["us"], iss["us"], "us", AT_ONCE, why))
    return found


#: Why RA in bulk takes less than ISS, whose values come and go one by one.
AT_ONCE = "A batch arrives and leaves in one call; ISS makes two calls per value."


def _bookkeeping(rows: Rows, name: str) -> str:
    """What differs, where the combines do not."""
    counted = [row for row in where(rows, algorithm=name) if row["combines"] is not None]
    largest = max(row["window"] for row in counted)
    both = {
        row["algorithm"]: row
        for row in where(rows, window=largest)
        if row["algorithm"] in (name, "ISS")
    }
    ra, iss = both[name], both["ISS"]
    return (
        f"At window {largest:,} RA makes {ra['combines']:.2f} combines a tuple and ISS "
        f"{iss['combines']:.2f}. A tuple takes {ra['ns_a_tuple']:,.0f} ns with RA and "
        f"{iss['ns_a_tuple']:,.0f} ns with ISS; besides combines, RA maintains slots and walks "
        "over them in Python."
    )


# --- Figure 7 -----------------------------------------------------------------------------------


def found_update(rows: Rows) -> list[Finding]:
    """Logarithms: the shape, how far the fitted line is, and combines."""
    found = []
    for operator in distinct(rows, "operator"):
        for kind in distinct(rows, "slots"):
            some = where(rows, operator=operator, slots=kind)
            what = f"{operator}, {kind}"
            found += shapes(f"{what}, a (1,1)-change", some, ("window", "us"), "logarithmic", "us")
            x, y = points(some, "window", "us")
            found.append(_close(f"{what}: farthest from the fitted logarithm", x, y))
            found.append(_steps(what, *points(some, "window", "combines")))
    return found


def _close(what: str, x: list[float], y: list[float]) -> Finding:
    """Whether no measured point is far from the line, as one beyond a knee would be."""
    fit = logarithm(x, y)
    away = [
        b / (fit.slope * math.log2(a) + fit.intercept) - 1 for a, b in zip(x, y, strict=True)
    ]  # fmt: skip
    at = int(np.argmax(np.abs(away)))
    seen = f"{100 * away[at]:+.0f} % at window {x[at]:,.0f}"
    agrees = abs(away[at]) <= CLOSE
    why = "" if agrees else _knee(x, y)
    return Finding(what, f"closely matched (within {100 * CLOSE:.0f} %)", seen, agrees, why)


def _knee(x: list[float], y: list[float]) -> str:
    """What the first and the last half of the windows add with each doubling."""
    half = len(x) // 2
    first, last = logarithm(x[: half + 1], y[: half + 1]), logarithm(x[half:], y[half:])
    return (
        f"A doubling adds {first.slope:.2f} us up to window {x[half]:,.0f}, and {last.slope:.2f} "
        "us beyond it. The combines, which do not depend on the machine, stay on their line."
    )


def _steps(what: str, x: list[float], y: list[float]) -> Finding:
    """Counted combines: one or two paths to the root, and the walks of an inverted buffer."""
    fit = logarithm(x, y)
    seen = f"{fit.slope:.2f} per doubling (R2 {fit.r2:.3f}), {y[-1]:.1f} at window {x[-1]:,.0f}"
    agrees = 0.95 <= fit.slope <= 4.05 and fit.r2 > 0.99
    paper = "a logarithm of 1 to 4 per doubling: up to two paths and two walks"
    return Finding(f"{what}: combines a (1,1)-change", paper, seen, agrees)


def draw_update(rows: Rows, y: str, label: str, fitted: bool = False) -> Figure:
    """A value over the window, and beside it the logarithm that fits best."""
    panels = distinct(rows, "operator")
    figure = Figure(figsize=(4.2 * len(panels), 4.4))
    for axes, operator in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for number, kind in enumerate(distinct(rows, "slots")):
            x, found = points(where(rows, operator=operator, slots=kind), "window", y)
            axes.plot(x, found, marker=".", label=kind, **look(number))
            if fitted:
                fit = logarithm(x, found)
                line = [fit.slope * math.log2(a) + fit.intercept for a in x]
                colour = look(number)["color"]
                axes.plot(x, line, ls=":", lw=1, color=colour, label=f"{kind}, best fit to log")
        axes.set_title(operator)
        dress(axes, ("window", label), ("log", "linear"))
    top = max(axes.get_ylim()[1] for axes in figure.axes)
    for axes in figure.axes:
        axes.set_ylim(top=top)
    legend(figure)
    return figure


# --- Figure 9 -----------------------------------------------------------------------------------


def found_resize(rows: Rows) -> list[Finding]:
    """Amortised: oscillating to fixed, the shapes, and what one resize costs."""
    found, largest = [], max(row["window"] for row in rows)
    for operator in distinct(rows, "operator"):
        some = where(rows, operator=operator)
        osc = where(some, capacity="osc.")
        large = [row for row in osc if row["window"] >= LARGE_ENOUGH]
        what = f"{operator}, a tuple, oscillating"
        found += shapes(what, large, ("window", "us"), "logarithmic", "us")
        x, y = points(osc, "window", "doubling_us")
        found.append(shape(f"{operator}: one resize from n to 2n", x, y, "linear", "us"))
        at = {row["capacity"]: row for row in where(some, window=largest)}
        what = f"{operator}: oscillating to fixed, n = {largest:,}"
        why = _resizing(at["osc."], at["fixed"])
        found.append(ratio(what, (0.5, 0.99), at["osc."]["us"], at["fixed"]["us"], "us", more=why))
    return found


def _resizing(osc: Row, fixed: Row) -> str:
    """Where the time goes that combines and resizes do not take."""
    step, full = (osc["us"] - osc["resizing_us"]) / osc["combines"], fixed["us"] / fixed["combines"]
    return (
        f"Including resizes, the oscillating capacity makes {osc['combines']:.1f} combines per "
        f"tuple, and the fixed one {fixed['combines']:.1f}. Resizing takes "
        f"{osc['resizing_us']:.1f} of the {osc['us']:.1f} us per tuple. The rest is {step:.2f} us "
        f"per combine, compared with {full:.2f} us: where slots are free, each step to the root "
        "must check which of them are in use."
    )


# --- Figure 10 ----------------------------------------------------------------------------------


def found_granularity(rows: Rows) -> list[Finding]:
    """The shapes over large enough windows, in time and in combines."""
    found = []
    for change in distinct(rows, "change"):
        some = [
            row
            for row in where(rows, change=change)
            if row["window"] >= max(LARGE_ENOUGH, 4 * row["m"] if change in GROWS else 0)
        ]
        expected = "logarithmic" if change in GROWS else "constant"
        m = max(row["m"] for row in some)
        why = {"constant": f"{m} tuples share two combines per doubling, so the time hardly grows."}
        found += shapes(f"{change}, a tuple", some, ("window", "us"), expected, "us", why)
    return found


EXPERIMENTS = (
    Experiment(
        "ra_break_even",
        "The window size from which the Reactive Aggregator pays off",
        "Reactive Aggregator paper, section 6.2, Table 3",
        "RA becomes faster than ISS at windows of 10 to 370 tuples, and 10 times faster at 700 to "
        "5,810. In general, the more expensive the function, the smaller this window. RA is never "
        "faster for Count, where ISS reads the size, or for Collect, where both make n - 1 "
        "operations.",
        f"{SETTING}For Count, ISS reads the size; for Collect, it makes one list. Windows have up "
        f"to 2^{TABLE_3} tuples; the break-even is found by bisection. RA's number of slots is a "
        "power of two, so a window that fills them can pay off before larger windows do. There are "
        "therefore two answers: the smallest window that pays off, and the window from which all "
        "larger ones do.",
        break_even,
        {"table_3": draw_break_even},
        found_break_even,
        captions={
            "table_3": (
                "the smallest window that pays off, here and in the paper, by function, on a "
                "logarithmic axis; a function that never pays off has no bar. In the paper, more "
                "expensive functions pay off sooner. Check whether the bars measured here fall in "
                "the same order."
            ),
        },
        quick=2**-6,
    ),
    Experiment(
        "ra_throughput",
        "Throughput of the Reactive Aggregator and of recalculating",
        "Reactive Aggregator paper, section 6.2, Figure 6",
        "RA is about 10 % (Max) and 5 % (StdDev) slower than ISS on small windows. At a window of "
        "1,024, it is almost 3 times (Max) and over 10 times (StdDev) faster.",
        f"{SETTING}Windows have up to 2^{FIGURE_6} tuples, and up to "
        f"2^{round(math.log2(MOST_RECALCULATED))} for ISS.",
        throughput,
        {"figure_6": partial(lines, x="window", y="mps", panel="operator",
                             labels=("window", "million tuples a second"))},
        found_throughput,
        captions={
            "figure_6": (
                "million tuples per second by window size; both axes are logarithmic. In the "
                "paper, RA begins slightly below ISS and is well above it at 1,024. Look for the "
                "crossing: ISS falls in proportion to the window, while RA hardly falls."
            ),
        },
        quick=2**-5,
    ),
    Experiment(
        "ra_update",
        "The cost of a (1,1)-change of the Reactive Aggregator",
        "Reactive Aggregator paper, section 6.2, Figure 7",
        "The measured cost closely matches a logarithm of the window size, from 8 to 8 million "
        "tuples, without a knee where the window outgrows the caches.",
        f"{SETTING}Windows have up to 2^{FIGURE_7} tuples, at full scale up to 2^{PAPER}. "
        f"{ROUNDED} ArgMax, which is not commutative, and windows that leave a quarter of the "
        "slots free are not in the paper's figure.",
        update,
        {"figure_7": partial(draw_update, y="us", label=AXES[1], fitted=True),
         "combines": partial(draw_update, y="combines", label="combines a tuple")},
        found_update,
        captions={
            "figure_7": (
                "time per change of one tuple by window size, with the best-fitting logarithm "
                "(dotted); only the window axis is logarithmic. The paper's points lie on that "
                "line from 8 to 8 million. Look for a knee where the window outgrows the caches."
            ),
            "combines": (
                "the combines of the same changes, counted. A straight line is a logarithm; the "
                "counts do not depend on the machine. Full slots need one path to the root, free "
                "slots two."
            ),
        },
        quick=2**-8,
        full=2**3,
    ),
    Experiment(
        "ra_tumbling",
        "The Reactive Aggregator when nothing can be reused",
        "Reactive Aggregator paper, section 6.2, Figure 8",
        "A tumbling window costs about the same with RA as with ISS, for Max and for StdDev.",
        f"{SETTING}Windows have up to 2^{FIGURE_8} tuples, at full scale up to 2^{PAPER}. In each "
        "step, all values leave, as many new ones arrive, and one query follows. RA's bulk "
        "operations are measured in addition to the paper's.",
        tumbling,
        {"figure_8": partial(lines, x="window", y="us", panel="operator",
                             labels=("window", "us a window"))},
        found_tumbling,
        captions={
            "figure_8": (
                "time to aggregate a whole new window by its size; both axes are logarithmic. In "
                "the paper, the two curves coincide and are linear. RA and ISS should do the same "
                "here."
            ),
        },
        quick=2**-6,
        full=2**5,
    ),
    Experiment(
        "ra_resize",
        "Oscillating capacities",
        "Reactive Aggregator paper, section 6.2, Figure 9",
        "Resizing is amortized: a capacity that oscillates between n and 2n is even faster than a "
        "fixed capacity of n, because most windows are then smaller. A single resize is linear.",
        f"{SETTING}Windows have up to 2^{FIGURE_9} tuples, at full scale up to 2^20, because each "
        "slides over its whole length. A query follows each new tuple.",
        resize,
        {"figure_9": partial(lines, x="window", y="us", line="capacity", panel="operator",
                             labels=("n", "us a tuple"), scales=("log", "linear"))},
        found_resize,
        captions={
            "figure_9": (
                "time per tuple by window size, with a fixed number of slots and with an "
                "oscillating one; only the window axis is logarithmic. In the paper, the "
                "oscillating curve is the lower one. Both should be straight lines."
            ),
        },
        quick=2**-6,
        full=2**2,
    ),
    Experiment(
        "ra_granularity",
        "Changes of many tuples at once",
        "Reactive Aggregator paper, section 6.2, Figure 10",
        "An (m,m)-change costs O(1 + log(n/m)) per tuple: logarithmic for m = 1, 4 and 64, and "
        "constant for m = n/16, n/4 and n on large enough windows.",
        f"{SETTING}The function is StdDev. Windows have up to 2^{FIGURE_10} tuples, at full scale "
        f"up to 2^{PAPER}. {ROUNDED}",
        granularity,
        {"figure_10": partial(lines, x="window", y="us", line="change", labels=AXES,
                              scales=("log", "linear")),
         "combines": partial(lines, x="window", y="combines", line="change",
                             labels=("window", "combines a tuple"), scales=("log", "linear"))},
        found_granularity,
        captions={
            "figure_10": (
                "time per tuple by window size for changes of m tuples at once; only the window "
                "axis is logarithmic. In the paper, m = 1, 4 and 64 rise as straight lines, each "
                "below the previous one, and shares of the window are level."
            ),
            "combines": (
                "the combines per tuple of the same changes, counted: straight lines for a fixed "
                "m, and level lines for a share of the window."
            ),
        },
        quick=2**-6,
        full=2**5,
    ),
)  # fmt: skip
