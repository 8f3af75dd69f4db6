"""Simulated sensors, ``mta device`` with a kill in the middle, and a plot of what it reported.

    python device.py                     # lines of JSON on standard input
    python device.py --events 100000

The sensors send again what the device may not have had when it was killed. Every result is compared
with one from a plain list.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUTPUT = Path("device-output")
ROOMS = {"attic": 24.0, "cellar": 14.0, "hall": 20.0}


def readings(count: int) -> Iterator[dict[str, Any]]:
    """Yield readings: a room's temperature over the day, with noise, every ten seconds."""
    rng = random.Random(1)
    for number in range(count):
        room = list(ROOMS)[number % len(ROOMS)]
        ts = 1_700_000_000 + 10 * (number // len(ROOMS))
        day = 3 * math.sin(2 * math.pi * ts / 86_400)
        celsius = round(ROOMS[room] + day + rng.gauss(0, 0.5), 2)
        yield {"room": room, "ts": ts, "number": number, "celsius": celsius}


def run(sent: list[dict[str, Any]], kill_after: int | None = None) -> list[dict[str, Any]]:
    """Send readings to a device; return its results. With a kill, the device ends by itself."""
    command = [sys.executable, "-m", "mta", "device", str(HERE / "device.toml")]
    pipe = subprocess.PIPE
    lines = "".join(json.dumps(each) + "\n" for each in sent)
    results = OUTPUT / "results"
    with (
        results.open("w") as file,
        subprocess.Popen(command, stdin=pipe, stdout=file, text=True) as device,
    ):
        assert device.stdin is not None
        device.stdin.write(lines)
        device.stdin.flush()
        if kill_after is not None:
            while results.read_text().count("\n") < kill_after:
                time.sleep(0.01)
            device.send_signal(signal.SIGKILL)
        else:
            device.stdin.close()
    whole = [line for line in results.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in whole]


def expected(sent: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return the mean of the last ten minutes after each reading, from plain lists."""
    lists: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    found = {}
    for each in sent:
        events, ts = lists[each["room"]], each["ts"]
        events.append((ts, each["celsius"]))
        del events[:-60]
        found[each["room"], ts] = sum(c for t, c in events if t > ts - 600) / len(events)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=18_000, help="default: 18000")
    count = parser.parse_args().events
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    sent = list(readings(count))
    results = run(sent[: count * 2 // 3], kill_after=count // 3)
    killed = results[-1]["time"]
    print(f"killed after {len(results):,} results")
    results += run(sent)  # all of them again: what the device has had does not count twice
    print(f"{len(results):,} results after {count:,} readings")
    check(sent, results)
    plot(results, killed)


def check(sent: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    """Compare every result with a plain list; each reading must have one."""
    right, seen = expected(sent), set()
    for result in results:
        if "bound" not in result:
            ts = int(datetime.fromisoformat(result["time"]).timestamp())
            assert math.isclose(result["mean_ten_minutes"], right[result["key"], ts])
            seen.add((result["key"], ts))
    assert seen == right.keys()
    print(f"all results are those of plain lists: {len(seen):,} readings")


def plot(results: list[dict[str, Any]], killed: str) -> None:
    """Plot the means of each room, where they cross the bound, and the kill."""
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    def moment(text: str) -> np.datetime64:
        return np.datetime64(text.rstrip("Z"), "s")

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for room in ROOMS:
        # by time, as results that were reported again after the kill have the same values
        own = {moment(r["time"]): r["mean_ten_minutes"] for r in results if r["key"] == room}
        times = sorted(own)
        axes.plot(times, [own[each] for each in times], label=room, linewidth=1)
    axes.axhline(24, color="grey", linestyle=":", label="bound of 24 °C")
    for crossed, marker, label in ((True, "^", "too hot"), (False, "v", "no longer too hot")):
        own = {
            moment(r["time"]): r["mean_ten_minutes"]
            for r in results if r.get("crossed") is crossed
        }  # fmt: skip
        axes.plot(
            [*own], [*own.values()], f"k{marker}", label=label, markersize=5, fillstyle="none"
        )
    axes.axvline(moment(killed), color="red", linewidth=1, label="killed and started again")
    axes.xaxis.set_major_formatter(ConciseDateFormatter(AutoDateLocator()))
    axes.set(title="Readings of three rooms", xlabel="time of the readings, UTC",
             ylabel="°C, mean of 10 minutes")  # fmt: skip
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(OUTPUT / "device.png", dpi=120)
    print(f"plotted {OUTPUT / 'device.png'}")


if __name__ == "__main__":
    main()
