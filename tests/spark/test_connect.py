"""sliding_aggregate through Spark Connect, where its client's libraries are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from spark_integration.java import ensure_java
from tests.support.servers import free_port
from tests.support.spark.session import QUICK

for library in ("grpc", "grpc_status", "zstandard"):
    pytest.importorskip(library)

PLUGIN = "org.apache.spark.sql.connect.SparkConnectPlugin"
#: A server on a port that nobody else has, in a process of its own as its client is: a program has
#: one kind of session. It ends when its input does.
SERVER = """
import sys
from spark_integration.session import local_session

conf = dict(line.split("=", 1) for line in sys.argv[1:])
session = local_session("server", cores=2, memory="1g", conf=conf)
print("ready", flush=True)
sys.stdin.read()
session.stop()
"""
JOB = """
import sys
import time
from pyspark import pipelines
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from mta import Count, CountWindow, Max, Min, open_published
from mta.errors import NotPublished
from spark_integration import (
    check_workers, events_of_key, inspect_query, recommended_conf, sliding_aggregate, sql,
)

folder, url = sys.argv[1:]
spark = SparkSession.builder.remote(url).getOrCreate()
assert "connect" in type(spark).__module__
check_workers(spark)
for setting, value in recommended_conf(2).items():
    spark.conf.set(setting, value)
rows = [("a", i, float(i * 7 % 10)) for i in range(20)]
events = spark.createDataFrame(rows, "k string, t long, v double")

def windows(events, store, **more):
    return sliding_aggregate(
        events, by="k", on="t", aggregations={"peak": ("v", Max()), "n": Count()},
        window=CountWindow(3), store=store, buckets=2, **more,
    )

def run(results, number):
    # Spark waits ten seconds for the process that spark://state has on the driver, and no longer.
    writer = results.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint{number}")
    while True:
        query = writer.start(f"{folder}/out{number}")
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise

# In a pipeline, whose query functions may ask nothing of the server.
stream = spark.readStream.schema(events.schema).parquet(folder)
registry = SparkConnectGraphElementRegistry(spark, create_dataflow_graph(spark, None, None, None))
with graph_element_registration_context(registry):
    outside = windows(stream, f"file://{folder}/pages")
    pipelines.table(lambda: outside, name="outside")
    try:
        pipelines.table(lambda: windows(stream, f"file://{folder}/pages"), name="inside")
    except ValueError as error:
        print(error)
try:
    outside.writeStream.outputMode("update")
except ValueError as error:
    print(error)

wanted = [(t, max(v for _, _, v in rows[max(0, t - 2) : t + 1])) for t in range(20)]
found = windows(events, f"file://{folder}/pages").collect()
assert sorted((row.t, row.peak) for row in found) == wanted
query = "SELECT t, max(v * 2) OVER (PARTITION BY k ORDER BY t ROWS 2 PRECEDING) / 2 AS peak FROM e"
assert sorted((row.t, row.peak) for row in sql(spark, query, e=events).collect()) == wanted
joined = query.replace("FROM e", "FROM e JOIN (SELECT 'a' AS name) n ON n.name = e.k")
assert sorted((row.t, row.peak) for row in sql(spark, joined, e=events).collect()) == wanted
events.coalesce(1).write.parquet(f"{folder}/in")
for number, store in enumerate((f"file://{folder}/pages", "spark://state")):
    stream = spark.readStream.schema(events.schema).parquet(f"{folder}/in")
    publish = "devices" if store.startswith("file") else None
    query = run(windows(stream, store, publish=publish), number)
    found = spark.read.parquet(f"{folder}/out{number}").collect()
    assert sorted((row.t, row.peak) for row in found) == wanted, store
    print(store.partition(":")[0], query.lastProgress.numInputRows)

# The client learns of a batch from the server a little later, and publishes it.
def published(store):
    while True:
        try:
            return open_published(store, "devices")
        except NotPublished:
            time.sleep(0.1)

with published(f"file://{folder}/pages") as devices:
    print(devices.query("a"))

# The query goes on with another aggregation and a longer window, and is looked into.
asked = {"aggregations": {"n": Count(), "least": ("v", Min("float64"))}, "window": CountWindow(4)}
more = spark.createDataFrame([("a", 20, 8.0)], events.schema)
more.coalesce(1).write.mode("append").parquet(f"{folder}/in")
stream = spark.readStream.schema(events.schema).parquet(f"{folder}/in")
store = f"file://{folder}/pages"
run(sliding_aggregate(stream, by="k", on="t", store=store, buckets=2, **asked), 0)
results = spark.read.option("mergeSchema", "true").parquet(f"{folder}/out0")
(row,) = results.where("t = 20").collect()
frame = inspect_query(f"{folder}/checkpoint0", store, **asked)
held = events_of_key(f"{folder}/checkpoint0", store, "a", **asked)
print(row.t, row.n, row.least, *frame[["key", "n", "least"]].values[0], *held.v)
spark.stop()
"""


@pytest.mark.soak
@pytest.mark.proves("PySpark", "Spark Connect")
@pytest.mark.refuses("PySpark", "query functions of declarative pipelines", "newest")
def test_batches_and_streams(tmp_path: Path) -> None:
    for name, text in {"server.py": SERVER, "job.py": JOB}.items():
        (tmp_path / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    environment |= {"JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable}
    where: Any = {"cwd": tmp_path, "env": environment, "text": True}
    port = str(free_port())
    conf = {**QUICK, "spark.plugins": PLUGIN, "spark.connect.grpc.binding.port": port}
    started = [sys.executable, "server.py", *(f"{name}={value}" for name, value in conf.items())]
    with subprocess.Popen(started, stdin=PIPE, stdout=PIPE, **where) as server:
        assert server.stdout is not None and server.stdin is not None
        try:
            assert server.stdout.readline() == "ready\n"
            job = [sys.executable, "job.py", str(tmp_path), f"sc://localhost:{port}"]
            done = subprocess.run(job, capture_output=True, timeout=600, **where)
        finally:
            server.stdin.close()
            server.wait(60)
    assert len(lines := done.stdout.splitlines()) == 6, done.stdout + done.stderr[-5000:]
    assert lines[0].startswith("sliding_aggregate is called inside a query function of a pipeline")
    assert lines[1].startswith("the output mode is 'update', but windows emit rows that never")
    assert lines[2:5] == ["file 20", "spark 20", "{'peak': 9.0, 'n': 3}"]
    assert lines[5:] == ["20 4 3.0 a 4 3.0 9.0 6.0 3.0 8.0"]
