"""A vibration sensor on a device with 64 MB of memory and a flash disk.

The sensor takes 3,200 readings per second. After each one, the script knows the peak and the mean
of the last hours. The window is in a folder, and a few megabytes of it are in memory, regardless of
its length. You may stop the script: with ``--folder``, it continues from its last checkpoint.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from mta import CountWindow, Max, Mean, Product, Window

RATE = 3200
BATCH = 1 << 14
CHECKPOINT_EVERY = 1 << 20
MIB = 1 << 20
PEAK_AND_MEAN = Product({"peak": ("g", Max()), "mean": ("g", Mean())})


def readings(batch: int) -> np.ndarray:
    """Return a batch of accelerations in g; the same number always gives the same batch."""
    random = np.random.default_rng(batch)
    seconds = (np.arange(BATCH) + batch * BATCH) / RATE
    wear = 1 + 0.5 * np.sin(seconds[0] / 900)
    shaft = 0.3 * wear * np.sin(2 * np.pi * 29.2 * seconds)
    knocks = (random.random(BATCH) < 1e-5) * random.exponential(3, BATCH)
    noise = 0.05 * random.standard_normal(BATCH)
    return np.asarray(np.abs(shaft + noise + knocks))


def open_window(folder: Path, size: int) -> Window:
    """Return the window as of its last checkpoint, or a new one."""
    store, snapshot = f"file://{folder}/pages", folder / "snapshot"
    if snapshot.exists():
        return Window.restore(snapshot.read_bytes(), store)
    return Window(PEAK_AND_MEAN, CountWindow(size), store, "vibration")


def save(window: Window, folder: Path) -> None:
    """Replace the snapshot file; after a crash, it is the old one or the new one."""
    new = folder / "snapshot.new"
    with new.open("wb") as file:
        file.write(window.checkpoint())
        os.fsync(file.fileno())
    new.replace(folder / "snapshot")


def run(folder: Path, size: int, events: int) -> tuple[int, dict[str, np.ndarray]]:
    """Aggregate more readings; return the position after them and the results of the last batch."""
    window = open_window(folder, size)
    first = window.stats().inserted // BATCH
    batches = range(first, first + max(1, events // BATCH))
    print(f"{len(window):,} readings in the window, at position {window.stats().inserted:,}")
    began, every = time.perf_counter(), max(1, len(batches) // 8)
    for done, batch in enumerate(batches, 1):
        results = window.extend({"g": readings(batch)})
        if done % (CHECKPOINT_EVERY // BATCH) == 0 or done == len(batches):
            save(window, folder)
        if done % every == 0:
            pace = (time.perf_counter() - began) / (done * BATCH) * 1e9
            show(window, folder, results, pace)
    position = window.stats().inserted
    window.close()
    return position, results


def show(window: Window, folder: Path, results: dict[str, np.ndarray], pace: float) -> None:
    """Print a line with the newest results and their costs."""
    disk = sum(512 * file.stat().st_blocks for file in folder.rglob("*") if file.is_file())
    print(
        f"{window.stats().inserted:>13,} readings  peak {results['peak'][-1]:6.2f} g  "
        f"mean {results['mean'][-1]:.4f} g  memory {anonymous(os.getpid()) / MIB:5.1f} MiB  "
        f"disk {disk / MIB:7.1f} MiB  {pace:4.0f} ns a reading",
        flush=True,
    )


def anonymous(process: int) -> int:
    """Return the bytes of a process that the kernel cannot drop (Linux)."""
    return memory_of(process, "RssAnon")


def memory_of(process: int, kind: str) -> int:
    """Return the bytes of one kind of a process's memory, 0 once it has ended (Linux)."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith(kind)), 0)


def compare(size: int, position: int, results: dict[str, np.ndarray]) -> None:
    """Compare the last batch's results with numpy, over the readings of the window.

    A result covers the end of the older readings, and the beginning of the last batch. One batch is
    in memory at a time, so the comparison runs on the device too.
    """
    newest = position - BATCH
    last = readings(newest // BATCH)
    peaks, totals = np.maximum.accumulate(last), np.cumsum(last)
    starts = np.maximum(np.arange(newest, position) - size + 1, 0)
    peak, total = -np.inf, 0.0
    for batch in reversed(range(int(starts[0]) // BATCH, newest // BATCH)):
        older = readings(batch)[::-1]
        ends = np.maximum(np.maximum.accumulate(older), peak)[::-1]
        sums = (np.cumsum(older) + total)[::-1]
        here = starts // BATCH == batch
        at = starts[here] - batch * BATCH
        peaks[here] = np.maximum(peaks[here], ends[at])
        totals[here] += sums[at]
        peak, total = ends[0], sums[0]
    counts = np.arange(newest, position) - starts + 1
    np.testing.assert_array_equal(results["peak"], peaks)
    np.testing.assert_allclose(results["mean"], totals / counts, rtol=1e-9)
    print(f"the last {BATCH:,} results equal numpy's: peak to the bit, mean to 1e-9")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=1 << 20, help="readings in the window")
    parser.add_argument("--events", type=int, default=1 << 22, help="number of readings")
    parser.add_argument("--folder", type=Path, help="the folder of the window, to continue later")
    options = parser.parse_args()
    if options.window < BATCH:
        parser.error(f"--window must be at least {BATCH:,}, the size of a batch")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        compare(options.window, *run(folder, options.window, options.events))


if __name__ == "__main__":
    main()
