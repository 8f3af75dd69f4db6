"""Pages of an object store on this machine's disk: ``?cache_dir=/var/cache/mta``.

All processes of the machine that open the store with this folder share the cache: they need not
fetch pages that one of them has written or read, even after a restart. The folder contains

    pages    "p/" store "/" key                  the page
    indexes  "i/" store "/" folder "/" name      size of the pack, 8 bytes, and its end (``packs``)
    turns    "t/" time "-" random                the entries of one put, as msgpack: bytes and keys

where ``store`` is the digest of the store's address, and each entry begins with the xxh3_128 of its
name and content. The turns are the order in which entries are evicted if there is no room, oldest
first. The cache is an LMDB folder whose writes are not synced. A power failure could damage it, so
each boot of the machine uses a separate folder, and removes the folders of earlier boots.

A damaged entry counts as missing: it is dropped, and the store is read instead. An error of the
cache never makes a read or a write of the store fail: the cache logs one warning, and is empty from
then on.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgpack
import xxhash

from .base import T, start_over_in_children
from .errors import InvalidStoreURL, WindowStoreError
from .local_disk import LocalDiskStore

CACHE_BYTES = 1 << 30
"""The default size of a folder, for all stores together."""

_SMALLEST = 16 << 20
_ENTRY_BYTES = 200  # approximate cost of an entry in addition to its page
_SLACK = 64 << 20  # of the map, for entries that several processes put before one of them evicts
_LONGEST_NAME = 511
_DIGEST_BYTES = 16
_RECOUNT = 256  # turns after which the turns of other processes are counted again
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_log = logging.getLogger(__name__)


class DiskCache:
    """A cache of the pages of the store at ``url``, with ``capacity_bytes``. Thread-safe."""

    def __init__(self, folder: str, url: str, capacity_bytes: int = CACHE_BYTES) -> None:
        if not os.path.isabs(folder):
            raise InvalidStoreURL(f"{url}: cache_dir takes an absolute path")
        if capacity_bytes < _SMALLEST:
            raise InvalidStoreURL(f"{url}: cache_dir_size must be at least 16MiB")
        self._above, self._capacity = folder, capacity_bytes
        name = xxhash.xxh3_64_hexdigest(url.encode())
        self._pages, self._indexes = f"p/{name}/", f"i/{name}/"
        self._store = self._opened()
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.Lock()
        self._turns = _RECOUNT
        self._bytes = 0
        self._cleaned = False
        self._failed = False

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the cached pages, None for others."""
        found = self._intact([*self._names(keys)])
        return [found.get(self._pages + key) for key in keys]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Add pages to the cache; one turn."""
        named = {self._pages + key: page for key, page in pages.items()}
        self._put({name: page for name, page in named.items() if len(name) <= _LONGEST_NAME})

    def delete_many(self, keys: Iterable[str]) -> None:
        """Drop pages."""
        names = [*self._names(keys)]
        self._try(lambda: self._store.delete_many(names))

    def put_index(self, folder: str, name: str, size: int, end: bytes) -> None:
        """Cache the end of a pack, which holds its index."""
        self._put({f"{self._indexes}{folder}/{name}": size.to_bytes(8, "little") + end})

    def indexes(self, folder: str, since: str) -> Iterator[tuple[str, int, bytes]]:
        """Yield the name, size and end of each pack whose name is ``since`` or later."""
        start = f"{self._indexes}{folder}/"
        # Names start with a time. All times in a range share the leading digits that are common to
        # the ends of the range.
        until = f"{time.time_ns() // 1_000_000:011x}"
        shared = os.path.commonprefix([since, until])  # noqa: RUF071 - these are no paths
        names = self._try(lambda: sorted(self._store.keys(start + shared))) or []
        names = [name for name in names if name >= start + since]
        for name, found in self._intact(names).items():
            yield name.removeprefix(start), int.from_bytes(found[:8], "little"), found[8:]

    def drop_indexes(self, folder: str, names: Iterable[str]) -> None:
        """Drop the indexes of packs."""
        going = [f"{self._indexes}{folder}/{name}" for name in names]
        self._try(lambda: self._store.delete_many(going))

    def clear(self) -> None:
        """Remove the folder, with all pages of all stores, also deleted ones; start a new one.

        Another process that has the folder open keeps its removed files until it ends.
        """
        with self._lock:
            self._store.close()
            shutil.rmtree(self._store.folder, ignore_errors=True)
            self._store, self._turns = self._opened(), _RECOUNT

    def close(self) -> None:
        """Close the cache; the folder is kept."""
        self._store.close()

    def _opened(self) -> LocalDiskStore:
        return LocalDiskStore(
            os.path.join(self._above, f"boot-{_boot()}"),
            map_size=2 * self._capacity + _SLACK,
            sync=not _BOOT_ID.exists(),
        )

    def _names(self, keys: Iterable[str]) -> Iterator[str]:
        """Yield the names of pages, except those that are too long for the folder."""
        names = (self._pages + key for key in keys)
        return (name for name in names if len(name) <= _LONGEST_NAME)

    def _put(self, entries: dict[str, bytes]) -> None:
        size = sum(len(page) + _ENTRY_BYTES for page in entries.values())
        if not entries or size > self._capacity // 2:
            return
        turn = f"t/{time.time_ns():016x}-{uuid4().hex[:8]}"
        entries = {**entries, turn: msgpack.packb([size, list(entries)])}
        sealed = {name: _digest(name, content) + content for name, content in entries.items()}
        with self._lock:
            self._try(lambda: self._add(sealed, size))

    def _add(self, entries: Mapping[str, bytes], size: int) -> None:
        self._make_room(size)
        self._store.put_many(entries)
        self._bytes += size
        self._turns += 1

    def _make_room(self, size: int) -> None:
        """Drop the oldest turns if there is no room for ``size`` bytes."""
        if not self._cleaned:
            self._remove_earlier_boots()
        if self._turns < _RECOUNT and self._bytes + size <= self._capacity:
            return
        turns = self._turns_in_order()
        self._bytes, self._turns = sum(turn.size for turn in turns), 0
        if self._bytes + size <= self._capacity:
            return
        going = []
        for turn in turns:
            going += [turn.name, *turn.entries]
            self._bytes -= turn.size
            if self._bytes + size <= self._capacity * 7 // 8:
                break
        self._store.delete_many(going)

    def _turns_in_order(self) -> list[_Turn]:
        """Return all turns, the oldest first; drop damaged ones, and the entries of no other."""
        names = sorted(self._store.keys("t/"))
        found = self._intact(names)
        turns = [turn for name, data in found.items() if (turn := _turn_of(name, data)) is not None]
        if len(turns) < len(names):
            known = {name for turn in turns for name in (turn.name, *turn.entries)}
            self._store.delete_many([name for name in self._store.keys("") if name not in known])
        return turns

    def _intact(self, names: list[str]) -> dict[str, bytes]:
        """Return the content of the undamaged entries; drop the others."""
        found, damaged = dict[str, bytes](), list[str]()
        read = self._try(lambda: self._store.get_many(names)) or []
        for name, entry in zip(names, read, strict=False):
            if entry is None:
                continue
            content = entry[_DIGEST_BYTES:]
            if entry[:_DIGEST_BYTES] == _digest(name, content):
                found[name] = content
            else:
                damaged.append(name)
        if damaged:
            _log.warning("%d damaged entries of the cache in %s: the store is read instead",
                         len(damaged), self._above)  # fmt: skip
            self._try(lambda: self._store.delete_many(damaged))
        return found

    def _remove_earlier_boots(self) -> None:
        self._cleaned = True
        for path in Path(self._above).glob("boot-*"):
            if path.name != os.path.basename(self._store.folder):
                shutil.rmtree(path, ignore_errors=True)

    def _try(self, call: Callable[[], T]) -> T | None:
        """Return the result of the call, or None if the cache has failed."""
        if self._failed:
            return None
        try:
            return call()
        except (WindowStoreError, OSError, ValueError, msgpack.UnpackException) as error:
            self._failed = True
            _log.warning("the cache in %s is no longer used: %s", self._above, error)
            return None


class _Turn(NamedTuple):
    """The entries of one put."""

    name: str
    size: int
    entries: list[str]


def _turn_of(name: str, data: bytes) -> _Turn | None:
    """Return a turn; None for other content."""
    with suppress(ValueError, msgpack.UnpackException):
        match msgpack.unpackb(data):
            case [int(size), list(entries)] if all(isinstance(each, str) for each in entries):
                return _Turn(name, size, entries)
    return None


def _digest(name: str, content: bytes) -> bytes:
    digest = xxhash.xxh3_128(name.encode())
    digest.update(content)
    return digest.digest()


def default_folder() -> str | None:
    """Return a temporary folder that only this user can access; warn and return None on failure."""
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    folder = os.path.join(tempfile.gettempdir(), f"mta-cache-{user}")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        status = os.lstat(folder)
        if user and (not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077):
            raise PermissionError(errno.EPERM, "other users have access to it")
        if user and status.st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "it belongs to another user")
    except OSError as error:
        _log.warning("no cache in %s (%s): choose another folder with ?cache_dir=", folder, error)
        return None
    return folder


def _boot() -> str:
    """Return an identifier of this boot of this machine."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        boot = socket.gethostname()
    return xxhash.xxh3_64_hexdigest(boot.encode())
