"""A Bloom filter of the values in the window.

A Bloom filter is a set of bits; each value sets a few of them, and the union of two filters is
their bitwise or. A lookup finds every value that was added. It also finds, in error, some values
that were not: the probability grows with the number of distinct values and reaches the requested
error at the requested capacity.

For a capacity n and an error rate p, the filter has m = -n ln p / (ln 2)^2 bits, and each value
sets k = (m / n) ln 2 of them: 1.2 bytes per value at an error of 1%. The k positions are h1 + i h2
modulo m, where h1 and h2 are the halves of the value's xxh3_128 digest, which is the same in every
process. They are as good as k independent digests (Kirsch and Mitzenmacher 2006). Values that are
equal as Python numbers (1, 1.0, True) are the same value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import xxhash

from mta.columns import codec
from mta.errors import InvalidValue
from mta.monoids.base import Partial
from mta.monoids.summary import SummaryMonoid

#: Magic, k, m; then the words, little-endian. Bit b of word w is position 64 w + b.
_HEADER = struct.Struct("<6sHQ")
_MAGIC = b"bloom1"
_MAX_BITS, _MAX_HASHES = 1 << 33, 64
_WORD = np.dtype("<u8")


class Members(bytes):
    """The values that were in a window: the result of ``BloomFilter``, a subclass of bytes.

    Args:
        data: The bytes of a ``BloomFilter`` result, for example from a binary column of Spark.
            Other bytes raise InvalidValue.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import BloomFilter, Members
    >>> found = Window(BloomFilter(1000), CountWindow(2), name="seen").extend(["a", "b", "c"])[-1]
    >>> Members(bytes(found)).might_contain("b")
    True
    """

    __slots__ = ()

    def __new__(cls, data: bytes) -> Self:
        head, size = bytes(data[: _HEADER.size]), len(data) - _HEADER.size
        if size < 0 or not head.startswith(_MAGIC):
            raise InvalidValue("these bytes are not a Bloom filter: the header differs")
        _, hashes, bits = _HEADER.unpack(head)
        if not 0 < hashes <= _MAX_HASHES or bits % 64 or not 0 < bits == 8 * size:
            raise InvalidValue(f"these {len(data)} bytes are not a Bloom filter of {bits} bits")
        return super().__new__(cls, data)

    def might_contain(self, value: Any) -> bool:
        """True for every value in the filter; False for others, except for the error rate."""
        _, hashes, bits = _HEADER.unpack_from(self)
        return all(
            self[_HEADER.size + (place >> 3)] >> (place & 7) & 1
            for place in _places(value, hashes, bits)
        )

    @property
    def distinct(self) -> float:
        """The approximate number of distinct values; inf if all bits are set."""
        _, hashes, bits = _HEADER.unpack_from(self)
        free = 1 - self._set / bits
        return -bits / hashes * math.log(free) if free else math.inf

    @property
    def error(self) -> float:
        """The probability that a lookup finds a value that was not added."""
        _, hashes, bits = _HEADER.unpack_from(self)
        return float((self._set / bits) ** hashes)

    @property
    def _set(self) -> int:
        return int.from_bytes(self[_HEADER.size :], "little").bit_count()

    def __repr__(self) -> str:
        return f"<Members: about {self.distinct:.0f} values in {len(self)} bytes>"


class BloomFilter(SummaryMonoid[Members]):
    """The approximate set of values in the window (Bloom filter), as ``Members``.

    Values are numbers, text, bytes and tuples of these. A partial takes 1.2 bytes per value of the
    capacity at an error of 1%, however few values it holds.

    Args:
        capacity: The number of distinct values up to which ``error`` holds.
        error: The probability that a lookup finds a value that is not in the window.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import BloomFilter
    >>> seen = Window(BloomFilter(1000), CountWindow(2), name="seen").extend(["a", "b", "c"])[-1]
    >>> seen.might_contain("c"), seen.might_contain("a")
    (True, False)
    """

    never_null = True

    def __init__(self, capacity: int, error: float = 0.01) -> None:
        if capacity < 1 or not 0 < error < 1:
            raise ValueError(
                f"a Bloom filter has a capacity of at least 1 and an error between 0 and 1, not "
                f"{capacity!r} and {error!r}"
            )
        bits = math.ceil(-capacity * math.log(error) / math.log(2) ** 2)
        self.bits = max(64, -(-bits // 64) * 64)
        self.hashes = min(_MAX_HASHES, max(1, round(self.bits / capacity * math.log(2))))
        if self.bits > _MAX_BITS:
            raise ValueError(f"a Bloom filter of {self.bits} bits is too large: lower the capacity")
        super().__init__(
            f"BloomFilter(bits={self.bits}, hashes={self.hashes})",
            row_bytes=self.bits // 8,
            empty=self.answer(self.new()),
            result_type="binary",
        )

    def new(self) -> np.ndarray:
        return np.zeros(self.bits // 64, _WORD)

    def is_summary(self, partial: Partial) -> bool:
        return isinstance(partial, np.ndarray)

    def add(self, summary: np.ndarray, values: Sequence[Any]) -> None:
        bits, hashes = self.bits, self.hashes
        places = np.array(
            [place for value in values for place in _places(value, hashes, bits)], np.uint64
        )
        np.bitwise_or.at(summary, places >> np.uint64(6), np.uint64(1) << (places & np.uint64(63)))

    def merge(self, summary: np.ndarray, other: np.ndarray) -> np.ndarray:
        summary |= other
        return summary

    def answer(self, summary: np.ndarray) -> Members:
        return Members(_HEADER.pack(_MAGIC, self.hashes, self.bits) + summary.tobytes())

    def agree(self, one: np.ndarray, other: np.ndarray) -> bool:
        return np.array_equal(one, other)

    def to_bytes(self, summary: np.ndarray) -> bytes:
        return summary.tobytes()

    def from_bytes(self, data: bytes) -> np.ndarray:
        words = np.frombuffer(data, _WORD)
        if 64 * len(words) != self.bits:
            raise ValueError(f"{64 * len(words)} bits instead of {self.bits}")
        return words


def _places(value: Any, hashes: int, bits: int) -> list[int]:
    """Return the positions of the bits that a value sets. Raises NotPageable for other types."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, float)) and value % 1 == 0:
        value = int(value)
    digest = xxhash.xxh3_128_intdigest(codec.pack(value))
    place, step = digest & (1 << 64) - 1, digest >> 64 | 1
    return [(place + i * step) % bits for i in range(hashes)]
