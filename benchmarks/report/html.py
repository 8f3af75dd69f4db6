"""The report: one page of HTML that needs no other file and no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.report.experiment import Done, Finding, Rows, sizes
from benchmarks.report.fits import CLOSE, LEAST

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
h2 { border-top: 1px solid #ccc; padding-top: 1.5rem; margin-top: 3rem }
dt { font-weight: 600 } dd { margin: 0 0 .6rem 0 }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0 }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
tr.agrees td.mark { color: #2f8f5b } tr.differs td.mark { color: #d1495b; font-weight: 600 }
figure { margin: 1rem 0 }
figcaption { font-size: 13px; color: #444 } svg { max-width: 100%; height: auto }
"""
MARKS = {True: "agrees", False: "differs", None: ""}


def write_report(folder: Path, done: Sequence[Done]) -> Path:
    """Write ``report.html`` of the finished experiments."""
    path = folder / "report.html"
    path.write_text(page(done), encoding="utf-8")
    return path


def page(done: Sequence[Done]) -> str:
    """The whole page, which is also well-formed XML."""
    body = [
        "<h1>The papers' experiments</h1>",
        "<p>Every algorithm beside the others at this machine's scale: for each figure what the "
        "paper shows, what we see, and why where they differ. Whether a curve is constant, "
        "logarithmic or linear is decided by comparing models with Akaike's criterion, "
        f"corrected for few points, over at least {LEAST} sizes: on combines where they are "
        "counted, which no machine has a part in, else on times. What cannot be decided at this "
        "scale neither agrees nor differs. The papers ran C++, Java or Rust; here nearly "
        "everything is plain Python. A ratio agrees with the paper's if it is on the same "
        f"side of 1 and within a factor of {CLOSE:g} of it.</p>",
        _contents(done),
        *map(_section, done),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>The papers' experiments</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _contents(done: Sequence[Done]) -> str:
    rows = []
    for one in done:
        judged = [f.agrees for f in one.findings if f.agrees is not None]
        name, link = one.experiment.name, f'<a href="#{one.experiment.name}">'
        rows.append(
            f"<tr><td>{link}{name}</a></td><td>{escape(one.experiment.title)}</td>"
            f"<td>{escape(one.experiment.source)}</td>"
            f'<td class="n">{sum(judged)} of {len(judged)}</td>'
            f'<td class="n">{one.record["size"]:g}</td>'
            f'<td class="n">{one.record["seconds"]:,.0f} s</td></tr>'
        )
    head = _head(("experiment", "", "source", "findings that agree", "size", "took"))
    return f"<table>{head}{''.join(rows)}</table>"


def _section(done: Done) -> str:
    one, record = done.experiment, done.record
    facts = {
        "What the paper shows": one.paper,
        "How it is measured here": one.setting,
        "Measured": f"{record['finished']}, size {record['size']:g} of the full form, "
        f"{record['machine']}, kernels {record.get('kernels', 'numpy')}, "
        f"Python {record['python']}, "
        + ", ".join(f"{name} {number}" for name, number in record["packages"].items()),
    }
    listed = "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    figures = "".join(
        f"<figure>{inlined(path)}"
        f"<figcaption>{escape(caption_with_sizes(done, path))}</figcaption></figure>"
        for path in done.plots
    )
    return (
        f'<section id="{one.name}"><h2>{escape(one.title)}</h2>'
        f"<p>{escape(one.source)} (<code>python -m benchmarks {one.name}</code>)</p>"
        f"<dl>{listed}</dl>"
        f"{figures}<h3>What we see</h3>{_findings(done.findings)}"
        f"<details><summary>All {len(done.rows)} rows of {one.name}.csv</summary>"
        f"{_rows(done.rows, one.columns)}</details></section>"
    )


def caption(done: Done, path: Path) -> str:
    """What a plot shows; the file's name has the figure's: ``mta_latency.figure_6.svg``."""
    figure = path.stem.rpartition(".")[2]
    shown = done.experiment.captions.get(figure) or f"{done.experiment.title}."
    return f"{figure.replace('_', ' ').capitalize()}: {shown}"


def caption_with_sizes(done: Done, path: Path) -> str:
    """What a plot shows, and the sizes that were run."""
    run = sizes(done.rows)
    return caption(done, path) + (f" Sizes that were run: {run}." if run else "")


def _findings(findings: Iterable[Finding]) -> str:
    rows = "".join(
        f'<tr class="{MARKS[one.agrees]}"><td>{escape(one.what)}</td><td>{escape(one.paper)}</td>'
        f'<td>{escape(one.seen)}</td><td class="mark">{MARKS[one.agrees]}</td>'
        f"<td>{escape(one.reason or one.beside)}</td></tr>"
        for one in findings
    )
    head = _head(("", "the paper or peer", "here", "", "why they differ"))
    return f"<table>{head}{rows}</table>"


def _rows(rows: Rows, columns: Sequence[str]) -> str:
    shown = columns or list(rows[0])
    body = "".join(
        f"<tr>{''.join(_cell(row.get(column)) for column in shown)}</tr>" for row in rows
    )
    return f"<table>{_head(shown)}{body}</table>"


def _head(names: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in names)}</tr>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="n">{value:,.4g}</td>'
    if isinstance(value, int):
        return f'<td class="n">{value:,}</td>'
    return f"<td>{escape('' if value is None else str(value))}</td>"


def inlined(path: Path) -> str:
    """An SVG file as an element, its names made its own among those of other plots."""
    text = path.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    own = re.sub(r"\W", "-", path.stem)
    text = re.sub(r'\bid="', f'id="{own}-', text)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{own}-", text)
