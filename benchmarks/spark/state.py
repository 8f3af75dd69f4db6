"""Pages in Spark's own state compared with pages on local disk: costs of checkpoints and restarts.

Each side is a query over the same files, in two processes. The first process fills the windows. The
second continues the query with smaller batches, so its first batch loads the state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report.beside import Figure, draw, findings
from benchmarks.report.experiment import Experiment, Progress, Rows
from mta import CountWindow, Max
from mta.cli.console import say
from mta.cli.snapshots import disk_bytes
from mta.windows.display import human_bytes
from spark_integration import sliding_aggregate
from spark_integration.cli.demo import write_stream
from spark_integration.options import Emit
from spark_integration.runners.state_pages import URL
from spark_integration.session import local_session

#: The doubles in windows of 40 MB and of 1 GB, of all keys together.
SMALL, LARGE = 5_000_000, 125_000_000
#: Rows per batch, and batches after the restart; smaller sizes have fewer batches.
ROWS, BATCHES, FEW_BATCHES = 250_000, 12, 3
FILES_AT_FIRST = 16
SCHEMA = "device string, ts timestamp, watts double"


def run(events: int, keys: int, size: float, progress: Progress) -> Rows:
    """Measure the same windows in Spark's state and on local disk, with the same settings."""
    del progress
    window, batch = max(int(events * size) // keys, 1), max(int(ROWS * size), 5_000)
    batches = BATCHES if size >= 1 else FEW_BATCHES
    held = human_bytes(8 * window * keys)
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder, "stream")
        # Meters that are down report fewer readings.
        wanted = int(1.1 * window * keys) + batch * batches
        rows = write_stream(stream, wanted, keys, rows_per_file=batch)
        say(f"{rows:,} events of {keys:,} keys; the windows hold {held} of doubles")
        ours = measure(Path(folder, "ours"), stream, window, URL, batches)
        pages = Path(folder, "pages")
        peer = measure(Path(folder, "peer"), stream, window, f"file://{pages}", batches)
        peer["live"] += disk_bytes(pages)
    compared = partial(_figure, ours, peer)
    figures = [
        compared("live", f"on the workers' disk, windows of {held}", human_bytes),
        compared("checkpoint", "checkpoint, with older batches", human_bytes),
        compared("growth", "growth of the checkpoint per batch", human_bytes),
        compared("commit", "commit, per batch and task", _milliseconds),
        compared("batch", f"batch of {batch:,} rows", _milliseconds),
        compared("first", "first batch after a restart", _milliseconds),
        compared("load", "of it, loading the state, per task", _milliseconds),
    ]
    return [asdict(figure) for figure in figures]


def _figure(
    ours: dict[str, float],
    peer: dict[str, float],
    name: str,
    what: str,
    form: Callable[[float], str],
) -> Figure:
    ratio = ours[name] / peer[name] if peer[name] else None
    return Figure(what, form(ours[name]), f"{form(peer[name])}, file://", ratio)


def _milliseconds(count: float) -> str:
    return f"{count:,.0f} ms"


def measure(folder: Path, stream: Path, window: int, store: str, batches: int) -> dict[str, float]:
    """Return bytes and milliseconds of a side; times of later batches are medians."""
    files = sorted(stream.iterdir())
    fill = run_files(folder, files[:-batches], FILES_AT_FIRST, window, store, "last")
    say(f"  {store.partition('//')[0]}// filled in {sum(fill['batch']) / 1000:,.0f} s")
    then = run_files(folder, files[-batches:], 1, window, store, "all")
    return {
        "live": then["live"][-1],
        "checkpoint": then["checkpoint"],
        "growth": (then["checkpoint"] - fill["checkpoint"]) / batches,
        "commit": median(then["commit"][1:]),
        "batch": median(then["batch"][1:]),
        "first": then["batch"][0],
        "load": then["load"][0],
    }


def run_files(
    folder: Path, files: Sequence[Path], files_a_batch: int, window: int, store: str, emit: Emit
) -> dict[str, Any]:
    """Run the query over these files in a separate process, after the earlier files."""
    source = folder / "input"
    source.mkdir(parents=True, exist_ok=True)
    for path in files:
        os.link(path, source / path.name)
    arguments = json.dumps([str(folder), files_a_batch, window, store, emit])
    command = [sys.executable, "-m", "benchmarks.spark.state", arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _run_query(
    folder: Path, files_a_batch: int, window: int, store: str, emit: Emit
) -> dict[str, Any]:
    """Run the query until there are no more files; return the costs of each batch."""
    spark = local_session(cores=2, memory="4g")
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_a_batch)
    results = sliding_aggregate(
        reader.parquet(str(folder / "input")),
        by="device",
        on="ts",
        aggregations={"peak": ("watts", Max())},
        window=CountWindow(window),
        store=store,
        emit=emit,
    )
    checkpoint = folder / "checkpoint"
    writer = results.writeStream.format("noop").outputMode("append")
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    states = [progress.stateOperators[0] for progress in batches]
    tasks = states[0].numStateStoreInstances
    found = {
        "batch": [progress.batchDuration for progress in batches],
        "commit": [state.commitTimeMs / tasks for state in states],
        # Spark's default state store, which has the snapshots of file://, reports neither.
        "load": [state.customMetrics.get("rocksdbLoadLatencyMs", 0) / tasks for state in states],
        "live": [
            state.customMetrics.get("rocksdbSstFileSize", state.memoryUsedBytes) for state in states
        ],
    }
    spark.stop()
    return found | {"checkpoint": disk_bytes(checkpoint / "state")}


def _experiment(name: str, held: str, events: int, keys: int, quick: float) -> Experiment:
    return Experiment(
        name,
        f"Spark state, {held} of windows for {keys:,} keys",
        "no paper's: when to choose spark://state",
        "Pages in a separate store keep Spark's checkpoint small, whatever a window holds.",
        "The same stream with pages in `spark://state` and with pages on local disk (`file://`), "
        "in batches of 250,000 rows, each restarted in a new process. Times per batch are medians "
        "without the first batch.",
        partial(run, events, keys),
        {"ratios": draw},
        findings,
        quick,
    )


EXPERIMENTS = (
    _experiment("state_40mb", "40 MB", SMALL, 100, quick=0.02),
    _experiment("state_1gb", "1 GB", LARGE, 100, quick=0.002),
    _experiment("state_keys", "40 MB", SMALL, 10_000, quick=0.02),
)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    json.dump(_run_query(Path(given[0]), *given[1:]), sys.stdout)
