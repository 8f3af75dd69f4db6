"""One micro-batch of one bucket of keys: its state and rows in, its state and results out.

A pure function of its arguments and the pages in the store, free of Spark: the same state and the
same rows, in any order, give the same state, the same results and the same pages. So a replay is
harmless (a page is named by its content, so a replay writes it again under the same name), and
Spark's commit of state and results together makes them exactly once.

    rows of the bucket -> sorted by key and time -> KeyedWindows -> results beside the rows

The pages are made durable by one flush at the end, before the state leaves the task.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from spark_integration.plan import Plan
from spark_integration.step.results import Counts, counts_of, results_of
from spark_integration.step.rows import complete, sort_rows, split_ahead
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
    """Windows that became standalone, less those that were expired."""
    merges: int = 0
    """Runs of pages that were merged into others."""


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
    """Advance the windows of all keys by their rows and return the results beside the rows.

    O(rows * log rows) for the sort, plus what ``KeyedWindows.extend`` costs. The results of a key
    are in order of time: of all accepted rows, or of the last. ``watermark``, in microseconds, is
    what the stream's event time has reached; keys that it finds idle are expired if the plan
    says so, and their pages deleted by a later step. Raises NullKey, InvalidTime, InvalidValue,
    LateEvent, AheadEvent, StateMismatch, CorruptState, and what the windows and the store raise;
    nothing is lost then, since the old state still stands.
    """
    options = plan.options
    before = None if state is None else State.decode(state).snapshot_for(plan.buckets, plan.fixed)
    read = rows.num_rows
    rows, ahead = split_ahead(rows, plan)
    if options.idle == "emit" or options.by_boundaries:  # rows without an event have these types
        rows, ahead = rows.cast(plan.row_schema), ahead and ahead.cast(plan.row_schema)
    known = complete(rows, plan)
    later = after_cutover(known, plan)
    group = sort_rows(later, plan)
    if plan.part is not None:
        store = plan.part.guarded(store)
    with snapshot_of(plan, store) if state is None else nullcontext() as start:
        windows = Windows(plan, store, before, start)
    with np.errstate(all="ignore"):  # such as the means of frames without values
        done = windows.advance(group)
        gone = windows.expire(watermark)
    before_cutover, incomplete = (
        known.num_rows - later.num_rows,
        windows.incomplete(group.times[done.line]),
    )
    too_far = 0 if ahead is None else ahead.num_rows
    counts = counts_of(plan, read, before_cutover, too_far, done, incomplete)
    if plan.temporary:
        return Advanced(b"", results_of(plan, group, done, gone, ahead), counts)
    snapshot = windows.keyed.checkpoint(wait=False)
    if plan.part is not None:
        plan.part.write(store, snapshot)
    store.hurry()
    # While its pages are being written; they are durable only after the flush.
    found = results_of(plan, group, done, gone, ahead)
    after = State(plan.buckets, plan.fixed, snapshot).encode()
    timer = windows.timer(watermark)
    store.flush()
    return Advanced(after, found, counts, timer, windows.promotions, windows.merges)
