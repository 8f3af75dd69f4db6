"""What an experiment of ``mta bench`` is, and the two tables that every one of them makes.

An experiment measures *rows*, which go to a CSV file, and everything else is made of the rows as
they are read back from that file: plots, and *findings*, each what the paper shows beside what we
see. So a report can be made anew without measuring anything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from mta.cli.console import ProgressLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

Item = TypeVar("Item")
Row = dict[str, Any]
Rows = list[Row]

UNEXPLAINED = "No reason known: measure again on an idle machine before believing it."


@dataclass(frozen=True)
class Finding:
    """What the paper shows of one thing, what we see, and why where they differ."""

    what: str
    paper: str
    seen: str
    agrees: bool | None = None
    """None where there is nothing to compare with."""
    why: str = ""

    @property
    def reason(self) -> str:
        """Why the two differ, where they do."""
        return "" if self.agrees is not False else self.why or UNEXPLAINED


class Progress:
    """Says how far an experiment is."""

    def __init__(self, name: str) -> None:
        self._name, self._line, self._began = name, ProgressLine(), monotonic()

    def over(self, items: Sequence[Item], label: Callable[[Item], str] = str) -> Iterator[Item]:
        """The items one by one, each shown before it is worked on."""
        for number, item in enumerate(items, 1):
            passed = monotonic() - self._began
            text = f"{self._name}: {number} of {len(items)}, {label(item)} ({passed:.0f} s)"
            self._line.show(text, monotonic())
            yield item

    def end(self) -> None:
        """Leave the line."""
        self._line.end()


@dataclass(frozen=True)
class Experiment:
    """One experiment: what it is, how its rows are measured, and what is made of them."""

    name: str
    title: str
    source: str
    """Where the paper has it."""
    paper: str
    """What the paper shows."""
    setting: str
    """How this differs from the paper's own run, and what is timed."""
    run: Callable[[float, Progress], Rows]
    """The rows at a share of the full size, 1 being all of it."""
    plots: Mapping[str, Callable[[Rows], Plot]]
    """By the name of their files."""
    findings: Callable[[Rows], list[Finding]]
    quick: float = 0.05
    """The share that ``--quick`` measures."""
    columns: Sequence[str] = field(default=())
    """The columns that the report shows; all by default."""


@dataclass(frozen=True)
class Done:
    """A finished experiment, as the report shows it."""

    experiment: Experiment
    rows: Rows
    record: dict[str, Any]
    plots: list[Path]
    """The SVG files."""
    findings: list[Finding]


def exponents(least: int, top: int) -> list[int]:
    """The powers of two that are measured: enough of them to tell a shape."""
    return list(range(least, top + 1, 2 if top - least > 12 else 1))


def where(rows: Rows, **wanted: Any) -> Rows:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def distinct(rows: Rows, key: str) -> list[Any]:
    """A column's values, each once, in order of appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def points(rows: Rows, x: str, y: str) -> tuple[list[float], list[float]]:
    """Two columns as numbers, in order of the first, without missing ones."""
    found = sorted((float(r[x]), float(r[y])) for r in rows if r[y] is not None)
    return [a for a, _ in found], [b for _, b in found]
