"""What ``mta bench fiba`` finds: FiBA beside the classic tree, DABA and a tree a window."""

from __future__ import annotations

from functools import partial
from typing import Any

from spark_integration.bench.experiment import Finding, Rows, distinct, points, where
from spark_integration.bench.fits import shape

SMALL = "A Python call costs more than a step of the tree, and windows are smaller."


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
    what: str, paper: str, ours: float, peer: float, unit: str, least: float, why: str = SMALL
) -> Finding:
    """A ratio that the paper has at least so large."""
    ratio = ours / peer
    seen = f"{ratio:.2f} times ({ours:,.0f} to {peer:,.0f} {unit})"
    return Finding(what, paper, seen, ratio >= least, "" if ratio >= least else why)


def found_far(rows: Rows) -> list[Finding]:
    """Shapes over the distance, and FiBA beside the classic tree of its arity, near and far."""
    n, found = rows[0]["window"], []
    between = [row for row in seconds(where(rows, operator="Sum")) if 0 < row["distance"] < n - 1]
    for name in distinct(rows, "algorithm"):
        expected = "logarithmic" if name.startswith("FiBA") else "constant"
        x, y = points(where(between, algorithm=name), "distance", "ns")
        found.append(shape(f"{name}: Sum, time over the distance", x, y, expected, "ns"))
    for name in fibas(rows):
        tree = name.replace("FiBA", "B-tree")
        for distance, paper, least in (
            (0, "much faster", 1.2), (n // 2, "alike", 0.7), (n - 1, "both faster again", 0.7),
        ):  # fmt: skip
            here = partial(value_of, rows, "rounds_a_second", operator="Sum", distance=distance)
            what = f"{name} to {tree}: Sum at distance {distance:,}"
            found.append(
                compared(what, paper, here(algorithm=name), here(algorithm=tree), "rounds/s", least)
            )
    for operator in distinct(rows, "operator"):
        here = partial(value_of, rows, "p50", operator=operator, distance=0)
        what = f"median latency of B-tree 4 to FiBA 4: {operator} in order"
        trees = here(algorithm="B-tree 4"), here(algorithm="FiBA 4")
        found.append(compared(what, "orders of magnitude", *trees, "ns", 1.2))
    return found


def found_in_order(rows: Rows) -> list[Finding]:
    """Shapes over the window, and the fastest FiBA beside DABA in the largest one."""
    found, n = [], max(row["window"] for row in rows)
    larger = [row for row in seconds(where(rows, operator="Sum")) if row["window"] >= 64]
    for name in distinct(rows, "algorithm"):
        grows = name.startswith(("B-tree", "Reactive"))
        x, y = points(where(larger, algorithm=name), "window", "ns")
        expected = "logarithmic" if grows else "constant"
        found.append(shape(f"{name}: Sum, time over the window", x, y, expected, "ns"))
    for operator in distinct(rows, "operator"):
        here = partial(value_of, rows, "rounds_a_second", operator=operator, window=n)
        ours = max(here(algorithm=name) for name in fibas(rows))
        found.append(
            compared(
                f"DABA to the best FiBA: {operator}, window {n:,}", "faster, by a moderate factor",
                here(algorithm="DABA"), ours, "rounds/s", 1.0,
            )
        )  # fmt: skip
    return found


def found_shared(rows: Rows) -> list[Finding]:
    """One tree with range queries beside two trees."""
    found, sizes = [], sorted(set(distinct(rows, "small")))
    for operator in distinct(rows, "operator"):
        for small in (sizes[0], sizes[-1]):
            here = partial(value_of, rows, "rounds_a_second", operator=operator, small=small)
            ours, peer = here(algorithm="FiBA 4 range"), here(algorithm="FiBA 4 twin")
            what = f"one tree to two: {operator}, smaller window {small:,}, FiBA 4"
            found.append(compared(what, "alike, slightly slower", ours, peer, "rounds/s", 0.5))
    return found
