"""Experiments that measure ours beside a peer, in runs that alternate.

Their figures become rows, bars and findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from time import perf_counter

from matplotlib.figure import Figure as Plot

from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows
from benchmarks.report.plots import bars

WHY = "Not within the limit on this machine."
_NUMBER = r"(\d+(?:\.\d+)?)"


@dataclass(frozen=True)
class Figure:
    """One line of a result: ours, the peer's, and how they compare, or whether a limit held."""

    what: str
    ours: str
    peer: str
    ratio: float | None = None
    limit: str = ""
    held: bool | None = None


def alternate(
    runs: Sequence[Callable[[], object]],
    times: int = 3,
    clock: Callable[[], float] = perf_counter,
) -> list[float]:
    """The median seconds of each of some runs, taken in turns so that drift hits all alike."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(times):
        for run, seconds in zip(runs, taken, strict=True):
            began = clock()
            run()
            seconds.append(clock() - began)
    return [median(seconds) for seconds in taken]


def beside(
    name: str,
    title: str,
    setting: str,
    run: Callable[[float], list[Figure]],
    quick: float,
    source: str = "the project's own figures",
    expects: str = "The project holds each ratio to a limit, where the table states one; it is "
    "meant for the full size, where no fixed cost of a call hides what an event costs.",
    better: str = "",
) -> Experiment:
    """An experiment that compares our figures with those of others; runs of both alternate."""

    def measure(size: float, progress: Progress) -> Rows:
        return [asdict(_at(size, figure)) for figure in run(size)]

    return Experiment(
        name, title, source, expects, setting,
        measure, {"ratios": draw}, findings, quick, better=better,
    )  # fmt: skip


def _at(size: float, figure: Figure) -> Figure:
    """A figure whose limit holds for the full size: for a smaller one it judges nothing."""
    if size >= 1 or figure.ratio is None or not figure.limit:
        return figure
    return replace(figure, limit=f"{figure.limit} at the full size", held=None)


def draw(rows: Rows) -> Plot:
    """The ratios as bars."""
    some = [row for row in rows if row["ratio"] is not None]
    names = [row["what"] for row in some]
    return bars(names, [row["ratio"] for row in some], "ours to the peer's")


def findings(rows: Rows) -> list[Finding]:
    """Each figure, and whether it is within its limit."""
    return [_finding(row) for row in rows]


def _finding(row: Row) -> Finding:
    ratio, limit = row["ratio"], row["limit"] or ""
    beside = f"{row['peer'] or ''}{f', limit {limit}' if limit else ''}"
    seen = f"{row['ours'] or ''}{'' if ratio is None else f', {ratio:.2f} times'}"
    held = within(ratio, limit) if row["held"] is None and ratio is not None else row["held"]
    return Finding(row["what"], beside, seen, held, WHY if held is False else "")


def within(ratio: float, limit: str) -> bool | None:
    """Whether a ratio keeps a limit such as "<= 3", ">= 0.5" or "0.85 to 1.15"; None without one.

    >>> within(1.2, "<= 1.2"), within(0.4, ">= 0.5"), within(1.0, "0.85 to 1.15"), within(1, "")
    (True, False, True, None)
    >>> within(4, "<= 1.2 at the full size")
    """
    if found := re.fullmatch(rf"([<>])= {_NUMBER}", limit):
        bound = float(found[2])
        return ratio <= bound if found[1] == "<" else ratio >= bound
    if found := re.fullmatch(rf"{_NUMBER} to {_NUMBER}", limit):
        return float(found[1]) <= ratio <= float(found[2])
    return None
