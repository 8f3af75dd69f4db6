"""Pages in Spark's own state store, ``spark://state``, without a server.

The pages of a bucket of keys are a map in the state of that bucket, next to the snapshot that names
them (``bucket.py``). Spark commits both together and rolls both back together: a failed batch
leaves no page behind, and an older state has the pages that its snapshot names.

    state of a bucket    state      one value, see ``step/states.py``
                         pages      the page's key -> its bytes, see ``mta/pages.py``

Every page needs a call from Python to Java, because Spark's protocol has no call for several pages:
about 45 us to put 4 KB, 85 us to get them and 30 us to remove them; and the calls pickle, so larger
pages take proportionally longer: 350 KB take some milliseconds. So puts and deletes wait for
``flush``, and a page that is put and deleted before the flush is never sent. Pages that were read
or written are cached: in memory, and on local disk for the other workers, because Spark's next task
for a bucket may run in any of them. The caches may outlive the task: a name that contains the
digest of its page never stands for another page, so it does not matter which of the cached pages
Spark committed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from stores.address import parse
from stores.base import Capabilities, PageStore, check_keys, check_pages
from stores.disk_cache import DiskCache
from stores.errors import InvalidStoreURL, StoreClosed, StoreUnavailable, UnsupportedOperation
from stores.lru import LRU

if TYPE_CHECKING:  # PySpark 3.5 has none
    from pyspark.sql.streaming.stateful_processor import MapState

URL = "spark://state"
#: The variables of a bucket's state, and the columns of the rows of the second variable.
STATE, PAGES = "state", "pages"
KEY, PAGE = "key", "page"

_CAPABILITIES = Capabilities(
    # Pages become durable when Spark commits the batch, not before.
    durable=False,
    shared=False,
    max_key_bytes=1024,
    max_page_bytes=16 << 20,
)
_ENTRY_BYTES = 200  # approximate cost of an entry in addition to its page


def is_state_url(url: str) -> bool:
    """Return whether pages go to Spark's state; raises InvalidStoreURL for other spark:// URLs."""
    if not url.startswith("spark:"):
        return False
    if url != URL:
        parse(url)
        raise InvalidStoreURL(
            f"the only spark:// store is {URL}, for pages in the query's own state, without options"
        )
    return True


#: Pages by name.
PageCache = LRU[str, bytes]


def page_cache(most: int = 4 << 20) -> PageCache:
    """Return an empty cache of up to ``most`` bytes."""
    return PageCache(most, _ENTRY_BYTES)


class StatePages(PageStore):
    """The pages of one bucket, for one call of the state function.

    ``flush`` passes them to Spark, whose commit of the batch makes them durable. Up to
    ``write_buffer`` bytes of puts and deletes wait for the flush; beyond that, they are sent
    immediately. ``cached`` has pages by name; tasks that run one after the other may share it.
    ``shared`` has them for other processes.
    """

    url = URL

    def __init__(
        self, pages: MapState, write_buffer: int = 8 << 20, cached: PageCache | None = None,
        shared: DiskCache | None = None,
    ) -> None:  # fmt: skip
        self._pages = pages
        self._capacity = write_buffer
        self._pending: dict[str, bytes | None] = {}  # None is a delete
        self._pending_bytes = 0
        self._cached, self._shared = page_cache() if cached is None else cached, shared
        self._closed = False
        # The calls share one socket, on which each answer follows its request.
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities: pages belong to the task until Spark commits the batch."""
        return _CAPABILITIES

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages in the order of the keys; one call for each page not in memory."""
        check_keys(keys, _CAPABILITIES)
        with self._calls():
            found = {key: self._held(key) for key in keys}
            missing = [
                key for key, page in found.items() if page is None and key not in self._pending
            ]
            if missing:
                found |= self._fetched(missing)
        return [found[key] for key in keys]

    def _held(self, key: str) -> bytes | None:
        """Return a page that is in memory."""
        return self._pending[key] if key in self._pending else self._cached.get(key)

    def _fetched(self, keys: list[str]) -> dict[str, bytes | None]:
        """Return pages that are not in memory: those of other processes, then those of Java."""
        none: list[bytes | None] = [None] * len(keys)
        shared = none if self._shared is None else self._shared.get_many(keys)
        found, read = dict(zip(keys, shared, strict=True)), dict[str, bytes]()
        for key, page in found.items():
            if page is None and (row := self._pages.getValue((key,))) is not None:
                read[key] = bytes(row[0])
        found |= read
        for key, page in found.items():
            if page is not None:
                self._cached.put(key, page)
        if self._shared is not None:
            self._shared.put_many(read)
        return found

    def discard(self, keys: Sequence[str]) -> None:
        """Drop the cached copies of these pages; no call."""
        with self._calls():
            for key in keys:
                self._cached.pop(key)
            if self._shared is not None:
                self._shared.delete_many(keys)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Accept the pages; no call, unless the buffer is full."""
        self._accept(pages, check_pages(pages, _CAPABILITIES))

    def delete_many(self, keys: Iterable[str]) -> None:
        """Accept the deletes; no call, unless the buffer is full."""
        deleted = dict.fromkeys(keys)
        check_keys(deleted, _CAPABILITIES)
        self._accept(deleted, 0)

    def _accept(self, entries: Mapping[str, bytes | None], size: int) -> None:
        with self._calls():
            for key, page in entries.items():
                if page is None:
                    self._cached.pop(key)
                else:
                    self._cached.put(key, page)
            self._pending.update(entries)
            self._pending_bytes += size + _ENTRY_BYTES * len(entries)
            if self._pending_bytes > self._capacity:
                self._send()

    def _send(self) -> None:
        for key, page in self._pending.items():
            if page is None:
                self._pages.removeKey((key,))
            else:
                self._pages.updateValue((key,), (page,))
        if self._shared is not None and self._pending:
            gone = [key for key, page in self._pending.items() if page is None]
            self._shared.delete_many(gone)
            pages = {key: page for key, page in self._pending.items() if page is not None}
            self._shared.put_many(pages)
        self._pending, self._pending_bytes = {}, 0

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every key of the bucket that starts with ``prefix``; reads all keys."""
        with self._calls():
            names = self._pages.keys()
            found = {key for (key,) in names}
            for key, page in self._pending.items():
                (found.discard if page is None else found.add)(key)
        return (key for key in found if key.startswith(prefix))

    def flush(self) -> None:
        """Send all pending puts and deletes to Spark; one call for each page."""
        with self._calls():
            self._send()

    def close(self) -> None:
        """Flush; later calls are refused."""
        if not self._closed:
            self.flush()
            self._closed = True

    @contextmanager
    def _calls(self) -> Iterator[None]:
        """Lock while one thread calls Java, and turn its errors into StoreUnavailable."""
        with self._lock:
            if self._closed:
                raise StoreClosed(f"{self.url} was closed: each task opens its own")
            try:
                yield
            except (PySparkException, OSError, EOFError) as error:
                raise StoreUnavailable(
                    f"Spark's state store failed ({error}): nothing of this batch is committed, "
                    "and Spark runs it again; see the executor's log for the cause"
                ) from error

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        raise UnsupportedOperation(f"{self.url} belongs to one task: each opens its own")
