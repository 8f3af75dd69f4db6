"""What all page stores share: the interface, the base class of wrappers, checks, and forks.

Keys are ASCII text of the form ``group/rest``; the part before the first ``/`` names a group that a
cluster can keep on one node. Pages are immutable: a key is only ever put with the same bytes, so
puts and deletes can be repeated safely.

A forked child starts objects over that have locks, which another thread may hold, or threads.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from weakref import WeakSet

from .errors import InvalidKey, PageTooLarge, StoreClosed, UnsupportedOperation

T = TypeVar("T")

PING_SECONDS = 2.0
"""How many seconds a ping waits for an answer."""
_NO_PAGE = "ping/ping"


@dataclass(frozen=True)
class Capabilities:
    """The properties of a store, which callers may adapt to."""

    durable: bool
    """After ``flush``, the pages survive the death of this process."""
    shared: bool
    """Other machines see the same pages."""
    max_key_bytes: int
    max_page_bytes: int
    remote: bool = False
    """A read is a round trip over a network, so reading ahead and caching are worthwhile."""
    waits_for_flush: bool = False
    """A put costs the same for any size, so small puts wait for a flush."""
    overwrites: bool = True
    """A key may be put again with another page, which every later read returns."""
    read_ahead: int = 0
    """How many bytes of pages one caller may ``prefetch`` beyond the pages it has read."""


@dataclass(frozen=True)
class RecordPut:
    """A record to put if other records are as expected."""

    key: str
    data: bytes
    expected: Mapping[str, bytes | bool]
    """By key, what must be stored: these bytes, anything (True) or nothing (False)."""

    def __post_init__(self) -> None:
        groups = {key.partition("/")[0] for key in (self.key, *self.expected)}
        if len(groups) > 1:
            raise InvalidKey(f"the records of one put have one group, not {sorted(groups)}")


def holds(found: bytes | None, expected: bytes | bool) -> bool:
    """Return whether what is stored for a key is as a put expects."""
    return (found is not None) == expected if isinstance(expected, bool) else found == expected


class PageStore(ABC):
    """Pages by key. Thread-safe; usable after a fork (each process has its own connection).

    A call raises ``InvalidKey`` or ``PageTooLarge`` before it does anything. It raises
    ``StoreUnavailable``, ``StoreAccessDenied``, ``StoreFull`` (only puts), ``StoreDamaged`` or
    ``StoreClosed`` if the store is in that state. After such an error, some pages of a put may be
    stored: put all of them again.
    """

    #: The address without credentials, for messages and logs.
    url: str
    _closed = False

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Return the properties of this store; no store call."""

    @property
    def origin(self) -> str:
        """Return the host that wrote the pages, "" if all hosts share them; no store call."""
        return ""

    @abstractmethod
    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages in the order of the keys, None for missing ones; one store call."""

    async def get_many_async(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return what ``get_many`` does without blocking the event loop; one store call."""
        from asyncio import to_thread  # 4 MiB that most programs do not need

        return await to_thread(self.get_many, keys)

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        """Return what ``see`` returns for the pages, in the order of the keys; one store call.

        ``see`` gets bytes or views of the store's memory, and None for missing pages. Views are
        valid only during the call: ``see`` must not keep them, and must not call a store. It may be
        called again if the store fails.
        """
        return see(self.get_many(keys))

    @abstractmethod
    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Store the pages; one store call. Putting a page again is harmless."""

    @abstractmethod
    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove the pages; one store call. A missing key is not an error."""

    @abstractmethod
    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every stored key that starts with ``prefix``, in no order, for maintenance."""

    def get_records(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the records in the order of the keys, None for missing ones; never cached.

        Records are the few small values that change, or that must not be put twice. They have their
        own methods, so that no buffer, cache or compression comes between. One store call.
        """
        return self.get_many(keys)

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        """Put each record whose expectations hold, in no order; return which were put. One call.

        Each put is atomic, and durable when this returns, as far as the store promises after
        ``flush``. In an object store, only the expectation for the record's own key is atomic; the
        others are checked after the put, so that a record may be stored although the put returns
        False. After a lost connection, a put may also return False although the record was put.
        Raises UnsupportedOperation for stores without conditional puts.
        """
        raise UnsupportedOperation(
            f"{self.url} has no conditional puts: use file://, redis://, s3://, gs:// or az://"
        )

    def delete_records(self, keys: Iterable[str]) -> None:
        """Remove the records; one store call. A missing record is not an error."""
        self.delete_many(keys)

    def peek(self, key: str) -> bytes | None:
        """Return the page if it is in memory, None if finding it needs a store call.

        Makes no store call and never fails: for an invalid key or a closed store, it returns None.
        Otherwise it returns the same as ``get_many``.
        """
        del key
        return None

    def prefetch(self, keys: Sequence[str]) -> None:
        """Hint that these pages will be read soon; never blocks and never fails."""
        del keys  # a store without a read-ahead ignores it

    def offer(self, pages: Mapping[str, bytes]) -> None:
        """Hint that these pages, which the store has, will be read soon; no store call."""
        del pages  # a store without a read-ahead ignores them

    def discard(self, keys: Sequence[str]) -> None:
        """Hint that these pages were damaged, so that copies of them are dropped; no store call."""
        del keys  # a store without copies ignores it

    def hurry(self) -> None:
        """Hint that a flush follows soon, so that accepted writes can be sent now."""
        return  # a store that delays nothing ignores it

    def ping(self, *, write: bool = False) -> None:
        """Return once the store has answered, within about two seconds; changes no page.

        With ``write``, this also checks whether pages may be written. Opening a store makes no
        call, so a program pings it to find a wrong address or password before it starts its work.
        Raises the errors of a read and, with ``write``, of a delete.
        """
        self.get_many([_NO_PAGE])
        if write:
            self.delete_many([_NO_PAGE])

    def compact(self) -> None:
        """Rewrite the stored data so that nothing of deleted pages remains; changes no page.

        Raises StoreUnavailable if that is impossible while other processes use the store.
        """
        return  # nothing to do for a store that frees each page itself

    def explain_missing(self) -> str:
        """Return what may have removed pages, for the error about a missing page; "" if unknown.

        Never fails, and makes at most one store call.
        """
        return ""

    def flush(self) -> None:
        """Wait until every earlier put and delete is as durable as the store promises."""
        self._check_open()

    def close(self) -> None:
        """Flush and release the connection; closing twice is harmless."""
        return

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.url} was closed: open it again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


class WrapperStore(PageStore):
    """A base class for stores that pass every call on to another store.

    Args:
        store: The store that gets the calls.
    """

    def __init__(self, store: PageStore) -> None:
        self.store = store

    def before_call(self) -> None:
        """Run before each call that is passed on, except before hints."""
        return

    @property
    def url(self) -> str:  # type: ignore[override]
        return self.store.url

    @property
    def capabilities(self) -> Capabilities:
        return self.store.capabilities

    @property
    def origin(self) -> str:
        return self.store.origin

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self.before_call()
        return self.store.get_many(keys)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.before_call()
        self.store.put_many(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        self.before_call()
        self.store.delete_many(keys)

    def keys(self, prefix: str = "") -> Iterator[str]:
        self.before_call()
        return self.store.keys(prefix)

    def get_records(self, keys: Sequence[str]) -> list[bytes | None]:
        self.before_call()
        return self.store.get_records(keys)

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        self.before_call()
        return self.store.put_records(puts)

    def delete_records(self, keys: Iterable[str]) -> None:
        self.before_call()
        self.store.delete_records(keys)

    def peek(self, key: str) -> bytes | None:
        return self.store.peek(key)

    def prefetch(self, keys: Sequence[str]) -> None:
        self.store.prefetch(keys)

    def offer(self, pages: Mapping[str, bytes]) -> None:
        self.store.offer(pages)

    def discard(self, keys: Sequence[str]) -> None:
        self.store.discard(keys)

    def hurry(self) -> None:
        self.store.hurry()

    def ping(self, *, write: bool = False) -> None:
        self.before_call()
        self.store.ping(write=write)

    def compact(self) -> None:
        self.flush()
        self.store.compact()

    def explain_missing(self) -> str:
        return self.store.explain_missing()

    def flush(self) -> None:
        self.before_call()
        self.store.flush()

    def close(self) -> None:
        self.store.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store,)


def check_keys(keys: Iterable[str], capabilities: Capabilities) -> None:
    """Raise ``InvalidKey`` for a key that the store does not accept; no store call."""
    limit = capabilities.max_key_bytes
    for key in keys:
        if not 0 < len(key) <= limit or not key.isascii():
            raise InvalidKey(
                f"key {key[:60]!r} of {len(key)} characters: a key is 1 to {limit} ASCII characters"
            )


def check_pages(pages: Mapping[str, bytes], capabilities: Capabilities) -> int:
    """Return the total bytes of the pages. Raises ``InvalidKey`` and ``PageTooLarge``."""
    check_keys(pages, capabilities)
    limit = capabilities.max_page_bytes
    for key, page in pages.items():
        if len(page) > limit:
            raise PageTooLarge(
                f"page {key!r} has {len(page)} bytes, but the store takes at most {limit}: choose "
                "a smaller arity"
            )
    return sum(map(len, pages.values()))


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], most_bytes: int, most: int | None = None
) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most ``most`` items and ``most_bytes`` bytes.

    A list has at least one item, even if that item is larger.

    >>> list(in_batches(["abc", "d", "ef", "ghijkl"], len, most_bytes=4))
    [['abc', 'd'], ['ef'], ['ghijkl']]
    """
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) == most or total + size > most_bytes):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


_alive: WeakSet[Any] = WeakSet()


def start_over_in_children(thing: Any) -> None:
    """Call ``thing.start_over()`` in every forked child, before it does anything else.

    The method makes new locks, and starts without threads and pending work.
    """
    _alive.add(thing)


def _after_fork_in_child() -> None:
    for thing in list(_alive):
        thing.start_over()


def at_fork(**calls: Callable[[], None]) -> None:
    """Register calls around every fork, like ``os.register_at_fork``; Windows has no forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**calls)


at_fork(after_in_child=_after_fork_in_child)
