"""The schema, results, name and limits of a column's type, for monoids of typed columns."""

from __future__ import annotations

from functools import partial as bound
from typing import Any

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Array, Decimals, Objects, Schema
from mta.errors import InvalidValue


def layout_of(dtype: Any) -> Array:
    """Return the schema of a type; by default, doubles that reject integers they would round."""
    if dtype is None:
        return Array("f8", exact=True)
    return dtype if isinstance(dtype, Decimals) else Array(dtype)


def addable(dtype: Any) -> Array:
    """Like ``layout_of``, for numbers. Raises InvalidValue for datetimes and booleans."""
    kind = layout_of(dtype)
    if kind.dtype.kind in "mMb":
        raise InvalidValue(
            f'a sum needs numbers, not {kind.dtype}: use Sum("int64") for booleans, and convert '
            "datetimes and durations to numbers first"
        )
    return kind


def is_whole(kind: Any) -> bool:
    """Whether the values of a type are integers or decimals."""
    return isinstance(kind, Decimals) or (kind not in (None, str) and np.dtype(kind).kind in "iu")


def is_plain(kind: Array) -> bool:
    """Whether a column's values become Python floats, or integers of 64 bits."""
    return type(kind) is Array and kind.dtype in (np.float64, np.int64)


def outputs_of(kind: Array) -> Schema:
    """Return the schema of results that are values of a type."""
    return Objects() if isinstance(kind, Decimals) else kind


def lowering_of(kind: Array, signed: bool = False) -> Any:
    """Return the function that converts values to results; None if they are the same.

    Unless ``signed``, it replaces -0.0 by 0.0: the two are equal, and the order of a fold
    determines which of them it results in.
    """
    if isinstance(kind, Decimals):
        return bound(shown, kind)
    return (lambda partial: partial + 0.0) if kind.dtype.kind == "f" and not signed else None


def shown(kind: Array, value: Any) -> Any:
    """Convert a value, or a column of values, to what users see."""
    if not isinstance(kind, Decimals):
        return value
    found = kind.shown(np.atleast_1d(value)).tolist()
    return found if np.ndim(value) else found[0]


def named(name: str, kind: Array) -> str:
    """Return a monoid's name with its column's type, unless that is float64."""
    if isinstance(kind, Decimals):
        return f"{name}[{kind!r}]"
    return name if kind.dtype == np.float64 else f"{name}[{kind.dtype.name}]"


def zero_of(kind: Array) -> Any:
    """Return the zero of a column's type."""
    return _number(np.zeros((), kind.dtype)[()])


def limit_of(kind: Array, upper: bool) -> Any:
    """Return the largest or the smallest value of a column's type."""
    dtype = kind.dtype
    if dtype.kind == "f":
        return _number(dtype.type(np.inf if upper else -np.inf))
    if dtype.kind == "b":
        return np.bool_(upper)
    info = np.iinfo("i8" if dtype.kind in "mM" else dtype)
    if dtype.kind in "mM":  # the smallest integer is NaT
        return np.array(info.max if upper else -info.max, "i8").view(dtype)[()]
    return _number(dtype.type(info.max if upper else info.min))


def _number(number: Any) -> Any:
    """Convert a float64 or int64 to a Python number, as in single rows."""
    return number.item() if number.dtype in (np.float64, np.int64) else number


def empty_of(kind: Array, value: Any) -> Any:
    """Return the result of no events: None, NaN, NaT, or ``value`` for integers."""
    if isinstance(kind, Decimals):
        return None
    if kind.dtype.kind in "mM":
        return np.array("NaT", kind.dtype)[()]
    return np.nan if kind.dtype.kind == "f" else plain(value)
