"""The store calls and pages of a bucket's step, as counts of the query.

They are in ``observedMetrics``, next to the counts of rows, as sums over all buckets of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from stores.base import PageStore, T
from stores.testing.counting import CountingStore


class PageCounts(NamedTuple):
    """The counts of pages in a micro-batch."""

    pages_read: int = 0
    pages_written: int = 0
    pages_deleted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    pages_cached: int = 0
    """The number of pages that were read from memory."""
    store_micros: int = 0
    """How long all tasks together waited for the store, in microseconds."""
    promotions: int = 0
    """The number of windows that became standalone, minus expired standalone windows."""
    merges: int = 0
    """The number of runs of pages that were merged into others."""


NO_PAGES = PageCounts()


class MeteredStore(CountingStore):
    """A store that counts pages, and measures how long the caller waits."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self._seconds, self._cached = 0.0, 0

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        with self._waiting():
            return super().get_many(keys)

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        own = 0.0

        def timed(pages: list[Any]) -> T:
            nonlocal own
            began = time.perf_counter()
            try:
                return see(pages)
            finally:
                own += time.perf_counter() - began

        with self._waiting():
            try:
                return super().view_many(keys, timed)
            finally:
                self._seconds -= own

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        with self._waiting():
            super().put_many(pages)

    def flush(self) -> None:
        with self._waiting():
            super().flush()

    def peek(self, key: str) -> bytes | None:
        page = super().peek(key)
        self._cached += page is not None
        return page

    def page_counts(self, promotions: int, merges: int) -> PageCounts:
        """Return the counts of pages, together with these counts of windows and runs."""
        counts = self.counts
        return PageCounts(
            counts.get.pages - counts.missing,
            counts.put.pages,
            counts.delete.pages,
            counts.get.bytes,
            counts.put.bytes,
            self._cached,
            round(self._seconds * 1e6),
            promotions,
            merges,
        )

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds += time.perf_counter() - began
