"""What monoids of typed columns need of a type: its column, results, name and extreme numbers."""

from __future__ import annotations

from functools import partial as bound
from typing import Any

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Array, Decimals, Objects, Schema
from mta.errors import InvalidValue


def layout_of(dtype: Any) -> Array:
    """The column of a type; without one doubles, which take no whole number that they round."""
    if dtype is None:
        return Array("f8", exact=True)
    return dtype if isinstance(dtype, Decimals) else Array(dtype)


def addable(dtype: Any) -> Array:
    """As ``layout_of``, of numbers. Raises InvalidValue for moments and booleans."""
    kind = layout_of(dtype)
    if kind.dtype.kind in "mMb":
        raise InvalidValue(
            f'a sum is of numbers, not of {kind.dtype}: of booleans take Sum("int64"), and convert '
            "datetimes and durations to numbers first"
        )
    return kind


def is_whole(kind: Any) -> bool:
    """Whether a type has whole numbers or decimals."""
    return isinstance(kind, Decimals) or (kind not in (None, str) and np.dtype(kind).kind in "iu")


def is_plain(kind: Array) -> bool:
    """Whether the numbers of a column are Python's floats, or integers of 64 bits."""
    return type(kind) is Array and kind.dtype in (np.float64, np.int64)


def outputs_of(kind: Array) -> Schema:
    """The column of results that are values of a type."""
    return Objects() if isinstance(kind, Decimals) else kind


def lowering_of(kind: Array, signed: bool = False) -> Any:
    """Return what turns values into results: decimals, Python's numbers, no -0.0 unless signed.

    -0.0 equals 0.0, and which of them a fold results in depends on the order.
    """
    if isinstance(kind, Decimals):
        return bound(shown, kind)
    return (lambda partial: partial + 0.0) if kind.dtype.kind == "f" and not signed else None


def shown(kind: Array, value: Any) -> Any:
    """A value, or a column of them, as users see it."""
    if not isinstance(kind, Decimals):
        return value
    found = kind.shown(np.atleast_1d(value)).tolist()
    return found if np.ndim(value) else found[0]


def named(name: str, kind: Array) -> str:
    """A monoid's name with the type of its column, unless that is the usual one."""
    if isinstance(kind, Decimals):
        return f"{name}[{kind!r}]"
    return name if kind.dtype == np.float64 else f"{name}[{kind.dtype.name}]"


def zero_of(kind: Array) -> Any:
    """The zero of a column's type."""
    return _number(np.zeros((), kind.dtype)[()])


def limit_of(kind: Array, upper: bool) -> Any:
    """The largest or the smallest value of a column's type."""
    dtype = kind.dtype
    if dtype.kind == "f":
        return _number(dtype.type(np.inf if upper else -np.inf))
    if dtype.kind == "b":
        return np.bool_(upper)
    info = np.iinfo("i8" if dtype.kind in "mM" else dtype)
    if dtype.kind in "mM":  # the number below the others is NaT
        return np.array(info.max if upper else -info.max, "i8").view(dtype)[()]
    return _number(dtype.type(info.max if upper else info.min))


def _number(number: Any) -> Any:
    """Return a number as single rows have it: Python's, where there is one of that type."""
    return number.item() if number.dtype in (np.float64, np.int64) else number


def empty_of(kind: Array, value: Any) -> Any:
    """The result of no events: None, NaN, NaT, or of integers a value."""
    if isinstance(kind, Decimals):
        return None
    if kind.dtype.kind in "mM":
        return np.array("NaT", kind.dtype)[()]
    return np.nan if kind.dtype.kind == "f" else plain(value)
