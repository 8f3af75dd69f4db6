"""Late events: FiBA compared with Amortized MTA on local disk, and its memory at 2^24 events.

Events are one second apart. In a stream at distance d, each event arrives up to d places late. The
windows are full, take micro-batches in order of arrival, and return all results.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ours.memory import MIB
from benchmarks.ours.resident import anonymous
from benchmarks.report.beside import Figure, alternate, beside
from mta import Max, TimeWindow, Window
from mta.algorithms import AmortizedMTA, FiBA
from mta.logs.base import Aggregator
from stores import open_store

WINDOW, MICRO_BATCH, ROUND, ROUNDS = 2**22, 2**14, 2**18, 11
EVENTS, LATE_SHARE, LATE_BY = 2**24, 0.05, 10**4
#: The most MiB of memory for these events, with pages on disk.
MOST_MEMORY = 128


def run(size: float) -> list[Figure]:
    """Measure nanoseconds per event of a full window, and memory beyond an empty window."""
    window = int(WINDOW * size)
    streams = [
        Slide(AmortizedMTA, window, 0),
        Slide(FiBA, window, 0),
        Slide(FiBA, window, 2**10),
        Slide(FiBA, window, LATE_BY),
    ]
    runs: list[Callable[[], object]] = [stream.round for stream in streams]
    mta, ordered, near, far = (
        1e9 * s / streams[0].round_size for s in alternate(runs, times=ROUNDS)
    )
    for stream in streams:
        stream.close()
    peer = f"{mta:.0f} ns, Amortized MTA"
    events = int(EVENTS * size)
    empty, full = measure(0), measure(events)
    grown = (full["anonymous"] - empty["anonymous"]) / MIB
    return [
        Figure("in order", f"{ordered:.0f} ns", peer, ordered / mta, "<= 1.3"),
        Figure("each event up to 2^10 places late", f"{near:.0f} ns", peer, near / mta, "<= 10"),
        Figure("each event up to 10^4 places late", f"{far:.0f} ns", peer, far / mta),
        Figure(
            f"anonymous memory with {events:,} events, 5 % of them up to 10^4 places late",
            f"{full['anonymous'] / MIB:.1f} MiB: {grown:.1f} MiB more",
            f"{empty['anonymous'] / MIB:.1f} MiB, empty window",
            limit=f"{MOST_MEMORY} MiB more",
            held=grown <= MOST_MEMORY,
        ),
        Figure("size of its snapshot", f"{full['snapshot'] / 1024:.1f} KiB", ""),
    ]


def times_of(events: int, distance: int) -> np.ndarray:
    """Return the times of events in order of arrival, in seconds, up to ``distance`` late."""
    random = np.random.default_rng(7)
    arrival = np.arange(events, dtype=float)
    if distance:
        arrival += random.integers(0, distance, events)
    return np.argsort(arrival, kind="stable").astype("M8[s]")


class Slide:
    """A full window on local disk, and the rest of its stream."""

    def __init__(self, aggregator: type[Aggregator], size: int, distance: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._store = open_store(f"file://{self._folder.name}")
        self.round_size = min(ROUND, size)
        self._window = Window(
            Max(),
            TimeWindow(size),
            self._store,
            aggregator=aggregator,
            allowed_lateness=2 * distance or None,
        )
        self._times = times_of(size + self.round_size * ROUNDS, distance)
        self._values = np.random.default_rng(1).normal(size=len(self._times))
        self._done = 0
        while self._done < size:
            self._extend("last")

    def round(self) -> None:
        """Add the next events, with all results."""
        stop = self._done + self.round_size
        while self._done < stop:
            self._extend("all")

    def _extend(self, results: Any) -> None:
        stop = self._done + MICRO_BATCH
        self._window.extend(
            self._values[self._done : stop], self._times[self._done : stop], results
        )
        self._done = stop

    def close(self) -> None:
        self._store.close()
        self._folder.cleanup()


def measure(events: int) -> dict[str, int]:
    """Return the counts of a separate process with a window of ``events`` events."""
    command = [sys.executable, "-m", "benchmarks.ours.late", str(events)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def _measured(events: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder, open_store(f"file://{folder}") as store:
        size = max(events, 1)
        window = Window(
            Max(),
            TimeWindow(size),
            store,
            allowed_lateness=2 * LATE_BY,
            on_late="drop",
        )
        random = np.random.default_rng(1)
        for start in range(0, events + events // 8, MICRO_BATCH):
            seconds = np.arange(start, start + MICRO_BATCH)
            late = random.random(MICRO_BATCH) < LATE_SHARE
            seconds[late] -= random.integers(0, LATE_BY, late.sum())
            times = np.maximum(seconds, 0).astype("M8[s]")
            window.extend(random.random(MICRO_BATCH), times)
        snapshot = window.checkpoint()
        return {"anonymous": anonymous(), "snapshot": len(snapshot), "late": window.stats().late}


EXPERIMENTS = (
    beside(
        "late",
        "Late events",
        "A full window of 2^22 events on local disk in `FiBA`, in batches of 16,384, compared "
        "with `AmortizedMTA` and events in order. Events of a late stream arrive up to the given "
        "number of places later than in order. Time per event.",
        run,
        quick=0.1,
    ),
)


if __name__ == "__main__":
    json.dump(_measured(int(sys.argv[1])), sys.stdout)
