"""What ``mta bench fiba`` prints: FiBA beside the classic tree, DABA and a tree a window."""

from __future__ import annotations

import math
from functools import partial
from statistics import linear_regression
from typing import Any

from spark_integration.bench import Figure

Rows = list[dict[str, Any]]


def value_of(rows: Rows, key: str, **wanted: Any) -> float:
    """A number of the one row that is wanted."""
    (row,) = [row for row in rows if all(row[k] == v for k, v in wanted.items())]
    return float(row[key])


def values(rows: Rows, key: str) -> list[Any]:
    """What a column has, each once."""
    return list(dict.fromkeys(row[key] for row in rows))


def fibas(rows: Rows) -> list[str]:
    """The names of FiBA's trees."""
    return [name for name in values(rows, "algorithm") if name.startswith("FiBA")]


def far(rows: Rows) -> list[Figure]:
    """Rounds a second of FiBA beside the classic tree of its arity, near and far."""
    n, figures = rows[0]["window"], []
    for name in fibas(rows):
        for distance in sorted({row["distance"] for row in rows} & {0, n // 32, n // 2, n - 1}):
            here = partial(value_of, rows, "rounds_a_second", operator="Sum", distance=distance)
            ours, peer = here(algorithm=name), here(algorithm=name.replace("FiBA", "B-tree"))
            what, beside = f"Sum at distance {distance:,}, {name}", f"{peer / 1e3:.1f} k/s, B-tree"
            figures.append(Figure(what, f"{ours / 1e3:.1f} k/s", beside, ours / peer))
    return figures


def near(rows: Rows) -> list[Figure]:
    """The median round in order, and the slowest hundredth."""
    figures = []
    for name in values(rows, "operator"):
        for key, label in (("p50", "median"), ("p99", "99 %")):
            here = partial(value_of, rows, key, operator=name, distance=0)
            ours, peer = here(algorithm="FiBA 4"), here(algorithm="B-tree 4")
            what, beside = f"{name} in order, {label}, FiBA 4", f"{peer / 1e3:.1f} us, B-tree"
            figures.append(Figure(what, f"{ours / 1e3:.1f} us", beside, ours / peer))
    return figures


def slopes(rows: Rows) -> list[Figure]:
    """Time a round over the window as a power of it, fitted from 2^6 on: 0 is constant."""
    figures = []
    for name in values(rows, "algorithm"):
        points = [
            (math.log(row["window"]), -math.log(row["rounds_a_second"]))
            for row in rows
            if row["algorithm"] == name and row["operator"] == "Sum" and row["window"] >= 64
        ]
        slope = linear_regression(*zip(*points, strict=True)).slope
        expected = "paper: log n" if name.startswith(("B-tree", "Reactive")) else "paper: 0"
        limit = "<= 0.1" if name.startswith("FiBA") else ""
        what = f"in order: time ~ window^x, {name}"
        figures.append(Figure(what, f"{slope:.2f}", expected, limit=limit))
    return figures


def best(rows: Rows) -> list[Figure]:
    """In order, the fastest FiBA beside DABA, in the largest window."""
    figures, n = [], max(row["window"] for row in rows)
    for name in values(rows, "operator"):
        here = partial(value_of, rows, "rounds_a_second", operator=name, window=n)
        ours, peer = max(here(algorithm=one) for one in fibas(rows)), here(algorithm="DABA")
        what, beside = (
            f"{name} in order, {n:,} values, best FiBA",
            f"{peer / 1e3:.0f} k/s, DABA",
        )
        figures.append(Figure(what, f"{ours / 1e3:.0f} k/s", beside, ours / peer))
    return figures


def ranges(rows: Rows) -> list[Figure]:
    """One tree with range queries beside two trees."""
    figures, sizes = [], sorted(set(values(rows, "small")))
    for small in (sizes[0], sizes[len(sizes) // 2], sizes[-1]):
        here = partial(value_of, rows, "rounds_a_second", operator="Sum", small=small)
        ours, peer = here(algorithm="FiBA 4 range"), here(algorithm="FiBA 4 twin")
        what, beside = f"Sum, small window {small:,}, ranges", f"{peer / 1e3:.1f} k/s, two trees"
        figures.append(Figure(what, f"{ours / 1e3:.1f} k/s", beside, ours / peer))
    return figures
