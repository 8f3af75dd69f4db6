"""One open store per Python worker process and address.

A worker serves many tasks and keys, so its connection, page cache and write buffer live in this
module for as long as the worker does. Spark forks its workers: a store is opened here on first
use, inside the worker, and a forked child never takes over its parent's.
"""

from __future__ import annotations

import os
import threading

from stores import open_store
from stores.base import PageStore

_lock = threading.Lock()
_open: dict[tuple[int, str], PageStore] = {}


def store_of(url: str) -> PageStore:
    """This process's open store at ``url``; opens it once. Raises what ``open_store`` raises."""
    at = (os.getpid(), url)
    with _lock:
        if at not in _open:
            _open[at] = open_store(url)
        return _open[at]
