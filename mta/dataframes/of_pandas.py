"""Data frames of pandas, with columns of numpy, pandas and Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from itertools import pairwise
from typing import Any, Self
from uuid import UUID

import numpy as np
import pandas as pd

from mta.columns.reading import objects, scaled_integers
from mta.columns.schemas import LongDecimals
from mta.dataframes.base import (
    Column,
    DataFrame,
    Result,
    TemporalColumn,
    decimals,
    flattened,
    marked,
    split,
    type_of,
)
from mta.errors import InvalidValue


class PandasDataFrame(DataFrame):
    """A DataFrame; the named levels of its index can be read like columns."""

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    @property
    def levels(self) -> list[str]:
        return [name for name in self.frame.index.names if name is not None]

    def raw(self, name: str) -> Any:
        series = self._series(name)
        arrow = _as_arrow(series)
        return series if arrow is None else arrow

    def column(self, name: str) -> Column:
        return _read(self._series(name), name)

    def rows(self, mask: np.ndarray) -> Self:
        return type(self)(self.frame[mask])

    def with_columns(self, results: Mapping[str, Result]) -> Any:
        return self.frame.assign(**{name: _array(result) for name, result in results.items()})

    def of_arrow(self, table: Any) -> Any:
        return table.to_pandas(types_mapper=pd.ArrowDtype)

    def beside(self, more: Any) -> Self:
        return type(self)(self.frame.assign(**{name: more[name].array for name in more.columns}))

    def selected(self, columns: Mapping[str, str]) -> Self:
        series = {new: self._series(old).array for new, old in columns.items()}
        return type(self)(pd.DataFrame(series, index=self.frame.index))

    def without_nans(self, names: Collection[str]) -> Self:
        series = {name: self.frame[name] for name in names}
        own = {n: s for n, s in series.items() if pd.api.types.is_extension_array_dtype(s.dtype)}
        floats = {n: s for n, s in own.items() if pd.api.types.is_float_dtype(s.dtype)}
        return type(self)(self.frame.assign(**{n: s.where(s == s) for n, s in floats.items()}))

    def _series(self, name: str) -> Any:
        if name in self.names:
            return self.frame[name]
        return pd.Series(self.frame.index.get_level_values(name), name=name)


def _read(series: Any, name: str) -> Column:
    dtype = series.dtype
    arrow = _as_arrow(series)
    if arrow is not None:
        from mta.dataframes.of_arrow import read

        return replace(read(arrow, name), dtype=str(dtype))
    nulls = marked(series.isna().to_numpy())

    def made(type_: Any, values: Any, restored: Callable[[np.ndarray], Any]) -> Column:
        return Column(name, str(dtype), type_, values, restored, nulls=nulls)

    def filled(values: np.ndarray) -> np.ndarray:
        return values if nulls is None else np.where(nulls, np.zeros(1, values.dtype), values)

    if isinstance(dtype, pd.CategoricalDtype):
        return _of_categories(series, name, nulls)
    if isinstance(dtype, pd.DatetimeTZDtype):
        moments = filled(series.dt.tz_convert(None).to_numpy())
        return made(
            moments.dtype.str[1:], TemporalColumn(moments, series.tolist),
            lambda found: pd.DatetimeIndex(found).tz_localize("UTC").tz_convert(dtype.tz).array,
        )  # fmt: skip
    kind = getattr(dtype, "kind", "O")
    if kind in "mM" and isinstance(dtype, np.dtype):
        moments = filled(series.to_numpy())
        return made(dtype.str[1:], TemporalColumn(moments, series.tolist), lambda found: found)
    if kind in "biuf":
        own = getattr(dtype, "numpy_dtype", None)
        numbers = filled(series.to_numpy()) if own is None else series.to_numpy(own, na_value=0)
        return made(type_of(numbers.dtype), numbers, lambda found: _numbers(found, dtype))
    if isinstance(dtype, np.dtype):
        return _of_objects(series, name, nulls)
    values = _with_none(series.tolist(), nulls)
    return made(str, values, lambda found: pd.array(found.tolist(), dtype=dtype))


def _of_categories(series: Any, name: str, nulls: np.ndarray | None) -> Column:
    """Return a categorical column as a column of the type of its categories."""
    dtype, known = series.dtype, series.dtype.categories
    type_ = _read(known.to_series(), name).type if len(known) else str
    if nulls is not None and len(known):
        series = series.fillna(known[0])
    inner = replace(_read(series.astype(known.dtype), name), type=type_)
    values = _with_none(list(inner.values), nulls) if type_ is str else inner.values
    return replace(
        inner, dtype=str(dtype), ordered=not dtype.ordered, nulls=nulls, values=values,
        restored=lambda found: pd.Categorical(inner.restored(found), dtype=dtype),
    )  # fmt: skip


def _numbers(found: np.ndarray, dtype: Any) -> Any:
    """Return numbers of a dtype, or of the matching pandas dtype if there are nulls."""
    values, nulls = split(found)
    if values.dtype == object:
        nulls = marked(pd.isna(values))
    if nulls is None or dtype.kind == "O":
        return pd.array(found, dtype=dtype)
    if isinstance(dtype, np.dtype) and dtype.kind == "f":
        return values.astype(dtype)  # nulls are NaN
    array = pd.array(values, dtype=pd.Series([], dtype=dtype).convert_dtypes().dtype)
    array[nulls] = pd.NA
    return array


def _with_none(values: list[Any], nulls: np.ndarray | None, none: Any = None) -> list[Any]:
    """Replace the nulls among values by ``none``, in place."""
    if nulls is not None:
        for row in np.flatnonzero(nulls).tolist():
            values[row] = none
    return values


def _of_objects(series: Any, name: str, nulls: np.ndarray | None) -> Column:
    """Return a column of Python objects, whose classes determine its type."""
    values = series.tolist()
    kinds = set(map(type, values if nulls is None else series[~nulls].tolist()))
    if kinds <= _NUMBERS and kinds:
        values = _with_none(values, nulls, next(iter(kinds))(0))
    else:
        values = _with_none(values, nulls)
    found: tuple[Any, Any] = (str, values)
    if kinds == {bool}:
        found = "bool", np.array(values)
    elif kinds == {int}:
        found = "int64", values
    elif Decimal in kinds and kinds <= {int, Decimal}:
        places = _places(values, name)
        found = decimals(_integers(values, places, name), places)
    elif all(issubclass(kind, (int, float, Decimal, np.number)) for kind in kinds):
        found = None, values
    elif kinds == {date}:
        days = np.array(_with_none(values, nulls, date(1970, 1, 1)), "M8[D]")
        found = "M8[D]", TemporalColumn(days, series.tolist)
    elif datetime in kinds or pd.Timestamp in kinds:
        raise InvalidValue(
            f"column {name!r} has datetimes as objects: convert it with pandas.to_datetime first"
        )
    ordered = found[0] is not str or kinds in ({str}, {bytes}, {UUID}, {time}, set())
    dtype = series.dtype
    return Column(name, str(dtype), *found, _as_objects(dtype), ordered, nulls)


def _as_objects(dtype: Any) -> Callable[[np.ndarray], Any]:
    """Return a function that converts results to Python objects, and nulls to None."""

    def restored(results: np.ndarray) -> Any:
        values, nulls = split(results)
        found = values.astype(dtype)
        if nulls is not None:
            found[nulls] = None
        return found

    return restored


#: The classes of Python numbers.
_NUMBERS = {bool, int, float, Decimal}


def _integers(values: list[Any], places: int, name: str) -> list[int]:
    """Return decimals as integers of their last place. Raises InvalidValue if they are too long."""
    try:
        return scaled_integers(values, places, LongDecimals.most)
    except ValueError as error:
        raise InvalidValue(
            f"column {name!r} has decimals of more than 76 digits ({error}): round them first"
        ) from error


def _places(values: list[Any], name: str) -> int:
    """Return the most decimal places of a column. Raises InvalidValue for NaN and infinity."""
    most = 0
    for value in values:
        exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
        if not isinstance(exponent, int):
            raise InvalidValue(f"column {name!r} has {value}, which is not finite: drop this row")
        most = max(most, -exponent)
    return most


def _array(result: Result) -> Any:
    values, form, like, _ = result
    if values.dtype.kind in "mM":
        values, _ = split(values)  # nulls are NaT
    if like is not None and like.dtype.endswith(_ARROW):
        from mta.dataframes.of_arrow import to_arrow

        return pd.arrays.ArrowExtensionArray(to_arrow(result))
    if form == "value" and like is not None:
        return like.restored(values)
    if form == "list" and like is not None and isinstance(like.values, TemporalColumn):
        flat, ends = flattened(values)
        every = list(like.restored(flat))
        values = objects([every[start:stop] for start, stop in pairwise(ends.tolist())])
    if values.dtype == object or values.ndim > 1:
        return pd.Series(list(values), dtype=object).array
    # Results for a nullable type of pandas are of a nullable type too.
    if like is not None and like.dtype in _OWN:
        kind = pd.array(split(values)[0][:0]).dtype
        return _numbers(values, kind)
    return _numbers(values, values.dtype) if isinstance(values, np.ma.MaskedArray) else values


#: The nullable types of numbers in pandas.
_OWN = {"boolean", "Float32", "Float64"} | {
    f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)
}
#: The end of the names of Arrow types in pandas.
_ARROW = "[pyarrow]"


def _as_arrow(series: Any) -> Any:
    """Return the Arrow array of a column of an Arrow type; None for other types."""
    return series.array.__arrow_array__() if hasattr(series.dtype, "pyarrow_dtype") else None
