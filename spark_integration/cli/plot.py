"""The plot at the end of a run: a key's values and their aggregates over time.

Spark divides the time of each key into about a thousand intervals, and reduces the rows of each
interval to the least and the greatest value. A plot of that width cannot show more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mta.cli.console import plural
from spark_integration.cli.expressions import Aggregation

STRETCHES = 1000
#: The number of panels in a plot, and the default number of keys.
PANELS, KEYS = 4, 3
WORDY = 3  # up to this many curves, there is room for their full names
LEGEND_COLUMNS = 5
VALUE_COLOUR = "#7c8fa1"
COLOURS = ("#d1495b", "#1f5fa8", "#2f8f5b", "#8a4fa3", "#c9822b", "#3b9aa8")


def draw(
    results: DataFrame,
    key: str,
    time: str,
    aggregations: Sequence[Aggregation],
    title: str,
    path: Path,
    most: int | None = None,
) -> str | None:
    """Write a plot of the first keys to ``path``: of ``most`` keys, or of a few.

    Returns how many keys it shows, such as "3 of 13 keys"; None if there is nothing to show.
    """
    panels = _panels(aggregations)
    count = most or max(1, min(KEYS, PANELS // len(panels)))
    distinct = results.select(F.col(f"`{key}`")).distinct()
    keys = [row[0] for row in distinct.orderBy(distinct[0]).limit(count).collect()]
    total = distinct.count()
    shown = f"{len(keys):,} of {total:,} keys" if len(keys) < total else plural(total, "key")
    columns = list(dict.fromkeys(name for panel in panels for name in _columns(panel)))
    extremes = _extremes(results, key, time, columns, keys)
    if extremes.empty:
        return None
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        _figure(extremes, keys, panels, f"{title}: {shown}").savefig(path, dpi=130)
    return shown


def _panels(aggregations: Sequence[Aggregation]) -> list[list[Aggregation]]:
    """Group the aggregations by axis: those on the values' scale by column, the others alone."""
    by_column: dict[str, list[Aggregation]] = {}
    for aggregation in aggregations:
        if aggregation.like_the_value:
            by_column.setdefault(aggregation.columns[-1], []).append(aggregation)
    others = [[aggregation] for aggregation in aggregations if not aggregation.like_the_value]
    return [*by_column.values(), *others][:PANELS]


def _columns(panel: Sequence[Aggregation]) -> list[str]:
    names = [aggregation.name for aggregation in panel]
    return [panel[0].columns[-1], *names] if panel[0].like_the_value else names


def _extremes(
    results: DataFrame, key: str, time: str, columns: Sequence[str], keys: Sequence[object]
) -> pd.DataFrame:
    """Return the first time and each column's least and greatest value per key and interval."""
    chosen = results.where(F.col(f"`{key}`").isin(keys))
    micros = F.unix_micros(F.col(f"`{time}`"))
    ends = chosen.groupBy(F.col(f"`{key}`")).agg(F.min(micros), F.max(micros)).collect()
    if not ends:
        return pd.DataFrame()
    # Each key has its own intervals: the keys' times may be years apart.
    stretches = (
        F.when(
            F.col(f"`{key}`") == F.lit(one),
            F.floor((micros - first) / max(1, (last - first) // STRETCHES)),
        )
        for one, first, last in ends
    )
    stretch = F.coalesce(*stretches).alias("stretch")
    bounds = [
        bound(F.col(f"`{name}`").cast("double")).alias(f"{label} {name}")
        for name in columns
        for label, bound in (("min", F.min), ("max", F.max))
    ]
    grouped = chosen.groupBy(F.col(f"`{key}`").alias("key"), stretch)
    rows = grouped.agg(F.min(f"`{time}`").alias("time"), *bounds)
    return rows.orderBy("key", "stretch").toPandas()


def _figure(
    extremes: pd.DataFrame, keys: Sequence[object], panels: list[list[Aggregation]], title: str
) -> Figure:
    heights = [3.0 if panel[0].like_the_value else 1.6 for panel in panels] * len(keys)
    figure = Figure(figsize=(11, sum(heights) + 0.3 * len(keys) + 0.6), layout="constrained")
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    grid = figure.subplots(
        len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights}
    ).reshape(len(keys), len(panels))
    for key, of_key in zip(keys, grid, strict=True):
        rows = extremes[extremes["key"] == key]
        for axes, panel in zip(of_key, panels, strict=True):
            _panel(axes, rows, panel, str(key) if axes is of_key[0] else "")
            if axes is not of_key[-1]:
                axes.sharex(of_key[-1])
                axes.tick_params(labelbottom=False)
        locator = AutoDateLocator()
        of_key[-1].xaxis.set_major_locator(locator)
        of_key[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
        first, last = rows["time"].min(), rows["time"].max()
        if first < last:
            of_key[-1].set_xlim(first, last)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, panel: Sequence[Aggregation], title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold")
    axes.grid(alpha=0.25, linewidth=0.6)
    if rows[[f"max {name}" for name in _columns(panel)]].max(axis=None) >= 1e4:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    column = panel[0].columns[-1] if panel[0].like_the_value else ""
    colours = COLOURS if panel[0].like_the_value else COLOURS[2:]
    # Rows of boundaries (--emit-every '1 minute') have results but no values.
    if panel[0].like_the_value and rows[f"max {column}"].notna().any():
        axes.plot(*_line(rows, column), color=VALUE_COLOUR, linewidth=0.8, label=column)
    styles = [(colour, line) for line in ("-", "--", ":") for colour in colours]
    for aggregation, (colour, dashes) in zip(panel, styles, strict=False):
        line = _line(rows, aggregation.name)
        label = str(aggregation).replace("=", " = ") if len(panel) <= WORDY else aggregation.name
        axes.plot(*line, dashes, color=colour, linewidth=1.2, label=label)
    axes.set_ylabel(column if panel[0].like_the_value else panel[0].name)
    # On the line of the title and above, so that the legend covers no curve.
    legend = axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=LEGEND_COLUMNS,
        frameon=False,
        borderaxespad=0.2,
        fontsize=8,
    )
    for curve in legend.get_lines():
        curve.set_linewidth(2.5)


def _line(rows: pd.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a line down and up through each interval, with gaps where events are missing."""
    times = rows["time"].to_numpy("datetime64[us]")
    spacing = np.diff(times).astype(np.int64)
    wide = spacing > 10 * np.median(spacing) if len(spacing) else np.empty(0, bool)
    gaps = np.flatnonzero(wide) + 1
    heights = rows[[f"min {name}", f"max {name}"]].to_numpy(float)
    times = np.insert(np.repeat(times, 2), gaps * 2, times[gaps])
    return times, np.insert(heights.ravel(), gaps * 2, np.nan)
