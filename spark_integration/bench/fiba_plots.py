"""The plots of the FiBA experiment: the FiBA paper's Figures 11 to 14."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

STYLE: dict[Any, Any] = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
COLOURS = {
    "B-tree 2": "#e79aa5",
    "B-tree 4": "#d1495b",
    "B-tree 8": "#8c2f3c",
    "FiBA 2": "#7fb2e5",
    "FiBA 4": "#1f5fa8",
    "FiBA 8": "#12365f",
    "TwoStacks": "#c9822b",
    "DABA": "#2f8f5b",
    "Reactive": "#8a4fa3",
}

Rows = list[dict[str, Any]]


def draw_distances(path: Path, rows: Rows) -> None:
    """Figure 11: throughput over the out-of-order distance."""
    _draw(path, rows, "distance", "out-of-order distance")


def draw_in_order(path: Path, rows: Rows) -> None:
    """Figure 13: throughput in order over the window."""
    _draw(path, rows, "window", "window")


def draw_sharing(path: Path, rows: Rows) -> None:
    """Figure 14: throughput of two windows over the size of the smaller one."""
    _draw(path, rows, "small", "smaller window")


def draw_latencies(path: Path, rows: Rows) -> None:
    """Figure 12: how long rounds take in order (top) and far out of order (bottom)."""
    distances = sorted({row["distance"] for row in rows})
    names = _names(rows, "operator")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(13, 7), layout="constrained")
        grid = figure.subplots(len(distances), len(names), squeeze=False, sharey=True)
        for line, distance in zip(grid, distances, strict=True):
            for axes, name in zip(line, names, strict=True):
                some = [r for r in rows if r["operator"] == name and r["distance"] == distance]
                _boxes(axes, some)
                axes.set(title=f"{name}, distance {distance:,}", yscale="log", ylabel="round, ns")
        _save(figure, path)


def _boxes(axes: Axes, rows: Rows) -> None:
    """Quartiles as a box, the tenths as whiskers, and 99.9 % and the slowest as marks."""
    boxes = [
        {
            "label": row["algorithm"].replace(" ", "\n"),
            "q1": row["p25"], "med": row["p50"], "q3": row["p75"],
            "whislo": row["p10"], "whishi": row["p90"],
            "fliers": [row["p0"], row["p99.9"], row["p100"]],
        }
        for row in rows
    ]  # fmt: skip
    axes.bxp(boxes, flierprops={"marker": "_"}, medianprops={"color": COLOURS["B-tree 4"]})


def _draw(path: Path, rows: Rows, key: str, label: str) -> None:
    """A panel an operator, a line an algorithm."""
    names = _names(rows, "operator")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(13, 4), layout="constrained")
        panels = figure.subplots(1, len(names), squeeze=False)[0]
        for axes, name in zip(panels, names, strict=True):
            for algorithm in _names(rows, "algorithm"):
                points = sorted(
                    (row[key], row["rounds_a_second"] / 1e3)
                    for row in rows
                    if row["operator"] == name and row["algorithm"] == algorithm
                )
                base, _, kind = algorithm.rpartition(" ")
                colour = COLOURS.get(algorithm) or COLOURS[base]
                style = "--" if kind == "range" else "-"
                axes.plot(*zip(*points, strict=True), style, marker=".", color=colour,
                          label=algorithm)  # fmt: skip
            axes.set(title=name, xlabel=label, ylabel="thousand rounds a second", yscale="log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(
                LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 1))
            )
            axes.set_xscale("symlog" if key == "distance" else "log", base=2)
            if key == "distance":
                axes.set_xlim(left=0)
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", fontsize=8)
        _save(figure, path)


def _names(rows: Rows, key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def _save(figure: Figure, path: Path) -> None:
    for kind in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=130)
