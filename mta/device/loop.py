"""The loop of ``mta device``: events in, results out, snapshots, acknowledgements, and systemd."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import time
from queue import Empty, Queue
from threading import Event as Flag
from typing import Any

from mta.device.config import Config
from mta.device.events import Event, InvalidEvent, Key, read_event
from mta.device.links import Broker, Lines, Received
from mta.device.windows import DeviceWindows, Result
from mta.times import to_duration

#: How many events are added together, and how long the loop waits for the first, in seconds.
_AT_ONCE, _PATIENCE = 1000, 0.2
#: How many lines wait for the windows; more wait outside.
_WAITING = 1000
_log = logging.getLogger(__name__)


class Device:
    """A running device."""

    def __init__(self, config: Config) -> None:
        self._config, self.windows = config, DeviceWindows(config)
        self._from_broker = config.input.source not in ("json", "csv")
        self._queue: Queue[Received | None] = Queue(0 if self._from_broker else _WAITING)
        self._broker = Broker(config, self._queue) if config.broker else None
        self._every = to_duration(config.snapshot.every) / 1e6
        self._unsaved: list[Any] = []
        self._events = 0
        self._changed: set[Key] = set()
        self._saved = self._reported = time.monotonic()
        #: How many unacknowledged messages cause a snapshot, before the broker stops to send.
        self._most = config.snapshot.events
        if self._from_broker:
            self._most = min(self._most, max(1, config.input.in_flight // 2))
        else:
            Lines(config.input.source, self._queue).start()

    def run(self, stopping: Flag) -> None:
        """Process events until the end of the input or until the flag is set, and save the state.

        Raises the errors of the store; what was not saved by then comes again.
        """
        notify("READY=1")
        is_open = True
        while is_open and not stopping.is_set():
            if self._broker is not None and self._broker.refused is not None:
                raise self._broker.refused
            is_open = self._take()
            self._report_periodically()
            now = time.monotonic()
            if self._events >= self._most or (self._events and now - self._saved >= self._every):
                self.save()
            notify(f"WATCHDOG=1\nSTATUS={self.status()}")
        notify("STOPPING=1")
        self.save()
        if self._broker is not None:
            self._broker.close()
        self.windows.close()

    def status(self) -> str:
        """Return the counts of events as a line."""
        counts = self.windows.counts
        dropped = self._broker.dropped if self._broker is not None else 0
        return (f"{counts['events']:,} events, {counts['duplicates']:,} duplicates, "
                f"{counts['late']:,} late, {counts['invalid']:,} invalid, "
                f"{dropped:,} results dropped")  # fmt: skip

    def save(self) -> None:
        """Save the state once the broker has its results, then acknowledge what it has."""
        if self._broker is not None:
            self._broker.flush()
        self.windows.save()
        if self._broker is not None:
            self._broker.acknowledge(self._unsaved)
        self._unsaved, self._events, self._saved = [], 0, time.monotonic()

    def _take(self) -> bool:
        """Add the events that wait, and emit their results; return whether the input is open."""
        received, is_open = self._receive()
        events: list[Event] = []
        for row, token in received:
            try:
                if isinstance(row, InvalidEvent):
                    raise row
                events.append(read_event(self._config, row))
            except InvalidEvent as error:
                self.windows.counts["invalid"] += 1
                _log.warning("dropped: %s", error)
            self._unsaved += [] if token is None else [token]
        self._events += len(received)
        if self._config.output.period is not None:
            self._changed.update(event.key for event in events)
        every = self._config.output.every == "event"
        self._emit(r for r in self.windows.add(events) if every or "bound" in r)
        return is_open

    def _receive(self) -> tuple[list[Received], bool]:
        found: list[Received] = []
        try:
            item = self._queue.get(timeout=_PATIENCE)
            while item is not None:
                found.append(item)
                if len(found) >= min(_AT_ONCE, self._most):
                    return found, True
                item = self._queue.get_nowait()
        except Empty:
            return found, True
        return found, False

    def _report_periodically(self) -> None:
        period = self._config.output.period
        if period is not None and time.monotonic() - self._reported >= period:
            self._emit(self.windows.results(sorted(self._changed)))
            self._changed, self._reported = set(), time.monotonic()

    def _emit(self, results: Any) -> None:
        result: Result
        for result in results:
            if "stdout" in self._config.output.to:
                sys.stdout.write(json.dumps(result, default=str) + "\n")
            if "mqtt" in self._config.output.to and self._broker is not None:
                self._broker.publish(result)
        sys.stdout.flush()


def notify(text: str) -> None:
    """Tell systemd, as ``sd_notify`` does; nothing if systemd did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.connect("\0" + address[1:] if address.startswith("@") else address)
        link.sendall(text.encode())
