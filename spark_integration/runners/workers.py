"""A Python worker process of Spark: its open stores, counts of their calls, and its query.

A worker serves many tasks, which share its open stores, with their connections, caches and write
buffers. Spark forks its workers: a store is opened on first use, inside the worker, and a forked
child never uses the open store of its parent. If more than ``MOST`` stores are open, those without
users are closed, the least recently used ones first.

A worker gets the query from the properties of Spark's tasks. The number of state partitions is the
one that the query started with: Spark keeps it in the checkpoint.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark import TaskContext

from spark_integration.runners.state_pages import URL, page_cache
from stores import open_store
from stores.base import PageStore, T
from stores.disk_cache import DiskCache
from stores.errors import WindowStoreError
from stores.testing.counting import CountingStore

PARTITIONS = "spark.sql.shuffle.partitions"
#: The settings with the query's own number of state partitions; the first that is set counts. From
#: Spark 4.1 on, a query that restarts has the number under the first name.
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions", PARTITIONS
#: Spark's own default.
_UNSET = 200
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
MOST = 8
"""The number of open stores above which unused ones are closed."""
CACHED = 256 << 20
"""The most bytes of pages in Spark's state that a worker caches."""
SHARED = 1 << 30
"""The most bytes of these pages on local disk, for all workers of an executor."""
#: The environment variable with the folders that Spark removes when the executor ends.
_LOCAL_DIRS = "SPARK_LOCAL_DIRS"

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_calls: tuple[int, int] = (0, 0)  # the id of a process, and how many tasks it has started


def freeze_objects() -> None:
    """Make the garbage collector skip all present objects; called when a task starts.

    PySpark collects garbage after every task, which takes longer than a small task with all objects
    of pandas and pyarrow. Objects are frozen at the first call, the second, the fourth, and so on:
    the first steps import more modules, and few objects are frozen that windows release later.
    """
    global _calls
    process, calls = _calls
    calls = calls + 1 if process == os.getpid() else 1
    _calls = (os.getpid(), calls)
    if calls & (calls - 1) == 0:
        gc.freeze()


@dataclass
class _Lease:
    """An open store and its number of users."""

    store: PageStore
    users: int = 0


_open: dict[tuple[int, str], _Lease] = {}  # the least recently used one first
#: Pages in Spark's state that this process has read or written, for its later tasks.
state_pages_seen = page_cache(CACHED)
_shared: dict[int, DiskCache | None] = {}  # by the id of the process


def state_pages_shared() -> DiskCache | None:
    """Return the pages in Spark's state that all workers of this executor share, on local disk.

    They are in a folder that Spark removes with the executor. None if there is no such folder.
    """
    process = os.getpid()
    if process not in _shared:
        folder, *_ = os.environ.get(_LOCAL_DIRS, "").split(",")
        _shared.clear()
        _shared[process] = None
        if folder:
            try:
                _shared[process] = DiskCache(os.path.join(folder, "mta-state"), URL, SHARED)
            except (WindowStoreError, OSError) as error:
                _log.warning("workers do not share pages in Spark's state: %s", error)
    return _shared[process]


@contextmanager
def executor_store(url: str) -> Iterator[PageStore]:
    """Yield an open store, for your own functions that run in Spark's workers.

    Each worker process opens the store once, and its tasks share it. The store stays open after the
    block, so do not close it. When the block ends without an error, the store is flushed, and all
    its pages are durable. Raises the errors of ``open_store`` and of the store.

    Args:
        url: The URL of the store.
    """
    with store_of(url) as store:
        yield store
        store.flush()


@contextmanager
def store_of(url: str) -> Iterator[PageStore]:
    """Yield this process's open store at ``url``, which stays open for later tasks."""
    at = (os.getpid(), url)
    with _lock:
        lease = _open.pop(at, None) or _Lease(open_store(url))
        _open[at] = lease
        lease.users += 1
    try:
        yield lease.store
    finally:
        with _lock:
            lease.users -= 1
            idle = [at for at, lease in _open.items() if lease.users == 0]
            surplus = [_open.pop(at).store for at in idle[: max(0, len(_open) - MOST)]]
        for store in surplus:
            try:
                store.close()
            except WindowStoreError as error:
                # Its pending pages belong to a failed task, whose retry writes them again.
                _log.warning("%s could not be closed: %s", store.url, error)


def running_batch() -> tuple[str, int]:
    """Return the id of the running query and its batch; only inside a task."""
    query, batch = _property(_QUERY_ID), _property(_BATCH_ID)
    if query is None or batch is None:
        raise RuntimeError("no streaming query runs in this task; report this as a bug")
    return query, int(batch)


def state_partitions() -> int:
    """Return how many partitions the state of the running query has; only inside a task."""
    return int(next(filter(None, map(_property, _STATE_PARTITIONS)), _UNSET))


def _property(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) if context else None


# --- counts ---------------------------------------------------------------------------------------


class PageCounts(NamedTuple):
    """The counts of pages in a micro-batch's ``observedMetrics``; docs/spark.md describes them."""

    pages_read: int = 0
    pages_written: int = 0
    pages_deleted: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    pages_cached: int = 0
    store_micros: int = 0
    promotions: int = 0
    merges: int = 0


class MeteredStore(CountingStore):
    """A store that counts pages, and measures how long the caller waits."""

    def __init__(self, store: PageStore) -> None:
        super().__init__(store)
        self._seconds, self._cached = 0.0, 0

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        with self._waiting():
            return super().get_many(keys)

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        def timed(pages: list[Any]) -> T:
            began = time.perf_counter()
            try:
                return see(pages)
            finally:
                self._seconds -= time.perf_counter() - began

        with self._waiting():
            return super().view_many(keys, timed)

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
