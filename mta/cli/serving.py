"""``mta serve``: published windows over HTTP."""

from __future__ import annotations

import logging
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from mta.cli.console import InvalidCommand, at_least_one, say, seconds, whole
from mta.serve.settings import ServerSettings, checked
from mta.service.declaration import Declaration, read_declaration
from stores import ping_store
from stores.address import size, without_credentials

#: The defaults that the help texts of options show.
_DEFAULTS = ServerSettings(name="", store="")


def add_options(parser: ArgumentParser) -> None:
    """Add the options of ``mta serve``."""
    add = parser.add_argument
    add("published", metavar="NAME", nargs="?",
        help="the published name; with Spark, also the output folder of a run")  # fmt: skip
    add("--config", metavar="FILE", dest="declaration",
        help="a file that declares windows, which then take events; default: none")  # fmt: skip
    add("--advertised", metavar="ADDRESS", default=_DEFAULTS.advertised,
        help="with --config, the address at which processes on other machines that serve the same "
        f"windows reach this one; default: {_DEFAULTS.advertised}")  # fmt: skip
    add("--create", action="store_true",
        help="create the declared windows in the store; default: they exist")  # fmt: skip
    add("--store", metavar="URL", help="the store of the published windows")
    add("--host", default=_DEFAULTS.host,
        help=f"the address to listen on; default: {_DEFAULTS.host}")  # fmt: skip
    add("--port", type=whole("a port from 1 to 65535", 1, 65535), default=_DEFAULTS.port,
        help=f"the port to listen on; default: {_DEFAULTS.port}")  # fmt: skip
    add("--workers", type=at_least_one, default=1, metavar="N",
        help="the number of processes; default: 1")  # fmt: skip
    add("--refresh", type=seconds, default=_DEFAULTS.refresh, metavar="TIME",
        help="how often to look for a newer snapshot; default: 1 second")  # fmt: skip
    add("--cache", type=_size, default=_DEFAULTS.cache, metavar="SIZE",
        help="how much of a remote store each worker caches; default: 64MiB")  # fmt: skip
    add("--max-keys", type=at_least_one, default=_DEFAULTS.max_keys, metavar="N",
        help=f"the maximum keys per request; default: {_DEFAULTS.max_keys:,}")  # fmt: skip
    add("--max-body", type=_size, default=_DEFAULTS.max_body, metavar="SIZE",
        help="the maximum size of a request body; default: 1MiB")  # fmt: skip
    add("--time-limit", type=seconds, default=_DEFAULTS.time_limit, metavar="TIME",
        help="the maximum time of a request; default: 5 seconds")  # fmt: skip
    add("--max-waiting", type=at_least_one, default=_DEFAULTS.max_waiting, metavar="N",
        help=f"the number of concurrent requests per worker; default: {_DEFAULTS.max_waiting}"
        )  # fmt: skip
    add("--max-connections", type=at_least_one, default=_DEFAULTS.max_connections, metavar="N",
        help="the number of concurrent connections per worker; default: "
        f"{_DEFAULTS.max_connections:,}")  # fmt: skip
    add("--max-connections-per-address", type=at_least_one,
        default=_DEFAULTS.max_connections_per_address, metavar="N",
        help="the number of concurrent connections per worker from one address; default: "
        f"{_DEFAULTS.max_connections_per_address}")  # fmt: skip
    add("--insecure", action="store_true",
        help="accept requests from other machines without a token; default: no")  # fmt: skip


def serve(published: str | None, store: str | None, **options: Any) -> None:
    """Serve until a signal arrives. Raises InvalidCommand, and the errors of the store."""
    if options["declaration"] is not None:
        if published is not None or store is not None:
            raise InvalidCommand("--config names the windows and their store: leave out both")
        _serve_declared(**options)
        return
    if options.pop("create"):
        raise InvalidCommand("--create needs --config")
    if published is None:
        raise InvalidCommand("give a published name, or a file with --config")
    if store is None:
        raise InvalidCommand(f"name the store in which {published} is published with --store")
    settings = checked(ServerSettings(name=published, store=store, **options))
    from mta.serve.server import run

    ping_store(store)
    run(settings, lambda: _announce(settings), logging.getLogger("mta").isEnabledFor(logging.DEBUG))


def _serve_declared(declaration: str, create: bool, **options: Any) -> None:
    """Serve declared windows. Raises InvalidDeclaration and the errors of the store."""
    from mta.serve.server import run
    from mta.service.app import create_service
    from mta.service.owners import create as create_windows
    from mta.service.owners import require_created

    declared = declared_in(Path(declaration))
    given = ServerSettings(
        name=declared.name, store=declared.store, declaration=declaration, **options
    )
    settings = checked(given)
    ping_store(declared.store, write=True)
    (create_windows if create else require_created)(declared)
    verbose = logging.getLogger("mta").isEnabledFor(logging.DEBUG)
    run(settings, lambda: _announce(settings), verbose, create_service)


def declared_in(path: Path) -> Declaration:
    """Return the windows that a file declares. Raises InvalidDeclaration and InvalidCommand."""
    try:
        return read_declaration(path)
    except OSError as error:
        raise InvalidCommand(f"{path}: {error.strerror}") from None


def _announce(settings: ServerSettings) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(f"serves    {settings.name} of {without_credentials(settings.store)}")
    say(f"look at   http://{host}:{settings.port}/   (API: /docs; Ctrl-C ends it)")


def _size(text: str) -> int:
    try:
        return size(text)
    except ValueError as error:
        raise ArgumentTypeError(f"give {error}, not {text!r}") from None
