"""The report of a run as a page of Markdown, for the documents: findings, and plots beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report.experiment import Done, Finding, sizes
from benchmarks.report.fits import CLOSE
from benchmarks.report.html import caption

VERDICTS = {True: "agrees", False: "differs", None: "undecided"}


def verdict(finding: Finding) -> str:
    """Whether a figure agrees; of one that is but shown, that it is."""
    return "shown" if finding.beside else VERDICTS[finding.agrees]


def write_page(path: Path, done: Sequence[Done], missing: Sequence[str], note: str) -> None:
    """Write the page, and its plots into a folder of its name, whose other plots go."""
    plots = path.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    for one in done:
        for plot in one.plots:
            shutil.copyfile(plot, plots / plot.name)
    path.write_text("\n".join(_page(done, missing, note, plots.name)), encoding="utf-8")


def _page(done: Sequence[Done], missing: Sequence[str], note: str, plots: str) -> Iterator[str]:
    yield "# The papers' experiments, as they were run\n"
    yield "Made by `python -m benchmarks --page` from the rows of a run."
    yield "The papers ran C++, Java or Standard ML; here nearly all is plain Python, so shapes and"
    yield "ratios are compared, not times."
    yield f"A ratio agrees within a factor of {CLOSE:g} on the same side of 1; a curve's shape is"
    yield "decided by comparing models, on counted combines where there are any.\n"
    yield from _machine(done, note)
    yield "\n| experiment | source | agree | differ | undecided | sizes |"
    yield "|---|---|---|---|---|---|"
    yield from map(_entry, done)
    if missing:
        yield f"\nNot measured yet: {', '.join(f'`{name}`' for name in missing)}."
    for one in done:
        yield from _section(one, plots)


def _machine(done: Sequence[Done], note: str) -> Iterator[str]:
    """What the rows were measured on, with and when."""
    for key in ("machine", "python", "kernels"):
        found = dict.fromkeys(str(one.record.get(key, "unknown")) for one in done)
        yield f"{key.capitalize()}: {', or '.join(found)}.  "
    started = min(one.record.get("started", one.record["finished"]) for one in done)
    yield f"Measured from {started} to {max(one.record['finished'] for one in done)}.  "
    if note:
        yield note


def _entry(done: Done) -> str:
    """A line of the table of contents."""
    one, judged = done.experiment, [verdict(finding) for finding in done.findings]
    counts = " | ".join(str(judged.count(each)) for each in VERDICTS.values())
    cut = f" (unfinished: {done.record['cells']} cells)" if "cells" in done.record else ""
    link = f"[{_plain(one.title)}](#{one.name})"
    return f"| {link}{cut} | {_plain(one.source)} | {counts} | {_plain(sizes(done.rows))} |"


def _section(done: Done, plots: str) -> Iterator[str]:
    """An experiment: what is known of it, its plots, and its findings."""
    one, record = done.experiment, done.record
    yield f"\n## {one.name}\n\n**{_plain(one.title)}.**"
    yield f"{_plain(one.source)}; size {record['size']:g}, {record['seconds'] / 60:,.0f} minutes to"
    yield f"{record['finished']}.\n"
    yield f"**What the paper shows.** {_plain(one.paper)}\n"
    yield f"**How it is measured here.** {_plain(one.setting)}\n"
    if "cells" in record:
        yield f"The run has not come to its end: {record['cells']} cells are shown, and what is"
        yield "said below is of these.\n"
    for plot in done.plots:
        yield f"![{one.name}]({plots}/{plot.name})\n"
        yield f"*{_plain(caption(done, plot)).replace('*', '')}*\n"
    yield "| | the paper or peer | here | | why |"
    yield "|---|---|---|---|---|"
    yield from map(_row, done.findings)


def _row(finding: Finding) -> str:
    why = finding.reason or finding.beside
    cells = finding.what, finding.paper, finding.seen, verdict(finding), why
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Text that no sign of Markdown changes."""
    return "".join(f"\\{sign}" if sign in r"\|*_<>`[]" else sign for sign in text)
