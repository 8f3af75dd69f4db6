"""The plots that experiments share: lines in panels, bars, and boxes of percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.report.experiment import Rows, distinct, points, where

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mta",  # so that a plot of the same rows is the same file
    "figure.constrained_layout.use": True,
}
COLOURS = (
    "#1f5fa8", "#d1495b", "#2f8f5b", "#c9822b", "#8a4fa3", "#3b9aa8", "#777777",
    "#7fb2e5", "#e79aa5", "#9acd8f", "#e3b778", "#c39bd3",
)  # fmt: skip


def lines(
    rows: Rows,
    x: str,
    y: str,
    labels: tuple[str, str],
    *,
    line: str = "algorithm",
    panel: str | None = None,
    scales: tuple[str, str] = ("log", "log"),
) -> Figure:
    """One line an algorithm; one panel a value of ``panel``."""
    panels = distinct(rows, panel) if panel else [None]
    names = distinct(rows, line)
    figure = Figure(figsize=(max(7.5, 4.2 * len(panels)), 4.4))
    for axes, value in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        some = where(rows, **{panel: value}) if panel else rows
        for number, name in enumerate(names):
            found = points(where(some, **{line: name}), x, y)
            if found[0]:
                axes.plot(*found, marker=".", label=str(name), **look(number))
        dress(axes, labels, scales)
        axes.set_title(value or "")
    legend(figure)
    return figure


def look(number: int) -> dict[str, Any]:
    """The colour and dashes of the so-manieth line."""
    return {"color": COLOURS[number % len(COLOURS)], "ls": "-" if number < len(COLOURS) else "--"}


def dress(axes: Axes, labels: tuple[str, str], scales: tuple[str, str]) -> None:
    """Name and scale the axes: powers of two to the right, powers of ten upwards."""
    axes.set(xlabel=labels[0], ylabel=labels[1])
    if scales[0] != "linear":
        axes.set_xscale(scales[0], base=2)
    if scales[0] == "symlog":  # which has a tick at every power, one over the other
        powers = range(1, int(axes.dataLim.x1).bit_length(), 4)
        axes.set_xticks([0, *(2**power for power in powers)])
    if scales[1] != "linear":
        axes.set_yscale(scales[1])
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25, linewidth=0.6)


def legend(figure: Figure) -> None:
    """One for all panels, at the right."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for snapshot, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, snapshot)
    figure.legend(list(found.values()), list(found), loc="outside right upper", fontsize=8)


def bars(names: Sequence[str], values: Sequence[float], label: str, at: float = 1.0) -> Figure:
    """Horizontal bars on a logarithmic scale, beside a line at ``at``."""
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(names)))
    axes = figure.subplots()
    axes.barh(range(len(names)), values, color=COLOURS[0])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(at, color=COLOURS[1], lw=1)
    axes.set(xscale="log", xlabel=label)
    return figure


def grouped_bars(rows: Rows, group: str, bar: str, value: str, label: str) -> Figure:
    """Bars side by side for each group, on a logarithmic scale."""
    groups, names = distinct(rows, group), distinct(rows, bar)
    figure = Figure(figsize=(11, 4.4))
    axes, width = figure.subplots(), 0.8 / len(names)
    for number, name in enumerate(names):
        some = where(rows, **{bar: name})
        at = [groups.index(row[group]) + (number - len(names) / 2 + 0.5) * width for row in some]
        axes.bar(at, [row[value] for row in some], width, label=name, color=look(number)["color"])
    axes.set_xticks(range(len(groups)), groups)
    axes.set(yscale="log", ylabel=label)
    legend(figure)
    return figure


def percentile_boxes(rows: Rows, down: str, across: str, bar: str = "algorithm") -> Figure:
    """Quartiles as a box, tenths as whiskers, and the fastest, 99.9 % and slowest as marks."""
    tops, names = distinct(rows, down), distinct(rows, across)
    figure = Figure(figsize=(13, 3.5 * len(tops)))
    grid = figure.subplots(len(tops), len(names), squeeze=False, sharey=True)
    for places, top in zip(grid, tops, strict=True):
        for axes, name in zip(places, names, strict=True):
            boxes = [
                {
                    "label": row[bar].replace(" ", "\n"),
                    "q1": row["p25"], "med": row["p50"], "q3": row["p75"],
                    "whislo": row["p10"], "whishi": row["p90"],
                    "fliers": [row["p0"], row["p99.9"], row["p100"]],
                }
                for row in where(rows, **{down: top, across: name})
            ]  # fmt: skip
            axes.bxp(boxes, flierprops={"marker": "_"}, medianprops={"color": COLOURS[1]})
            axes.tick_params(axis="x", labelsize=7)
            axes.set(title=f"{name}, {top}", yscale="log", ylabel="ns")
    return figure


def style() -> Any:
    """The settings to draw and save under."""
    return mpl.rc_context(STYLE)
