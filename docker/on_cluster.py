"""The command line ``mta`` on a Spark cluster instead of in one process.

    SPARK_MASTER=spark://spark-master:7077 python on_cluster.py run /data/in --output /data/out ...
    SPARK_MASTER=... python on_cluster.py demo [--events N] [--keys K]

``run`` takes what ``mta run`` takes; give it a ``--store`` that every worker reaches. ``demo`` does
what ``mta demo`` does (generate, run, inspect, compare with pandas), with its pages in the store
that ``MTA_STORE`` names, else on the host ``redis`` with the password ``REDIS_PASSWORD``. Input and
output must lie in a folder that the driver and all workers share.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import warnings
from argparse import ArgumentParser
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import SparkSession

from mta.cli import main
from spark_integration.cli.checkpoints import inspect
from spark_integration.cli.demo import check, write_stream
from spark_integration.cli.job import Job
from spark_integration.cli.run import run
from spark_integration.session import session_conf
from stores.errors import WindowStoreError


def session() -> SparkSession:
    """A session on the cluster; ``mta`` takes the active one before it makes its own."""
    builder = SparkSession.builder.appName("mta").master(os.environ["SPARK_MASTER"])
    settings = {
        **session_conf(int(os.environ.get("MTA_PARTITIONS", "4"))),
        "spark.driver.host": socket.gethostname(),
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.pyspark.python": sys.executable,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def store_url() -> str:
    """Where the demo's pages go."""
    password = quote(os.environ.get("REDIS_PASSWORD", ""), safe="")
    return os.environ.get("MTA_STORE") or f"redis://:{password}@redis:6379/0"


def run_demo(spark: SparkSession, arguments: list[str]) -> int:
    """The demo with its pages in a store that all workers reach."""
    parser = ArgumentParser(prog="on_cluster.py demo")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("/data/demo-output"))
    given = parser.parse_args(arguments)
    events, aggregations = given.output / "events", ("peak=watts:max", "mean=watts:mean")
    job = Job(
        input=(str(events),),
        key="device",
        time="ts",
        value=("watts",),
        agg=aggregations,
        store=store_url(),
        output=str(given.output / "run"),
        overwrite=True,
    )
    try:
        shutil.rmtree(events, ignore_errors=True)
        events.parent.mkdir(parents=True, exist_ok=True)
        write_stream(events, given.events, given.keys)
        run(job)
        inspect(job.folder, job.store, 10, spark)
        check(spark, job)
    except WindowStoreError as error:
        sys.stderr.write(f"demo: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    spark = session()
    wanted = sys.argv[1:]
    status = run_demo(spark, wanted[1:]) if wanted[:1] == ["demo"] else main(wanted)
    spark.stop()
    sys.exit(status)
