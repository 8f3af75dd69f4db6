"""Nulls, NaN, filters and ``min_samples``: entry points agree with DuckDB on random tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mta import (
    ArgMax,
    Collect,
    Count,
    CountWindow,
    First,
    KeyedWindows,
    Last,
    Max,
    Mean,
    Median,
    Min,
    Monoid,
    Product,
    SampleStdDev,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    Window,
    rolling,
)
from mta.aggregations import AllTrue, AnyTrue, CountIf, ExactDistinctCount, Lag, LagText, NthValue
from mta.columns.schemas import Array, Decimals, Nullable
from mta.errors import CorruptPage, InvalidValue, SnapshotMismatch
from mta.monoids.product import skip_nulls
from stores import MemoryStore

ROWS = 240
START = np.datetime64("2026-01-01T00:00:00", "us")

#: Each aggregation, and what SQL calls it; ``{f}`` is where a filter stands.
SQL: dict[str, tuple[Any, str]] = {
    "total": (("f", Sum()), "sum(f)"),
    "mean": (("f", "mean"), "avg(f)"),
    "spread": (("f", SampleStdDev()), "stddev_samp(f)"),
    "middle": (("f", Median()), "median(f)"),
    "whole": (("i", Sum()), "sum(i)"),
    "peak": (("i", Max()), "max(i)"),
    "low": (("i", Min()), "min(i)"),
    "rows": (Count(), "count(*)"),
    "values": (Count("i"), "count(i)"),
    "texts": (("t", Count()), "count(t)"),
    "oldest": (("t", First()), "first(t IGNORE NULLS)"),
    "newest": (("t", "last"), "last(t IGNORE NULLS)"),
    "as_is": (("i", Last(skip_nulls=False)), "last(i)"),
    "text_as_is": (("t", First(skip_nulls=False)), "first(t)"),
    "third": (("i", NthValue(3)), "nth_value(i, 3 IGNORE NULLS)"),
    "third_as_is": (("f", "nth_value(3, skip_nulls=False)"), "nth_value(f, 3)"),
    "third_text": (("t", NthValue(3)), "nth_value(t, 3 IGNORE NULLS)"),
    "third_text_as_is": (("t", NthValue(3, skip_nulls=False)), "nth_value(t, 3)"),
    "price": (("d", Sum()), "sum(d)"),
    "latest": (("m", Max()), "max(m)"),
    "any": (("b", AnyTrue()), "bool_or(b)"),
    "every": (("b", AllTrue()), "bool_and(b)"),
    "many": (("b", CountIf()), "count(*) FILTER (WHERE b)"),
    "best": ((("i", "t"), ArgMax()), "arg_max(t, i)"),
    "kinds": (("t", ExactDistinctCount()), "count(DISTINCT t)"),
    "all": (("f", Collect()), "coalesce(list(f) FILTER (WHERE f IS NOT NULL), [])"),
    "of_some": (("f", Sum(), "b"), "sum(f) FILTER (WHERE b)"),
    "peak_of_some": (("i", "max", "b"), "max(i) FILTER (WHERE b)"),
    "count_of_some": (("t", "count", "b"), "count(t) FILTER (WHERE b)"),
    "rows_of_some": ((None, Count(), "b"), "count(*) FILTER (WHERE b)"),
}
AGGREGATIONS = {alias: given for alias, (given, _) in SQL.items()}


@cache
def table(seed: int) -> pa.Table:
    """Rows of three keys in order of time, with nulls in every column but key and time."""
    rng = np.random.default_rng(seed)

    def some(values: list[Any], kind: pa.DataType) -> pa.Array:
        share = rng.choice([0.1, 0.5, 0.9])
        gone = rng.random(ROWS) < share
        return pa.array([None if g else v for v, g in zip(values, gone, strict=True)], kind)

    numbers = rng.permutation(ROWS)
    return pa.table({
        "k": pa.array(rng.integers(0, 3, ROWS)),
        "ts": pa.array(START + np.cumsum(rng.integers(1, 4, ROWS)).astype("m8[s]")),
        "f": some((rng.integers(-99, 99, ROWS) / 4).tolist(), pa.float64()),
        "i": some([int(n) + (1 << 56) for n in numbers], pa.int64()),
        "t": some([f"t{n % 7}" for n in numbers], pa.string()),
        "d": some([Decimal(int(n)) / 100 for n in numbers], pa.decimal128(18, 2)),
        "m": some((START + numbers.astype("m8[s]")).tolist(), pa.timestamp("us")),
        "b": some(rng.choice([True, False], ROWS).tolist(), pa.bool_()),
    })  # fmt: skip


@cache
def expected(seed: int, frame: str) -> dict[str, list[Any]]:
    """What DuckDB says."""
    events = table(seed)  # noqa: F841 (duckdb reads it by its name)
    columns = ", ".join(f"{_over(sql)} AS {alias}" for alias, (_, sql) in SQL.items())
    window = f"WINDOW w AS (PARTITION BY k ORDER BY ts {frame})"
    found = duckdb.sql(f"SELECT {columns} FROM events {window} ORDER BY ts").to_arrow_table()
    return {name: found.column(name).to_pylist() for name in SQL}


def _over(sql: str) -> str:
    """An aggregate of SQL over the window, with its filter if it has one."""
    if sql.startswith("coalesce("):
        return f"coalesce({_over(sql[9:-5])}, [])"
    return f"{sql} OVER w"


FRAMES: dict[str, tuple[Any, str]] = {
    "count": (CountWindow(4), "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW"),
    "time": (
        TimeWindow("20 seconds"),
        "RANGE BETWEEN INTERVAL '19.999999 seconds' PRECEDING AND CURRENT ROW",
    ),
}


def assert_same(found: dict[str, list[Any]], seed: int, frame: str) -> None:
    wanted = expected(seed, FRAMES[frame][1])
    for name in found:
        for row, (one, other) in enumerate(zip(found[name], wanted[name], strict=True)):
            assert alike(one, other), (name, row, one, other)


def alike(one: Any, other: Any) -> bool:
    """Equal, up to rounding; the deviation of one value is NaN here, and null in SQL."""
    if isinstance(one, float) and math.isnan(one):
        return other is None
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


MAKE: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow": lambda t: t,
    "polars": pl.from_arrow,
    "pandas of Arrow": lambda t: t.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda t: t.to_pandas(
        types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get
    ),
}


@pytest.mark.parametrize("library", MAKE)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.proves("asking", "filters", "rolling")
@pytest.mark.proves("asking", '`nulls="skip"`', "rolling")
def test_rolling_is_as_sql(library: str, frame: str) -> None:
    for seed in (1, 2):
        given = MAKE[library](table(seed))
        aggregations: Any = {f"r_{alias}": each for alias, each in AGGREGATIONS.items()}
        done = rolling(given, by="k", on="ts", window=FRAMES[frame][0], aggregations=aggregations)
        found: Any = done if library == "Arrow" else None
        if library == "polars":
            found = done.to_arrow()
        elif found is None:
            found = pa.Table.from_pandas(done)
        assert_same({a: found.column(f"r_{a}").to_pylist() for a in SQL}, seed, frame)


def columns_of(rows: pa.Table) -> dict[str, Any]:
    """The columns that aggregations read, as lists."""
    return {name: rows.column(name).to_pylist() for name in "fitdmb"}


#: Aggregations as windows alone take them: nobody tells them the types of columns.
TYPED: dict[str, Any] = AGGREGATIONS | {
    "whole": ("i", Sum("int64")), "peak": ("i", Max("int64")), "low": ("i", Min("int64")),
    "oldest": ("t", First().of_types(str)), "newest": ("t", Last().of_types(str)),
    "as_is": ("i", Last("int64", skip_nulls=False)),
    "text_as_is": ("t", First(skip_nulls=False).of_types(str)),
    "third": ("i", NthValue(3, "int64")),
    "third_as_is": ("f", NthValue(3, skip_nulls=False)),
    "third_text": ("t", NthValue(3).of_types(str)),
    "third_text_as_is": ("t", NthValue(3, skip_nulls=False).of_types(str)),
    "price": ("d", Sum(Decimals(2))), "latest": ("m", Max("M8[us]")),
    "peak_of_some": ("i", Max("int64"), "b"),
    "best": (("i", "i"), ArgMax("int64", "int64")),
}  # fmt: skip
#: Those of columns, which are vectorized.
COLUMNAR = {
    alias: each for alias, each in TYPED.items()
    if alias not in ("oldest", "newest", "text_as_is", "kinds", "all", "best")
}  # fmt: skip
OWN = {alias: each for alias, each in TYPED.items() if alias != "best"}


@pytest.mark.sample
@pytest.mark.parametrize("promote_at", [2, 1 << 20])
@pytest.mark.parametrize("which", ["vectorized", "plain"])
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.proves("asking", "filters", "KeyedWindows")
@pytest.mark.proves("asking", '`nulls="skip"`', "KeyedWindows")
def test_keyed_windows_are_as_sql_for_any_cut_and_restored(
    frame: str, which: str, promote_at: int
) -> None:
    seed, rng, store = 3, np.random.default_rng(promote_at), MemoryStore()
    product = Product(COLUMNAR if which == "vectorized" else OWN)
    windows = KeyedWindows(
        product, FRAMES[frame][0], store, nulls="skip", timed=True, promote_at=promote_at,
        page_bytes=256,
    )  # fmt: skip
    rows, parts, at = table(seed), list[dict[str, Any]](), 0
    while at < ROWS:
        part = rows.slice(at, int(rng.integers(1, 60)))
        times = part.column("ts").to_numpy()
        parts.append(windows.extend(part.column("k").to_pylist(), columns_of(part), times))
        windows = windows.restore_like(windows.checkpoint())
        at += part.num_rows
    found = {a: [v for p in parts for v in p[a].tolist()] for a in product.aliases}
    assert_same(found, seed, frame)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["one by one", "batches", "shared", "late"])
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.proves("asking", "filters", "Window", "SharedWindows")
@pytest.mark.proves("asking", '`nulls="skip"`', "Window", "SharedWindows")
def test_a_window_is_as_sql(name: str, kind: str) -> None:
    seed, frame = 4, FRAMES[name][0]
    found: dict[str, list[Any]] = {alias: [None] * ROWS for alias in OWN}
    for key in range(3):
        places = [at for at, k in enumerate(table(seed).column("k").to_pylist()) if k == key]
        rows, settings = table(seed).take(places), {"arity": 2, "nulls": "skip"}
        times, columns = rows.column("ts").to_numpy(), columns_of(rows)
        results: dict[str, list[Any]] = {alias: [] for alias in OWN}
        if kind == "shared":
            shared = SharedWindows(Product(OWN), {"w": frame, "two": CountWindow(2)}, **settings)
            done = shared.extend(columns, times)
            results = {alias: done[f"{alias}_w"].tolist() for alias in OWN}
        else:
            late = {"allowed_lateness": 0} if kind == "late" else {}
            window = Window(Product(OWN), frame, **settings, **late)
            if kind == "one by one":
                for row, time in zip(rows.select("fitdmb").to_pylist(), times, strict=True):
                    window.insert(row, time)
                    for alias, value in window.query().items():
                        results[alias].append(value)
            else:
                for at in range(0, len(times), 17):
                    part = {name: column[at : at + 17] for name, column in columns.items()}
                    done = window.extend(part, times[at : at + 17])
                    for alias in OWN:
                        results[alias] += done[alias].tolist()
                    window = window.restore_like(window.checkpoint())
                    window.check()
        for alias, values in results.items():
            for place, value in zip(places, values, strict=True):
                found[alias][place] = value
    assert_same(found, seed, name)


#: Lags within windows that hold every row, and what SQL calls them: its lags know no frame.
LAGS: dict[str, tuple[Any, str]] = {
    f"{column}{n}{'' if skips else '_as_is'}": (
        (column, Lag(n, kind, skips) if column != "t" else LagText(n, skips)),
        f"lag({column}, {n} {'IGNORE' if skips else 'RESPECT'} NULLS)",
    )
    for column, kind in {
        "f": None,
        "i": "int64",
        "d": Decimals(2),
        "m": "M8[us]",
        "t": None,
    }.items()
    for n in (0, 1, 3)
    for skips in (True, False)
}


@pytest.mark.parametrize("columns", ["fidm", "fidmt"], ids=["vectorized", "plain"])
def test_lags_are_as_sql_with_and_without_nulls(columns: str) -> None:
    lags = {name: lag for name, lag in LAGS.items() if name[0] in columns}
    events = table(5)
    over = "OVER (PARTITION BY k ORDER BY ts)"
    asked = ", ".join(f"{sql} {over} AS {name}" for name, (_, sql) in lags.items())
    wanted = duckdb.sql(f"SELECT {asked} FROM events ORDER BY ts").to_arrow_table()
    product = Product({name: given for name, (given, _) in lags.items()})
    windows = KeyedWindows(product, CountWindow(ROWS), MemoryStore(), nulls="skip", page_bytes=256)
    found: dict[str, list[Any]] = {name: [] for name in lags}
    alone = [Window(product, CountWindow(ROWS), nulls="skip") for _ in range(3)]
    for at in range(0, ROWS, 50):
        part = events.slice(at, 50)
        keys = part.column("k").to_pylist()
        done = windows.extend(keys, columns_of(part))
        windows = windows.restore_like(windows.checkpoint())
        for name in lags:
            found[name] += done[name].tolist()
        for place, (key, row) in enumerate(zip(keys, part.to_pylist(), strict=True), at):
            alone[key].insert(row)
            for name, value in alone[key].query().items():
                assert alike(value, wanted.column(name)[place].as_py()), (name, place)
    for name, results in found.items():
        for row, (one, other) in enumerate(
            zip(results, wanted.column(name).to_pylist(), strict=True)
        ):
            assert alike(one, other), (name, row, one, other)


@pytest.mark.parametrize("skips", [True, False])
@pytest.mark.parametrize(
    "make", [lambda **skip: Lag(1, **skip), lambda **skip: NthValue(2, **skip)], ids=["lag", "nth"]
)
def test_a_place_that_a_window_does_not_have_is_null_and_not_nan(make: Any, skips: bool) -> None:
    """At every entry point, whatever it does with nulls."""
    values, monoid = [float("nan"), 2.0, 3.0], make(skip_nulls=skips)
    nan, two = values[0], make(skip_nulls=skips).n == 2
    wanted = [None, 2.0, 2.0] if two else [None, nan, 2.0]
    frame = CountWindow(3)

    def assert_found(found: Any) -> None:
        assert len(found) == 3
        for one, other in zip(found, wanted, strict=True):
            assert one is other or one == other or (math.isnan(other) and math.isnan(one)), found

    for nulls in ("accept", "skip"):
        if nulls == "skip":  # where a NaN is a null
            values, wanted = [1.0, 2.0, 3.0], [None, *([2.0, 2.0] if two else [1.0, 2.0])]
        settings: Any = {"nulls": nulls}
        for windows in (
            Window(monoid, frame, **settings),
            SharedWindows(monoid, {"x": frame}, **settings),
            KeyedWindows(monoid, frame, MemoryStore(), **settings),
        ):
            keys = [["a"] * 3] if isinstance(windows, KeyedWindows) else []
            found = windows.extend(*keys, values)
            assert_found((found["x"] if isinstance(windows, SharedWindows) else found).tolist())
        window = Window(monoid, frame, **settings)
        found = []
        for value in values:
            window.insert(value)
            found.append(window.query())
        assert_found(found)
        events = pl.DataFrame({"k": ["a"] * 3, "v": values})
        aggregations: Any = {"r": ("v", monoid)}
        done = rolling(events, by="k", window=frame, aggregations=aggregations, nan="propagate")
        assert_found(done["r"].to_list())


def test_a_window_of_no_values_is_null_and_one_of_counts_and_lists_is_not() -> None:
    window = Window(Sum(), CountWindow(2), nulls="skip")
    assert window.extend([None, 5.0, None, float("nan")]).tolist() == [None, 5.0, 5.0, None]
    assert window.query() is None
    lists = Window(Collect(), CountWindow(2), nulls="skip")
    assert list(lists.extend([1, None, None])) == [[1], [1], []]
    longest: Monoid[str, str, str] = Monoid("", lambda a, b: a + b, name="joined")
    words = Window(longest, CountWindow(2), nulls="skip")
    assert words.extend(["a", None, None, "b"]).tolist() == ["a", "a", None, "b"]


@pytest.mark.proves("asking", '`nulls="skip"`', "periodic")
def test_a_null_keeps_its_place_in_slices_too() -> None:
    window = SlicedWindow(Sum(), TimeWindow("4 seconds"), "2 seconds", nulls="skip")
    found = window.extend([1.0, None, None, None, 8.0], [1, 3, 5, 7, 9])
    assert np.ma.asarray(found.results).tolist() == [1.0, 1.0, None, None]


@pytest.mark.parametrize("least", [0, 1, 2, 3])
@pytest.mark.proves("asking", "`min_samples=`", "rolling")
def test_min_samples_is_as_min_periods(least: int) -> None:
    values = [1.0, None, 3.0, 4.0, 5.0, None, None, None, 2.0]
    series = pd.Series(values, dtype="f8")
    for how in ("sum", "mean", "max"):
        wanted = getattr(series.rolling(3, min_periods=least), how)().tolist()
        frame = rolling(
            pd.DataFrame({"v": series}), window=3, aggregations={"r": ("v", how)},
            min_samples=least,
        )  # fmt: skip
        np.testing.assert_array_equal(frame["r"].tolist(), wanted)
    alone = Window(Sum(), CountWindow(3), nulls="skip", min_samples=least).extend(values)
    wanted = series.rolling(3, min_periods=least).sum().to_numpy()
    np.testing.assert_array_equal(np.ma.filled(alone.astype("f8"), np.nan), wanted)
    full = Window(Sum(), CountWindow(3), min_samples=least).extend([1.0, 2.0, 3.0]).tolist()
    assert full == [None if n < least else s for n, s in ((1, 1.0), (2, 3.0), (3, 6.0))]


def test_nan_is_a_value_where_it_is_no_null() -> None:
    given = pl.DataFrame({"v": [1.0, None, math.nan, 2.0]})
    how: dict[str, Any] = {"window": 2, "aggregations": {"s": ("v", Sum()), "n": ("v", Count())}}
    with pytest.raises(InvalidValue, match=r"column 'v' has 1 NaN .* row 2.*nan='skip' or"):
        rolling(given, **how)
    skipped = rolling(given, nan="skip", **how)
    assert skipped["s"].to_list() == [1.0, 1.0, None, 2.0]
    assert skipped["n"].to_list() == [1, 1, 0, 1]
    spread = rolling(given, nan="propagate", **how)["s"].to_list()
    assert spread[:2] == [1.0, 1.0] and math.isnan(spread[2]) and math.isnan(spread[3])
    assert rolling(given, nan="propagate", **how)["n"].to_list() == [1, 1, 1, 2]


def test_the_other_ways_with_nulls() -> None:
    frame = pd.DataFrame({"v": [1.0, None, 3.0], "w": [None, 5, 6]})
    how: dict[str, Any] = {"window": 2, "aggregations": {"s": ("v", Sum())}}
    with pytest.raises(InvalidValue, match=r"column 'v' has 1 nulls or NaN .* row 1"):
        rolling(frame, nulls="raise", **how)
    assert rolling(frame, nulls="drop_row", **how)["s"].tolist() == [1.0, 4.0]
    accepted = rolling(frame, nulls="accept", **how)["s"].tolist()
    np.testing.assert_array_equal(accepted, [1.0, math.nan, math.nan])
    for wrong in ({"nulls": "ignore"}, {"nan": "drop"}, {"min_samples": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            rolling(frame, **how, **wrong)  # type: ignore[arg-type]


def test_a_filter_that_is_not_boolean_is_refused_by_name() -> None:
    frame = pd.DataFrame({"v": [1.0, 2.0], "state": ["ok", "declined"], "n": [0, 1]})
    for name in ("state", "n"):
        with pytest.raises(InvalidValue, match=f"filter '{name}' is .*, not a column of booleans"):
            rolling(frame, window=2, aggregations={"s": ("v", Sum(), name)})
        windows = KeyedWindows(Product({"s": ("v", Sum(), name)}), CountWindow(2))
        with pytest.raises(InvalidValue, match=f"the filter '{name}' is not a column of booleans"):
            windows.extend(["a"], {"v": [1.0], name: frame[name].tolist()[:1]})
    with pytest.raises(TypeError, match="a filter is the name of a column of booleans"):
        Product({"s": ("v", Sum(), 3)})  # type: ignore[dict-item]


def test_int64_results_keep_their_last_digit_and_their_type() -> None:
    big = (1 << 62) + 1
    frame = pl.DataFrame({"v": [big, None, None, -big]})
    done = rolling(frame, window=2, aggregations={"m": ("v", Max()), "s": ("v", Sum())})
    assert done["m"].to_list() == done["s"].to_list() == [big, big, None, -big]
    assert done.schema["m"] == done.schema["s"] == pl.Int64
    of_pandas = rolling(
        pd.DataFrame({"v": pd.array([big, None, None, -big], "Int64")}),
        window=2, aggregations={"m": ("v", Max())},
    )["m"]  # fmt: skip
    assert of_pandas.tolist() == [big, big, pd.NA, -big] and of_pandas.dtype == "Int64"


def test_columns_are_stored_once_and_nulls_as_bits() -> None:
    store, count = MemoryStore(), 4096
    product = Product({"s": ("v", Sum()), "m": ("v", Max()), "a": ("v", Mean())})
    sizes = []
    for values in ([1.5] * count, [None, *[1.5] * (count - 1)]):
        windows = KeyedWindows(product, CountWindow(9999), store, nulls="skip", promote_at=1 << 20)
        windows.extend(np.arange(count) % 512, {"v": values})
        sizes.append(len(windows.checkpoint()) + windows.stats().run_bytes)
        windows.checkpoint()
        sizes.append(sum(len(page or b"") for page in store.get_many(list(store.keys()))))
        windows.delete_pages()
        store.flush()
    assert sizes[3] - sizes[1] <= count // 8 + 64
    assert len(product.with_parts(skip_nulls()).stored) == 1


def test_nulls_in_a_window_that_refuses_them_are_named() -> None:
    for make in (Window, KeyedWindows):
        for values in ([1.0, None], [1.0, math.nan]):
            given: Any = make(Sum(), CountWindow(2))
            keys = [["a", "a"]] if make is KeyedWindows else []
            with pytest.raises(InvalidValue, match=r'1 of 2 values are null.*nulls="skip"'):
                given.extend(*keys, values)


def test_keyed_windows_go_on_from_a_snapshot_of_others_that_refused_nulls() -> None:
    store, product = MemoryStore(), Product({"s": ("v", Sum(Decimals(1))), "t": ("w", Sum())})
    windows = KeyedWindows(product, CountWindow(3), store)
    windows.extend(["a", "a"], {"v": [Decimal("1.5"), Decimal(2)], "w": [1.0, 2.0]})
    again = KeyedWindows.restore(
        windows.checkpoint(), store, aggregations=product, window=CountWindow(3), nulls="skip"
    )
    assert again.query("a") == {"s": Decimal("3.5"), "t": 3.0}
    again.extend(["a", "a"], {"v": [None, None], "w": [None, 7.0]})
    assert again.query("a") == {"s": Decimal("2.0"), "t": 9.0}
    assert not again.coverage().incomplete


@pytest.mark.parametrize("promote_at", [2, 1024])
def test_windows_that_refuse_nulls_do_not_go_on_from_events_that_may_have_some(
    promote_at: int,
) -> None:
    store, product = MemoryStore(), Product({"sum": ("w", Sum())})
    windows = KeyedWindows(product, CountWindow(5), store, "k", nulls="skip", promote_at=promote_at)
    windows.extend(["a"] * 6, {"w": [1.0, None, 2.0, 3.0, 4.0, 5.0]})
    snapshot = windows.checkpoint()
    with pytest.raises(SnapshotMismatch, match="may have nulls in 'w': set nulls='skip'"):
        KeyedWindows.restore(snapshot, store, nulls="raise")
    assert KeyedWindows.restore(snapshot, store).query("a") == {"sum": 14.0}


def test_bits_of_a_page_tell_which_numbers_are_nulls() -> None:
    schema = Nullable(Array("<i2"))
    rows = schema.gathered([7, None, 9])
    dumped = [("<i2", b"\x07\0\0\0\x09\0"), ("bits", b"\x05")]
    assert schema.dump(rows) == dumped
    assert schema.listed(schema.load(iter(dumped), 3), 3) == [7, None, 9]
    assert schema.dump(schema.gathered([1, 2])) == [("<i2", b"\1\0\2\0"), ("bits", b"")]
    for wrong in (b"\x05\x05", None):
        with pytest.raises(CorruptPage):
            schema.load(iter([dumped[0], *([] if wrong is None else [("bits", wrong)])]), 3)


WITH_AND_WITHOUT_COUNTS: dict[str, tuple[dict[str, Any], int]] = {
    "a mean counts for others": ({"peak": ("w", Max()), "mean": ("w", Mean())}, 0),
    "one counts for both": ({"peak": ("w", Max()), "low": ("w", Min())}, 8),
    "each column by itself": ({"peak": ("w", Max()), "low": ("v", Min())}, 16),
    "a filter by itself": ({"peak": ("w", Max()), "on": ("w", Max(), "f")}, 8),
}


@pytest.mark.parametrize("which", WITH_AND_WITHOUT_COUNTS)
def test_the_number_of_values_is_kept_once_for_each_column(which: str) -> None:
    """Bytes of a partial beside those without nulls; each result is as that of one by itself."""
    aggregations, more = WITH_AND_WITHOUT_COUNTS[which]
    plain = Product(aggregations)
    together = plain.with_parts(skip_nulls())
    assert (together.partials.row_bytes or 0) - (plain.partials.row_bytes or 0) == more
    events = {
        "w": [1.0, None, None, None, -math.inf, 3.0],
        "v": [None, 2.0, None, None, 1.0, None],
        "f": [True, True, False, True, None, True],
    }
    found = Window(plain, CountWindow(2), nulls="skip").extend(events)
    one = Window(plain, CountWindow(2), nulls="skip", name="one")
    for row in range(6):
        one.insert({name: column[row] for name, column in events.items()})
        shown = {alias: column[row] for alias, column in found.items()}
        assert {a: None if np.ma.is_masked(x) else x for a, x in shown.items()} == one.query()
    for alias, pair in aggregations.items():
        alone = Window(Product({alias: pair}), CountWindow(2), nulls="skip").extend(events)[alias]
        assert np.ma.allequal(found[alias], alone)
        assert (np.ma.getmaskarray(found[alias]) == np.ma.getmaskarray(alone)).all()


def test_rows_without_nulls_have_no_mask() -> None:
    """Until a null comes; so they cost what rows do that cannot be null."""
    column = Nullable(Array("f8"))
    rows = column.new(4)
    column.put_many(rows, 0, column.gathered([1.0, 2.0]))
    column.put(rows, 2, 3.0)
    assert rows.valid is None and not rows.has_nulls
    column.put(rows, 3, None)
    assert rows.has_nulls and rows.tolist() == [1.0, 2.0, 3.0, None]
    column.put(rows, 3, 4.0)
    assert not rows.has_nulls and rows.tolist() == [1.0, 2.0, 3.0, 4.0]
