"""The settings of a service: what it serves, to whom, and within which limits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address

from mta.errors import WindowStoreError

TOKEN, WRITE_TOKEN = "MTA_SERVE_TOKEN", "MTA_SERVE_WRITE_TOKEN"
_TOKENS = re.compile(r"[!-~]{16,}")


class InvalidService(WindowStoreError, ValueError):
    """The settings of a service are invalid or contradict each other: correct them."""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of ``mta serve``; sizes are in bytes, times in seconds."""

    name: str
    store: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    refresh: float = 1.0
    token: str | None = field(default=None, repr=False)
    """What clients send to read."""
    write_token: str | None = field(default=None, repr=False)
    """What clients send to add events; by default the token for reading."""
    declaration: str | None = None
    """The file that declares the windows, if the service takes events."""
    advertised: str = "127.0.0.1"
    """The address at which other processes of declared windows reach this machine."""
    insecure: bool = False
    cache: int = 64 << 20
    max_keys: int = 10_000
    max_body: int = 1 << 20
    time_limit: float = 5.0
    max_waiting: int = 256
    """How many requests for data a worker handles at a time; it refuses others immediately."""
    max_connections: int = 1000
    """How many connections a worker has at a time; further ones replace those that wait longest."""
    max_connections_per_address: int = 250

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can reach the host."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def checked(
    settings: ServerSettings, environment: Mapping[str, str] = os.environ
) -> ServerSettings:
    """Return the settings with the token of the environment. Raises InvalidService.

    >>> checked(ServerSettings("n", "file:///pages", host="0.0.0.0"), {})
    Traceback (most recent call last):
    mta.serve.settings.InvalidService: other machines can reach 0.0.0.0: set MTA_SERVE_TOKEN to a \
token that clients send, or pass --insecure
    """
    token, write_token = environment.get(TOKEN), environment.get(WRITE_TOKEN)
    for name, given in ((TOKEN, token), (WRITE_TOKEN, write_token)):
        if given is not None and not _TOKENS.fullmatch(given):
            raise InvalidService(
                f"{name} is not a valid token: use 16 or more printable ASCII characters without "
                "spaces, for example from 'openssl rand -hex 32'"
            )
    if token is None and write_token is not None:
        raise InvalidService(
            f"{WRITE_TOKEN} is set, but everybody may read: set {TOKEN} to another token"
        )
    if token is None and not settings.insecure and not settings.is_local:
        raise InvalidService(
            f"other machines can reach {settings.host}: set {TOKEN} to a token that clients send, "
            "or pass --insecure"
        )
    return replace(settings, token=token, write_token=write_token or token)
