"""Store addresses, ``scheme://user:password@host:port/path?option=value``, and their credentials.

The credentials stay inside ``StoreAddress``; messages and logs use ``public``. No error that is
raised here repeats the given text, because the text may contain a password. A URL may omit its
password: then the process that opens the store reads it, from ``?password_file=`` or from the
environment. So neither a pickled store nor a plan for Spark's workers contains such a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from .durations import KNOWN_UNITS, parse_duration
from .errors import InvalidStoreURL, StoreAccessDenied

USER, PASSWORD = "MTA_STORE_USER", "MTA_STORE_PASSWORD"
"""The variables of the environment with the user and the password."""

Option = Callable[[str], Any]
"""Converts the text of an option to its value; raises ValueError."""

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def size(text: str) -> int:
    """Return bytes from text such as ``65536``, ``64KiB`` or ``64k``, in powers of 1024."""
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:I?B)?", text.strip().upper())
    if match is None:
        raise ValueError("a size such as 65536, 64KiB or 8MiB")
    return int(match[1]) << _UNITS[match[2]]


def seconds(text: str) -> float:
    """Return positive seconds: a number, or a duration such as ``500ms`` or ``1 hour``."""
    try:
        value = float(text)
    except ValueError:
        value = parse_duration(text) / 1e6
    if not 0 < value < float("inf"):
        raise ValueError(f"it must be a positive number of seconds or a duration; {KNOWN_UNITS}")
    return value


def whole_seconds(text: str) -> int:
    """Return whole seconds, zero or more: a number, or a duration such as ``1 week``."""
    micros = int(text) * 10**6 if re.fullmatch(r"-?\d+", text) else parse_duration(text)
    if micros < 0 or micros % 10**6:
        raise ValueError(f"it must be a whole number of seconds, 0 or more; {KNOWN_UNITS}")
    return micros // 10**6


def count(text: str) -> int:
    """Return an integer, zero or more."""
    if not text.isdecimal():
        raise ValueError("a whole number")
    return int(text)


def switch(text: str) -> bool:
    """Return a bool from ``true`` or ``false``."""
    if text.lower() not in {"true", "false", "1", "0", "yes", "no"}:
        raise ValueError("true or false")
    return text.lower() in {"true", "1", "yes"}


def one_of(*names: str) -> Option:
    """Return an option that accepts one of these names, in upper or lower case."""
    by_lower = {name.lower(): name for name in names}

    def parser(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"{', '.join(names[:-1])} or {names[-1]}")
        return by_lower[text.lower()]

    return parser


@dataclass(frozen=True)
class StoreAddress:
    """A parsed store URL."""

    scheme: str
    host: str
    port: int | None
    path: str
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    options: Mapping[str, str]

    @property
    def public(self) -> str:
        """Return the address without credentials and options."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    def parsed(self, known: Mapping[str, Option]) -> dict[str, Any]:
        """Return the values of the options, each read by its parser in ``known``; no store call.

        Raises ``InvalidStoreURL`` for an option that is unknown or cannot be read.
        """
        values: dict[str, Any] = {}
        for name, text in self.options.items():
            if name not in known:
                raise InvalidStoreURL(
                    f"{self.public} has no option {name!r}; the options are "
                    f"{', '.join(sorted(known))}"
                )
            try:
                values[name] = known[name](text)
            except ValueError as error:
                raise InvalidStoreURL(f"{self.public}: option {name!r}: {error}") from error
        return values


def without_credentials(url: str) -> str:
    """Return a URL without credentials and options, even if it is malformed."""
    scheme, mark, rest = url.partition("://")
    return url if scheme == "file" else scheme + mark + rest.rpartition("@")[2]


def parse(url: str) -> StoreAddress:
    """Parse a URL; raises ``InvalidStoreURL`` if it is invalid. No store call."""
    scheme, mark, _ = url.partition("://")
    if not mark or not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        hint = f"; a folder is written file://{url}" if url.startswith("/") else ""
        raise InvalidStoreURL(f"a store URL looks like scheme://address{hint}")
    try:
        parts = urlsplit(url)
        port = parts.port
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        # The message of urlsplit may quote the part that holds the password.
        raise InvalidStoreURL(
            f"malformed {scheme}:// URL: check the port, the brackets and the options, and write "
            "special characters in a user or password as %XX"
        ) from None
    if (
        parts.fragment
        or url.endswith("#")
        or (scheme != "file" and "@" in parts.path + parts.query)
    ):
        # A password with one of these characters was split, and no part of it may be shown.
        raise InvalidStoreURL(
            f"malformed {scheme}:// URL: write / ? # @ in a user or password as %2F %3F %23 %40"
        )
    if len(dict(options)) < len(options):
        raise InvalidStoreURL(f"malformed {scheme}:// URL: an option is given twice")
    return StoreAddress(
        scheme=scheme,
        # parts.hostname is in lower case, but the name of a memory store keeps its case.
        host=re.sub(r":\d*$", "", parts.netloc.rpartition("@")[2]).strip("[]"),
        port=port,
        path=unquote(parts.path),
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        options=dict(options),
    )


@dataclass(frozen=True)
class Credentials:
    """A user and a password; ``repr`` shows neither."""

    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    source: str
    """The source of the password, for messages; empty without a password."""

    def redacted(self, text: str) -> str:
        """Return the text without the password."""
        return text.replace(self.password, "***") if self.password else text

    @property
    def advice(self) -> str:
        """Return what else to do about a refusal, besides correcting the credentials."""
        if self.source:
            return f"; the password comes from {self.source}"
        return (
            f"; this process has no password: set {PASSWORD} or ?password_file=. Spark's workers "
            "on other machines do not get the driver's environment: set "
            f"spark.executorEnv.{PASSWORD}, or put the file on each machine"
        )


def credentials_of(address: StoreAddress) -> Credentials:
    """Return the user and the password of an address; reads its password file, if it has one.

    Raises ``InvalidStoreURL`` if the password is given twice, and ``StoreAccessDenied`` if the file
    cannot be read.
    """
    path = address.options.get("password_file")
    if address.password is not None:
        if path is not None:
            raise InvalidStoreURL(
                f"{address.public} has a password and a password_file: leave one of them out"
            )
        return Credentials(address.user, address.password, "the URL")
    user = address.user or os.environ.get(USER)
    if path is not None:
        return Credentials(user, _password_in(path, address.public), f"the file {path}")
    password = os.environ.get(PASSWORD)
    return Credentials(user, password, PASSWORD if password else "")


def _password_in(path: str, url: str) -> str:
    """Return the first line of a file."""
    if not os.path.isabs(path):
        raise InvalidStoreURL(
            f"{url}: password_file takes an absolute path, because Spark's workers run in another "
            "folder"
        )
    try:
        with open(path, encoding="utf-8") as file:
            password = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StoreAccessDenied(
            f"{url}: password_file {path} cannot be read ({reason}): correct the path, or give "
            "this user the right to read it; on a cluster, every machine needs the file"
        ) from None
    if not password:
        raise StoreAccessDenied(f"{url}: password_file {path} has an empty first line")
    return password
