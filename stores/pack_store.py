"""A page store on top of an object store: the pages of one flush go into one object.

The cost of a request does not depend on its size, and a request takes 20 to 100 ms. So pages are
combined into packs (``packs``), and pages of a pack are read by ranges. ``pack_folder`` describes
the objects, and ``docs/object-stores.md`` the number of requests.

A delete is visible to this process immediately, and to other processes after the next put to the
same folder or after ``flush``.

Thread safety: any number of threads. A forked child starts with a listing.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .base import (
    Capabilities,
    PageStore,
    RecordPut,
    T,
    check_keys,
    check_pages,
    holds,
    in_batches,
    start_over_in_children,
)
from .disk_cache import DiskCache
from .errors import WindowStoreError
from .pack_folder import PACK_BYTES, ObjectClient, PackFolder

PACK_CACHE = 16 << 20
"""The default for the bytes of packs in memory."""

#: How many requests for records are made together.
_REQUESTS = 8
_log = logging.getLogger(__name__)
A = TypeVar("A")
_FOLDER = re.compile(r"[^/:]{0,100}")


class PackStore(PageStore):
    """Pages in packs.

    ``list_delay`` is how many seconds a listing may lag behind. ``pack_cache`` is how many bytes of
    packs are cached in memory for each folder in use.
    """

    capabilities = Capabilities(
        durable=True,
        shared=True,
        max_key_bytes=1024,
        max_page_bytes=PACK_BYTES,
        remote=True,
        waits_for_flush=True,
        overwrites=False,
    )

    def __init__(
        self,
        objects: ObjectClient,
        *,
        list_delay: float = 0.0,
        cache: DiskCache | None = None,
        pack_cache: int = PACK_CACHE,
    ) -> None:
        self.url = objects.url
        self._objects, self._cache = objects, cache
        self._how = list_delay, cache, pack_cache
        self.start_over()
        start_over_in_children(self)

    def start_over(self) -> None:
        self._lock = threading.Lock()
        self._folders: dict[str, PackFolder] = {}

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages in the order of the keys; about one request per pack that has some."""
        self._check_open()
        check_keys(keys, self.capabilities)
        wanted = list(dict.fromkeys(keys))
        found: dict[str, bytes | None] = {}
        if self._cache is not None:
            pages = zip(wanted, self._cache.get_many(wanted), strict=True)
            found = {key: page for key, page in pages if page is not None}
            wanted = [key for key in wanted if key not in found]
        fetched: dict[str, bytes] = {}
        for folder, group in self._by_folder(wanted):
            fetched |= folder.get(group)
        self._keep(fetched)
        return [found[key] if key in found else fetched.get(key) for key in keys]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Store the pages; one request for each folder and 64 MiB."""
        self._check_open()
        check_pages(pages, self.capabilities)
        for folder, group in self._by_folder(pages):
            for part in in_batches(group, lambda key: len(pages[key]), PACK_BYTES):
                folder.put({key: pages[key] for key in part})
        self._keep(pages)

    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove the pages; no request, unless some are unknown to this process."""
        self._check_open()
        keys = list(dict.fromkeys(keys))
        check_keys(keys, self.capabilities)
        for folder, group in self._by_folder(keys):
            folder.delete(group)
        if self._cache is not None:
            self._cache.delete_many(keys)

    def get_records(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the records, which are separate objects; one request for each."""
        self._check_open()
        check_keys(keys, self.capabilities)
        found = self._each(lambda key: self._objects.get_tagged(_record(key)), list(keys))
        return [None if record is None else record[0] for record in found]

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        """Put each record as an object; a request for each, and one for each expected record."""
        self._check_open()
        check_pages({put.key: put.data for put in puts}, self.capabilities)
        return self._each(self._put_record, puts)

    def _put_record(self, put: RecordPut) -> bool:
        others = {key: wish for key, wish in put.expected.items() if key != put.key}
        name, wish = _record(put.key), put.expected.get(put.key)
        if wish is None:
            self._objects.put(name, put.data)
        elif wish is False:
            if not self._objects.put_tagged(name, put.data, None):
                return False
        else:
            found = self._objects.get_tagged(name)
            if found is None or not holds(found[0], wish):
                return False
            if not self._objects.put_tagged(name, put.data, found[1]):
                return False
        records = self.get_records([*others])
        return all(map(holds, records, others.values()))

    def delete_records(self, keys: Iterable[str]) -> None:
        """Remove the records; one request for each thousand."""
        self._check_open()
        names = [_record(key) for key in keys]
        if names:
            self._objects.delete(names)

    @staticmethod
    def _each(call: Callable[[A], T], items: Sequence[A]) -> list[T]:
        """Return what a call returns for each item; several wait for the object store together."""
        if len(items) < 2:
            return [call(item) for item in items]
        with ThreadPoolExecutor(min(len(items), _REQUESTS)) as pool:
            return list(pool.map(call, items))

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every stored key that starts with ``prefix``; lists the folders that may match."""
        self._check_open()
        start = folder_of(prefix)
        names = [start]
        if start == prefix and len(start) < 100:  # the prefix may be the start of a folder's name
            names = sorted({*map(_unescaped, self._objects.folders()), *self._folders})
        return (
            key
            for name in names
            if name.startswith(start)
            for key in self._folder(name).keys(prefix)
        )

    def discard(self, keys: Sequence[str]) -> None:
        """Drop these pages from the cache on disk."""
        if self._cache is not None:
            self._cache.delete_many(keys)

    def compact(self) -> None:
        """Rewrite small packs and those with deleted pages, and clear the cache on disk."""
        self._check_open()
        for name in map(_unescaped, self._objects.folders()):
            self._folder(name).compact()
        if self._cache is not None:
            self._cache.clear()

    def flush(self) -> None:
        """Make all deletes visible to other processes; one request per folder with deletes."""
        self._check_open()
        for folder in list(self._folders.values()):
            folder.flush()

    def close(self) -> None:
        """Flush, and remove unneeded objects, which stay if that fails.

        Only deletes can be lost, because pages are stored when ``put_many`` returns.
        """
        if self._closed:
            return
        try:
            for folder in list(self._folders.values()):
                folder.close()
        except WindowStoreError as error:
            _log.warning("some deleted pages may stay until mta gc is run: %s", error)
        self._closed = True
        if self._cache is not None:
            self._cache.close()

    def _keep(self, pages: Mapping[str, bytes]) -> None:
        """Cache pages, except pages that another thread has deleted meanwhile."""
        if self._cache is None or not pages:
            return
        self._cache.put_many(pages)
        deleted = [k for folder, group in self._by_folder(pages) for k in folder.without(group)]
        if deleted:
            self._cache.delete_many(deleted)

    def _by_folder(self, keys: Iterable[str]) -> Iterator[tuple[PackFolder, list[str]]]:
        groups: dict[str, list[str]] = {}
        for key in keys:
            groups.setdefault(folder_of(key), []).append(key)
        return ((self._folder(name), group) for name, group in groups.items())

    def _folder(self, name: str) -> PackFolder:
        with self._lock:
            if name not in self._folders:
                self._folders[name] = PackFolder(self._objects, _escaped(name), *self._how)
            return self._folders[name]


def folder_of(key: str) -> str:
    """Return the folder of a key: the part before ``/`` or ``:``. Pages of a folder share packs.

    The pages of all windows of a query share a folder, because their keys start with its name.

    >>> folder_of("query.0a1b2c3d/0/17/ff"), folder_of("query.0a1b2c3d:5e6f/0/1/ff")
    ('query.0a1b2c3d', 'query.0a1b2c3d')
    """
    found = _FOLDER.match(key)
    assert found is not None
    return found[0]


def _record(key: str) -> str:
    """Return the name of the object of a record.

    >>> _record("service:cards/head/0")
    'records/service~3acards/head/0'
    """
    return "records/" + re.sub(r"[^A-Za-z0-9_./-]", lambda found: f"~{ord(found[0]):02x}", key)


def _escaped(folder: str) -> str:
    """Return the name of a folder in the bucket; special characters become ``~`` and two digits.

    >>> _escaped("a b"), _escaped("..")
    ('f-a~20b', 'f-..')
    """
    return "f-" + re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"~{ord(found[0]):02x}", folder)


def _unescaped(name: str) -> str:
    """Return the folder that has this name in the bucket.

    >>> _unescaped("f-a~20b")
    'a b'
    """
    return re.sub(r"~([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), name.removeprefix("f-"))
