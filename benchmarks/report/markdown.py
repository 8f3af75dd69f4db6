"""The report of a run as a page of Markdown: plots first, then what differs from the papers.

``report.html`` of the run has every finding, and the sizes that were run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report.experiment import Done, Finding
from benchmarks.report.fits import CLOSE
from benchmarks.report.html import caption

VERDICTS = {True: "agrees", False: "differs", None: "undecided"}

#: The verdicts of findings that have a row.
OTHER = (VERDICTS[False], VERDICTS[None])


def verdict(finding: Finding) -> str:
    """Whether a figure agrees; of one that is but shown, that it is."""
    return "shown" if finding.beside else VERDICTS[finding.agrees]


def write_page(path: Path, done: Sequence[Done], note: str) -> None:
    """Write the page, and its plots into a folder of its name, whose other plots go."""
    plots = path.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    for one in done:
        for plot in one.plots:
            shutil.copyfile(plot, plots / plot.name)
    path.write_text("\n".join(_page(done, note, plots.name)), encoding="utf-8")


def _page(done: Sequence[Done], note: str, plots: str) -> Iterator[str]:
    yield "# The papers' experiments\n"
    yield "The papers measured C++, Java or Standard ML. Almost everything here is plain Python, so"
    yield "this page compares shapes and ratios, not times."
    yield f"A ratio agrees if it is within a factor of {CLOSE:g} of the paper's, and on the same"
    yield "side of 1. The shape of a curve is decided by comparing models, on counted combines"
    yield "where available.\n"
    yield "`python -m benchmarks --page` generates this page from the rows of a run. The run's"
    yield "`report.html` also lists the findings that agree, and all sizes.\n"
    yield from machine_lines(done, note)
    yield "\n| experiment | source | agree | differ | undecided |"
    yield "|---|---|---|---|---|"
    yield from map(_entry, done)
    for one in done:
        yield from _section(one, plots)


def machine_lines(done: Sequence[Done], note: str) -> Iterator[str]:
    """The machine, Python and kernels that measured the rows, and the date."""
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
    link = f"[{plain(one.title)}](#{one.name})"
    return f"| {link}{cut} | {plain(one.source)} | {counts} |"


def _section(done: Done, plots: str) -> Iterator[str]:
    """An experiment: its plots, what the paper shows, and what differs here."""
    one, record = done.experiment, done.record
    yield f"\n## {one.name}\n\n**{plain(one.title)}.** {plain(one.source)}.\n"
    for plot in done.plots:
        yield f"![{one.name}]({plots}/{plot.name})\n"
        yield f"*{plain(caption(done, plot)).replace('*', '')}*\n"
    yield f"**What the paper shows.** {plain(one.paper)}\n"
    yield f"**How it is measured here.** {plain(one.setting)}\n"
    if "cells" in record:
        yield f"The run is unfinished: {record['cells']} cells are shown, and the findings below"
        yield "are about these cells.\n"
    agree = [finding for finding in done.findings if verdict(finding) == VERDICTS[True]]
    other = [finding for finding in done.findings if verdict(finding) in OTHER]
    yield f"{len(agree)} findings agree with the paper" + ("; these do not:\n" if other else ".\n")
    if other:
        yield "| | the paper or peer | here | | why |"
        yield "|---|---|---|---|---|"
        yield from map(_row, other)


def _row(finding: Finding) -> str:
    why = finding.reason or finding.beside
    cells = finding.what, finding.paper, finding.seen, verdict(finding), why
    return f"| {' | '.join(map(plain, cells))} |"


def plain(text: str) -> str:
    """Text whose special characters mean nothing in Markdown."""
    return "".join(f"\\{sign}" if sign in r"\|*_<>`[]" else sign for sign in text)
