"""The store as a reader has it: what writes is refused, and pages that were read stay in memory.

Pages are named by their content, so a cached page is never stale. The cache is bounded by bytes;
the least recently used pages leave it. It serves stores where a read is a round trip; others have
their pages in memory already. The records that change (``mta.publishing.records``) are read from
the store behind.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from stores import PageStore, UnsupportedOperation, WrapperStore

T = TypeVar("T")
#: What an entry costs beside its page.
_ENTRY_BYTES = 200


class NotCached(Exception):
    """Pages that are needed are not in memory; ``pages`` are their names."""

    def __init__(self, pages: Sequence[str]) -> None:
        super().__init__(f"{len(pages)} pages are not in memory")
        self.pages = pages


class _Thread(threading.local):
    """What holds for the calls of a thread."""

    cached_only = False


class ReadOnlyPages(WrapperStore):
    """Reads pages through a cache of ``capacity`` bytes; thread-safe."""

    def __init__(self, store: PageStore, capacity: int) -> None:
        super().__init__(store)
        self._remote = store.capabilities.remote
        self._capacity = capacity if self._remote else 0
        self._thread = _Thread()
        self._pages: OrderedDict[str, bytes] = OrderedDict()  # the least recently used first
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def cached_bytes(self) -> int:
        """Bytes of the pages in memory; no store call."""
        return self._bytes

    @contextmanager
    def cached_only(self) -> Iterator[None]:
        """Within, a call of this thread that would wait for a server raises NotCached."""
        self._thread.cached_only = self._remote
        try:
            yield
        finally:
            self._thread.cached_only = False

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The pages in the order of the keys; one store call for those that are not cached."""
        if not self._capacity:
            return self._read(keys)
        with self._lock:
            found = {key: self._pages[key] for key in keys if key in self._pages}
            for key in found:
                self._pages.move_to_end(key)
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        if missing:
            fresh = zip(missing, self._read(missing), strict=True)
            read = {key: page for key, page in fresh if page is not None}
            self._keep(read)
            found.update(read)
        return [found.get(key) for key in keys]

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        if not self._remote:
            return self.store.view_many(keys, see)
        return see(self.get_many(keys))

    def _read(self, keys: Sequence[str]) -> list[bytes | None]:
        if self._thread.cached_only:
            raise NotCached(keys)
        return self.store.get_many(keys)

    def _keep(self, pages: Mapping[str, bytes]) -> None:
        with self._lock:
            for key, page in pages.items():
                if key not in self._pages:
                    self._bytes += len(page) + _ENTRY_BYTES
                self._pages[key] = page
            while self._bytes > self._capacity:
                _, page = self._pages.popitem(last=False)
                self._bytes -= len(page) + _ENTRY_BYTES

    def discard(self, keys: Sequence[str]) -> None:
        """Drop what is cached of these pages, as one of them is damaged."""
        with self._lock:
            for key in keys:
                page = self._pages.pop(key, None)
                if page is not None:
                    self._bytes -= len(page) + _ENTRY_BYTES
        self.store.discard(keys)

    def peek(self, key: str) -> bytes | None:
        with self._lock:
            page = self._pages.get(key)
        return self.store.peek(key) if page is None else page

    def put_many(self, pages: Mapping[str, bytes]) -> NoReturn:
        """Raises UnsupportedOperation."""
        raise _refused()

    def delete_many(self, keys: Iterable[str]) -> NoReturn:
        """Raises UnsupportedOperation."""
        raise _refused()

    def flush(self) -> None:
        return


def _refused() -> UnsupportedOperation:
    return UnsupportedOperation(
        "published windows are opened to read: nothing is written or deleted"
    )
