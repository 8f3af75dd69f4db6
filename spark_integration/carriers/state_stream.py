"""The step under Spark's streaming state where the pages are in that state too: ``spark://state``.

``streaming.py`` keeps one value per bucket by ``applyInPandasWithState``. Pages need a state of
several variables, a map among them, which is what ``transformWithStateInPandas`` has; that wants
protobuf and the RocksDB provider (``check_session``).

Exactly once: handles and pages are one state, which Spark commits with the batch's offsets. Two
attempts of a task each write to a copy of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_integration.carriers.packing import BUCKET, RESULT_SCHEMA, from_blobs, pack_results
from spark_integration.carriers.state_pages import URL, StatePages
from spark_integration.carriers.streaming import query_id, timer_of, watermark_of
from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from stores.errors import MissingDependency

if TYPE_CHECKING:
    from spark_integration.step.step import Step

#: The state variables, and the columns of the second one's rows.
HANDLES, PAGES = "handles", "pages"
KEY, PAGE = "key", "page"

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"
_STATE_SCHEMA = StructType([StructField("state", BinaryType())])
_KEY_SCHEMA = StructType([StructField(KEY, StringType())])
_PAGE_SCHEMA = StructType([StructField(PAGE, BinaryType())])


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


def advance_in_state(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Packed rows to packed results; ``step`` runs once per bucket and micro-batch."""
    return packed.groupBy(BUCKET).transformWithStateInPandas(
        Advance(plan, step),
        RESULT_SCHEMA,
        "append",
        "None" if plan.lifetime is None else "EventTime",
    )


class Advance(StatefulProcessor):
    """Runs the step on a bucket's state; Spark makes one for each task.

    Where silent keys are to be forgotten, each bucket has one timer, as in ``streaming.py``.
    """

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
        # By position: on the way through pandas, PySpark loses names that begin with "_".
        blobs = [blob for part in rows for blob in part.iloc[:, 1]]
        yield self._advance(from_blobs(blobs), timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket whose keys have fallen silent; Spark deletes the timer afterwards."""
        yield self._advance(self._plan.row_schema.empty_table(), timerValues)

    def _advance(self, rows: pa.Table, times: TimerValues) -> pd.DataFrame:
        saved = self._handles.get()
        before = None if saved is None else bytes(saved[0])
        reached = times.getCurrentWatermarkInMs()
        plan, pages = self._plan.named(query_id()), StatePages(self._pages)
        after = self._step(before, rows, plan, pages, watermark_of(reached))
        self._handles.update((after.state,))
        if plan.lifetime is not None:
            self._set_timer(None if after.timer is None else timer_of(after.timer, reached))
        return pack_results(after.rows, after.counts).to_pandas()

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
