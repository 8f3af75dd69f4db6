"""The types of keys, and the bytes of a key of each type.

    kind                    Python type                    bytes
    "int"                   int                            8, little-endian, signed
    "bool"                  bool                           like "int": 0 or 1
    "float"                 float                          the bits of the double; -0.0 is 0.0
    "date"                  date                           like "int": days since 1970
    "datetime"              datetime without a zone        like "int": microseconds since 1970
    "datetime with zone"    datetime with a zone           like "int": microseconds since 1970, UTC
    "duration"              timedelta                      like "int": microseconds
    "time"                  time of day without a zone     like "int": microseconds since midnight
    "text"                  str                            UTF-8
    "bytes"                 bytes                          unchanged
    "decimal"               Decimal                        ASCII digits, such as "-12.5", without
                                                           zeros at the end of the fraction
    "uuid"                  UUID                           16
    "tuple"                 tuple of the other types       msgpack array

In a tuple, integers, booleans, floats, text and bytes have msgpack's own types. The other types are
extensions: ``EXTENSIONS`` has their codes, and their bodies are the bytes above.

Keys of different kinds are never equal, although True, 1 and 1.0 are equal in Python. All keys of
one set of windows are of the same kind. A NaN counts as null, and a null cannot be a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from struct import pack, unpack
from typing import Any, NamedTuple
from uuid import UUID

import msgpack
import numpy as np

from mta.columns.reading import is_missing, objects, plain
from mta.errors import CorruptPage, InvalidTime, UnsuitableKey
from mta.times import to_times

#: The maximum size of a key in bytes, so that several keys always fit into a page.
MAX_KEY_BYTES = 1024
ZONED = "datetime with zone"
_MICRO = timedelta(microseconds=1)
_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_INTS = np.iinfo("i8")
#: The range of Python's datetime, in microseconds.
_FIRST, _LAST = (moment.replace(tzinfo=None) - _EPOCH for moment in (datetime.min, datetime.max))
_RANGE = _FIRST // _MICRO, _LAST // _MICRO


class WholeType(NamedTuple):
    """A type whose keys are 64-bit integers."""

    dtype: str | None
    """The dtype of a column of keys with the same bits; None if the keys are objects."""
    pack: Callable[[Any], int]
    unpack: Callable[[int], Any]


class BytesType(NamedTuple):
    """A type whose keys are bytes of any length."""

    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


WHOLE: dict[str, WholeType] = {
    "int": WholeType("<i8", lambda n: n, lambda n: n),
    "bool": WholeType("?", int, bool),
    "float": WholeType(
        "<f8", lambda x: unpack("<q", pack("<d", x + 0.0))[0],
        lambda n: unpack("<d", pack("<q", n))[0],
    ),
    "date": WholeType(
        "<M8[D]", lambda day: (day - _EPOCH.date()).days, lambda n: _EPOCH.date() + timedelta(n)
    ),
    "datetime": WholeType(
        "<M8[us]", lambda moment: (moment - _EPOCH) // _MICRO, lambda n: _EPOCH + n * _MICRO
    ),
    ZONED: WholeType(
        None, lambda moment: (moment - _EPOCH_UTC) // _MICRO, lambda n: _EPOCH_UTC + n * _MICRO
    ),
    "duration": WholeType("<m8[us]", lambda length: length // _MICRO, lambda n: n * _MICRO),
    "time": WholeType(
        None, lambda clock: (datetime.combine(_EPOCH, clock) - _EPOCH) // _MICRO,
        lambda n: (_EPOCH + n * _MICRO).time(),
    ),
}  # fmt: skip


def _digits(value: Decimal) -> bytes:
    """Return the digits of a decimal; equal decimals have equal digits."""
    if not value.is_finite() or abs(value.adjusted()) > MAX_KEY_BYTES:
        raise ValueError
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return b"0" if value.is_zero() else text.encode()


BYTES: dict[str, BytesType] = {
    "text": BytesType(str.encode, bytes.decode),
    "bytes": BytesType(lambda raw: raw, lambda raw: raw),
    "decimal": BytesType(_digits, lambda raw: Decimal(raw.decode("ascii"))),
    "uuid": BytesType(lambda value: value.bytes, lambda raw: UUID(bytes=raw)),
    "tuple": BytesType(lambda value: _of_parts(value), lambda raw: _to_parts(raw)),
}
KINDS = (*WHOLE, *BYTES)
#: The kind of the keys of each type; datetimes with a zone are of another kind.
_KIND_OF: dict[type, str] = {
    int: "int", bool: "bool", float: "float", date: "date", datetime: "datetime",
    timedelta: "duration", time: "time", str: "text", bytes: "bytes", Decimal: "decimal",
    UUID: "uuid", tuple: "tuple",
}  # fmt: skip
_NATIVE = frozenset({"int", "bool", "float", "text", "bytes"})
#: The codes of types that msgpack does not have.
EXTENSIONS = {
    "date": 1, "datetime": 2, ZONED: 3, "duration": 4, "time": 5, "decimal": 6, "uuid": 7,
}  # fmt: skip
_EXTENDED = {code: kind for kind, code in EXTENSIONS.items()}
ALLOWED = (
    "keys are integers, text, bytes, booleans, floats, decimals, dates, datetimes, durations, "
    "times of day, UUIDs, or tuples of these"
)


def kind_of(value: Any) -> str | None:
    """Return the kind of a key that ``as_key`` returned; None if it is not a valid key."""
    kind = _KIND_OF.get(type(value))
    if type(value) is datetime and value.utcoffset() is not None:
        return ZONED
    if type(value) is time and value.tzinfo is not None:
        return None
    return kind


def as_key(value: Any) -> Any:
    """Convert numpy, pandas and Arrow scalars exactly. Raises UnsuitableKey for nanoseconds."""
    if type(value) in _KIND_OF and type(value) is not tuple:
        return value
    if type(value) is tuple:
        return tuple(map(as_key, value))
    if is_missing(value):
        return value
    if isinstance(value, (np.datetime64, np.timedelta64)):
        kind, whole = of_moments(np.array([value]))
        return WHOLE[kind].unpack(int(whole[0]))
    if hasattr(value, "to_pydatetime") or hasattr(value, "to_pytimedelta"):  # pandas
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0) % 1000:
            raise UnsuitableKey(f"the key {value} is finer than a microsecond; round it first")
        is_time = hasattr(value, "to_pydatetime")
        return value.to_pydatetime() if is_time else value.to_pytimedelta()
    return plain(value.as_py() if hasattr(value, "as_py") else value)


def of_moments(column: np.ndarray) -> tuple[str, np.ndarray]:
    """Convert an array of datetime64 or timedelta64 to kind and integers. Raises UnsuitableKey."""
    unit = np.datetime_data(column.dtype)[0]
    if np.isnat(column).any():
        raise null_key()
    if column.dtype.kind == "m":
        if unit in ("Y", "M", "generic"):
            raise UnsuitableKey(f"durations in units of {unit!r} have no length; convert them")
        micros = column.astype("m8[us]")
        if (micros.astype(column.dtype) != column).any():
            raise UnsuitableKey("some keys are finer than a microsecond, or too long; round them")
        return "duration", micros.view("i8")
    try:
        whole = to_times(column)
    except InvalidTime as error:
        raise UnsuitableKey(f"some keys are invalid datetimes: {error}") from None
    if len(whole) and not _RANGE[0] <= int(whole.min()) <= int(whole.max()) <= _RANGE[1]:
        raise UnsuitableKey("some keys are datetimes beyond the years 1 to 9999")
    return ("date", whole // _DAY) if unit in "YMWD" else ("datetime", whole)


def packed_keys(kind: str, values: Sequence[Any]) -> Any:
    """Convert values of one kind to an integer array or a list of bytes. Raises UnsuitableKey."""
    try:
        if kind in WHOLE:
            return np.array(list(map(WHOLE[kind].pack, values)), "<i8")
        return list(map(BYTES[kind].pack, values))
    except UnsuitableKey:
        raise
    except (ValueError, OverflowError, TypeError):
        raise _odd(kind, values) from None


def parts_of(kind: str, packed: Any) -> list[Any]:
    """Return keys of one kind as msgpack writes them inside a tuple. Raises UnsuitableKey."""
    if kind == "tuple":
        raise UnsuitableKey(f"a key that is a tuple cannot contain another tuple: {ALLOWED}")
    if kind not in _NATIVE:
        bodies = packed.view("V8").tolist() if kind in WHOLE else packed
        return [msgpack.ExtType(EXTENSIONS[kind], body) for body in bodies]
    if kind in WHOLE:
        listed: list[Any] = column_of(kind, packed).tolist()
        return listed
    return list(map(BYTES[kind].unpack, packed))


def unpacked(kind: str, packed: bytes) -> Any:
    """Convert a key's bytes to its public value. Raises CorruptPage for invalid bytes."""
    try:
        if kind in WHOLE:
            return WHOLE[kind].unpack(int.from_bytes(packed, "little", signed=True))
        return BYTES[kind].unpack(packed)
    except (ValueError, TypeError, ArithmeticError, msgpack.UnpackException) as error:
        raise CorruptPage(f"the bytes of a key are not a valid {kind}: {error!r}") from error


def text_of(key: Any) -> str:
    """Return a key as text; the parts of a tuple are separated by commas.

    >>> text_of(("north", 7)), text_of(b"meter")
    ('north, 7', 'meter')
    """
    if isinstance(key, bytes):
        return key.decode(errors="backslashreplace")
    return ", ".join(map(text_of, key)) if isinstance(key, tuple) else str(key)


def column_of(kind: str, whole: np.ndarray) -> np.ndarray:
    """Convert integers of a kind to public keys: an array of its dtype, or of objects."""
    dtype = WHOLE[kind].dtype
    if kind == "bool":
        return np.asarray(whole != 0)
    if dtype is not None:
        return np.array(whole.view(dtype))
    return objects([unpacked(kind, bits) for bits in whole.view("V8").tolist()])


def null_key() -> UnsuitableKey:
    """Return the error for a key that is null or NaN."""
    return UnsuitableKey("some keys are null: drop these rows, or give them a key")


def _of_parts(value: tuple[Any, ...]) -> bytes:
    parts: list[Any] = []
    for part in map(as_key, value):
        kind = kind_of(part)
        if is_missing(part):
            raise null_key()
        if kind is None or kind == "tuple":
            raise TypeError
        parts += parts_of(kind, packed_keys(kind, [part]))
    if not parts:
        raise ValueError
    packed: bytes = msgpack.packb(parts)
    return packed


def _to_parts(raw: bytes) -> tuple[Any, ...]:
    def restore(code: int, body: bytes) -> Any:
        if code not in _EXTENDED:
            raise ValueError(f"unknown extension {code}")
        return unpacked(_EXTENDED[code], bytes(body))

    return tuple(msgpack.unpackb(raw, ext_hook=restore))


def _odd(kind: str, values: Sequence[Any]) -> UnsuitableKey:
    """Return the error for the first value that cannot be packed."""
    one = WHOLE.get(kind) or BYTES[kind]
    for value in values:
        try:
            packed = one.pack(value)
        except (ValueError, OverflowError, TypeError):
            return UnsuitableKey(
                f"the key {value!r:.60} is invalid: text must be valid UTF-8, integers must fit 64 "
                "bits, decimals must be finite, and a tuple needs at least one part, and only "
                "parts that are valid keys and not tuples"
            )
        if isinstance(packed, int) and not _INTS.min <= packed <= _INTS.max:
            return UnsuitableKey(f"the key {value} does not fit 64 bits with a sign")
    return UnsuitableKey(ALLOWED)
