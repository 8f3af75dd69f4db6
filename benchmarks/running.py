"""Run experiments, and write a CSV, a record and plots for each, and a report, to a folder.

    mta_latency.csv   mta_latency.json   mta_latency.figure_6.png   mta_latency.figure_6.svg
    report.html

The record (JSON) is written last, and describes the settings of the measurement. An experiment runs
again only if the current settings differ. Experiments that are measured in cells have a journal
(``mta_latency.cells``): after an interruption, or when cells were added, only the missing cells are
measured. Every run draws the plots and the report again from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.registry import EXPERIMENTS, OURS, PAPERS
from benchmarks.report.experiment import (
    Done,
    Experiment,
    Finding,
    Journal,
    Progress,
    Rows,
    sizes,
    spent,
)
from benchmarks.report.figures import write_figures
from benchmarks.report.html import MARKS, write_report
from benchmarks.report.markdown import write_page
from benchmarks.report.plots import style
from benchmarks.report.tables import (
    machine,
    read_record,
    read_rows,
    same_columns,
    settings,
    write_record,
    write_rows,
)
from mta.cli.console import say, table
from mta.kernels import native

#: Names of sizes that each experiment defines: a few minutes in total, and the paper's scale.
QUICK, FULL = "quick", "full"


class Bench:
    """A folder of experiments at one size, or at a named size that each defines."""

    def __init__(self, folder: Path, size: float | str, fresh: bool = False) -> None:
        self.folder, self._size, self._fresh = folder, size, fresh
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, name: str) -> Done:
        """Measure one experiment, or use existing rows, and draw its plots."""
        experiment = load(name)
        own = {QUICK: experiment.quick, FULL: experiment.full}
        size = float(own[self._size] if isinstance(self._size, str) else self._size)
        record = (not self._fresh and read_record(self._record(name))) or {}
        known = all(record.get(key) == value for key, value in settings(size).items())
        if known and not self._journal(name).exists() and (done := self._drawn(experiment, record)):
            say(f"{name}: measured already, {record['finished']} (--fresh measures it again)")
            return done
        return self.draw(experiment, self._measure(experiment, size))

    def finished(self, name: str) -> Done | None:
        """Return an experiment that an earlier run has finished."""
        record = read_record(self._record(name))
        return None if record is None else self._drawn(load(name), record)

    def started(self, name: str) -> Done | None:
        """Return an unfinished experiment with the cells measured so far."""
        known, cells = Journal.read(self._journal(name))
        if known is None or not cells:
            return None
        record = settings(known["size"]) | known | {"machine": machine()} | spent(cells.values())
        rows = [row for cell in cells.values() for row in cell.rows]
        record["cells"] = len(cells)
        return self._drawn(load(name), record, same_columns(rows))

    def _drawn(
        self, experiment: Experiment, record: dict[str, Any], rows: Rows | None = None
    ) -> Done | None:
        """Draw like ``draw``; return None if there are too few rows, or of another version."""
        try:
            return self.draw(experiment, record, rows)
        except Exception as error:
            say(
                f"{experiment.name}: rows of {record['finished']} cannot be shown, as they are too "
                f"few, or of another version ({error!r})"
            )
            return None

    def draw(
        self, experiment: Experiment, record: dict[str, Any], rows: Rows | None = None
    ) -> Done:
        """Return the plots and findings of rows, by default those of the table."""
        rows = read_rows(self._table(experiment.name)) if rows is None else rows
        plots = []
        for figure, draw in experiment.plots.items():
            path = self.folder / f"{experiment.name}.{figure}.svg"
            with style():
                drawn = draw(rows)
                for file in (path, path.with_suffix(".png")):
                    drawn.savefig(file, dpi=130, metadata=None if file != path else UNDATED)
                    drawn.set_layout_engine("none")  # lay out once, for both files
            plots.append(path)
        return Done(experiment, rows, record, plots, experiment.findings(rows))

    def _measure(self, experiment: Experiment, size: float) -> dict[str, Any]:
        self._record(experiment.name).unlink(missing_ok=True)
        path = self._journal(experiment.name)
        if self._fresh:
            path.unlink(missing_ok=True)
        # Cells take hours, and papers' experiments do not depend on the versions of libraries.
        journal = Journal(path, {"size": size, "kernels": native.in_use()})
        progress = Progress(experiment.name, journal)
        rows = experiment.run(size, progress)
        progress.end()
        write_rows(self._table(experiment.name), rows)
        record = settings(size) | {"machine": machine()} | progress.record()
        write_record(self._record(experiment.name), record)
        return record

    def _journal(self, name: str) -> Path:
        return self.folder / f"{name}.cells"

    def _table(self, name: str) -> Path:
        return self.folder / f"{name}.csv"

    def _record(self, name: str) -> Path:
        return self.folder / f"{name}.json"


#: Without dates, equal rows give equal files.
UNDATED = {"Date": None, "Creator": None}


def load(name: str) -> Experiment:
    """Return an experiment by its name."""
    module = import_module(f"benchmarks.{EXPERIMENTS[name]}")
    found: dict[str, Experiment] = {one.name: one for one in module.EXPERIMENTS}
    return found[name]


def chosen(names: Sequence[str]) -> list[str]:
    """Return the experiments with these names, or with names that start with them."""
    if not names:
        return list(EXPERIMENTS)
    own, parts = EXPERIMENTS.keys() & names, tuple(f"{name}_" for name in {*names} - {*EXPERIMENTS})
    return [one for one in EXPERIMENTS if one in own or one.startswith(parts)]


def bench(
    names: Sequence[str],
    size: float | str = 1.0,
    folder: str = "bench-output",
    fresh: bool = False,
) -> int:
    """Run the named experiments, all by default, print what they find, and write the report.

    ``size`` scales the events and windows, or is ``QUICK`` or ``FULL``. The report also contains
    experiments that earlier runs finished in this folder. If an experiment fails, its error is
    printed, the others continue, and the exit code is 1. Experiments that were not named are
    skipped if their library is not installed.
    """
    runs, done, failed = Bench(Path(folder), size, fresh), {}, []
    for name in chosen(names):
        try:
            done[name] = runs.run(name)
        except ModuleNotFoundError as error:
            say(f"{name} is left out of the report: it needs {error.name}, which is missing\n")
            failed += [name] if names else []
            continue
        except Exception as error:
            failed.append(name)
            say(f"{name} failed and is left out of the report: {type(error).__name__}: {error}\n")
            continue
        say(f"== {name}: {done[name].experiment.title}")
        say(f"Size {done[name].record['size']:g}: {sizes(done[name].rows)}")
        say(printed(done[name].findings))
        say()
    others = [runs.finished(name) for name in EXPERIMENTS if name not in [*done, *failed]]
    for one in others:
        if one is not None:
            done[one.experiment.name] = one
    path = write_report(Path(folder), [done[name] for name in EXPERIMENTS if name in done])
    say(f"Kernels in use: {native.in_use()}.")
    say(f"The report is {path}, with CSV files and plots beside it.")
    if failed:
        say(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


def write_report_page(names: Sequence[str], folder: str, page: str, note: str = "") -> int:
    """Write the page of the papers' experiments, and its plots in a folder next to it.

    Measures nothing. Shows the existing rows of unfinished experiments, and lists experiments
    without rows. Returns the exit code.
    """
    return _write_page(chosen(names) if names else list(PAPERS), folder, page, note, write_page)


def write_figures_page(names: Sequence[str], folder: str, page: str, note: str = "") -> int:
    """Write the page of this project's experiments; see ``write_report_page``."""
    return _write_page(chosen(names) if names else list(OURS), folder, page, note, write_figures)


def _write_page(
    names: Sequence[str],
    folder: str,
    page: str,
    note: str,
    write: Callable[[Path, Sequence[Done], str], None],
) -> int:
    runs = Bench(Path(folder), FULL)
    found = {name: runs.finished(name) or runs.started(name) for name in names}
    done = [one for one in found.values() if one is not None]
    if not done:
        say(f"{folder} has no rows of these experiments")
        return 1
    write(Path(page), done, note)
    if missing := [name for name, one in found.items() if one is None]:
        say(f"Not measured: {', '.join(missing)}.")
    say(f"The page is {page}, of {len(done)} experiments.")
    return 0


def printed(findings: Sequence[Finding]) -> str:
    """Return findings as a table of text."""
    rows = [(one.what, one.seen, one.paper, MARKS[one.agrees]) for one in findings]
    return table(("", "seen", "paper or peer", ""), rows)
