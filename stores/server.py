"""What stores of a server's client have in common: an address, an end, and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self

from .address import StoreAddress
from .base import PageStore
from .errors import InvalidStoreURL, StoreClosed


class ServerStore(PageStore):
    """Pages in a server. It is sent to other processes as its address, and opened anew there."""

    #: What follows the scheme in an address, to show what one looks like.
    example: ClassVar[str]

    def __init__(self, address: StoreAddress) -> None:
        if not address.host:
            scheme = address.scheme
            raise InvalidStoreURL(f"{scheme}:// needs a host: {scheme}://{self.example}")
        self.url = address.public
        self._address = address
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.url} was closed: open it again")

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
