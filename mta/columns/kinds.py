"""Types of columns as text, in snapshots and recipes, and back.

The text comes from a store, and may be anything. It is matched as a whole before numpy sees it:
numpy evaluates parts of a text that it does not recognize, and raises errors of any kind.

>>> schema_of_kind("Nullable(Array('<f8'))"), schema_of_kind("Digest(7)")
(Nullable(Array('<f8')), None)
>>> dtype_of("(,8")
Traceback (most recent call last):
ValueError: '(,8' is not the type of a column
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np

from mta.columns.schemas import (
    Array,
    Datetimes,
    Decimals,
    LongDecimals,
    Objects,
    Presence,
    Schema,
    Vector,
    nullable,
)

_DTYPE = re.compile(r"[<>|][biufmM]\d{1,2}(\[\d{0,9}[A-Za-z]{1,2}\])?")
#: The longest text that describes a column of one of the types here.
_LONGEST = 100
#: More numbers per row, or decimal places, than any column has.
_MOST_WIDTH, _MOST_PLACES = 1 << 24, 100


def dtype_of(text: str) -> np.dtype[Any]:
    """Return the type of numbers or times that a text names. Raises ValueError."""
    if _DTYPE.fullmatch(text):
        with suppress(TypeError, ValueError):
            return np.dtype(text)
    raise ValueError(f"{text!r:.40} is not the type of a column")


def decimals_of(places: int) -> Decimals:
    """Return the type of decimals with a number of places from a store. Raises ValueError."""
    if not 0 <= places <= _MOST_PLACES:
        raise ValueError(f"decimals with {places!r:.40} places")
    return Decimals(places)


def long_decimals_of(places: int) -> LongDecimals:
    """Return the type of long decimals as ``decimals_of``."""
    return LongDecimals(decimals_of(places).places)


def datetimes_of(text: str) -> Datetimes:
    """Return the type of datetimes or durations that a text names. Raises ValueError."""
    if dtype_of(text).kind not in "mM":
        raise ValueError(f"{text!r:.40} is not a type of times")
    return Datetimes(text)


def schema_of_kind(kind: str) -> Schema | None:
    """Return the schema whose ``repr`` is this text; None for a schema of an aggregation's own.

    Raises ValueError for a schema that cannot exist.
    """
    if len(kind) > _LONGEST:
        return None
    if found := re.fullmatch(r"Nullable\((.+)\)", kind):
        inner = _single(found[1])
        return None if inner is None else nullable(inner)
    return _single(kind)


def _single(kind: str) -> Schema | None:
    """Return a schema that is not nullable."""
    if kind == "Objects()":
        return Objects()
    if kind == "Presence()":
        return Presence()
    if found := re.fullmatch(r"Array\('(.*)'\)", kind):
        return Array(dtype_of(found[1]))
    if found := re.fullmatch(r"Decimals\((\d+)\)", kind):
        return decimals_of(int(found[1]))
    if found := re.fullmatch(r"LongDecimals\((\d+)\)", kind):
        return long_decimals_of(int(found[1]))
    if found := re.fullmatch(r"Datetimes\('(.*)'\)", kind):
        return datetimes_of(found[1])
    if found := re.fullmatch(r"Vector\('(.*)', (\d+)\)", kind):
        width = int(found[2])
        if not 1 <= width <= _MOST_WIDTH:
            raise ValueError(f"a column with {width} numbers per row is impossible")
        return Vector(dtype_of(found[1]), width)
    return None
