"""A process with one window that prints its costs; it imports only the core.

``python -m benchmarks.ours.resident 33554432`` prints its counts as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mta import CountWindow, Max, TimeWindow, Window
from stores import open_store
from stores.testing.counting import CountingStore

BATCH = 2**20
#: The number of random positions at which the size of a snapshot is measured.
POSITIONS = 300


def _fill(window: Window, events: int, timed: bool = False) -> None:
    random = np.random.default_rng(1)
    for start in range(0, events, BATCH):
        count = min(BATCH, events - start)
        times = np.arange(start, start + count).view("M8[us]") if timed else None
        window.extend(random.random(count), times)


def anonymous() -> int:
    """Return the bytes of this process that the operating system cannot drop."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def _measured(events: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        counting = CountingStore(open_store(f"file://{folder}/one"))
        window = Window(Max(), CountWindow(max(events, 1)), store=counting, name="one")
        _fill(window, events)
        snapshot = window.checkpoint()
        found = {"anonymous": anonymous()}
        if events:
            found |= _restart(snapshot, events, counting)
            found |= _sizes(window)
            many = open_store(f"file://{folder}/many")
            small = Window(
                Max(), TimeWindow("1 hour"), store=many, name="key", leaf_arity=128, arity=32
            )
            _fill(small, events, timed=True)
            found["small"] = len(small.checkpoint())
            many.close()
        counting.close()
    return found


def _sizes(window: Window) -> dict[str, Any]:
    """Return sizes of snapshots, which depend on the number of events in the open leaf."""
    random, sizes = np.random.default_rng(2), []
    for _ in range(POSITIONS):
        window.extend(random.random(int(random.integers(1, 40_000))))
        sizes.append(len(window.checkpoint()))
    return {"median": int(np.median(sizes)), "largest": max(sizes)}


def _restart(snapshot: bytes, events: int, counting: CountingStore) -> dict[str, int]:
    """Return the page reads of a restored window's first eviction, and of a bulk eviction."""
    reads = []
    for evicted in (1, events // 2):
        window = Window.restore(snapshot, counting, aggregations=Max(), window=CountWindow(events))
        before = counting.counts.get.pages
        window.evict(evicted)
        window.query()
        reads.append(counting.counts.get.pages - before)
    return {"restore": reads[0], "bulk": reads[1], "levels": window.stats().levels}


if __name__ == "__main__":
    json.dump(_measured(int(sys.argv[1])), sys.stdout)
