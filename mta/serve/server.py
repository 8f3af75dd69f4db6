"""The processes of ``mta serve``, one or several that share a socket.

The socket is bound here, so that a port that is in use is reported immediately. Workers are
processes of uvicorn: SIGTERM and Ctrl-C end them after their current requests, SIGHUP replaces one
worker after the other, and a worker that dies is replaced. Workers also end if the process that
started them is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from functools import partial

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.supervisors import Multiprocess

from mta.published.reader import open_published
from mta.serve import logs
from mta.serve.app import create_app
from mta.serve.connections import Clients, Connection
from mta.serve.metrics import FOLDER
from mta.serve.settings import InvalidService, ServerSettings

Create = Callable[[ServerSettings], ASGIApp]
#: How many seconds requests may still take when the service stops.
_GRACE = 10
#: How many seconds a connection without requests stays open: longer than with most proxies.
_IDLE = 75


#: The size of the system's buffers of a connection, of what is sent and of what was received.
_SYSTEM_BYTES = 1 << 17
#: How many files a worker may need besides its connections.
_OTHER_FILES = 200


class _Config(Config):
    """The configuration of uvicorn's processes; workers get it pickled."""

    def __init__(self, settings: ServerSettings, create: Create, verbose: bool) -> None:
        level = "info" if verbose else "warning"
        super().__init__(
            partial(_app, settings, create), factory=True, workers=settings.workers,
            http=Connection, ws="none", access_log=False,
            log_level=level, log_config=logs.config(level.upper()),
            server_header=False, proxy_headers=False, timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=_GRACE,
        )  # fmt: skip
        #: How many seconds a connection waits for its client.
        self.patience = settings.time_limit
        self.clients = Clients(settings.max_connections, settings.max_connections_per_address)


def _app(settings: ServerSettings, create: Create) -> ASGIApp:
    """Return the application of this process, which ends together with its parent."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=[parent], daemon=True).start()
    return create(settings)


def _end_after(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def run(
    settings: ServerSettings, started: Callable[[], None], verbose: bool = False,
    create: Create = create_app,
) -> None:  # fmt: skip
    """Serve until a signal ends it; ``started`` is called once the socket is bound.

    Each worker serves the application that ``create`` returns, which is sent to it.

    Raises InvalidService, and the errors of ``open_published``.
    """
    open_published(settings.store, settings.name, refresh=None).close()  # raises errors now
    _require_files(settings.max_connections + _OTHER_FILES)
    config = _Config(settings, create, verbose)
    with _bound(settings) as listening:
        started()
        if settings.workers == 1:
            Server(config).run([listening])
            return
        with tempfile.TemporaryDirectory(prefix="mta-serve-") as folder:
            os.environ[FOLDER] = folder
            Multiprocess(config, [listening]).run()


def _require_files(count: int) -> None:
    """Allow this process and its workers to open that many files. Raises InvalidService."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise InvalidService(
            f"a process may open {hard} files, but the service needs {count}: raise the limit "
            "(ulimit -n), or choose fewer --max-connections"
        )
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _bound(settings: ServerSettings) -> socket.socket:
    try:
        found = socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
            backlog=2048,
        )
    except OSError as error:
        raise InvalidService(
            f"{settings.host}:{settings.port} cannot be used ({os.strerror(error.errno or 0)}): "
            "choose another --host or --port"
        ) from error
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # connections inherit them
        found.setsockopt(socket.SOL_SOCKET, option, _SYSTEM_BYTES)
    return found
