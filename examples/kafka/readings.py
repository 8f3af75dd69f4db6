"""Sends readings through Kafka to a job that is killed while it writes.

Power meters report once a minute into a topic of four partitions. The job of ``job.py`` gives each
reading its meter's peak of the last day; its windows are in Redis. It is killed at random moments
and started again. Its results are read as an application would read them, without the messages
that a restart has written twice, and equal those of pandas.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from job import PEAKS, READINGS, REJECTED

PARTITIONS, START, LATE = 4, pd.Timestamp("2025-06-02", tz="UTC"), "meter-late"
#: What a message looks like that cannot be read, and why.
UNREADABLE = {
    b"": "no JSON object",
    b'{"device": "meter-0", "ts": ': "no JSON object",
    b"\xff\xfe": "no UTF-8",
    b'{"ts": "2025-06-02T00:00:00Z", "watts": 1.0}': "no device",
    b'{"device": "meter-0", "ts": "yesterday", "watts": 1.0}': "ts is no timestamp",
    b'{"device": "meter-0", "ts": "2025-06-02T00:00:00Z", "watts": "72F"}': "watts is no double",
}


class NewMessages:
    """Recognizes messages that the job has written before, as after a kill.

    A partition keeps its order: it has one batch after the other, and an interrupted batch again
    before the next one. So only the names of the current batch must be remembered.
    """

    def __init__(self) -> None:
        self._batches: dict[int, tuple[int, set[Any]]] = {}

    def is_new(self, message: Message, name: Any) -> bool:
        """Return whether no message of this batch or of a later one had this name."""
        batch = int(dict(message.headers())["batch"])
        current, names = self._batches.get(message.partition(), (-1, set()))
        if batch > current:
            names = set()
            self._batches[message.partition()] = batch, names
        if batch < current or name in names:
            return False
        names.add(name)
        return True


def read_peaks(servers: str) -> tuple[pd.DataFrame, int]:
    """Return each result once, and the number of repeated messages."""
    new, rows, repeated = NewMessages(), [], 0
    for message in messages_of(servers, PEAKS):
        row = json.loads(message.value())
        if new.is_new(message, (row["device"], row["ts"])):
            rows.append({**row, "batch": int(dict(message.headers())["batch"])})
        else:
            repeated += 1
    frame = pd.DataFrame(rows)
    return frame.assign(ts=pd.to_datetime(frame.ts, format="ISO8601")), repeated


def read_rejected(servers: str) -> Counter[str]:
    """Count the rejected messages by reason, each once."""
    reasons = {}
    for message in messages_of(servers, REJECTED):
        row = json.loads(message.value())
        name = (row["partition"], row["offset"]) if "offset" in row else (row["device"], row["ts"])
        reasons[name] = row["reason"]
    return Counter(reasons.values())


def messages_of(servers: str, topic: str) -> Iterator[Message]:
    """Yield all messages of a topic, those of a partition in order."""
    due, consumer = size_of(servers, topic), consumer_of(servers)
    consumer.assign([TopicPartition(topic, at, 0) for at in range(PARTITIONS)])
    while due:
        for message in consumer.consume(min(due, 1000), timeout=30):
            due -= 1
            yield message
    consumer.close()


def size_of(servers: str, topic: str) -> int:
    """Return the number of messages in a topic."""
    consumer = consumer_of(servers)
    partitions = (TopicPartition(topic, at) for at in range(PARTITIONS))
    size = sum(consumer.get_watermark_offsets(at, timeout=30)[1] for at in partitions)
    consumer.close()
    return size


def consumer_of(servers: str) -> Consumer:
    settings = {"bootstrap.servers": servers, "group.id": "readings", "enable.auto.commit": False}
    return Consumer(settings)


def make_readings(count: int, meters: int, seed: int = 1) -> pd.DataFrame:
    """Return one reading per minute and meter, up to half an hour out of order."""
    generator = np.random.default_rng(seed)
    minute, meter = np.divmod(np.arange(count), meters)
    frame = pd.DataFrame({
        "device": np.char.add("meter-", meter.astype(str)),
        "ts": START + pd.to_timedelta(minute, unit="min"),
        "watts": np.round(generator.lognormal(5, 0.5, count), 1),
    })  # fmt: skip
    sent = minute + generator.integers(0, 30, count)
    return frame.iloc[np.argsort(sent, kind="stable")]


def send(servers: str, frame: pd.DataFrame) -> Counter[str]:
    """Send the readings, and after one in fifty an unreadable one; return their reasons.

    Two readings of one meter come first and last, the last one a day older.
    """
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    bad, reasons = list(UNREADABLE.items()), Counter[str]()

    def write(at: int, value: bytes) -> None:
        producer.produce(READINGS, value, partition=at % PARTITIONS)
        producer.poll(0)
        if at % 10_000 == 0:
            producer.flush()

    write(0, as_json(LATE, START, 1.0))
    for at, (device, ts, watts) in enumerate(frame.itertuples(index=False)):
        write(at, as_json(device, ts, watts))
        if at % 50 == 0:
            message, reason = bad[reasons.total() % len(bad)]
            write(at, message)
            reasons[reason] += 1
    write(0, as_json(LATE, START - pd.Timedelta("1 day"), 2.0))
    producer.flush()
    return reasons


def as_json(device: str, ts: pd.Timestamp, watts: float) -> bytes:
    return json.dumps({"device": device, "ts": ts.isoformat(), "watts": watts}).encode()


def run_job(options: argparse.Namespace, checkpoint: Path, kills: int) -> None:
    """Start the job, kill it several times while it writes, and let it finish."""
    command = [sys.executable, str(Path(__file__).with_name("job.py"))]
    command += ["--servers", options.servers, "--store", options.store, "--limit", options.limit]
    command += ["--checkpoint", str(checkpoint)]
    command += ["--jars", options.jars] if options.jars else []
    for life in range(kills + 1):
        # A process group of its own, so that Spark's Java dies with it.
        job = subprocess.Popen(list(map(str, command)), start_new_session=True)
        if life < kills:
            committed = batches(checkpoint / "commits")
            wait(job, lambda done=committed: batches(checkpoint / "commits") > done)
            written = size_of(options.servers, PEAKS)
            wait(job, lambda before=written: size_of(options.servers, PEAKS) > before)
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                print(f"killed while it wrote batch {batches(checkpoint / 'offsets') - 1}")
        if job.wait() > 0:
            raise SystemExit("the job failed")


def wait(job: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, or the job has ended."""
    while not condition() and job.poll() is None:
        time.sleep(0.01)


def batches(log: Path) -> int:
    """Return the number of micro-batches in one of Spark's logs."""
    return len([*log.glob("[0-9]*")])


def expected(frame: pd.DataFrame, batch: pd.Series) -> pd.DataFrame:
    """Return the window of each reading over all readings up to its batch, by plain lists."""
    due = frame.assign(batch=batch).sort_values(["device", "ts"])
    peaks, counts = [], []
    for _, of_meter in due.groupby("device", sort=False):
        times = of_meter.ts.to_numpy("M8[us]")
        watts, came = of_meter.watts.to_numpy(), of_meter.batch.to_numpy()
        first = np.searchsorted(times, times - np.timedelta64(24, "h"), side="right")
        for at, start in enumerate(first):
            inside = watts[start : at + 1][came[start : at + 1] <= came[at]]
            peaks.append(inside.max())
            counts.append(len(inside))
    return due.assign(peak=peaks, n=counts)


def compare(frame: pd.DataFrame, found: pd.DataFrame) -> None:
    """Compare every result with plain lists; ends the program if one differs."""
    order = ["device", "ts"]
    first = pd.DataFrame({"device": [LATE], "ts": [START], "watts": [1.0]})
    frame = pd.concat([frame, first]).sort_values(order, ignore_index=True)
    found = found.sort_values(order, ignore_index=True)
    np.testing.assert_array_equal(found[["device", "watts"]], frame[["device", "watts"]])
    np.testing.assert_array_equal(found.ts, frame.ts)
    wanted = expected(frame, found.batch)
    np.testing.assert_array_equal(found[["peak", "n"]], wanted[["peak", "n"]])
    print(f"all {len(found):,} results equal lists, each once")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="localhost:9092", help="where Kafka is")
    parser.add_argument("--store", default="redis://localhost:6379/0", help="where the pages are")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--meters", type=int, default=50)
    parser.add_argument("--limit", type=int, default=20_000, help="messages in a micro-batch")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--jars", help="Spark's connector to Kafka, in place of a download")
    options = parser.parse_args()
    admin = AdminClient({"bootstrap.servers": options.servers})
    topics = [NewTopic(topic, PARTITIONS, 1) for topic in (READINGS, PEAKS, REJECTED)]
    for made in admin.create_topics(topics).values():
        made.result()
    try:
        frame = make_readings(options.events, options.meters)
        sent = send(options.servers, frame)
        with tempfile.TemporaryDirectory() as folder:
            run_job(options, Path(folder, "checkpoint"), options.kills)
        found, repeated = read_peaks(options.servers)
        reasons = read_rejected(options.servers)
        print(f"{repeated:,} messages were written twice")
        print("rejected:", ", ".join(f"{count:,} x {why}" for why, count in reasons.items()))
        assert reasons == sent + Counter({"late": 1}), sent
        compare(frame, found)
    finally:
        admin.delete_topics([READINGS, PEAKS, REJECTED])


if __name__ == "__main__":
    main()
