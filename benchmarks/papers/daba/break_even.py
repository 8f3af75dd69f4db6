"""From which window on the in-order algorithms pay: the DABA paper's Table 3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from benchmarks.papers.break_even import Beside, Slid, judged, recalculated, slots, value_ns
from benchmarks.papers.daba.experiments import SETTING, algorithms, do_nothing
from benchmarks.papers.mta.algorithms import Reactive
from benchmarks.papers.operators import Operator, operators
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows, where
from benchmarks.report.plots import grouped_bars
from mta.algorithms import BoundaryAggregator, RecalculateFromScratch

#: The largest window that is tried, a power of two.
LARGEST = 12
#: The paper's Table 3; Collect never breaks even.
ALGORITHMS = ("Reactive", "TwoStacks", "FOA", "IOA", "DABA")
PAPER: dict[str, tuple[int | None, ...]] = {
    "Sum": (1024, 32, 128, 1024, 112), "Max": (1024, 28, 112, 1024, 64),
    "ArgMax": (512, 28, 112, 512, 64), "MinCount": (512, 28, 64, 1024, 48),
    "ArithMean": (1024, 32, 128, 1024, 112), "StdDev": (1024, 32, 112, 1024, 64),
    "GeoMean": (16, 2, 4, 16, 4), "Bloom": (16, 12, 28, 48, 28), "Collect": (None,) * 5,
}  # fmt: skip
#: Cycles of a round of Two-Stacks, from Table 2.
CYCLES = {
    "Sum": 127, "Max": 125, "ArgMax": 136, "MinCount": 154, "ArithMean": 165, "StdDev": 200,
    "GeoMean": 299, "Bloom": 5532,
}  # fmt: skip


def break_even(size: float, progress: Progress) -> Rows:
    """Table 3: the window from which on an algorithm is faster than recalculating."""
    most = 2 ** max(4, LARGEST + min(0, round(math.log2(size) / 4)))
    cells = [
        (name, algorithm)
        for name, one in operators().items()
        for algorithm in [*algorithms(one, 1), Reactive]
        if algorithm is not RecalculateFromScratch
    ]

    def measure(cell: tuple[str, Any]) -> Rows:
        name, algorithm = cell
        one = operators()[name]
        recalculating, value = partial(recalculated, one, size), value_ns(one, size)
        beside = Beside(partial(built, algorithm, one, size), recalculating, most)
        row = {"operator": name, "algorithm": algorithm.__name__} | beside.row()
        return [row | {"value_ns": value}]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, {cell[1].__name__}")


def built(algorithm: Any, one: Operator, size: float, window: int) -> tuple[Slid, int]:
    """A full window, and how many rounds to time: at least one for each of its values."""
    rounds = max(window, int(2000 * min(size, 1)))
    if issubclass(algorithm, Reactive):
        return Slid(algorithm(one.monoid, slots(window)), one, window), rounds
    if issubclass(algorithm, BoundaryAggregator):
        return Slid(algorithm(one.monoid, window), one, window, do_nothing), rounds
    return Slid(algorithm(one.monoid), one, window), rounds


def found_break_even(rows: Rows) -> list[Finding]:
    """Table 3, entry by entry."""
    return [
        judged(
            f"{name}, {operator}: break-even window",
            window,
            _row(rows, name, operator),
            _why(rows, name, operator),
        )
        for place, name in enumerate(ALGORITHMS)
        for operator, windows in PAPER.items()
        for window in (windows[place],)
    ]


def _why(rows: Rows, name: str, operator: str) -> str:
    """The two costs that make a break-even window, each beside one that both sides have."""
    windows = dict(zip(ALGORITHMS, PAPER[operator], strict=True))
    even, peer, total = windows[name], windows["TwoStacks"], PAPER["Sum"][1]
    ours, stacks = _row(rows, name, operator), _row(rows, "TwoStacks", operator)
    if even is None or peer is None or total is None:
        return f"A round costs {ours['round_ns']:,.0f} ns, a value {ours['value_ns']:,.1f} ns."
    reported = []
    if name != "TwoStacks":
        reported.append(
            f"A round costs {ours['round_ns'] / stacks['round_ns']:.1f} times one of Two-Stacks, "
            f"in the paper {even / peer:.1f} times (by its Table 3)."
        )
    if operator != "Sum":
        values = ours["value_ns"] / _row(rows, name, "Sum")["value_ns"]
        paper = (CYCLES[operator] / peer) / (CYCLES["Sum"] / total)
        reported.append(
            f"Recalculating costs {values:.1f} times as much a value as for Sum, in the paper "
            f"{paper:.1f} times (by Two-Stacks in its Tables 2 and 3)."
        )
    if not reported:  # all others are measured by this one
        beside = ours["recalculating_ns"] - ours["value_ns"] * (ours["window"] or ours["tried"])
        reported.append(
            f"What recalculating costs beside its values, {beside:,.0f} ns a round, is "
            f"{beside / ours['round_ns']:.0%} of a round of Two-Stacks, {ours['round_ns']:,.0f}: "
            f"values of {ours['value_ns']:,.1f} ns each soon make up for the rest."
        )
    return " ".join(reported)


def _row(rows: Rows, name: str, operator: str) -> Row:
    (row,) = where(rows, algorithm=name, operator=operator)
    return row


def draw_break_even(rows: Rows) -> Figure:
    """Table 3 as bars; none where an algorithm never pays."""
    some = [row for row in rows if row["window"] is not None]
    return grouped_bars(some, "operator", "algorithm", "window", "break-even window")


EXPERIMENTS: Sequence[Experiment] = (
    Experiment(
        "daba_break_even",
        "The window size from which it pays off not to recalculate",
        "DABA paper, section 5.3, Table 3",
        "The break-even windows are 2 to 32 for Two-Stacks, 4 to 112 for DABA, 4 to 128 for FOA, "
        "and 16 to 1,024 for IOA and the Reactive Aggregator. Collect never breaks even: all "
        "algorithms are linear, and recalculating makes only one list.",
        f"{SETTING} Windows have up to 2^{LARGEST} values; the break-even is found by bisection. "
        "No operator is declared commutative, so the Reactive Aggregator always keeps the order, "
        "as in the papers.",
        break_even,
        {"table_3": draw_break_even},
        found_break_even,
        captions={
            "table_3": (
                "the smallest window in which an algorithm is faster than recalculating, by "
                "operator, on a logarithmic axis; an algorithm that never is has no bar. In the "
                "paper, Two-Stacks pays off first, then DABA and FOA, and finally IOA and the "
                "Reactive Aggregator."
            ),
        },
        quick=0.0625,
    ),
)  # fmt: skip
