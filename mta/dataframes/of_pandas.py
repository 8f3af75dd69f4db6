"""pandas' data frames, with columns of numpy's types, of pandas' own, and of Arrow's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from mta.columns.schemas import Decimals
from mta.dataframes.base import Column, Frame, Moments, Result, require_no_null
from mta.errors import InvalidValue


class PandasFrame(Frame):
    """A DataFrame; the named levels of its index are columns that can be read."""

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    @property
    def levels(self) -> list[str]:
        return [name for name in self.frame.index.names if name is not None]

    def __len__(self) -> int:
        return len(self.frame)

    def raw(self, name: str) -> Any:
        series = self._series(name)
        arrow = _as_arrow(series)
        return series if arrow is None else arrow

    def column(self, name: str) -> Column:
        return _read(self._series(name), name)

    def with_columns(self, results: Mapping[str, Result]) -> Any:
        return self.frame.assign(**{name: _array(result) for name, result in results.items()})

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
    require_no_null(name, series.isna().to_numpy())

    def made(type_: Any, values: Any, restored: Callable[[np.ndarray], Any]) -> Column:
        return Column(name, str(dtype), type_, values, restored)

    if isinstance(dtype, pd.CategoricalDtype):
        type_ = _read(dtype.categories.to_series(), name).type if len(dtype.categories) else str
        inner = replace(_read(series.astype(dtype.categories.dtype), name), type=type_)
        return replace(
            inner, dtype=str(dtype), ordered=not dtype.ordered,
            restored=lambda found: pd.Categorical(inner.restored(found), dtype=dtype),
        )  # fmt: skip
    if isinstance(dtype, pd.DatetimeTZDtype):
        moments = series.dt.tz_convert(None).to_numpy()
        return made(
            moments.dtype.str[1:], Moments(moments, series.tolist),
            lambda found: pd.DatetimeIndex(found).tz_localize("UTC").tz_convert(dtype.tz).array,
        )  # fmt: skip
    kind = getattr(dtype, "kind", "O")
    if kind in "mM" and isinstance(dtype, np.dtype):
        return made(dtype.str[1:], Moments(series.to_numpy(), series.tolist), lambda found: found)
    if kind in "biuf":
        own = getattr(dtype, "numpy_dtype", None)
        numbers = series.to_numpy(dtype=own)
        type_ = {"b": "bool", "i": "int64", "u": "uint64"}.get(kind)
        return made(type_, numbers, lambda found: _numbers(found, dtype))
    if isinstance(dtype, np.dtype):
        return _of_objects(series, name)
    return made(str, series.tolist(), lambda found: pd.array(found.tolist(), dtype=dtype))


def _numbers(found: np.ndarray, dtype: Any) -> Any:
    """Numbers of a type; with nulls among them of pandas' own type that is like it."""
    if found.dtype == object and any(value is None for value in found):
        dtype = pd.Series([], dtype=dtype).convert_dtypes().dtype
    return pd.array(found, dtype=dtype)


def _of_objects(series: Any, name: str) -> Column:
    """A column of Python objects, whose type their classes tell."""
    values = series.tolist()
    kinds = set(map(type, values))
    found: tuple[Any, Any] = (str, values)
    if kinds == {bool}:
        found = "bool", np.array(values)
    elif kinds == {int}:
        found = "int64", values
    elif Decimal in kinds and kinds <= {int, Decimal}:
        found = Decimals(_places(values, name)), values
    elif all(issubclass(kind, (int, float, Decimal, np.number)) for kind in kinds):
        found = None, values
    elif kinds == {date}:
        found = "M8[D]", Moments(np.array(values, "M8[D]"), series.tolist)
    elif datetime in kinds or pd.Timestamp in kinds:
        raise InvalidValue(
            f"column {name!r} has datetimes as objects: convert it by pandas.to_datetime first"
        )
    ordered = found[0] is not str or kinds in ({str}, {bytes}, {UUID}, {time}, set())
    dtype = series.dtype
    return Column(name, str(dtype), *found, lambda results: results.astype(dtype), ordered)


def _places(values: list[Any], name: str) -> int:
    """The most places that any decimal of a column has."""
    most = 0
    for value in values:
        exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
        if not isinstance(exponent, int):
            raise InvalidValue(f"column {name!r} has {value}, which is no sum or extreme: drop it")
        most = max(most, -exponent)
    return most


def _array(result: Result) -> Any:
    """Results as an array that a column can be."""
    values, form, like, _ = result
    if like is not None and like.dtype.endswith(_ARROW):
        from mta.dataframes.of_arrow import to_arrow

        return pd.arrays.ArrowExtensionArray(to_arrow(result))
    if form == "value" and like is not None:
        return like.restored(values)
    if values.dtype == object or values.ndim > 1:
        return pd.Series(list(values), dtype=object).array
    # What is computed of pandas' own types, which may be null, is of such a type.
    return pd.array(values) if like is not None and like.dtype in _OWN else values


#: pandas' own numbers.
_OWN = {"boolean", "Float32", "Float64"} | {
    f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)
}
#: What the names of Arrow's types end with here.
_ARROW = "[pyarrow]"


def _as_arrow(series: Any) -> Any:
    """A column of one of Arrow's types as Arrow has it; None of others."""
    return series.array.__arrow_array__() if hasattr(series.dtype, "pyarrow_dtype") else None
