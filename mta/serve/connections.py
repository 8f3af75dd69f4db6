"""Connections that limit the time and the size of the head of a request.

The head is the path and the headers. uvicorn reads it without a limit of time or size. Here a
connection is closed if a head takes longer than the time limit of requests, or has more than
``MAX_HEAD`` bytes. An answer to a client that has disconnected is dropped; otherwise uvloop would
raise an error, which uvicorn would log. The head of an answer is sent together with its body, as
each system call that sends takes about as long as the rest of a small answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: The maximum number of bytes of a request before its body.
MAX_HEAD = 1 << 15


class _Transport:
    """A transport that joins two writes into one, and drops writes once it is closed."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._first = b""

    def write(self, data: bytes) -> None:
        """Send the data together with the next write, at the latest in the next loop iteration."""
        if self._first:
            self._first += data
            self._send()
        elif data:
            self._first = data
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        data, self._first = self._first, b""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Send what waits, and close."""
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """A client's connection; the configuration has ``head_seconds``."""

    config: Any
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        joining: Any = _Transport(transport, self.loop)
        super().connection_made(joining)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        if self._timer is None and is_idle:
            self._expect_head()
        super().data_received(data)
        if self._timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._unset_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_timer()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_bytes = 0
        self._timer = self.loop.call_later(self.config.head_seconds, self.transport.close)

    def _unset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
