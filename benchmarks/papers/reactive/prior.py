"""The Reactive Aggregator beside prior work: its paper's Figure 11 and Table 4.

AW is Arasu and Widom's algorithm, base intervals (``mta.in_order.base_intervals``), the only one
that the paper knows of with the same bounds. RA and the (m,m)-changes are those of ``experiments``;
both sides are taken in turns, and every window that was timed must answer right afterwards.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from benchmarks.papers.break_even import Slid
from benchmarks.papers.operators import Operator
from benchmarks.papers.reactive import experiments
from benchmarks.papers.reactive.experiments import (
    AXES,
    CHANGES,
    GROWS,
    LARGE_ENOUGH,
    ROUNDED,
    counted,
    one_by_one,
    one_of,
    reactive,
    rounds_at,
    scaled,
)
from benchmarks.papers.reactive.operators import reactive_operators
from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Row,
    Rows,
    distinct,
    exponents,
    where,
)
from benchmarks.report.fits import ratio, shapes, trend
from benchmarks.report.plots import grouped_bars, lines
from mta.algorithms import BaseIntervals

#: Powers of two: the largest windows of Figure 11, and Table 4's. The paper's largest is 2^23.
FIGURE_11, TABLE_4 = 18, (3, 13, 20)
#: Figure 11's changes; single ones are Table 4's too.
CHANGED = ("m = 1", "m = 64", "m = n/16")
SINGLE = CHANGED[0]
#: Table 4: the time of AW to that of RA at windows of 8, 8 K and 8 M.
PAPER_TABLE_4 = {
    "Sum": (1.02, 1.20, 1.36), "Max": (1.02, 1.25, 1.37), "ArithmeticMean": (1.05, 1.24, 1.39),
    "MinCount": (1.04, 1.23, 1.35), "PopulationStdDev": (1.06, 1.26, 1.37),
}  # fmt: skip
PAPER_WINDOWS = (2**3, 2**13, 2**23)


def base_intervals(one: Operator, size: int) -> Slid:
    """A full window of AW."""
    return Slid(BaseIntervals(one.monoid), one, size)


Cell = tuple[str, str, int]
SIDES: dict[str, Callable[[Operator, int], Slid]] = {"RA": reactive, "AW": base_intervals}


def measure(size: float, progress: Progress) -> Rows:
    """The cost a tuple of (m,m)-changes of both, and its combines."""
    return progress.rows(cells(size), partial(cell, size), lambda c: f"{c[0]}, {c[1]}, {c[2]:,}")


def cell(size: float, one: Cell) -> Rows:
    """The rows of both sides."""
    name, label, window = one
    operator, m = reactive_operators()[name], CHANGES[label](window)
    return [
        {"operator": name, "change": label, "m": m, "window": window, "algorithm": side}
        | {"us": 1e6 * seconds / m, "combines": combines(side, operator, window, m)}
        for side, seconds in in_turns(operator, window, m, size).items()
    ]


def cells(size: float) -> list[Cell]:
    """Operators, changes and windows: Figure 11's are of Max, Table 4's of single changes."""
    figure = [
        ("Max", label, 2**exponent)
        for exponent in exponents(3, scaled(FIGURE_11, size))
        for label in CHANGED
        if 0 < CHANGES[label](2**exponent) <= 2**exponent
    ]
    top = scaled(TABLE_4[-1], size)
    windows = dict.fromkeys(2 ** min(exponent, top) for exponent in TABLE_4)
    table = [(name, SINGLE, window) for window in windows for name in PAPER_TABLE_4]
    return list(dict.fromkeys([*figure, *table]))


def in_turns(one: Operator, window: int, m: int, size: float) -> dict[str, float]:
    """The best seconds a change of each; all must be right."""
    firings = max(1, rounds_at(window, size) // m)
    sides = {name: build(one, window) for name, build in SIDES.items()}
    best = dict.fromkeys(sides, math.inf)
    for _ in experiments.repeats(window):
        for name, slid in sides.items():
            best[name] = min(best[name], one_by_one(slid, m, firings))
    for slid in sides.values():
        slid.require_right()
    return best


def combines(side: str, one: Operator, window: int, m: int) -> float | None:
    """Combines a tuple of (m,m)-changes, once around; None where windows are too large for it."""
    if window > experiments.MOST_COUNTED:
        return None
    one, counter = counted(one)
    slid, firings = SIDES[side](one, window), max(1, window // m)
    counter.count = 0
    one_by_one(slid, m, firings)
    return counter.count / (m * firings)


# --- findings and plots --------------------------------------------------------------------------


def found(rows: Rows) -> list[Finding]:
    """Figure 11's shapes and which is faster; Table 4's entries, and whether the gap widens."""
    findings: list[Finding] = []
    for change in CHANGED:
        changed = where(rows, operator="Max", change=change)
        m = max(row["m"] for row in changed)
        expected = "logarithmic" if change in GROWS else "constant"
        shared = {"constant": f"{m} tuples share a combine per doubling, so the time hardly grows."}
        for side in SIDES:
            some = [row for row in where(changed, algorithm=side) if _is_large(row)]
            what = f"{side}: Max, {change}, a tuple"
            findings += shapes(what, some, ("window", "us"), expected, "us", shared)
        findings.append(_faster(change, changed))
    for operator in PAPER_TABLE_4:
        single = where(rows, operator=operator, change=SINGLE)
        # Max has the windows of Figure 11 too.
        findings += [_entry(single, operator, window) for window in _tabled(rows)]
    single = where(rows, operator="Max", change=SINGLE)
    at, ratios = _ratios(single)
    what, why = "Max, m = 1: AW to RA as windows grow", _counts(single, at[-1])
    return [*findings, trend(what, "grows", at, ratios, "times", why)]


def _is_large(row: Row) -> bool:
    return bool(row["window"] >= max(LARGE_ENOUGH, 4 * row["m"] if row["change"] in GROWS else 0))


def _tabled(rows: Rows) -> list[int]:
    """The windows of Table 4."""
    return distinct(where(rows, operator="Sum"), "window")


def _ratios(rows: Rows) -> tuple[list[int], list[float]]:
    """Windows, and how many times as long as RA AW takes in each."""
    at = sorted(distinct(rows, "window"))
    sides = [{r["algorithm"]: r["us"] for r in where(rows, window=window)} for window in at]
    return at, [both["AW"] / both["RA"] for both in sides]


def _faster(change: str, rows: Rows) -> Finding:
    """Figure 11: RA by a constant factor."""
    at, ratios = _ratios(rows)
    slower = sum(one > 1 for one in ratios)
    seen = (
        f"at {slower} of {len(at)} windows; AW takes {min(ratios):.2f} to {max(ratios):.2f} times"
    )
    why = "" if slower == len(at) else _counts(rows, at[ratios.index(min(ratios))])
    return Finding(f"Max, {change}: RA is faster", "at every window", seen, not why, why)


def _entry(rows: Rows, operator: str, window: int) -> Finding:
    """One of Table 4; between its windows, between its entries."""
    ra, aw = (one_of(rows, window=window, algorithm=side)["us"] for side in SIDES)
    place, entries = bisect_left(PAPER_WINDOWS, window), PAPER_TABLE_4[operator]
    exact = window == PAPER_WINDOWS[place]
    paper = entries[place] if exact else (entries[place - 1], entries[place])
    why = _counts(rows, window)
    return ratio(f"{operator}: AW to RA at window {window:,}", paper, aw, ra, "us", why, why)


def _counts(rows: Rows, window: int) -> str:
    """What both combine, and what there is around it."""
    known = max(r["window"] for r in rows if r["window"] <= window and r["combines"] is not None)
    ra, aw = (one_of(rows, window=known, algorithm=side) for side in SIDES)
    return (
        f"At window {known:,} AW makes {aw['combines']:.2f} combines a tuple and RA "
        f"{ra['combines']:.2f}. In total, a tuple takes {1e3 * aw['us']:,.0f} ns with AW and "
        f"{1e3 * ra['us']:,.0f} ns with RA. The rest is bookkeeping in Python and, for AW, the "
        "interface that all in-order algorithms share."
    )


def draw_table_4(rows: Rows) -> Figure:
    """Table 4 as bars, here and in the paper."""
    bars: Rows = []
    for operator, entries in PAPER_TABLE_4.items():
        single = where(rows, operator=operator, change=SINGLE)
        for window, times in zip(*_ratios(single), strict=True):
            if window in _tabled(rows):
                bars.append({"operator": operator, "bar": f"{window:,}, here", "times": times})
        for window, times in zip(PAPER_WINDOWS, entries, strict=True):
            bars.append({"operator": operator, "bar": f"{window:,}, paper", "times": times})
    figure = grouped_bars(bars, "operator", "bar", "times", "AW's time to RA's")
    figure.axes[0].set(yscale="linear", ylim=(0, None))
    return figure


def draw_figure_11(rows: Rows, y: str, label: str) -> Figure:
    """Both sides of each change."""
    some = where(rows, operator="Max")
    return lines(some, "window", y, ("window", label), panel="change", scales=("log", "linear"))


EXPERIMENTS = (
    Experiment(
        "ra_prior",
        "The Reactive Aggregator compared with base intervals",
        "Reactive Aggregator paper, section 6.2, Figure 11 and Table 4",
        "Arasu and Widom's algorithm (AW) has the same complexity. RA is faster by a constant "
        "factor, whatever the function: 2 to 6 % at a window of 8, 20 to 26 % at 8 K, and 35 to "
        "39 % at 8 M.",
        "Plain Python instead of C++. Only the aggregation is timed; the paper times a stream "
        "engine that includes it. AW is BaseIntervals. The paper does not say which changes its "
        "figure shows. "
        f"Windows have up to 2^{FIGURE_11} tuples in the figure and up to 2^{TABLE_4[-1]} in the "
        f"table, at full scale up to 2^23 in both. {ROUNDED} The largest window of the table is "
        "one of the paper's, or is compared with the range between two of the paper's windows.",
        measure,
        {"figure_11": partial(draw_figure_11, y="us", label=AXES[1]),
         "combines": partial(draw_figure_11, y="combines", label="combines a tuple"),
         "table_4": draw_table_4},
        found,
        captions={
            "figure_11": (
                "time per tuple of Max by window size for each change; only the window axis is "
                "logarithmic. In the paper, both curves have the same shape, and RA is lower by a "
                "constant factor."
            ),
            "combines": (
                "the combines per tuple of the same changes, counted."
            ),
            "table_4": (
                "AW's time as a multiple of RA's for single changes, here and in the paper, by "
                "function and window. In the paper, the bars are above 1 and grow with the window."
            ),
        },
        quick=2**-6,
        full=2**5,
    ),
)  # fmt: skip
