"""``sliding_aggregate``: exact sliding windows per key over a streaming or a batch DataFrame.

    df -> bucket of each key -> pack -> step per bucket -> unpack -> df with one more column per
                                                                     aggregation

Spark's grouped Python functions cost a millisecond per group and microseconds per row. Therefore
keys are grouped by hash into ``buckets``, and rows are packed (``packing.py``). The pure function
``step.step`` processes a bucket; ``runners`` only loads and stores its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StructType, TimestampType

from mta.frames.shorthand import Size
from mta.logs.base import OnDuplicate
from mta.monoids.product import Aggregations
from mta.times import TimeUnit
from mta.windows.settings import Nan, Nulls
from spark_integration.runners.bucket import advance_batch, advance_stream
from spark_integration.runners.packing import (
    BLOB,
    COUNTS,
    LABEL,
    METRICS,
    NUMBERS,
    TIME,
    pack,
    unpack,
)
from spark_integration.runners.workers import PARTITIONS
from spark_integration.step.rows import NOW
from spark_integration.step.step import Step, step

from .errors import InvalidRequest
from .options import ASKED, Emit, EmitEvery, History, Idle, Lateness, OnBadRow, OnLate, Options
from .plan import Plan
from .publishing import follow
from .request import (
    WATERMARK_DELAY,
    Request,
    check_columns,
    make_request,
    outside_pipelines,
    watermark_delay,
    with_filters,
)
from .starting import FILES, check_chain, check_starts, warn_of_buckets
from .versions import BY_FILE_SYSTEM


def sliding_aggregate(  # noqa: PLR0913 (public: explicit keywords)
    df: DataFrame,
    *,
    by: str | Sequence[str],
    on: str,
    aggregations: Aggregations,
    window: Size | Mapping[str, Size],
    store: str | None = None,
    emit: Emit = "all",
    emit_every: EmitEvery = None,
    carry: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    name: str | None = None,
    buckets: int | None = None,
    arity: int | None = None,
    leaf_arity: int | None = None,
    on_late: OnLate = "raise",
    allowed_lateness: Lateness = None,
    max_ahead: Lateness = None,
    on_ahead: OnLate = "raise",
    time_unit: TimeUnit | None = None,
    emit_updates: bool = False,
    on_duplicate: OnDuplicate = "append",
    retractions: str | None = None,
    at: DataFrame | None = None,
    asks: str | None = None,
    retain_for: Lateness = None,
    on_missing: OnBadRow = "raise",
    on_invalid: OnBadRow = "raise",
    nulls: Nulls = "skip",
    nan: Nan = "raise",
    min_samples: int | None = None,
    idle: Idle = "keep",
    retain: int = 2,
    start_from: str | History | None = None,
    publish: str | None = None,
    metrics: str | Observation = METRICS,
) -> DataFrame:
    """Return each key's window after every event: the rows of ``df`` and a column per aggregation.

    Costs a shuffle of packed rows, and O(1) combines and 1 / ``leaf_arity`` page writes per event,
    whatever the window's length. Spark's state holds at most 64 KiB per bucket.

    The rows of a key come out in order of time; rows with equal times come out in the order of
    their columns' values. If rows with equal times arrive in different micro-batches, they count in
    the order of the micro-batches. A streaming query must run in output mode "append". A batch
    DataFrame starts with empty windows and leaves no pages behind. ``docs/spark.md`` describes each
    option in full, and which options can be combined.

    Raises InvalidRequest for arguments that do not fit, and the store's error if the store of a
    stream does not answer within two seconds. While the query runs, Spark's own exception contains
    NullKey, InvalidTime, InvalidValue, LateEvent, AheadEvent, ResultOutOfRange, StateMismatch,
    CorruptState, MissingPage, CorruptPage or an error of the store.

    Args:
        df: A stream or a batch.
        by: The key column or columns.
        on: The time column: a timestamp, a date, or a number.
        aggregations: Result column -> (value column or columns, aggregation), or only an
            aggregation that reads no column. An optional third item is a filter, either a boolean
            column or a Column expression: ``("amount", Sum(), F.col("status") == "declined")``
            aggregates only declined amounts.
        window: The frame, which says which events a window holds: a frame, a duration
            ("24 hours"), or a number of events. Multiple windows, given by name,
            share their pages, and their result columns are called ``<aggregation>_<window>``.
        store: A URL: ``file://`` for one machine, a server for a cluster, or ``spark://state`` for
            pages in the query's own state. A batch query needs no store: its windows are in the
            memory of its tasks.
        emit: "all" emits one row per event, "last" the last row per key and micro-batch.
        emit_every: 100 emits the row of each 100th event of a key. "1 minute" or a timedelta emits
            a row for each whole minute since 1970 instead of the events' rows, and
            ``EveryPeriod("1 day", offset="9h30m", zone="America/New_York")`` a row for each day at
            09:30 in New York.
        carry: Other columns that results include.
        types: Result column -> DDL type, for plain Python aggregations whose result has another
            type than their identity.
        name: The prefix of the pages' names, by default the query's id. It must differ between two
            equal aggregations in one query.
        buckets: The number of groups of keys, fixed for a checkpoint. By default there is one per
            state partition, and as many state partitions as cores unless the session sets their
            number; a batch query has 64.
        arity: How many elements a group has. By default a page has at most 4080 bytes, or up to 64
            KiB for a key that arrives with many rows at the same time.
        leaf_arity: How many events a leaf group has.
        on_late: What happens to a late row, which is older than the last row of its key or, with
            ``allowed_lateness``, older by more than that: "raise" stops the query, "drop" drops and
            counts the row, and "side" emits it with null results and true in a column ``late``.
        allowed_lateness: How much older a row may be than the newest event that its key had before
            the micro-batch: seconds, a timedelta, or text such as "10 minutes". The row's result
            covers the window that ends with the row.
        max_ahead: How far ahead of the time of the micro-batch an event may be, such as
            "5 minutes". By default there is no limit.
        on_ahead: What happens to a row that is further ahead: "raise" stops the query, "drop" drops
            and counts the row, and "side" emits it with null results and true in a column
            ``ahead``.
        time_unit: The unit of numeric times: "s", "ms", "us" or "ns"; by default seconds.
        emit_updates: Whether the events that follow a late event are emitted again, with their
            current results, and true in a column ``corrected``.
        on_duplicate: With ``allowed_lateness``, what happens if a key already has an event at the
            time of a row: the row becomes another event ("append"), replaces the event ("replace")
            or is combined with it ("combine").
        retractions: A column of booleans, true in rows that remove the newest event of their key
            and time. These rows come out unchanged, with null results.
        at: For a batch, another DataFrame with the columns ``by`` and ``on``. The result has its
            rows, with the aggregates over the events of ``df`` up to each row's time.
        asks: A column of booleans, true in rows that are questions. A question is answered as of
            its time, after the events of that time, and never becomes an event.
        retain_for: How much older a question may be than the newest event that its key had before
            the micro-batch, such as "90 days"; an older question is a late row.
        on_missing: What happens to a retraction that finds no event: "raise" stops the query,
            "drop" drops and counts it.
        on_invalid: What happens to a row without a key or a time: "raise" stops the query, "drop"
            drops and counts it.
        nulls: What happens to a null value. With "skip" the row has a result, and aggregations
            ignore nulls in their columns, as in SQL; "raise" stops the query; "drop_row" drops and
            counts the row; "accept" reads a NaN instead.
        nan: What happens to a NaN: "raise" stops the query, "skip" treats it as a null, and
            "propagate" as a value.
        min_samples: Results of fewer values than this are null. By default only a result of no
            values is null, and then counts are 0 and lists are empty.
        idle: "keep" keeps every key. "expire" deletes keys whose time window is empty according to
            the watermark on the time column. "emit" also emits a row for each moment at which a
            window became empty.
        retain: The number of a key's checkpoints by which the query can be rolled back.
        start_from: The windows that a stream continues from: the name of a history that
            ``save_history`` saved, or a ``History`` if it is in another store. The stream's rows
            from before the cutover are dropped.
        publish: A name under which other processes read the windows as of the last committed batch,
            by ``mta.open_published(store, name)``, for as long as this session is active.
        metrics: The name of a streaming query's counts in ``observedMetrics``. For a batch query,
            pass an ``Observation``, and read it afterwards.
    """
    given = locals()
    if at is not None:
        return _answered(df, at, given)
    options = Options.of(**{
        name: value for name, value in given.items() if name not in ("df", "at", "metrics")
    })  # fmt: skip
    if publish is not None and not df.isStreaming:
        raise InvalidRequest(
            "publish is for streams: the windows of a batch query are gone once it ends; "
            "save_history publishes those of a batch DataFrame"
        )
    with outside_pipelines():
        df, options, filters = with_filters(df, options)
        request = make_request(df, options)
        if buckets is not None and df.isStreaming:
            warn_of_buckets(df.sparkSession, buckets)
        if isinstance(metrics, str):
            check_chain(df, request.plan.store, metrics)
        results = run_request(df, request, step, metrics)
        if publish is not None:
            follow(df.sparkSession, request.plan)
    return results.drop(*filters) if filters else results


def _answered(df: DataFrame, at: DataFrame, given: dict[str, Any]) -> DataFrame:
    """Return the rows of ``at`` with the aggregates as of their own times.

    The rows pass through the windows as questions among the events, and carry their other columns.
    """
    if df.isStreaming or at.isStreaming:
        raise InvalidRequest(
            "at= is for batches: in a stream, unite the questions with the events, mark them in a "
            "column of booleans, and name that column by asks="
        )
    for name in ("asks", "carry"):
        if given[name]:
            raise InvalidRequest(
                f"at= and {name}= are both given: the rows of at= are the questions, and are "
                f"returned with all their columns; leave {name} out"
            )
    keys = [given["by"]] if isinstance(given["by"], str) else list(given["by"])
    shared = [*keys, given["on"]]
    check_columns(df, by=keys, on=shared[-1:])
    try:
        check_columns(at, by=keys, on=shared[-1:])
    except InvalidRequest as error:
        raise InvalidRequest(f"at=, the DataFrame of questions: {error}") from error
    for name in shared:
        here, there = (frame.schema[name].dataType.simpleString() for frame in (df, at))
        if here != there:
            raise InvalidRequest(
                f"column {name!r} is {here} in the events and {there} in at=: cast one of them"
            )
    own = {name: f"__asked_{place}" for place, name in enumerate(at.columns) if name not in shared}
    asked = at.select(*(column(name).alias(own.get(name, name)) for name in at.columns))
    both = df.withColumn(ASKED, F.lit(False)).unionByName(
        asked.withColumn(ASKED, F.lit(True)), allowMissingColumns=True
    )
    results = sliding_aggregate(both, **{
        name: value for name, value in given.items() if name not in ("df", "at")
    } | {"asks": ASKED, "carry": [*own.values()]})  # fmt: skip
    rest = [name for name in results.columns if name not in both.columns]
    taken = [name for name in rest if name.lower() in map(str.lower, at.columns)]
    if taken:
        raise InvalidRequest(
            f"aggregation {taken[0]!r} has the name of a column of at=: choose another name"
        )
    answers = (column(own.get(name, name)).alias(name) for name in at.columns)
    return results.where(column(ASKED)).select(*answers, *map(column, rest))


def run_request(
    df: DataFrame, request: Request, step: Step, metrics: str | Observation = METRICS
) -> DataFrame:
    """Return the pipeline around any step; a benchmark runs it with a trivial step."""
    plan = request.plan
    packed = packed_rows(df, plan)
    advance = advance_stream if df.isStreaming else advance_batch
    counts = (
        F.coalesce(F.sum(F.col(NUMBERS)[place]), F.lit(0)).alias(name)
        for place, name in enumerate(COUNTS)
    )
    advanced = advance(packed, plan, step).observe(metrics, *counts)
    results = advanced.mapInArrow(unpack, request.schema)
    check_starts(results)
    return results


def packed_rows(df: DataFrame, plan: Plan) -> DataFrame:
    """Return the rows of each bucket of keys as blobs."""
    options = plan.options
    hashed = F.xxhash64(*map(column, options.keys))
    columns = [column(name).alias(f"c{i}") for i, name in enumerate(plan.columns)]
    names = plan.columns
    if options.settings.max_ahead is not None:
        # In a stream this is the time of the micro-batch, even in a replay.
        columns.append(F.unix_micros(F.current_timestamp()).alias("now"))
        names = (*names, NOW)
    rows = df.select(hashed.alias("hash"), *columns)
    packer = partial(pack, names=names, buckets=plan.buckets, timed=df.isStreaming)
    schema = StructType().add(LABEL, LongType()).add(BLOB, BinaryType())
    if df.isStreaming:  # the column with the watermark, if there is one
        delay = {WATERMARK_DELAY: watermark_delay(df, options.on) or 0}
        schema.add(TIME, TimestampType(), metadata=delay)
    return rows.mapInArrow(packer, schema)


def column(name: str) -> Column:
    """Return the column of exactly this name, including dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def recommended_conf(partitions: int | None = None, *, local_disk: bool = False) -> dict[str, str]:
    """Return Spark settings for a streaming query with windows; set them before the first start.

    A query that starts in this process needs none of them: it chooses unset values when it starts
    (``starting.py``). They are for queries that start in other ways, such as declarative pipelines.
    For ``spark://state``, also set RocksDB as the state store. Otherwise Spark's default is better:
    the states are small, and a commit takes 2 ms with the default and 60 to 110 ms with RocksDB.

    With version 1 of the checkpoint's format (Spark's own default), a query can always be started
    again after its driver died. With version 2, it cannot if the driver died after a file sink
    recorded a batch and before Spark's log of commits did: the sink skips the batch, and the names
    of its state files are lost. Version 2 protects against two attempts that write different state
    files, which does not happen here: equal rows give equal snapshots and pages.

    Args:
        partitions: The number of state partitions: about the number of cores, at most ``buckets``.
            Spark's default is 200, which costs 200 tasks and commits per batch.
        local_disk: Whether checkpoints are on this machine's disk. If so, Spark's older manager of
            checkpoint files is set, which starts no processes. On other file systems its renames
            may not be atomic.
    """
    conf = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}
    if local_disk:
        conf[FILES] = BY_FILE_SYSTEM
    if partitions is not None:
        conf[PARTITIONS] = str(partitions)
    return conf
