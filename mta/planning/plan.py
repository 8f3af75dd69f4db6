"""A plan: what windows take in a store, and how many buckets, partitions and cores they need."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mta.planning.costs import MEASURED, SPARK, Costs
from mta.planning.expected import Expected, expected
from mta.planning.workload import Workload

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
    return _summed(part, found, count, partitions, cores, seconds)


def _seconds(part: Workload, found: Expected, buckets: int, partitions: int, costs: Costs) -> float:
    carried = SPARK.of(buckets * part.rows, buckets, partitions)
    return buckets * costs.of(part, found) + carried


def _summed(
    part: Workload, found: Expected, buckets: int, partitions: int, cores: int, seconds: float
) -> Plan:
    per_second = buckets / part.batch_seconds
    moved = (found.get, found.put, found.delete)
    return Plan(
        pages=round(buckets * found.pages),
        store_bytes=round(buckets * found.bytes),
        checkpoint_bytes=round(buckets * found.snapshot_bytes),
        written_bytes_per_second=round(per_second * found.put.bytes),
        read_bytes_per_second=round(per_second * found.get.bytes),
        store_calls_per_second=round(per_second * sum(each.calls for each in moved), 1),
        pages_per_second=round(per_second * sum(each.pages for each in moved), 1),
        flushes_per_second=round(per_second, 1),
        events_per_key=round(part.events_per_key, 1),
        standalone=part.is_standalone,
        buckets=buckets,
        partitions=partitions,
        cores=cores,
        executor_bytes=round(_WORKER_BYTES + _ROW_BYTES * part.rows),
        events_per_second_and_core=round(buckets * part.rows / seconds),
    )
