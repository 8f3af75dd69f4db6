"""A Kafka broker for the tests: one KRaft node, from Maven Central, on a free port.

It can be killed and started again on what it had on disk. Topics are made by the tests alone, so
that one which is missing stays missing.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from spark_integration.java import find_java
from tests.support.maven import fetched, jars
from tests.support.patience import LONG
from tests.support.servers import OwnServer, free_port
from tests.support.spark.home import QUICK_START

VERSION = "4.3.1"
#: The version of Spark's connector where its own has not been released.
CONNECTOR = "4.2.0"
QUICK = (*QUICK_START.split(), "-Xmx512m")
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def connector() -> str:
    """Spark's connector to Kafka, as ``spark.jars`` takes it.

    Maven Central may lack the newest release of Spark: then the connector is one that it has.
    """
    for version in (pyspark.__version__, CONNECTOR):
        if found := fetched(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"):
            return ",".join(map(str, found))
    pytest.skip(f"NOT TESTED: Maven Central gave no connector of Spark {pyspark.__version__}")


class Broker(OwnServer):
    """A broker, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self._client: Any = pytest.importorskip(
            "confluent_kafka", reason="NOT TESTED: no confluent-kafka to talk to a broker with"
        )
        path = ":".join(map(str, jars(f"org.apache.kafka:kafka_2.13:{VERSION}")))
        self.port, controller = free_port(), free_port()
        self.log = folder / "broker.log"
        properties = folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(port=self.port, controller=controller, folder=folder)
        )
        self._java = [str(find_java()), *QUICK, "-cp", path]
        self.command = [*self._java, "kafka.Kafka", str(properties)]
        formatting = ["kafka.tools.StorageTool", "format", "-c", str(properties)]
        self._run(*formatting, "-t", "MkU3OEVBNTcwNTJENDM2Qg")
        self.start()

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([*self._java, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        from confluent_kafka.admin import AdminClient

        self.admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        super().start()

    def answers(self) -> bool:
        try:
            self.admin.list_topics(timeout=1)
        except self._client.KafkaException:
            return False
        return True

    def create(self, topic: str, partitions: int = 4) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic

        for future in self.admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result()

    def delete(self, *topics: str) -> None:
        """Return when the topics are gone."""
        for future in self.admin.delete_topics(list(topics)).values():
            future.result()
        while set(topics) & self.admin.list_topics(timeout=LONG).topics.keys():
            time.sleep(0.05)

    def send(self, topic: str, messages: list[tuple[int, str | None, bytes | None]]) -> None:
        """Write messages of a partition, a key and a value, in this order."""
        producer = self._client.Producer({"bootstrap.servers": self.servers, "linger.ms": 5})
        for partition, key, value in messages:
            while True:
                try:
                    producer.produce(topic, value=value, key=key, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(LONG) == 0


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker; the test is skipped where Maven Central, or the client, cannot be had."""
    running = Broker(folder)
    try:
        yield running
    finally:
        running.stop()
