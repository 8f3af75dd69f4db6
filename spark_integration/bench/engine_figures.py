"""What the PBA paper's engine experiment comes to on Spark: its findings and its plot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from matplotlib.figure import Figure

from mta.bench.frame.experiment import Finding, Row, Rows, distinct
from mta.bench.frame.plots import lines

#: The side that recalculates, and which part of a linear growth still is one.
OWN, NEARLY = "Spark's own window", 0.75


def found_engine(rows: Rows) -> list[Finding]:
    """How much faster than the engine's own, and how all scale with partitions."""
    at = {(row["algorithm"], row["partitions"]): row for row in rows}
    found = []
    for name in [name for name in distinct(rows, "algorithm") if name != OWN]:
        for partitions in distinct(rows, "partitions"):
            one, own = at[name, partitions], at[OWN, partitions]
            ratio = one["krps"] / own["krps"]
            fixed = [f"{row['empty'] / row['seconds']:.0%}" for row in (one, own)]
            seen = (
                f"{ratio:.1f} times ({one['krps']:,.0f} k/s to {own['krps']:,.0f} k/s, of whose "
                f"times {' and '.join(fixed)} are a query's fixed cost)"
            )
            what = f"{name} to {OWN}, partitions: {partitions}"
            paper = "faster" if name == "PBA" else "not there"
            found.append(Finding(what, paper, seen, ratio > 1 if name == "PBA" else None))
    for name in distinct(rows, "algorithm"):
        found += list(_scales([at[name, n] for n in distinct(rows, "partitions")]))
    return found


def _scales(rows: Rows) -> Iterator[Finding]:
    """Throughput to that of fewer partitions, beside what cores and keys allow."""
    for fewer, row in pairwise(rows):
        partitions, cores = row["partitions"], row["cores"]
        ratio, allowed = row["krps"] / fewer["krps"], _allowed(row) / _allowed(fewer)
        what = (
            f"{row['algorithm']}: throughput from {fewer['partitions']} to {partitions} partitions"
        )
        seen = (
            f"{ratio:.2f} times; {cores} cores and a largest partition of {row['largest']:.0%} of "
            f"the readings allow {allowed:.2f}"
        )
        if partitions <= cores:
            agrees, says = ratio >= NEARLY * allowed, "linear while there are cores"
        else:
            agrees, says = ratio < NEARLY * 2, "less than linear when cores are short"
        why = _fixed_cost(row) if partitions <= cores and not agrees else ""
        yield Finding(what, says, seen, agrees, why)


def _allowed(row: Row) -> float:
    """How many times as fast as one task so many can be: the largest is the last to end."""
    at_once = min(int(row["partitions"]), int(row["cores"]))
    return 1 / max(float(row["largest"]), 1 / at_once)


def _fixed_cost(row: Row) -> str:
    """What of the time a query over hardly any readings takes too, if that is much."""
    share = row["empty"] / row["seconds"]
    if share < 0.1:
        return ""
    return (
        f"{share:.0%} of the time ({row['empty']:.2f} of {row['seconds']:.2f} s) a query over "
        "hardly any readings takes too."
    )


def draw_engine(rows: Rows) -> Figure:
    """Figure 8."""
    labels = ("partitions", "thousand readings a second")
    figure = lines(rows, "partitions", "krps", labels, scales=("linear", "linear"))
    figure.axes[0].set_xticks(distinct(rows, "partitions"))
    return figure
