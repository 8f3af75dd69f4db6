"""The step under Spark's streaming state, a bucket of keys at a time.

| pages | Spark calls by | a bucket's state |
|---|---|---|
| in a store | ``applyInPandasWithState`` | a value, the handles |
| in the state, ``spark://state`` | ``transformWithStateInPandas`` | a value, and a map of pages |

With packed rows, 64 buckets and 300 KB of state in each, both are equally fast (about 1.05 s for a
batch of 500,000 rows on two cores, most of it outside of them). The first needs neither protobuf
nor the RocksDB provider, and its value comes and goes with the rows instead of through a socket of
its own. What it lacks, a map, pages need.

Exactly once: Spark commits the new states and its offsets together. A batch that did not commit
leaves pages in a store that no state names; when it runs again, it writes the same pages. Pages in
the state are committed with it; two attempts of a task each write to a copy of their own.

Where silent keys are to be forgotten, each bucket has one timer, at the moment when the first of
its keys becomes silent. Spark then calls it also in micro-batches that bring it no rows, and those
that bring no rows at all are made when the watermark has moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from spark_integration.carriers.packing import BUCKET, RESULT_SCHEMA, from_blobs, pack_results
from spark_integration.carriers.state_pages import URL, StatePages, is_state_url
from spark_integration.carriers.workers import store_of
from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from stores.base import PageStore
from stores.errors import MissingDependency

if TYPE_CHECKING:
    from spark_integration.step.step import Step

#: The variables of a state with pages, and the columns of the second one's rows.
HANDLES, PAGES = "handles", "pages"
KEY, PAGE = "key", "page"

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"
_STATE_SCHEMA = StructType().add("state", BinaryType())
_KEY_SCHEMA = StructType().add(KEY, StringType())
_PAGE_SCHEMA = StructType().add(PAGE, BinaryType())
_QUERY_ID = "sql.streaming.queryId"


def check_session(spark: SparkSession) -> None:
    """Raises InvalidRequest or MissingDependency where a query's state cannot hold pages."""
    provider = spark.conf.get(PROVIDER, None) or ""
    if not provider.endswith("RocksDBStateStoreProvider"):
        raise InvalidRequest(
            f"store is {URL}, but this session keeps state by {provider or 'the default'}, not in "
            "RocksDB: set what recommended_conf() returns, before sliding_aggregate is called"
        )
    try:
        import_module(_MESSAGES)
    except ImportError as error:
        raise MissingDependency(
            f"store is {URL}, for which PySpark needs protobuf ({error}): "
            "pip install 'mta-windows[spark]'"
        ) from error


def advance_stream(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Packed rows to packed results; ``step`` runs once per bucket and micro-batch."""
    buckets, timed = packed.groupBy(BUCKET), plan.lifetime is not None
    if is_state_url(plan.store):
        time_mode = "EventTime" if timed else "None"
        return buckets.transformWithStateInPandas(
            _StateWithPages(plan, step), RESULT_SCHEMA, "append", time_mode
        )

    def advance(
        key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        before = bytes(state.get[0]) if state.exists else None
        reached = state.getCurrentWatermarkMs() if timed else 0
        with store_of(plan.store) as store:
            after = _advance(plan, step, before, parts, store, reached)
        state.update((after.state,))
        if after.timer is not None:
            state.setTimeoutTimestamp(after.timer)
        yield after.results

    timeout = GroupStateTimeout.EventTimeTimeout if timed else GroupStateTimeout.NoTimeout
    return buckets.applyInPandasWithState(advance, RESULT_SCHEMA, _STATE_SCHEMA, "append", timeout)


class _StateWithPages(StatefulProcessor):
    """Runs the step on a bucket's state of several variables; Spark makes one for each task."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self._plan, self._step = plan, step

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state's variables; Spark calls it on the driver too."""
        self._timers = handle
        self._handles = handle.getValueState(HANDLES, _STATE_SCHEMA)
        self._pages = handle.getMapState(PAGES, _KEY_SCHEMA, _PAGE_SCHEMA)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket by its packed rows."""
        saved, reached = self._handles.get(), timerValues.getCurrentWatermarkInMs()
        before = None if saved is None else bytes(saved[0])
        pages = StatePages(self._pages)
        after = _advance(self._plan, self._step, before, rows, pages, reached)
        self._handles.update((after.state,))
        if self._plan.lifetime is not None:
            self._set_timer(after.timer)
        yield after.results

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket whose keys have fallen silent; Spark deletes the timer afterwards."""
        return self.handleInputRows(key, iter(()), timerValues)

    def _set_timer(self, wanted: int | None) -> None:
        """Have the bucket called once the watermark is later than that, and at no other time."""
        present = list(self._timers.listTimers())
        for timer in present:
            if timer != wanted:
                self._timers.deleteTimer(timer)
        if wanted is not None and wanted not in present:
            self._timers.registerTimer(wanted)

    def close(self) -> None:
        """Nothing is left to do: the state is Spark's to commit."""


class _After(NamedTuple):
    """A bucket after the step, as Spark has it."""

    state: bytes
    timer: int | None
    """In milliseconds."""
    results: pd.DataFrame


def _advance(
    plan: Plan,
    step: Step,
    before: bytes | None,
    parts: Iterator[pd.DataFrame],
    store: PageStore,
    reached: int,
) -> _After:
    """The step for a bucket, by its packed rows or, where there are none, by time alone.

    ``reached`` is Spark's watermark, in milliseconds. It begins at 1970 and never goes below: with
    earlier events there is none.
    """
    # By position: on the way through pandas, PySpark may lose names that begin with "_".
    blobs = [blob for part in parts for blob in part.iloc[:, 1]]
    rows = from_blobs(blobs) if blobs else plan.row_schema.empty_table()
    watermark = reached * 1000 if reached > 0 else None
    after = step(before, rows, plan.named(_query_id()), store, watermark)
    timer = None if after.timer is None else max(after.timer // 1000, reached, 1)
    return _After(after.state, timer, pack_results(after.rows, after.counts).to_pandas())


def _query_id() -> str:
    """The id of the running query, which Spark keeps in the checkpoint; only inside a task."""
    context = TaskContext.get()
    found = context.getLocalProperty(_QUERY_ID) if context else None
    if found is None:
        raise RuntimeError("no streaming query runs in this task; report this as a bug")
    return found
