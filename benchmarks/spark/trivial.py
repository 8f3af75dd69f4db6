"""A step that computes nothing, in a module that workers import without plotting libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_integration.plan import Plan
from spark_integration.step.step import Advanced, RowCounts
from stores import PageStore


def trivial_step(
    state: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None = None,
) -> Advanced:
    """Return what a step must return, without windows: an empty state, and result columns."""
    del store, watermark
    for alias in plan.results:
        filled: Any = np.ones(rows.num_rows)
        rows = rows.append_column(alias, pa.array(filled))
    return Advanced(state or b"", rows, RowCounts(rows.num_rows))
