"""One LMDB environment per process and folder, shared by every store on that folder.

LMDB's file locks belong to the process, so a folder must not be opened twice in one process, and an
environment must not be used across a fork. Invariants:

1. ``_open`` has one entry per data file that this process has open, keyed by device and inode, so
   that a folder that was deleted and made again is another one.
2. Every LMDB call happens with ``reading`` or ``writing`` held. A fork takes all of them first, so
   it waits for calls under way, and the child finds environments at rest, which it closes (LMDB
   leaves the parent's locks and readers alone) and opens anew on first use.
3. No read transaction outlives the call that began it: a reader at rest would pin freed pages.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import lmdb

from .forks import at_fork

_MAX_READERS = 2048  # 64 bytes each in the lock file; one for each thread that reads right now
_SMALLEST_MAP = 1 << 30

_Key = tuple[int, int]


class Environment:
    """An open LMDB environment and the locks around it."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.users = 0
        self.closed = False
        self.reading = threading.Lock()
        self.writing = threading.Lock()

    def adopt_map_size(self) -> None:
        """Take over a larger map that another process has set; needs no call under way."""
        with self.writing, self.reading:
            self.handle.set_mapsize(0)


opening = threading.RLock()  # guards ``_open``; re-entrant, since a finalizer may run under it
_open: dict[_Key, Environment] = {}


def acquire(folder: str, map_size: int) -> Environment:
    """The environment of the folder, to be released once; raises what LMDB and the system raise."""
    with opening:
        data = os.path.join(folder, "data.mdb")
        environment = _open.get(_identity(data)) if os.path.exists(data) else None
        if environment is None:
            environment = Environment(_open_lmdb(folder, map_size))
            _open[_identity(data)] = environment
        environment.users += 1
    return environment


def discard(environment: Environment) -> None:
    """Close the environment under its users, who open it anew: after an I/O error."""
    with opening:
        if not environment.closed:
            environment.closed = True
            for key in [key for key, value in _open.items() if value is environment]:
                del _open[key]
            environment.handle.close()


def release(environment: Environment) -> None:
    """Be done with an environment; the last of its users closes it."""
    with opening:
        environment.users -= 1
        if environment.users == 0:
            discard(environment)


def _identity(path: str) -> _Key:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _open_lmdb(folder: str, map_size: int) -> Any:
    while True:
        try:
            handle = lmdb.open(
                folder,
                map_size=map_size,
                max_readers=_MAX_READERS,
                readahead=False,  # pages are read at random; reading around them evicts better ones
                create=True,
            )
        except lmdb.MemoryError:
            # The map is address space, not memory, yet a limit on it (ulimit -v) counts it.
            if map_size // 2 < _SMALLEST_MAP:
                raise
            map_size //= 2
        else:
            handle.reader_check()  # frees the slots of killed processes
            return handle


def _before_fork() -> None:
    opening.acquire()
    for environment in _open.values():
        environment.writing.acquire()
        environment.reading.acquire()


def _after_fork_in_parent() -> None:
    for environment in _open.values():
        environment.reading.release()
        environment.writing.release()
    opening.release()


def _after_fork_in_child() -> None:
    global opening
    opening = threading.RLock()
    for environment in list(_open.values()):
        discard(environment)


at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
