"""Memory: what 2^25 events cost beside an empty window, and what a restart reads.

Anonymous resident memory (RssAnon of the process) is what the kernel cannot drop; pages of the
local store are mapped files, which it can.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report.beside import Figure, beside
from mta import CountWindow, Max, TimeWindow, Window
from stores import open_store
from stores.testing.counting import CountingStore

EVENTS = 2**25
BATCH = 2**20
MIB = 1 << 20
#: MiB that a window of 2^25 events may take, pages on disk.
MOST_MEMORY = 64


def run(size: float) -> list[Figure]:
    """Two fresh processes, one with an empty window and one with a full one, measured alike."""
    events = int(EVENTS * size)
    empty, full = measure(0), measure(events)
    grown = (full["anonymous"] - empty["anonymous"]) / MIB
    return [
        Figure(
            f"anonymous memory, {events:,} events",
            f"{full['anonymous'] / MIB:.1f} MiB, + {grown:.1f} MiB",
            f"{empty['anonymous'] / MIB:.1f} MiB, empty window",
            limit=f"+ {MOST_MEMORY} MiB", held=grown <= MOST_MEMORY,
        ),
        Figure("as an array of doubles", "", f"{events * 8 / MIB:.0f} MiB"),
        _handle("handle, default", full["handle"], 128),
        _handle("handle, for many keys", full["small"], 8),
        _reads("pages read, restore and evict", full["restore"], full["levels"]),
        _reads(f"pages read, evict {events // 2:,} at once", full["bulk"], full["levels"]),
    ]  # fmt: skip


def _handle(what: str, count: int, most: int) -> Figure:
    held = count <= most * 1024
    return Figure(what, f"{count / 1024:.1f} KiB", "", limit=f"{most} KiB", held=held)


def _reads(what: str, count: int, levels: int) -> Figure:
    limit = f"{levels}, one a level"
    return Figure(what, str(count), "", limit=limit, held=count <= levels)


def measure(events: int) -> dict[str, int]:
    """The counts of a process of its own that holds a window of so many events."""
    command = [sys.executable, "-m", "benchmarks.ours.memory", str(events)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def _fill(window: Window, events: int, timed: bool = False) -> None:
    random = np.random.default_rng(1)
    for start in range(0, events, BATCH):
        count = min(BATCH, events - start)
        times = np.arange(start, start + count).view("M8[us]") if timed else None
        window.extend(random.random(count), times)


def anonymous() -> int:
    """Bytes of this process that the kernel cannot drop."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def _measured(events: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        counting = CountingStore(open_store(f"file://{folder}/one"))
        window = Window(Max(), CountWindow(max(events, 1)), store=counting, name="one")
        _fill(window, events)
        handle = window.checkpoint()
        found = {"anonymous": anonymous(), "handle": len(handle)}
        if events:
            found |= _restart(handle, events, counting)
            many = open_store(f"file://{folder}/many")
            small = Window(
                Max(), TimeWindow("1 hour"), store=many, name="key", leaf_arity=128, arity=32
            )
            _fill(small, events, timed=True)
            found["small"] = len(small.checkpoint())
            many.close()
        counting.close()
    return found


def _restart(handle: bytes, events: int, counting: CountingStore) -> dict[str, int]:
    """Page reads of a restored window's first eviction, and of a bulk eviction of half."""
    reads = []
    for evicted in (1, events // 2):
        window = Window.restore(handle, Max(), CountWindow(events), store=counting)
        before = counting.counts.get.pages
        window.evict(evicted)
        window.query()
        reads.append(counting.counts.get.pages - before)
    return {"restore": reads[0], "bulk": reads[1], "levels": window.stats().levels}


EXPERIMENTS = (
    beside(
        "memory",
        "Resident memory, handles and page reads",
        run,
        quick=0.125,
    ),
)


if __name__ == "__main__":
    json.dump(_measured(int(sys.argv[1])), sys.stdout)
