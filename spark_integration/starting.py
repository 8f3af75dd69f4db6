"""The start of a query with windows: default settings, and errors for what Spark does not support.

PySpark has no hook for the start of a query, so methods of its stream writers are wrapped, once for
each kind of writer (Spark Connect has another kind). The output mode and the trigger are checked
when they are set, before anything starts.

By default, Spark allows multiple ``transformWithState`` operators in a query, but only one
``applyInPandasWithState``. Chained windows are detected immediately, joined or united windows only
in ``start``; Spark's own error would name functions that the user has not called.

These settings have defaults:

| setting | value if the session does not set it |
|---|---|
| ``spark.sql.shuffle.partitions`` | the number of cores, instead of Spark's 200 |
| ``spark.sql.streaming.checkpointFileManagerClass`` | on local disk, the older manager |
| ``spark.sql.streaming.stateStore.providerClass`` | for ``spark://state``, RocksDB |

Spark copies the session's settings when a query starts. So these values are set only during the
start, and nothing else in the session sees them. From then on, the number of partitions is in the
checkpoint, from which a restarted query reads it.

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
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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
        _warn_of(recorded or int(asked or cores), cores, "checkpoint" if recorded else "session")
        for name, value in chosen.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in chosen:
                spark.conf.unset(name)


def warn_of_buckets(spark: SparkSession, buckets: int) -> None:
    """Warn if the chosen number of buckets does not suit the cores.

    With Spark Connect there is no warning, because finding the number of cores takes a job.
    """
    context = context_of(spark)
    cores = max(1, context.defaultParallelism) if context else buckets
    what = _misfit(
        buckets, cores, "each is a call of Python in every batch",
        ", which is worthwhile only if a bucket has tens of thousands of rows in a batch",
    )  # fmt: skip
    if what is not None:
        warnings.warn(
            f"sliding_aggregate has buckets={buckets} on {cores} cores: {what}; before the first "
            "start, leave buckets out to get one per state partition; if the query has a "
            "checkpoint, stop it and change the number with mta migrate --buckets",
            RuntimeWarning,
            stacklevel=3,
        )


def _misfit(count: int, cores: int, each: str, more: str = "") -> str | None:
    """Return why the number of parts does not suit the cores; None if it does."""
    if cores <= count <= MANY * cores:
        return None
    if count > cores:
        return f"{each}, {count / cores:.0f} in a row on each core{more}"
    return "some cores have nothing to do while windows are advanced"


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


def _warn_of(partitions: int, cores: int, where: str) -> None:
    what = _misfit(partitions, cores, "each costs a task and a commit in every batch")
    if what is None:
        return
    remedy = (
        "stop the query and change the number with mta migrate --buckets"
        if where == "checkpoint"
        else f"before the first start, unset {PARTITIONS} to get as many as there are cores"
    )
    warnings.warn(
        f"the {where} sets the number of state partitions to {partitions}, on {cores} cores: "
        f"{what}; {remedy}",
        RuntimeWarning,
        stacklevel=5,
    )


# --- multiple windows in one query ----------------------------------------------------------------


#: The setting of whether Spark checks for operations that a stream does not support.
CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
WHAT_TO_DO = (
    "and Spark refuses two such operators in one query, although they work: set "
    f"{CHECKS} to 'false' in the session, or use store='spark://state' for both, or write the "
    "results of the first windows to files or a topic and read these in another query"
)


def check_chain(df: DataFrame, store: str, metrics: str) -> None:
    """Raises InvalidRequest if Spark does not support the chained windows.

    Reads the plan so far, which Spark Connect does not expose.
    """
    jdf = getattr(df, "_jdf", None)
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
    """Return the plan of a query as text."""
    frame = getattr(writer, "_df", None)
    if frame is None:  # with Spark Connect
        return str(writer._write_stream.command(writer._session.client))
    return str(frame._jdf.queryExecution().logical().toString())


def _has_windows(writer: Any) -> bool:
    """Return whether a query has windows, judging by the columns that they add to its plan."""
    return BLOB in _plan(writer)


def _output_mode(method: _Method) -> _Method:
    def output_mode(self: Any, outputMode: str) -> Any:
        if str(outputMode).lower() in ("update", "complete") and _has_windows(self):
            raise InvalidRequest(
                f"the output mode is {outputMode!r}, but windows emit rows that never change: "
                "leave the mode unset ('append'); sliding_aggregate(emit_updates=True) emits rows "
                "again if late events change their results"
            )
        return method(self, outputMode)

    return output_mode


def _trigger(method: _Method) -> _Method:
    def trigger(self: Any, **chosen: Any) -> Any:
        for name in ("realTime", "continuous"):
            if chosen.get(name) is not None and _has_windows(self):
                raise InvalidRequest(
                    f"the trigger is {name}={chosen[name]!r}, but Spark runs stateful Python "
                    "functions only in micro-batches: use trigger(processingTime='1 second') or "
                    "trigger(availableNow=True)"
                )
        return method(self, **chosen)

    return trigger


def _start(method: _Method) -> _Method:
    def start(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            plan = _plan(self)
            if BLOB not in plan:
                return method(self, *arguments, **named)
            checkpoint = _location(named) or _locations.get(self)
            rocksdb = "transformwithstate" in plan.replace("_", "").lower()
            with fitting_settings(_session(self), checkpoint, rocksdb=rocksdb):
                return method(self, *arguments, **named)
        except AnalysisException as error:
            if _REFUSAL not in str(error) or BLOB not in str(error):
                raise
            raise InvalidRequest(
                f"the query has windows next to other windows with a state, {WHAT_TO_DO}"
            ) from error

    return start


def _option(method: _Method) -> _Method:
    def option(self: Any, key: str, value: Any) -> Any:
        _note(self, {key: value})
        return method(self, key, value)

    return option


def _options(method: _Method) -> _Method:
    def options(self: Any, **chosen: Any) -> Any:
        _note(self, chosen)
        return method(self, **chosen)

    return options


def _note(writer: Any, chosen: Mapping[str, Any]) -> None:
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
    "outputMode": _output_mode, "trigger": _trigger, "start": _start, "toTable": _start,
    "option": _option, "options": _options,
}  # fmt: skip
