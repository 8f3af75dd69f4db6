"""A plan: what windows take in a store, and how many buckets, partitions and cores they need.

Processor time follows from constants that ``mta plan --measure`` measures. A micro-batch of a
bucket takes a constant time for each
    row         of the batch
    value       of these rows: rows * aggregations
    key         with rows in the batch
    number      that these keys retain: events * (1 + aggregations), a time and values each
    page        that is read or written
    byte        of these pages
    standalone  window with rows in the batch

``measure`` runs windows of several shapes on a store and solves for these constants. The constants
of Spark come from ``python -m benchmarks spark_keys``, from its variants without computation: rows
through a trivial step, and batches of few rows with different numbers of buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from math import ceil
from time import process_time
from typing import Any
from uuid import uuid4

import numpy as np

from mta.frames import CountWindow, TimeWindow
from mta.keyed.windows import KeyedWindows
from mta.monoids.basic import Max
from mta.monoids.product import Product
from mta.planning.expected import Expected, Workload, expected
from stores import PageStore, open_store

_SHORT = TimeWindow("20 seconds")
#: The measured workloads of one bucket: many rows of few keys; the same with more columns; one row
#: of most keys; the same with long windows; few rows in many large pages; the same in small pages;
#: long count windows; standalone windows.
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
#: The number of batches that warm up, and of those that are timed.
_WARM, _COUNTED = 2, 8
_FILLING = 200_000


@dataclass(frozen=True, slots=True)
class Costs:
    """Processor seconds per unit of each kind of work in a micro-batch of a bucket."""

    row: float
    value: float
    key: float
    number: float
    page: float
    byte: float
    standalone: float

    def of(self, work: Workload, found: Expected) -> float:
        """Return the processor seconds of a micro-batch of a bucket."""
        return float(np.dot(astuple(self), _amounts(work, found)))


#: ``mta plan --measure --json`` on local disk, on 2 cores of an AMD EPYC shared with other work.
MEASURED = Costs(
    row=4.7e-7, value=2.3e-7, key=3.7e-8, number=0.0, page=2.7e-6, byte=2.1e-10, standalone=3.6e-4
)
#: The processor seconds of a row, a bucket, a partition and a micro-batch in Spark: those of the
#: trivial step of ``python -m benchmarks spark_keys``, on 2 cores of an AMD EPYC with 2 buckets
#: in 2 partitions: batches of 100,000, 500,000 and 1,000,000 rows take 0.56, 1.23 and 2.60 s.
_ROW, _BUCKET, _PARTITION, _BATCH = 1.9e-6, 6.4e-3, 0.05, 0.22


def measure(url: str) -> Costs:
    """Measure the constants with a store, in about a minute. Raises the store's errors."""
    seconds, amounts = [], []
    for shape in SHAPES:
        with ExitStack() as stack:
            store = stack.enter_context(open_store(url))
            seconds.append(_processor_time(shape, store, stack))
        amounts.append(_amounts(shape, expected(shape)))
    return Costs(*_solved(np.array(amounts), np.array(seconds)))


def _amounts(work: Workload, found: Expected) -> Sequence[float]:
    """Return how much a micro-batch of a bucket does of each kind of work in ``Costs``."""
    pages, moved = found.get.pages + found.put.pages, found.get.bytes + found.put.bytes
    rows, values = work.rows, work.rows * work.aggregations
    if work.is_standalone:
        return rows, values, 0.0, 0.0, pages, moved, found.keys
    numbers = found.keys * work.events_per_key * (1 + work.aggregations)
    return rows, values, found.keys, numbers, pages, moved, 0.0


def _solved(amounts: np.ndarray, seconds: np.ndarray) -> list[float]:
    """Return the constants >= 0 that fit the times best, by relative error."""
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


def _processor_time(work: Workload, store: PageStore, stack: ExitStack) -> float:
    """Return the processor seconds of this process per micro-batch, once the windows are full."""
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
    """Return new windows for a workload."""
    columns = {f"max_{n}": (f"value_{n}", Max()) for n in range(work.aggregations)}
    return KeyedWindows(
        Product(columns), work.window, store, name=name, timed=True, page_bytes=work.page_bytes,
        promote_at=work.promote_at, retain=work.retain, **how,
    )  # fmt: skip


class Batches:
    """Events of random keys, at random times within each batch, in milliseconds."""

    def __init__(self, work: Workload) -> None:
        self._work, self._random, self._now = work, np.random.default_rng(1), 0.0
        numbers = np.arange(int(work.keys))
        width = work.key_bytes
        self._keys = np.array([f"{n:0{width}}" for n in numbers]) if width else numbers

    def next(self, seconds: float) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Return keys, columns and times of the next seconds."""
        work, random = self._work, self._random
        rows = int(work.events_per_second * seconds)
        first, self._now = self._now, self._now + seconds
        times = np.sort(random.integers(int(first * 1000), int(self._now * 1000), rows))
        columns = {f"value_{n}": random.random(rows) for n in range(work.aggregations)}
        return random.choice(self._keys, rows), columns, times.view("M8[ms]")


def advance(windows: KeyedWindows, batch: tuple[Any, Any, Any]) -> bytes:
    """Add a batch and take a snapshot."""
    windows.extend(*batch)
    return windows.checkpoint()


#: The fewest and most buckets, and the buckets per core, so that cores can be added later.
_FEWEST, _MOST, _PER_CORE = 8, 4096, 4
#: The memory of a worker's Python with imports and caches, and per row of a bucket's micro-batch.
#: ``python -m benchmarks spark_keys`` measured 125 MiB after batches of 100,000 rows in 8 buckets,
#: and 270 to 290 MiB after a million.
_WORKER_BYTES, _ROW_BYTES = 125 << 20, 1_300


@dataclass(frozen=True, slots=True)
class Plan:
    """The resources of the windows of all buckets together."""

    pages: int
    store_bytes: int
    checkpoint_bytes: int
    """Bytes of all buckets' snapshots; each micro-batch writes them."""
    written_bytes_per_second: int
    read_bytes_per_second: int
    store_calls_per_second: float
    pages_per_second: float
    """Pages that are written, read and deleted."""
    flushes_per_second: float
    """Snapshots of buckets; with a warm cache, each is one request to an object store."""
    events_per_key: float
    standalone: bool
    """Whether each key has its own window and pages."""
    buckets: int
    partitions: int
    cores: int
    executor_bytes: int
    """Memory of the Python worker of each core, in addition to Spark's Java."""
    events_per_second_and_core: int


def plan(work: Workload, buckets: int | None = None, costs: Costs = MEASURED) -> Plan:
    """Return a plan for a workload, with a given or a suitable number of buckets.

    ``costs`` are those of the store. O(batches in a window); no store call.
    """
    count, cores = buckets or _FEWEST, 1
    while True:
        part = work.of_bucket(count)
        found = expected(part)
        seconds = _seconds(part, found, count, cores, costs)
        cores = max(1, ceil(seconds / work.batch_seconds))
        wanted = min(_MOST, max(_FEWEST, 1 << ceil(_PER_CORE * cores - 1).bit_length()))
        if buckets is not None or wanted <= count:
            break
        count = wanted
    partitions = min(count, cores)
    seconds = _seconds(part, found, count, partitions, costs)
    per_second = count / part.batch_seconds
    moved = (found.get, found.put, found.delete)
    return Plan(
        pages=round(count * found.pages),
        store_bytes=round(count * found.bytes),
        checkpoint_bytes=round(count * found.snapshot_bytes),
        written_bytes_per_second=round(per_second * found.put.bytes),
        read_bytes_per_second=round(per_second * found.get.bytes),
        store_calls_per_second=round(per_second * sum(each.calls for each in moved), 1),
        pages_per_second=round(per_second * sum(each.pages for each in moved), 1),
        flushes_per_second=round(per_second, 1),
        events_per_key=round(part.events_per_key, 1),
        standalone=part.is_standalone,
        buckets=count,
        partitions=partitions,
        cores=cores,
        executor_bytes=round(_WORKER_BYTES + _ROW_BYTES * part.rows),
        events_per_second_and_core=round(count * part.rows / seconds),
    )


def _seconds(part: Workload, found: Expected, buckets: int, partitions: int, costs: Costs) -> float:
    spark = _BATCH + _ROW * buckets * part.rows + _BUCKET * buckets + _PARTITION * partitions
    return buckets * costs.of(part, found) + spark
