"""The step for one bucket of keys, for all ways in which Spark calls it.

In a batch query, every key's window starts empty and ends with the query: the windows are in the
memory of their task, next to the rows of their bucket, and no store is opened.

In a streaming query, a bucket continues from its state:

| pages | Spark operator | state of a bucket |
|---|---|---|
| in a store | ``applyInPandasWithState`` | a value, the snapshot |
| in the state, ``spark://state`` | ``transformWithStateInPandas`` | the value, and a map of pages |

Both are equally fast with packed rows. The first needs neither protobuf nor the RocksDB provider,
but has no map, which pages need.

Exactly once: Spark commits the new states and its offsets together. A batch that was not committed
leaves pages in a store that no state names; when the batch runs again, it writes the same pages.
Pages in the state are committed with the state; two attempts of a task write to different copies.

Each bucket has one timer. If idle keys expire, it is set to the moment when the first key of the
bucket becomes idle: then Spark calls the bucket even without rows for it. The timer exists also if
idle keys are kept, and even if the stream has no watermark. So ``idle`` can change for an existing
checkpoint; without the timer, Spark would reject the state as a different one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, StringType, StructType

from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from spark_integration.runners.packing import (
    BLOB,
    LABEL,
    RESULT_SCHEMA,
    bucket_of,
    from_blobs,
    pack_results,
)
from spark_integration.runners.state_pages import (
    KEY,
    PAGE,
    PAGES,
    STATE,
    URL,
    StatePages,
    is_state_url,
)
from spark_integration.runners.workers import (
    MeteredStore,
    freeze_objects,
    running_batch,
    state_pages_seen,
    state_pages_shared,
    state_partitions,
    store_of,
)
from spark_integration.step.step import Advanced, Step
from spark_integration.versions import apply_in_arrow, require_spark_4
from stores import MemoryStore
from stores.base import PageStore
from stores.errors import MissingDependency, pip_install

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

try:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
except ImportError:  # PySpark 3.5 has none, and nothing that uses it (``check_session``)
    StatefulProcessor = object  # type: ignore[assignment, misc]

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: With this setting a commit of RocksDB writes the changes instead of database files.
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"
STATE_SCHEMA = "state binary"
_STATE_SCHEMA = StructType().add("state", BinaryType())
_KEY_SCHEMA = StructType().add(KEY, StringType())
_PAGE_SCHEMA = StructType().add(PAGE, BinaryType())


def advance_bucket(
    plan: Plan,
    step: Step,
    label: int,
    before: bytes | None,
    parts: Iterator[pd.DataFrame],
    store: PageStore,
    reached: int,
) -> tuple[bytes, int | None, pd.DataFrame]:
    """Return a bucket's state, when to call it again (in milliseconds), and its packed results.

    ``reached`` is Spark's watermark, in milliseconds. It is 0, and there is no watermark, until
    events are later than 1970.
    """
    freeze_objects()
    # By position: PySpark may lose column names that begin with "_" on the way through pandas.
    blobs = [blob for part in parts for blob in part.iloc[:, 1]]
    rows = from_blobs(blobs) if blobs else plan.schema.empty_table()
    watermark = reached * 1000 if reached > 0 else None
    of_task = plan.of_task(bucket_of(label), *running_batch(), state_partitions())
    after = _advanced(step, before, rows, of_task, store, watermark)
    timer = None if after.timer is None else max(after.timer // 1000, reached, 1)
    return after.state, timer, after.rows.to_pandas()


def advance_batch(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Return the packed results of packed rows; ``step`` runs once per bucket."""

    def advance(bucket: pa.Table) -> pa.Table:
        freeze_objects()
        rows = from_blobs(blob.as_buffer() for blob in bucket.column(BLOB))
        of_batch = replace(plan, name="batch", temporary=True)
        return _advanced(step, None, rows, of_batch, MemoryStore(), None).rows

    return apply_in_arrow(packed.groupBy(LABEL), advance, RESULT_SCHEMA)


def _advanced(
    step: Step,
    before: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None,
) -> Advanced:
    """Run the step, and pack its results together with the counts of its store calls."""
    metered = MeteredStore(store)
    after = step(before, rows, plan, metered, watermark)
    pages = metered.page_counts(after.promotions, after.merges)
    return after._replace(rows=pack_results(after.rows, after.counts, pages))


def advance_stream(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Return the packed results of packed rows; ``step`` runs per bucket and micro-batch."""
    buckets = packed.groupBy(LABEL)
    if is_state_url(plan.store):
        return buckets.transformWithStateInPandas(
            StateWithPages(plan, step), RESULT_SCHEMA, "append", "EventTime"
        )

    def advance(
        key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        before = bytes(state.get[0]) if state.exists else None
        reached = state.getCurrentWatermarkMs()
        with store_of(plan.store) as store:
            after, timer, results = advance_bucket(
                plan, step, key[0], before, parts, store, reached
            )
        state.update((after,))
        if timer is not None:
            state.setTimeoutTimestamp(timer)
        yield results

    timers = GroupStateTimeout.EventTimeTimeout
    return buckets.applyInPandasWithState(advance, RESULT_SCHEMA, STATE_SCHEMA, "append", timers)


class StateWithPages(StatefulProcessor):
    """Runs the step with a bucket's snapshot and pages; Spark creates one for each task."""

    def __init__(self, plan: Plan, step: Step) -> None:
        self._plan, self._step = plan, step

    def init(self, spark: StatefulProcessorHandle) -> None:
        """Declare the variables of the state; Spark calls this on the driver too."""
        self._timers = spark
        #: The timer that fired.
        self._fired: int | None = None
        self._state = spark.getValueState(STATE, _STATE_SCHEMA)
        self._pages = spark.getMapState(PAGES, _KEY_SCHEMA, _PAGE_SCHEMA)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket with its packed rows."""
        saved, reached = self._state.get(), timerValues.getCurrentWatermarkInMs()
        before = None if saved is None else bytes(saved[0])
        pages = StatePages(self._pages, cached=state_pages_seen, shared=state_pages_shared())
        after, timer, results = advance_bucket(
            self._plan, self._step, key[0], before, rows, pages, reached
        )
        self._state.update((after,))
        self._set_timer(timer)
        yield results

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        """Advance a bucket whose keys have become idle; Spark deletes the timer afterwards."""
        self._fired = expiredTimerInfo.getExpiryTimeInMs()
        try:
            yield from self.handleInputRows(key, iter(()), timerValues)
        finally:
            self._fired = None

    def _set_timer(self, wanted: int | None) -> None:
        """Set the only timer of the bucket, which fires once the watermark passes ``wanted``."""
        if wanted is not None and wanted == self._fired:
            # Spark deletes the timer that fired, together with any other timer at that moment.
            wanted += 1
        present = list(self._timers.listTimers())
        for timer in present:
            if timer != wanted:
                self._timers.deleteTimer(timer)
        if wanted is not None and wanted not in present:
            self._timers.registerTimer(wanted)

    def close(self) -> None:
        """Do nothing: Spark commits the state."""


class StateAsGiven(StateWithPages):
    """Writes the state and the pages of each bucket for ``mta migrate``, instead of a step.

    A row has a label, a time, and either a state, or the name of a page and the page. Columns are
    read by position, because PySpark may lose names that begin with "_".
    """

    def __init__(self) -> None: ...

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        """Write the state of a bucket, and set a timer for the first watermark."""
        pages = StatePages(self._pages)
        for part in rows:
            columns = (part.iloc[:, place] for place in (2, 3, 4))
            for state, name, page in zip(*columns, strict=True):
                if name is None:
                    self._state.update((bytes(state),))
                else:
                    pages.put_many({name: bytes(page)})
        pages.flush()
        self._set_timer(1)
        yield from ()


# --- settings of the session ----------------------------------------------------------------------


def check_encoding(spark: SparkSession) -> None:
    """Raises InvalidRequest if Spark refuses the session's encoding of states."""
    encoding = spark.conf.get(ENCODING, None) or ""
    if encoding.lower() == "avro":
        raise InvalidRequest(
            f"{ENCODING} is {encoding!r}, but with that encoding Spark cannot keep the state of "
            "windows with pages in a store: set it to 'unsaferow', Spark's default, or use "
            "store='spark://state'"
        )


def check_session(spark: SparkSession) -> None:
    """Raises InvalidRequest or MissingDependency if a query's state cannot hold pages."""
    require_spark_4(f"store={URL!r}", "use another store, such as file:///path or redis://host")
    provider = spark.conf.get(PROVIDER, None)
    if provider and not provider.endswith("RocksDBStateStoreProvider"):
        raise InvalidRequest(
            f"store is {URL}, but this session keeps state with {provider}, not in RocksDB: leave "
            f"{PROVIDER} unset, or set it to {ROCKSDB}, before you call sliding_aggregate"
        )
    try:
        import_module(_MESSAGES)
    except ImportError as error:
        raise MissingDependency(
            f"store is {URL}, which needs protobuf for PySpark ({error}): {pip_install('spark')}"
        ) from error
