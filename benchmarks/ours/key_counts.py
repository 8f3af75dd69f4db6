"""The cost of the number of keys: a stream of a hundred to ten million keys, on local disk.

All keys are equally frequent, with about twenty events in the window. A single ``KeyedWindows`` has
all keys, so its snapshot is larger than that of a bucket in Spark. Once the windows are full,
batches of random keys are timed, each restored from the previous snapshot and saved as a snapshot.
Each number of keys runs in a separate process.

Each batch that fills the windows contains all events of some keys, so it reads no earlier events.
These batches have the same size, and their number is a power of two: the last one merges all runs
into one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from time import perf_counter, process_time

import numpy as np
from matplotlib.figure import Figure

from benchmarks.ours.memory import MIB
from benchmarks.ours.resident import anonymous
from benchmarks.report.experiment import Experiment, Finding, Progress, Row, Rows, distinct
from benchmarks.report.plots import lines
from mta import KeyedWindows, Max, TimeWindow
from stores import open_store
from stores.testing.counting import CountingStore

LARGEST, BATCH, IN_WINDOW = 10**7, 100_000, 20
#: The bytes of an event (an eight-byte key, a time and a value), and the most of a snapshot.
EVENT_BYTES, ROOT = 24, 1 << 16
#: The most rows per batch while windows are filled.
_FILLED = 1 << 22
#: The fewest timed batches, which include merges of four runs of three sizes; and the most, which
#: replace all events of a million keys once.
_FEWEST, _MOST = 64, 200
#: The columns in the plot, and their descriptions.
_DRAWN = {
    "rows_per_second": "rows per second and core",
    "written": "bytes written per byte of events",
    "snapshot": "bytes of the snapshot",
    "restart_ms": "ms to restore and take in a batch",
}


def key_counts(size: float, progress: Progress) -> Rows:
    """Measure a row for each number of keys."""
    largest = int(LARGEST * size)
    counts = [10**power for power in range(2, 8) if 10**power <= largest] or [largest]
    batch = min(BATCH, 10 * largest)

    def measure(keys: int) -> Rows:
        return [stream(keys, batch)]

    return progress.rows(counts, measure, lambda keys: f"{keys:,} keys")


def stream(keys: int, batch: int) -> Row:
    """Measure batches over full windows in a separate process."""
    command = [sys.executable, "-m", "benchmarks.ours.key_counts", str(keys), str(batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Row = json.loads(done.stdout)
    return found


def _streamed(keys: int, batch: int) -> Row:
    random, now = np.random.default_rng(1), keys * IN_WINDOW  # seconds: one event per second
    length, parts = TimeWindow(now), 1 << (now // _FILLED).bit_length()
    count = max(_FEWEST, now // batch if now // batch <= _MOST else 0)
    batches = [random.integers(0, keys, batch) for _ in range(count)]
    started = anonymous()
    with tempfile.TemporaryDirectory() as folder:
        disk = open_store(f"file://{folder}")
        store = CountingStore(disk)
        pattern, snapshot = KeyedWindows(Max(), length, store, "bench"), b""

        def take_in(some: np.ndarray, seconds: np.ndarray) -> None:
            nonlocal snapshot
            windows = pattern.restore_like(snapshot) if snapshot else pattern
            windows.extend(some, random.random(len(some)), seconds.astype("M8[s]"))
            snapshot = windows.checkpoint(wait=False)

        rounds = np.arange(IN_WINDOW)[:, None] * keys
        for some in np.array_split(np.arange(keys), parts):
            take_in(np.tile(some, IN_WINDOW), (rounds + some).ravel())
        store.flush()
        store.reset()
        began, worked = perf_counter(), process_time()
        for some in batches:
            take_in(some, np.arange(now, now + batch))
            now += batch
        store.flush()
        worked, passed = process_time() - worked, perf_counter() - began
        rows, counts = count * batch, store.counts
        memory = anonymous() - started
        disk.close()
        began = perf_counter()
        with open_store(f"file://{folder}") as again:
            windows = KeyedWindows.restore(snapshot, again, aggregations=Max(), window=length)
            windows.extend(batches[0], random.random(batch), np.full(batch, now).astype("M8[s]"))
            windows.checkpoint()
            restart = perf_counter() - began
    return {
        "keys": keys,
        "batch": batch,
        "batches": count,
        "rows_per_second": round(rows / worked),
        "batch_ms": round(1e3 * passed / count, 1),
        "written": round((counts.put.bytes + len(snapshot) * count) / (rows * EVENT_BYTES), 2),
        "read": round(counts.get.pages / rows, 3),
        "snapshot": len(snapshot),
        "restart_ms": round(1e3 * restart, 1),
        "memory_mib": round(memory / MIB, 1),
    }


def found(rows: Rows) -> list[Finding]:
    """Return the limits for each number of keys, and the most keys compared with a tenth."""
    many = rows[-1]
    findings = [
        Finding(f"{name}, at most", f"{limit:,}", f"{most:,}", most <= limit)
        for name, limit, most in (
            ("size of a snapshot in bytes", ROOT, max(row["snapshot"] for row in rows)),
            ("bytes written per byte of events", 5, max(row["written"] for row in rows)),
        )
    ]
    if len(distinct(rows, "keys")) > 1:
        tenth = rows[-2]
        ratio = many["batch_ms"] / tenth["batch_ms"]
        what = f"a batch of {many['batch']:,} rows with {many['keys']:,} keys"
        seen = f"{many['batch_ms']:,} ms, {ratio:.2f} times"
        beside = f"{tenth['batch_ms']:,} ms with {tenth['keys']:,} keys"
        findings.append(Finding(what, beside, seen))
    return findings


def draw(rows: Rows) -> Figure:
    """Draw a panel for each column, over the number of keys."""
    points = [
        {"keys": row["keys"], "what": what, "found": row[name], "algorithm": "KeyedWindows"}
        for name, what in _DRAWN.items()
        for row in rows
    ]
    figure = lines(points, "keys", "found", ("keys", ""), panel="what")
    for axes in figure.axes:
        axes.set_xscale("log", base=10)
    return figure


EXPERIMENTS = (
    Experiment(
        "key_counts", "The number of keys",
        "our own",
        "A batch writes only what it changed, and a snapshot is small for any number of keys.",
        "`KeyedWindows` with `Max` by time and pages on local disk. Each key has about "
        f"{IN_WINDOW} events, and batches have {BATCH:,} rows of random keys. Each batch restores "
        "the previous snapshot and saves a new one. Rows per second are per core, from the "
        "processor time of all threads. `written` is in bytes per byte of events, `read` is in "
        "pages per row, `snapshot` is in bytes, and `restart` is the time of a restore and one "
        f"batch. Up to a million keys, the batches replace all events at least once. With more "
        f"keys, {_FEWEST} batches replace a part of them: they include no merge of all runs, which "
        "occurs about once per window and writes each event once.",
        key_counts, {"keys": draw}, found, quick=0.01,
        columns=("keys", "rows_per_second", "batch_ms", "written", "read", "snapshot",
                 "restart_ms", "memory_mib"),
        captions={
            "keys": "The number of keys, and of events, grows from left to right. A flat line is "
            "best. With few keys, each key has many rows in a batch. With many keys, each has at "
            "most one row, for which it is looked up and written.",
        },
    ),
)  # fmt: skip


if __name__ == "__main__":
    json.dump(_streamed(*map(int, sys.argv[1:])), sys.stdout)
