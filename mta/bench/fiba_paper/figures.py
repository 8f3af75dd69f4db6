"""What ``mta bench fiba`` finds: FiBA beside the classic tree, DABA and a tree a window."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from mta.bench.frame.experiment import Finding, Rows, distinct, points, where
from mta.bench.frame.fits import shape

#: What the paper's words are taken to mean.
FASTER, LIKE = (1.5, inf), (0.5, 2.0)
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
    what: str, paper: str, sides: tuple[float, float], unit: str, least: float, most: float = inf
) -> Finding:
    """A ratio of two sides beside what the paper says in words, and what that is taken to mean."""
    ratio = sides[0] / sides[1]
    seen = f"{ratio:.2f} times ({sides[0]:,.0f} to {sides[1]:,.0f} {unit})"
    meant = f"{least:g} times and more" if most == inf else f"{least:g} to {most:g} times"
    agrees = least <= ratio <= most
    return Finding(what, f"{paper} ({meant})", seen, agrees, "" if agrees else SMALL)


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
        for distance, paper, *bounds in (
            (0, "significantly faster", *FASTER), (n // 2, "alike", *LIKE),
        ):  # fmt: skip
            here = partial(value_of, rows, "rounds_a_second", operator="Sum", distance=distance)
            what = f"{name} to {tree}: Sum at distance {distance:,}"
            sides = here(algorithm=name), here(algorithm=tree)
            found.append(compared(what, paper, sides, "rounds/s", *bounds))
    for name in distinct(rows, "algorithm"):
        here = partial(value_of, rows, "rounds_a_second", operator="Sum", algorithm=name)
        what = f"{name}: Sum at distance {n - 1:,}, the window's end, to {n // 2:,}"
        sides = here(distance=n - 1), here(distance=n // 2)
        found.append(compared(what, "faster again", sides, "rounds/s", 1.0))
    for operator in distinct(rows, "operator"):
        here = partial(value_of, rows, "p50", operator=operator, distance=0)
        what = f"median latency of B-tree 4 to FiBA 4: {operator} in order"
        sides = here(algorithm="B-tree 4"), here(algorithm="FiBA 4")
        found.append(compared(what, "orders of magnitude", sides, "ns", 10))
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
