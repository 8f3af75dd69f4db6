"""Keyed events, and the naive oracle: a list and a fold for every event."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_700_000_000_000_000
SECOND = 1_000_000
SCHEMA = "device string, ts timestamp, watts double, site string"

Inside = Callable[[list[int]], int]
Fold = Callable[[list[float]], Any]


def make_events(count: int, keys: int, seed: int = 7) -> pa.Table:
    """``count`` events of ``keys`` devices, ordered by time, with equal times among them."""
    rng = np.random.default_rng(seed)
    devices = rng.integers(0, keys, count)
    times = START + np.sort(rng.integers(0, count, count)) * SECOND
    return pa.table(
        {
            "device": pa.array([f"d{i}" for i in devices]),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            # Whole numbers: sums are exact, so results can be compared with ==.
            "watts": rng.integers(-50, 50, count).astype(np.float64),
            "site": pa.array([f"s{i % 3}" for i in devices]),
        }
    )


def write_files(events: pa.Table, folder: Path, files: int, first: int = 0) -> None:
    """The events, in order, in ``files`` files that a stream reads one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-events.num_rows // files)
    for i in range(files):
        path = folder / f"{first + i:04d}.parquet"
        pq.write_table(events.slice(i * size, size), path)
        stamp = START // SECOND + first + i  # Spark orders files by their time of modification
        os.utime(path, (stamp, stamp))


def oracle(events: pa.Table, expired: Inside, folds: Sequence[Fold]) -> list[tuple[Any, ...]]:
    """(device, time, watts, result ...) after each event, sorted.

    ``expired(times)`` says how many of the oldest events leave when the last one has come. Events
    of one device with equal times come in the order of their values.
    """
    columns = [
        events.column("device"),
        events.column("ts").cast(pa.int64()),
        events.column("watts"),
    ]
    windows: dict[str, list[tuple[int, float]]] = {}
    found = []
    for device, time, watts in sorted(zip(*(c.to_pylist() for c in columns), strict=True)):
        window = windows.setdefault(device, [])
        window.append((time, watts))
        del window[: expired([t for t, _ in window])]
        values = [w for _, w in window]
        found.append((device, time, watts, *(fold(values) for fold in folds)))
    return sorted(found)


def last_of_each(results: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The last of the oracle's results for each device, if results of equal events agree."""
    return sorted({row[0]: row for row in results}.values())


def last_n(size: int) -> Inside:
    return lambda times: max(0, len(times) - size)


def last_seconds(size: int) -> Inside:
    return lambda times: sum(t <= times[-1] - size * SECOND for t in times)


def in_form(rows: Iterable[Any], *aliases: str) -> list[tuple[Any, ...]]:
    """Spark's result rows in the oracle's form."""
    return sorted(
        (row.device, round(row.ts.timestamp() * SECOND), row.watts, *(row[a] for a in aliases))
        for row in rows
    )
