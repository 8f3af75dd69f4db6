"""A cache that drops the least recently used entries once it is larger than its capacity.

The size of an entry is what ``weigh`` returns for its value, plus a constant for what Python takes
for each entry. Without ``weigh``, the size of the cache is the number of its entries. The cache is
not thread-safe, except for ``peek``: its users hold a lock of their own around several calls, or
take a ``SharedLRU``.

    >>> cache = LRU[str, bytes](capacity=10, entry_bytes=1)
    >>> cache.put("a", b"1234")
    >>> cache.put("b", b"5678")
    >>> cache.get("a"), cache.size
    (b'1234', 10)
    >>> cache.put("c", b"90")  # drops "b", which was used before "a"
    >>> "b" in cache, "a" in cache, cache.size
    (False, True, 8)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, Self, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LRU(Generic[Key, Value]):
    """A bounded cache; every call takes constant time on average.

    Args:
        capacity: The largest size; a larger value is not cached at all.
        entry_bytes: The size of an entry in addition to that of its value.
        weigh: Returns the size of a value; None if all entries have the size ``entry_bytes``.
    """

    __slots__ = ("_entries", "_entry_bytes", "_weigh", "capacity", "size")

    def __init__(
        self, capacity: int, entry_bytes: int = 0, weigh: Callable[[Any], int] | None = len
    ) -> None:
        self.capacity, self._entry_bytes, self._weigh = capacity, entry_bytes, weigh
        #: The size of all entries.
        self.size = 0
        #: Values and their sizes, the least recently used first.
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    @classmethod
    def of(cls, most: int) -> Self:
        """Return a cache of at most so many entries."""
        return cls(most, 1, None)

    def __copy__(self) -> Self:
        other = type(self)(self.capacity, self._entry_bytes, self._weigh)
        other.size, other._entries = self.size, self._entries.copy()
        return other

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> list[Value]:
        """Return the values, the least recently used first."""
        return [value for value, _ in self._entries.values()]

    def peek(self, key: Key) -> Value | None:
        """Return the value, whose order does not change; None if it is not cached."""
        found = self._entries.get(key)
        return None if found is None else found[0]

    def get(self, key: Key) -> Value | None:
        """Return the value and mark it as used now; None if it is not cached."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value) -> None:
        """Add or replace a value, which is the most recently used one; drop what exceeds."""
        entries, size = self._entries, self._entry_bytes
        if self._weigh is not None:
            size += self._weigh(value)
        if key in entries:
            self.size -= entries.pop(key)[1]
        if size > self.capacity:
            return
        entries[key] = value, size
        self.size += size
        if self.size > self.capacity:
            self.shrink(self.capacity)

    def pop(self, key: Key) -> Value | None:
        """Remove and return a value; None if it is not cached."""
        if key not in self._entries:
            return None
        value, size = self._entries.pop(key)
        self.size -= size
        return value

    def shrink(self, size: int) -> None:
        """Drop the least recently used entries until the cache is not larger than a size."""
        while self.size > size:
            self.size -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.size = 0


class SharedLRU(LRU[Key, Value]):
    """A cache of which any number of threads may call ``peek``, ``get`` and ``put``."""

    __slots__ = ("_lock",)

    def __init__(self, *size: Any) -> None:
        super().__init__(*size)
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        """Return the value and mark it as used now; None if it is not cached."""
        with self._lock:
            return super().get(key)

    def put(self, key: Key, value: Value) -> None:
        """Add or replace a value, which is the most recently used one; drop what exceeds."""
        with self._lock:
            super().put(key, value)
