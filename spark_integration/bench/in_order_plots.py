"""The plots of the in-order experiment: the DABA paper's Figure 13, and PBA beside SBA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OPERATORS = ("Sum", "GeoMean", "Bloom")
#: Whose rounds are drawn one by one: the paper's three, and Two-Stacks, which they do without.
SHOWN = ("TwoStacks", "FOA", "IOA", "DABA", "DABALite")
STRETCHES = 500
COLOURS = {
    "RecalculateFromScratch": "#777777",
    "SubtractOnEvict": "#c9822b",
    "TwoStacks": "#d1495b",
    "TwoStacksLite": "#e79aa5",
    "FOA": "#8a4fa3",
    "IOA": "#c39bd3",
    "DABA": "#1f5fa8",
    "DABALite": "#7fb2e5",
    "FlatFIT": "#2f8f5b",
    "SlickDeque": "#9acd8f",
    "SBA": "#3b9aa8",
    "PBA": "#d1495b",
}
STYLE: dict[Any, Any] = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}

Rows = list[dict[str, Any]]


def draw_figure_13(path: Path, series: dict[tuple[str, str], np.ndarray], speed: Rows) -> None:
    """Top: the slowest round of each stretch of rounds. Bottom: throughput over the window."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(13, 7.5), layout="constrained")
        tops, bottoms = figure.subplots(2, 3)
        for name, top, bottom in zip(OPERATORS, tops, bottoms, strict=True):
            for algorithm in SHOWN:
                rounds, slowest = _stretches(series[name, algorithm])
                top.plot(rounds, slowest, lw=0.8, color=COLOURS[algorithm], label=algorithm)
            top.set(title=name, yscale="log", xlabel="round", ylabel="slowest of a stretch, ns")
            for algorithm in dict.fromkeys(row["algorithm"] for row in speed):
                _line(bottom, speed, name, algorithm, "mps")
            bottom.set(xlabel="window", ylabel="million rounds a second", ylim=(0, None))
            bottom.set_xscale("log", base=2)
        tops[0].legend(fontsize=7, ncols=2)
        bottoms[0].legend(fontsize=7, ncols=2)
        _save(figure, path)


def draw_boundaries(path: Path, sides: Rows) -> None:
    """PBA beside SBA over the range: batches, and the value with which a chunk begins."""
    names = list(dict.fromkeys(row["operator"] for row in sides))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 7), layout="constrained")
        grid = figure.subplots(2, len(names), squeeze=False)
        for at, name in enumerate(names):
            for row, (key, label) in enumerate(
                (("ns", "a value of a batch, ns"), ("pause_us", "a boundary's value, us"))
            ):
                axes = grid[row, at]
                for algorithm in ("SBA", "PBA"):
                    _line(axes, sides, name, algorithm, key)
                axes.set(title=name if not row else "", xlabel="range", ylabel=label)
                axes.set_xscale("log", base=2)
                axes.set_yscale("log")
        grid[0, 0].legend()
        _save(figure, path)


def _line(axes: Axes, rows: Rows, name: str, algorithm: str, key: str) -> None:
    points = [
        (row["window"], row[key])
        for row in rows
        if row["operator"] == name and row["algorithm"] == algorithm
    ]
    if points:
        axes.plot(*zip(*points, strict=True), marker=".", color=COLOURS[algorithm], label=algorithm)


def _stretches(taken: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slowest round of each of some hundred stretches, which is all that a plot can show."""
    width = max(1, len(taken) // STRETCHES)
    count = len(taken) // width
    return np.arange(count) * width, taken[: count * width].reshape(count, width).max(axis=1)


def _save(figure: Figure, path: Path) -> None:
    for kind in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{kind}"), dpi=130)
