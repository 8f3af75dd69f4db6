"""Where events come from and results go: lines of standard input and output, and MQTT.

A link reads in a thread of its own. Lines wait outside while the queue is full; of messages, a
broker sends no more than ``in_flight`` before the first is acknowledged (version 5 of MQTT). What
the loop has saved, it acknowledges: only then does a broker forget a message of quality of service
1. The thread of the broker must never wait, because it also sends results.
"""

from __future__ import annotations

import csv
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import TextIOWrapper
from queue import Queue
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from mta.device.config import Config
from mta.device.events import InvalidEvent, read_json
from stores.errors import MissingDependency, StoreAccessDenied, pip_install

PASSWORD = "MTA_MQTT_PASSWORD"
#: The longest line or message in bytes.
LONGEST = 1 << 20
_PATIENCE = 5.0
_FOREVER = 0xFFFFFFFF
_NOT_IN_TOPICS = re.compile("[+#\0]")
_log = logging.getLogger(__name__)
#: A row or the error of one, and what acknowledges it.
Received = tuple[dict[str, Any] | InvalidEvent, Any]


class Lines(threading.Thread):
    """Reads lines of standard input into a queue; None is the end."""

    def __init__(self, kind: str, queue: Queue[Received | None]) -> None:
        super().__init__(daemon=True)
        self._kind, self._queue = kind, queue

    def run(self) -> None:
        try:
            for row in self._rows():
                self._queue.put((row, None))
        finally:
            self._queue.put(None)

    def _rows(self) -> Iterator[dict[str, Any] | InvalidEvent]:
        if self._kind == "csv":
            yield from _cells(sys.stdin.buffer)
            return
        while line := sys.stdin.buffer.readline(LONGEST):
            if line.strip():
                yield _row(line)


def _cells(file: IO[bytes]) -> Iterator[dict[str, Any] | InvalidEvent]:
    """Yield the rows of a CSV file with a header."""
    reader = csv.DictReader(TextIOWrapper(file, "utf-8", errors="replace", newline=""))
    while True:
        try:
            row: dict[Any, Any] = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield InvalidEvent(f"line {reader.line_num}: {error}")
            continue
        more = None in row
        yield InvalidEvent(f"line {reader.line_num} has too many cells") if more else row


def _row(message: bytes, topic: str = "") -> dict[str, Any] | InvalidEvent:
    try:
        return read_json(message, topic)
    except InvalidEvent as error:
        return error


class Broker:
    """A connection to a broker of MQTT, which is made again whenever it breaks.

    The session outlives the connection, so that the broker keeps messages meanwhile. Raises
    MissingDependency and StoreAccessDenied.
    """

    def __init__(self, config: Config, queue: Queue[Received | None]) -> None:
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties
        except ModuleNotFoundError as error:
            raise MissingDependency(f"MQTT needs paho-mqtt: {pip_install('device')}") from error
        self._config, self._queue, self.dropped = config, queue, 0
        #: How often a connection was made: a number of a message means nothing in a later one.
        self._connections = 0
        self.refused: StoreAccessDenied | None = None
        self._last: Any = None
        address = urlsplit(config.broker)
        self._client = client = mqtt.Client(
            CallbackAPIVersion.VERSION2, config.input.client_id, protocol=mqtt.MQTTv5,
            manual_ack=True,
        )  # fmt: skip
        password = os.environ.get(PASSWORD) or unquote(address.password or "")
        if address.username:
            client.username_pw_set(unquote(address.username), password)
        tls = address.scheme == "mqtts"
        if tls:
            client.tls_set()
        client.max_queued_messages_set(config.output.queue)
        client.on_connect, client.on_message = self._connected, self._received
        client.reconnect_delay_set(1, 30)
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = _FOREVER
        session.ReceiveMaximum = config.input.in_flight
        client.connect_async(
            address.hostname or "localhost", address.port or (8883 if tls else 1883),
            clean_start=False, properties=session,
        )  # fmt: skip
        client.loop_start()

    def _connected(self, client: Any, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            _log.warning("the broker refuses the connection: %s", reason)
            if reason.value in (134, 135):
                self.refused = StoreAccessDenied(f"the broker refuses the user: {reason}")
            return
        self._connections += 1
        if self._config.input.topic and self._config.input.source == self._config.broker:
            client.subscribe(self._config.input.topic, qos=1)

    def _received(self, client: Any, _: Any, message: Any) -> None:
        payload = bytes(message.payload)
        row = _row(payload, message.topic)
        if len(payload) > LONGEST:
            row = InvalidEvent(f"a message of {len(payload):,} bytes on {message.topic}")
        self._queue.put((row, (self._connections, message.mid, message.qos)))

    def acknowledge(self, tokens: Iterable[Any]) -> None:
        """Acknowledge messages of this connection; the broker sends the others again."""
        for connection, number, quality in tokens:
            if connection == self._connections:
                self._client.ack(number, quality)

    def publish(self, result: dict[str, Any]) -> None:
        """Send a result; drop and count it if too many wait."""
        key = result["key"] if isinstance(result["key"], str) else "/".join(result["key"])
        topic = self._config.output.topic.format(key=_NOT_IN_TOPICS.sub("_", key))
        sent = self._client.publish(topic, json.dumps(result, default=str), qos=1)
        if sent.rc == 15:  # the queue is full
            self.dropped += 1
        else:
            self._last = sent

    def flush(self) -> None:
        """Wait until the broker has the results, for a few seconds at most."""
        with suppress(RuntimeError):  # not connected: they are sent later
            if self._last is not None:
                self._last.wait_for_publish(_PATIENCE)

    def close(self) -> None:
        """Disconnect after what waits was sent, or a second later."""
        self._client.disconnect()
        self._client.loop_stop()
