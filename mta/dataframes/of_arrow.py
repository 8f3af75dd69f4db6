"""Tables and record batches of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mta.columns.reading import Scaled, objects
from mta.columns.schemas import DIGITS, Decimals, LongDecimals
from mta.columns.texts import NULL, text_column, text_of_codes
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
    type_of,
)

_types = pa.types


class ArrowDataFrame(DataFrame):
    """An Arrow table or record batch."""

    @property
    def names(self) -> list[str]:
        return list(self.frame.schema.names)

    def raw(self, name: str) -> Any:
        return self.frame.column(name)

    def column(self, name: str) -> Column:
        return read(self.frame.column(name), name)

    def with_columns(self, results: Mapping[str, Result]) -> Any:
        frame, schema = self.frame, self.frame.schema
        added = {name: to_arrow(result) for name, result in results.items()}
        for name, column in added.items():
            schema = schema.append(pa.field(name, column.type))
        return type(frame).from_arrays([*frame.columns, *added.values()], schema=schema)

    def of_arrow(self, table: Any) -> Any:
        return table

    def beside(self, more: Any) -> Self:
        table = self.frame if isinstance(self.frame, pa.Table) else pa.table(self.frame)
        for field in more.schema:
            table = table.append_column(field, more.column(field.name))
        return type(self)(table)

    def selected(self, columns: Mapping[str, str]) -> Self:
        return type(self)(self.frame.select([*columns.values()]).rename_columns([*columns]))

    def without_nans(self, names: Collection[str]) -> Self:
        columns = [
            pc.if_else(pc.is_nan(column), None, column)
            if name in names and _types.is_floating(column.type) else column
            for name, column in zip(self.names, self.frame.columns, strict=True)
        ]  # fmt: skip
        return type(self)(type(self.frame).from_arrays(columns, names=self.names))


def read(column: Any, name: str) -> Column:
    """Return an Arrow column in the form that aggregations read."""
    given = str(column.type)
    if _types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    nulls = marked(np.asarray(column.is_null())) if column.null_count else None

    def restored(values: np.ndarray) -> Any:
        if values.dtype.kind in "mM":
            raw = pa.array(values.view("i8"), mask=np.isnat(values))
            return (raw.cast(pa.int32()) if kind.bit_width == 32 else raw).view(kind)
        if values.dtype == object:
            return pa.array(values.tolist(), kind)
        return pa.array(values).cast(kind)

    def made(type_: Any, values: Any, ordered: bool = True, nans: Any = None) -> Column:
        return Column(name, given, type_, values, restored, ordered, nulls, nans)

    def filled(column: Any, zero: Any = 0) -> Any:
        return column if nulls is None else pc.fill_null(column, pa.scalar(zero, column.type))

    if unit := _unit(kind):
        raw = np.asarray(filled(column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())))
        moments = raw.astype("i8").view(unit)
        lossless = np.datetime_data(moments.dtype)[0] != "ns"
        return made(
            unit, TemporalColumn(moments, column.to_pylist if lossless else lambda: list(moments))
        )
    if _types.is_boolean(kind) or _types.is_integer(kind) or _types.is_floating(kind):
        numbers = np.asarray(filled(column, False if _types.is_boolean(kind) else 0))
        nans = marked(np.isnan(numbers)) if _types.is_floating(kind) else None
        return made(type_of(numbers.dtype), numbers, nans=nans)
    if _types.is_decimal(kind):
        return made(*decimals_of(filled(column, Decimal())))
    return made(str, _objects(column), ordered=not _types.is_nested(kind))


def _objects(column: Any) -> Any:
    """Return the values of a column of strings, bytes or nested values."""
    kind = column.type
    if _types.is_string(kind) or _types.is_large_string(kind):
        return _text(column)
    return np.asarray(column).tolist() if _types.is_binary(kind) else column.to_pylist()


def _text(column: Any) -> Any:
    """Return a column of strings as text; 20 ns per value."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # more than an array can hold
        return text_column(whole.to_pylist())
    known = whole.dictionary_encode()
    codes = known.indices.fill_null(NULL).to_numpy(zero_copy_only=False).astype(np.int64)
    return text_of_codes(codes, known.dictionary.to_pylist())


def decimals_of(column: Any) -> tuple[Decimals | LongDecimals, Any]:
    """Return the type and the values of a column of decimals without nulls; 0.3 us per value."""
    if column.type.scale < 0:
        column = column.cast(pa.decimal256(76, 0))
    kind = column.type
    if kind.bit_width > 128:
        units = [int(DIGITS.scaleb(each, kind.scale)) for each in column.to_pylist()]
        return decimals(units, kind.scale)
    low, high = words_of(column)
    if (high == low >> 63).all():
        return Decimals(kind.scale), Scaled(low, kind.scale)
    pairs = zip(high.tolist(), np.ascontiguousarray(low).view("u8").tolist(), strict=True)
    units = [(upper << 64) | lower for upper, lower in pairs]
    return LongDecimals(kind.scale), Scaled(objects(units), kind.scale)


def words_of(column: Any) -> Any:
    """Return the lower and the upper 64 bits of decimals without nulls, as two arrays of int64."""
    array = column.cast(pa.decimal128(38, column.type.scale))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    words = np.frombuffer(array.buffers()[1], "<i8", 2 * (array.offset + len(array)))
    return words.reshape(-1, 2)[array.offset :].T


def to_arrow(result: Result) -> Any:
    """Return results as an Arrow array."""
    values, nulls = split(result.values)
    found = _to_arrow(result._replace(values=values))
    return found if nulls is None else pc.if_else(pa.array(nulls), None, found)


def _to_arrow(result: Result) -> Any:
    values, form, like, sql = result
    if form == "value" and like is not None:
        return like.restored(values)
    if form == "list" and like is not None:
        flat, ends = flattened(values)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), like.restored(flat))
    if form == "counts" and like is not None:
        column, counts, ends = counted(values, like)
        fields = [like.restored(column), pa.array(counts, pa.int64())]
        pairs = pa.StructArray.from_arrays(fields, ["value", "count"])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs)
    if form == "sum" and like is not None and isinstance(like.type, DECIMALS):
        scale = like.type.places
        wide = pa.decimal128 if scale <= SUM_DIGITS else pa.decimal256
        kind = wide(max(SUM_DIGITS, scale), scale)
        return require_fit(lambda: pa.array(values.tolist(), kind), result)
    if sql is not None:
        return pa.array([plain_value(value, sql) for value in values], read_type(sql, _MAKER))
    if values.dtype == object or values.ndim > 1:
        return pa.array(values.tolist())
    return pa.array(values)


_MAKER = Maker(
    {
        "double": pa.float64(), "bigint": pa.int64(), "string": pa.string(), "binary": pa.binary(),
        "timestamp": pa.timestamp("us"), "interval day to second": pa.duration("us"),
    },
    pa.list_,
    pa.struct,
)  # fmt: skip


def _unit(kind: Any) -> str | None:
    """Return the numpy dtype of times of an Arrow type; None for other types."""
    if _types.is_date32(kind):
        return "M8[D]"
    if _types.is_date64(kind):
        return "M8[ms]"
    if _types.is_timestamp(kind):
        return f"M8[{kind.unit}]"
    return f"m8[{kind.unit}]" if _types.is_duration(kind) or _types.is_time(kind) else None
