"""Open the store at a URL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from .address import Option, one_of, parse, seconds, size
from .base import PageStore
from .compression import CompressedStore
from .errors import InvalidStoreURL, MissingDependency, pip_install
from .head_cache import HeadCache
from .memory import MemoryStore
from .write_buffer import WriteBuffer

#: A URL, the path of a folder on this machine, or an open store.
StoreLike = str | Path | PageStore

_MODULES = {
    "memory": "memory",
    "file": "local_disk",
    "redis": "redis",
    "rediss": "redis",
    "couchbase": "couchbase",
    "couchbases": "couchbase",
    "s3": "object_store",
    "gs": "object_store",
    "az": "object_store",
}
"""The module of each scheme, with ``OPTIONS`` and ``from_address``.

It is imported on first use, so that only users of a server need the server's library.
"""

_EXTRAS = {
    "redis": ("redis", "redis"),
    "couchbase": ("couchbase", "couchbase"),
    "object_store": ("obstore", "objects"),
}
"""The modules that need a library: the library's name, and the extra that installs it."""

_OPTIONS: dict[str, Option] = {
    "write_buffer": size,
    "cache": size,
    "deadline": seconds,
    "compression": one_of("none", "zstd"),
}


def open_store(
    url: StoreLike,
    *,
    write_buffer: int = 8 << 20,
    cache: int = 16 << 20,
    deadline: float = 30.0,
    compression: Literal["none", "zstd"] = "none",
) -> PageStore:
    """Return the store at a URL, behind a write buffer and, if it is remote, a cache.

    This does not connect: an unreachable store raises an error at the first call, or in
    ``ping_store``. Raises ``InvalidStoreURL`` and ``MissingDependency``.

    Args:
        url: ``memory://``, ``memory://name``, ``file:///folder``, ``redis://host:port/db`` or
            ``rediss://``, ``couchbase://user:password@host/bucket`` or ``couchbases://``,
            ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``. A ``Path``
            is a folder on local disk. An open store is returned unchanged. The URL can contain the
            other settings too (``?compression=zstd&deadline=10``), besides the store's own options;
            ``memory://`` has no settings.
        write_buffer: The size of the write buffer in bytes; 0 for no buffer.
        cache: The size in bytes of the cache for pages that are read ahead; 0 for no cache.
        deadline: How many seconds to retry calls while the store does not answer.
        compression: How to compress new pages. Every store reads compressed and other pages.

    >>> from stores import open_store
    >>> with open_store("memory://") as store:
    ...     store.put_many({"window/0/1": b"a page"})
    ...     store.get_many(["window/0/1", "window/0/2"])
    [b'a page', None]
    """
    if isinstance(url, PageStore):
        return url
    store, settings = _bare(url)
    if isinstance(store, MemoryStore):
        return store
    codec = settings.get("compression", compression)
    store = CompressedStore(store, None if codec == "none" else codec)
    cache = settings.get("cache", cache)
    write_buffer = settings.get("write_buffer", write_buffer)
    if cache and store.capabilities.remote:
        store = HeadCache(store, cache)
    if write_buffer:
        store = WriteBuffer(store, write_buffer, settings.get("deadline", deadline))
    return store


def ping_store(url: StoreLike, *, write: bool = False) -> None:
    """Return once the store at the URL has answered, within about two seconds; one store call.

    Changes no page. Raises the errors of ``open_store`` and ``PageStore.ping``, each of which says
    what to correct.

    Args:
        url: A URL or an open store, as for ``open_store``.
        write: Whether to verify also that pages can be written.

    >>> from stores import ping_store
    >>> ping_store("memory://", write=True)
    """
    if isinstance(url, PageStore):
        url.ping(write=write)
        return
    with closing(_bare(url)[0]) as store:
        store.ping(write=write)


def _bare(url: str | Path) -> tuple[PageStore, dict[str, Any]]:
    """Return the store itself without wrappers, and the values of the URL's options."""
    address = parse(url.absolute().as_uri() if isinstance(url, Path) else url)
    if address.scheme not in _MODULES:
        raise InvalidStoreURL(
            f"there is no store with the scheme {address.scheme}://; "
            f"the schemes are {', '.join(f'{scheme}://' for scheme in _MODULES)}"
        )
    module = _load(address.scheme)
    settings = address.parsed({**_OPTIONS, **module.OPTIONS})
    theirs = {name: text for name, text in address.options.items() if name not in _OPTIONS}
    from_address: Callable[..., PageStore] = module.from_address
    return from_address(dataclasses.replace(address, options=theirs)), settings


def installed_stores() -> list[str]:
    """Return the schemes whose libraries are installed; imports nothing, no store call.

    >>> from stores import installed_stores
    >>> installed_stores()[:2]
    ['memory', 'file']
    """
    return [name for name, of in _MODULES.items() if of not in _EXTRAS or find_spec(_EXTRAS[of][0])]


def _load(scheme: str) -> Any:
    module = _MODULES[scheme]
    try:
        return import_module(f".{module}", __package__)
    except ModuleNotFoundError as error:
        if module not in _EXTRAS or (error.name or "").startswith(f"{__package__}."):
            raise
        raise MissingDependency(
            f"{scheme}:// needs the library {error.name!r}: {pip_install(_EXTRAS[module][1])}"
        ) from error
