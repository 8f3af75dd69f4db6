"""The keys of a Spark query: their types, and which bucket holds each key, without Spark.

A key is in the bucket ``pmod(xxhash64(columns), buckets)``.

Spark hashes one column after the other. The seed of the first column is 42, and the seed of each
other column is the hash so far. An integer of up to 32 bits is hashed as 4 bytes, a longer integer
as 8 bytes, both little-endian. Text and binary are hashed by their bytes. Dates count days, and
times count microseconds. Decimals of up to 18 digits count units of their last place; longer
decimals are the big-endian bytes of that count. Zeros have no sign.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import xxhash

from mta.errors import UnsuitableKey
from mta.times import to_time

_SEED = 42
_INT, _LONG = struct.Struct("<i").pack, struct.Struct("<q").pack
_FLOAT, _DOUBLE = struct.Struct("<f").pack, struct.Struct("<d").pack
Bytes = Callable[[Any], bytes]
_ALL_DIGITS = Context(prec=80)

#: How the values of a key are hashed, by the types of their columns.
_BYTES: dict[str, Bytes] = {
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int"), _INT),
    "bigint": _LONG,
    "date": lambda day: _INT((day - date(1970, 1, 1)).days),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), lambda moment: _LONG(to_time(moment))),
    "float": _FLOAT,
    "double": _DOUBLE,
    "string": str.encode,
    "binary": bytes,
}
_TYPE = re.compile(rf".* (?:({'|'.join(_BYTES)})|decimal\((\d+),(\d+)\))", re.DOTALL)


def reader_of(keys: Sequence[tuple[str, str]]) -> Callable[[Any], Any]:
    """Return what converts a key to the types of its columns, given as name and type.

    A key is a value, or a tuple of several. The function raises UnsuitableKey for a value that is
    none of its column.
    """
    kinds = [(name, kind.partition("(")[0], kind) for name, kind in keys]

    def read(key: Any) -> Any:
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(kinds):
            raise UnsuitableKey(
                f"the key {key!r:.60} has {len(values)} parts: give a value for each of "
                f"{', '.join(name for name, _, _ in kinds)}, several as a tuple"
            )
        parts = tuple(_part(value, *column) for value, column in zip(values, kinds, strict=True))
        return parts if len(parts) > 1 else parts[0]

    return read


def _part(value: Any, name: str, kind: str, full: str) -> Any:
    """Return the value of a column in a key."""
    value = value.item() if isinstance(value, np.generic) else value
    if kind not in _READ:
        raise UnsuitableKey(f"keys of the type {full} (column {name!r}) cannot be asked for")
    read, expected = _READ[kind]
    try:
        return read(value, full)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise UnsuitableKey(
            f"the key column {name!r} is of type {full}, so {value!r:.60} is no key: give "
            f"{expected}"
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


def _moment(value: Any, kind: str) -> datetime:
    """Return a datetime in UTC; without a zone unless the column has one."""
    found: datetime = _of(datetime)(value, kind)
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    return found if kind == "timestamp" else found.replace(tzinfo=None)


def _decimal(value: Any, kind: str) -> Decimal:
    """Return a decimal of at most the places of its column."""
    places = int(kind.rstrip(")").rpartition(",")[2])
    if type(value) not in (Decimal, int):
        raise TypeError
    return Decimal(value).quantize(Decimal(1).scaleb(-places), context=_ALL_DIGITS)


#: How values are read, by the types of their columns, and what may be given.
_READ: dict[str, tuple[Callable[[Any, str], Any], str]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (_whole, "a whole number")),
    **dict.fromkeys(("float", "double"), (_number, "a number")),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), (_moment, "a datetime")),
    "boolean": (_of(bool), "True or False"),
    "date": (_of(date), "a date"),
    "decimal": (_decimal, "a Decimal"),
    "string": (_of(str), "text"),
    "binary": (_of(bytes), "bytes"),
}


def bucket_of(keys: Sequence[tuple[str, str]], buckets: int) -> Callable[[Any], int]:
    """Return what finds the bucket of a key, for columns as name and type. Raises UnsuitableKey."""
    hashed = hasher_of([f"{name} {kind}" for name, kind in keys])
    return lambda key: hashed(key) % buckets


def hasher_of(keys: Sequence[str]) -> Callable[[Any], int]:
    """Return the hash of a key, for columns as "name type". Raises UnsuitableKey for a type."""
    columns = list(map(_bytes_of, keys))

    def hashed(key: Any) -> int:
        found, parts = _SEED, key if isinstance(key, tuple) else (key,)
        for value, to_bytes in zip(parts, columns, strict=True):
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
    def to_bytes(value: Decimal) -> bytes:
        unscaled = int(value.scaleb(places, _ALL_DIGITS))
        if digits <= 18:
            return _LONG(unscaled)
        # As Java's BigInteger: the fewest bytes that hold it with a sign.
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return unscaled.to_bytes(size, "big", signed=True)

    return to_bytes
