"""Memory: the cost of 2^25 events compared with an empty window, and the reads of a restart.

The experiment measures anonymous resident memory (RssAnon of the process), which the operating
system cannot drop. Pages of the local store are mapped files, which it can drop.
"""

from __future__ import annotations

import json
import subprocess
import sys

from benchmarks.ours.resident import POSITIONS
from benchmarks.report.beside import Figure, beside

EVENTS = 2**25
MIB = 1 << 20
#: The most MiB for a window of 2^25 events, with pages on disk.
MOST_MEMORY = 64


def run(size: float) -> list[Figure]:
    """Measure two new processes, one with an empty window and one with a full window."""
    events = int(EVENTS * size)
    empty, full = measure(0), measure(events)
    grown = (full["anonymous"] - empty["anonymous"]) / MIB
    return [
        Figure(
            f"anonymous memory with {events:,} events",
            f"{full['anonymous'] / MIB:.1f} MiB: {grown:.1f} MiB more",
            f"{empty['anonymous'] / MIB:.1f} MiB, empty window",
            limit=f"{MOST_MEMORY} MiB more", held=grown <= MOST_MEMORY,
        ),
        Figure("the same events as an array of doubles", "", f"{events * 8 / MIB:.0f} MiB"),
        _snapshot(f"size of a snapshot, median of {POSITIONS} positions", full["median"], 128),
        _snapshot("size of a snapshot, largest of these", full["largest"], 128),
        _snapshot("size of a snapshot, with the page size for many keys", full["small"], 8),
        _reads("pages read to restore and evict an event", full["restore"], full["levels"]),
        _reads(f"pages read to evict {events // 2:,} events at once", full["bulk"], full["levels"]),
    ]  # fmt: skip


def _snapshot(what: str, count: int, most: int) -> Figure:
    held = count <= most * 1024
    return Figure(what, f"{count / 1024:.1f} KiB", "", limit=f"{most} KiB", held=held)


def _reads(what: str, count: int, levels: int) -> Figure:
    limit = f"{levels}, one per level"
    return Figure(what, str(count), "", limit=limit, held=count <= levels)


def measure(events: int) -> dict[str, int]:
    """Return the counts of a separate process with a window of ``events`` events."""
    command = [sys.executable, "-m", "benchmarks.ours.resident", str(events)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


EXPERIMENTS = (
    beside(
        "memory",
        "Memory and restarts",
        "A window of 2^25 doubles with pages on local disk, in a separate process, compared "
        "with a process that has an empty window.",
        run,
        quick=0.125,
    ),
)
