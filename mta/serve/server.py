"""The processes of ``mta serve``, one or several that share a socket, and their connections.

The socket is bound here, so that a port that is in use is reported immediately. Workers are
processes of uvicorn: SIGTERM and Ctrl-C end them after their current requests, SIGHUP replaces one
worker after the other, and a worker that dies is replaced.

A connection limits the time and the size of the head of a request, which is the path and the
headers. uvicorn reads it without a limit of time or size. Here a connection is closed if a head
takes longer than the time limit of requests, or has more than ``MAX_HEAD`` bytes. An answer to a
client that has disconnected is dropped; otherwise uvloop would raise an error, which uvicorn would
log. The head of an answer is sent together with its body, as each system call that sends takes
about as long as the rest of a small answer.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from mta.published import open_published
from mta.serve.app import create_app
from mta.serve.metrics import FOLDER
from mta.serve.settings import InvalidService, Settings

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


#: How many seconds requests may still take when the service stops.
_GRACE = 10
#: How many seconds a connection without requests stays open: longer than with most proxies.
_IDLE = 75


class _Config(Config):
    """The configuration of uvicorn's processes; workers get it pickled."""

    def __init__(self, settings: Settings, verbose: bool) -> None:
        super().__init__(
            partial(create_app, settings), factory=True, workers=settings.workers, http=Connection,
            ws="none", access_log=verbose, log_level="info" if verbose else "warning",
            server_header=False, proxy_headers=False, timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=_GRACE,
        )  # fmt: skip
        #: How many seconds the head of a request may take.
        self.head_seconds = settings.time_limit


def run(settings: Settings, started: Callable[[], None], verbose: bool = False) -> None:
    """Serve until a signal ends it; ``started`` is called once the socket is bound.

    Raises InvalidService, and the errors of ``open_published``.
    """
    open_published(settings.store, settings.name, refresh=None).close()  # raises errors now
    config = _Config(settings, verbose)
    with _bound(settings) as listening:
        started()
        if settings.workers == 1:
            Server(config).run([listening])
            return
        with tempfile.TemporaryDirectory(prefix="mta-serve-") as folder:
            os.environ[FOLDER] = folder
            Multiprocess(config, [listening]).run()


def _bound(settings: Settings) -> socket.socket:
    try:
        return socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
            backlog=2048,
        )
    except OSError as error:
        raise InvalidService(
            f"{settings.host}:{settings.port} cannot be used ({os.strerror(error.errno or 0)}): "
            "choose another --host or --port"
        ) from error
