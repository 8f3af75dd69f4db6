"""Which bucket Spark puts a key into: ``pmod(xxhash64(columns), buckets)``, computed without Spark.

Spark hashes column after column, each with the hash so far as its seed and 42 as the first one: a
whole number of up to 32 bits as 4 bytes, a longer one as 8, text and binary by their bytes, all in
little-endian order. Dates count days, times microseconds, decimals of up to 18 digits the units of
their last place; longer ones are the bytes of that number, big-endian. A zero has no sign.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import msgpack
import xxhash

from spark_integration.errors import InvalidRequest

_SEED = 42
_INT, _LONG = struct.Struct("<i").pack, struct.Struct("<q").pack
_FLOAT, _DOUBLE = struct.Struct("<f").pack, struct.Struct("<d").pack
Bytes = Callable[[Any], bytes]
_ALL_DIGITS = Context(prec=80)

#: How values are hashed, as they stand in a key (``columns.plain``), by the types of their columns.
_BYTES: dict[str, Bytes] = {
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int", "date"), _INT),
    **dict.fromkeys(("bigint", "timestamp", "timestamp_ntz"), _LONG),
    "float": lambda value: _FLOAT(_usual(value)),
    "double": lambda value: _DOUBLE(_usual(value)),
    "string": str.encode,
    "binary": bytes,
}
_TYPE = re.compile(rf".* (?:({'|'.join(_BYTES)})|decimal\((\d+),(\d+)\))", re.DOTALL)


def hasher_of(keys: Sequence[str]) -> Callable[[bytes], int]:
    """The hash of a packed key, for columns as "name type". Raises InvalidRequest for a type."""
    parts = list(map(_bytes_of, keys))

    def hashed(key: bytes) -> int:
        found = _SEED
        for value, to_bytes in zip(msgpack.unpackb(key), parts, strict=True):
            found = xxhash.xxh64_intdigest(to_bytes(value), found)
        return found - (1 << 64) if found >> 63 else found

    return hashed


def _bytes_of(column: str) -> Bytes:
    match = _TYPE.fullmatch(column)
    if match is None:
        raise InvalidRequest(
            f"buckets: how Spark hashes the key column {column!r} is not known here, so the number "
            "of buckets stays; the store may be changed"
        )
    kind, digits, places = match.groups()
    return _BYTES[kind] if kind else _decimals(int(digits), int(places))


def _decimals(digits: int, places: int) -> Bytes:
    def to_bytes(value: str) -> bytes:
        unscaled = int(Decimal(value).scaleb(places, _ALL_DIGITS))
        if digits <= 18:
            return _LONG(unscaled)
        # As Java's BigInteger: the fewest bytes that hold it with a sign.
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return unscaled.to_bytes(size, "big", signed=True)

    return to_bytes


def _usual(value: float) -> float:
    """Without the sign of zero, and with the one NaN that Java writes."""
    return float("nan") if value != value else value + 0.0
