"""One micro-batch of one bucket of keys: from its state and rows to its new state and results.

The step is a pure function of its arguments and the pages in the store, without Spark: the same
state and the same rows, in any order, give the same new state, results and pages. So a replay is
harmless: pages are named by their content, so it writes them again under the same names. Spark
commits state and results together, so the results are exactly once.

    rows of the bucket -> sorted by key and time -> KeyedWindows -> results next to the rows

One flush at the end makes the pages durable, before the state leaves the task.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_integration.plan import Plan
from spark_integration.step.results import Counts, counts_of, results_of
from spark_integration.step.rows import NOW, complete, sort_rows
from spark_integration.step.starts import after_cutover, snapshot_of
from spark_integration.step.states import State
from spark_integration.step.windows import Windows
from stores.base import PageStore


class Advanced(NamedTuple):
    """The results of a step."""

    state: bytes
    rows: pa.Table
    counts: Counts
    timer: int | None = None
    """Once the watermark is later than this, in microseconds, the step must run again."""
    promotions: int = 0
    """The number of windows that became standalone, minus expired standalone windows."""
    merges: int = 0
    """The number of runs of pages that were merged into others."""


class Step(Protocol):
    """The type of ``step``, and of its substitutes in tests and benchmarks."""

    def __call__(
        self,
        state: bytes | None,
        rows: pa.Table,
        plan: Plan,
        store: PageStore,
        watermark: int | None = None,
    ) -> Advanced: ...


def step(
    state: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None = None,
) -> Advanced:
    """Advance the windows of all keys with their rows, and return the results next to the rows.

    Costs O(rows * log rows) for the sort, plus the cost of ``KeyedWindows.extend``. The results of
    a key are in order of time, for all accepted rows or only for the last one. ``watermark`` is the
    watermark of the stream's event time, in microseconds. If the plan says so, keys that are idle
    at the watermark are expired, and a later step deletes their pages. Raises NullKey, InvalidTime,
    InvalidValue, LateEvent, AheadEvent, StateMismatch, CorruptState, and errors of the windows and
    the store. After an error nothing is lost, because the old state remains valid.
    """
    options = plan.options
    before = None if state is None else State.decode(state).snapshot_for(plan.buckets, plan.fixed)
    read = rows.num_rows
    now = None
    if NOW in rows.column_names:
        now = int(rows.column(NOW)[0].as_py()) if read else None
        rows = rows.drop_columns([NOW])
    if options.idle == "emit" or options.by_boundaries:  # rows without an event have these types
        rows = rows.cast(plan.row_schema)
    known = complete(rows, plan)
    later = after_cutover(known, plan)
    if plan.part is not None:
        store = plan.part.guarded(store)
    with snapshot_of(plan, store) if state is None else nullcontext() as start:
        windows = Windows(plan, store, before, start, now)
    group = sort_rows(later, plan, windows.bucket.key_kind)
    with np.errstate(all="ignore"):  # such as the means of frames without values
        done = windows.advance(group)
        gone = windows.expire(watermark)
    before_cutover = len(known.times) - len(later.times)
    incomplete = windows.incomplete(group.times[done.line])
    counts = counts_of(plan, read, before_cutover, done, incomplete)
    if plan.temporary:
        return Advanced(b"", results_of(plan, group, done, gone), counts)
    snapshot = windows.keyed.checkpoint(wait=False)
    if plan.part is not None:
        plan.part.write(store, snapshot)
    store.hurry()
    # Compute the results while pages are being written; they are durable only after the flush.
    found = results_of(plan, group, done, gone)
    after = State(plan.buckets, plan.fixed, snapshot).encode()
    timer = windows.timer(watermark)
    store.flush()
    return Advanced(after, found, counts, timer, windows.promotions, windows.merges)
