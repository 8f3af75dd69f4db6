"""A driver of its own, for ``drivers.py`` to start and to kill: one stream to its end.

The job comes as JSON. Results go to a parquet file sink, whose log makes them exactly once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mta import Count, CountWindow, Max, Sum
from spark_integration.options import Options
from spark_integration.request import make_request
from spark_integration.session import local_session
from spark_integration.sliding import run_request
from spark_integration.step.step import step
from tests.support.key_by_key import KeyByKey
from tests.support.spark import faulty_steps
from tests.support.spark.events import SCHEMA
from tests.support.spark.session import QUICK

#: Windows with such an operation are not vectorized: each key has pages of its own.
PEAK = KeyByKey(float("-inf"), max, "peak")


def begin(spark: SparkSession, job: dict[str, Any]) -> StreamingQuery:
    """The stream over all files that are there, in this session."""
    folder = Path(job["folder"])
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", job["files"])
    source = reader.parquet(str(folder / "input"))
    options = Options.of(
        by="device",
        on="ts",
        aggregations={
            "peak": ("watts", PEAK if job["plain"] else Max()),
            "sum": ("watts", Sum()),
            "n": (None, Count()),
        },
        window=CountWindow(job["window"]),
        store=job["store"],
        buckets=job["buckets"],
        arity=job["arity"],
        leaf_arity=job["arity"],
    )
    request = make_request(source, options)
    chosen = getattr(faulty_steps, job["fault"][0])(*job["fault"][1:]) if job["fault"] else step
    writer = run_request(source, request, chosen).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "output"))


def main(job: dict[str, Any], *more: dict[str, Any]) -> None:
    """Run it in a session of its own, say when it has started, and run more jobs after it."""
    shape = {"spark.master": job["master"], "spark.sql.shuffle.partitions": "2"}
    conf = {**QUICK, **shape, **job["conf"]}
    log = Path(job["folder"], "spark.log")
    spark = local_session("fire", memory=job["memory"], log=log, conf=conf)
    query = begin(spark, job)
    sys.stdout.write("started\n")
    sys.stdout.flush()
    query.awaitTermination()
    for each in more:
        begin(spark, each).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
