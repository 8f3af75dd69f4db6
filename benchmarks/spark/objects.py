"""A stream of 100 keys with pages in S3, compared with the same stream with pages on local disk.

The S3 is moto's server on this machine, behind a proxy that delays each request by 30 ms. There are
eight buckets and two partitions. Figures are medians of micro-batches without the first ones, over
runs in turns, and the requests that the proxy counts. Unlike a remote S3, the server and the proxy
use processor time of the same cores.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.report.beside import Figure, beside
from benchmarks.spark.http_proxy import HTTPProxy
from benchmarks.spark.throughput import SCHEMA
from mta import Max, TimeWindow
from mta.cli.console import say
from spark_integration import sliding_aggregate
from spark_integration.cli.demo import write_stream
from spark_integration.session import local_session

EVENTS, BATCHES, KEYS, BUCKETS = 4_000_000, 20, 100, 8
LATENCY = 0.03
WARM_UP = 5
TURNS = 3
_BUCKET = "pages"
_PATIENCE = 60.0


def run(size: float) -> list[Figure]:
    """Measure rows per second, and requests per bucket and micro-batch."""
    spark = local_session(cores=2)
    taken: dict[str, list[float]] = {"disk": [], "s3": []}
    with tempfile.TemporaryDirectory() as folder, s3() as proxy:
        events = Path(folder, "events")
        rows_per_file = int(EVENTS * size) // BATCHES
        write_stream(events, int(EVENTS * size), KEYS, rows_per_file=rows_per_file)
        requests = 0.0
        for turn in range(TURNS):
            for side, found in taken.items():
                store = f"file://{folder}/pages{turn}"
                if side == "s3":
                    options = f"endpoint={proxy.endpoint}&region=us-east-1"
                    options += f"&cache_dir={folder}/cache{turn}"
                    store = f"s3://key:secret@{_BUCKET}/turn{turn}?{options}"
                proxy.requests = 0
                found += seconds_per_batch(spark, events, store, f"{folder}/{side}{turn}")
                requests = proxy.requests / BATCHES / BUCKETS
                say(f"  {side}: {rows_per_file / median(found) / 1e3:,.0f} k rows/s")
    spark.stop()
    disk, remote = median(taken["disk"]), median(taken["s3"])
    return [
        Figure(
            f"{KEYS} keys, {BUCKETS} buckets, batches of {rows_per_file:,} rows",
            f"{rows_per_file / remote / 1e3:,.0f} k rows/s",
            f"{rows_per_file / disk / 1e3:,.0f} k rows/s, local disk",
            disk / remote,
            ">= 0.7",
        ),
        Figure(
            "requests per bucket and micro-batch",
            f"{requests:.2f}",
            "2 allowed",
            requests / 2,
            "<= 1",
        ),
    ]


def seconds_per_batch(
    spark: SparkSession, events: Path, store: str, checkpoint: str
) -> list[float]:
    """Return the seconds of each micro-batch, without the first ones."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    results = sliding_aggregate(
        reader.parquet(str(events)),
        by="device",
        on="ts",
        aggregations={"peak": ("watts", Max())},
        window=TimeWindow("1 hour"),
        store=store,
        buckets=BUCKETS,
    )
    writer = results.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] / 1e3 for each in batches[WARM_UP:]]


@contextmanager
def s3() -> Iterator[HTTPProxy]:
    """Start an S3 with an empty bucket and a delay of 30 ms."""
    with create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from moto.server import main; main()"]
    command += ["-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    request = urllib.request.Request(f"{endpoint}/{_BUCKET}", method="PUT")
    until = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                urllib.request.urlopen(request).close()
                break
            except urllib.error.URLError:
                if server.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        with HTTPProxy(endpoint) as proxy:
            proxy.latency = LATENCY
            yield proxy
    finally:
        server.kill()
        server.wait()


EXPERIMENTS = (
    beside(
        "objects",
        "Pages in S3",
        "A stream of 100 keys in 8 buckets and 2 partitions. Its pages are in an S3 server on the "
        "same machine (moto), with 30 ms added to each request. Compared with local disk.",
        run,
        quick=0.05,
    ),
)
