"""An experiment's files: its rows as CSV, and beside them what they were measured with."""

from __future__ import annotations

import csv
import json
import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.report.experiment import Row, Rows
from mta import __version__
from mta.cli.commands import installed
from mta.kernels import native

PACKAGES = (
    "numpy", "pandas", "polars", "bottleneck", "duckdb", "river", "quixstreams",
    "pyspark",
)  # fmt: skip


def settings(size: float) -> dict[str, Any]:
    """What must be the same for rows to be taken as they are."""
    return {
        "size": size,
        "python": platform.python_version(),
        "packages": packages(),
        "kernels": native.in_use(),
    }


def packages() -> dict[str, str]:
    """Our version, and those of the peers that are installed."""
    return {"mta": __version__} | {p: found for p in PACKAGES if (found := installed(p))}


def machine() -> str:
    """The processor and its cores, as the report names them, and how many this process may use."""
    model = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        names = [line for line in cpus.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(": ")[2] if names else model
    allowed = f"{len(os.sched_getaffinity(0))} of " if hasattr(os, "sched_getaffinity") else ""
    return f"{allowed}{os.cpu_count()} cores of {model}, {platform.system()} {platform.release()}"


def same_columns(rows: Rows) -> Rows:
    """The rows with every column that any of them has; None where a row has it not."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return [{column: row.get(column) for column in columns} for row in rows]


def write_rows(path: Path, rows: Rows) -> None:
    """Write a table, whole or not at all."""
    rows = same_columns(rows)
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    new.replace(path)


def read_rows(path: Path) -> Rows:
    """A table as it was written; an empty cell is None."""
    with path.open(newline="") as file:
        return [_read(row) for row in csv.DictReader(file)]


def _read(row: dict[str, str]) -> Row:
    return {key: _value(cell) for key, cell in row.items()}


def _value(cell: str) -> Any:
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(cell, cell)


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Say that a table is finished, and what it was measured with."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(record, indent=1))
    new.replace(path)


def read_record(path: Path) -> dict[str, Any] | None:
    """What a finished table was measured with; None where there is none that can be read."""
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record
