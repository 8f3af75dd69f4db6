"""The packs in one folder of an object store: write and read pages with few requests.

The keys of one window, or of the windows of one query, are in one folder (``folder_of``). The
folder has packs and pack lists (``packs``), whose names begin with the millisecond at which they
were written. A new process lists the folder once, and reads the lists and the indexes of the packs
that no list repeats. From then on it knows what it writes itself, and lists again only if it needs
an unknown page.

The state if the process dies after one of these steps:

1. A pack is put. From then on its pages are readable, and its deletions are known.
2. A list is put. It repeats the information of other objects; readers may use either.
3. Unneeded objects are removed: packs whose pages are all deleted, lists that a newer list
   replaces, and packs whose put failed, because such an object may exist. The next process that
   writes removes the remaining ones.

Any number of processes may read and write a folder at the same time: no object is ever changed, and
each name is used once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar
from uuid import uuid4

from .base import in_batches
from .disk_cache import DiskCache
from .errors import StoreDamaged, WindowStoreError
from .lru import LRU
from .pack_catalog import Catalog, Pack
from .packs import (
    HEAD,
    Entry,
    Listed,
    NeedsMore,
    PackIndex,
    decode_index,
    decode_list,
    encode_list,
    encode_pack,
    entries_of,
)

PACK, LIST = ".pack", ".list"
LIST_EVERY = 64
"""The number of packs between two lists."""
MOST_UNLISTED = 4 * LIST_EVERY
"""A process that finds this many unlisted packs writes a list with its next put."""
REMOVE_AT = 16
"""The number of unneeded objects at which a request removes them."""
PACK_BYTES = 64 << 20
"""The approximate maximum size of a pack from ``compact``."""
SMALL_PACK = 1 << 20
"""``compact`` merges packs smaller than this."""

READ_WHOLE = 256 << 10
"""A pack up to this size is read as a whole: pages written together are read together."""
READ_AGAIN = 8 << 20
"""A pack up to this size is read as a whole on the second read of its pages."""
_END_BYTES = 64 << 10  # bytes read from the end of a pack for its index; most are shorter
_TURNS = 5  # how many times a reader starts again because objects were removed
_SKEW = 600_000  # milliseconds by which writers' clocks may differ before packs are missed
_COMPLETE_LISTING = 1000  # objects that one request lists
_THREADS = 16
_PAUSE = 0.05

_T = TypeVar("_T")
_R = TypeVar("_R")
_log = logging.getLogger(__name__)


class ObjectClient(Protocol):
    """A bucket, or a folder in a bucket. Names are ``folder/name``.

    Calls raise ``FileNotFoundError`` for a missing object, and ``WindowStoreError``.
    """

    url: str

    def put(self, name: str, data: bytes) -> None:
        """Store an object; one request."""

    def get(self, name: str) -> bytes:
        """Return an object; one request."""

    def get_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return an object and its tag, which changes with each put; None for a missing object."""

    def put_tagged(self, name: str, data: bytes, tag: str | None) -> bool:
        """Put an object in place of the one with a tag, or of none; return whether it was put."""

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return ranges, each a start and a length; one request for close ranges."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; one request for many. A missing object is not an error."""

    def names(self, folder: str, after: str) -> Iterator[tuple[str, int]]:
        """Yield names after ``after``, without the folder, and sizes; one request per thousand."""

    def folders(self) -> list[str]:
        """Return the folders that have objects; one request per thousand."""


class PackFolder:
    """One folder. Thread-safe: any number of readers, one writer at a time.

    ``list_delay`` is how many seconds listings may lag behind, and ``pack_cache`` how many bytes of
    recently used packs are cached in memory.
    """

    def __init__(
        self,
        objects: ObjectClient,
        path: str,
        list_delay: float,
        cache: DiskCache | None,
        pack_cache: int,
    ) -> None:
        self._objects, self._path = objects, path
        self._list_delay, self._cache = list_delay, cache
        self._lock = threading.Lock()  # for the catalog; not locked during requests
        self._writing = threading.Lock()
        self._loading = threading.Lock()
        self._catalog = Catalog()
        self._loaded = False
        self._listed_until = self._shelved_until = ""
        # When packs were added that late listings may not have.
        self._added: dict[str, float] = {}
        self._recent = LRU[str, bytes](pack_cache)
        self._damaged: dict[str, str] = {}
        self._leftover: list[str] = []  # objects to remove that the catalog does not have
        self._since_list = 0

    # --- pages ----------------------------------------------------------------------------------

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the existing pages; one request per pack, and a listing's requests if needed.

        Raises ``StoreDamaged`` if a page is not found and an index is damaged.
        """
        pages: dict[str, bytes] = {}
        wanted = list(dict.fromkeys(keys))
        for _ in range(_TURNS):
            places, missing = self._places(wanted)
            if missing:
                self._look_for(missing, patient=True)
                places, missing = self._places(wanted)
            found, lost = self._fetch(places)
            pages |= found
            if missing and self._damaged:
                name, why = next(iter(self._damaged.items()))
                raise StoreDamaged(
                    f"{self._objects.url}: object {self._path}/{name} is damaged: {why}. It may "
                    f"contain the missing page {missing[0]}: restore a copy of the object, or "
                    "remove it and restore the windows from an earlier snapshot"
                )
            if not lost:
                break
            wanted = lost
        return pages

    def without(self, keys: Iterable[str]) -> list[str]:
        """Return the keys of the pages that this process does not know; no request."""
        return self._places(list(keys))[1]

    def put(self, pages: Mapping[str, bytes]) -> None:
        """Store pages and earlier deletes; one request, and sometimes more for maintenance."""
        with self._writing:
            self._put(pages)
            self._keep_up()

    def delete(self, keys: Iterable[str]) -> None:
        """Delete pages for this process, and for others with the next ``put`` or ``flush``.

        Makes no request, except for a listing if a page is unknown.
        """
        with self._lock:
            unknown = [key for key in keys if not self._catalog.delete(key)]
        if unknown:
            self._look_for(unknown, patient=False)
            with self._lock:
                for key in unknown:
                    self._catalog.delete(key)

    def flush(self) -> None:
        """Make all deletes visible to other processes; one request, or none without deletes."""
        with self._writing:
            with self._lock:
                pending, removable = set(self._catalog.pending), self._removable()
            if pending and pending <= set(removable):
                self._remove(removable)
            elif pending:
                self._put({})

    def close(self) -> None:
        """Flush, and remove unneeded objects; a few requests."""
        self.flush()
        with self._writing:
            self._clean()

    def keys(self, prefix: str) -> list[str]:
        """Return the keys of all pages with a prefix; lists the folder. Raises ``StoreDamaged``."""
        self._load(complete=True)
        for name, why in self._damaged.items():
            raise StoreDamaged(
                f"{self._objects.url}: object {self._path}/{name} is damaged: {why}. Restore a "
                "copy of the object, or remove it and check the windows (mta check)"
            )
        with self._lock:
            return self._catalog.keys(prefix)

    def compact(self) -> None:
        """Rewrite small packs and those with deleted pages, so that a few full packs remain.

        Reads and writes the live pages of these packs, at most 64 MiB at a time. If the process
        dies meanwhile, some pages are in two packs, but no page is lost.
        """
        self._load(complete=True)
        with self._writing:
            self._clean()
            with self._lock:
                wasteful = self._catalog.wasteful(SMALL_PACK)
            for group in in_batches(wasteful, Pack.live_bytes, PACK_BYTES):
                self._rewrite(group)
            self._write_list(whole=True)
            self._clean()

    # --- reading --------------------------------------------------------------------------------

    def _places(self, keys: Sequence[str]) -> tuple[dict[str, list[Entry]], list[str]]:
        """Return where pages are, by pack, and the keys that no known pack has."""
        places: dict[str, list[Entry]] = {}
        missing = []
        with self._lock:
            for key in keys:
                found = self._catalog.find(key)
                if found is None:
                    missing.append(key)
                else:
                    places.setdefault(found[0], []).append(found[1])
        return places, missing

    def _fetch(self, places: Mapping[str, list[Entry]]) -> tuple[dict[str, bytes], list[str]]:
        """Return the pages, and the keys of those whose pack was removed; drops these packs."""

        def fetch(name: str) -> list[bytes] | None:
            try:
                return self._pages_of(name, places[name])
            except FileNotFoundError:
                return None

        pages: dict[str, bytes] = {}
        lost: list[str] = []
        for name, found in _together(fetch, [*places]):
            keys = [entry.key for entry in places[name]]
            if found is None:
                self._drop([name])
                lost += keys
            else:
                pages |= zip(keys, found, strict=True)
        return pages, lost

    def _pages_of(self, name: str, entries: Sequence[Entry]) -> list[bytes]:
        """Return pages of one pack; no request if the pack is cached, else usually one."""
        with self._lock:
            pack, data = self._catalog.packs.get(name), self._recent.get(name)
            whole = False
            if pack is not None:
                whole = pack.size <= (READ_AGAIN if pack.was_read else READ_WHOLE)
                pack.was_read = True
        if data is None and whole:
            data = self._objects.get(self._named(name))
            self._keep(name, data)
        if data is not None:
            return [data[entry.start : entry.start + entry.length] for entry in entries]
        ranges = [(entry.start, entry.length) for entry in entries if entry.length]
        found = iter(self._objects.get_ranges(self._named(name), ranges) if ranges else ())
        return [next(found) if entry.length else b"" for entry in entries]

    def _keep(self, name: str, data: bytes) -> None:
        """Cache a pack in memory, and drop the least recently used ones."""
        with self._lock:
            if len(data) <= READ_AGAIN and name in self._catalog.packs:
                self._recent.put(name, data)

    def _drop(self, names: Iterable[str]) -> None:
        """Drop packs and lists whose objects were removed."""
        with self._lock:
            for name in names:
                self._catalog.remove(name)
                self._added.pop(name, None)
                self._recent.pop(name)

    def _look_for(self, keys: Sequence[str], *, patient: bool) -> None:
        """Load what others have written, until these pages are known or everything is loaded.

        With ``patient``, list again until listings must be complete.
        """
        if self._cache is not None:
            self._load_cache()
            if self._knows(keys):
                return
        if self._loaded and len(self._catalog.packs) > _COMPLETE_LISTING:
            self._load(complete=False)
            if self._knows(keys):
                return
        until = time.monotonic() + self._list_delay
        while True:
            self._load(complete=True)
            if not patient or self._knows(keys) or time.monotonic() >= until:
                return
            time.sleep(min(_PAUSE, self._list_delay))

    def _knows(self, keys: Iterable[str]) -> bool:
        return not self.without(keys)

    def _load(self, *, complete: bool) -> None:
        """List all objects, or those written since the last listing, and add them."""
        with self._loading:
            for _ in range(_TURNS):
                if self._try_load("" if complete or not self._loaded else self._listed_until):
                    break

    def _try_load(self, after: str) -> bool:
        """List and add objects; return False if one was removed meanwhile: then list again.

        A pack may be removed because another, which the listing does not have, replaced its pages.
        """
        with self._lock:
            known = self._catalog.names()
        began = _stamp(-_SKEW)
        sizes = dict(self._objects.names(self._path, after))
        with self._lock:
            new = [name for name in sizes if not self._catalog.knows(name)]
        lists = [name for name in new if name.endswith(LIST)]
        for name, data in _together(self._read_list, lists):
            if data is None:
                return False
            with self._lock:
                self._catalog.add_list(name, *data, lambda n: n in sizes or n in known)
        with self._lock:
            new = [n for n in new if n.endswith(PACK) and not self._catalog.knows(n)]
        lost = False
        for name, found in _together(lambda name: self._read_index(name, sizes[name]), new):
            if found is None:
                lost |= name not in self._damaged
            else:
                with self._lock:
                    self._catalog.add(name, sizes[name], found[0])
                if len(found[1]) == sizes[name]:
                    self._keep(name, found[1])
        if not after:
            self._drop(known - sizes.keys() - self._may_be_unlisted())
        with self._lock:
            if not after:
                self._damaged = {n: why for n, why in self._damaged.items() if n in sizes}
            self._catalog.apply_deletions()
            # If many processes wrote a few packs each, the process that finds them writes a list.
            others = self._catalog.unlisted() - MOST_UNLISTED
        self._since_list = max(self._since_list, LIST_EVERY + others)
        self._loaded, self._listed_until = True, began
        return not lost

    def _may_be_unlisted(self) -> set[str]:
        """Return recent packs of this process that a late listing may not contain."""
        oldest = time.monotonic() - self._list_delay
        with self._lock:
            self._added = {name: at for name, at in self._added.items() if at > oldest}
            return set(self._added)

    def _read_list(self, name: str) -> tuple[list[Listed], dict[str, list[int]]] | None:
        """Return the content of a list; None if it was removed, empty if it is damaged."""
        try:
            return decode_list(self._objects.get(self._named(name)))
        except FileNotFoundError:
            return None
        except StoreDamaged as error:
            _log.warning("%s: list %s/%s: %s", self._objects.url, self._path, name, error)
            return [], {}  # the packs have the same information

    def _read_index(
        self, name: str, size: int, length: int = _END_BYTES
    ) -> tuple[PackIndex, bytes] | None:
        """Return the index of a pack and the bytes that were read; None if removed or damaged."""
        start = max(0, size - length)  # Azure has no suffix ranges
        try:
            (end,) = self._objects.get_ranges(self._named(name), [(start, size - start)])
            return decode_index(end, size), end
        except NeedsMore as more:
            return self._read_index(name, size, more.length)
        except FileNotFoundError:
            return None
        except StoreDamaged as error:
            self._damaged[name] = str(error)
            return None

    def _load_cache(self) -> None:
        """Add the packs that other processes on this machine have written."""
        assert self._cache is not None
        since, self._shelved_until = self._shelved_until, _stamp(-_SKEW)
        for name, size, end in self._cache.indexes(self._path, since):
            with self._lock, suppress(StoreDamaged, NeedsMore):
                if not self._catalog.knows(name):
                    self._catalog.add(name, size, decode_index(end, size))
        with self._lock:
            self._catalog.apply_deletions()

    # --- writing --------------------------------------------------------------------------------

    def _put(self, pages: Mapping[str, bytes], replaced: Sequence[Pack] = ()) -> None:
        """Write a pack, with pending deletions and the deletions that replaced packs record."""
        with self._lock:
            pending = self._catalog.take_pending()
            says = {**self._catalog.said_by(replaced), **pending}
        name, data = f"{_stamp()}-{uuid4().hex[:12]}{PACK}", encode_pack(pages, says)
        try:
            self._objects.put(self._named(name), data)
        except BaseException:
            with self._lock:
                self._catalog.restore_pending(pending)
            self._leftover.append(name)  # the object may exist nevertheless
            raise
        with self._lock:
            self._catalog.add(name, len(data), PackIndex(entries_of(pages), says))
            self._added[name] = time.monotonic()
        self._keep(name, data)
        self._since_list += 1
        if self._cache is not None:
            end = data[len(HEAD) + sum(map(len, pages.values())) :]
            self._cache.put_index(self._path, name, len(data), end)

    def _keep_up(self) -> None:
        """Remove unneeded objects and write a list when there are enough; retry after a failure."""
        try:
            with self._lock:
                removable = self._removable()
            if len(removable) >= REMOVE_AT:
                self._remove(removable)
            if self._since_list >= LIST_EVERY:
                self._write_list()
                self._clean()
        except WindowStoreError as error:
            _log.warning("unneeded objects remain for now: %s", error)

    def _removable(self) -> list[str]:
        return [*self._leftover, *self._catalog.removable()]

    def _clean(self) -> None:
        """Remove unneeded objects until there are none."""
        while True:
            with self._lock:
                names = self._removable() + self._catalog.empty_lists()
            if not names:
                return
            self._remove(names)

    def _remove(self, names: Sequence[str]) -> None:
        if not names:
            return
        self._objects.delete([self._named(name) for name in names])
        self._leftover = [name for name in self._leftover if name not in set(names)]
        self._drop(names)
        if self._cache is not None:
            self._cache.drop_indexes(self._path, names)

    def _write_list(self, *, whole: bool = False) -> None:
        """Write a list; one request. Lists that it replaces are removed later."""
        with self._lock:
            packs, says, replaced = self._catalog.next_list(whole=whole)
        name = f"{_stamp()}-{uuid4().hex[:12]}{LIST}"
        self._objects.put(self._named(name), encode_list(packs, says))
        with self._lock:
            self._catalog.add_list(name, packs, says, lambda _: False)
        self._leftover += replaced
        self._since_list = 0

    def _rewrite(self, group: Sequence[Pack]) -> None:
        """Copy the live pages of packs into a new pack, then remove the old packs."""
        with self._lock:
            places = {pack.name: list(pack.live()) for pack in group}
        pages, _ = self._fetch(places)
        self._put(pages, group)
        self._remove([pack.name for pack in group])

    def _named(self, name: str) -> str:
        return f"{self._path}/{name}"


def _stamp(milliseconds: int = 0) -> str:
    """Return the time now, plus ``milliseconds``, as the start of a name."""
    return f"{time.time_ns() // 1_000_000 + milliseconds:011x}"


def _together(call: Callable[[_T], _R], items: Sequence[_T]) -> list[tuple[_T, _R]]:
    """Return each item with the result of the call; the requests run in parallel."""
    if len(items) < 2:
        return [(item, call(item)) for item in items]
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        return list(zip(items, pool.map(call, items), strict=True))
