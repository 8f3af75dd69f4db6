"""Memory: the cost of 2^25 events compared with an empty window, and the reads of a restart.

The experiment measures anonymous memory (RssAnon of the process), which the operating system cannot
drop. Resident memory (VmRSS) also has the code of libraries and mapped pages of the local store,
and a cgroup also has pages of the disk that the kernel caches: these can be dropped. The last two
are measured by ``examples/edge``, which runs in a cgroup.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.ours.resident import BATCH, POSITIONS
from benchmarks.report.beside import Figure, beside

EVENTS = 2**25
MIB = 1 << 20
DEVICE = Path(__file__).parents[2] / "examples" / "edge" / "measure.py"
#: The most MiB for a window of 2^25 events, with pages on disk.
MOST_MEMORY = 64


def run(size: float) -> list[Figure]:
    """Measure two new processes, one with an empty window and one with a full window."""
    events = int(EVENTS * size)
    empty, full = measure(0), measure(events)
    grown = (full["anonymous"] - empty["anonymous"]) / MIB
    return [
        Figure(
            f"anonymous memory with {events:,} events, in batches of {BATCH:,}",
            f"{full['anonymous'] / MIB:.1f} MiB: {grown:.1f} MiB more",
            f"{empty['anonymous'] / MIB:.1f} MiB, empty window",
            limit=f"{MOST_MEMORY} MiB more", held=grown <= MOST_MEMORY,
        ),
        Figure("the same events as an array of doubles", "", f"{events * 8 / MIB:.0f} MiB"),
        *_device(events),
        _snapshot(f"size of a snapshot, median of {POSITIONS} positions", full["median"], 128),
        _snapshot("size of a snapshot, largest of these", full["largest"], 128),
        _snapshot("size of a snapshot, with the page size for many keys", full["small"], 8),
        _reads("pages read to restore and evict an event", full["restore"], full["levels"]),
        _reads(f"pages read to evict {events // 2:,} events at once", full["bulk"], full["levels"]),
    ]  # fmt: skip


def _device(events: int) -> list[Figure]:
    """Return what a device takes that aggregates the events in small batches, in a cgroup."""
    command = [sys.executable, str(DEVICE), "--window", str(events), "--events", str(2 * events)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    bare, most, grown = _numbers(r"anonymous: (\S+) MiB bare, (\S+) at most: (\S+) MiB", printed)
    (resident,) = _numbers(r"resident: (\S+) MiB", printed)
    group = re.search(r"the group held (\d+) MiB", printed)
    what = f"a device with {events:,} events, in batches of {edge_batch():,}"
    return [
        Figure(
            f"{what}: anonymous memory", f"{most:.1f} MiB: {grown:.1f} MiB more",
            f"{bare:.1f} MiB, before the first event",
        ),
        Figure(f"{what}: resident memory", f"{resident:.1f} MiB", ""),
        Figure(
            f"{what}: its cgroup", f"{group[1]} MiB" if group else "not measured", "",
            limit="64 MB (61 MiB), set by the cgroup",
        ),
    ]  # fmt: skip


def edge_batch() -> int:
    """Return how many events the device aggregates together."""
    found = re.search(
        r"^BATCH = 1 << (\d+)$", DEVICE.with_name("edge.py").read_text(), re.MULTILINE
    )
    assert found is not None
    return 1 << int(found[1])


def _numbers(pattern: str, text: str) -> tuple[float, ...]:
    found = re.search(pattern, text)
    assert found is not None, text
    return tuple(map(float, found.groups()))


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
        "with a process that has an empty window. Anonymous memory is what the kernel cannot drop; "
        "it includes the arrays of one batch and of its results. Resident memory also has the "
        "code of libraries and mapped pages, and a cgroup also has cached pages of the disk. The "
        "device is [the one with 64 MB](for-edge.md).",
        run,
        quick=0.125,
    ),
)
