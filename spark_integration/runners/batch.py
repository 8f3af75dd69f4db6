"""The step over a batch DataFrame: every key's window starts empty and ends with the query.

The windows are in their task's memory, beside the rows of their bucket; no store is opened. So a
large batch wants many ``buckets``; Spark limits the rows of one bucket to 2 GiB, unless
``spark.sql.execution.arrow.useLargeVarTypes`` is set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_integration.plan import Plan
from spark_integration.runners.metrics import MeteredStore
from spark_integration.runners.packing import BLOB, LABEL, RESULT_SCHEMA, from_blobs, pack_results
from spark_integration.runners.workers import settle
from spark_integration.versions import apply_in_arrow
from stores import MemoryStore

if TYPE_CHECKING:
    from spark_integration.step.step import Step


def advance_batch(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Packed rows to packed results; ``step`` runs once per bucket."""

    def advance(bucket: pa.Table) -> pa.Table:
        settle()
        rows = from_blobs(blob.as_buffer() for blob in bucket.column(BLOB))
        metered = MeteredStore(MemoryStore())
        after = step(None, rows, replace(plan, name="batch", temporary=True), metered)
        return pack_results(
            after.rows, after.counts, metered.page_counts(after.promotions, after.merges)
        )

    return apply_in_arrow(packed.groupBy(LABEL), advance, RESULT_SCHEMA)
