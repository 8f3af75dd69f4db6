"""One micro-batch of one bucket under Spark's streaming state, whichever way Spark calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from spark_integration.plan import Plan
from spark_integration.runners.metrics import MeteredStore
from spark_integration.runners.packing import from_blobs, pack_results
from spark_integration.runners.tasks import running_batch, state_partitions
from spark_integration.runners.workers import settle
from stores.base import PageStore

if TYPE_CHECKING:
    from spark_integration.step.step import Step


class After(NamedTuple):
    """A bucket after the step, as Spark has it."""

    state: bytes
    timer: int | None
    """In milliseconds."""
    results: pd.DataFrame


def advance_bucket(
    plan: Plan,
    step: Step,
    before: bytes | None,
    parts: Iterator[pd.DataFrame],
    store: PageStore,
    reached: int,
) -> After:
    """The step for a bucket, by its packed rows or, where there are none, by time alone.

    ``reached`` is Spark's watermark, in milliseconds. It begins at 1970 and never goes below: with
    earlier events there is none.
    """
    settle()
    # By position: on the way through pandas, PySpark may lose names that begin with "_".
    blobs = [blob for part in parts for blob in part.iloc[:, 1]]
    rows = from_blobs(blobs) if blobs else plan.row_schema.empty_table()
    watermark = reached * 1000 if reached > 0 else None
    metered = MeteredStore(store)
    of_batch = plan.of_batch(*running_batch(), state_partitions())
    after = step(before, rows, of_batch, metered, watermark)
    timer = None if after.timer is None else max(after.timer // 1000, reached, 1)
    results = pack_results(
        after.rows, after.counts, metered.page_counts(after.promotions, after.merges)
    )
    return After(after.state, timer, results.to_pandas())
