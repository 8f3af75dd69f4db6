"""``sliding_aggregate``: exact sliding windows per key over a streaming or a batch DataFrame.

    df -> bucket of each key -> pack -> step per bucket -> unpack -> df with one column more per
                                                                     aggregation

Spark's grouped Python functions cost a millisecond a group and microseconds a row; so keys are
grouped by hash into ``buckets``, and rows travel packed (``packing.py``). What happens to a bucket
is the pure function ``step.step``; ``streaming.py`` and ``batch.py`` only carry its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from .batch import advance_batch
from .packing import BUCKET, DROPPED, PACKED_SCHEMA, READ, pack, unpack
from .plan import OnBadRow, Output
from .request import Aggregations, Request, make_request
from .step import Step, step
from .streaming import advance_stream

if TYPE_CHECKING:
    from mta.policy import AbstractPolicy

METRICS = "sliding_aggregate"


def sliding_aggregate(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    time: str,
    aggregations: Aggregations,
    policy: AbstractPolicy,
    store: str,
    output: Output = "event",
    keep: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    name: str | None = None,
    buckets: int = 64,
    arity: int | None = None,
    leaf_arity: int | None = None,
    late: OnBadRow = "error",
    invalid: OnBadRow = "error",
    retain: int = 2,
    metrics: str | Observation = METRICS,
) -> DataFrame:
    """Each key's window after every event: the rows of ``df`` with a column per aggregation.

    Costs a shuffle of packed rows, and O(1) combines and 1 / ``leaf_arity`` page writes an event,
    whatever the window's length; Spark's state holds a few kilobytes per key.

    key: one or several columns. time: a timestamp, a date, or a number of seconds. aggregations:
    result column -> (value column or columns or None, monoid). policy: which events the window
    holds. store: a URL; ``file://`` for one machine, a server for a cluster. output: "event" gives
    one row per event, "last" the last one per key and micro-batch. keep: other columns to carry.
    types: result column -> DDL type, where a plain Python monoid's result is not what its identity
    tells.
    name: what the pages' names begin with, by default the query's id; it must differ between two
    equal aggregations in one query. buckets: groups of keys, fixed for a checkpoint. arity,
    leaf_arity: the size of the pages, by default at most 4080 bytes. late, invalid: "error" stops
    the query at an event that is older than the key's last one, or lacks key, time or value;
    "drop" drops and counts it. retain: how many of a key's checkpoints Spark may be rolled back.
    metrics: the name under which rows_read and rows_dropped are in a streaming query's
    ``observedMetrics``; for a batch query give an ``Observation``, and read it afterwards.

    Events of a key with the same time are ordered by the values of their columns, and the rows of
    a key come out in order of time. A streaming query must run in output mode "append". A batch
    DataFrame starts with empty windows and leaves no pages behind.

    Raises InvalidRequest for arguments that do not fit; while the query runs, NullKey,
    InvalidTime, InvalidValue, LateEvent, StateMismatch, CorruptState, MissingPage, CorruptPage
    and the store's errors, inside Spark's own exception.
    """
    request = make_request(
        df,
        keys=(key,) if isinstance(key, str) else tuple(key),
        time=time,
        aggregations=aggregations,
        policy=policy,
        store=store,
        output=output,
        keep=tuple(keep),
        types=types,
        name=name,
        buckets=buckets,
        arity=arity,
        leaf_arity=leaf_arity,
        late=late,
        invalid=invalid,
        retain=retain,
    )
    return run_request(df, request, step, metrics)


def run_request(
    df: DataFrame, request: Request, step: Step, metrics: str | Observation = METRICS
) -> DataFrame:
    """The pipeline around any step, so that a benchmark can run it with a trivial one."""
    plan = request.plan
    bucket = F.pmod(F.xxhash64(*map(column, plan.keys)), F.lit(plan.buckets)).cast("int")
    columns = (column(name).alias(f"c{i}") for i, name in enumerate(plan.columns))
    rows = df.select(bucket.alias(BUCKET), *columns)
    packed = rows.mapInArrow(partial(pack, names=plan.columns), PACKED_SCHEMA)
    advance = advance_stream if df.isStreaming else advance_batch
    results = advance(packed, plan, step).observe(
        metrics, F.sum(READ).alias(READ), F.sum(DROPPED).alias(DROPPED)
    )
    return results.mapInArrow(unpack, request.schema)


def column(name: str) -> Column:
    """The column of exactly this name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


def recommended_conf(partitions: int | None = None) -> dict[str, str]:
    """Spark settings for a streaming query with windows; set them before its first start.

    RocksDB keeps the handles off the JVM's heap; version 2 of the checkpoint's format makes the
    state files of a failed batch unusable for a later one; ``partitions`` (about the number of
    cores, at most ``buckets``) spares the commits of Spark's default of 200 state partitions.
    """
    store = "spark.sql.streaming.stateStore"
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    conf = {f"{store}.providerClass": provider, f"{store}.checkpointFormatVersion": "2"}
    if partitions is not None:
        conf["spark.sql.shuffle.partitions"] = str(partitions)
    return conf
