"""The store as readers use it: writes are refused, and pages that were read stay in memory.

Pages are named by their content, so a cached page is never stale, and a page is checked against its
name only once, when it is read. The size of the cache is bounded in bytes; the least recently used
pages are dropped. The cache is used only for stores where a read is a round trip; other stores have
their pages in memory already. Records that change (``mta.publishing.records``) are never cached.

A key is looked up step by step: between two steps, an event loop can have pages read (``Lookup``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar

from mta.errors import CorruptPage
from mta.pages import require_named
from stores import PageStore, UnsupportedOperation, WrapperStore
from stores.lru import LRU

T = TypeVar("T")
#: The approximate cost of an entry in addition to its page.
_ENTRY_BYTES = 200
_READ_ONLY = "published windows are opened only for reading: nothing can be written or deleted"


class ReadOnlyPages(WrapperStore):
    """Reads pages through a cache of ``capacity`` bytes; thread-safe.

    Every page that is returned matches its name: otherwise the call raises CorruptPage.
    """

    def __init__(self, store: PageStore, capacity: int) -> None:
        super().__init__(store)
        self._remote = store.capabilities.remote
        self._pages = LRU[str, bytes](capacity if self._remote else 0, _ENTRY_BYTES)
        self._lock = threading.Lock()

    @property
    def cached_bytes(self) -> int:
        """Return the bytes of the cached pages; no store call."""
        return self._pages.size

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages in the order of the keys; one store call for those not cached."""
        found, missing = self._cached(keys)
        if not missing:
            return found
        read = self._checked(missing, self.store.get_many(missing))
        fresh = dict(zip(missing, read, strict=True))
        self._keep(fresh)
        pairs = zip(keys, found, strict=True)
        return [fresh[key] if page is None else page for key, page in pairs]

    async def fetch(self, keys: Sequence[str]) -> None:
        """Read pages into the cache without blocking the event loop, with one store call."""
        _, missing = self._cached(keys)
        if missing:
            read = self._checked(missing, await self.store.get_many_async(missing))
            self._keep(dict(zip(missing, read, strict=True)))

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        if not self._remote:
            return self.store.view_many(keys, lambda pages: see(self._checked(keys, pages)))
        return see(self.get_many(keys))

    def view_cached(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> Sequence[str]:
        """Call ``see`` with the pages if that needs no server; else return the keys to be read."""
        if not self._remote:
            self.view_many(keys, see)
            return ()
        found, missing = self._cached(keys)
        if not missing:
            see(found)
        return missing

    def resumed(self, lookup: Lookup[T]) -> T | None:
        """Return the result of a lookup from the pages in memory. Raises NotCached and MissingPage.

        Continues where it stopped, so the result is from one batch. A store on this machine is read
        directly.
        """
        while lookup.wanted:
            if missing := self.view_cached(lookup.wanted, lookup.take):
                raise NotCached(lookup, missing)
        return lookup.result

    def _cached(self, keys: Sequence[str]) -> tuple[list[bytes | None], list[str]]:
        """Return the cached pages, None for others, and the keys of these others."""
        with self._lock:
            found = [*map(self._pages.get, keys)]
        return found, [key for key, page in zip(keys, found, strict=True) if page is None]

    def _checked(self, keys: Sequence[str], pages: list[Any]) -> list[Any]:
        """Return pages that were read if each matches its name. Raises CorruptPage."""
        for key, page in zip(keys, pages, strict=True):
            if page is not None:
                try:
                    require_named(key, page)
                except CorruptPage:
                    self.store.discard([key])
                    raise
        return pages

    def _keep(self, pages: Mapping[str, bytes | None]) -> None:
        with self._lock:
            for key, page in pages.items():
                if page is not None:
                    self._pages.put(key, page)

    def discard(self, keys: Sequence[str]) -> None:
        """Drop these pages from the cache, because one of them is damaged."""
        with self._lock:
            for key in keys:
                self._pages.pop(key)
        self.store.discard(keys)

    def peek(self, key: str) -> bytes | None:
        with self._lock:
            page = self._pages.get(key)
        return self.store.peek(key) if page is None else page

    def put_many(self, pages: Mapping[str, bytes]) -> NoReturn:
        """Raises UnsupportedOperation."""
        raise UnsupportedOperation(_READ_ONLY)

    def delete_many(self, keys: Iterable[str]) -> NoReturn:
        """Raises UnsupportedOperation."""
        raise UnsupportedOperation(_READ_ONLY)

    def flush(self) -> None:
        return


# --- lookups step by step -------------------------------------------------------------------------


#: Yields names of pages, receives these pages (None for a missing one), and returns the result.
Steps = Generator[Sequence[str], list[Any], T]


class Lookup(Generic[T]):
    """A lookup that has started; ``store.view_many(lookup.wanted, lookup.take)`` is the next step.

    The constructor and ``take`` raise the errors of the steps.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        #: The names of the pages that the next step needs; empty once there is a result.
        self.wanted: Sequence[str] = ()
        self.result: T | None = None
        self.take(None)

    def take(self, pages: Any) -> None:
        """Continue with the wanted pages, which may be views valid only during the call."""
        try:
            self.wanted = self._steps.send(pages)
        except StopIteration as end:
            self.wanted, self.result = (), end.value


class NotCached(Exception):
    """Some of the needed pages are not in memory; ``pages`` has their names."""

    def __init__(self, lookup: Lookup[Any], pages: Sequence[str]) -> None:
        super().__init__(f"{len(pages)} pages are not in memory")
        self.lookup, self.pages = lookup, pages
