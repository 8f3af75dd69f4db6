"""Where events come from and results go: lines of standard input, and MQTT.

A link reads in a thread of its own. Lines wait outside while the queue is full; of messages, a
broker sends no more than ``in_flight`` before the first is acknowledged (version 5 of MQTT). What
the loop has saved, it acknowledges: only then does a broker forget a message of quality of service
1. The thread of the broker must never wait, because it also sends results.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Queue
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from mta.device.config import Config
from mta.device.events import Row, cells, read_csv, read_json
from stores.errors import MissingDependency, StoreAccessDenied, pip_install

PASSWORD = "MTA_MQTT_PASSWORD"
#: The longest line or message in bytes.
LONGEST = 1 << 20
#: How many lines, messages without acknowledgement, and results wait in a queue.
WAITING = 1000
_PATIENCE = 5.0
_FOREVER = 0xFFFFFFFF
_NOT_IN_TOPICS = re.compile("[+#\0]")
_log = logging.getLogger(__name__)


class Received(NamedTuple):
    """A message or line: how to read it, and how to acknowledge it."""

    read: Callable[[], Row]
    acknowledge: Callable[[], object]


def read_lines(kind: str, queue: Queue[Received | None]) -> None:
    """Put the lines of standard input into a queue; None is the end."""
    try:
        lines = iter(partial(sys.stdin.buffer.readline, LONGEST), b"")
        of_line: Callable[[bytes], Row] = read_json
        if kind == "csv":
            of_line = partial(read_csv, cells(next(lines, b"")))
        for line in lines:
            if line.strip():
                queue.put(Received(partial(of_line, line), lambda: None))
    finally:
        queue.put(None)


class Broker:
    """A connection to a broker of MQTT, which is made again whenever it breaks.

    The session outlives the connection, so that the broker keeps messages meanwhile. Raises
    MissingDependency.
    """

    def __init__(self, config: Config, queue: Queue[Received | None], counts: Counter[str]) -> None:
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties
            from paho.mqtt.subscribeoptions import SubscribeOptions
        except ModuleNotFoundError as error:
            raise MissingDependency(f"MQTT needs paho-mqtt: {pip_install('device')}") from error
        self._config, self._queue, self._counts = config, queue, counts
        #: How often a connection was made: a number of a message means nothing in a later one.
        self._connections = 0
        self.refused: StoreAccessDenied | None = None
        self._last: Any = None
        #: Messages that were retained come once, not again with each connection.
        self._subscription = SubscribeOptions(
            qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
        )
        address = urlsplit(config.broker)
        self._client = client = mqtt.Client(
            CallbackAPIVersion.VERSION2, config.client_id, protocol=mqtt.MQTTv5, manual_ack=True
        )
        if address.username:
            password = os.environ.get(PASSWORD) or unquote(address.password or "")
            client.username_pw_set(unquote(address.username), password)
        is_secure = address.scheme == "mqtts"
        if is_secure:
            client.tls_set()
        client.max_queued_messages_set(WAITING)
        client.on_connect, client.on_message = self._connected, self._received
        client.reconnect_delay_set(1, 30)
        session = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        session.SessionExpiryInterval = _FOREVER
        session.ReceiveMaximum = config.in_flight
        session.MaximumPacketSize = LONGEST
        host, port = address.hostname or "localhost", address.port or (8883 if is_secure else 1883)
        client.connect_async(host, port, clean_start=False, properties=session)
        client.loop_start()

    def _connected(self, client: Any, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            _log.warning("the broker refuses the connection: %s", reason)
            if reason.value in (134, 135):
                self.refused = StoreAccessDenied(f"the broker refuses the user: {reason}")
            return
        self._connections += 1
        if self._config.input == "mqtt":
            client.subscribe(self._config.subscribe, options=self._subscription)

    def _received(self, _: Any, __: Any, message: Any) -> None:
        if message.qos == 0 and self._queue.qsize() >= WAITING:  # nothing else bounds these
            self._counts["messages dropped"] += 1
            return
        acknowledge = partial(self._acknowledge, self._connections, message.mid, message.qos)
        self._queue.put(Received(partial(read_json, message.payload, message.topic), acknowledge))

    def _acknowledge(self, connection: int, number: int, quality: int) -> None:
        """Acknowledge a message of this connection; the broker sends others again."""
        if connection == self._connections:
            self._client.ack(number, quality)

    def publish(self, result: dict[str, Any]) -> None:
        """Send a result; drop and count it if too many wait."""
        key = result["key"] if isinstance(result["key"], str) else "/".join(result["key"])
        topic = self._config.publish.replace("{key}", _NOT_IN_TOPICS.sub("_", key))
        sent = self._client.publish(topic, json.dumps(result, default=str), qos=1)
        if sent.rc == 15:  # the queue is full
            self._counts["results dropped"] += 1
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
