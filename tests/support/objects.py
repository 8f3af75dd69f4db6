"""A bucket in memory, which counts requests, lists late and fails on demand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import md5

from stores.packs import decode_index


class MemoryObjects:
    """Objects by name. ``list_delay`` is how many seconds listings lag behind."""

    url = "s3://in-memory/tests"

    def __init__(self, *, list_delay: float = 0.0) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()
        #: Called before and after each request with its kind and names; may raise.
        self.before: Callable[[str, Sequence[str]], None] = lambda kind, names: None
        self.after: Callable[[str, Sequence[str]], None] = lambda kind, names: None
        self._list_delay = list_delay
        self._changed: dict[str, tuple[float, int | None]] = {}  # when, and the size before
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        self._begin("PUT", [name])
        with self._lock:
            self._note(name)
            self.objects[name] = bytes(data)
        self.after("PUT", [name])

    def get(self, name: str) -> bytes:
        self._begin("GET", [name])
        return self._data(name)

    def get_tagged(self, name: str) -> tuple[bytes, str] | None:
        self._begin("GET", [name])
        with self._lock:
            data = self.objects.get(name)
        return None if data is None else (data, md5(data).hexdigest())

    def put_tagged(self, name: str, data: bytes, tag: str | None) -> bool:
        self._begin("PUT", [name])
        with self._lock:
            before = self.objects.get(name)
            if (None if before is None else md5(before).hexdigest()) != tag:
                return False
            self._note(name)
            self.objects[name] = bytes(data)
        self.after("PUT", [name])
        return True

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self.get(name)
        return [data[start : start + length] for start, length in ranges]

    def delete(self, names: Sequence[str]) -> None:
        self._begin("DELETE", names)
        with self._lock:
            for name in names:
                self._note(name)
                self.objects.pop(name, None)
        self.after("DELETE", names)

    def names(self, folder: str, after: str) -> Iterator[tuple[str, int]]:
        self._begin("LIST", [folder])
        start = f"{folder}/"
        with self._lock:
            sizes = {name: len(data) for name, data in self.objects.items()}
            for name, (changed, size) in self._changed.items():
                if time.monotonic() < changed + self._list_delay:
                    if size is None:
                        sizes.pop(name, None)
                    else:
                        sizes[name] = size
        for name in sorted(sizes):
            if name.startswith(start) and name > start + after:
                yield name.removeprefix(start), sizes[name]

    def folders(self) -> list[str]:
        self._begin("LIST", [])
        with self._lock:
            return sorted({name.partition("/")[0] for name in self.objects})

    def page(self, key: str) -> bytes | None:
        """A page as it lies in one of the packs."""
        for name, data in self.objects.items():
            if name.endswith(".pack"):
                for entry in decode_index(data, len(data)).entries:
                    if entry.key == key:
                        return data[entry.start : entry.start + entry.length]
        return None

    def _data(self, name: str) -> bytes:
        with self._lock:
            if name not in self.objects:
                raise FileNotFoundError(name)
            return self.objects[name]

    def _note(self, name: str) -> None:
        size = len(self.objects[name]) if name in self.objects else None
        self._changed[name] = (time.monotonic(), size)

    def _begin(self, kind: str, names: Sequence[str]) -> None:
        with self._lock:
            self.requests[kind] += 1
        self.before(kind, names)
