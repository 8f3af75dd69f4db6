"""The loop of ``mta device``: events in, results out, snapshots, acknowledgements, and systemd."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from queue import Empty, Queue
from threading import Event as Flag
from threading import Thread

from mta.device.config import Config
from mta.device.events import Event, InvalidEvent, Key, read_event
from mta.device.links import WAITING, Broker, Received, read_lines
from mta.device.windows import DeviceWindows, Result

#: How many events are added together, and how long the loop waits for the first, in seconds.
_AT_ONCE, _PATIENCE = 1000, 0.2
_COUNTS = ("events", "duplicates", "late", "invalid", "messages dropped", "results dropped")
_log = logging.getLogger(__name__)


class Device:
    """A running device."""

    def __init__(self, config: Config) -> None:
        self._config, self.windows = config, DeviceWindows(config)
        self._unsaved: list[Callable[[], object]] = []
        #: How many unacknowledged messages cause a snapshot, before the broker stops to send.
        self._most = config.snapshot_events
        every = config.emit_every
        self._period = inf if isinstance(every, str) else every
        #: The keys of events since the last periodic results; after a restart, all.
        self._changed: set[Key] = set(self.windows.windows.keys() if self._period < inf else ())
        self._saved = self._emitted = time.monotonic()
        self._queue: Queue[Received | None] = Queue(0 if config.input == "mqtt" else WAITING)
        self._broker: Broker | None = None
        if "mqtt" in (config.input, *config.output):
            self._broker = Broker(config, self._queue, self.windows.counts)
        if config.input == "mqtt":
            self._most = min(self._most, max(1, config.in_flight // 2))
        else:
            Thread(target=read_lines, args=[config.input, self._queue], daemon=True).start()

    def run(self, stopping: Flag) -> None:
        """Process events until the end of the input or until the flag is set, and save the state.

        Raises the errors of the store, and StoreAccessDenied; what was not saved comes again.
        """
        notify("READY=1")
        is_open = True
        while is_open and not stopping.is_set():
            if self._broker and self._broker.refused:
                raise self._broker.refused
            is_open = self._take()
            now = time.monotonic()
            if now - self._emitted >= self._period:
                self._emit_changed()
            if len(self._unsaved) >= self._most or (
                self._unsaved and now - self._saved >= self._config.snapshot_every
            ):
                self.save()
            notify(f"WATCHDOG=1\nSTATUS={self.status()}")
        notify("STOPPING=1")
        self._emit_changed()
        self.save()
        if self._broker:
            self._broker.close()
        self.windows.windows.close()

    def status(self) -> str:
        """Return the counts of events as a line."""
        return ", ".join(f"{self.windows.counts[name]:,} {name}" for name in _COUNTS)

    def save(self) -> None:
        """Save the state once the broker has its results, then acknowledge what it has."""
        if self._broker:
            self._broker.flush()
        self.windows.save()
        for acknowledge in self._unsaved:
            acknowledge()
        self._unsaved, self._saved = [], time.monotonic()

    def _take(self) -> bool:
        """Add the events that wait, and emit their results; return whether the input is open."""
        received = [*self._waiting()]
        events: list[Event] = []
        for each in filter(None, received):
            self._unsaved.append(each.acknowledge)
            try:
                events.append(read_event(self._config, each.read()))
            except InvalidEvent as error:
                self.windows.counts["invalid"] += 1
                _log.warning("dropped: %s", error)
        if self._period < inf:
            self._changed.update(event.key for event in events)
        every = self._config.emit_every == "event"
        self._emit(r for r in self.windows.add(events) if every or "bound" in r)
        return None not in received

    def _waiting(self) -> Iterator[Received | None]:
        with suppress(Empty):
            yield self._queue.get(timeout=_PATIENCE)
            for _ in range(1, min(_AT_ONCE, self._most)):
                yield self._queue.get_nowait()

    def _emit_changed(self) -> None:
        self._emit(self.windows.results(sorted(self._changed)))
        self._changed, self._emitted = set(), time.monotonic()

    def _emit(self, results: Iterable[Result]) -> None:
        for result in results:
            if "stdout" in self._config.output:
                sys.stdout.write(json.dumps(result, default=str) + "\n")
            if self._broker and "mqtt" in self._config.output:
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
