"""Data frames of polars."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
import polars as pl

from mta.dataframes.base import (
    DECIMALS,
    SUM_DIGITS,
    Column,
    DataFrame,
    Maker,
    Result,
    TemporalColumn,
    counted,
    decimals,
    flattened,
    marked,
    plain_value,
    read_type,
    require_fit,
    split,
)


class PolarsDataFrame(DataFrame):
    """A polars DataFrame."""

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def raw(self, name: str) -> Any:
        return self.frame.get_column(name)

    def column(self, name: str) -> Column:
        return _read(self.frame.get_column(name), name)

    def with_columns(self, results: Mapping[str, Result]) -> Any:
        return self.frame.with_columns([_series(*pair) for pair in results.items()])

    def of_arrow(self, table: Any) -> Any:
        return pl.from_arrow(table)

    def beside(self, more: Any) -> Self:
        return type(self)(self.frame.with_columns(more.get_columns()))

    def selected(self, columns: Mapping[str, str]) -> Self:
        return type(self)(self.frame.select([pl.col(old).alias(n) for n, old in columns.items()]))

    def without_nans(self, names: Collection[str]) -> Self:
        floats = [n for n in names if self.frame.schema[n].is_float()]
        return type(self)(self.frame.with_columns(pl.col(floats).fill_nan(None)))


def _restored(kind: pl.DataType, values: np.ndarray) -> Any:
    """Return results as a column of the type that was read."""
    if values.dtype.kind in "mM":
        raw = pl.Series(values.view("i8")).scatter(np.flatnonzero(np.isnat(values)), None)
        return (raw.cast(pl.Int32) if kind == pl.Date else raw).cast(kind)
    if values.dtype == object:
        return pl.Series(values.tolist(), dtype=kind, strict=False)
    return pl.Series(values).cast(kind)


def _read(series: pl.Series, name: str) -> Column:
    kind = series.dtype
    nulls = series.is_null().to_numpy() if series.null_count() else None

    def made(type_: Any, values: Any, ordered: bool = True, nans: Any = None) -> Column:
        restored = partial(_restored, kind)
        return Column(name, str(kind), type_, values, restored, ordered, nulls, nans)

    def filled(series: pl.Series, zero: Any = 0) -> pl.Series:
        return series if nulls is None else series.fill_null(zero)

    if unit := _unit(kind):
        moments = filled(series.to_physical()).to_numpy().astype("i8").view(unit)
        lossless = np.datetime_data(moments.dtype)[0] != "ns"
        return made(
            unit, TemporalColumn(moments, series.to_list if lossless else lambda: list(moments))
        )
    if kind == pl.Boolean:
        return made("bool", filled(series, False).to_numpy())
    if kind.is_integer():
        whole = filled(series)
        numbers = whole.to_list() if str(kind).endswith("128") else whole.to_numpy()
        return made("uint64" if kind.is_unsigned_integer() else "int64", numbers)
    if kind.is_float():
        doubles = filled(series).to_numpy()
        return made(None, doubles, nans=marked(np.isnan(doubles)))
    if isinstance(kind, pl.Decimal):
        return made(*decimals(filled(series.to_physical()).to_list(), kind.scale or 0))
    return made(str, series.to_list(), ordered=kind in (pl.String, pl.Binary, pl.Categorical))


def _series(name: str, result: Result) -> pl.Series:
    values, nulls = split(result.values)
    found = _plain_series(name, result._replace(values=values))
    return found if nulls is None else found.scatter(np.flatnonzero(nulls), None)


def _plain_series(name: str, result: Result) -> pl.Series:
    values, form, like, sql = result
    if form == "value" and like is not None:
        return like.restored(values).alias(name)  # type: ignore[no-any-return]
    if form == "list" and like is not None:
        flat, ends = flattened(values)
        return _lists(name, like.restored(flat), ends)
    if form == "counts" and like is not None:
        column, counts, ends = counted(values, like)
        fields = {"value": like.restored(column), "count": pl.Series(counts, dtype=pl.Int64)}
        return _lists(name, pl.DataFrame(fields).to_struct(), ends)
    if form == "sum" and like is not None and isinstance(like.type, DECIMALS):
        kind = pl.Decimal(SUM_DIGITS, like.type.places)
        return require_fit(lambda: pl.Series(name, values.tolist(), dtype=kind), result)
    if sql is not None:
        plain = [plain_value(value, sql) for value in values]
        return pl.Series(name, plain, dtype=read_type(sql, _MAKER))
    return pl.Series(name, values.tolist() if values.dtype == object else values)


def _lists(name: str, every: pl.Series, ends: np.ndarray) -> pl.Series:
    """Return a series of lists, from the values of all lists and the bounds of each."""
    lists = [every[start:stop] for start, stop in pairwise(ends.tolist())]
    # With a dtype, polars would convert all values to Python datetimes, and lose nanoseconds.
    return pl.Series(name, lists, dtype=None if lists else pl.List(every.dtype))


_MAKER = Maker(
    {
        "double": pl.Float64, "bigint": pl.Int64, "string": pl.String, "binary": pl.Binary,
        "timestamp": pl.Datetime("us"), "interval day to second": pl.Duration("us"),
    },
    pl.List,
    pl.Struct,
)  # fmt: skip


def _unit(kind: Any) -> str | None:
    """Return the numpy dtype of times of a polars type; None for other types."""
    if kind == pl.Date:
        return "M8[D]"
    if isinstance(kind, pl.Datetime):
        return f"M8[{kind.time_unit}]"
    if isinstance(kind, pl.Duration):
        return f"m8[{kind.time_unit}]"
    return "m8[ns]" if kind == pl.Time else None
