"""The user and password of a server: from the URL, a file, or the environment.

A password in a URL is visible in the list of processes, in shell histories and in job definitions.
Therefore a URL may omit it:

1. ``?password_file=/run/secrets/pages`` names a file that contains the password.
2. Without that option, ``MTA_STORE_PASSWORD`` is the password, and ``MTA_STORE_USER`` the user.

The process that opens a store reads them at that time. So neither a pickled store nor a plan for
Spark's workers contains such a password.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from .address import StoreAddress
from .errors import InvalidStoreURL, StoreAccessDenied

USER, PASSWORD = "MTA_STORE_USER", "MTA_STORE_PASSWORD"


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
        return Credentials(user, _read(path, address.public), f"the file {path}")
    password = os.environ.get(PASSWORD)
    return Credentials(user, password, PASSWORD if password else "")


def _read(path: str, url: str) -> str:
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
