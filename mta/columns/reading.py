"""What users hand in, as rows: lists, numpy, pandas and Arrow; and every kind of null and NaN.

One rule for single values and for batches:

- Numbers never change: what does not fit a column's type is refused. A float column takes the
  nearest double.
- Into a column of objects goes what came, but numpy's scalars as the Python values that they are:
  so a value is the same whether it came alone, in a list or in an array, and after a restore.
- *Missing* is None, a NaN (of float, numpy, Decimal, complex), a NaT (of numpy and pandas), pandas'
  NA and Arrow's null. In a column of floats it is NaN.
"""

from __future__ import annotations

from decimal import Decimal
from operator import eq
from typing import Any

import numpy as np

from mta.columns.schemas import Array, Schema
from mta.errors import InvalidValue

#: Types whose values are taken as they come, and of which only a float can be missing.
PLAIN = frozenset({int, float, bool, str, bytes})
#: Types of which no value is missing.
NEVER_MISSING = PLAIN - {float} | {tuple, list, dict, set, frozenset}


def plain(value: Any) -> Any:
    """A numpy scalar as the Python number it is; anything else as it is."""
    return (
        value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value
    )


def is_missing(value: Any) -> bool:
    """Whether a value is a null or a NaN of any kind."""
    kind = type(value)
    if kind is float:
        return bool(value != value)
    if kind in NEVER_MISSING:
        return False
    if value is None or kind.__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, (float, complex, np.generic)) and bool(value != value)


def missing(rows: list[Any]) -> np.ndarray | None:
    """Which values of a column of objects are missing; None when none are."""
    kinds = set(map(type, rows))
    if kinds <= PLAIN and (float not in kinds or all(map(eq, rows, rows))):
        return None
    mask = np.fromiter(map(is_missing, rows), bool, len(rows))
    return mask if mask.any() else None


def objects(values: list[Any]) -> np.ndarray:
    """Values as an array of objects, whatever they are."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_value(value: Any, schema: Schema) -> Any:
    """A user's value as one row of a column. Raises InvalidValue."""
    kind = type(value)
    if not isinstance(schema, Array):
        return value if kind in PLAIN else _object(value)
    if kind is float and schema.kind == "<f8":
        return np.float64(value)
    try:
        return _as_column([_object(value)], schema)[0]
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(
            f"{value!r} is not a number that fits {schema.dtype}; convert it first"
        ) from None


def read_column(values: Any, schema: Schema) -> Any:
    """A user's batch (list, numpy, pandas, Arrow) as a column; in floats, nulls become NaN.

    Raises InvalidValue for what is no column of such values.
    """
    if not isinstance(schema, Array):
        return _as_objects(values)
    if hasattr(values, "to_numpy") and hasattr(values, "null_count"):  # Arrow
        values = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(False)
    try:
        return _as_column(values, schema)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"the values cannot be read as {schema.dtype} ({error}); convert the column first"
        ) from None


def _object(value: Any) -> Any:
    """A numpy or Arrow scalar as the Python value it is; a time of numpy stays one."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value if value.dtype.kind in "mM" else plain(value)
    return value.as_py() if hasattr(value, "as_py") else value


def _as_objects(values: Any) -> list[Any]:
    listed = getattr(values, "tolist", None) or getattr(values, "to_pylist", None)
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        listed = None  # as a list they may be numbers
    try:
        rows = list(listed() if listed else values)
    except TypeError:
        raise InvalidValue(f"a batch is a column of values, not {values!r}") from None
    return rows if set(map(type, rows)) <= PLAIN else [_object(row) for row in rows]


def _as_column(values: Any, schema: Array) -> np.ndarray:
    """Numbers as a column. Raises TypeError or ValueError rather than change a number."""
    column, dtype = np.asarray(values), schema.dtype
    if column.ndim != 1:
        raise ValueError(f"{column.ndim} dimensions in place of one")
    if dtype.kind in "mM":
        return _as_times(column, dtype)
    of_floats = column.dtype.kind == "f" and not isinstance(values, np.ndarray)
    if dtype.kind in "iu" and (column.dtype.kind == "O" or of_floats):
        return _as_integers(values, dtype)  # a list of mixed numbers becomes one of floats
    if column.dtype.kind == "O":
        column = _as_floats(column)
    if len(column) and column.dtype.kind not in "biuf":
        raise TypeError(f"they are {column.dtype}")
    with np.errstate(all="ignore"):  # beyond a smaller type a float is infinite
        found = column.astype(dtype, copy=False)
    exact = dtype.kind not in "biu" or np.can_cast(column.dtype, dtype)
    if not exact and not (np.array_equal(found, column) and _is_within(column, dtype)):
        raise ValueError("fractions, nulls or numbers out of range")
    return found


def _is_within(column: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether numbers are in an integer type's range; compared as floats, its end is beyond it."""
    if dtype.kind == "b" or not len(column):
        return True
    info = np.iinfo(dtype)
    return info.min <= int(column.min()) and int(column.max()) <= info.max


def _as_times(column: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if column.dtype.kind == "O":
        nat = np.array("NaT", dtype)[()]
        items = [nat if is_missing(item) else item for item in column.tolist()]
        column = np.asarray(items) if items else np.empty(0, dtype)
        if column.dtype.kind == "O":
            column = np.asarray(items, dtype)
    if len(column) and column.dtype.kind != dtype.kind:
        raise TypeError(f"they are {column.dtype}")
    found = column.astype(dtype, copy=False)
    same = (found.astype(column.dtype, copy=False) == column) | np.isnat(column)
    if len(column) and not same.all():
        raise ValueError("times out of range, or finer than the column")
    return found


_NO_NUMBERS = (str, bytes, np.datetime64, np.timedelta64)


def _as_floats(column: np.ndarray) -> np.ndarray:
    """A column of objects as numbers, with NaN for what is missing."""
    items = column.tolist()
    if any(isinstance(item, _NO_NUMBERS) for item in items):
        raise TypeError("text, dates or nested values")
    clear = [np.nan if is_missing(item) else item for item in items]
    numbers = np.asarray(clear)
    return np.asarray(clear, dtype="f8") if numbers.dtype.kind == "O" else numbers


def _as_integers(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers of any kinds as integers, each by itself, as together they would be floats."""
    items = list(values)
    if any(isinstance(item, _NO_NUMBERS) or is_missing(item) for item in items):
        raise TypeError("text, dates, nulls or nested values")
    whole = [int(item) for item in items]
    if any(number != item for number, item in zip(whole, items, strict=True)):
        raise ValueError("fractions, nulls or numbers out of range")
    return np.array(whole, dtype)
