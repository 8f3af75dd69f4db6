"""``python -m benchmarks``: fits, the record that makes a run resumable, and the report."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure as Plot

from benchmarks import running
from benchmarks.__main__ import main
from benchmarks.registry import EXPERIMENTS
from benchmarks.report.beside import Figure, beside
from benchmarks.report.experiment import (
    Done,
    Experiment,
    Finding,
    Journal,
    Progress,
    Rows,
    now,
)
from benchmarks.report.figures import write_figures
from benchmarks.report.fits import (
    UNDECIDED,
    decide,
    ratio,
    shape,
)
from benchmarks.report.tables import read_record, read_rows, write_record, write_rows
from tests.support.documents import ROOT

WINDOWS = [2.0**k for k in range(4, 21, 2)]


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": lambda n: 700 + 0 * n,
    "logarithmic": lambda n: 200 + 100 * np.log2(n),
    "linear": lambda n: 300 + 50 * n,
    "a power": lambda n: 10 * n**0.41,
}


def series(of: str, noise: float, seed: int = 0) -> list[float]:
    """A curve of a shape over the windows, each value off by about so much."""
    away = np.random.default_rng([seed, 7]).normal(size=len(WINDOWS))
    found: list[float] = (SHAPES[of](np.array(WINDOWS)) * np.exp(noise * away)).tolist()
    return found


@pytest.mark.parametrize("of", SHAPES)
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_each_shape_is_distinguished_from_the_others(of: str, noise: float) -> None:
    y = series(of, noise)
    assert decide(WINDOWS, y, "ns").shape == of
    for expected in ("constant", "logarithmic", "linear"):
        assert shape("", WINDOWS, y, expected, "ns").agrees is (of == expected)


@pytest.mark.parametrize("sizes", [WINDOWS[:5], [16.0, 18, 20, 22, 24, 26, 28], []])
def test_too_few_sizes_tell_nothing(sizes: list[float]) -> None:
    found = shape("", sizes, sizes, "constant", "ns", {"linear": "because"})
    assert (found.agrees, found.reason) == (None, "")
    assert found.seen.startswith(UNDECIDED)


@pytest.mark.parametrize(
    ("paper", "here", "agrees"),
    [
        ((2.4, 3.5), 1.04, False),
        ((2.4, 3.5), 2.0, True),
        ((2.4, 3.5), 4.3, True),
        ((2.4, 3.5), 4.5, False),
        (1.1, 0.97, False),  # the other side is the faster one
        (0.9, 1.03, False),
        (1.1, 0.99, None),  # or it is not
        (0.9, 1.01, None),
        (1.0, 0.9, True),
        ((10.0, np.inf), 31.0, True),
        ((10.0, np.inf), 7.9, False),
    ],
)
def test_a_ratio_is_the_paper_s_or_not(
    paper: float | tuple[float, float], here: float, agrees: bool | None
) -> None:
    found = ratio("", paper, here, 1.0, "ns", "less", "more")
    low = paper[0] if isinstance(paper, tuple) else paper
    assert found.agrees is agrees
    assert found.reason == ("" if agrees is not False else "less" if here < low else "more")
    assert ("cannot be decided" in found.seen) is (agrees is None)


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    assert read_record(tmp_path / "r.json") is None
    write_record(tmp_path / "r.json", {"size": 1})
    assert read_record(tmp_path / "r.json") == {"size": 1}
    (tmp_path / "r.json").write_text('{"size"')
    assert read_record(tmp_path / "r.json") is None


class Toy:
    """An experiment that counts how often it is measured."""

    def __init__(self) -> None:
        self.measured: list[float] = []

    def run(self, size: float, progress: Progress) -> Rows:
        self.measured.append(size)
        found = progress.over([2**k for k in range(6)])
        return [{"algorithm": "<a & b>", "window": n, "ns": 10.0 * n * size} for n in found]

    def findings(self, rows: Rows) -> list[Finding]:
        return [
            shape("time", [r["window"] for r in rows], [r["ns"] for r in rows], "constant", "ns")
        ]

    def draw(self, rows: Rows) -> Plot:
        figure = Plot(figsize=(1, 1))
        axes = figure.subplots()
        axes.set_axis_off()
        axes.plot([row["window"] for row in rows], [row["ns"] for row in rows])
        return figure

    def experiment(self, name: str) -> Experiment:
        return Experiment(
            name, f"Toy <{name}>", "no paper", "nothing & more", "not at all",
            self.run, {"one": self.draw, "two": self.draw}, self.findings, quick=0.5,
            captions={"one": "x and y & more."},
        )  # fmt: skip


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    toy = Toy()
    monkeypatch.setattr(running, "load", lambda name: toy.experiment(name))
    return toy


def test_a_finished_experiment_is_not_run_again(toy: Toy, tmp_path: Path) -> None:
    def run(size: float | str, fresh: bool = False) -> int:
        running.bench(["mta_bulk"], size, str(tmp_path), fresh)
        return len(toy.measured)

    assert run(1.0) == 1
    assert run(1.0) == 1
    assert run(1.0, fresh=True) == 2
    assert run(running.QUICK) == 3
    assert toy.measured[-1] == 0.5
    (tmp_path / "mta_bulk.json").unlink()  # broken off before its end
    assert run(running.QUICK) == 4
    assert not list(tmp_path.glob("*.new"))


def test_a_run_that_was_broken_off_goes_on_with_the_next_cell(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[int] = []
    breaks = [KeyboardInterrupt()]

    def cell(window: int) -> Rows:
        measured.append(window)
        if window == 8 and breaks:
            raise breaks.pop()
        return [{"algorithm": "a", "window": window, "ns": 0.1 * window, "none": None}]

    def run(size: float, progress: Progress) -> Rows:
        return progress.rows(windows, cell, str)

    windows = [2, 4, 8, 16]
    one = replace(toy.experiment("mta_bulk"), run=run, full=32)
    monkeypatch.setattr(running, "load", lambda name: one)
    with pytest.raises(KeyboardInterrupt):
        running.Bench(tmp_path, 1.0).run("mta_bulk")
    with (tmp_path / "mta_bulk.cells").open("a") as file:
        file.write('\n["16", [{"algor')  # broken off while it wrote
    rows = running.Bench(tmp_path, 1.0).run("mta_bulk").rows
    assert measured == [2, 4, 8, 8, 16]
    assert [row["ns"] for row in rows] == [0.1 * row["window"] for row in rows]
    kept = (tmp_path / "mta_bulk.cells").read_text()
    measured.clear()
    windows.append(32)
    rows = running.Bench(tmp_path, 1.0).run("mta_bulk").rows
    assert measured == [32], "a finished experiment that has gained a cell measures this one alone"
    assert [row["window"] for row in rows] == windows
    assert running.Bench(tmp_path, 1.0).run("mta_bulk").rows == rows
    assert measured == [32]
    measured.clear()
    running.Bench(tmp_path, running.FULL).run("mta_bulk")
    assert measured == windows, "cells of another size are measured again"
    assert (tmp_path / "mta_bulk.cells.old").read_text().startswith(kept)


def test_a_page_is_written_of_what_runs_have_left_and_measures_nothing(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, page = tmp_path / "run", tmp_path / "docs" / "report.md"
    assert running.write_report_page([], str(run), str(page)) == 1
    running.bench(["mta_latency"], 1.0, str(run))
    journal = Journal(run / "mta_bulk.cells", {"size": 32.0, "kernels": "native"})
    for window in (2, 4):
        one = {"algorithm": "a|b", "window": window, "ns": 1.0} | ({"us": 2} if window == 4 else {})
        journal.cell(str(window), lambda one=one: [one])
    names = ["mta_bulk", "mta_latency", "mta_streams"]
    (page.parent / "report").mkdir(parents=True)
    (page.parent / "report" / "old.one.svg").write_text("<svg/>")
    assert running.write_report_page(names, str(run), str(page), "Alone on it.") == 0
    text = page.read_text()
    assert toy.measured == [1.0]
    plots = re.findall(r"!\[\w+\]\((\S+)\)", text)
    assert len(plots) == 4 and all((page.parent / plot).exists() for plot in plots)
    assert len(list((page.parent / "report").iterdir())) == 4
    assert "Not measured: mta_streams." in capsys.readouterr().out and "Alone on it." in text
    assert "(unfinished: 2 cells)" in text and "2 cells are shown" in text
    assert "Toy \\<mta\\_bulk\\>" in text and "*One: x and y & more.*" in text


def test_the_page_of_figures_has_a_command_and_a_table_for_each_experiment(tmp_path: Path) -> None:
    run, page = tmp_path / "run", tmp_path / "figures.md"
    assert running.write_figures_page([], str(run), str(page)) == 1
    figures = [
        Figure("max | of 4", "12 ns", "24 ns, a*b", 0.5, "<= 0.9"),
        Figure("pages", "3", "", held=True),
    ]
    write_rows(run / "batch.csv", [asdict(figure) for figure in figures])
    kept = {"size": 0.5, "finished": now(), "python": "3.11", "machine": "m", "kernels": "native"}
    write_record(run / "batch.json", kept)
    assert running.write_figures_page([], str(run), str(page)) == 0
    assert page.read_text().endswith(
        "```\npython -m benchmarks batch --size 0.5\n```\n\n"
        "| | mta-windows | compared with | ratio | limit |\n|---|---|---|---|---|\n"
        "| max \\| of 4 | 12 ns | 24 ns, a\\*b | 0.50 | ≤ 0.9 |\n| pages | 3 |  |  |  |\n"
    )


@pytest.mark.parametrize(("better", "lost"), [("above 1", "one"), ("below 1", "three")])
def test_the_page_of_figures_names_the_rows_in_which_the_peer_is_better(
    better: str, lost: str, tmp_path: Path
) -> None:
    rows = [asdict(Figure(what, "1", "2", ratio)) for what, ratio in RATIOS.items()]
    experiment = beside("spark", "Spark", "A stream.", lambda size: [], 1.0, better=better)
    record = {"size": 1, "finished": now()}
    write_figures(tmp_path / "page.md", [Done(experiment, rows, record, [], [])], "")
    *_, head, _, last = (tmp_path / "page.md").read_text().splitlines()
    assert head == "The other side is better here:"
    assert last == f"- {lost}, ratio {RATIOS[lost]:.2f}"


RATIOS = {"one": 0.5, "two": 1.0, "three": 2.5, "four": None}


def test_rows_of_another_version_stop_nothing_and_are_measured_again(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.bench(["mta_bulk", "batch"], 1.0, str(tmp_path)) == 0
    rows = read_rows(tmp_path / "mta_bulk.csv")
    write_rows(tmp_path / "mta_bulk.csv", [{"size": row["window"]} for row in rows])
    assert running.bench(["batch"], 1.0, str(tmp_path)) == 0
    assert "mta_bulk: rows of" in capsys.readouterr().out
    assert 'id="mta_bulk"' not in (tmp_path / "report.html").read_text()
    assert running.bench(["mta_bulk"], 1.0, str(tmp_path)) == 0
    assert len(toy.measured) == 3
    assert read_rows(tmp_path / "mta_bulk.csv") == rows


def test_an_experiment_that_fails_leaves_no_record_and_stops_no_other(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.bench(["mta_bulk", "batch"], 1.0, str(tmp_path)) == 0

    def run(size: float, progress: Progress) -> Rows:
        raise ValueError("no such thing")

    broken = replace(toy.experiment("mta_bulk"), run=run)
    load = running.load
    monkeypatch.setattr(running, "load", lambda n: broken if n == "mta_bulk" else load(n))
    assert running.bench(["mta_bulk", "batch"], 1.0, str(tmp_path), fresh=True) == 1
    assert not (tmp_path / "mta_bulk.json").exists()
    assert 'id="batch"' in (tmp_path / "report.html").read_text()
    assert "ValueError: no such thing" in capsys.readouterr().out


def test_the_report_is_one_well_formed_page(toy: Toy, tmp_path: Path) -> None:
    running.bench(["mta_bulk"], 1.0, str(tmp_path))
    running.bench(["mta_latency"], 1.0, str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    page = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    assert [section.get("id") for section in page.iter("section")] == ["mta_latency", "mta_bulk"]
    assert len(list(page.iter("{http://www.w3.org/2000/svg}svg"))) == 4
    names = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(names) == len(set(names))
    links = re.findall(r"""(?:href|src)="([^"]*)"|url\(([^)]*)\)""", text)
    assert links and all((a or b).startswith("#") for a, b in links)
    assert all((a or b)[1:] in names for a, b in links)
    assert "differs" in text and "nothing &amp; more" in text and "&lt;a &amp; b&gt;" in text


def test_names_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert running.chosen([]) == list(EXPERIMENTS)
    assert running.chosen(["mta"]) == [name for name in EXPERIMENTS if name.startswith("mta_")]
    assert running.chosen(["batch", "mta_bulk"]) == ["mta_bulk", "batch"]
    assert running.chosen(["spark"]) == ["spark"], "not spark_keys too"
    given: list[object] = []
    monkeypatch.setattr(running, "bench", lambda **options: given.append(options))
    monkeypatch.setattr(running, "write_report_page", lambda *options: given.append(options))
    main(["fiba", "--quick", "--output", "there"])
    main(["mta", "--full"])
    main(["--size", "0.25", "--fresh"])
    main(["batch"])
    monkeypatch.setattr(running, "write_figures_page", lambda *options: given.append(options))
    main(["mta", "--output", "there", "--page", "docs/report.md", "--note", "Busy."])
    main(["batch", "--figures", "docs/figures.md"])
    usual = {"folder": "bench-output", "fresh": False}
    assert given == [
        {"names": ["fiba"], "size": "quick", "folder": "there", "fresh": False},
        {"names": ["mta"], "size": "full", **usual},
        {"names": [], "size": 0.25, "folder": "bench-output", "fresh": True},
        {"names": ["batch"], "size": 1.0, **usual},
        (["mta"], "there", "docs/report.md", "Busy."),
        (["batch"], "bench-output", "docs/figures.md", ""),
    ]


@pytest.mark.parametrize("wrong", [["--size", "0"], ["--size", "33"], ["mta", "nothing"]])
def test_wrong_options_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(wrong)
    assert f"{wrong[-1]!r}" in capsys.readouterr().err.splitlines()[-1]


def test_a_missing_library_is_named_with_what_installs_it() -> None:
    code = "import sys; sys.modules['matplotlib'] = None\n"
    code += "from benchmarks.__main__ import main; sys.exit(main(['batch']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "python -m benchmarks: needs matplotlib: pip install --editable '.[bench]'\n"
    )
