"""Kill it, start it again, compare.

A worker keeps a window on local disk, one checkpoint a batch: the batch's results into a file, then
the window's snapshot into another. This script kills the worker at random moments, as a power
failure or the kernel would (SIGKILL), and starts it again. The new worker reads its snapshot, some
kilobytes, and goes on from the position that stands in it; nothing is replayed but the batch that
was in work. At the end every result is compared with pandas, as though nothing had happened.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mta import CountWindow, Max, Mean, Product, Window
from stores import open_store
from stores.testing import CountingStore

PRICE = Product({"high": ("price", Max()), "mean": ("price", Mean())})


def prices(start: int, count: int) -> np.ndarray:
    """Trades from this position on: a source that can be read again, as a log can."""
    position = np.arange(start, start + count)
    noise = np.random.default_rng(start).normal(0, 0.05, count)
    return 100 + 10 * np.sin(position / 40_000) + noise


def write(path: Path, data: bytes) -> None:
    """A file that is there whole or not at all."""
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    new.replace(path)


def work(folder: Path, size: int, events: int, batch: int) -> None:
    """The worker: from the last snapshot to the end of the stream."""
    began = time.perf_counter()
    store, snapshot = CountingStore(open_store(f"file://{folder}/pages")), folder / "snapshot"
    if snapshot.exists():
        saved = snapshot.read_bytes()
        window = Window.restore(saved, store)
        high = window.query()["high"]  # nothing has to be read for it
        took, pages = 1000 * (time.perf_counter() - began), store.counts.get.pages
        print(f"  restored {len(window):,} events from a snapshot of {len(saved):,} bytes ", end="")
        print(f"and {pages} pages in {took:.1f} ms: high {high:.2f}", flush=True)
    else:
        window = Window(PRICE, CountWindow(size), store, "trades")
        print("  an empty window", flush=True)
    while (position := window.stats().inserted) < events:
        results = window.extend({"price": prices(position, batch)})
        write(folder / f"results-{position:012}", np.stack([*results.values()]).tobytes())
        write(snapshot, window.checkpoint())
        print(f"at {window.stats().inserted:,}", flush=True)
    store.close()


def until_killed(command: list[str], patience: int | None) -> str:
    """Start the worker, and kill it once it has done so many batches; its last line."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        print(worker.stdout.readline(), end="")
        lines = []
        for line in worker.stdout:
            lines.append(line.strip())
            if len(lines) == patience:
                time.sleep(random.uniform(0, 0.01))  # anywhere in the next batch
                worker.kill()
                break
    if patience is None and worker.returncode:
        raise SystemExit(f"the worker failed with {worker.returncode}")
    return lines[-1] if lines else "before its first batch"


def compare(folder: Path, size: int, events: int, batch: int) -> None:
    """All results of all lives against pandas."""
    import pandas as pd

    parts = [np.frombuffer(path.read_bytes()) for path in sorted(folder.glob("results-*[0-9]"))]
    results = np.concatenate([part.reshape(2, -1) for part in parts], axis=1)
    source = np.concatenate([prices(start, batch) for start in range(0, events, batch)])
    rolling = pd.Series(source).rolling(size, min_periods=1)
    np.testing.assert_array_equal(results[0], rolling.max())
    np.testing.assert_allclose(results[1], rolling.mean(), rtol=1e-9)
    print(f"all {results.shape[1]:,} results equal pandas: high to the bit, mean to 1e-9")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=1_000_000, help="events in the window")
    parser.add_argument("--events", type=int, default=3_000_000, help="events in all")
    parser.add_argument("--batch", type=int, default=50_000, help="events between checkpoints")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    batch, events = options.batch, -(-options.events // options.batch) * options.batch
    if options.worker:
        work(options.worker, options.window, events, batch)
        return
    sizes = ["--window", str(options.window), "--events", str(events), "--batch", str(batch)]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sizes, "--worker", folder]
        most = max(1, events // batch // (options.kills + 1))
        for _ in range(options.kills):
            print(f"killed {until_killed(command, random.randint(1, most))}")
        print(f"the end: {until_killed(command, None)}")
        compare(Path(folder), options.window, events, batch)


if __name__ == "__main__":
    main()
