"""Prefetched and cached pages: the paper's head cache, for stores where a read is a round trip.

A background thread fetches the pages of ``prefetch`` before they are read; the least recently used
pages are dropped when the cache is full. Invariants:

1. A page is in ``_pages`` only if no put or delete of its key came after the fetch that brought it.
   Each fetch marks its keys in ``_flying`` with its own token, a put or delete removes the mark,
   and only marked pages are cached.
2. Only one thread at a time fetches a key; other readers of the key wait for that fetch.
3. ``prefetch`` neither blocks nor fails: the reader fetches pages that did not fit in the queue or
   could not be fetched, and gets the error.
4. The thread fetches about a megabyte at a time, or a quarter of the cache if that is less, judging
   by the page sizes of its last fetch: many pages per round trip, with a bounded wait for readers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from .base import Capabilities, PageStore, WrapperStore, start_over_in_children
from .lru import LRU

_QUEUE = 4096  # keys that wait for the thread; further hints are dropped
_FETCH_BYTES = 1 << 20  # approximate bytes of one read-ahead, for all of which readers wait
_FIRST_FETCH = 16  # keys to fetch while nothing is known about the size of pages
_IDLE = 5.0  # seconds after which a thread without work ends
_ENTRY_BYTES = 200  # approximate cost of an entry in addition to its page

_log = logging.getLogger(__name__)


class HeadCache(WrapperStore):
    """A store that caches recently read pages in memory, and reads pages ahead.

    Args:
        store: The store to read from.
        capacity_bytes: The size of the page cache in bytes.
    """

    def __init__(self, store: PageStore, capacity_bytes: int = 16 << 20) -> None:
        super().__init__(store)
        self._capacity = capacity_bytes
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._pages = LRU[str, bytes](self._capacity, _ENTRY_BYTES)
        self._flying: dict[str, object] = {}
        self._queue: dict[str, None] = {}
        self._fetch_keys = _FIRST_FETCH
        self._thread: threading.Thread | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Return the inner store's properties, with a read-ahead of a quarter of the cache."""
        return replace(self.store.capabilities, read_ahead=self._capacity // 4)

    def offer(self, pages: Mapping[str, bytes]) -> None:
        """Cache pages that were just written, so that ``prefetch`` need not fetch them."""
        with self._changed:
            if not self._closed:
                for key, page in pages.items():
                    self._pages.put(key, page)

    @property
    def cached_bytes(self) -> int:
        """Return the bytes in the cache; no store call."""
        return self._pages.size

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages; one store call for those that are neither cached nor being fetched."""
        found: dict[str, bytes | None] = {}
        token = object()
        with self._changed:
            self._check_open()
            missing = self._look_up(keys, found)
            joined = [key for key in missing if key in self._flying]
            mine = [key for key in missing if key not in self._flying]
            self._take_off(mine, token)
        found.update(self._fetch(mine, token))
        if joined:
            with self._changed:
                self._changed.wait_for(lambda: self._flying.keys().isdisjoint(joined))
                missing = self._look_up(joined, found)  # pages that the other thread did not get
                self._take_off(missing, token)
            found.update(self._fetch(missing, token))
        return [found[key] for key in keys]

    def peek(self, key: str) -> bytes | None:
        """Return the page if it is cached, or in memory in the inner store; no store call."""
        with self._changed:
            page = self._pages.get(key)
        return self.store.peek(key) if page is None else page

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Put the pages into the store; one store call.

        Written pages are not cached, because they are read much later.
        """
        self.store.put_many(pages)
        self._discard(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self.store.delete_many(keys)
        self._discard(keys)

    def prefetch(self, keys: Sequence[str]) -> None:
        """Fetch the pages in the background; no store call in this thread."""
        with self._changed:
            if self._closed:
                return
            for key in keys:
                if len(self._queue) >= _QUEUE:
                    break
                if key not in self._pages and key not in self._flying:
                    self._queue[key] = None
            if not self._queue:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="head-cache", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def discard(self, keys: Sequence[str]) -> None:
        """Drop these pages, so that the next read fetches them again."""
        self._discard(keys)
        self.store.discard(keys)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._pages.clear()
            thread = self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join()  # it ends after the current fetch, which the store's timeout bounds
        self.store.close()

    # For callers that hold the lock

    def _look_up(self, keys: Iterable[str], found: dict[str, bytes | None]) -> list[str]:
        """Add the cached pages to ``found`` and return the other keys, each once."""
        missing: dict[str, None] = {}
        for key in keys:
            page = self._pages.get(key)
            if page is None:
                missing[key] = None
            else:
                found[key] = page
        return list(missing)

    def _take_off(self, keys: Iterable[str], token: object) -> None:
        for key in keys:
            self._queue.pop(key, None)
            self._flying[key] = token

    # For callers without the lock

    def _fetch(self, keys: list[str], token: object) -> dict[str, bytes | None]:
        if not keys:
            return {}
        pages: dict[str, bytes | None] = {}
        try:
            pages = dict(zip(keys, self.store.get_many(keys), strict=True))
        finally:
            with self._changed:
                for key in keys:
                    if self._flying.get(key) is token:
                        del self._flying[key]
                        page = pages.get(key)
                        if page is not None and not self._closed:
                            self._pages.put(key, page)
                self._changed.notify_all()
        return pages

    def _discard(self, keys: Iterable[str]) -> None:
        with self._changed:
            for key in keys:
                self._flying.pop(key, None)
                self._pages.pop(key)
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            token = object()
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed, _IDLE)
                keys = list(islice(self._queue, self._fetch_keys))
                if not keys or self._closed:
                    self._thread = None
                    return
                self._take_off(keys, token)
            try:
                pages = self._fetch(keys, token)
            except Exception as error:  # invariant 3: the reader gets the error
                _log.debug("read-ahead failed: %s", error)
            else:
                size = sum(len(page) for page in pages.values() if page is not None)
                most = min(_FETCH_BYTES, self._capacity // 4)
                if size:
                    self._fetch_keys = max(1, len(pages) * most // size)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self._capacity)
