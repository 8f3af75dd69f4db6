"""The processes of ``mta serve``: one worker, or several that share a socket.

The socket is bound here, so that a port that is in use is reported immediately. Workers are
processes of uvicorn: SIGTERM and Ctrl-C end them after their current requests, SIGHUP replaces one
worker after the other, and a worker that dies is replaced.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from functools import partial

from uvicorn import Config, Server
from uvicorn.supervisors import Multiprocess

from mta.published import open_published
from mta.serve.app import create_app
from mta.serve.connections import Connection
from mta.serve.metrics import FOLDER
from mta.serve.settings import InvalidService, Settings

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
