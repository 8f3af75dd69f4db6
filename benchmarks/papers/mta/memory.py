"""The MTA paper's Experiment 4: how large a window grows within a limit of memory.

Each run is a process of its own, which limits its data (``RLIMIT_DATA``: what the kernel cannot
drop; the mapped file of the local store is not counted) to so many MiB more than the bare
interpreter with its imports has, and inserts until there is no memory, or the capacity is reached.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import random
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.report.experiment import (
    Experiment,
    Finding,
    Progress,
    Rows,
    distinct,
    points,
    where,
)
from benchmarks.report.fits import shape
from benchmarks.report.plots import lines
from mta import CountWindow, Max, Monoid, TimeWindow, Window
from mta.algorithms import (
    DABA,
    AmortizedMTA,
    FiBA,
    InOrderAggregator,
    LogMTA,
    RecalculateFromScratch,
    TwoStacks,
)
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.base import Aggregator

CAPACITY, BATCH = 2**25, 2**14
LIMITS = (16, 24, 32, 48, 64, 96, 128, 256, 512)
MIB = 1 << 20
#: A run that has not reached its end by then is stopped where it is.
SECONDS, STUCK = 60, "out of time"
#: What the system says where Python has no MemoryError.
NEEDS_MEMORY = ("Cannot allocate memory", "can't start new thread")

#: Takes so many events more.
Feed = Callable[[int], object]
Open = Callable[[int, str], Feed]


def plain(build: type[InOrderAggregator]) -> Open:
    """A window of Python floats, which stand alone as in the paper's Java objects do."""

    def opened(capacity: int, folder: str) -> Feed:
        window = build(Monoid(float("-inf"), max, name="max"))

        def feed(count: int) -> None:
            for _ in range(count):
                window.insert(random())

        return feed

    return opened


def reactive(capacity: int, folder: str) -> Feed:
    """The Reactive Aggregator, of doubles in arrays."""
    window = ReactiveAggregator(Max(), fifo=True)
    return lambda count: window.bulk_insert(np.random.random(count), count)


def windowed(kind: type[Aggregator], on_disk: bool) -> Open:
    """A window of this project, of doubles in arrays."""

    def opened(capacity: int, folder: str) -> Feed:
        frame = TimeWindow(capacity) if kind is FiBA else CountWindow(capacity)
        store = f"file://{folder}" if on_disk else None
        window = Window(Max(), frame, store, aggregator=kind)
        now = 0

        def feed(count: int) -> None:
            nonlocal now
            times = np.arange(now, now + count).astype("M8[s]") if kind is FiBA else None
            now += count
            window.extend(np.random.random(count), times, emit="last")

        return feed

    return opened


ALGORITHMS: dict[str, Open] = {
    "Naive": plain(RecalculateFromScratch),
    "Two-Stacks": plain(TwoStacks),
    "DABA": plain(DABA),
    "RA": reactive,
    "FiBA": windowed(FiBA, on_disk=False),
    "Log MTA": windowed(LogMTA, on_disk=False),
    "Amortized MTA": windowed(AmortizedMTA, on_disk=False),
    "FiBA, on disk": windowed(FiBA, on_disk=True),
    "Log MTA, on disk": windowed(LogMTA, on_disk=True),
    "Amortized MTA, on disk": windowed(AmortizedMTA, on_disk=True),
}


def reached(size: float, progress: Progress) -> Rows:
    """The window that each algorithm reaches within each limit."""
    capacity = max(BATCH, int(CAPACITY * size))
    limits = LIMITS if size > 0.25 else LIMITS[:5]
    cells = [(name, limit) for name in ALGORITHMS for limit in limits]

    def measure(cell: tuple[str, int]) -> Rows:
        name, limit = cell
        row = {"algorithm": name, "limit_mib": limit, "capacity": capacity}
        return [row | within(name, limit, capacity)]

    return progress.rows(cells, measure, lambda cell: f"{cell[0]}, {cell[1]} MiB")


def within(name: str, limit: int, capacity: int) -> dict[str, Any]:
    """What a process reaches, and how it ended: full, no memory, out of time."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "reached")
        command = [sys.executable, "-m", "benchmarks.papers.mta.memory"]
        command += [name, str(limit), str(capacity), folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=os.environ | QUIET, timeout=4 * SECONDS
            )
        except subprocess.TimeoutExpired:  # one batch takes that long, for want of memory
            return (json.loads(out.read_text()) if out.exists() else {"window": 0}) | {"end": STUCK}
        found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"window": 0}
    # What it had reached stands in the file, whatever became of it.
    if done.returncode and "MemoryError" not in done.stderr:
        raise RuntimeError(f"{name} within {limit} MiB: {done.stderr[-2000:]}")
    return {"end": "no memory"} | found


#: One thread of the BLAS and one arena of malloc: their reserves would count as data.
QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}


def grow(name: str, limit: int, capacity: int, folder: str) -> None:
    """Insert until the end, and keep in a file what has been reached."""
    threading.stack_size(MIB)  # a stack counts, and 8 MiB are the rule
    bare = resource_data()
    resource.setrlimit(resource.RLIMIT_DATA, (bare + limit * MIB, resource.RLIM_INFINITY))
    window, end, stop = 0, "full", perf_counter() + SECONDS
    with open(Path(folder, "reached"), "w", buffering=1) as out:
        try:
            feed = ALGORITHMS[name](capacity, folder)
            while window < capacity:
                feed(min(BATCH, capacity - window))
                window += min(BATCH, capacity - window)
                note(out, window)
                if perf_counter() > stop:
                    end = STUCK
                    break
        except Exception as error:
            if not is_for_memory(error):
                raise
            return  # what has been reached stands in the file
        note(out, window, end)


def is_for_memory(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, comes from a lack of memory: for data or for a stack."""
    while error is not None:
        if isinstance(error, MemoryError) or any(text in str(error) for text in NEEDS_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def note(out: Any, window: int, end: str = "no memory") -> None:
    """Say over what was said before what has been reached."""
    out.seek(0)
    out.write(f'{{"window": {window}, "end": "{end}"}}'.ljust(60))
    out.flush()


def resource_data() -> int:
    """Bytes of data that this process has, as the limit counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData"))


def found(rows: Rows) -> list[Finding]:
    """How the window grows with the limit in memory, and what is enough with pages in a store."""
    findings, capacity = [], rows[0]["capacity"]
    for name in distinct(rows, "algorithm"):
        some = where(rows, algorithm=name)
        full = [row["limit_mib"] for row in some if row["window"] >= capacity]
        if name.endswith("on disk"):
            seen = f"from {min(full)} MiB on" if full else f"at most {some[-1]['window']:,}"
            agrees = bool(full) and min(full) <= 128
            what = f"{name}: reaches {capacity:,} updates"
            findings.append(Finding(what, "from 512 MB of heap on", seen, agrees))
            continue
        x, y = points([r for r in some if 0 < r["window"] < capacity], "limit_mib", "window")
        if len(x) < 2:
            seen = f"reaches {capacity:,} from {min(full)} MiB on" if full else "too few points"
            findings.append(Finding(f"{name}: window by limit", "linear", seen))
            continue
        what = f"{name}: window by limit"
        findings.append(shape(what, x, y, "linear", "updates"))
    return findings


EXPERIMENTS = (
    Experiment(
        "mta_memory",
        "The largest window within a memory limit",
        "MTA paper, Experiment 4, Figure 8",
        "With its data in a store, MTA reaches the capacity of 2^25 updates with 512 MB of heap, "
        "and holds thousands of updates with 128 MB. In memory, Naive needs 16 GB for this "
        "capacity and all others need 32 GB; their windows grow with the heap.",
        "Each run is a separate process, which may use the given memory in addition to that of the "
        "bare interpreter with its imports. Naive, Two-Stacks and DABA hold Python floats one by "
        "one; the others hold columns of doubles. The capacity is 2^25. A run stops after "
        f"{SECONDS} s.",
        reached,
        {"figure_8": partial(lines, x="limit_mib", y="window",
                             labels=("MiB above the bare interpreter", "updates in the window"))},
        found,
        captions={
            "figure_8": (
                "the number of events that the window reached by the memory limit; both axes are "
                "logarithmic. In the paper, windows in memory grow in proportion to the limit. "
                "Windows with pages in a store reach the capacity, the top of the plot, with the "
                "smallest limit."
            ),
        },
        quick=2**-3,
    ),
)  # fmt: skip


if __name__ == "__main__":
    _, given, mebibytes, events, place = sys.argv
    grow(given, int(mebibytes), int(events), place)
