"""Streams with silences and late events, and Spark's watermark and timers without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta import Count, Max, Product, TimeWindow
from spark_integration.plan import Plan
from spark_integration.step.step import Advanced, step
from stores import PageStore
from tests.support.key_by_key import lists
from tests.support.spark.events import (
    ROWS,
    SECOND,
    START,
    Event,
    Row,
    in_form,
    rows_of,
    shuffled,
)
from tests.support.spark.states import keys_of, make_plan, pending_of

SIZE = 60
#: All events in order, peak and number, key by key.
WHOLE = {"all": ("watts", lists()), "peak": ("watts", Max()), "n": (None, Count())}


def idle_plan(**changes: Any) -> Plan:
    """All events in order, peak and number, over the last minute, in pages of four."""
    settings: dict[str, Any] = {
        "monoid": Product({"all": ("watts", lists()), "peak": ("watts", Max()), "n": Count()}),
        "results": {"all": pa.list_(pa.float64()), "peak": pa.float64(), "n": pa.int64()},
        "window": TimeWindow(SIZE),
        "idle": "emit",
        "schema": ROWS,
    }
    return make_plan(**{**settings, **changes})


def late_plan(**changes: Any) -> Plan:
    """The same without idle keys; events may be 30 seconds late."""
    return idle_plan(**{"idle": "keep", "allowed_lateness": 30, "on_late": "drop", **changes})


def bursts(count: int, keys: int, seed: int) -> pa.Table:
    """One event a second; each key speaks for a while, then is silent for a while or for ever."""
    rng = np.random.default_rng(seed)
    speaking = rng.integers(0, keys, 1 + count // 25)[np.arange(count) // 25]
    return _events(np.where(rng.random(count) < 0.9, speaking, rng.integers(0, keys, count)), rng)


def turns(count: int, keys: int, seed: int) -> pa.Table:
    """One event a second; each key speaks for 25 seconds, one after the other."""
    return _events(np.arange(count) // 25 % keys, np.random.default_rng(seed))


def _events(devices: Any, rng: np.random.Generator) -> pa.Table:
    watts = rng.integers(-9, 10, len(devices)).tolist()
    return rows_of(*((f"d{d}", i, watts[i]) for i, d in enumerate(devices)))


def out_of_order(count: int, keys: int, delay: float, seed: int, batches: int) -> list[list[Event]]:
    """One event a second, each with a value of its own, that comes up to ``delay`` seconds late."""
    rng = np.random.default_rng(seed)
    order = np.argsort(np.arange(count) + rng.uniform(0, delay, count), kind="stable")
    events = [(f"d{d}", float(i), float(i)) for i, d in enumerate(rng.integers(0, keys, count))]
    return [[events[i] for i in part] for part in np.array_split(order, batches)]


class Stream:
    """One bucket under Spark's watermark, which follows the newest event, and its timer."""

    def __init__(self, plan: Plan, store: PageStore, delay: float = 0.0) -> None:
        self.plan, self.store, self.delay = plan, store, delay
        self.newest: int | None = None
        self.state: bytes | None = None
        self.timer: int | None = None
        self.done: list[Advanced] = []
        #: What every call began from, to replay it.
        self.calls: list[tuple[bytes | None, pa.Table, int | None]] = []

    @property
    def watermark(self) -> int | None:
        """In microseconds, of whole milliseconds."""
        if self.newest is None:
            return None
        return (self.newest // 1000 - round(self.delay * 1000)) * 1000

    def feed(self, rows: pa.Table) -> Advanced:
        """A micro-batch with rows for the bucket."""
        done = self._call(rows)
        newest = pc.max(rows.column("ts").cast(pa.int64())).as_py()
        if newest is not None:
            self.newest = newest if self.newest is None else max(self.newest, newest)
        return done

    def others(self, seconds: float) -> Advanced | None:
        """A micro-batch with rows for other buckets alone, up to a time."""
        self.newest = max(self.newest or 0, START + round(seconds * SECOND))
        return self.idle()

    def idle(self) -> Advanced | None:
        """A micro-batch without rows; as Spark has it, only when the bucket's timer is due."""
        if self.timer is None or self.watermark is None:
            return None
        return self._call(rows_of()) if self.timer // 1000 < self.watermark // 1000 else None

    def _call(self, rows: pa.Table) -> Advanced:
        self.calls.append((self.state, rows, self.watermark))
        done = step(self.state, rows, self.plan, self.store, self.watermark)
        self.state, self.timer = done.state, done.timer
        self.done.append(done)
        return done

    def run(self, events: pa.Table, batches: int) -> None:
        """The events in batches, each followed by one without rows; and then silence."""
        size = max(1, -(-events.num_rows // batches))
        for at in range(0, events.num_rows, size):
            self.feed(events.slice(at, size))
            self.idle()

    def replay(self, call: int, seed: int) -> Advanced:
        """A call once more, its rows in another order."""
        state, rows, watermark = self.calls[call]
        return step(state, shuffled(rows, seed), self.plan, self.store, watermark)

    @property
    def results(self) -> list[Row]:
        """Everything that came out."""
        return in_form(row for done in self.done for row in done.rows.to_pylist())

    @property
    def keys(self) -> set[Any]:
        """The keys that have a window."""
        return keys_of(self.state, self.store)

    @property
    def pending(self) -> int:
        """The windows that wait for the deletion of their pages."""
        return len(pending_of(self.state))


def windows_in(pages: Iterable[str]) -> set[str]:
    """The names of the windows that have pages."""
    return {key.partition("/")[0].rpartition(":")[2] for key in pages}
