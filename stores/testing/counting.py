"""A store that counts calls: for tests of how many calls a structure makes, and for statistics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stores.base import PageStore, T, WrapperStore, start_over_in_children


@dataclass
class CallCount:
    """The counts of one operation."""

    calls: int = 0
    pages: int = 0
    bytes: int = 0


@dataclass
class Counts:
    """The counts of all operations. ``missing`` counts requested pages that did not exist."""

    get: CallCount = field(default_factory=CallCount)
    put: CallCount = field(default_factory=CallCount)
    delete: CallCount = field(default_factory=CallCount)
    prefetch: CallCount = field(default_factory=CallCount)
    flush: CallCount = field(default_factory=CallCount)
    keys: CallCount = field(default_factory=CallCount)
    missing: int = 0


class CountingStore(WrapperStore):
    """A store that counts calls, pages and bytes of each successful operation, in ``counts``.

    As the outermost wrapper it counts a caller's requests, as the innermost the requests that reach
    the store. A forked or unpickled copy starts at zero.

    Args:
        store: The store to count.
    """

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.Lock()
        self.counts = Counts()

    def reset(self) -> Counts:
        """Return the counts so far and reset them to zero; no store call."""
        with self._lock:
            counts, self.counts = self.counts, Counts()
        return counts

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        pages = self.store.get_many(keys)
        self._count_pages(keys, pages)
        return pages

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        def counted(pages: list[Any]) -> T:
            self._count_pages(keys, pages)
            return see(pages)

        return self.store.view_many(keys, counted)

    def peek(self, key: str) -> bytes | None:
        """Make no store call; a page that is in memory counts as read by a call."""
        page = self.store.peek(key)
        if page is not None:
            self._add("get", 1, len(page))
        return page

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self.store.put_many(pages)
        self._add("put", len(pages), sum(map(len, pages.values())))

    def delete_many(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        self.store.delete_many(keys)
        self._add("delete", len(keys))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Count the call, and each key that the caller takes."""
        found = self.store.keys(prefix)
        self._add("keys", 0)
        for key in found:
            self.counts.keys.pages += 1
            yield key

    def prefetch(self, keys: Sequence[str]) -> None:
        self.store.prefetch(keys)
        self._add("prefetch", len(keys))

    def flush(self) -> None:
        self.store.flush()
        self._add("flush", 0)

    def _count_pages(self, keys: Sequence[str], pages: Sequence[Any]) -> None:
        there = [page for page in pages if page is not None]
        self._add("get", len(keys), sum(map(len, there)), missing=len(keys) - len(there))

    def _add(self, operation: str, pages: int, size: int = 0, *, missing: int = 0) -> None:
        with self._lock:
            count: CallCount = getattr(self.counts, operation)
            count.calls += 1
            count.pages += pages
            count.bytes += size
            self.counts.missing += missing
