"""Convert Spark's columns for the windows, and back: times, values and results.

Values change only by these rules: if an aggregation computes with doubles, decimals become the
nearest doubles; times become whole microseconds; and a result that does not fit into its column is
an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mta.columns.reading import Scaled, objects
from mta.columns.schemas import NullableColumn
from mta.dataframes.base import flattened, split
from mta.dataframes.of_arrow import read, words_of
from mta.errors import ResultOutOfRange
from mta.times import TimeUnit
from mta.windows.settings import Nan, Nulls
from stores.durations import UNITS

Results = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
DAY = UNITS["day"]
#: Times are closer to 1970 than this: the windows' limit, 146,000 years.
TIME_LIMIT = 1 << 62
#: The number for a value that is not a valid time.
NO_TIME = np.iinfo(np.int64).min


def key_columns(keys: Sequence[Any], types: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return keys as the columns from which they came, with these types."""
    columns = [keys] if len(types) == 1 else zip(*keys, strict=True)
    return [pa.array(list(each), kind) for each, kind in zip(columns, types, strict=True)]


# --- times ----------------------------------------------------------------------------------------


#: The number of decimal places that a microsecond has in each unit.
_PLACES: dict[TimeUnit, int] = {"s": 6, "ms": 3, "us": 0, "ns": -3}


def to_micros(column: pa.ChunkedArray, unit: TimeUnit | None = None) -> Ints:
    """Return timestamps, dates or numbers without nulls as microseconds since 1970; linear.

    Numbers count the unit, by default seconds. Times are rounded to microseconds. Invalid times,
    and times beyond ``TIME_LIMIT``, become ``NO_TIME``.
    """
    kind, places = column.type, _PLACES[unit or "s"]
    if pa.types.is_timestamp(kind):
        return _in_range(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_numpy(), 1)
    if pa.types.is_date(kind):
        return _in_range(column.cast(pa.date32()).cast(pa.int32()).to_numpy().astype("i8"), DAY)
    if pa.types.is_decimal(kind):
        if kind.scale > places:  # with an additional digit for rounding up
            finer = column.cast(pa.decimal256(76, kind.scale))
            column = pc.round(finer, places, "half_to_even").cast(pa.decimal128(38, places))
        digits, upper = words_of(column)
        fit = upper == digits >> 63
        return _in_range(np.where(fit, digits, NO_TIME), 10 ** (places - column.type.scale))
    if pa.types.is_floating(kind):
        with np.errstate(over="ignore"):
            micros = np.rint(column.to_numpy().astype("f8") * 10.0**places)
        known = np.abs(micros) < TIME_LIMIT  # False for NaN
        return np.where(known, np.where(known, micros, 0).astype("i8"), NO_TIME)
    whole = column.cast(pa.int64()).to_numpy()
    if unit == "ns":
        return np.where(whole == NO_TIME, NO_TIME, whole // 1000 + (whole % 1000 >= 500))
    return _in_range(whole, 10**places)


def _in_range(whole: Ints, unit: int) -> Ints:
    """Return numbers of ``unit`` microseconds as microseconds, or ``NO_TIME``."""
    most = (TIME_LIMIT - 1) // unit
    known = (whole >= -most) & (whole <= most)
    if known.all():
        return whole if unit == 1 else whole * unit
    return np.where(known, np.where(known, whole, 0) * unit, NO_TIME)


def from_micros(micros: Ints, kind: pa.DataType, unit: TimeUnit | None = None) -> pa.Array:
    """Convert the result of ``to_micros`` back to the type of its column; linear."""
    places = _PLACES[unit or "s"]
    if pa.types.is_date(kind):
        moments = pa.array(micros, pa.int64()).cast(pa.timestamp("us"))
        return moments.cast(kind, safe=False)
    if pa.types.is_timestamp(kind):
        return pa.array(micros, pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)
    if pa.types.is_integer(kind):
        whole = micros * 1000 if unit == "ns" else micros // 10**places
        return pa.array(whole).cast(kind)
    if pa.types.is_decimal(kind):
        words = np.stack((micros, micros >> 63), axis=1)
        numbers = pa.Array.from_buffers(
            pa.decimal128(38, places), len(micros), [None, pa.py_buffer(words)]
        )
        return numbers.cast(kind, safe=False)
    return pa.array(micros / 10.0**places).cast(kind, safe=False)


# --- values ---------------------------------------------------------------------------------------


def to_values(column: pa.ChunkedArray, name: str, nulls: Nulls, nan: Nan) -> Any:
    """Return a value column for windows, with its nulls. Raises InvalidValue.

    With ``nulls="accept"``, nulls become NaN, which only columns of doubles can have.

    >>> prices = pa.chunked_array([pa.array([Decimal("1.25"), None], pa.decimal128(10, 2))])
    >>> to_values(prices, "price", "skip", "raise").tolist()
    [1.25, None]
    """
    found = read(column, name)
    if nulls == "accept":
        return found.accepted()
    return (found.with_nans_as_nulls() if nan == "skip" else found).given()


def as_input(values: Any, kind: pa.DataType) -> pa.Array:
    """Convert the values that an aggregation has read back to the type of their column."""
    if isinstance(values, NullableColumn):
        nulls, bare = values.nulls(), values.values
        if isinstance(bare, Scaled):
            bare = bare.shown()
        found = as_input(bare, kind)
        return found if nulls is None else pc.if_else(pa.array(nulls), None, found)
    if not isinstance(values, np.ndarray):
        values = objects(values)
    if values.dtype == object and {type(None), Decimal}.issuperset(map(type, values)):
        return pa.array(values, type=kind)
    if pa.types.is_decimal(kind):
        # The double nearest to the largest decimal may be larger, and not fit into the type.
        most = np.nextafter(10.0 ** (kind.precision - kind.scale), 0)
        return pa.array(np.clip(values.astype("f8"), -most, most)).cast(kind, safe=False)
    if pa.types.is_integer(kind) and values.dtype.kind == "f":
        least = -(2.0 ** (kind.bit_width - 1))
        return pa.array(np.clip(values, least, np.nextafter(-least, 0))).cast(kind, safe=False)
    if values.dtype == object:
        return pa.array(values, type=kind)
    return pa.array(values).cast(kind, safe=False)


# --- results --------------------------------------------------------------------------------------


def to_arrow(column: Any, kind: pa.DataType, name: str, keeps_nan: bool = False) -> pa.Array:
    """Return results as a column of the type that the query declared; linear.

    A NaN, such as the deviation of one value, becomes null, unless values may be NaN. Results in
    integer columns are truncated. Raises ResultOutOfRange for a result that does not fit.
    """
    results, nulls = split(column)
    found = _to_arrow(results, kind, name, keeps_nan)
    return found if nulls is None else pc.if_else(pa.array(nulls), None, found)


def _to_arrow(results: Results, kind: pa.DataType, name: str, keeps_nan: bool) -> pa.Array:
    try:
        if pa.types.is_string(kind) and results.dtype == object:
            if {str, type(None)}.issuperset(map(type, results)):
                return pa.array(results, kind)
            return pa.array([None if r is None else str(r) for r in results], kind)
        if pa.types.is_list(kind) and pa.types.is_temporal(kind.value_type):
            return _lists_of_times(results, kind)
        if pa.types.is_floating(kind):
            with np.errstate(over="ignore"):  # a float column can have infinities
                results = results.astype(kind.to_pandas_dtype())
        if pa.types.is_boolean(kind):
            return pa.array(results.astype(np.bool_))
        if pa.types.is_integer(kind):
            if results.dtype == np.bool_:
                results = results.astype("i1")
            elif results.dtype.kind == "f":
                results = np.trunc(results)
        return pa.array(results, kind, from_pandas=not keeps_nan)  # from_pandas: NaN is null
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ResultOutOfRange(
            f"a result of aggregation {name!r} does not fit into its column of type {kind} "
            f"({error}): choose a larger type with types={{...}}, or an aggregation whose results "
            "are doubles"
        ) from error


def _lists_of_times(results: Results, kind: pa.DataType) -> pa.Array:
    """Return lists of numpy's datetimes, which Arrow reads only outside of lists."""
    nulls = np.array([each is None for each in results], bool)
    flat, ends = flattened([each or () for each in results])
    column = pa.array(flat, kind.value_type)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), column)
    return pc.if_else(pa.array(nulls), None, lists) if nulls.any() else lists
