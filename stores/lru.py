"""A cache that drops the least recently used entries once it is larger than its capacity.

The size of an entry is that of its value, plus a constant for what Python takes for each entry. The
cache is not thread-safe: its users hold a lock of their own around several calls.

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
from collections.abc import Hashable, Sized
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=Sized)


class LRU(Generic[Key, Value]):
    """A bounded cache of values that have a length; every call takes constant time on average.

    Args:
        capacity: The largest size, in bytes; a larger value is not cached at all.
        entry_bytes: The size of an entry in addition to the length of its value.
    """

    __slots__ = ("_entries", "_entry_bytes", "capacity", "size")

    def __init__(self, capacity: int, entry_bytes: int = 0) -> None:
        self.capacity, self._entry_bytes = capacity, entry_bytes
        #: The bytes of all entries.
        self.size = 0
        self._entries: OrderedDict[Key, Value] = OrderedDict()  # the least recently used first

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """Return the value and mark it as used now; None if it is not cached."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: Key, value: Value) -> None:
        """Add or replace a value, which is the most recently used one; drop what exceeds."""
        self.pop(key)
        size = len(value) + self._entry_bytes
        if size > self.capacity:
            return
        self._entries[key] = value
        self.size += size
        while self.size > self.capacity:
            self.pop(next(iter(self._entries)))

    def pop(self, key: Key) -> Value | None:
        """Remove and return a value; None if it is not cached."""
        value = self._entries.pop(key, None)
        if value is not None:
            self.size -= len(value) + self._entry_bytes
        return value

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.size = 0
