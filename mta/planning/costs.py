"""Processor time of keyed windows, by constants that ``mta plan --measure`` measures.

A micro-batch of a bucket takes so much for each
    row         that it brings
    value       of these rows: rows * aggregations
    key         that it touches
    number      of what the touched keys retain: events * (1 + aggregations), a time and values each
    page        that is read or written
    byte        of these pages
    standalone  window that it touches

``measure`` runs windows of several shapes on a store and solves for these constants. What Spark
takes beside them are constants of ``python -m benchmarks spark_keys``, of its sides that compute
nothing: rows through a trivial step, and batches of few rows with more or fewer buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from time import process_time
from typing import Any
from uuid import uuid4

import numpy as np

from mta.frames import CountWindow, TimeWindow
from mta.keyed.windows import KeyedWindows
from mta.monoids.basic import Max
from mta.monoids.product import Product
from mta.planning.expected import Expected, expected
from mta.planning.workload import Workload
from stores import PageStore, open_store

_SHORT = TimeWindow("20 seconds")
#: What is measured, on one bucket: many rows of few keys, of more columns, one row of most keys, as
#: many with long windows, few rows in many large pages, in small ones, and standalone windows.
SHAPES = (
    Workload(2_000, 20_000, _SHORT, 1, 4, page_bytes=1 << 16),
    Workload(2_000, 20_000, _SHORT, 5, 4, page_bytes=1 << 16),
    Workload(40_000, 4_000, _SHORT, 1, 10, page_bytes=1 << 16),
    Workload(40_000, 4_000, TimeWindow("200 seconds"), 2, 10, page_bytes=1 << 16),
    Workload(100_000, 1_000, TimeWindow("1000 seconds"), 1, 1, page_bytes=1 << 16),
    Workload(100_000, 1_000, TimeWindow("1000 seconds"), 1, 1, page_bytes=1 << 14),
    Workload(5_000, 2_000, CountWindow(50), 3, 10, page_bytes=1 << 14),
    Workload(60, 6_000, _SHORT, 1, 1, page_bytes=1 << 16),
)
#: Batches of each that warm up, and that are counted.
_WARM, _COUNTED = 2, 8
_FILLING = 200_000


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of a processor for each of what a micro-batch of a bucket does."""

    row: float
    value: float
    key: float
    number: float
    page: float
    byte: float
    standalone: float

    def of(self, work: Workload, found: Expected) -> float:
        """What a micro-batch of a bucket takes."""
        return float(np.dot(astuple(self), _amounts(work, found)))


@dataclass(frozen=True, slots=True)
class SparkCosts:
    """Seconds of a processor for what carries rows through Spark and Python, and back."""

    row: float
    bucket: float
    partition: float
    batch: float

    def of(self, rows: float, buckets: int, partitions: int) -> float:
        """What a micro-batch takes, without what its windows do."""
        return self.batch + self.row * rows + self.bucket * buckets + self.partition * partitions


#: ``mta plan --measure --json`` on local disk, on 2 cores of an AMD EPYC that others used too.
MEASURED = Costs(
    row=4.7e-7, value=2.3e-7, key=3.7e-8, number=0.0, page=2.7e-6, byte=2.1e-10, standalone=3.6e-4
)
#: The trivial step of ``python -m benchmarks spark_keys`` as in ``docs/figures.md``, on 2 cores
#: with 8 buckets in 2 partitions: batches of 100,000, 500,000 and 1,000,000 rows take 0.96, 2.27
#: and 4.37 s of a core; 56 buckets more took 0.36 s, and a partition takes 0.11 s of Java.
SPARK = SparkCosts(row=3.6e-6, bucket=6.4e-3, partition=0.11, batch=0.33)


def measure(url: str) -> Costs:
    """The constants on this machine with a store, where pages are put and deleted; a minute.

    Raises what the store raises.
    """
    seconds, amounts = [], []
    for shape in SHAPES:
        with ExitStack() as stack:
            store = stack.enter_context(open_store(url))
            seconds.append(_seconds(shape, store, stack))
        amounts.append(_amounts(shape, expected(shape)))
    return Costs(*_solved(np.array(amounts), np.array(seconds)))


def _amounts(work: Workload, found: Expected) -> Sequence[float]:
    """How much of what the constants count a micro-batch of a bucket does."""
    pages, moved = found.get.pages + found.put.pages, found.get.bytes + found.put.bytes
    rows, values = work.rows, work.rows * work.aggregations
    if work.is_standalone:
        return rows, values, 0.0, 0.0, pages, moved, found.keys
    numbers = found.keys * work.events_per_key * (1 + work.aggregations)
    return rows, values, found.keys, numbers, pages, moved, 0.0


def _solved(amounts: np.ndarray, seconds: np.ndarray) -> list[float]:
    """Constants that are not negative, so that the times come out as near as they can."""
    left = list(range(amounts.shape[1]))
    while True:
        scaled = amounts[:, left] / seconds[:, None]
        found = np.linalg.lstsq(scaled, np.ones(len(seconds)), rcond=None)[0]
        if (found >= 0).all():
            break
        del left[int(np.argmin(found * scaled.mean(axis=0)))]
    solved = np.zeros(amounts.shape[1])
    solved[left] = found
    return solved.tolist()


def _seconds(work: Workload, store: PageStore, stack: ExitStack) -> float:
    """Seconds of this process for a micro-batch, once the windows are full."""
    windows = new_windows(work, store, f"plan-{uuid4().hex[:8]}")
    stack.callback(windows.delete_pages)
    stream = Batches(work)
    filling = max(work.batch_seconds, _FILLING / work.events_per_second)
    for _ in range(int(work.events / work.events_per_second / filling) + 1):
        advance(windows, stream.next(filling))
    for _ in range(_WARM):
        advance(windows, stream.next(work.batch_seconds))
    begin = process_time()
    for batch in [stream.next(work.batch_seconds) for _ in range(_COUNTED)]:
        advance(windows, batch)
    return (process_time() - begin) / _COUNTED


def new_windows(work: Workload, store: PageStore, name: str, **how: Any) -> KeyedWindows:
    """The windows of a workload."""
    columns = {f"max_{n}": (f"value_{n}", Max()) for n in range(work.aggregations)}
    return KeyedWindows(
        Product(columns), work.window, store, name=name, timed=True, page_bytes=work.page_bytes,
        promote_at=work.promote_at, retain=work.retain, **how,
    )  # fmt: skip


class Batches:
    """Events of random keys, at random times of each batch, to the millisecond."""

    def __init__(self, work: Workload) -> None:
        self._work, self._random, self._now = work, np.random.default_rng(1), 0.0
        numbers = np.arange(int(work.keys))
        width = work.key_bytes
        self._keys = np.array([f"{n:0{width}}" for n in numbers]) if width else numbers

    def next(self, seconds: float) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Keys, columns and times of the next seconds."""
        work, random = self._work, self._random
        rows = int(work.events_per_second * seconds)
        first, self._now = self._now, self._now + seconds
        times = np.sort(random.integers(int(first * 1000), int(self._now * 1000), rows))
        columns = {f"value_{n}": random.random(rows) for n in range(work.aggregations)}
        return random.choice(self._keys, rows), columns, times.view("M8[ms]")


def advance(windows: KeyedWindows, batch: tuple[Any, Any, Any]) -> bytes:
    """Take in a batch, and the snapshot after it."""
    windows.extend(*batch)
    return windows.checkpoint()
