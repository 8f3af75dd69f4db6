"""Windows of a batch DataFrame, the history, from which a stream continues.

    history before the cutover -> windows in a store -> the stream from the cutover on
    save_history(...)                                   sliding_aggregate(..., start_from=...)

The cutover is a moment. Rows of the history count if they are before the cutover, and rows of the
stream if they are not. Both sides read times in the same way, to the microsecond, so each event
counts exactly once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from mta.publishing.publisher import published_names, read_head, unpublish
from mta.times import to_time
from spark_integration.runners.packing import BLOB, LABEL, bucket_of, from_blobs
from spark_integration.runners.state_pages import is_state_url
from spark_integration.runners.workers import store_of
from spark_integration.step.rows import complete, sort_rows
from spark_integration.step.starts import PREFIX, SavedStart, begin, finish, pages_of, put_starts
from spark_integration.step.windows import Windows, vectorizes
from spark_integration.versions import apply_in_arrow
from stores import open_store, ping_store

from .errors import InvalidRequest
from .options import History, Options
from .plan import Plan
from .publishing import publisher_of
from .request import check_ties, make_request
from .sliding import column, packed_rows


def save_history(df: DataFrame, name: str, *, until: Any, **options: Any) -> History:
    """Save the windows of all rows before a moment, from which a stream can continue.

    Replaces an earlier history of the same name. With ``publish``, ``mta.open_published`` reads
    these windows until a stream that starts from them and publishes under the same name replaces
    them. Runs one Spark job with a shuffle; if all windows are by time, the job reads only the rows
    that are in the windows. Raises InvalidRequest, InvalidTime, and the errors of a batch query and
    of the store.

    Args:
        df: The rows, as a batch.
        name: The name for ``start_from``.
        until: The moment: a datetime, or seconds since 1970.
        **options: The stream's options of ``sliding_aggregate``, with the store for these windows.
            ``by``, ``on`` and ``buckets`` must be the same as in the stream, and a lateness must
            be allowed in both or in neither.
    """
    cutover = to_time(until)
    if df.isStreaming:
        raise InvalidRequest(
            "save_history takes a batch DataFrame: read the history with spark.read"
        )
    asked = Options.of(**{**options, "name": PREFIX + name, "start_from": None})
    if asked.store is None:
        raise InvalidRequest("store is not given: name the store for the history")
    if is_state_url(asked.store):
        raise InvalidRequest(
            f"the store is {asked.store}, which a batch does not have: pass another store here, "
            f"and start_from=History({name!r}, that store) to the stream"
        )
    check_ties(asked, whole=False)
    plan = make_request(df, asked).plan
    last = plan.options.changed(emit="last", emit_every=None, on_late="drop")
    plan = replace(plan, options=last)
    if not vectorizes(plan):
        raise InvalidRequest(
            "save_history needs windows that are vectorized: windows by count or time, "
            "without sketches"
        )
    ping_store(plan.store, write=True)
    with open_store(plan.store) as store:
        begin(store, name)
        packed = packed_rows(_needed(df, asked, cutover), plan)

        def advance(rows: pa.Table) -> pa.Table:
            number = bucket_of(rows.column(LABEL)[0].as_py())
            of_bucket = from_blobs(blob.as_buffer() for blob in rows.column(BLOB))
            with store_of(plan.store) as pages:
                snapshot = _snapshot(of_bucket, plan, pages, cutover)
                part = plan.part and replace(plan.part, bucket=number)
                digest = part.put(pages, snapshot) if part else b""
                put_starts(
                    pages, name, {number: SavedStart(plan.buckets, cutover, plan.fixed, snapshot)}
                )
            columns = {"bucket": pa.array([number], pa.int32()), "digest": pa.array([digest])}
            return pa.table(columns)

        schema = "bucket int, digest binary"
        made = apply_in_arrow(packed.groupBy(LABEL), advance, schema).collect()
        whole = SavedStart(plan.buckets, cutover, plan.fixed)
        finish(store, name, whole, [row[0] for row in made])
        if plan.part is not None:
            digests = {row[0]: bytes(row[1]) for row in made}
            publisher_of(plan).whole(store, PREFIX + name, digests)
    return History(name, plan.store)


def delete_history(history: History) -> int:
    """Delete a history that no query needs to start from any more.

    This is the case once each bucket of every query that started from it has had rows. The
    history's published record is deleted too. Lists the store's keys, and returns how many pages
    were deleted. Raises MissingPage if there is no such history, and errors of the store.

    Args:
        history: What ``save_history`` returned.
    """
    if is_state_url(history.store):
        raise InvalidRequest(f"a history is never in {history.store}: give the store that has it")
    with open_store(history.store) as store:
        pages = pages_of(store, history.name)
        for name in published_names(store):
            head = read_head(store, name)
            if head is not None and head.source == PREFIX + history.name:
                unpublish(store, name)
        begin(store, history.name)  # from now on, no query starts from it
        store.delete_many(pages)
        store.flush()
    return len(pages)


def _snapshot(rows: pa.Table, plan: Plan, store: Any, cutover: int) -> bytes:
    """Return the snapshot of a bucket's windows after all of its rows before the cutover."""
    timed = complete(rows, plan)
    windows = Windows(plan, store, None)
    windows.advance(sort_rows(timed.take(timed.times < cutover), plan))
    return windows.keyed.checkpoint()


def _needed(df: DataFrame, options: Options, cutover: int) -> DataFrame:
    """Return only the rows that windows of later events need, if the source can filter cheaply."""
    is_timestamp = isinstance(df.schema[options.on].dataType, T.TimestampType)
    if options.lifetime is None or not is_timestamp or options.emit_every is not None:
        return df
    oldest = cutover - options.lifetime - (options.settings.lateness or 0) - 1_000_000
    at = column(options.on)
    return df.where(at.isNull() | (at >= F.timestamp_micros(F.lit(oldest))))
