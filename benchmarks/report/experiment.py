"""What an experiment is, and the two tables that every one of them makes.

An experiment measures *rows*, which go to a CSV file, and everything else is made of the rows as
they are read back from that file: plots, and *findings*, each what the paper shows beside what we
see. So a report can be made again without measuring anything again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mta.cli.console import ProgressLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

Item = TypeVar("Item")
Row = dict[str, Any]
Rows = list[Row]

UNEXPLAINED = "No known reason: measure again on an idle machine before you trust this."


@dataclass(frozen=True)
class Finding:
    """What the paper shows of one thing, what we see, and why where they differ."""

    what: str
    paper: str
    seen: str
    agrees: bool | None = None
    """None where there is nothing to compare with."""
    why: str = ""
    beside: str = ""
    """What is judged in its place, where it is but shown."""

    @property
    def reason(self) -> str:
        """Why the two differ, where they do."""
        return "" if self.agrees is not False else self.why or UNEXPLAINED


class Cell(NamedTuple):
    """What was measured at once: its rows, how long it took, and when it was done."""

    rows: Rows
    seconds: float
    when: str


def now() -> str:
    """The date and the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def spent(cells: Collection[Cell]) -> dict[str, Any]:
    """How long cells took, of whatever runs, and when they were done."""
    dates = sorted(cell.when for cell in cells)
    seconds = round(sum(cell.seconds for cell in cells), 1)
    return {"seconds": seconds, "started": dates[0], "finished": dates[-1]}


class Journal:
    """The rows of the cells that are measured, a line of JSON each, so that a run may go on.

    The first line says what they were measured with. A journal of other settings is put aside, to
    ``.cells.old``, and started again. It is kept when the table is
    written: cells that are new later are then all that is measured.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._path, self._head = path, json.dumps(settings)
        found, self._cells = self.read(path)
        if found is not None and found != settings:
            path.replace(path.with_suffix(".cells.old"))
            self._cells = {}

    @staticmethod
    def read(path: Path) -> tuple[dict[str, Any] | None, dict[str, Cell]]:
        """What there is: the settings, None where there is no journal, and cells by name."""
        if not path.exists():
            return None, {}
        cells: dict[str, Cell] = {}
        head, *lines = path.read_text().splitlines() or ["{}"]
        for line in lines:
            try:
                name, *cell = json.loads(line)
                cells[name] = Cell(*cell)
            except (TypeError, ValueError):  # the run was broken off while it wrote
                continue
        return json.loads(head), cells

    def cell(self, name: str, measure: Callable[[], Rows]) -> Cell:
        """A cell, measured unless it is known."""
        if name not in self._cells:
            began = monotonic()
            rows = measure()
            self._cells[name] = cell = Cell(rows, round(monotonic() - began, 3), now())
            started = self._path.exists()
            with self._path.open("a") as file:
                # The new line first: one that was broken off does not take this one with it.
                file.write("" if started else self._head)
                file.write(f"\n{json.dumps([name, *cell])}")
                file.flush()
                os.fsync(file.fileno())
        return self._cells[name]


class Progress:
    """Says how far an experiment is, and keeps the rows of its cells where it has a journal."""

    def __init__(self, name: str, journal: Journal | None = None) -> None:
        self._name, self._line, self._began = name, ProgressLine(), monotonic()
        self._journal, self._cells = journal, dict[str, Cell | None]()

    def rows(
        self, items: Sequence[Item], measure: Callable[[Item], Rows], label: Callable[[Item], str]
    ) -> Rows:
        """The rows of all items, of which only those are measured that no earlier run has.

        Raises ValueError for two of one label, as one would be given the other's rows.
        """
        found: Rows = []
        for item in self.over(items, label):
            name, rows = label(item), partial(measure, item)
            if name in self._cells:
                raise ValueError(f"{self._name}: two cells are called {name!r}")
            cell = None if self._journal is None else self._journal.cell(name, rows)
            self._cells[name] = cell
            found += cell.rows if cell else rows()
        return found

    def record(self) -> dict[str, Any]:
        """How long it took, and when that was."""
        cells = [cell for cell in self._cells.values() if cell]
        if not cells:
            return {"seconds": round(monotonic() - self._began, 1), "finished": now()}
        return spent(cells)

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
    full: float = 1.0
    """The share that ``--full`` measures: the paper's own scale, as far as it goes."""
    better: str = ""
    """The ratios by which ours is better, "above 1" or "below 1"; then the page of figures lists
    the rows in which the peer is better."""
    columns: Sequence[str] = field(default=())
    """The columns that the report shows; all by default."""
    captions: Mapping[str, str] = field(default_factory=dict)
    """By the names of plots: the axes, what the paper's curve shows, and what to look at."""


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
    """The powers of two that are measured: enough of them to tell a shape, both ends with them."""
    return sorted({least, *range(top, least - 1, -2 if top - least > 12 else -1)})


def where(rows: Rows, **wanted: Any) -> Rows:
    """The rows that have these values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def distinct(rows: Rows, key: str) -> list[Any]:
    """A column's values, each once, in order of appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


#: The columns that say how large something was.
SIZES = (
    "window", "evicted", "distance", "range", "small", "slide", "dimensions", "limit_mib",
    "partitions", "slide_ms",
)  # fmt: skip


def sizes(rows: Rows) -> str:
    """The sizes that were run, of each column that has them.

    >>> sizes([{"window": 4, "ns": 1.0}, {"window": 16, "ns": 2.0}])
    'window 4, 16'
    """
    reported = []
    for column in SIZES:
        values = sorted({row[column] for row in rows if isinstance(row.get(column), int)})
        if values:
            reported.append(f"{column} {', '.join(f'{value:,}' for value in values)}")
    return "; ".join(reported)


def points(rows: Rows, x: str, y: str) -> tuple[list[float], list[float]]:
    """Two columns as numbers, in order of the first, without missing ones."""
    found = sorted((float(r[x]), float(r[y])) for r in rows if r[y] is not None)
    return [a for a, _ in found], [b for _, b in found]
