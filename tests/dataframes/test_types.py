"""Columns of every type of every library of frames: results, their types, keys and errors.

The oracle of a column of values is the positions that a window's results have among the rows, in
plain Python; what stands there, and of which type it is, the library itself says.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import (
    ArgMax,
    ArgMin,
    Collect,
    Count,
    First,
    Last,
    Max,
    Mean,
    Min,
    SampleStdDev,
    Sum,
    TimeWindow,
    rolling,
)  # fmt: skip
from mta.aggregations import CollectDistinct
from mta.errors import InvalidValue
from tests.support.sampling import REST

ROWS, SIZE = 40, 4
RNG = np.random.default_rng(5)
KEYS = RNG.integers(0, 3, ROWS).tolist()
DIGITS = RNG.integers(-9, 10, ROWS).tolist()
LETTERS = [chr(ord("k") + digit) for digit in DIGITS]


def moments(kind: Any) -> pa.Array:
    """Of a type, around 1970, to its last digit."""
    times = pa.types.is_time(kind)
    whole = [(digit % 19 if times else digit) * (86_400_000 if kind == pa.date64() else 7)
             for digit in DIGITS]  # fmt: skip
    return pa.array(whole, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


#: Columns of values of every type, each with the same order as ``DIGITS``.
VALUES: dict[str, pa.Array] = {
    **{str(kind): pa.array(DIGITS, kind) for kind in (pa.int8(), pa.int16(), pa.int32())},
    "int64": pa.array([digit * 2**58 for digit in DIGITS]),
    "uint8": pa.array([digit + 9 for digit in DIGITS], pa.uint8()),
    "uint64": pa.array([(digit + 9) * 2**58 for digit in DIGITS], pa.uint64()),
    "float": pa.array([digit / 8 for digit in DIGITS], pa.float32()),
    "double": pa.array([digit / 8 for digit in DIGITS]),
    "bool": pa.array([digit > 0 for digit in DIGITS]),
    "string": pa.array(LETTERS),
    "large_string": pa.array(LETTERS, pa.large_string()),
    "binary": pa.array([letter.encode() for letter in LETTERS]),
    "dictionary": pa.array(LETTERS).dictionary_encode(),
    "decimal128(10, 2)": pa.array([Decimal(d) / 4 for d in DIGITS], pa.decimal128(10, 2)),
    "decimal128(38, 10)": pa.array([Decimal(d) / 4 for d in DIGITS], pa.decimal128(38, 10)),
    **{
        str(kind): moments(kind)
        for kind in (
            pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"),
            pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("ns", "UTC"), pa.duration("ms"),
            pa.duration("ns"), pa.time32("s"), pa.time64("us"), pa.time64("ns"),
        )
    },
}  # fmt: skip
NULLABLE = {
    pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(), pa.uint8(): pd.UInt8Dtype(), pa.uint64(): pd.UInt64Dtype(),
    pa.float32(): pd.Float32Dtype(), pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype(), pa.large_string(): pd.StringDtype(),
}  # fmt: skip
LAYOUTS = "Arrow chunks", "Arrow batch", "pandas, any index"
#: Frames of every library, out of a table.
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda table: table,
    "Arrow chunks": lambda table: pa.concat_tables([table[:11], table[11:12], table[12:]]),
    "Arrow batch": lambda table: table.combine_chunks().to_batches()[0],
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(),
    "pandas nullable": lambda table: table.to_pandas(types_mapper=NULLABLE.get),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas, any index": lambda table: table.to_pandas().set_index(np.arange(len(table)) % 3),
}
#: Every type in frames of every library; in other layouts of the same, every fifth by default.
TYPES = [
    pytest.param(name, kind, marks=[REST] if kind in LAYOUTS and (at + nth) % 5 else [])
    for at, name in enumerate(VALUES)
    for nth, kind in enumerate(FRAMES)
]
AGGREGATIONS: dict[str, Any] = {
    "max": ("v", Max()), "min": ("v", Min()), "first": ("v", First()), "last": ("v", Last()),
    "at_max": (("w", "v"), ArgMax()), "at_min": (("w", "v"), ArgMin()), "n": Count(),
    "every": ("v", Collect()), "distinct": ("v", CollectDistinct()),
}  # fmt: skip
#: Which row each one of the window's rows stands for; the first of equal ones.
CHOICES: dict[str, Callable[[list[int], list[Any], list[float]], int]] = {
    "max": lambda rows, values, _: max(rows, key=values.__getitem__),
    "min": lambda rows, values, _: min(rows, key=values.__getitem__),
    "first": lambda rows, values, _: rows[0],
    "last": lambda rows, values, _: rows[-1],
    "at_max": lambda rows, values, w: max(rows, key=w.__getitem__),
    "at_min": lambda rows, values, w: min(rows, key=w.__getitem__),
}


def frame(name: str, kind: str) -> Any:
    """A frame of a library with a column ``v`` of a type."""
    weights = pa.array([digit * 7 % 5 / 2 for digit in DIGITS])
    made = FRAMES[kind](pa.table({"k": pa.array(KEYS), "v": VALUES[name], "w": weights}))
    if kind == "pandas" and isinstance(made["v"].dtype, pd.CategoricalDtype):
        made["v"] = made["v"].cat.add_categories(["unused"])
    return made


def listed(frame: Any, name: str) -> list[Any]:
    """A column, in a list; moments exactly, whatever Python makes of nanoseconds."""
    column = frame.column(name) if hasattr(frame, "column") else frame[name]
    if isinstance(getattr(column, "dtype", None), pd.ArrowDtype):
        column = column.array.__arrow_array__()
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        kind = column.type
        lists = pa.types.is_list(kind)
        if pa.types.is_temporal(kind.value_type if lists else kind):
            raw = pa.int32() if (kind.value_type if lists else kind).bit_width == 32 else pa.int64()
            column = column.cast(pa.list_(raw) if lists else raw)
        return column.to_pylist()
    if isinstance(column, pl.Series):
        inner = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
        if inner.is_temporal():
            raw = pl.Int32 if inner == pl.Date else pl.Int64
            column = column.cast(pl.List(raw) if isinstance(column.dtype, pl.List) else raw)
        return column.to_list()
    return column.tolist()


def type_of(frame: Any, name: str) -> Any:
    column = frame.column(name) if hasattr(frame, "column") else frame[name]
    return getattr(column, "dtype", None) or column.type


def windows() -> list[list[int]]:
    """For each row the rows of its window."""
    before: dict[int, list[int]] = {}
    found = []
    for row, key in enumerate(KEYS):
        before.setdefault(key, []).append(row)
        found.append(before[key][-SIZE:])
    return found


def cut(given: Any, count: int) -> Any:
    """The first rows of a frame."""
    return given.slice(0, count) if hasattr(given, "slice") else given[:count]


@pytest.mark.parametrize(("name", "kind"), TYPES)
def test_results_are_values_of_their_column_and_of_its_type(name: str, kind: str) -> None:
    if kind.startswith("pandas") and name == "time64[ns]" and kind != "pandas of Arrow":
        return  # pandas' own times of day have no nanoseconds
    given = frame(name, kind)
    found = rolling(given, by="k", window=SIZE, aggregations=AGGREGATIONS)
    assert type(found) is type(given)
    values, weights = listed(given, "v"), listed(given, "w")
    for alias, choose in CHOICES.items():
        expected = [values[choose(rows, values, weights)] for rows in windows()]
        assert listed(found, alias) == expected, alias
    assert listed(found, "every") == [[values[row] for row in rows] for rows in windows()]
    unique = [list(dict.fromkeys(values[row] for row in rows)) for rows in windows()]
    assert listed(found, "distinct") == unique
    own = type_of(given, "v")
    if name == "dictionary" and "Arrow" in kind:  # an encoding, not a type
        own = pd.ArrowDtype(pa.string()) if kind == "pandas of Arrow" else pa.string()
    for alias in CHOICES:
        assert type_of(found, alias) == own, alias
    for count in (0, 1):
        some = rolling(cut(given, count), by="k", window=SIZE, aggregations=AGGREGATIONS)
        assert len(some) == count
        types = {alias: type_of(found, alias) for alias in AGGREGATIONS}
        assert {alias: type_of(some, alias) for alias in AGGREGATIONS} == types


def expected_type(name: str, kind: str, aggregation: str) -> Any:
    """Of sums and means, in Arrow's terms."""
    whole = {"uint8": "uint64", "uint64": "uint64", "float": "double", "double": "double"}
    if name.startswith("decimal"):
        own = VALUES[name].type
        return pa.decimal128(38, own.scale) if aggregation == "sum" else pa.float64()
    found = whole.get(name, "int64") if aggregation == "sum" else "double"
    return pa.type_for_alias(found)


NUMBERS = [name for name, column in VALUES.items() if not isinstance(column[0].as_py(), (
    str, bytes, date, time, timedelta))]  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", NUMBERS)
def test_sums_and_means_of_numbers(name: str, kind: str) -> None:
    given = frame(name, kind)
    values = listed(given, "v")
    if name.endswith("int64"):
        given, values = cut(given, 3), values[:3]
    found = rolling(given, window=2, aggregations={"sum": ("v", Sum()), "mean": ("v", Mean())})
    pairs = [values[max(row - 1, 0) : row + 1] for row in range(len(values))]
    assert listed(found, "sum") == [sum(pair) for pair in pairs]
    means = [float(sum(pair)) / len(pair) for pair in pairs]
    assert np.allclose(np.array(listed(found, "mean")), means, rtol=1e-15)
    for some in (found, rolling(cut(given, 0), window=2, aggregations={
        "sum": ("v", Sum()), "mean": ("v", Mean())
    })):  # fmt: skip
        for alias in ("sum", "mean"):
            wanted = expected_type(name, kind, alias)
            if kind.startswith("pandas") and name.startswith("decimal") and "of Arrow" not in kind:
                assert type_of(found, alias) == (object if alias == "sum" else float)
                continue
            if kind == "polars":
                wanted = pl.from_arrow(pa.array([], wanted)).dtype
            elif kind == "pandas of Arrow":
                wanted = pd.ArrowDtype(wanted)
            elif kind == "pandas nullable":
                wanted = NULLABLE[wanted]
            elif kind.startswith("pandas"):
                wanted = np.dtype(wanted.to_pandas_dtype())
            assert type_of(some, alias) == wanted, alias


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", [name for name in VALUES if name not in NUMBERS])
def test_what_cannot_be_added_is_refused_by_name(name: str, kind: str) -> None:
    if kind.startswith("pandas") and name == "time64[ns]" and kind != "pandas of Arrow":
        return
    given = frame(name, kind)
    for monoid in (Sum(), Mean(), SampleStdDev()):
        refused = f"aggregation 'a': {monoid.name} reads numbers, and column 'v' is .*: convert it "
        with pytest.raises(InvalidValue, match=refused):
            rolling(given, by="k", window=2, aggregations={"a": ("v", monoid)})


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("int64", "Int64"), ("uint8", "UInt8"), ("Int32", "Int32"), ("bool", "boolean"),
        ("boolean", "boolean"), ("int64[pyarrow]", "int64[pyarrow]"), ("object", "object"),
        ("bool[pyarrow]", "bool[pyarrow]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["lag(1)", "nth_value(2)"])
def test_a_place_beyond_the_window_is_null_in_pandas(name: str, dtype: str, wanted: str) -> None:
    frame = pd.DataFrame({"n": pd.Series([1, 0, 1], dtype=dtype)})
    found = rolling(frame, window=2, aggregations={"a": ("n", name)})["a"]
    places = [None, 1, 0] if name == "lag(1)" else [None, 0, 1]
    assert found.dtype == wanted
    assert [None if pd.isna(value) else value for value in found] == places


#: By the name of an aggregation, those whose results are values of their column.
OF_VALUES: dict[str, Any] = {
    **{name: ("v", name) for name in ("max", "min", "first", "last", "mode")},
    "lag": ("v", "lag(1)"), "second": ("v", "nth_value(2)"),
    "list": ("v", "collect_list"), "top": ("v", "most_frequent(2)"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), TYPES)
def test_a_result_of_no_value_is_null_in_every_type(name: str, kind: str) -> None:
    """The windows are empty, have one value, are empty again, and have the third value."""
    if kind.startswith("pandas") and name == "time64[ns]" and kind != "pandas of Arrow":
        return
    column = VALUES[name].take(pa.array([0, 1, 2, None]))
    given = FRAMES[kind](pa.table({"t": pa.array([0, 1, 9, 10]), "v": column}))
    frame = TimeWindow(5, closed="left")
    found = rolling(given, on="t", window=frame, aggregations=OF_VALUES, nulls="skip")
    values = listed(given, "v")
    own = type_of(rolling(given, window=9, aggregations=OF_VALUES, nulls="skip"), "last")
    for alias in ("max", "min", "first", "last", "mode"):
        assert nulls_of(found, alias) == [True, False, True, False], alias
        assert [listed(found, alias)[at] for at in (1, 3)] == [values[0], values[2]], alias
        assert type_of(found, alias) == own, alias
    for alias in ("lag", "second"):
        assert nulls_of(found, alias) == [True] * 4, alias
        assert type_of(found, alias) == own, alias
    assert [list(each) for each in listed(found, "list")] == [[], values[:1], [], values[2:3]]
    assert [len(each) for each in listed(found, "top")] == [0, 1, 0, 1]
    if "Arrow" in kind:
        arrow = pa.array(found["top"])
        assert arrow.type == pa.list_(pa.struct({"value": column_type(own), "count": pa.int64()}))
        assert arrow.flatten().field(0).equals(column.take([0, 2]).cast(column_type(own)))


def column_type(own: Any) -> Any:
    """The Arrow type of a column."""
    return own.pyarrow_dtype if isinstance(own, pd.ArrowDtype) else own


def nulls_of(frame: Any, name: str) -> list[bool]:
    column = frame.column(name) if hasattr(frame, "column") else frame[name]
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column.is_null().to_pylist()
    return (column.is_null() if isinstance(column, pl.Series) else pd.isna(column)).to_list()
