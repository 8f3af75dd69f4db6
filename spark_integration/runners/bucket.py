"""The step for one bucket of keys, for all ways in which Spark calls it.

In a streaming query, a bucket continues from its state (``streaming``, ``stateful``). In a batch
query, every key's window starts empty and ends with the query: the windows are in the memory of
their task, next to the rows of their bucket, and no store is opened. So a large batch needs many
``buckets``; Spark limits the rows of one bucket to 2 GiB, unless
``spark.sql.execution.arrow.useLargeVarTypes`` is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame

from spark_integration.plan import Plan
from spark_integration.runners.metrics import MeteredStore
from spark_integration.runners.packing import BLOB, LABEL, RESULT_SCHEMA, from_blobs, pack_results
from spark_integration.runners.workers import running_batch, settle, state_partitions
from spark_integration.versions import apply_in_arrow
from stores import MemoryStore
from stores.base import PageStore

if TYPE_CHECKING:
    from spark_integration.step.step import Advanced, Step


class After(NamedTuple):
    """The result of the step for a bucket, for Spark."""

    state: bytes
    timer: int | None
    """When Spark calls the bucket again, in milliseconds."""
    results: pd.DataFrame


def advance_bucket(
    plan: Plan,
    step: Step,
    before: bytes | None,
    parts: Iterator[pd.DataFrame],
    store: PageStore,
    reached: int,
) -> After:
    """Run the step for a bucket, with its packed rows or, without rows, only because of time.

    ``reached`` is Spark's watermark, in milliseconds. It is 0, and there is no watermark, until
    events are later than 1970.
    """
    settle()
    # By position: PySpark may lose column names that begin with "_" on the way through pandas.
    blobs = [blob for part in parts for blob in part.iloc[:, 1]]
    rows = from_blobs(blobs) if blobs else plan.row_schema.empty_table()
    watermark = reached * 1000 if reached > 0 else None
    of_batch = plan.of_batch(*running_batch(), state_partitions())
    after, results = _advanced(step, before, rows, of_batch, store, watermark)
    timer = None if after.timer is None else max(after.timer // 1000, reached, 1)
    return After(after.state, timer, results.to_pandas())


def advance_batch(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Return the packed results of packed rows; ``step`` runs once per bucket."""

    def advance(bucket: pa.Table) -> pa.Table:
        settle()
        rows = from_blobs(blob.as_buffer() for blob in bucket.column(BLOB))
        of_batch = replace(plan, name="batch", temporary=True)
        return _advanced(step, None, rows, of_batch, MemoryStore(), None)[1]

    return apply_in_arrow(packed.groupBy(LABEL), advance, RESULT_SCHEMA)


def _advanced(
    step: Step,
    before: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None,
) -> tuple[Advanced, pa.Table]:
    """Run the step, and return its packed results, which include the counts of its store calls."""
    metered = MeteredStore(store)
    after = step(before, rows, plan, metered, watermark)
    pages = metered.page_counts(after.promotions, after.merges)
    return after, pack_results(after.rows, after.counts, pages)
