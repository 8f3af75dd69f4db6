"""Keyed events, late ones among them, and their oracle: sorted lists and a fold for every event."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_700_000_000_000_000
SECOND = 1_000_000
SCHEMA = "device string, ts timestamp, watts double, site string"

ROWS = pa.schema({"device": pa.string(), "ts": pa.timestamp("us", "UTC"), "watts": pa.float64()})

#: A device, seconds since the start, and a value.
Event = tuple[str, float, float]
Row = tuple[Any, ...]
#: How many of the oldest of some events, by their times, are out of the window that ends with them.
Left = Callable[[list[float]], int]
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


def spread(events: pa.Table) -> pa.Table:
    """With a time of its own for each event, so that no batch cuts events of equal times."""
    times = pa.array(START + np.arange(events.num_rows) * SECOND, pa.timestamp("us", "UTC"))
    return events.set_column(events.column_names.index("ts"), "ts", times)


def rows_of(*events: Event) -> pa.Table:
    """Events as a step's input."""
    devices, seconds, watts = zip(*events, strict=True) if events else ((), (), ())
    times = [START + round(s * SECOND) for s in seconds]
    return pa.table([pa.array(devices, pa.string()), times, pa.array(watts, pa.float64())],
                    names=["device", "ts", "watts"]).cast(ROWS)  # fmt: skip


def shuffled(events: pa.Table | Sequence[Event], seed: int) -> pa.Table:
    """Events as a step's input, in any order."""
    rows = events if isinstance(events, pa.Table) else rows_of(*events)
    return rows.take(pa.array(np.random.default_rng(seed).permutation(rows.num_rows)))


# --- the oracle -----------------------------------------------------------------------------------


def last_n(size: int) -> Left:
    return lambda times: max(0, len(times) - size)


def last_seconds(size: float) -> Left:
    return lambda times: bisect_right(times, times[-1] - size)


class Expected(NamedTuple):
    """What a batch must give: (device, time, watts, result ...)."""

    new: list[Row]
    again: list[Row]
    late: list[Event]


class Oracle:
    """What is known of each key, sorted, and folds over the windows that end with its events."""

    def __init__(
        self, left: Left, lateness: float | None = None, folds: Sequence[Fold] = (list, max, len)
    ) -> None:
        self.left, self.lateness, self.folds = left, lateness, folds
        #: Of each key time, number of the batch, and value.
        self.known: dict[str, list[tuple[float, int, float]]] = {}
        self.batches = 0

    def feed(self, events: Iterable[Event]) -> Expected:
        """Take in a batch; events of one time stand in the order of batches, then of values."""
        self.batches += 1
        newest = {key: rows[-1][0] for key, rows in self.known.items()}
        late, touched = [], set()
        for event in events:
            device, time, watts = event
            if self.lateness is not None and time < newest.get(device, time) - self.lateness:
                late.append(event)
                continue
            self.known.setdefault(device, []).append((time, self.batches, watts))
            touched.add(device)
        new, again = [], []
        for device in touched:
            rows = self.known[device]
            rows.sort()
            first = next(at for at, row in enumerate(rows) if row[1] == self.batches)
            for (_, batch, _), result in zip(
                rows[first:], self._results(device, first), strict=True
            ):
                (new if batch == self.batches else again).append(result)
        return Expected(in_order(new), in_order(again), sorted(late))

    def _results(self, device: str, first: int) -> Iterator[Row]:
        """The results of a key's events from some place on."""
        times, _, watts = map(list, zip(*self.known[device], strict=True))
        for stop in range(first + 1, len(times) + 1):
            values = watts[self.left(times[:stop]) : stop]
            time = START + round(times[stop - 1] * SECOND)
            yield (device, time, watts[stop - 1], *(fold(values) for fold in self.folds))

    def newest(self) -> dict[str, Row]:
        """The result of the newest event of each key."""
        last = {device: len(rows) - 1 for device, rows in self.known.items()}
        return {device: next(self._results(device, at)) for device, at in last.items()}


def oracle(events: pa.Table, left: Left, folds: Sequence[Fold]) -> list[Row]:
    """The result of each event of a table."""
    return Oracle(left, folds=folds).feed(_events_of(events)).new


def naive(events: pa.Table, until: float | None, size: float = 60) -> list[Row]:
    """The results of events, and those of each moment at which a key's time window is empty.

    ``until`` is where the watermark ends, in seconds; None gives the results of events alone.
    """
    oracle = Oracle(last_seconds(size))
    found = oracle.feed(_events_of(events)).new
    for device, rows in oracle.known.items() if until is not None else ():
        for one, after in pairwise([*(time for time, _, _ in rows), until]):
            if after > one + size:
                found.append((device, START + round((one + size) * SECOND), None, [], None, 0))
    return in_order(found)


def _events_of(table: pa.Table) -> Iterator[Event]:
    seconds = (table.column("ts").cast(pa.int64()).to_numpy() - START) / SECOND
    devices, watts = table.column("device").to_pylist(), table.column("watts").to_pylist()
    return zip(devices, seconds.tolist(), watts, strict=True)


def last_of_each(results: list[Row]) -> list[Row]:
    """The last of the oracle's results for each device, if results of equal events agree."""
    return sorted({row[0]: row for row in results}.values())


def in_form(results: pa.Table | Iterable[Any], *aliases: str) -> list[Row]:
    """Rows of Spark or of a step in the oracle's form, NaN as None."""
    rows = results.to_pylist() if isinstance(results, pa.Table) else results
    columns = ["watts", *(aliases or ("all", "peak", "n"))]
    return in_order(
        (row["device"], round(row["ts"].timestamp() * SECOND),
         *(None if (value := row[name]) != value else value for name in columns))
        for row in rows
    )  # fmt: skip


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])
