"""What the in-order experiments find: shapes and spreads."""

from __future__ import annotations

from mta.bench.frame.experiment import Finding, Rows, distinct, points, where
from mta.bench.frame.fits import SAME_ORDER, ratio, shape

#: Average of FOA, IOA and DABA as shares of Two-Stacks', and how many times the average the
#: deviation is, from the paper's Table 2.
PAPER = {
    "Sum": {"FOA": 1.97, "IOA": 14.4, "DABA": 1.52},
    "GeoMean": {"FOA": 1.62, "IOA": 6.87, "DABA": 1.22},
    "Bloom": {"FOA": 2.24, "IOA": 3.90, "DABA": 1.63},
}
CACHES = (
    "Larger windows miss the caches, as in the paper, and Python's garbage collector visits more."
)
ALLOCATION = "Python has neither the paper's garbage collector nor its costs of allocation."
ORDER = "Functions that Python calls, and objects that it makes, cost it more than combines."
PAUSES = "A flip of a small window is short, and any pause of Python's makes a round slow."
#: Deviations as shares of the average, from Table 2.
SPREAD = {"TwoStacks": (12, 54), "DABA": (0, 1)}
BEST_FIRST = ("TwoStacks", "DABA", "FOA", "IOA")
MEASURED = ("TwoStacks", "FOA", "IOA", "DABA")


def found_throughput(rows: Rows) -> list[Finding]:
    """Shapes over the window, and who is fastest in the largest that all have."""
    found = []
    for name in distinct(rows, "algorithm"):
        slow = name == "RecalculateFromScratch"
        some = [r for r in where(rows, operator="Sum", algorithm=name) if r["window"] >= 16]
        x, y = points(some, "window", "ns")
        expected = "linear" if slow else "constant"
        found.append(shape(f"{name}: Sum, time a round", x, y, expected, "ns", CACHES))
    for operator in distinct(rows, "operator"):
        some = where(rows, operator=operator)
        largest = max(row["window"] for row in some)
        at = {row["algorithm"]: row["mps"] for row in where(some, window=largest)}
        order = sorted(MEASURED, key=lambda name: -at[name])
        agrees = tuple(order) == BEST_FIRST
        what, seen = f"{operator}: order at window {largest:,}", " > ".join(order)
        found.append(Finding(what, " > ".join(BEST_FIRST), seen, agrees, "" if agrees else ORDER))
    return found


def found_spread(rows: Rows) -> list[Finding]:
    """Averages beside Two-Stacks', and deviations beside averages."""
    found = []
    for operator, paper in PAPER.items():
        here = {row["algorithm"]: row for row in where(rows, operator=operator)}
        peer = here["TwoStacks"]["average"]
        for name, times in paper.items():
            what = f"{operator}: average round, {name} to Two-Stacks"
            found.append(ratio(what, times, here[name]["average"], peer, "ns", ALLOCATION))
        for name, (least, most) in SPREAD.items():
            spread = here[name]["deviation"] / here[name]["average"]
            agrees = least / SAME_ORDER <= spread <= most
            found.append(
                Finding(
                    f"{operator}: deviation of {name} as a share of its average",
                    f"{least} to {most}", f"{spread:.2g}; the worst round took "
                    f"{here[name]['worst'] / here[name]['average']:,.0f} averages",
                    agrees, "" if agrees else PAUSES,
                )
            )  # fmt: skip
    return found
