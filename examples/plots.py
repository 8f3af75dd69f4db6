"""Draws the plots of the gallery: ``python examples/plots.py`` writes them into docs/gallery."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from mta import Max, Mean, rolling
from mta.datasets import meters

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "mta"
from matplotlib import pyplot as plt  # noqa: E402

EXAMPLES = Path(__file__).parent
FOLDER = EXAMPLES.parent / "docs" / "gallery"


def save(figure: Any, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})


def draw_rolling() -> None:
    """A meter's load, and the peak and the mean of its last 24 hours."""
    readings = pd.DataFrame(meters(days=7, count=1, every="5 minutes"))
    asked = {"peak": ("watts", Max()), "mean": ("watts", Mean())}
    daily = rolling(readings, on="ts", window="24 hours", aggregations=asked)
    figure, axes = plt.subplots(figsize=(9, 3))
    axes.plot(daily.ts, daily.watts, color="#b0bec5", linewidth=0.7, label="watts")
    axes.plot(daily.ts, daily.peak, color="#e53935", label="peak of 24 hours")
    axes.plot(daily.ts, daily["mean"], color="#1e63b0", label="mean of 24 hours")
    axes.set_ylabel("watts")
    axes.legend(ncols=3, frameon=False, loc="upper left")
    save(figure, "rolling")


def draw_late_sensors() -> None:
    """The strongest gust of the last hour as it was first shown, and as it is in the end."""
    example = run_path(str(EXAMPLES / "late_sensors" / "late_sensors.py"))
    rows = example["arrivals"](6_000, 12)
    taken, board = example["run"](rows, 60, "memory://")
    by_arrival = taken.set_index("time").gust
    known = [
        by_arrival.iloc[: n + 1][by_arrival.index[: n + 1] > time - np.timedelta64(1, "h")].max()
        for n, time in enumerate(by_arrival.index)
    ]
    first = pd.Series(known, by_arrival.index).sort_index()
    figure, axes = plt.subplots(figsize=(9, 3))
    axes.plot(first.index, first, color="#fb8c00", linewidth=1, label="when it arrived")
    axes.plot(board.index, board.strongest, color="#1e63b0", linewidth=1, label="corrected")
    axes.set_ylabel("strongest gust of the last hour, m/s")
    axes.legend(frameon=False, loc="upper left")
    save(figure, "late_sensors")


def draw_edge() -> None:
    """Memory and disk of the device while its window fills."""
    command = [sys.executable, str(EXAMPLES / "edge" / "edge.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = re.compile(r"([\d,]+) readings .* memory +([\d.]+) MiB +disk +([\d.]+) MiB")
    found = [[float(each.replace(",", "")) for each in row] for row in line.findall(printed)]
    readings, memory, disk = np.array(found).T
    figure, axes = plt.subplots(figsize=(9, 3))
    axes.plot(readings, disk, color="#1e63b0", marker="o", label="on disk")
    axes.plot(readings, memory, color="#e53935", marker="o", label="in memory, with Python")
    axes.axhline(64, color="#90a4ae", linestyle="--", label="64 MiB")
    axes.set_xlabel("readings")
    axes.set_ylabel("MiB")
    axes.set_ylim(0)
    axes.legend(frameon=False, loc="upper left")
    save(figure, "edge")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    draw_rolling()
    draw_late_sensors()
    draw_edge()
