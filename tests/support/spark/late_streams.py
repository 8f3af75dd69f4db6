"""Streams whose events come out of order, and their oracle: sorted lists and a fold an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from mta import TimeWindow
from spark_integration.plan import Plan
from tests.support.spark.events import SECOND, START, write_files
from tests.support.spark.idle_cases import SIZE, WHOLE, idle_plan, rows_of
from tests.support.spark.jobs import Job

Event = tuple[str, float, float]
Row = tuple[Any, ...]
#: How many of the oldest of some events, by their times, are out of the window that ends with them.
Left = Callable[[list[float]], int]


def late_plan(**changes: Any) -> Plan:
    """All events in order, peak and number, over the last minute; events may be 30 seconds late."""
    return idle_plan(**{"idle": "keep", "allowed_lateness": 30, "on_late": "drop", **changes})


def left_of(size: float) -> Left:
    """For a time window."""
    return lambda times: sum(time <= times[-1] - size for time in times)


def last(count: int) -> Left:
    """For a count window."""
    return lambda times: max(0, len(times) - count)


def out_of_order(
    count: int, keys: int, delay: float, seed: int, batches: int, ties: bool = False
) -> list[list[Event]]:
    """One event a second, each with a value of its own, that comes up to ``delay`` seconds late."""
    rng = np.random.default_rng(seed)
    times = np.arange(count) // (3 if ties else 1)
    order = np.argsort(times + rng.uniform(0, delay, count), kind="stable")
    events = [
        (f"d{d}", float(times[i]), float(i)) for i, d in enumerate(rng.integers(0, keys, count))
    ]
    return [[events[i] for i in part] for part in np.array_split(order, batches)]


class Expected(NamedTuple):
    """What a batch must give: (device, time, watts, all, peak, n)."""

    new: list[Row]
    again: list[Row]
    late: list[Event]


class Oracle:
    """What is known of each key, sorted."""

    def __init__(self, left: Left, lateness: float | None) -> None:
        self.left, self.lateness = left, lateness
        self.known: dict[str, list[tuple[float, int, float]]] = {}
        self.batches = 0

    def feed(self, events: Iterable[Event]) -> Expected:
        """Take in a batch; events of one time stand in the order of batches, then of values."""
        self.batches += 1
        newest = {key: rows[-1][0] for key, rows in self.known.items()}
        late = [e for e in events if self._is_late(e[1], newest.get(e[0]))]
        good = [e for e in events if e not in late]
        for device, time, watts in good:
            self.known.setdefault(device, []).append((time, self.batches, watts))
        new, again = [], []
        for device in {e[0] for e in good}:
            rows = self.known[device]
            rows.sort()
            added = [i for i, row in enumerate(rows) if row[1] == self.batches]
            for i in range(added[0], len(rows)):
                (new if i in added else again).append(self._row(device, rows[: i + 1]))
        return Expected(sorted(new), sorted(again), sorted(late))

    def _is_late(self, time: float, newest: float | None) -> bool:
        return newest is not None and self.lateness is not None and time < newest - self.lateness

    def _row(self, device: str, rows: Sequence[tuple[float, int, float]]) -> Row:
        values = [watts for _, _, watts in rows[self.left([time for time, _, _ in rows]) :]]
        time = START + round(rows[-1][0] * SECOND)
        return (device, time, rows[-1][2], values, max(values), len(values))

    def newest(self) -> dict[str, Row]:
        """The result of the newest event of each key."""
        return {device: self._row(device, rows) for device, rows in self.known.items()}


def in_form(rows: pa.Table, names: Sequence[str] = ("all", "peak", "n")) -> list[Row]:
    """A step's results in the oracle's form."""
    columns = [rows.column("device"), rows.column("ts").cast(pa.int64())]
    columns += [rows.column(name) for name in ("watts", *names)]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def shuffled(events: Sequence[Event], seed: int) -> pa.Table:
    """Events as a step's input, in any order."""
    order = np.random.default_rng(seed).permutation(len(events))
    return rows_of(*(events[i] for i in order))


class LateJob(Job):
    """A job whose events may come 30 seconds late, under a watermark that waits for none.

    Each file is a batch.
    """

    options: ClassVar = {
        "aggregations": WHOLE,
        "window": TimeWindow(SIZE),
        "allowed_lateness": "30 seconds",
        "on_late": "drop",
    }

    def source(self, files: int = 1) -> DataFrame:
        return super().source(files).withWatermark("ts", "0 seconds")

    def write(self, parts: Sequence[Sequence[Event]]) -> None:
        """A file for each part."""
        for part in parts:
            rows = shuffled(part, 0).append_column("site", pa.nulls(len(part), pa.string()))
            write_files(rows, self.input, 1, first=len(list(self.input.glob("*.parquet"))))

    def found(self, *names: str) -> list[list[tuple[bool, Row]]]:
        """The results of each batch that has any, in the oracle's form, and which are corrected."""
        shown = ("watts", *(names or ("all", "peak", "n")))

        def found(row: Any) -> tuple[bool, Row]:
            time = round(row.ts.timestamp() * SECOND)
            return bool(row.asDict().get("corrected")), (
                row.device,
                time,
                *map(row.__getitem__, shown),
            )

        return [sorted(map(found, rows)) for _, rows in sorted(self.batches.items()) if rows]


def as_found(expected: Iterable[Expected]) -> list[list[tuple[bool, Row]]]:
    """What ``LateJob.found`` must give."""
    return [
        [*((False, row) for row in batch.new), *((True, row) for row in batch.again)]
        for batch in expected
    ]
