"""A vibration sensor on a device with 64 MB of memory and a flash disk.

3,200 readings a second; after each one the peak and the mean of the last hours of them. The window
lies in a folder; memory holds a few megabytes of it however long it is. Stop the script when you
like: with ``--folder`` it goes on where its last checkpoint was.
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
    """The size of the acceleration, in g; a batch can be made again, as the oracle will."""
    random = np.random.default_rng(batch)
    seconds = (np.arange(BATCH) + batch * BATCH) / RATE
    wear = 1 + 0.5 * np.sin(seconds[0] / 900)
    shaft = 0.3 * wear * np.sin(2 * np.pi * 29.2 * seconds)
    knocks = (random.random(BATCH) < 1e-5) * random.exponential(3, BATCH)
    noise = 0.05 * random.standard_normal(BATCH)
    return np.asarray(np.abs(shaft + noise + knocks))


def open_window(folder: Path, size: int) -> Window:
    """The window as its last checkpoint left it, or a new one."""
    policy, store, snapshot = CountWindow(size), f"file://{folder}/pages", folder / "snapshot"
    if snapshot.exists():
        return Window.restore(snapshot.read_bytes(), PEAK_AND_MEAN, policy, store)
    return Window(PEAK_AND_MEAN, policy, store, "vibration")


def save(window: Window, folder: Path) -> None:
    """Keep the snapshot in a file that is either the old one or the new one, whatever happens."""
    new = folder / "snapshot.new"
    with new.open("wb") as file:
        file.write(window.checkpoint())
        os.fsync(file.fileno())
    new.replace(folder / "snapshot")


def run(folder: Path, size: int, events: int) -> tuple[int, dict[str, np.ndarray]]:
    """Take so many readings more; return the position after them, and the last batch's results."""
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
    """One line: what the window says, and what it costs."""
    disk = sum(512 * file.stat().st_blocks for file in folder.rglob("*") if file.is_file())
    print(
        f"{window.stats().inserted:>13,} readings  peak {results['peak'][-1]:6.2f} g  "
        f"mean {results['mean'][-1]:.4f} g  memory {anonymous(os.getpid()) / MIB:5.1f} MiB  "
        f"disk {disk / MIB:7.1f} MiB  {pace:4.0f} ns a reading",
        flush=True,
    )


def anonymous(process: int) -> int:
    """Bytes of a process that the kernel cannot drop (Linux)."""
    return memory_of(process, "RssAnon")


def memory_of(process: int, kind: str) -> int:
    """Bytes of one kind of a process's memory, 0 once it has ended (Linux)."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith(kind)), 0)


def compare(size: int, position: int, results: dict[str, np.ndarray]) -> None:
    """The last batch's results against numpy, which makes the readings of the window again.

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
    parser.add_argument("--events", type=int, default=1 << 22, help="readings to take")
    parser.add_argument("--folder", type=Path, help="where the window lies, to go on with it later")
    options = parser.parse_args()
    if options.window < BATCH:
        parser.error(f"--window must be at least {BATCH:,}, the size of a batch")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        compare(options.window, *run(folder, options.window, options.events))


if __name__ == "__main__":
    main()
