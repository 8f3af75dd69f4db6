"""Converts the values that users pass to rows: lists, numpy, pandas, Arrow, and all nulls and NaN.

The rules are the same for single values and for batches:

- Numbers never change: a value that does not fit the type of its column is refused. Only columns of
  floats round, to the nearest double.
- A column of ``Decimals`` or ``LongDecimals`` accepts decimals and integers with at most its number
  of places. If a column of floats is ``exact``, it refuses integers and decimals that are not
  doubles.
- A column of objects has the values that were passed, but Python values for numpy scalars. So a
  value is the same whether it is passed alone, in a list or in an array, and after a restore.
- These values are *missing*: None, NaN (float, numpy, Decimal, complex), NaT (numpy, pandas), NA of
  pandas, and null of Arrow. They become NaN in a column of floats, and null in a ``Nullable`` one.
"""

from __future__ import annotations

from decimal import Decimal
from operator import eq
from typing import Any

import numpy as np

from mta.columns.schemas import (
    DIGITS,
    Array,
    Coded,
    Datetimes,
    Decimals,
    LongDecimals,
    Nullable,
    NullableColumn,
    Objects,
    Presence,
    Schema,
    Times,
)
from mta.columns.texts import TextColumn
from mta.errors import InvalidTime, InvalidValue
from mta.times import TimeUnit, to_times

#: The types whose values are used unchanged; only floats among these can be missing.
PLAIN = frozenset({int, float, bool, str, bytes})
#: The types whose values are never missing.
NEVER_MISSING = PLAIN - {float} | {tuple, list, dict, set, frozenset}
#: The smallest number that is too large for int64.
_BEYOND = 1 << 63


#: All integers up to 2**53 are doubles, and so are all powers of ten up to 10**22.
_EXACT, _EXACT_TENS = 1 << 53, 22


class Scaled:
    """A column of decimals, given as integers that count units of their last place.

    ``Decimals`` and ``LongDecimals`` read the integers unchanged. As an array, the column has the
    nearest doubles.

    Args:
        digits: The integers: an array of int64, or of Python integers if these are too long.
        places: The number of digits after the decimal point.
    """

    def __init__(self, digits: np.ndarray, places: int) -> None:
        self.digits, self.places = digits, places

    def take(self, rows: np.ndarray) -> Scaled:
        return Scaled(self.digits[rows], self.places)

    def shown(self) -> np.ndarray:
        """Return the column as an array of decimals."""
        return Decimals(self.places).shown(self.digits)

    def __len__(self) -> int:
        return len(self.digits)

    def __getitem__(self, some: slice) -> Scaled:
        return Scaled(self.digits[some], self.places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        digits, places = self.digits, self.places
        if places <= _EXACT_TENS and not ((digits > _EXACT) | (digits < -_EXACT)).any():
            return digits / 10.0**places  # rounds only once, because both operands are exact
        return self.shown().astype("f8")

    def tolist(self) -> list[float]:
        found: list[float] = np.asarray(self).tolist()
        return found


def plain(value: Any) -> Any:
    """Convert a numpy scalar to a Python value, a masked one to None; return others unchanged.

    A time that is finer than Python's types stays a numpy scalar.
    """
    if value is np.ma.masked:
        return None
    if not isinstance(value, (np.generic, np.ndarray)) or value.ndim:
        return value
    item = value.item()
    return value if type(item) is int and value.dtype.kind in "mM" else item


def result_of(results: Any, at: int) -> Any:
    """Return one result of a batch as Python values; of several columns, as a dictionary."""
    if isinstance(results, dict):
        return {name: result_of(column, at) for name, column in results.items()}
    return plain(results[at])


def results_each(results: Any, count: int) -> list[Any]:
    """Return every result of a batch in the form of ``result_of``."""
    if isinstance(results, dict):
        columns = [results_each(column, count) for column in results.values()]
        return [dict(zip(results, row, strict=True)) for row in zip(*columns, strict=True)]
    if type(results) is np.ndarray and results.ndim == 1 and results.dtype.kind in "?iuf":
        found: list[Any] = results.tolist()
        return found
    return [plain(results[at]) for at in range(count)]


def is_missing(value: Any) -> bool:
    """Return whether a value is a null or NaN of any kind."""
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


def missing(rows: Any) -> np.ndarray | None:
    """Return which values of a column of objects are missing; None if none is."""
    if isinstance(rows, TextColumn):
        return rows.nulls()
    kinds = set(map(type, rows))
    if kinds <= PLAIN and (float not in kinds or all(map(eq, rows, rows))):
        return None
    mask = np.fromiter(map(is_missing, rows), bool, len(rows))
    return mask if mask.any() else None


def objects(values: Any) -> np.ndarray:
    """Return an array of objects with these values, of any types."""
    if isinstance(values, TextColumn):
        return values.shown()
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def read_value(value: Any, schema: Schema) -> Any:
    """Convert a user's value to one row of a column. Raises InvalidValue."""
    kind = type(value)
    if isinstance(schema, Nullable):
        return None if is_missing(value) else read_value(value, schema.inner)
    if isinstance(schema, Presence):
        return np.bool_(not is_missing(value))
    if not isinstance(schema, Array):
        return _read_object(value, schema)
    if kind is float and schema.kind == "<f8":
        return value if schema.plain else np.float64(value)
    if kind is int and schema.plain and schema.kind == "<i8" and -_BEYOND <= value < _BEYOND:
        return value
    try:
        return schema.at(_as_column([_object(value)], schema), 0)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, _Rounded):
            raise InvalidValue(str(error)) from None
        raise InvalidValue(
            f"{value!r} is not a number that fits {_name_of(schema)}; convert it first"
        ) from None


def _read_object(value: Any, schema: Schema) -> Any:
    """Convert a user's value to a row of a column of objects. Raises InvalidValue."""
    if isinstance(schema, Coded):
        return _as_codes([value], schema)[0]
    if getattr(schema, "nullable", False) and is_missing(value):
        return None
    found = value if type(value) in PLAIN else _object(value)
    if isinstance(schema, Objects) and type(found) is not (schema.only or type(found)):
        _require_only([found], schema.only)
    return found


def read_column(values: Any, schema: Schema) -> Any:
    """Convert a user's batch (list, numpy, pandas, Arrow) to a column. Raises InvalidValue.

    In a column of floats, nulls become NaN.
    """
    if isinstance(schema, Nullable):
        return _as_nullable(values, schema.inner)
    if isinstance(schema, Presence):
        return ~_nulls_of(values)
    if not isinstance(schema, Array):
        if isinstance(schema, Coded):
            return _as_codes(values, schema)
        return _read_objects(values, schema)
    if isinstance(values, NullableColumn):
        values = values.values if values.nulls() is None else values.tolist()
    if type(values).__module__.startswith("pyarrow"):
        values = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(False)
    try:
        return _as_column(values, schema)
    except _Rounded as error:
        raise InvalidValue(str(error)) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"the values cannot be read as {_name_of(schema)} ({error}); convert the column first"
        ) from None


def _read_objects(values: Any, schema: Schema) -> Any:
    """Return a batch as a column of objects, with None for missing values if it is nullable."""
    if isinstance(values, TextColumn) and getattr(schema, "only", None) in (None, str):
        return values
    of_nulls = isinstance(values, NullableColumn)
    if of_nulls:
        values = values.values if values.nulls() is None else values.tolist()
    rows = as_objects(values)
    if getattr(schema, "nullable", False) and not of_nulls:
        nulls = missing(rows)
        for row in () if nulls is None else np.flatnonzero(nulls).tolist():
            rows[row] = None
    if isinstance(schema, Objects) and schema.only is not None:
        _require_only(rows, schema.only)
    return rows


def _require_only(rows: list[Any], only: type | None) -> None:
    """Raise InvalidValue for a value of another type than the first values of its column."""
    if only is None or {only}.issuperset(map(type, rows)):
        return
    for at, row in enumerate(rows):
        if type(row) is not only and not is_missing(row):
            raise InvalidValue(
                f"{row!r:.40} at index {at} is {type(row).__name__}, and the first values of its "
                f"column were {only.__name__}; nothing was inserted; convert it"
            )


def _as_nullable(values: Any, schema: Array) -> NullableColumn:
    """Return a batch as numbers and a mask of the valid ones. Raises InvalidValue."""
    if isinstance(values, NullableColumn):
        return NullableColumn(read_column(values.values, schema), values.valid)
    nulls = _nulls_of(values)
    if not nulls.any():
        return NullableColumn(read_column(values, schema))
    if isinstance(values, np.ndarray) and values.dtype.kind in "fmM":
        given = np.where(nulls, np.zeros(1, values.dtype), values)
        return NullableColumn(read_column(given, schema), ~nulls)
    places, listed = np.flatnonzero(~nulls), as_objects(values)
    found = schema.blank(len(listed))
    found[places] = read_column([listed[at] for at in places.tolist()], schema)
    return NullableColumn(found, ~nulls)


def _nulls_of(values: Any) -> np.ndarray:
    if isinstance(values, NullableColumn):
        given = values.nulls()
        return np.zeros(len(values), bool) if given is None else given
    if isinstance(values, np.ma.MaskedArray):
        masked: np.ndarray = np.ma.getmaskarray(values) | _nulls_of(values.data)
        return masked
    if isinstance(values, TextColumn):
        return values.codes < 0
    if isinstance(values, np.ndarray) and values.dtype.kind in "biu":
        return np.zeros(len(values), bool)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fmM" and values.ndim == 1:
        strange: np.ndarray = values != values
        return strange
    rows = as_objects(values)
    found = missing(rows)
    return np.zeros(len(rows), bool) if found is None else found


def as_given(rows: Any, schema: Schema) -> Any:
    """Return rows as a batch that a user could pass."""
    if isinstance(schema, Nullable) and isinstance(schema.inner, Decimals):
        return NullableColumn(Scaled(rows.values, schema.inner.places), rows.valid)
    if isinstance(schema, Datetimes):
        nat = np.iinfo("i8").min
        return np.array([nat if row is None else row for row in rows], "i8").view(schema.dtype)
    if isinstance(schema, Coded):
        return [schema.shown(row) for row in rows]
    if isinstance(rows, TextColumn):
        return rows.tolist()
    return schema.shown(rows) if isinstance(schema, Decimals) else rows


def _name_of(schema: Array) -> str:
    return repr(schema) if isinstance(schema, Decimals) else str(schema.dtype)


class _Rounded(ValueError):
    """A number is not a double."""


def _object(value: Any) -> Any:
    """Convert a numpy or Arrow scalar to a Python value; numpy times stay unchanged."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value if value.dtype.kind in "mM" else plain(value)
    return value.as_py() if hasattr(value, "as_py") else value


def as_objects(values: Any) -> list[Any]:
    """Return a batch as a list of Python objects. Raises InvalidValue if it is no column."""
    listed = getattr(values, "tolist", None) or getattr(values, "to_pylist", None)
    if isinstance(values, np.ndarray) and values.dtype.kind in "mM":
        listed = None  # ``tolist`` may return numbers
    try:
        rows = list(listed() if listed else values)
    except TypeError:
        raise InvalidValue(f"a batch must be a column of values, not {values!r}") from None
    return rows if set(map(type, rows)) <= PLAIN else [_object(row) for row in rows]


def _as_column(values: Any, schema: Array) -> np.ndarray:
    """Return numbers as a column. Raises TypeError or ValueError rather than change a number."""
    if isinstance(schema, Decimals):
        return _as_digits(values, schema.places)
    if isinstance(schema, Times):
        return _as_moments(values, schema.dtype, schema.unit)
    column, dtype = np.asarray(values), schema.dtype
    if column.ndim != 1:
        raise ValueError(f"{column.ndim} dimensions instead of one")
    if dtype.kind in "mM":
        return _as_times(column, dtype)
    of_floats = column.dtype.kind == "f" and not isinstance(values, np.ndarray)
    if dtype.kind in "iu" and (column.dtype.kind == "O" or of_floats):
        return _as_integers(values, dtype)  # numpy converts mixed numbers to floats
    if schema.exact:
        _require_exact(values, column, dtype)
    if column.dtype.kind == "O":
        column = _as_floats(column)
    if len(column) and column.dtype.kind not in "biuf":
        raise TypeError(f"they are {column.dtype}")
    with np.errstate(all="ignore"):  # a float that is too large for a smaller type is infinite
        found = column.astype(dtype, copy=False)
    exact = dtype.kind not in "biu" or np.can_cast(column.dtype, dtype)
    if not exact and not (np.array_equal(found, column) and _is_within(column, dtype)):
        raise ValueError("fractions, nulls or numbers out of range")
    return found


def _require_exact(values: Any, column: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Raise an error for values that an exact column would change (``Array``)."""
    if dtype.kind == "f" and not isinstance(values, Scaled):
        _require_doubles(values, column)
    elif dtype.kind == "b" and len(column) and column.dtype.kind != "b":
        raise TypeError(f"they are {column.dtype}")


def _require_doubles(values: Any, column: np.ndarray) -> None:
    """Raise _Rounded for the first decimal, and for the first integer that a double would round.

    After a decimal that is a double, such as 12.50, one such as 0.10 may follow.
    """
    suspects: Any = ()
    if column.dtype.kind in "iu":
        if column.dtype.itemsize > 4:
            suspects = column[(column > _EXACT) | (column < np.array(-_EXACT, "i8"))].tolist()
    elif column.dtype.kind == "O" or not hasattr(values, "dtype"):
        # numpy has converted mixed numbers to doubles or objects.
        suspects = [plain(item) for item in values if type(item) is not float]
    for item in suspects:
        if isinstance(item, (int, Decimal)) and not is_missing(item) and not _is_double(item):
            what = "is a decimal" if isinstance(item, Decimal) else "is not a double"
            raise _Rounded(
                f'{item} {what}: pass the type, such as Max("int64") or '
                'Max(Decimals(2)), or round it with Max("float64")'
            )


def _is_double(number: int | Decimal) -> bool:
    if isinstance(number, Decimal):
        return False
    try:
        return float(number) == number
    except OverflowError:
        return False


#: The largest integer of a column of ``Decimals``.
_MOST_DIGITS = 2**63 - 1


def _as_digits(values: Any, places: int) -> np.ndarray:
    """Return decimals as integers of their last place. Raises TypeError and ValueError."""
    if isinstance(values, Scaled) and values.places == places:
        if values.digits.dtype == object:
            raise ValueError("too many digits")
        return values.digits
    items = values.shown().tolist() if isinstance(values, Scaled) else list(values)
    if any(map(is_missing, items)):
        raise TypeError("nulls, or values that are not decimals")
    return np.array(scaled_integers(items, places, _MOST_DIGITS), "<i8")


def scaled_integers(items: list[Any], places: int, most: int) -> list[int]:
    """Return decimals as integers of their last place. Raises TypeError and ValueError."""
    if not all(isinstance(item, (Decimal, int, np.integer)) for item in items):
        raise TypeError("nulls, or values that are not decimals")
    try:
        scaled = [DIGITS.scaleb(Decimal(item), places) for item in map(plain, items)]
    except ArithmeticError:
        raise ValueError("too many digits") from None
    if not all(-most <= item <= most for item in scaled if item.is_finite()):
        raise ValueError("too many digits")  # int would compute each digit of 1e999999
    if any(not item.is_finite() or item != item.to_integral_value() for item in scaled):
        raise ValueError(f"more than {places} places")
    return [int(item) for item in scaled]


def _as_codes(values: Any, schema: Coded) -> list[int | None]:
    """Return a batch as integers, with None for missing values. Raises InvalidValue."""
    nulls = None
    if isinstance(values, NullableColumn):
        nulls, values = values.nulls(), values.values
    try:
        found = (
            _codes_of_times(values, schema.dtype)
            if isinstance(schema, Datetimes)
            else _codes_of_decimals(values, schema)
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"the values cannot be read as {schema!r} ({error}); convert the column first"
        ) from None
    for row in () if nulls is None else np.flatnonzero(nulls).tolist():
        found[row] = None
    return found


def _codes_of_times(values: Any, dtype: np.dtype[Any]) -> list[int | None]:
    times = _as_times(np.asarray(values), dtype)
    codes: list[int | None] = times.view("i8").tolist()
    for row in np.flatnonzero(np.isnat(times)).tolist():
        codes[row] = None
    return codes


def _codes_of_decimals(values: Any, schema: Coded) -> list[int | None]:
    assert isinstance(schema, LongDecimals)
    if isinstance(values, Scaled):
        if values.places == schema.places:
            codes: list[int | None] = values.digits.tolist()
            return codes
        values = values.shown()
    rows = as_objects(values)
    nulls = missing(rows)
    if nulls is None:
        return [*scaled_integers(rows, schema.places, schema.most)]
    known = [row for row, is_null in zip(rows, nulls.tolist(), strict=True) if not is_null]
    each = iter(scaled_integers(known, schema.places, schema.most))
    return [None if is_null else next(each) for is_null in nulls.tolist()]


def _is_within(column: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Return whether numbers fit an integer type, compared exactly, not as floats."""
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
    if not len(column):
        return np.empty(0, dtype)
    if column.dtype.kind != dtype.kind:
        raise TypeError(f"they are {column.dtype}")
    found = column.astype(dtype, copy=False)
    same = (found.astype(column.dtype, copy=False) == column) | np.isnat(column)
    if not same.all():
        raise ValueError("times out of range, or finer than the column")
    return found


def _as_moments(values: Any, dtype: np.dtype[Any], unit: TimeUnit) -> np.ndarray:
    """Return datetimes of any library, or numbers in a unit, as an array; missing ones are NaT."""
    column = np.asarray(values)
    if column.dtype.kind == "M":
        return _as_times(column, dtype)
    items = column.tolist()
    known = np.array([not is_missing(item) for item in items], bool)
    found = np.full(len(items), "NaT", dtype)
    try:
        found[known] = to_times(column[known], unit).view(dtype)
    except InvalidTime as error:
        raise ValueError(str(error)) from error
    return found


_NO_NUMBERS = (str, bytes, np.datetime64, np.timedelta64)


def _as_floats(column: np.ndarray) -> np.ndarray:
    """Return a column of objects as numbers, with NaN for missing values."""
    items = column.tolist()
    if any(isinstance(item, _NO_NUMBERS) for item in items):
        raise TypeError("text, dates or nested values")
    clear = [np.nan if is_missing(item) else item for item in items]
    numbers = np.asarray(clear)
    return np.asarray(clear, dtype="f8") if numbers.dtype.kind == "O" else numbers


def _as_integers(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Convert numbers of any types to integers one by one; together they would become floats."""
    items = list(values)
    if any(isinstance(item, _NO_NUMBERS) or is_missing(item) for item in items):
        raise TypeError("text, dates, nulls or nested values")
    if any(isinstance(item, Decimal) and not -(2**64) < item < 2**64 for item in items):
        raise ValueError("numbers out of range")  # int would compute each digit of 1e999999
    whole = [int(item) for item in items]
    if any(number != item for number, item in zip(whole, items, strict=True)):
        raise ValueError("fractions, nulls or numbers out of range")
    return np.array(whole, dtype)
