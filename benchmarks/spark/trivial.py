"""The step that computes nothing, in a module that a worker imports without any bench's plots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from spark_integration.plan import Plan
from spark_integration.step.results import Counts
from spark_integration.step.step import Advanced
from stores import PageStore


def trivial_step(
    state: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None = None,
) -> Advanced:
    """Everything that a step must do but for the windows: an empty state, a column per result."""
    del store, watermark
    for alias in plan.results:
        filled: Any = np.ones(rows.num_rows)
        rows = rows.append_column(alias, pa.array(filled))
    return Advanced(state or b"", rows, Counts(rows.num_rows))
