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
from pyspark.sql.types import BinaryType, IntegerType, StructType, TimestampType

from spark_integration.carriers.batch import advance_batch
from spark_integration.carriers.packing import BLOB, BUCKET, TIME, pack, unpack
from spark_integration.carriers.state_pages import is_state_url
from spark_integration.carriers.state_stream import advance_in_state
from spark_integration.carriers.streaming import advance_stream
from spark_integration.step.results import Counts
from spark_integration.step.step import Step, step

from .options import Aggregations, Every, Lateness, Options
from .plan import Corrections, OnBadRow, OnLate, Output, Silent
from .request import WATERMARK_DELAY, Request, make_request, watermark_delay

if TYPE_CHECKING:
    from mta.policies.base import AbstractPolicy

METRICS = "sliding_aggregate"


def sliding_aggregate(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    time: str,
    aggregations: Aggregations,
    policy: AbstractPolicy | Mapping[str, AbstractPolicy],
    store: str,
    output: Output = "event",
    every: Every = None,
    keep: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    name: str | None = None,
    buckets: int = 64,
    arity: int | None = None,
    leaf_arity: int | None = None,
    late: OnLate = "error",
    allowed_lateness: Lateness = None,
    corrections: Corrections = "onward",
    invalid: OnBadRow = "error",
    silent: Silent = "keep",
    retain: int = 2,
    metrics: str | Observation = METRICS,
) -> DataFrame:
    """Each key's window after every event: the rows of ``df`` with a column per aggregation.

    Costs a shuffle of packed rows, and O(1) combines and 1 / ``leaf_arity`` page writes an event,
    whatever the window's length; Spark's state holds a few kilobytes per key.

    key: one or several columns. time: a timestamp, a date, or a number of seconds. aggregations:
    result column -> (value column or columns or None, monoid). policy: which events the window
    holds; or several windows by name, which share their pages, and whose result columns are called
    ``<aggregation>_<window>``. store: a URL; ``file://`` for one machine, a server for a cluster,
    or ``spark://state`` for pages in the query's own state (a batch query, which has none, keeps
    them in its tasks' memory). output: "event" gives one row per event, "last" the last one per key
    and micro-batch. every: results now and then, see below. keep: other columns to carry. types:
    aggregation -> DDL type, where a plain Python monoid's result is not what its identity tells.
    name: what the pages' names begin with, by default the query's id; it must differ between two
    equal aggregations in one query. buckets: groups of keys, fixed for a checkpoint. arity,
    leaf_arity: the size of the pages, by default at most 4080 bytes. late, invalid: "error" stops
    the query at an event that is older than the key's last one, or lacks key, time or value;
    "drop" drops and counts it; late="side" lets late rows out beside the results: a last column
    ``late`` is true for them, and their results are null. silent: what becomes of a key whose
    window time alone has emptied, see below. retain: how many of a key's checkpoints Spark may be
    rolled back. metrics: the name under which rows_read, rows_dropped (those not in the results),
    rows_late and rows_invalid are in a streaming query's ``observedMetrics``; for a batch query
    give an ``Observation``, and read it afterwards.

    allowed_lateness: a time as "10 minutes", a timedelta or seconds. With it a key's events may
    come in any order; late is what is older by more than that than the key's newest event before
    the micro-batch. A row's result is as of its event: that of the window which ends with it, by
    all events known then, whatever order they came in. So an event's last result is that of a batch
    query over all rows that were not late. (A policy that looks at values gives the window as it is
    then.) Windows are trees (``mta.FiBA``): in order as cheap as without; an event that is late by
    d events costs O(log d), and its results O(d). It may be changed for a checkpoint, where a
    greater one reaches back only as far as events are kept, but not be begun with or left out. A
    watermark drops nothing here: what is late is the key's own matter.

    corrections: "onward" gives one row per event and none again. "append" gives, beside, every
    earlier event of the key that follows a late one once more, with the result that holds now; a
    column ``corrected`` is true for such rows. With ``output="last"`` it is still one row, of the
    key's newest event, ``corrected`` if that had come before. Rows given again have the key, the
    time and what aggregations read of the values, so ``keep`` must be empty. For one window, by
    count or time.

    every: 100 gives the row of each 100th event of a key since its beginning, and no other; events
    count in the order in which micro-batches bring them, those of one micro-batch by time. With
    ``silent`` "drop" or "emit" it needs ``allowed_lateness``, and the count begins anew where the
    key was forgotten. Not with "append". "1
    minute" (or a timedelta) gives, in place of the events' rows, one for each whole minute since
    1970: key, time, the results of the window of the events up to and at that time, and nulls in
    all other columns. It comes with the key's first later event, in a batch query also at the end;
    while a key says nothing, each minute until its time window has emptied has a row, the first
    empty one included, and then none has (a window that time does not empty: one row). Between two
    results events are only inserted. Of several windows each is given as it is then, until all
    that time empties are empty. With ``silent="drop"`` a key is forgotten once the watermark is
    past the first boundary at which its windows are empty, and gives all rows up to it. A period
    is for events in order, without allowed_lateness, and not for ``silent="emit"``, as it tells
    by itself when a window is empty. ``output="last"`` gives the last row that is due of each key
    and micro-batch. ``every`` may be changed for a checkpoint.

    silent: "keep" keeps every key for ever. "drop" forgets a key, and deletes its pages, once its
    newest event is older than the window is long by the watermark on ``time``, which the stream
    must have (``df.withWatermark``); the next event begins it anew, with the same results. "emit"
    does so too, and gives a row for each moment at which a window became empty, before the key's
    next event or at its end: with that time, the results of an empty window, and nulls in all other
    columns (``output="last"``: only if it is the key's last row of the batch). A row of a key
    without a window that is older than such a moment is late. With ``allowed_lateness`` a key is
    kept for as much longer, and "emit" gives a row only for keys that are forgotten, as no other
    moment is certain. Of several windows the longest counts. A batch query has no watermark: its
    windows end with the data. "keep" or not is fixed for a checkpoint.

    Events of a key with the same time are ordered by the values of their columns, and the rows of
    a key come out in order of time. A streaming query must run in output mode "append". A batch
    DataFrame starts with empty windows and leaves no pages behind.

    Decimals are read as the nearest doubles. A time more than 146,000 years from 1970 is none, and
    neither is NaT as a number: ``invalid`` says what becomes of it. A result that its column cannot
    hold raises ResultOutOfRange, and so does a sum of whole numbers that leaves their type.

    Raises InvalidRequest for arguments that do not fit; while the query runs, NullKey,
    InvalidTime, InvalidValue, LateEvent, ResultOutOfRange, StateMismatch, CorruptState,
    MissingPage, CorruptPage and the store's errors, inside Spark's own exception.
    """
    options = Options(
        key=key,
        time=time,
        aggregations=aggregations,
        policy=policy,
        store=store,
        output=output,
        every=every,
        keep=tuple(keep),
        types=types,
        name=name,
        buckets=buckets,
        arity=arity,
        leaf_arity=leaf_arity,
        late=late,
        allowed_lateness=allowed_lateness,
        corrections=corrections,
        invalid=invalid,
        silent=silent,
        retain=retain,
    )
    return run_request(df, make_request(df, options), step, metrics)


def run_request(
    df: DataFrame, request: Request, step: Step, metrics: str | Observation = METRICS
) -> DataFrame:
    """The pipeline around any step, so that a benchmark can run it with a trivial one."""
    plan = request.plan
    bucket = F.pmod(F.xxhash64(*map(column, plan.keys)), F.lit(plan.buckets)).cast("int")
    columns = (column(name).alias(f"c{i}") for i, name in enumerate(plan.columns))
    rows = df.select(bucket.alias(BUCKET), *columns)
    timed = df.isStreaming and plan.lifetime is not None
    packer = partial(pack, names=plan.columns, timed=timed)
    packed = rows.mapInArrow(
        packer, packed_schema(watermark_delay(df, plan.time) if timed else None)
    )
    stream = advance_in_state if is_state_url(plan.store) else advance_stream
    advance = stream if df.isStreaming else advance_batch
    counts = (F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in Counts._fields)
    results = advance(packed, plan, step).observe(metrics, *counts)
    return results.mapInArrow(unpack, request.schema)


def packed_schema(delay: int | None) -> StructType:
    """The packed rows' columns; with the delay of a watermark also the one that is under it."""
    schema = StructType().add(BUCKET, IntegerType()).add(BLOB, BinaryType())
    if delay is not None:
        schema.add(TIME, TimestampType(), metadata={WATERMARK_DELAY: delay})
    return schema


def column(name: str) -> Column:
    """The column of exactly this name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


def recommended_conf(partitions: int | None = None) -> dict[str, str]:
    """Spark settings for a streaming query with windows; set them before its first start.

    RocksDB keeps the handles off the JVM's heap, and with its changelog a commit writes what has
    changed in place of files of the database, in a third of the time. Version 1 of the checkpoint's
    format (Spark's own default) survives every death of a driver: with version 2, one that dies
    when a file sink has a batch and Spark's log of commits has not leaves a query that never starts
    again, since the sink skips the batch and the names of its state files are lost. What version 2
    guards against, state files that two attempts write differently, does not happen here: equal
    rows give equal handles and pages. ``partitions`` (about the number of cores, at most
    ``buckets``) spares the commits of Spark's default of 200 state partitions.
    """
    store = "spark.sql.streaming.stateStore"
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    conf = {
        f"{store}.providerClass": provider,
        f"{store}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{store}.checkpointFormatVersion": "1",
    }
    if partitions is not None:
        conf["spark.sql.shuffle.partitions"] = str(partitions)
    return conf
