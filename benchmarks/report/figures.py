"""The project's own experiments as a page of Markdown: a command and a table for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report.experiment import Done, Rows
from benchmarks.report.markdown import machine_lines, plain

INTRODUCTION = """\
# Figures

Each table has a command that measures it. Run it in [a checkout](install.md); it measures both
sides in turns, and leaves a CSV file and plots in `bench-output/`.

A ratio is our figure divided by the other one. For times and sizes, less than 1 is better; for rows
per second, more than 1. The project holds itself to the limits; they apply to the full size.

`python -m benchmarks --figures docs/figures.md` writes this page from the results, so nothing on it
is typed by hand. [The papers' experiments](report.md) have a page of their own.
"""

#: The columns of an experiment that compares ours with a peer, and their headings.
COMPARED = {
    "what": "",
    "ours": "mta-windows",
    "peer": "compared with",
    "ratio": "ratio",
    "limit": "limit",
}


def write_figures(path: Path, done: Sequence[Done], note: str) -> None:
    """Write the page."""
    path.write_text("\n".join(_page(done, note)) + "\n", encoding="utf-8")


def _page(done: Sequence[Done], note: str) -> Iterator[str]:
    yield INTRODUCTION
    yield from machine_lines(done, note)
    for one in done:
        yield from _section(one)


def _section(done: Done) -> Iterator[str]:
    one, size = done.experiment, done.record["size"]
    option = "" if size == 1 else f" --size {size:g}"
    yield f"\n## {one.title}\n\n{one.setting}\n"
    yield f"```\npython -m benchmarks {one.name}{option}\n```\n"
    if done.rows and set(COMPARED) <= set(done.rows[0]):
        yield from _table(done.rows, COMPARED)
        if lost := _lost(done):
            yield "\nThe other side is better here:\n"
            yield from (f"- {each}" for each in lost)
        return
    if one.columns:
        yield from _table(done.rows, {name: name.replace("_", " ") for name in one.columns})
        yield ""
    findings = [
        {"": finding.what, "measured": finding.seen, "limit or comparison": finding.paper}
        for finding in done.findings
    ]
    yield from _table(findings, {name: name for name in findings[0]})


def _lost(done: Done) -> list[str]:
    """Return the names of the rows in which the peer is better, if the experiment can tell."""
    better = done.experiment.better
    compared = [row for row in done.rows if better and row["ratio"] is not None]
    return [
        f"{_cell(row['what'])}, ratio {_cell(row['ratio'])}"
        for row in compared
        if (row["ratio"] < 1 if better == "above 1" else row["ratio"] > 1)
    ]


def _table(rows: Rows, headings: dict[str, str]) -> Iterator[str]:
    """Some columns of rows under their headings; a column without a value is left out."""
    first, *others = headings
    shown = [first, *(name for name in others if any(row[name] is not None for row in rows))]
    yield f"| {' | '.join(headings[name] for name in shown)} |".replace("|  |", "| |")
    yield "|---" * len(shown) + "|"
    for row in rows:
        yield f"| {' | '.join(_cell(row[name]) for name in shown)} |"


def _cell(value: object) -> str:
    """A value as a reader expects it.

    >>> _cell(0.4567), _cell(12345), _cell(311.2), _cell(None), _cell("<= 0.5")
    ('0.46', '12,345', '311', '', '≤ 0.5')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return plain(str(value)).replace("\\<=", "≤").replace("\\>=", "≥")
