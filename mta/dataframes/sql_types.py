"""The types of results, which monoids name as SQL does (``AbstractMonoid.result_type``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Maker(NamedTuple):
    """How a library constructs types."""

    scalars: dict[str, Any]
    """The scalar types by name; the names are ``SCALARS``."""
    array: Callable[[Any], Any]
    struct: Callable[[dict[str, Any]], Any]


SCALARS = ("double", "bigint", "string", "binary", "timestamp", "interval day to second")


def is_known(text: str) -> bool:
    """Return whether a type consists of arrays, structs and known scalar types.

    >>> is_known("array<struct<item: string, estimate: bigint>>"), is_known("map<string, int>")
    (True, False)
    """
    if text.startswith("array<"):
        return is_known(text[6:-1])
    if text.startswith("struct<"):
        return all(is_known(kind) for _, kind in _fields(text))
    return text in SCALARS


def read_type(text: str, make: Maker) -> Any:
    """Return a library's type for the name of a type."""
    if text.startswith("array<"):
        return make.array(read_type(text[6:-1], make))
    if text.startswith("struct<"):
        return make.struct({name: read_type(kind, make) for name, kind in _fields(text)})
    return make.scalars[text]


def plain_value(value: Any, text: str) -> Any:
    """Return a result as lists, dictionaries and scalars.

    >>> plain_value([("a", 2)], "array<struct<item: string, estimate: bigint>>")
    [{'item': 'a', 'estimate': 2}]
    """
    if value is None:
        return None
    if text.startswith("array<"):
        return [plain_value(item, text[6:-1]) for item in value]
    if text.startswith("struct<"):
        pairs = zip(value, _fields(text), strict=True)
        return {name: plain_value(item, kind) for item, (name, kind) in pairs}
    return bytes(value) if text == "binary" else value


def _fields(text: str) -> list[tuple[str, str]]:
    """Return the names and types of the fields of a struct, none of which is a struct."""
    fields = (field.partition(": ") for field in text[7:-1].split(", "))
    return [(name, kind) for name, _, kind in fields]
