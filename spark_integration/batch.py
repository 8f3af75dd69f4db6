"""The step over a batch DataFrame: every key's window starts empty and ends with the query.

The pages serve only while their task runs. Their windows' names carry a fresh id for each attempt,
so that neither a retry nor a speculative twin deletes what another attempt still reads, and the
attempt deletes its own pages when it ends, also by an error. (A worker that is killed leaves its
pages behind, under names that start with ``batch.``.)

A bucket's rows are in memory at once, so a large batch wants many ``buckets``; Spark limits the
rows of one bucket to 2 GiB, unless ``spark.sql.execution.arrow.useLargeVarTypes`` is set.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from .packing import BLOB, BUCKET, RESULT_SCHEMA, from_blobs, pack_results
from .plan import Plan
from .workers import store_of

if TYPE_CHECKING:
    from .step import Step


def advance_batch(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Packed rows to packed results; ``step`` runs once per bucket."""

    def advance(bucket: pa.Table) -> pa.Table:
        rows = from_blobs(blob.as_buffer() for blob in bucket.column(BLOB))
        attempt = replace(plan, name=f"batch.{uuid4().hex}", temporary=True)
        after = step(None, rows, attempt, store_of(plan.store))
        return pack_results(after.rows, rows.num_rows, after.dropped)

    return packed.groupBy(BUCKET).applyInArrow(advance, RESULT_SCHEMA)
