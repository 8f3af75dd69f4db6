"""The start of a query with windows: default settings, and errors for what Spark does not support.

PySpark has no hook for the start of a query, so methods of its stream writers are wrapped, once for
each kind of writer (Spark Connect has another kind). The output mode and the trigger are checked
when they are set, before anything starts.

By default, Spark allows multiple ``transformWithState`` operators in a query, but only one
``applyInPandasWithState``. Chained windows are detected immediately, joined or united windows only
in ``start``; Spark's own error would name functions that the user has not called.

``docs/spark.md`` lists the settings that have defaults ("Buckets and partitions"). Spark copies the
session's settings when a query starts. So the defaults are set only during the start, and nothing
else in the session sees them. From then on, the number of partitions is in the checkpoint.

Without Hadoop's native library, which PySpark does not have, Spark's default manager of checkpoint
files starts a process (``readlink``) for each access to a file. The older manager does not. On a
local disk, both write a temporary file and rename it; on other file systems, the renames may not be
atomic.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration.checkpoint import partitions_of
from spark_integration.errors import InvalidRequest
from spark_integration.interpreter import context_of
from spark_integration.options import MAX_BUCKETS
from spark_integration.runners.bucket import CHANGELOG, PROVIDER, ROCKSDB
from spark_integration.runners.packing import BLOB
from spark_integration.runners.state_pages import is_state_url
from spark_integration.runners.workers import PARTITIONS
from spark_integration.versions import BY_FILE_SYSTEM

FILES = "spark.sql.streaming.checkpointFileManagerClass"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
#: Above this many state partitions per core, they take most of the time of a small batch.
MANY = 8
_starting = threading.RLock()


@contextmanager
def fitting_settings(
    spark: SparkSession, checkpoint: str | None, *, rocksdb: bool
) -> Iterator[None]:
    """Set defaults for unset settings while a query starts inside this context.

    ``rocksdb`` says that the pages are in Spark's state, which must then be in RocksDB. Warns if
    the number of the query's state partitions does not suit the cores.
    """
    with _starting:
        cores = cores_of(spark)
        folder = local_folder(spark, checkpoint or spark.conf.get(CHECKPOINTS, None))
        asked = spark.conf.get(PARTITIONS, None)
        wanted = {PARTITIONS: str(min(cores, MAX_BUCKETS))}
        if folder is not None:
            wanted[FILES] = BY_FILE_SYSTEM
        if rocksdb:
            wanted |= {PROVIDER: ROCKSDB, CHANGELOG: "true"}
        chosen = {name: wanted[name] for name in wanted if not spark.conf.get(name, None)}
        recorded = None if folder is None else partitions_of(folder)
        where, remedy = "session", f"before the first start, unset {PARTITIONS} to get one per core"
        if recorded is not None:
            where, remedy = "checkpoint", "stop the query and change it with mta migrate --buckets"
        count = recorded or int(asked or cores)
        what = f"the {where} sets the number of state partitions to {count},"
        _warn(what, count, cores, "each costs a task and a commit in every batch", remedy, level=5)
        for name, value in chosen.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in chosen:
                spark.conf.unset(name)


def warn_of_buckets(spark: SparkSession, buckets: int) -> None:
    """Warn if the chosen number of buckets does not suit the cores."""
    context = context_of(spark)  # with Spark Connect, finding the number of cores takes a job
    _warn(
        f"sliding_aggregate has buckets={buckets}",
        buckets,
        max(1, context.defaultParallelism) if context else buckets,
        "each is a call of Python in every batch",
        "before the first start, leave buckets out to get one per state partition; if the query "
        "has a checkpoint, stop it and change the number with mta migrate --buckets",
        ", which is worthwhile only if a bucket has tens of thousands of rows in a batch",
        level=4,
    )


def _warn(
    what: str, count: int, cores: int, each: str, remedy: str, more: str = "", *, level: int
) -> None:
    if cores <= count <= MANY * cores:
        return
    why = "some cores have nothing to do while windows are advanced"
    if count > cores:
        why = f"{each}, {count / cores:.0f} in a row on each core{more}"
    text = f"{what} on {cores} cores: {why}; {remedy}"
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run in parallel; with Spark Connect, a small job finds this out."""
    context = context_of(spark)
    return max(1, context.defaultParallelism) if context else parts_of_a_range(spark)


def parts_of_a_range(spark: SparkSession) -> int:
    """Return how many parts Spark divides a range into: as many as tasks run in parallel."""
    parts = spark.range(MAX_BUCKETS).select(F.spark_partition_id().alias("part"))
    (last,) = parts.agg(F.max("part")).collect()[0]
    return int(last) + 1


def local_folder(spark: SparkSession, location: str | None) -> Path | None:
    """Return the folder of a checkpoint on this machine's disk; None if it is elsewhere."""
    if location is None or not (spark.conf.get("spark.master", None) or "").startswith("local"):
        return None
    url = urlsplit(location)
    if not url.scheme:
        context = context_of(spark)
        home = context and context._jsc.hadoopConfiguration().get("fs.defaultFS")
        return Path(location) if home and home.startswith("file:") else None
    return Path(unquote(url.path)) if url.scheme == "file" and not url.netloc else None


# --- multiple windows in one query ----------------------------------------------------------------


#: The setting of whether Spark checks for operations that a stream does not support.
CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
WHAT_TO_DO = (
    "and Spark refuses two such operators in one query, although they work: set "
    f"{CHECKS} to 'false' in the session, or use store='spark://state' for both, or write the "
    "results of the first windows to files or a topic and read these in another query"
)


def check_chain(df: DataFrame, store: str, metrics: str) -> None:
    """Raises InvalidRequest if Spark does not support the chained windows."""
    jdf = getattr(df, "_jdf", None)  # Spark Connect does not expose the plan
    if jdf is None or not df.isStreaming:
        return
    plan = jdf.queryExecution().logical().toString()
    if re.search(rf"CollectMetrics {re.escape(metrics)},", plan):
        raise InvalidRequest(
            f"the DataFrame comes from windows whose counts are also called {metrics!r}: choose "
            f"another name here, such as metrics='{metrics}_2'"
        )
    checks = df.sparkSession.conf.get(CHECKS, "true") == "true"
    if checks and not is_state_url(store) and "FlatMapGroupsInPandasWithState" in plan:
        raise InvalidRequest(f"the DataFrame comes from other windows with a state, {WHAT_TO_DO}")


# --- writers --------------------------------------------------------------------------------------

_Method = Callable[..., Any]
_wrapped: set[_Method] = set()
#: Functions that get each query with windows, once it has started.
on_start: list[Callable[[StreamingQuery], None]] = []
#: The checkpoint locations of writers.
_locations: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_REFUSAL = "Multiple applyInPandasWithStates"


def check_starts(results: DataFrame) -> None:
    """Make a stream's writers raise InvalidRequest for what Spark does not support with windows."""
    if not results.isStreaming:
        return
    writer = type(results.writeStream)
    for name, ours in _WRAPPERS.items():
        method = getattr(writer, name)
        if method not in _wrapped:
            wrapper = wraps(method)(ours(method))
            _wrapped.add(wrapper)
            setattr(writer, name, wrapper)


def _plan(writer: Any) -> str:
    frame = getattr(writer, "_df", None)
    if frame is None:  # with Spark Connect
        return str(writer._write_stream.command(writer._session.client))
    return str(frame._jdf.queryExecution().logical().toString())


def _checked(check: _Method, method: _Method) -> _Method:
    """Return a writer's method that first calls ``check`` with its arguments."""

    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        check(self, *arguments, **named)
        return method(self, *arguments, **named)

    return checked


def _check_output_mode(writer: Any, outputMode: str) -> None:
    if str(outputMode).lower() in ("update", "complete") and BLOB in _plan(writer):
        raise InvalidRequest(
            f"the output mode is {outputMode!r}, but windows emit rows that never change: "
            "leave the mode unset ('append'); sliding_aggregate(emit_updates=True) emits rows "
            "again if late events change their results"
        )


def _check_trigger(writer: Any, **chosen: Any) -> None:
    for name in ("realTime", "continuous"):
        if chosen.get(name) is not None and BLOB in _plan(writer):
            raise InvalidRequest(
                f"the trigger is {name}={chosen[name]!r}, but Spark runs stateful Python "
                "functions only in micro-batches: use trigger(processingTime='1 second') or "
                "trigger(availableNow=True)"
            )


def _start(method: _Method) -> _Method:
    def start(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            plan = _plan(self)
            if BLOB not in plan:
                return method(self, *arguments, **named)
            checkpoint = _location(named) or _locations.get(self)
            rocksdb = "transformwithstate" in plan.replace("_", "").lower()
            with fitting_settings(_session(self), checkpoint, rocksdb=rocksdb):
                query = method(self, *arguments, **named)
            for notify in on_start:
                notify(query)
            return query
        except AnalysisException as error:
            if _REFUSAL not in str(error) or BLOB not in str(error):
                raise
            raise InvalidRequest(
                f"the query has windows next to other windows with a state, {WHAT_TO_DO}"
            ) from error

    return start


def _note_option(writer: Any, key: str, value: Any) -> None:
    _note(writer, **{key: value})


def _note(writer: Any, /, **chosen: Any) -> None:
    """Remember the checkpoint of a query, which no writer exposes."""
    if found := _location(chosen):
        _locations[writer] = found


def _location(chosen: Mapping[str, Any]) -> str | None:
    return next((str(chosen[n]) for n in chosen if n.lower() == "checkpointlocation"), None)


def _session(writer: Any) -> SparkSession:
    frame = getattr(writer, "_df", None)
    session: SparkSession = writer._session if frame is None else frame.sparkSession
    return session


_WRAPPERS: dict[str, Callable[[_Method], _Method]] = {
    "outputMode": partial(_checked, _check_output_mode),
    "trigger": partial(_checked, _check_trigger),
    "option": partial(_checked, _note_option),
    "options": partial(_checked, _note),
    "start": _start,
    "toTable": _start,
}
