"""Pages in a folder on a local disk, in LMDB: ``file:///folder?map_size=1TiB``.

Many processes of one machine can read and write at the same time. A write is one LMDB transaction
that is synced before it returns. The first put creates the folder; all other calls create nothing,
and find no pages where there is no store. ``docs/operations.md`` describes what survives, the
limits, and the rights that users need.

Other programs may write to a shared folder too, and create a link under a name that this program
is about to write; with its rights, it would then write to the target of the link. So files beside
the pages are written by ``replace_file`` and ``open_no_link``, which do not follow links.

Thread safety: any number of threads. There is one write transaction at a time on the machine; reads
never wait for it.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice, takewhile
from typing import Any
from uuid import uuid4

import lmdb

from .address import Option, StoreAddress, size
from .base import (
    Capabilities,
    PageStore,
    RecordPut,
    T,
    at_fork,
    check_keys,
    check_pages,
    holds,
    in_batches,
)
from .errors import (
    InvalidStoreURL,
    StoreAccessDenied,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    WindowStoreError,
)
from .lmdb_file import missing_pages

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

OPTIONS: dict[str, Option] = {"map_size": size}

MAP_SIZE = 1 << 40
"""The default maximum size of a folder, in address space; it reserves no memory or disk space."""

_FOLDER_MODE, _FILE_MODE = 0o770, 0o660  # minus the umask
_DATA, _ORIGIN, _DRAFT = "data.mdb", "ORIGIN", "draft"
_SCAN, _COPIED = 1024, 1 << 24
_NO_KEY = b"\xff"  # keys are ASCII
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # LMDB reports a short write as EIO
_DAMAGED = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
)
_MAX_READERS = 2048  # 64 bytes each in the lock file; one for each thread that is reading
_SMALLEST_MAP = 1 << 30
_log = logging.getLogger(__name__)


class LocalDiskStore(PageStore):
    """Pages in LMDB. The folder is opened on first use, and again in a forked child."""

    capabilities = Capabilities(
        durable=True, shared=False, max_key_bytes=511, max_page_bytes=1 << 30
    )

    def __init__(
        self, folder: str | os.PathLike[str], *, map_size: int = MAP_SIZE, sync: bool = True
    ) -> None:
        """Create the store. With ``sync=False``, a power failure may damage all pages."""
        self.folder = os.path.realpath(folder)
        self.url = f"file://{self.folder}"
        self._map_size, self._sync = map_size, sync
        self._environment: Environment | None = None
        self._release: Callable[[], Any] = lambda: None

    @property
    def origin(self) -> str:
        """Return the host that created the folder; no store call."""
        try:
            with open(os.path.join(self.folder, _ORIGIN), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return socket.gethostname()  # not created yet: this host will create it
        except OSError:
            return ""  # this user may not read it

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages in the order of the keys, in one read transaction."""
        check_keys(keys, self.capabilities)
        names = [key.encode() for key in keys]
        return self._run(lambda transaction: [transaction.get(name) for name in names])

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        """Return what ``see`` returns for views of the map, in one read transaction; no copies."""
        check_keys(keys, self.capabilities)
        names = [key.encode() for key in keys]

        def read(transaction: Any) -> T:
            views = [transaction.get(name) for name in names]
            found = see(views)
            for view in views:
                if view is not None:
                    view.release()  # raises an error if ``see`` kept the view
            return found

        return self._run(read, buffers=True)

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Store the pages in one synced write transaction: all of them, or none after an error."""
        check_pages(pages, self.capabilities)
        # In the order of the tree, each step touches the same few inner nodes.
        items = sorted((key.encode(), page) for key, page in pages.items())

        def put(transaction: Any) -> None:
            transaction.cursor().putmulti(items)

        if not items:
            self._check_open()
            return
        try:
            self._run(put, write=True)
        except StoreFull:
            # Space that a transaction frees is usable from the second transaction after it.
            self._run(_change_nothing, write=True)
            self._run(put, write=True)

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        """Put the records in one synced write transaction."""
        check_pages({put.key: put.data for put in puts}, self.capabilities)

        def put_all(transaction: Any) -> list[bool]:
            done = []
            for put in puts:
                expected = put.expected.items()
                done.append(all(holds(transaction.get(key.encode()), e) for key, e in expected))
                if done[-1]:
                    transaction.put(put.key.encode(), put.data)
            return done

        return self._run(put_all, write=True)

    def delete_many(self, keys: Iterable[str]) -> None:
        """Remove the pages in one synced write transaction: all of them, or none after an error."""
        keys = list(keys)
        check_keys(keys, self.capabilities)
        names = sorted(key.encode() for key in keys)

        def delete(transaction: Any) -> None:
            for name in names:
                transaction.delete(name)

        self._run(delete, write=True, create=False) if names else self._check_open()

    def keys(self, prefix: str = "") -> Iterator[str]:
        """Yield every stored key that starts with ``prefix``, sorted.

        Uses one short read transaction per thousand keys, so that a slow reader does not prevent
        the reuse of freed pages.
        """
        start = prefix.encode()
        names = self._run(partial(_names, start=start, prefix=start))
        while names:
            yield from (name.decode() for name in names)
            after = names[-1] + b"\0"
            names = self._run(partial(_names, start=after, prefix=start))

    def compact(self) -> None:
        """Write the pages to a new file and replace the old one, which held deleted pages too.

        LMDB reuses the space of deleted pages, but does not overwrite it before. Reads and writes
        every page. Raises StoreUnavailable if another process has the folder open: it would
        continue to use the old file.
        """
        self._run(_change_nothing, write=True)
        environment = self._environment
        assert environment is not None
        with _opening, environment.writing, environment.reading:
            _discard(environment)  # its users open the new file
            try:
                with _locked_alone(self.folder):
                    _rewrite(self.folder, self._map_size)
            except (lmdb.Error, OSError) as error:
                raise _named(self.url, error) from error

    def ping(self, *, write: bool = False) -> None:
        """Ping as the base class does. A missing store is an error, or can be created (``write``).

        Raises InvalidStoreURL where there is no store, or none can be.
        """
        self._check_open()
        try:
            if self._exists():
                super().ping(write=write)
            elif write:
                _try_to_create(self.folder)
            else:
                raise InvalidStoreURL(f"there is no store here: {self.url}; correct the path")
        except WindowStoreError:
            raise
        except OSError as error:
            raise _named(self.url, error) from error

    def explain_missing(self) -> str:
        """Return whether there is no store at all; no store call."""
        with suppress(OSError):
            if not self._exists():
                return "there is no store at this path: correct it"
        return ""

    def _exists(self) -> bool:
        """Return whether there is a store. Raises OSError."""
        try:
            return os.stat(os.path.join(self.folder, _DATA)).st_size > 0
        except FileNotFoundError:
            return False

    def close(self) -> None:
        self._closed = True
        with _opening:
            self._environment = None
            self._release()

    def _run(
        self,
        operation: Callable[[Any], T],
        write: bool = False,
        buffers: bool = False,
        create: bool | None = None,
    ) -> T:
        """Run the operation in a transaction; LMDB's errors become this project's errors.

        Without ``create``, by default for reads, an operation on a missing store finds no pages.
        """
        while True:
            environment = self._environment
            if environment is None or environment.closed:
                environment = self._open(write if create is None else create)
                if environment is None:
                    return operation(_NO_PAGES)
            lock = environment.writing if write else environment.reading
            try:
                with lock, environment.database.begin(write=write, buffers=buffers) as transaction:
                    return operation(transaction)
            except lmdb.MapResizedError:
                with environment.writing, environment.reading:
                    # Another process has made the map larger.
                    environment.database.set_mapsize(0)
            except lmdb.Error as error:
                if environment.closed and not self._closed:
                    continue  # another thread closed it after an I/O error: open it again
                if isinstance(error, lmdb.PanicError):
                    _discard(environment)
                self._check_open()
                raise _named(self.url, error) from error

    def _open(self, create: bool) -> Environment | None:
        with _opening:
            self._check_open()
            if self._environment is not None and not self._environment.closed:
                return self._environment
            try:
                if not create and not self._exists():
                    return None
                environment = _acquire(self.folder, self._map_size, self._sync)
            except WindowStoreError:
                raise
            except (lmdb.Error, OSError) as error:
                raise _named(self.url, error) from error
            self._release()
            # A store that is dropped without close() releases the environment too.
            finalizer = weakref.finalize(self, _release, environment)
            self._release = finalizer
            finalizer.atexit = False  # pages may still be written then
            self._environment = environment
            return environment

    def __reduce__(self) -> tuple[Callable[..., LocalDiskStore], tuple[str]]:
        return partial(LocalDiskStore, map_size=self._map_size, sync=self._sync), (self.folder,)


def from_address(address: StoreAddress) -> LocalDiskStore:
    """Return the store at the address. Raises ``InvalidStoreURL`` for a relative path."""
    options = address.parsed(OPTIONS)
    if address.host not in {"", "localhost"} or address.user or not address.path.startswith("/"):
        raise InvalidStoreURL("file:// takes an absolute path with three slashes: file:///folder")
    if options.get("map_size", MAP_SIZE) < 1 << 20:
        raise InvalidStoreURL(f"{address.public}: map_size must be at least 1MiB")
    return LocalDiskStore(address.path, **options)


class _NoPages:
    """A transaction and its cursor in a folder without a store."""

    def get(self, name: bytes) -> None:
        return None

    def delete(self, name: bytes) -> bool:
        return False

    def cursor(self) -> _NoPages:
        return self

    def set_range(self, start: bytes) -> bool:
        return False


_NO_PAGES = _NoPages()


def _names(transaction: Any, start: bytes, prefix: bytes) -> list[bytes]:
    cursor = transaction.cursor()
    if not cursor.set_range(start):
        return []
    names = islice(cursor.iternext(values=False), _SCAN)
    return list(takewhile(lambda name: name.startswith(prefix), names))


def _change_nothing(transaction: Any) -> None:
    transaction.put(_NO_KEY, b"")
    transaction.delete(_NO_KEY)


def _way_to(folder: str) -> tuple[str, list[str]]:
    """Return the lowest existing folder on the path to this one, and the missing ones below it."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return folder, missing


def _make_folder(folder: str) -> list[str]:
    """Create the folder and record the host in it; return the folders that got a new entry."""
    _, missing = _way_to(folder)
    os.makedirs(folder, _FOLDER_MODE, exist_ok=True)
    origin = os.path.join(folder, _ORIGIN)
    if not os.path.exists(origin):
        replace_file(origin, f"{socket.gethostname()}\n", _FILE_MODE)
    return [os.path.dirname(made) for made in missing]


def _try_to_create(folder: str) -> None:
    """Raise OSError if the folder, or files in it, cannot be created; leave nothing behind."""
    above, _ = _way_to(folder)
    if not os.path.isdir(above):
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", above)
    # Rights alone do not tell: root has all of them, and the kernel still refuses some folders.
    os.rmdir(tempfile.mkdtemp(prefix=".mta-", dir=above))


def sync_folder(folder: str) -> None:
    """Wait until the disk has the names in a folder, such as those of renamed files."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows cannot open folders, and syncs their entries itself
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _named(url: str, error: Exception) -> WindowStoreError:
    number = error.errno if isinstance(error, OSError) else None
    numbers = {number} if number else {n for n in _DENIED | _FULL if os.strerror(n) in str(error)}
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(
            f"{url} is full: delete pages, or open it in every process with a larger map_size "
            "(file:///folder?map_size=...)"
        )
    if isinstance(error, lmdb.DiskError) or numbers & _FULL:
        return StoreFull(f"the disk of {url} is full or failing ({error}): make room, then retry")
    if _is_denied(error):
        return StoreAccessDenied(
            f"{url} refuses access to this user ({error}): grant rights on the folder and its "
            "files; reading needs read access to data.mdb, writing needs write access to all files"
        )
    if isinstance(error, BlockingIOError):
        return StoreUnavailable(
            f"{url} is open in another process, so its file cannot be rewritten without what is "
            "left of deleted pages: stop that process, then run mta gc --compact"
        )
    if isinstance(error, NotADirectoryError | FileExistsError | FileNotFoundError):
        return InvalidStoreURL(f"{url} is not a folder ({error}): choose another path")
    if isinstance(error, _DAMAGED):
        return StoreDamaged(
            f"{url} is damaged ({error}): restore a copy, or start with an empty folder"
        )
    if isinstance(error, lmdb.MemoryError):
        return StoreFull(  # waiting does not help
            f"{url}: no address space for the map ({error}): raise the limit (ulimit -v), or open "
            "the folder with a smaller map_size"
        )
    return StoreUnavailable(f"{url} cannot be used now ({error}): check the disk, then retry")


def _is_denied(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno:
        return error.errno in _DENIED
    texts = (os.strerror(number) for number in _DENIED)
    return isinstance(error, lmdb.ReadonlyError) or any(text in str(error) for text in texts)


class Environment:
    """An open LMDB environment and its locks, shared by all stores on its folder.

    LMDB's file locks belong to the process, so a folder must not be opened twice in one process,
    and an environment must not be used across a fork. Invariants:

    1. ``_environments`` has one entry per data file that this process has open. The key is the
       file's device and inode, so a folder that was deleted and created again has another entry.
    2. A thread holds ``reading`` or ``writing`` during every LMDB call. A fork acquires all of
       these locks first, so it waits for running calls. The child finds idle environments, which it
       closes (LMDB leaves the parent's locks and readers alone) and opens again on first use.
    3. No read transaction is open after its call: an idle reader would prevent the reuse of freed
       pages.
    """

    def __init__(self, database: Any, key: tuple[int, int]) -> None:
        self.database, self.key = database, key
        self.users = 0
        self.closed = False
        self.reading = threading.Lock()
        self.writing = threading.Lock()


_environments: dict[tuple[int, int], Environment] = {}
_opening = threading.RLock()  # guards them; re-entrant, as a finalizer may run while it is locked


def _acquire(folder: str, map_size: int, sync: bool) -> Environment:
    """Return the environment of the folder; the caller releases it once."""
    with _opening:
        data = os.path.join(folder, _DATA)
        environment = _environments.get(_identity(data)) if os.path.exists(data) else None
        if environment is None:
            database = _open_lmdb(folder, map_size, sync)
            _require_whole(folder, database)
            environment = Environment(database, _identity(data))
            _environments[environment.key] = environment
        environment.users += 1
    return environment


def _discard(environment: Environment) -> None:
    """Close the environment after an I/O error; its users open it again."""
    with _opening:
        if not environment.closed:
            environment.closed = True
            _environments.pop(environment.key, None)
            environment.database.close()


def _release(environment: Environment) -> None:
    """Release an environment; the last user closes it."""
    with _opening:
        environment.users -= 1
        if environment.users == 0:
            _discard(environment)


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _require_whole(folder: str, database: Any) -> None:
    """Close the environment and raise StoreDamaged if its file was truncated."""
    missing = missing_pages(os.path.join(folder, _DATA), database)
    if missing:
        database.close()
        raise StoreDamaged(
            f"file://{folder} is damaged: the end of data.mdb is missing ({missing} pages or more "
            "of LMDB), because it was truncated or copied incompletely: restore a copy, or start "
            "with an empty folder"
        )


def _open_lmdb(folder: str, map_size: int, sync: bool) -> Any:
    """Create the folder and open LMDB's environment; read-only without write access."""
    try:
        parents = _make_folder(folder)
        options = {"max_readers": _MAX_READERS, "mode": _FILE_MODE, "sync": sync}
        database = _map_file(folder, map_size, **options)
        database.reader_check()  # frees the slots of killed processes
        # LMDB syncs its file, but not the folders above it.
        for parent in [folder, *parents]:
            sync_folder(parent)
    except (lmdb.Error, OSError) as error:
        if not _is_denied(error) or not os.path.exists(os.path.join(folder, _DATA)):
            raise
        database = _open_to_read(folder, map_size)
    return database


def _open_to_read(folder: str, map_size: int) -> Any:
    """Open LMDB's environment in a folder without write access, if it is readable."""
    try:
        return _map_file(folder, map_size, readonly=True, max_readers=_MAX_READERS)
    except lmdb.Error as error:
        if not _is_denied(error):
            raise
    # A reader registers in the lock file, which this user may not write either.
    database = _map_file(folder, map_size, readonly=True, lock=False)
    _log.warning(
        "file://%s is opened read-only, without locks: no process may write to it meanwhile", folder
    )
    return database


def _map_file(folder: str, map_size: int, **options: Any) -> Any:
    while True:
        try:
            # Pages are read in random order, so the system should not read ahead.
            return lmdb.open(folder, map_size=map_size, readahead=False, **options)
        except lmdb.MemoryError:
            # The map is address space, not memory, yet a limit on it (ulimit -v) counts it.
            if map_size // 2 < _SMALLEST_MAP:
                raise
            map_size //= 2


@contextmanager
def _locked_alone(folder: str) -> Iterator[None]:
    """Lock a closed folder as LMDB does while it opens one, so that no process can open it.

    Raises BlockingIOError if another process has it open.
    """
    if fcntl is None:
        yield  # Windows does not replace a file that another process has open
        return
    with open(os.path.join(folder, "lock.mdb"), "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        yield


def _rewrite(folder: str, map_size: int) -> None:
    """Replace the file of a locked folder by one with the same pages and nothing else."""
    draft, data = os.path.join(folder, _DRAFT), os.path.join(folder, _DATA)
    shutil.rmtree(draft, ignore_errors=True)
    os.mkdir(draft, 0o700)
    old = _map_file(folder, map_size, readonly=True, lock=False)
    new = _map_file(draft, map_size, lock=False, mode=_FILE_MODE)
    try:
        with old.begin(buffers=True) as source:
            for batch in in_batches(source.cursor(), lambda item: len(item[1]), _COPIED, _SCAN):
                with new.begin(write=True) as target:
                    target.cursor().putmulti(batch, append=True)
    finally:
        old.close()
        new.close()
    shutil.copystat(data, os.path.join(draft, _DATA))
    os.replace(os.path.join(draft, _DATA), data)
    sync_folder(folder)
    shutil.rmtree(draft, ignore_errors=True)


def _before_fork() -> None:
    _opening.acquire()
    for environment in _environments.values():
        environment.writing.acquire()
        environment.reading.acquire()


def _after_fork_in_parent() -> None:
    for environment in _environments.values():
        environment.reading.release()
        environment.writing.release()
    _opening.release()


def _after_fork_in_child() -> None:
    global _opening
    _opening = threading.RLock()
    for environment in list(_environments.values()):
        _discard(environment)


at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)


def open_no_link(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file like ``os.open``; raises OSError if the path is a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), mode)


def replace_file(path: str | os.PathLike[str], text: str, mode: int = 0o666) -> None:
    """Write a file atomically and sync it to disk; it has this mode minus the umask."""
    draft = f"{os.fspath(path)}.{uuid4().hex}"
    descriptor = open_no_link(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
