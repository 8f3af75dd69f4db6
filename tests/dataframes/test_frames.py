"""Frames as ``rolling`` takes them: keys of every type, indexes, batches, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from functools import reduce
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import Collect, Count, CountWindow, KeyedWindows, Last, Max, Min, Sum, Window, rolling
from mta.aggregations import (
    BloomFilter,
    CheckedSum,
    CountMin,
    DistinctCount,
    FrequentItems,
    GeometricMean,
    KLLQuantiles,
    LongestIncreasingRun,
    MomentSketch,
)
from mta.errors import InvalidTime, InvalidValue, ResultOutOfRange, UnsuitableKey
from mta.keyed import rolling as module
from mta.monoids.basic import ArgMax, First
from stores import MemoryStore

COUNTS: Any = {"window": 9, "aggregations": {"n": Count(), "top": ("v", Max())}}
NOON = datetime(2020, 5, 17, 12, tzinfo=UTC)
KEYS: dict[str, tuple[list[Any], pa.DataType]] = {
    "integers": ([1, -1, 1, 7], pa.int32()),
    "booleans": ([True, False, True, True], pa.bool_()),
    "floats": ([0.0, 2.5, -0.0, 0.1], pa.float32()),
    "text": (["a", "", "a", "b"], pa.string()),
    "bytes": ([b"a", b"", b"a", b"b"], pa.binary()),
    "dictionaries": (["a", "b", "a", "c"], pa.dictionary(pa.int8(), pa.string())),
    "decimals": ([Decimal(n) for n in ("1.5", "2", "1.5", "-3")], pa.decimal128(38, 10)),
    "dates": ([NOON.date(), date(1, 1, 1), NOON.date(), date(9999, 1, 1)], pa.date32()),
    "datetimes": ([datetime(2020, 1, 1, n) for n in (1, 2, 1, 3)], pa.timestamp("ms")),
    "fine datetimes": ([datetime(2020, 1, 1, n) for n in (1, 2, 1, 3)], pa.timestamp("ns")),
    "zones": ([NOON + timedelta(n) for n in (1, 2, 1, 3)], pa.timestamp("us", "Asia/Tokyo")),
    "durations": ([timedelta(n) for n in (1, -2, 1, 3)], pa.duration("us")),
    "times of day": ([time(n) for n in (1, 2, 1, 3)], pa.time64("us")),
}
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda table: table,
    "Arrow chunks": lambda table: pa.concat_tables([table[:1], table[1:]]),
    "Arrow batch": lambda table: table.combine_chunks().to_batches()[0],
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas index": lambda table: table.to_pandas().set_index("k"),
    "pandas levels": lambda table: table.to_pandas().set_index(["k", "w"]),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 3)
    values, own = KEYS[name]
    table = pa.table({"k": pa.array(values, own), "w": ["x", "y", "y", "x"], "v": range(4)})
    if kind == "Arrow chunks" and name == "dictionaries":
        parts = [pa.array(part, pa.string()).dictionary_encode() for part in (["b", "a"], ["c"])]
        table = pa.table({"k": pa.chunked_array(parts), "w": ["x", "y", "y"], "v": range(3)})
        values = ["b", "a", "c"]
    given = FRAMES[kind](table)
    both = list(zip(values, table["w"].to_pylist(), strict=True))
    for by, keys, store in (
        ("k", values, None),
        ("k", values, MemoryStore()),
        (["k", "w"], both, MemoryStore()),
        (["w"], [w for _, w in both], None),
    ):
        counts = [keys[: at + 1].count(key) for at, key in enumerate(keys)]
        found = rolling(given, by=by, store=store, **COUNTS)
        assert type(found) is type(given)
        column = found.column("n") if hasattr(found, "column") else found["n"]
        assert np.asarray(column).tolist() == counts
        if isinstance(given, pd.DataFrame):
            assert found.index.equals(given.index)
            assert found.drop(columns=["n", "top"]).equals(given)


def test_mixed_and_missing_keys_are_refused_with_the_column() -> None:
    for values, message in (
        ([1, True], "column 'k': keys are all of"), ([[1], [1]], "column 'k': the key .* is"),
        ([1.5, np.nan], "column 'k': some keys are null"), (["a", None], "column 'k': some keys"),
    ):  # fmt: skip
        table = pd.DataFrame({"w": [1, 1], "k": pd.Series(values, dtype=object), "v": [1, 2]})
        for by in ("k", ["w", "k"]):
            with pytest.raises(UnsuitableKey, match=message):
                rolling(table, by=by, **COUNTS)


def test_without_a_key_all_rows_have_one_window() -> None:
    table = pd.DataFrame({"t": [30, 10, 20], "v": [1.0, 5.0, 3.0]})
    for make in (FRAMES["Arrow"], FRAMES["Arrow batch"], FRAMES["polars"], FRAMES["pandas"]):
        given = make(pa.Table.from_pandas(table))
        by_count = rolling(given, window=2, aggregations={"top": ("v", Max())})
        assert np.asarray(by_count["top"]).tolist() == [1.0, 5.0, 5.0]
        times = pd.to_datetime(table["t"], unit="s")
        given = make(pa.Table.from_pandas(table.assign(t=times)))
        by_time = rolling(given, on="t", window="15 seconds", aggregations={"top": ("v", Max())})
        assert np.asarray(by_time["top"]).tolist() == [3.0, 5.0, 5.0]


def test_a_level_of_an_index_is_a_column() -> None:
    times = pd.to_datetime([30, 10, 20, 25], unit="s")
    flat = pd.DataFrame({"t": times, "k": list("aabb"), "v": [1, 5, 3, 2]})
    wanted = {"by": "k", "on": "t", "window": "15 seconds", "aggregations": {"s": ("v", Sum())}}
    expected = rolling(flat, **wanted)["s"].tolist()
    assert expected == [1, 5, 3, 5]
    for levels in (["t"], ["k"], ["t", "k"], ["k", "t"]):
        given = flat.set_index(levels)
        found = rolling(given, **wanted)
        assert found["s"].tolist() == expected
        assert found.index.equals(given.index)
    last = rolling(flat.set_index(["k", "t"]), by="k", window=1, aggregations={"t": ("t", Last())})
    assert last["t"].tolist() == times.tolist()
    with pytest.raises(InvalidValue, match="there are several columns 'k', one of them a level of"):
        rolling(flat.set_index("k", drop=False), **wanted)
    unnamed = flat.set_index("t").rename_axis(None)
    with pytest.raises(ValueError, match=r"frame.rename_axis\('time'\), and give on='time'"):
        rolling(unnamed, by="k", window="15 seconds", aggregations={"n": Count()})


def test_a_record_batch_of_one_row_has_numbers() -> None:
    batch = pa.RecordBatch.from_pydict({"k": ["a"], "v": [1.5]}, metadata={"made": "here"})
    found = rolling(batch, by="k", **COUNTS)
    assert isinstance(found, pa.RecordBatch)
    assert found.schema.types == [pa.string(), pa.float64(), pa.int64(), pa.float64()]
    assert found.schema.metadata == batch.schema.metadata
    assert found.to_pylist() == [{"k": "a", "v": 1.5, "n": 1, "top": 1.5}]


def test_decimals_have_the_type_of_their_column_whatever_its_values() -> None:
    aggregations = {"top": ("v", Max()), "sum": ("v", Sum()), "all": ("v", Collect())}
    own = pa.decimal128(12, 3)
    parts = []
    for values in (["1.5"], ["123456789.125", "0.001"], []):
        column = pa.array([Decimal(value) for value in values], own)
        found = rolling(pa.table({"v": column}), window=2, aggregations=aggregations)
        assert found.schema.types == [own, own, pa.decimal128(38, 3), pa.list_(own)]
        parts.append(found)
    assert pa.concat_tables(parts)["sum"].to_pylist()[:2] == [
        Decimal("1.5"),
        Decimal("123456789.125"),
    ]


def long_values(count: int = 60) -> list[Decimal | None]:
    """Decimals of 36 digits with two places, some of them equal or null."""
    chance = random.Random(4)
    few = [Decimal(f"{chance.randint(-(10**36), 10**36)}E-2") for _ in range(9)]
    return [None if chance.random() < 0.1 else chance.choice(few) for _ in range(count)]


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow", "Arrow, 256 bits"])
def test_long_decimals_are_exact(kind: str) -> None:
    values, exact = long_values(), Context(prec=60)
    own = pa.decimal256(50, 2) if "256" in kind else pa.decimal128(36, 2)
    table = pa.table({"w": range(60), "v": pa.array(values, own)})
    made = {"pandas": lambda: table.to_pandas(), "polars": lambda: pl.from_arrow(table)}
    frame: Any = made.get(kind, lambda: table)()
    asked = {
        name: ("v", name)
        for name in ("max", "min", "first", "last", "lag(1)", "nunique", "mode", "collect_list",
                     "sum", "sum_distinct", "mean")
    } | {"max_by": (("v", "w"), "max_by")}  # fmt: skip
    given = rolling(frame, window=4, aggregations=asked)
    found = given if isinstance(given, pa.Table) else pa.Table.from_pandas(given) if (
        kind == "pandas") else given.to_arrow()  # fmt: skip
    if kind != "pandas":
        assert {found.schema.field(name).type for name in ("max", "first", "lag(1)", "max_by")} == {
            own
        }
    for row in range(60):
        of = values[max(row - 3, 0) : row + 1]
        full = [each for each in of if each is not None]
        result = {name: found[name][row].as_py() for name in asked}
        assert result["max"] == max(full, default=None)
        assert result["min"] == min(full, default=None)
        assert result["first"] == next(iter(full), None)
        assert result["last"] == next(reversed(full), None)
        assert (result["collect_list"], result["nunique"]) == (full, len(set(full)))
        best = min(set(full), key=lambda each: (-full.count(each), each), default=None)
        assert result["mode"] == best
        total = reduce(exact.add, full, Decimal())
        assert result["sum"] == (total if full else None)
        once = reduce(exact.add, set(full), Decimal())
        assert result["sum_distinct"] == (once if full else None)
        assert (
            result["mean"] is None
            if not full
            else np.isclose(result["mean"], float(total) / len(full), rtol=1e-12)
        )
        assert result["max_by"] == (of[-1] if of[-1] is not None else next(reversed(full), None))


@pytest.mark.parametrize("kind", ["polars", "Arrow"])
def test_a_sum_of_more_than_38_digits_is_an_error(kind: str) -> None:
    table = pa.table({"v": pa.array([Decimal("9" * 38)] * 2, pa.decimal128(38, 0))})
    frame = pl.from_arrow(table) if kind == "polars" else table
    with pytest.raises(ResultOutOfRange, match="of column 'v' has more than 38 digits"):
        rolling(frame, window=2, aggregations={"sum": ("v", "sum")})
    rolled = rolling(frame, window=2, aggregations={"sum": ("v", Sum("float64"))})
    assert rolled["sum"].to_pylist()[-1] == 2e38 if kind == "Arrow" else rolled["sum"][-1] == 2e38


def test_extremes_by_long_decimals_are_refused() -> None:
    table = pa.table({"v": pa.array(long_values(), pa.decimal128(36, 2)), "w": range(60)})
    with pytest.raises(InvalidValue, match="'v' has decimals of more than 18 digits: cast it"):
        rolling(table, window=2, aggregations={"a": (("w", "v"), "max_by")})


def test_a_sum_beyond_its_type_names_the_aggregation_and_what_to_write() -> None:
    table = pd.DataFrame({"v": [2**62, 2**62]})
    message = r"aggregation 'all' is beyond .*: choose a monoid .* are doubles, such as Sum\(.fl"
    with pytest.raises(ResultOutOfRange, match=message):
        rolling(table, window=2, aggregations={"all": ("v", Sum())})
    found = rolling(table, window=2, aggregations={"all": ("v", Sum("float64"))})
    assert found["all"].tolist() == [2.0**62, 2.0**63]


def test_what_is_no_frame_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"a LazyFrame has no rows yet: pass frame.collect\(\)"):
        rolling(pl.LazyFrame({"v": [1]}), **COUNTS)
    with pytest.raises(TypeError, match="rolling takes a pandas or polars DataFrame or an A"):
        rolling(pa.table({"v": [1]}).to_reader(), **COUNTS)

    class Own(pd.DataFrame):
        """A frame of a class of its own."""

    assert rolling(Own({"v": [1, 2]}), **COUNTS)["top"].tolist() == [1, 2]


@pytest.mark.parametrize("column", ["v", "s", "t", "d", "b", "x"])
def test_a_null_that_is_refused_names_its_column(column: str) -> None:
    table = pa.table({
        "v": [1.0, None], "s": ["a", None], "t": [NOON, None], "d": [Decimal(1), None],
        "b": [True, None], "x": [1, None],
    })  # fmt: skip
    frames: list[Any] = [
        table, table.to_batches()[0], pl.from_arrow(table), table.to_pandas(),
        table.to_pandas(types_mapper=pd.ArrowDtype), table.to_pandas().convert_dtypes(),
    ]  # fmt: skip
    for given in frames:
        with pytest.raises(InvalidValue, match=f"column '{column}' has 1 nulls .* in row 1: ") as e:
            rolling(given, window=2, aggregations={"a": (column, Last())}, nulls="raise")
        assert "choose nulls='skip'" in str(e.value)
    for given in (pa.table({"v": [1.0, np.nan]}), pl.DataFrame({"v": [1.0, np.nan]})):
        with pytest.raises(InvalidValue, match=r"column 'v' has 1 NaN in 2 rows.*nan='skip'"):
            rolling(given, window=2, aggregations={"a": ("v", Last())})


def test_what_has_an_order_of_its_own_has_no_extremes() -> None:
    sizes = ["small", "large", "small"]
    ordered = pd.CategoricalDtype(["small", "large"], ordered=True)
    frames: list[Any] = [
        pd.DataFrame({"v": pd.Categorical(sizes, dtype=ordered)}),
        pl.DataFrame({"v": pl.Series(sizes, dtype=pl.Enum(["small", "large"]))}),
        pl.DataFrame({"v": [[1], [2], [3]]}), pa.table({"v": [{"a": 1}, {"a": 2}, {"a": 3}]}),
        pd.DataFrame({"v": [{}, {}, {}]}), pd.DataFrame({"v": [1, "a", b"a"]}),
        pd.DataFrame({"v": [1j, 2j, 3j]}),
        pl.DataFrame({"v": pl.Series([1j] * 3, dtype=pl.Object)}),
    ]  # fmt: skip
    for given in frames:
        for monoid in (Min(), Max()):
            with pytest.raises(
                InvalidValue, match=r"aggregation 'a': column 'v' is .* whose order is undefined"
            ):
                rolling(given, window=2, aggregations={"a": ("v", monoid)})
        found = rolling(given, window=2, aggregations={"a": ("v", Last()), "b": ("v", First())})
        for alias, at in (("a", [0, 1, 2]), ("b", [0, 0, 1])):
            values = given["v"].to_pylist() if isinstance(given, pa.Table) else list(given["v"])
            column = found[alias].to_pylist() if isinstance(given, pa.Table) else list(found[alias])
            assert repr(column) == repr([values[row] for row in at])
        assert getattr(found["a"], "dtype", None) == getattr(given["v"], "dtype", None)


def test_names_of_results_and_columns_do_not_clash() -> None:
    table = pd.DataFrame({"v": [1, 2], 7: [3, 4]})
    assert list(rolling(table, **COUNTS).columns) == ["v", 7, "n", "top"]
    for window, name in ((2, "v"), ({"b": 2}, "v_b")):
        with pytest.raises(ValueError, match=f"there would be two columns '{name}'"):
            rolling(table.assign(v_b=1), window=window, aggregations={"v": ("v", Max())})


def test_columns_of_objects_have_the_type_of_their_values() -> None:
    columns: dict[str, list[Any]] = {
        "date": [date(2020, 1, 2), date(2020, 1, 1)], "decimal": [Decimal("0.1"), Decimal("0.25")],
        "bool": [True, False], "int": [2**62, 1], "text": ["b", "a"], "bytes": [b"b", b"a"],
        "uuid": [UUID(int=2), UUID(int=1)], "numbers": [1, 0.5], "none": [],
    }  # fmt: skip
    for name, values in columns.items():
        table = pd.DataFrame({"v": pd.Series(values, dtype=object)})
        found = rolling(table, window=1, aggregations={"a": ("v", Max()), "b": ("v", Last())})
        for alias in ("a", "b"):
            assert found[alias].tolist() == values
            assert found[alias].dtype == object
            assert list(map(type, found[alias])) == list(map(type, values)) or name == "numbers"
    counted = pd.DataFrame({"v": pd.Series([True, False, True], dtype=object)})
    found = rolling(counted, window=3, aggregations={"a": ("v", Sum())})["a"]
    assert (found.tolist(), found.dtype) == ([1, 1, 2], np.int64)
    with pytest.raises(InvalidValue, match="column 'v' has datetimes as objects: convert it with"):
        rolling(pd.DataFrame({"v": pd.Series([NOON], dtype=object)}), **COUNTS)


ITEMS = "list<item: struct<item: string, estimate: int64>>"
#: Aggregations whose results are no numbers: the type in Arrow, and the last result of three rows.
OBJECTS: dict[str, tuple[Any, str, Any]] = {
    "frequent": (("s", FrequentItems()), ITEMS, [{"item": "b", "estimate": 2}]),
    "quantile": (("v", KLLQuantiles()), "double", 2.0),
    "quantiles": (("v", KLLQuantiles([0, 1])), "list<item: double>", [2.0, 2.0]),
    "moments": (("v", MomentSketch([0, 1])), "list<item: double>", [2.0, 2.0]),
    "distinct": (("s", DistinctCount()), "double", 1.0),
    "run": (
        (("v", "t"), LongestIncreasingRun("M8[us]")),
        "struct<start: timestamp[us], end: timestamp[us], interval: duration[us], "
        "length: int64, before: int64, events: int64>",
        {"start": datetime(2020, 1, 2), "end": datetime(2020, 1, 2), "interval": timedelta(0),
         "length": 1, "before": 0, "events": 2},
    ),
    "bloom": (("s", BloomFilter(100)), "binary", None),
    "counts": (("s", CountMin()), "binary", None),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_results_that_are_no_numbers_have_a_type_too(name: str) -> None:
    aggregation, kind, last = OBJECTS[name]
    days = [datetime(2020, 1, day) for day in (1, 2, 3)]
    table = pa.table({"v": [1.0, 2.0, 2.0], "s": ["a", "b", "b"], "t": days})
    for count in (3, 0):
        given = table[:count]
        found = rolling(given, window=2, aggregations={"a": aggregation}).column("a")
        assert str(found.type) == kind
        if last is not None and count:
            assert found.to_pylist()[-1] == last
        of_polars = rolling(pl.from_arrow(given), window=2, aggregations={"a": aggregation})["a"]
        assert of_polars.dtype == pl.from_arrow(pa.table({"a": found}))["a"].dtype
        assert last is None or of_polars.to_list() == found.to_pylist()
        in_pandas = given.to_pandas(types_mapper=pd.ArrowDtype)
        of_pandas = rolling(in_pandas, window=2, aggregations={"a": aggregation})["a"]
        assert of_pandas.dtype == pd.ArrowDtype(found.type)
        assert len(rolling(given.to_pandas(), window=2, aggregations={"a": aggregation})) == count


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_windows_have_extremes_of_moments(unit: str) -> None:
    """Without a frame: the type is given."""
    for letter in ("M8", "m8"):
        dtype = np.dtype(f"{letter}[{unit}]")
        times = np.array([5, 3, 9, 1, 7], dtype)
        for monoid, expected in (
            (Max(dtype), [5, 5, 9, 9, 9]), (Min(dtype), [5, 3, 3, 1, 1]),
            (First(dtype), [5, 5, 5, 3, 9]), (Last(dtype), [5, 3, 9, 1, 7]),
        ):  # fmt: skip
            window = Window(monoid, CountWindow(3))
            assert np.isnat(window.query())
            found = window.extend(times)
            assert (found.dtype, found.astype("i8").tolist()) == (dtype, expected)
            keyed = KeyedWindows(monoid, CountWindow(3), MemoryStore(), "moments")
            assert keyed.extend([1] * 5, times).astype("i8").tolist() == expected
            keyed = KeyedWindows.restore(keyed.checkpoint(), keyed.store)
            assert np.array([keyed.query(1)], dtype)[0] == found[-1]
            assert keyed.query(2) is None
        best = KeyedWindows(ArgMax(dtype), CountWindow(3))
        found = best.extend([1] * 5, (np.array([1.0, 2, 0, 0, 1]), times))
        assert found.astype("i8").tolist() == [5, 3, 3, 3, 7]


def test_moments_and_booleans_by_type_have_no_sum() -> None:
    for dtype in ("M8[us]", "m8[s]", "?"):
        for monoid in (Sum, CheckedSum):
            with pytest.raises(InvalidValue, match=r"a sum needs numbers, not (bool|dat|timed)"):
                monoid(dtype)


def test_a_refused_value_is_found_beside_other_aggregations() -> None:
    table = pd.DataFrame({"v": [1.0, -1.0]})
    with pytest.raises(
        InvalidValue, match=r"aggregation 'b' of column 'v': 1 of 2 .* in row 1: ch"
    ):
        rolling(table, window=2, aggregations={"n": Count(), "b": ("v", GeometricMean())})


def test_times_are_named_where_they_are_none() -> None:
    table = pd.DataFrame({"t": ["soon", "now"], "v": [1, 2]})
    wanted: Any = {"on": "t", "window": "1 hour", "aggregations": {"n": Count()}}
    for given in (table, pl.from_pandas(table), pa.Table.from_pandas(table)):
        with pytest.raises(InvalidTime, match="column 't': "):
            rolling(given, **wanted)
