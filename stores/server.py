"""What stores of a server's client have in common: address, connection, end, batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from .address import Option, StoreAddress, count, seconds, switch
from .base import Capabilities, PageStore
from .errors import InvalidStoreURL, WindowStoreError
from .forks import start_over_in_children

#: What the address of any server may say.
OPTIONS: dict[str, Option] = {
    "ttl": count,
    "timeout": seconds,
    "connect_timeout": seconds,
    "ca_file": str,
    "cert_file": str,
    "key_file": str,
    "verify": switch,
}
_T = TypeVar("_T")


class ServerStore(PageStore):
    """Pages in a server. It connects on first use, and anew in a forked child.

    It is sent to other processes as its address, and opened anew there.
    """

    #: What follows the scheme in an address, to show what one looks like.
    example: ClassVar[str]
    #: What the server holds; the same for every server of the kind.
    limits: ClassVar[Capabilities]
    #: The client's errors, and what it raises at a connection that ``close`` has taken away.
    failures: ClassVar[tuple[type[Exception], ...]]
    failure_after_close: ClassVar[type[Exception]]

    def __init__(self, address: StoreAddress) -> None:
        if not address.host:
            scheme = address.scheme
            raise InvalidStoreURL(f"{scheme}:// needs a host: {scheme}://{self.example}")
        self.url = address.public
        self._address = address
        self._client: Any = None
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        """Forget the connection, as a forked child does; no store call."""
        self._client = None

    @property
    def capabilities(self) -> Capabilities:
        """Outside this process, seen by every machine; no store call."""
        return self.limits

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Every stored key that starts with ``prefix``, some twice; it visits what the server has.

        Raises ``UnsupportedOperation`` where the server cannot list its keys.
        """
        self._check_open()
        return self._scan(prefix)

    @abstractmethod
    def _scan(self, prefix: str) -> Iterator[str]:
        """The keys, a batch a call."""

    @abstractmethod
    def _connect(self) -> Any:
        """A client that is connected, or connects by itself; raises its errors."""

    @abstractmethod
    def _named(self, error: Exception) -> WindowStoreError:
        """The project's error for one of the client, without a password or a page in it."""

    def _run(self, operation: Callable[[Any], _T]) -> _T:
        """Do the operation, with the client's errors under our names and without their chain."""
        try:
            client = self._client
            if client is None:
                self._check_open()
                client = self._client = self._connect()
            return operation(client)
        except self.failures as error:
            named = self._named(error)
        except self.failure_after_close:
            self._check_open()
            raise
        raise named from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[StoreAddress]]:
        return type(self), (self._address,)


def batches(
    keys: Iterable[str],
    most: int,
    pages: Mapping[str, bytes] | None = None,
    most_bytes: int = 0,
) -> Iterator[list[str]]:
    """The keys cut into batches of at most ``most``; none without keys.

    With ``pages`` a batch also has at most ``most_bytes`` of them, or one page that has more.
    """
    batch: list[str] = []
    size = 0
    for key in keys:
        more = len(pages[key]) if pages else 0
        if batch and (len(batch) >= most or size + more > most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(key)
        size += more
    if batch:
        yield batch
