"""The step with Spark's streaming state, one bucket of keys at a time.

| pages | Spark operator | state of a bucket |
|---|---|---|
| in a store | ``applyInPandasWithState`` | a value, the snapshot |
| in the state, ``spark://state`` | ``transformWithStateInPandas`` | the value, and a map of pages |

With packed rows, 64 buckets and 300 KB of state in each, both operators are equally fast (about
1.05 s for a batch of 500,000 rows on two cores, most of it outside of the operators). The first
needs neither protobuf nor the RocksDB provider, and its value is sent together with the rows
instead of through a separate socket. But it has no map, which pages need.

Exactly once: Spark commits the new states and its offsets together. A batch that was not committed
leaves pages in a store that no state names; when the batch runs again, it writes the same pages.
Pages in the state are committed with the state; two attempts of a task write to different copies.

Each bucket has one timer. If idle keys expire, it is set to the moment when the first key of the
bucket becomes idle. Then Spark calls the bucket even in micro-batches without rows for it; when the
watermark has moved, Spark also runs micro-batches without any rows. The timer exists also if idle
keys are kept, and even if the stream has no watermark. So ``idle`` can change for an existing
checkpoint; without the timer, Spark would reject the state as a different one.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from spark_integration.runners.bucket import advance_bucket
from spark_integration.runners.labels import bucket_of
from spark_integration.runners.packing import LABEL, RESULT_SCHEMA
from spark_integration.runners.state_pages import URL, is_state_url
from spark_integration.runners.workers import store_of
from spark_integration.versions import require_spark_4
from stores.errors import MissingDependency
from stores.installing import pip_install

if TYPE_CHECKING:
    from spark_integration.step.step import Step

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: With this setting a commit of RocksDB writes the changes instead of database files.
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_MESSAGES = "pyspark.sql.streaming.proto.StateMessage_pb2"
STATE_SCHEMA = "state binary"


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


def advance_stream(packed: DataFrame, plan: Plan, step: Step) -> DataFrame:
    """Return the packed results of packed rows; ``step`` runs per bucket and micro-batch."""
    buckets = packed.groupBy(LABEL)
    if is_state_url(plan.store):
        # PySpark 3.5 does not have it
        from spark_integration.runners.stateful import StateWithPages

        return buckets.transformWithStateInPandas(
            StateWithPages(plan, step), RESULT_SCHEMA, "append", "EventTime"
        )

    def advance(
        key: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        before = bytes(state.get[0]) if state.exists else None
        reached, of_bucket = state.getCurrentWatermarkMs(), plan.of_bucket(bucket_of(key[0]))
        with store_of(plan.store) as store:
            after = advance_bucket(of_bucket, step, before, parts, store, reached)
        state.update((after.state,))
        if after.timer is not None:
            state.setTimeoutTimestamp(after.timer)
        yield after.results

    timers = GroupStateTimeout.EventTimeTimeout
    return buckets.applyInPandasWithState(advance, RESULT_SCHEMA, STATE_SCHEMA, "append", timers)
