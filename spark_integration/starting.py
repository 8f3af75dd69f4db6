"""Default Spark settings for the start of a query with windows.

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

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_integration.checkpoint import partitions_of
from spark_integration.interpreter import context_of
from spark_integration.options import MAX_BUCKETS
from spark_integration.runners.streaming import CHANGELOG, PROVIDER, ROCKSDB
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
