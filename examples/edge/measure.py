"""Measures the memory of the device from another process, within a memory limit.

The device (``edge.py``) runs as a separate process in a memory cgroup, which limits its memory and
the pages of the disk that the kernel caches for it. This process reads how much memory the device
has: before the first event, when it is an interpreter with its imports, and then a hundred times
per second, for the maximum. It reads the anonymous memory, which the kernel cannot
drop, and the resident memory, which also has the code of the libraries and the pages of the store
that are mapped. The last results are compared with a fold of the same readings by numpy.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import edge
import numpy as np
from edge import BATCH, MIB, anonymous, memory_of

CGROUPS = Path("/sys/fs/cgroup")
MB = 10**6


@contextmanager
def memory_group(limit: int) -> Iterator[Path | None]:
    """Create a memory cgroup below the current one; None if this user may not."""
    group = _new_group(limit)
    try:
        yield group
    finally:
        if group is not None:
            group.rmdir()


def _new_group(limit: int) -> Path | None:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = dict(line.split(":", 2)[1:] for line in lines)
    if "memory" in own:  # version 1, where a group may hold processes and groups
        beneath, maximum = CGROUPS / "memory" / own["memory"].lstrip("/"), "memory.limit_in_bytes"
    else:  # version 2, where it may not: so beside this one
        beneath, maximum = (CGROUPS / own.get("", "").lstrip("/")).parent, "memory.max"
    group = beneath / f"mta-edge-{time.time_ns()}"
    try:
        group.mkdir()
    except OSError:
        return None
    try:
        (group / maximum).write_text(str(limit))
    except OSError:
        group.rmdir()
        return None
    return group


def start(group: Path | None, limit: int, *arguments: str) -> subprocess.Popen[str]:
    """Start the device, in the group from its first instruction."""
    command = [sys.executable, __file__, "--device", *arguments]
    if group is not None:
        enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        command = ["sh", "-c", enter, str(group), *command]

    def limit_data() -> None:
        if group is None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, preexec_fn=limit_data)


class Watch(threading.Thread):
    """Reads a process's memory a hundred times per second, and keeps the maximum."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.process, self.highest, self.resident = process, 0, 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.01):
            self.highest = max(self.highest, anonymous(self.process))
            self.resident = max(self.resident, memory_of(self.process, "VmRSS"))


def measure(size: int, events: int, limit: int, folder: Path) -> float:
    """Run the device; return the MiB that it took. Raises if it dies or its results are wrong."""
    with memory_group(limit) as group:
        what = f"the cgroup {group.name}" if group else "RLIMIT_DATA, as there is no cgroup to have"
        print(f"a window of {size:,} over {events:,} readings, {limit / MB:.0f} MB by {what}")
        with start(group, limit, str(folder), str(size), str(events)) as device:
            try:
                found, bare, watch = follow(device)
            finally:
                device.kill()
        if group is not None:
            print(f"    the group held {whole(group) / MIB:.0f} MiB at most, the disk's cache too")
    check(size, found)
    grown = (watch.highest - bare) / MIB
    print(f"    resident: {watch.resident / MIB:.1f} MiB at most, with code and mapped pages")
    print(f"    anonymous: {bare / MIB:.1f} MiB bare, {watch.highest / MIB:.1f} at most: "
          f"{grown:.1f} MiB more")  # fmt: skip
    return grown


def follow(device: subprocess.Popen[str]) -> tuple[dict[str, float], int, Watch]:
    """Let the device run; return its last result, its memory at the start, and its maximum."""
    assert device.stdin is not None and device.stdout is not None
    if device.stdout.readline() != "ready\n":
        raise SystemExit("the device did not start within the limit")
    bare, began = anonymous(device.pid), time.perf_counter()
    watch = Watch(device.pid)
    watch.start()
    device.stdin.write("go\n")
    device.stdin.flush()
    last = ""
    try:
        for last in device.stdout:
            if not last.startswith("{"):
                print("   ", last, end="", flush=True)
    finally:
        watch.done.set()
        watch.join()
    seconds = time.perf_counter() - began
    if device.wait():
        raise SystemExit(f"the device died with {device.returncode} (-9: of the group's limit)")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"    {seconds:.0f} s, of which {used.ru_utime + used.ru_stime:.0f} s in the processor")
    return json.loads(last), bare, watch


def whole(group: Path) -> int:
    """Return the maximum memory of a group in bytes."""
    names = ("memory.max_usage_in_bytes", "memory.peak")
    return next((int((group / n).read_text()) for n in names if (group / n).exists()), 0)


def check(size: int, found: dict[str, float]) -> None:
    """Compare the last result with a fold of the window's readings, batch by batch."""
    position = int(found["position"])
    count = min(size, position)
    peaks, total = [], 0.0
    for batch in range((position - count) // BATCH, position // BATCH):
        part = edge.readings(batch)[max(0, position - count - batch * BATCH) :]
        peaks.append(part.max())
        total += part.sum()
    np.testing.assert_equal(found["peak"], max(peaks))
    np.testing.assert_allclose(found["mean"], total / count, rtol=1e-9)


def device(folder: str, size: str, events: str) -> None:
    """Run the process that is measured."""
    print("ready", flush=True)
    sys.stdin.readline()
    position, results = edge.run(Path(folder), int(size), int(events))
    last = {name: float(column[-1]) for name, column in results.items()}
    print(json.dumps({"position": position, **last}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=1 << 25, help="readings in the window")
    parser.add_argument("--events", type=int, default=1 << 26, help="readings to take")
    parser.add_argument("--limit", type=int, default=64, help="MB of the memory group")
    parser.add_argument("--at-most", type=float, default=64, help="MiB above the bare interpreter")
    parser.add_argument("--folder", type=Path, help="where to make the temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        grown = measure(options.window, options.events, options.limit * MB, Path(folder))
    if grown > options.at_most:
        raise SystemExit(f"that is more than {options.at_most:g} MiB")
    print(f"within {options.at_most:g} MiB; the last results equal a fold of the window by numpy")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--device"]:
        device(*sys.argv[2:])
    else:
        main()
