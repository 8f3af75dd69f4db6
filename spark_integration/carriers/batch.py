"""The step over a batch DataFrame: every key's window starts empty and ends with the query.

The pages serve only while their task runs. Their windows' names carry a fresh id for each attempt,
so that neither a retry nor a speculative twin deletes what another attempt still reads, and the
attempt deletes its own pages when it ends, also by an error. A worker that is killed leaves its
pages behind, which their names tell apart from others,

    batch.<seconds since 1970, hexadecimal>.<id of the attempt>.<plan>:<key>

of which ``delete_abandoned`` deletes the old ones. No query does that by itself: it means listing
all keys of the store, and only you know how long your longest batch query runs.

With ``spark://state``, which only streams have, the pages are in the task's memory.

A bucket's rows are in memory at once, so a large batch wants many ``buckets``; Spark limits the
rows of one bucket to 2 GiB, unless ``spark.sql.execution.arrow.useLargeVarTypes`` is set.
"""

from __future__ import annotations

import re
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_integration.carriers.packing import BLOB, BUCKET, RESULT_SCHEMA, from_blobs, pack_results
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.carriers.workers import store_of
from spark_integration.plan import Plan
from stores import MemoryStore, PageStore, open_store

if TYPE_CHECKING:
    from spark_integration.step.step import Step

_TEMPORARY = re.compile(r"batch\.([0-9a-f]{8,16})\.[0-9a-f]{32}\.")
_DELETED_AT_ONCE = 256


def advance_batch(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Packed rows to packed results; ``step`` runs once per bucket."""

    def advance(bucket: pa.Table) -> pa.Table:
        rows = from_blobs(blob.as_buffer() for blob in bucket.column(BLOB))
        name = f"batch.{int(time.time()):08x}.{uuid4().hex}"
        with _store_for(plan) as store:
            after = step(None, rows, replace(plan, name=name, temporary=True), store)
        return pack_results(after.rows, after.counts)

    return packed.groupBy(BUCKET).applyInArrow(advance, RESULT_SCHEMA)


def _store_for(plan: Plan) -> AbstractContextManager[PageStore]:
    """The plan's store; where that is Spark's state, which only streams have, the task's memory."""
    return MemoryStore() if is_state_url(plan.store) else store_of(plan.store)


def delete_abandoned(store: str | PageStore, seconds: float = 86400.0) -> int:
    """Delete the pages of batch tasks that began so long ago and never ended; return how many.

    ``seconds`` must be more than the longest task of a batch query takes. Lists the store's keys,
    and is a delete per 256 pages. Raises the store's errors.
    """
    until = time.time() - seconds
    pages = open_store(store)
    try:
        names = map(_TEMPORARY.match, pages.keys("batch."))
        found = [name.string for name in names if name and int(name[1], 16) < until]
        for start in range(0, len(found), _DELETED_AT_ONCE):
            pages.delete_many(found[start : start + _DELETED_AT_ONCE])
        pages.flush()
    finally:
        if pages is not store:
            pages.close()
    return len(found)
