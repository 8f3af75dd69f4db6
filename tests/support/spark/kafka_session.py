"""A program for ``tests/spark/test_kafka.py``: what happens between a session and a broker.

Spark's connector to Kafka must be there when Java starts, so this is a process of its own. It
prints what it finds as JSON. The example of Kafka runs at the end, on the same broker.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from spark_integration import check_topic, read_topic
from spark_integration.session import local_session
from tests.support.documents import ROOT
from tests.support.kafka import Broker, broker
from tests.support.servers import free_port
from tests.support.spark.checkpoints import remove_commit
from tests.support.spark.session import QUICK

sys.path.append(str(ROOT / "examples" / "kafka"))
import job
import readings

TOPICS = (job.READINGS, job.PEAKS, job.REJECTED)


class Session:
    """A query between topics of a broker, and what it has written."""

    def __init__(self, spark: SparkSession, kafka: Broker, folder: Path) -> None:
        self.spark, self.kafka, self.folder = spark, kafka, folder
        self.sent = 0
        for topic in TOPICS:
            kafka.create(topic)

    def send(self, count: int) -> None:
        """Send readings of one meter, a minute apart."""
        messages = []
        for at in range(self.sent, self.sent + count):
            ts = readings.START + at * pd.Timedelta("1 minute")
            messages.append((at % 4, None, readings.as_json("meter", ts, float(at % 7))))
        self.kafka.send(job.READINGS, messages)
        self.sent += count

    def rows(self, **options: Any) -> DataFrame:
        messages = read_topic(self.spark, self.kafka.servers, job.READINGS, **options)
        return job.peaks_and_rejected(messages, f"file://{self.folder}/pages")

    def start(self, rows: DataFrame, **trigger: Any) -> Any:
        writer = rows.writeStream.foreachBatch(job.write_to(self.kafka.servers)).trigger(**trigger)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def finish(self) -> None:
        self.start(self.rows(), availableNow=True).awaitTermination()

    def written(self) -> dict[str, Any]:
        """The events in each result's window, and how many messages were passed over."""
        peaks, repeated = readings.read_peaks(self.kafka.servers)
        return {"n": peaks.sort_values("ts").n.tolist(), "repeated": repeated}


def caught(call: Callable[[], object]) -> dict[str, Any]:
    """What a call raises, and after how many seconds."""
    began = time.monotonic()
    try:
        call()
    except Exception as error:
        return {
            "kind": type(error).__name__,
            "text": str(error),
            "seconds": time.monotonic() - began,
        }
    return {}


def find(session: Session, count: int) -> Iterator[tuple[str, Any]]:
    """What happens, one after the other, with so many readings each time."""
    spark, kafka = session.spark, session.kafka
    yield "missing", caught(lambda: read_topic(spark, kafka.servers, "nothing"))
    nobody = f"127.0.0.1:{free_port()}"
    yield "down", caught(lambda: check_topic(spark, nobody, "readings", timeout="2 seconds"))
    session.send(count)
    session.finish()
    yield "first", session.written()
    remove_commit(session.folder / "checkpoint")
    session.send(count)
    session.finish()
    yield "replayed", session.written()
    query = session.start(session.rows(timeout="2 seconds"), processingTime="0 seconds")
    query.processAllAvailable()
    kafka.stop()
    yield "lost", caught(query.awaitTermination)
    kafka.start()
    session.send(count)
    session.finish()
    yield "started again", session.written()


def run_example(kafka: Broker, folder: Path, jars: str) -> str:
    """What the example prints, whose job runs on the session of this process."""

    def run_job(options: argparse.Namespace, checkpoint: Path, _kills: int) -> None:
        given = ["--servers", options.servers, "--store", options.store, "--jars", options.jars]
        given += ["--limit", str(options.limit), "--checkpoint", str(checkpoint)]
        with patch.object(sys, "argv", [job.__file__, *given]):
            job.main()

    given = ["--servers", kafka.servers, "--store", f"file://{folder}/example", "--jars", jars]
    given += ["--events", "800", "--limit", "400", "--kills", "0"]
    printed = StringIO()
    with (
        patch.object(sys, "argv", [readings.__file__, *given]),
        patch.object(readings, "run_job", run_job),
        redirect_stdout(printed),
    ):
        readings.main()
    return printed.getvalue()


@contextmanager
def opened(kafka: Broker, folder: Path, jars: str) -> Iterator[Session]:
    conf = {**QUICK, "spark.jars": jars}
    spark = local_session("kafka", cores=2, memory="1g", log=folder / "spark.log", conf=conf)
    try:
        yield Session(spark, kafka, folder)
    finally:
        spark.stop()


def main(folder: Path, jars: str, count: int) -> None:
    with broker(folder) as kafka, opened(kafka, folder, jars) as session:
        found = dict(find(session, count))
        kafka.delete(*TOPICS)
        found["example"] = run_example(kafka, folder, jars)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
