"""Keys in paths and in JSON.

A key of one column is written as its value. A key of several columns is an array of its parts in
JSON, in the order of the columns; in a path, its parts are separated by commas. Within a part, a
comma is ``%2C`` and a slash is ``%2F``.

    type                       JSON                          path
    "int", "float", "bool"     number, true, false, or text  7    1.5    true
    "text"                     text                          meter-7    meter%2F7
    "bytes"                    base64url                     AAE=
    "date", "time"             ISO 8601                      2026-01-31    12:30:00
    "datetime"                 ISO 8601 without a zone       2026-01-31T12:30:00
    "datetime with zone"       ISO 8601 with a zone          2026-01-31T12:30:00Z
    "duration"                 seconds, as text              1.5
    "decimal"                  its digits, as text           12.50
    "uuid"                     text                          123e4567-e89b-12d3-a456-426614174000
    "tuple" of any parts       array of what JSON has        north,7    north,"7"

>>> keys = KeyForm([("plant", "text"), ("meter", "int")])
>>> keys.of_path("north%2C%20old,7"), keys.of_json(["north", 7])
(('north, old', 7), ('north', 7))
>>> keys.to_json(("north", 7))
['north', 7]
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from reprlib import Repr
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes
from uuid import UUID

import orjson

from mta.errors import UnsuitableKey
from mta.keyed.key_types import MAX_KEY_BYTES, ZONED

_MICRO = timedelta(microseconds=1)
_SECONDS = re.compile(r"(?P<sign>-?)(?P<whole>[0-9]{1,14})(\.(?P<fraction>[0-9]{1,6})0*)?")
#: The type of keys while there are no keys, and of the parts of tuples.
ANY = ""
_short = Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 2, 60, 60


class _Type(NamedTuple):
    """How keys of a type are written in paths and in JSON."""

    read: Callable[[str], Any]
    """Returns the value of a text in a path. Raises ValueError."""
    write: Callable[[Any], Any]
    """Returns the JSON value of a key."""
    json: tuple[type, ...] = ()
    """The types that JSON may use instead of the text of a path."""
    example: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the types in OpenAPI."""
        found: dict[str, Any] = {"type": [*(_NAMES[each] for each in self.json[:1]), "string"]}
        return found | ({"format": "date"} if self.read == date.fromisoformat else {})


def shown(value: Any) -> str:
    """Return the beginning of a value that JSON has, however deep and long it is."""
    return _short.repr(value)[:100]


def _whole(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise ValueError
    return int(text)


def _finite(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise ValueError
    return found


def _decimal(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite() or abs(found.adjusted()) > MAX_KEY_BYTES:
        raise ValueError  # written as digits, 1e999999 is a million times as long
    return found


def _moment(zoned: bool) -> Callable[[str], datetime]:
    def read(text: str) -> datetime:
        found = datetime.fromisoformat(text)
        if (found.utcoffset() is not None) != zoned:
            raise ValueError
        return found

    return read


def _seconds(text: str) -> timedelta:
    found = _SECONDS.fullmatch(text)
    if found is None:
        raise ValueError
    micros = int(found["whole"]) * 1_000_000 + int((found["fraction"] or "").ljust(6, "0"))
    return (-micros if found["sign"] else micros) * _MICRO


def _digits(length: timedelta) -> str:
    return f"{Decimal(length // _MICRO) / 1_000_000:f}"


def _any(text: str) -> Any:
    """Return a number, true, false or quoted text as JSON reads it; other text as it is."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return found if isinstance(found, (str, int, float)) else text


def _bytes(text: str) -> bytes:
    return b64decode(text, b"-_", validate=True)


_TYPES: dict[str, _Type] = {
    "int": _Type(_whole, int, (int,), "7"),
    "float": _Type(_finite, float, (float, int), "1.5"),
    "bool": _Type(lambda text: {"true": True, "false": False}[text], bool, (bool,), "true"),
    "text": _Type(str, str, example="meter-7"),
    "bytes": _Type(_bytes, lambda raw: urlsafe_b64encode(raw).decode(), example="AAE="),
    "date": _Type(date.fromisoformat, date.isoformat, example="2026-01-31"),
    "time": _Type(time.fromisoformat, time.isoformat, example="12:30:00"),
    "datetime": _Type(_moment(False), datetime.isoformat, example="2026-01-31T12:30:00"),
    ZONED: _Type(_moment(True), datetime.isoformat, example="2026-01-31T12:30:00Z"),
    "duration": _Type(_seconds, _digits, example="1.5"),
    "decimal": _Type(_decimal, lambda value: f"{value:f}", example="12.50"),
    ANY: _Type(_any, lambda value: value, (str, int, float, bool), "meter-7"),
    "uuid": _Type(UUID, str, example="123e4567-e89b-12d3-a456-426614174000"),
}
#: The types of Spark's columns, by Spark's names.
_SPARK = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "int"),
    "double": "float", "boolean": "bool", "string": "text", "binary": "bytes",
    "timestamp_ntz": "datetime", "timestamp": ZONED,
}  # fmt: skip
_NAMES: dict[type, str] = {int: "integer", float: "number", bool: "boolean"}


def _type_of(kind: str) -> _Type:
    """Return the type of a column; an unknown type becomes text, which the reader refuses."""
    kind = kind.partition("(")[0]
    return _TYPES.get(_SPARK.get(kind, kind), _TYPES["text"])


class KeyForm:
    """How the keys of some windows are written.

    ``columns`` are the names and types of the key columns, empty for windows without keys. Keys of
    the type "tuple" have any number of parts, of any types that JSON has.
    """

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self.columns = tuple(columns)
        kinds = [kind for _, kind in columns]
        #: Whether a key is an array.
        self.is_array = len(kinds) > 1 or kinds == ["tuple"]
        self._types = None if kinds == ["tuple"] else list(map(_type_of, kinds))

    @property
    def is_open(self) -> bool:
        """Return whether the type of the keys is unknown because there are no keys yet."""
        return self.columns != () and self.columns[0][1] == ANY

    def of_path(self, raw: str) -> Any:
        """Return the key in the last, still quoted part of a path. Raises UnsuitableKey."""
        if not self.columns:
            raise UnsuitableKey("these windows have no keys: request /v1/windows")
        try:
            texts = raw.split(",") if self.is_array else [raw]
            parts = [unquote_to_bytes(text).decode() for text in texts]
        except UnicodeDecodeError:
            raise UnsuitableKey("the key is not UTF-8: encode it as UTF-8, with %XX") from None
        key = tuple(self._read(*each) for each in self._numbered(parts))
        return key if self.is_array else key[0]

    def of_json(self, value: Any) -> Any:
        """Return the key for a JSON value. Raises UnsuitableKey."""
        if not self.is_array:
            return self._part(0, self._type(0), value)
        if not isinstance(value, list):
            raise UnsuitableKey(f"a key is an array of {self.described}, not {shown(value)}")
        return tuple(self._part(*each) for each in self._numbered(value))

    def to_json(self, key: Any) -> Any:
        if not self.columns:
            return None
        if self.is_array:
            return [self._type(at).write(part) for at, part in enumerate(key)]
        return self._type(0).write(key)

    def schema(self) -> dict[str, Any]:
        if not self.columns:
            return {"type": "null"}
        if self._types is None:
            return {"type": "array", "minItems": 1, "description": self.described}
        parts = [
            {"title": name} | ({} if kind is _TYPES[ANY] else kind.schema)
            for (name, _), kind in zip(self.columns, self._types, strict=True)
        ]
        if not self.is_array:
            return parts[0]
        size = len(parts)
        return {"type": "array", "prefixItems": parts, "minItems": size, "maxItems": size,
                "description": f"one for each of {self.described}"}  # fmt: skip

    @property
    def example(self) -> str:
        return "north,7" if self._types is None else ",".join(each.example for each in self._types)

    @property
    def described(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self.columns)

    def _type(self, at: int) -> _Type:
        return _TYPES[ANY] if self._types is None else self._types[at]

    def _numbered(self, parts: Sequence[Any]) -> list[tuple[int, _Type, Any]]:
        if self._types is not None and len(parts) != len(self._types):
            raise UnsuitableKey(
                f"a key has {len(self.columns)} parts, {self.described}, not {len(parts)}"
            )
        return [(at, self._type(at), part) for at, part in enumerate(parts)]

    def _part(self, at: int, kind: _Type, value: Any) -> Any:
        if type(value) is str and kind is not _TYPES[ANY]:
            return self._read(at, kind, value)
        if type(value) not in kind.json:
            raise self._odd(at, kind, value)
        return value

    def _read(self, at: int, kind: _Type, text: str) -> Any:
        if len(text) > MAX_KEY_BYTES:
            raise UnsuitableKey(f"a key has more than {MAX_KEY_BYTES} characters")
        try:
            return kind.read(text)
        except (ValueError, ArithmeticError, LookupError):
            raise self._odd(at, kind, text) from None

    def _odd(self, at: int, kind: _Type, value: Any) -> UnsuitableKey:
        name, type_ = self.columns[0 if self._types is None else at]
        return UnsuitableKey(
            f"{shown(value)} is not a valid {name}, which has the type {type_}: write it like "
            f"{kind.example}"
        )
