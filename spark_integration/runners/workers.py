"""State of a Python worker process of Spark between tasks, and properties of its query.

It keeps a few open stores, one per address. A worker serves many tasks and keys, so its connection,
page cache and write buffer live in this module for as long as the worker does. Spark forks its
workers: a store is opened here on first use, inside the worker, and a forked child never takes over
its parent's. An open store holds connections, threads or a map of address space; so beyond ``MOST``
of them those go that nobody uses, the least recently used ones first.

It knows the query by the properties that Spark gives a task. The number of state partitions is the
one that the query started with: Spark keeps it in the checkpoint, whatever the session's settings
are when the query restarts.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from stores import open_store
from stores.base import PageStore
from stores.errors import WindowStoreError

PARTITIONS = "spark.sql.shuffle.partitions"
#: The query's own settings of the number of state partitions, the first of which counts. From
#: Spark 4.1 on, a query that restarts has it by the first name.
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions", PARTITIONS
#: Spark's own default.
_UNSET = 200
_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
MOST = 8
"""Unused stores that stay open."""

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_calls: tuple[int, int] = (0, 0)  # a process, and how many tasks it has started


def settle() -> None:
    """As a task begins: have the garbage collector pass over what is there to stay.

    PySpark collects garbage after every task, through all objects of all modules. With pandas and
    pyarrow that takes longer than a small task itself, and the next one waits for it. So what a
    task finds here is no garbage. It is set aside at the first call, the second, the fourth, and so
    on: the first steps import more modules, and what windows release later is seldom caught.
    """
    global _calls
    process, calls = _calls
    calls = calls + 1 if process == os.getpid() else 1
    _calls = (os.getpid(), calls)
    if calls & (calls - 1) == 0:
        gc.freeze()


class _Lease:
    """An open store and its number of users."""

    def __init__(self, store: PageStore) -> None:
        self.store = store
        self.users = 0


_open: OrderedDict[tuple[int, str], _Lease] = OrderedDict()  # the least recently used one first


@contextmanager
def executor_store(url: str) -> Iterator[PageStore]:
    """Yield an open store for your own function that runs in Spark's workers.

    It is opened once in a worker's process and shared by its tasks; it stays open after the block,
    so do not close it. When the block ends without an error, all its pages are durable: one flush.
    Raises what ``open_store`` raises, and the store's errors.

    Args:
        url: The URL of the store.
    """
    with store_of(url) as store:
        yield store
        store.flush()


@contextmanager
def store_of(url: str) -> Iterator[PageStore]:
    """Yield this process's open store at ``url``, which stays open for later tasks.

    Raises what ``open_store`` raises.
    """
    at = (os.getpid(), url)
    with _lock:
        if at not in _open:
            _open[at] = _Lease(open_store(url))
        _open.move_to_end(at)
        lease = _open[at]
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
    """Return the id of the running query, which is in the checkpoint, and its batch.

    Only inside a task.
    """
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
