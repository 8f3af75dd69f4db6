"""Pages in a dictionary of this process: for tests and small windows, without a server.

Each ``memory://`` is a separate store. All parts of the process that open ``memory://name`` share
one store, which keeps its pages after ``close`` until the process ends.

Thread safety: every step on pages is one operation of a ``dict``, which is atomic. Only the puts of
records have a lock. A forked child has a copy of the pages, and another lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from .address import Option, StoreAddress
from .base import Capabilities, PageStore, RecordPut, at_fork, check_keys, check_pages, holds
from .errors import InvalidStoreURL

OPTIONS: dict[str, Option] = {}

_named: dict[str, dict[str, bytes]] = {}
_recording = threading.Lock()


def _after_fork_in_child() -> None:
    global _recording
    _recording = threading.Lock()


at_fork(after_in_child=_after_fork_in_child)


class MemoryStore(PageStore):
    """Pages in memory, which are gone when the process ends.

    Args:
        name: Stores with the same name share their pages; a store without a name has its own pages.

    >>> from stores import MemoryStore
    >>> MemoryStore("shared").put_many({"window/0/1": b"a page"})
    >>> MemoryStore("shared").get_many(["window/0/1"])
    [b'a page']
    """

    capabilities = Capabilities(
        durable=False, shared=False, max_key_bytes=1024, max_page_bytes=1 << 30
    )

    def __init__(self, name: str = "") -> None:
        self.url = f"memory://{name}"
        self._name = name
        self._pages: dict[str, bytes] = _named.setdefault(name, {}) if name else {}

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        self._check_open()
        check_keys(keys, self.capabilities)
        pages = self._pages
        return [pages.get(key) for key in keys]

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        self._check_open()
        check_pages(pages, self.capabilities)
        self._pages.update(pages)

    def put_records(self, puts: Sequence[RecordPut]) -> list[bool]:
        self._check_open()
        check_pages({put.key: put.data for put in puts}, self.capabilities)
        done = []
        with _recording:
            for put in puts:
                pages = self._pages
                done.append(all(holds(pages.get(key), e) for key, e in put.expected.items()))
                if done[-1]:
                    pages[put.key] = put.data
        return done

    def delete_many(self, keys: Iterable[str]) -> None:
        self._check_open()
        keys = list(keys)
        check_keys(keys, self.capabilities)
        for key in keys:
            self._pages.pop(key, None)

    def keys(self, prefix: str = "") -> Iterator[str]:
        self._check_open()
        return (key for key in list(self._pages) if key.startswith(prefix))

    def explain_missing(self) -> str:
        """Return that pages in memory are lost with their process; no store call."""
        return (
            "pages in memory:// are in the process that wrote them alone, and end with it: use "
            "file:///folder, redis:// or another store that other processes can read"
        )

    def close(self) -> None:
        """Release the pages, unless the store has a name; no store call."""
        self._closed = True
        self._pages = {}

    def __reduce__(self) -> tuple[Callable[[str], MemoryStore], tuple[str]]:
        if not self._name:
            raise InvalidStoreURL(
                "memory:// belongs to one process and cannot be sent to another: "
                "use file:///folder or redis://host, or memory://name inside one process"
            )
        return MemoryStore, (self._name,)


def from_address(address: StoreAddress) -> MemoryStore:
    """Return the store at the address. Raises ``InvalidStoreURL`` for more than a name."""
    if address.user or address.password or address.port is not None or address.path:
        raise InvalidStoreURL("memory:// takes at most a name: memory://name")
    return MemoryStore(address.host)
