"""``rolling`` compared with polars' streaming engine, from one Parquet file to another.

Each side computes the maximum and the sum of the last day for every row, in a separate process, in
turns. The files that the sides write must be equal.

- polars reads lazily and writes with ``engine="streaming"``. It streams ``rolling`` without a key;
  with a key (``group_by=``), and as an expression, it collects the columns first.
- ``rolling`` holds the table, and the events in memory or, with ``store=``, on disk.
- ``KeyedWindows``, or a ``Window`` without a key, take one batch of the file after the other, with
  the events on disk. Neither the table nor the windows are in memory.

The peak of anonymous memory is sampled from outside every 5 ms; a process that has only imported
the libraries is measured the same way, and subtracted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np

from benchmarks.report.beside import Figure, beside
from mta import KeyedWindows, Max, Product, Sum, TimeWindow, Window, rolling

ROWS, KEYS, ROUNDS = 10_000_000, 1000, 3
#: Rows per batch of ``KeyedWindows``, and per row group of the file.
BATCH = 1 << 18
DAYS, DAY, MIB = 60, 86_400_000_000, 1 << 20
AGGREGATIONS = {"peak": ("v", Max()), "total": ("v", Sum())}
WINDOW = TimeWindow("1 day", closed="both")
SORTED = {"keyed": ["k", "t"], "one": ["t"]}


def write(path: Path, rows: int) -> None:
    """Write rows in the order of their distinct times; values are whole, so sums are exact."""
    import polars as pl

    random, step = np.random.default_rng(1), DAYS * DAY // rows
    times = np.arange(rows) * step + random.integers(0, step, rows)
    table = {
        "k": random.integers(0, KEYS, rows),
        "t": times.astype("M8[us]"),
        "v": random.integers(0, 1_000_000, rows).astype("f8"),
    }
    pl.DataFrame(table).write_parquet(path, row_group_size=BATCH)


# --- the sides, each in a process -----------------------------------------------------------------


def in_memory(source: Path, sink: Path, keyed: bool, store: Path | None = None) -> None:
    """Run ``rolling`` over the whole table."""
    import polars as pl

    how: dict[str, Any] = {"by": "k"} if keyed else {}
    rows = pl.read_parquet(source)
    found = rolling(rows, on="t", window=WINDOW, aggregations=AGGREGATIONS, store=store, **how)
    found.write_parquet(sink)


def with_store(source: Path, sink: Path, keyed: bool) -> None:
    """Run ``rolling`` over the whole table, with the events on disk."""
    with tempfile.TemporaryDirectory() as store:
        in_memory(source, sink, keyed, Path(store))


def in_batches(source: Path, sink: Path, keyed: bool) -> None:
    """Run windows with the events on disk, over one batch after the other."""
    import pyarrow as pa
    from pyarrow import parquet

    with tempfile.TemporaryDirectory() as store, parquet.ParquetFile(source) as file:
        how: dict[str, Any] = {"store": Path(store), "name": "rows"}
        windows: Any = (KeyedWindows if keyed else Window)(Product(AGGREGATIONS), WINDOW, **how)
        schema = file.schema_arrow
        for name in AGGREGATIONS:
            schema = schema.append(pa.field(name, pa.float64()))
        with parquet.ParquetWriter(sink, schema) as writer:
            for batch in file.iter_batches(BATCH):
                values, times = {"v": batch["v"].to_numpy()}, batch["t"].to_numpy()
                found = windows.extend(*(batch["k"].to_numpy(),) * keyed, values, times)
                columns = [*batch.columns, *(pa.array(found[name]) for name in AGGREGATIONS)]
                writer.write_table(pa.table(columns, schema=schema))
        windows.close()


def polars_rolling(source: Path, sink: Path, keyed: bool) -> None:
    """Run polars' ``rolling`` lazily, and write with its streaming engine."""
    import polars as pl

    how: dict[str, Any] = {"group_by": "k"} if keyed else {}
    value = pl.col("v")
    columns = [value.max().alias("peak"), value.sum().alias("total")]
    columns += [value.last()] if keyed else [value.last(), pl.col("k").last()]
    rows = pl.scan_parquet(source).rolling("t", period="1d", closed="both", **how).agg(columns)
    rows.sink_parquet(sink, engine="streaming")


def polars_expressions(source: Path, sink: Path, keyed: bool) -> None:
    """Run polars' ``rolling_max_by`` and ``rolling_sum_by``, written by its streaming engine."""
    import polars as pl

    columns = {
        "peak": pl.col("v").rolling_max_by("t", "1d", closed="both"),
        "total": pl.col("v").rolling_sum_by("t", "1d", closed="both"),
    }
    over = {name: column.over("k") if keyed else column for name, column in columns.items()}
    pl.scan_parquet(source).with_columns(**over).sink_parquet(sink, engine="streaming")


def nothing(source: Path, sink: Path, keyed: bool) -> None:
    """Only import the libraries."""
    import polars
    import pyarrow.parquet

    del source, sink, keyed, polars, pyarrow


SIDES: dict[str, Callable[[Path, Path, bool], None]] = {
    "imports": nothing,
    "rolling": in_memory,
    "rolling, store on disk": with_store,
    "batches, on disk": in_batches,
    "polars, rolling": polars_rolling,
    "polars, rolling_max_by": polars_expressions,
}
OURS = ("rolling", "rolling, store on disk", "batches, on disk")
PEERS = ("polars, rolling", "polars, rolling_max_by")


# --- the measurement ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The seconds of a run without imports, and its peak of anonymous memory in bytes."""

    seconds: float
    peak: int


def measure(name: str, source: Path, sink: Path, keyed: bool) -> Measured:
    """Run a side in a separate process."""
    command = [sys.executable, "-m", "benchmarks.ours.streaming", name, str(source), str(sink)]
    process = subprocess.Popen([*command, str(int(keyed))], stdout=subprocess.PIPE, text=True)
    status, peak = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        lines = status.read_text().splitlines()
        peak = max([peak, *(1024 * int(line.split()[1]) for line in lines if "RssAnon" in line)])
        sleep(0.005)
    assert process.stdout is not None
    with process.stdout as output:
        printed = output.read()
    if process.returncode:
        raise RuntimeError(f"{name} failed with exit code {process.returncode}")
    return Measured(json.loads(printed), peak)


def compare(rows: int, keyed: bool, folder: Path, source: Path, rounds: int) -> list[Figure]:
    """Measure all sides in turns, and compare what they write."""
    taken: dict[str, list[Measured]] = {name: [] for name in SIDES}
    for _ in range(rounds):
        for name, found in taken.items():
            sink = folder / f"{name}.parquet"
            found.append(measure(name, source, sink, keyed))
            if name not in ("imports", "rolling"):
                require_equal(name, folder / "rolling.parquet", sink, keyed)
                sink.unlink()
    bare = min(one.peak for one in taken["imports"])
    seconds = {name: median(one.seconds for one in found) for name, found in taken.items()}
    peaks = {name: max(one.peak for one in found) - bare for name, found in taken.items()}
    what = f"{rows:,} rows, " + (f"{KEYS:,} keys" if keyed else "without a key")
    shown = {
        name: f"{1e9 * seconds[name] / rows:,.0f} ns, {peaks[name] / MIB:,.0f} MiB"
        for name in (*OURS, *PEERS)
    }
    peers = "; ".join(f"{shown[peer]}, {peer}" for peer in PEERS)
    fastest = min(seconds[peer] for peer in PEERS)
    return [Figure(f"{what}: {ours}", shown[ours], peers, seconds[ours] / fastest) for ours in OURS]


def require_equal(name: str, expected: Path, found: Path, keyed: bool) -> None:
    """Raise AssertionError unless two files have the same rows, in any order."""
    import polars as pl

    order = SORTED["keyed" if keyed else "one"]
    columns = ["k", "t", "v", *AGGREGATIONS]
    some, others = (pl.read_parquet(path).select(columns).sort(order) for path in (expected, found))
    assert some.equals(others), f"{name} writes other rows than rolling"


def run(size: float) -> list[Figure]:
    """Measure windows with and without a key."""
    import polars  # noqa: F401 (without it, the experiment is skipped by name)

    rows = max(1000, int(ROWS * size))
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source.parquet"
        write(source, rows)
        for keyed in (True, False):
            figures += compare(rows, keyed, folder, source, ROUNDS if size >= 1 else 1)
    return figures


EXPERIMENTS = (
    beside(
        "polars",
        "polars' streaming engine",
        "The maximum and the sum of the last day for each row, from one Parquet file to another, "
        "for 10,000,000 rows of 60 days. Elapsed time per row, and the peak of anonymous memory "
        "above that of the imports; the ratio is that of the times to the faster query of polars, "
        "which uses both cores, while mta-windows uses one. The files that the sides write "
        'are equal. polars writes lazily with `engine="streaming"`: it streams `rolling` without a '
        "key, and collects the columns for a key (`group_by=`, `over`) and for `rolling_max_by`.",
        run,
        0.02,
        better="below 1",
    ),
)


if __name__ == "__main__":
    side, *paths = sys.argv[1:4]
    nothing(Path(), Path(), keyed=False)
    began = perf_counter()
    SIDES[side](Path(paths[0]), Path(paths[1]), bool(int(sys.argv[4])))
    json.dump(perf_counter() - began, sys.stdout)
