"""The keys of a Spark query: how they are packed, and which bucket holds each key, without Spark.

A key is in the bucket ``pmod(xxhash64(columns), buckets)``.

Spark hashes one column after the other. The seed of the first column is 42, and the seed of each
other column is the hash so far. An integer of up to 32 bits is hashed as 4 bytes, a longer integer
as 8 bytes, both little-endian. Text and binary are hashed by their bytes. Dates count days, and
times count microseconds. Decimals of up to 18 digits count units of their last place; longer
decimals are the big-endian bytes of that count. Zeros have no sign.

A key of a query is packed as the msgpack array of the values of its columns. Dates are days since
1970, times are microseconds since 1970, and decimals are text with all their places.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import msgpack
import numpy as np
import xxhash

from mta.errors import UnsuitableKey
from mta.times import to_time

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


def packer_of(keys: Sequence[tuple[str, str]]) -> Callable[[Any], bytes]:
    """What packs a key of columns as name and type: a value, or a tuple of several.

    What it returns raises UnsuitableKey for a value of another type.
    """
    kinds = [(name, kind.partition("(")[0], kind) for name, kind in keys]

    def packed(key: Any) -> bytes:
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(kinds):
            raise UnsuitableKey(
                f"the key {key!r:.60} has {len(values)} parts: give a value for each of "
                f"{', '.join(name for name, _, _ in kinds)}, several as a tuple"
            )
        parts = [_plain(value, *column) for value, column in zip(values, kinds, strict=True)]
        found: bytes = msgpack.packb(parts)
        return found

    return packed


def _plain(value: Any, name: str, kind: str, full: str) -> Any:
    """A value as it stands in a packed key."""
    value = value.item() if isinstance(value, np.generic) else value
    read = _READ.get(kind)
    if read is None:
        raise UnsuitableKey(f"keys of the type {full} (column {name!r}) cannot be asked for")
    try:
        return read(value, full)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise UnsuitableKey(
            f"the key column {name!r} is of type {full}, so {value!r:.60} is no key: give "
            f"{_EXPECTED[kind]}"
        ) from error


def _of(*types: type) -> Callable[[Any, str], Any]:
    def read(value: Any, kind: str) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return read


def _whole(value: Any, kind: str) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise TypeError
    return value


def _number(value: Any, kind: str) -> float:
    if isinstance(value, bool) or value != value:
        raise TypeError
    return (float(np.float32(value)) if kind == "float" else float(value)) + 0.0


def _day(value: Any, kind: str) -> int:
    if type(value) is not date:
        raise TypeError
    return (value - date(1970, 1, 1)).days


def _moment(value: Any, kind: str) -> int:
    return to_time(_of(datetime)(value, kind))


def _decimal(value: Any, kind: str) -> str:
    places = int(kind.rstrip(")").rpartition(",")[2])
    if type(value) not in (Decimal, int):
        raise TypeError
    return str(Decimal(value).quantize(Decimal(1).scaleb(-places), context=_ALL_DIGITS))


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
#: How values are read, by the types of their columns, and what may be given.
_READ: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(_INTEGERS, _whole),
    **dict.fromkeys(("float", "double"), _number),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), _moment),
    "boolean": _of(bool),
    "date": _day,
    "decimal": _decimal,
    "string": _of(str),
    "binary": _of(bytes),
}
_EXPECTED = {
    **dict.fromkeys(_INTEGERS, "a whole number"),
    **dict.fromkeys(("float", "double"), "a number"),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "a datetime"),
    "boolean": "True or False",
    "date": "a date",
    "decimal": "a Decimal",
    "string": "text",
    "binary": "bytes",
}


def bucket_of(keys: Sequence[tuple[str, str]], buckets: int) -> Callable[[bytes], int]:
    """The bucket of a packed key, for columns as name and type. Raises UnsuitableKey for a type."""
    hashed = hasher_of([f"{name} {kind}" for name, kind in keys])
    return lambda key: hashed(key) % buckets


def hasher_of(keys: Sequence[str]) -> Callable[[bytes], int]:
    """The hash of a packed key, for columns as "name type". Raises UnsuitableKey for a type."""
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
        raise UnsuitableKey(f"how Spark hashes the key column {column!r} is not known here")
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
