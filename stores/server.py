"""The base class of stores with a server's client: address, connection, closing, batches."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from .address import Option, StoreAddress, credentials_of, seconds, switch, whole_seconds
from .base import (
    PING_SECONDS,
    PageStore,
    check_keys,
    check_pages,
    in_batches,
    start_over_in_children,
)
from .errors import InvalidStoreURL, StoreUnavailable, WindowStoreError

_BATCH_BYTES = 8 << 20  # bytes of pages per command; larger commands would block other clients
READ_KEYS = 256  # a third faster than 64, for pages of 4 KiB; 16 MiB for pages of 64 KiB
_WRITE_KEYS = 512

#: The options that the address of any server can have.
OPTIONS: dict[str, Option] = {
    "ttl": whole_seconds,
    "timeout": seconds,
    "connect_timeout": seconds,
    "ca_file": str,
    "cert_file": str,
    "key_file": str,
    "verify": switch,
    "password_file": str,
}
_T = TypeVar("_T")


def impatient(address: StoreAddress) -> StoreAddress:
    """Return the address with timeouts that end before a ping gives up."""
    timeouts = dict.fromkeys(("timeout", "connect_timeout"), str(0.75 * PING_SECONDS))
    return replace(address, options={**address.options, **timeouts})


def unanswered(url: str, ask: Callable[[], object]) -> str:
    """Return why a store does not answer a ping, "" if it does; raises other errors of ``ask``.

    ``ask`` runs in a thread, because a client's timeouts do not bound a DNS lookup. A thread
    without an answer is abandoned.
    """
    answer: Future[object] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="ping", daemon=True).start()
    try:
        answer.result(PING_SECONDS)
    except TimeoutError:
        return f"{url} did not answer within {PING_SECONDS:g} s"
    except StoreUnavailable as error:
        return str(error)
    return ""


class ServerStore(PageStore):
    """Pages in a server. The store connects on first use, and again in a forked child.

    It is pickled as its address, from which it is opened again.
    """

    #: The part after the scheme in an example of an address.
    example: ClassVar[str]
    #: The scheme without TLS and the one with it.
    schemes: ClassVar[tuple[str, str]]
    #: The client's errors, and the error on a connection that ``close`` has closed.
    failures: ClassVar[tuple[type[Exception], ...]]
    failure_after_close: ClassVar[type[Exception]]

    def __init__(self, address: StoreAddress) -> None:
        if not address.host:
            scheme = address.scheme
            raise InvalidStoreURL(f"{scheme}:// needs a host: {scheme}://{self.example}")
        self.url = address.public
        self._address = address
        self._credentials = credentials_of(address)
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages in the order of the keys; one command for each 256 keys."""
        check_keys(keys, self.capabilities)
        found: dict[str, bytes | None] = {}
        for batch in self._batches(dict.fromkeys(keys), READ_KEYS):
            found.update(zip(batch, self._run(self._get, batch), strict=True))
        return [found[key] for key in keys]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Store the pages; one command for each 8 MiB or 512 pages."""
        check_pages(pages, self.capabilities)
        for batch in self._batches(pages, _WRITE_KEYS, pages):
            self._run(self._put, {key: pages[key] for key in batch})

    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove the pages; one command for each 512 keys."""
        keys = dict.fromkeys(keys)
        check_keys(keys, self.capabilities)
        for batch in self._batches(keys, _WRITE_KEYS):
            self._run(self._delete, batch)

    def ping(self, *, write: bool = False) -> None:
        """Ping as the base class does, over a separate connection, which is closed at the end."""
        self._check_open()

        def ask() -> None:
            with closing(type(self)(impatient(self._address))) as store:
                PageStore.ping(store, write=write)

        if problem := unanswered(self.url, ask):
            plain, secure = self.schemes
            raise StoreUnavailable(
                f"{problem}; start the server, or correct the host, port and scheme "
                f"({plain}:// without TLS, {secure}:// with it)"
            )

    def explain_missing(self) -> str:
        """Return an explanation if the address makes pages expire; no store call."""
        ttl = whole_seconds(self._address.options.get("ttl", "0"))
        return f"?ttl={ttl} makes pages expire after {ttl} seconds" if ttl else ""

    def close(self) -> None:
        """Release the connections; closing twice is harmless."""
        self._closed = True
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                self._disconnect(client)

    @abstractmethod
    def _disconnect(self, client: Any) -> None: ...

    def _together(self, keys: Iterable[str]) -> Iterable[Iterable[str]]:
        """Return the keys in groups that fit in one command."""
        return [keys]

    def _batches(
        self, keys: Iterable[str], most: int, pages: Mapping[str, bytes] | None = None
    ) -> Iterator[list[str]]:
        """Yield the keys of each command: at most ``most``, with 8 MiB of ``pages`` or one page."""
        for group in map(list, self._together(keys)):
            if pages is None:
                yield from (group[at : at + most] for at in range(0, len(group), most))
            else:
                yield from in_batches(group, lambda key: len(pages[key]), _BATCH_BYTES, most)

    @abstractmethod
    def _get(self, client: Any, keys: list[str]) -> list[bytes | None]:
        """Return the pages of a batch, in the order of the keys."""

    @abstractmethod
    def _put(self, client: Any, pages: dict[str, bytes]) -> None: ...

    @abstractmethod
    def _delete(self, client: Any, keys: list[str]) -> None: ...

    @abstractmethod
    def _connect(self) -> Any:
        """Return a client, connected now or on first use; raises the client's errors."""

    def _look_at(self, client: Any) -> None:
        """Check the server once there is a client; raises the client's errors."""
        return

    @abstractmethod
    def _named(self, error: Exception) -> WindowStoreError:
        """Return this project's error for a client's error, without passwords or pages in it."""

    def _run(self, operation: Callable[..., _T], *given: Any) -> _T:
        """Run the operation; the client's errors become this project's, without chaining."""
        try:
            client = self._client
            if client is None:
                with self._lock:
                    self._check_open()
                    if self._client is None:
                        self._client = self._connect()
                    client = self._client
                self._look_at(client)
            return operation(client, *given)
        except WindowStoreError:  # some are also an OSError
            raise
        except self.failures as error:
            named = self._named(error)
        except self.failure_after_close:
            self._check_open()
            raise
        raise named from None

    def __reduce__(self) -> tuple[type[Self], tuple[StoreAddress]]:
        return type(self), (self._address,)
