"""Results have the values and types that Spark's own SQL gives: nothing is rounded."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import datetime
from decimal import Context, Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mta import ArgMax, ArgMin, CountWindow, First, Last, Max, Mean, Min, Sum, TimeWindow
from spark_integration import sliding_aggregate, sql
from spark_integration.errors import InvalidRequest
from spark_integration.options import Options
from spark_integration.request import make_request
from spark_integration.step.step import step
from stores import MemoryStore
from tests.support.sampling import REST, some
from tests.support.spark.cards import reader_of
from tests.support.spark.jobs import run_to_end

SIZE, ROWS = 4, 120
KINDS: dict[str, pa.DataType] = {
    "short": pa.decimal128(18, 2), "long": pa.decimal128(30, 6), "widest": pa.decimal128(38, 38),
    "day": pa.date32(), "moment": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"),
    "big": pa.int64(), "small": pa.int16(), "text": pa.string(), "raw": pa.binary(),
}  # fmt: skip
DECIMALS = [name for name, kind in KINDS.items() if pa.types.is_decimal(kind)]
#: Neighbours of the first are the same double.
PLAIN: dict[pa.DataType, list[Any]] = {
    pa.int64(): [2**53 + 1, 2**53, 2**53 + 2, -(2**63)], pa.int16(): [3, 1, -(2**15)],
    pa.string(): ["b", "\u00e9", "a", ""], pa.binary(): [b"b", b"\xff", b"", b"a"],
}  # fmt: skip
#: The sums of the oracle are not rounded.
EXACT = Context(prec=60)
#: The first and the last moment that Spark has.
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)


def values(kind: pa.DataType, chance: random.Random) -> list[Any]:
    """A few values, the extreme ones among them, some of them equal or null."""
    few = PLAIN.get(kind, [])
    if pa.types.is_decimal(kind):
        most = 10**kind.precision // (2 if kind.precision == 18 else 20)  # sums need a digit more
        few = [0, most, -most, *(chance.randint(-most, most) for _ in range(4))]
        few = [Decimal(each).scaleb(-kind.scale) for each in few]
    elif pa.types.is_temporal(kind):
        few = [FIRST, LAST, datetime(1969, 12, 31, 23, 59, 59, 1), datetime(2024, 3, 31, 2, 30)]
        few = [each.date() for each in few] if kind == pa.date32() else few
    return [None if chance.random() < 0.15 else chance.choice(few) for _ in range(ROWS)]


def table() -> pa.Table:
    chance = random.Random(7)
    columns = {name: pa.array(values(kind, chance), kind) for name, kind in KINDS.items()}
    keys, times = [row * 7 % 3 for row in range(ROWS)], range(ROWS)
    return pa.table({"k": keys, "t": pa.array(times, pa.int64()), **columns})


def aggregations() -> dict[str, Any]:
    names = ("max", "min", "first", "last", "nth_value(2)", "nunique", "mode", "collect_list")
    asked = {f"{name}_{column}": (column, name) for column in KINDS for name in names}
    for column in DECIMALS:
        asked |= {f"{name}_{column}": (column, name) for name in ("sum", "mean", "sum_distinct")}
    return asked | {f"lag_{column}": (column, "lag(1)") for column in KINDS}


def by_spark(spark: SparkSession, rows: DataFrame) -> pa.Table:
    """The same by Spark's window functions; what it has none for follows from the lists."""
    rows.createOrReplaceTempView("rows_of_types")
    frame = f"(PARTITION BY k ORDER BY t ROWS BETWEEN {SIZE - 1} PRECEDING AND CURRENT ROW)"
    parts = []
    for column in KINDS:
        parts += [f"{name}({column}) OVER {frame} AS {name}_{column}" for name in (
            "max", "min", "collect_list", *(("sum", "mean") if column in DECIMALS else ())
        )]  # fmt: skip
        parts += [
            f"{name}_value({column}) IGNORE NULLS OVER {frame} AS {name}_{column}"
            for name in ("first", "last")
        ]
        parts.append(f"lag({column}) IGNORE NULLS OVER (PARTITION BY k ORDER BY t) AS lag_{column}")
    return in_order(spark.sql(f"SELECT *, {', '.join(parts)} FROM rows_of_types"))


def in_order(rows: DataFrame) -> pa.Table:
    return rows.toArrow().sort_by("t")


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield request.param
    spark.conf.set(name, before or "UTC")


def counts(column: pa.ChunkedArray) -> list[Any]:
    """Values that compare alike in every zone: times as integers."""
    kind = column.type
    if pa.types.is_list(kind):
        if pa.types.is_temporal(kind.value_type):
            raw = pa.int32() if kind.value_type.bit_width == 32 else pa.int64()
            column = column.cast(pa.list_(raw))
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column.to_pylist()


def type_of(rows: pa.Table, name: str) -> pa.DataType:
    """The type of a column; lists of Spark's own have no nulls."""
    kind = rows.schema.field(name).type
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def require_same(found: pa.Table, expected: pa.Table) -> None:
    """Compare with Spark's results, and the other results with its lists."""
    for column in KINDS:
        both = [name for name in expected.column_names if name.endswith(f"_{column}")]
        for name in both:
            if not name.startswith("lag"):
                assert counts(found[name]) == counts(expected[name]), name
            assert type_of(found, name) == type_of(expected, name), name
        lists = counts(expected[f"collect_list_{column}"])
        assert counts(found[f"nth_value(2)_{column}"]) == [
            each[1] if len(each) > 1 else None for each in lists
        ]
        assert counts(found[f"nunique_{column}"]) == [len(set(each)) for each in lists]
        assert counts(found[f"mode_{column}"]) == [
            min(set(each), key=lambda one: (-each.count(one), one), default=None) for each in lists
        ]
        kind = found.schema.field(f"max_{column}").type
        for name in ("nth_value(2)", "mode", "lag"):
            assert found.schema.field(f"{name}_{column}").type == kind
        newest = counts(found[column])
        for each, own, lag in zip(lists, newest, counts(found[f"lag_{column}"]), strict=True):
            assert (
                lag == (each if own is None else each[:-1] or [None])[-1:][0] if each else not lag
            )
        if column in DECIMALS:
            once = [reduce(EXACT.add, set(each)) if each else None for each in lists]
            assert counts(found[f"sum_distinct_{column}"]) == once


def test_a_batch_equals_sparks_own_windows(spark: SparkSession, store: str, zone: str) -> None:
    rows = spark.createDataFrame(table())
    done = sliding_aggregate(
        rows, by="k", on="t", carry=["short"], aggregations=aggregations(),
        window=CountWindow(SIZE),
    )  # fmt: skip
    require_same(in_order(done), by_spark(spark, rows))


class Stream:
    """Files in a folder as a stream, with pages in a store, and results as a table."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self.spark, self.folder, self.options, self.files = spark, folder, options, 0
        (folder / "input").mkdir(parents=True)
        self.schema = spark.createDataFrame(table()).schema

    def run(self, *parts: pa.Table) -> pa.Table:
        """Return the results of new files, each of which is a batch."""
        for part in parts:
            path = self.folder / "input" / f"{self.files}.parquet"
            pq.write_table(part, path)
            self.files += 1
            os.utime(path, (self.files, self.files))  # Spark reads files in this order
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        done = sliding_aggregate(
            reader.parquet(str(self.folder / "input")), by="k", on="t", carry=["short"],
            window=CountWindow(SIZE), **self.options,
        )  # fmt: skip
        found: list[pa.Table] = []
        run_to_end(done, self.folder / "cp", lambda rows, _: found.append(rows.toArrow()))
        return pa.concat_tables(found).sort_by("t")


@pytest.mark.parametrize("store", some(["spark://state", "file"], by_default=1))
def test_a_stream_equals_sparks_own_windows(
    spark: SparkSession, store: str, tmp_path: Path
) -> None:
    """Also after a restart, whose aggregations read the pages of the first run."""
    url = store if store.startswith("spark") else f"file://{tmp_path}/pages"
    stream = Stream(spark, tmp_path / "query", store=url, aggregations=aggregations())
    given = table()
    first = stream.run(given[:30], given[30:60])
    second = stream.run(given[60:100], given[100:])
    expected = by_spark(spark, spark.createDataFrame(given))
    require_same(pa.concat_tables([first, second]), expected)


@REST
def test_published_windows_have_the_same_values(spark: SparkSession, tmp_path: Path) -> None:
    url, given = f"file://{tmp_path}/pages", table()
    stream = Stream(
        spark, tmp_path / "query", store=url, aggregations=aggregations(), publish="types"
    )
    newest = {row["k"]: row for row in stream.run(given[:70], given[70:]).to_pylist()}
    reader = reader_of(url, "types", batch=1)
    for key, row in newest.items():
        answer = reader.query(key)
        for name, value in answer.items():
            assert plain(value) == plain(row[name]), name


def plain(value: Any) -> Any:
    """Python's own value, in UTC: published datetimes are numpy's."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, np.datetime64):
        value = None if np.isnat(value) else value.item()
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_results_that_have_no_type_of_their_own_are_errors(spark: SparkSession, store: str) -> None:
    most = [Decimal("9" * 38)] * 3
    rows = {"k": [1] * 3, "t": pa.array(range(3)), "v": pa.array(most, pa.decimal128(38, 0))}
    with pytest.raises(Exception, match="ResultOutOfRange: a result of aggregation 'total' does n"):
        sliding_aggregate(
            spark.createDataFrame(pa.table(rows)), by="k", on="t", window=CountWindow(2),
            aggregations={"total": ("v", "sum")},
        ).collect()  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("moment", "sum"), "Sum cannot read column 'moment', which is timestamp, because it comp"),
        (("day", "mean"), "Mean cannot read column 'day', which is date, because it computes with"),
        (
            ("local", "median"),
            "Quantile.* cannot read column 'local', .* because it computes",
        ),
        (("moment", "approx_count_distinct"), "DistinctCount.* cannot read column 'moment'"),
        ((("t", "long"), "max_by"), r"ArgMax stores numbers of 64 bits, .* more than 18 digits"),
        ((("long", "t"), "max_by"), r"ArgMax stores numbers of 64 bits, .* more than 18 digits"),
    ],
)
def test_what_is_refused_is_named_with_the_reason(
    spark: SparkSession, store: str, given: Any, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"aggregation 'a': .*{message}"):
        sliding_aggregate(
            spark.createDataFrame(table()[:1]), by="k", on="t", window=CountWindow(2),
            aggregations={"a": given},
        )  # fmt: skip


def test_sql_equals_sparks_own(spark: SparkSession) -> None:
    rows = spark.createDataFrame(table())
    rows.createOrReplaceTempView("rows_of_types")
    query = """
        SELECT t, avg(short) OVER w AS a, avg(long) OVER w AS b, sum(widest) OVER w AS c,
               max(moment) OVER w AS d, min(local) OVER w AS e, collect_list(day) OVER w AS f,
               first_value(long) IGNORE NULLS OVER w AS g, lag(day, 2) OVER (PARTITION BY k ORDER
               BY t) AS h
        FROM rows_of_types
        WINDOW w AS (PARTITION BY k ORDER BY t ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)"""
    found, expected = in_order(sql(spark, query)), in_order(spark.sql(query))
    for name in expected.column_names:
        assert counts(found[name]) == counts(expected[name]), name
        assert type_of(found, name) == type_of(expected, name), name


#: No double: it comes back as the one below.
BEYOND = 2**53 + 1
PRICE = Decimal("1234567890123456.78")


def sent_rows(spark: SparkSession, times: list[int] | None = None) -> DataFrame:
    """Four rows of one device, in which neighbours are one double."""
    table = pa.table({
        "device": ["a"] * 4,
        "ts": pa.array([t * 1_000_000 for t in times or [0, 1, 2, 3]], pa.timestamp("us", "UTC")),
        "big": [BEYOND, BEYOND - 1, BEYOND + 1, BEYOND],
        "small": pa.array([3, 1, 2, 3], pa.int16()),
        "price": pa.array([PRICE, PRICE + Decimal("0.01"), PRICE, -PRICE], pa.decimal128(18, 2)),
        "long": pa.array([PRICE, -PRICE, PRICE, PRICE], pa.decimal128(30, 2)),
        "day": pa.array([0, -700_000, 2_900_000, 1], pa.int32()).cast(pa.date32()),
        "text": ["b", "é", "a", "c"], "raw": [b"b", b"\xff", b"a", b"c"],
    })  # fmt: skip
    return spark.createDataFrame(table)


def results_of(df: DataFrame, store: str, aggregations: dict[str, Any], **changes: Any) -> pa.Table:
    settings: dict[str, Any] = {"by": "device", "on": "ts", "window": CountWindow(2)}
    asked = {**settings, "store": store, "aggregations": aggregations, **changes}
    return sliding_aggregate(df, **asked).toArrow().sort_by("ts")


def test_sums_and_arguments(spark: SparkSession, store: str) -> None:
    asked: dict[str, Any] = {
        "sum": ("big", Sum()), "money": ("price", Sum()), "few": ("small", Sum()),
        "at": (("big", "price"), ArgMax()), "least": (("price", "big"), ArgMin()),
        "mean": ("big", Mean()), "double": ("big", Max("float64")),
    }  # fmt: skip
    done = results_of(sent_rows(spark), store, asked)
    assert done["sum"].to_pylist() == [BEYOND, 2 * BEYOND - 1, 2 * BEYOND, 2 * BEYOND + 1]
    assert done["money"].to_pylist()[1] == 2 * PRICE + Decimal("0.01")
    assert done["money"].to_pylist()[3] == 0
    assert done.schema.field("money").type == pa.decimal128(28, 2)
    assert done.schema.field("sum").type == done.schema.field("few").type == pa.int64()
    prices = done["price"].to_pylist()
    assert done["at"].to_pylist() == [prices[0], prices[0], prices[2], prices[2]]
    assert done["least"].to_pylist() == [BEYOND, BEYOND, BEYOND + 1, BEYOND]
    assert done["mean"].to_pylist()[0] == float(BEYOND)
    assert done["double"].to_pylist()[0] == float(BEYOND)


def test_a_window_without_events_has_neither_extreme_nor_sum(
    spark: SparkSession, store: str
) -> None:
    asked: dict[str, Any] = {
        "top": ("big", Max()), "price": ("price", Min()), "sum": ("big", Sum()),
        "first": ("big", First()), "at": (("small", "big"), ArgMin()), "newest": ("text", Last()),
        "mean": ("big", Mean()), "double": ("big", Max("float64")),
    }  # fmt: skip
    asked["cheapest"] = asked.pop("price")
    done = results_of(
        sent_rows(spark, [0, 58, 60, 178]),
        store,
        asked,
        window=TimeWindow("5 seconds"),
        emit_every="1 minute",
    )
    names = ["top", "cheapest", "first", "at", "newest", "mean", "double"]
    empty = [all(row[name] is None for name in names) for row in done.to_pylist()]
    assert empty == [False, False, True, False]
    assert done["sum"].to_pylist() == [BEYOND, 2 * BEYOND, None, BEYOND]
    assert done["top"].to_pylist()[0] == BEYOND
    assert done["mean"].null_count == 1


def test_rows_given_again_are_as_they_were_sent(spark: SparkSession) -> None:
    """Also where an aggregation beside it reads the column as doubles."""
    sent = sent_rows(spark, [0, 10, 20, 30]).selectExpr(
        "*", "small > 1 AS flag", "CAST(small / 10.0 AS float) AS real"
    )
    read = {f"last_{name}": (name, Last()) for name in ("small", "text", "raw", "flag", "real")}
    options = Options.of(
        by="device", on="ts", window=CountWindow(2), store="file:///nowhere",
        aggregations={"top": ("big", Max()), "mean": ("big", Mean()), "last": ("price", Last()),
                      "total": ("long", Sum()), "days": ("day", "collect_list"), **read},
        allowed_lateness=60, emit_updates=True, name="again",
    )  # fmt: skip
    plan, table, store = make_request(sent, options).plan, sent.toArrow(), MemoryStore()
    first = step(None, table.select(plan.columns).take([0, 2, 3]), plan, store)
    done = step(first.state, table.select(plan.columns).take([1]), plan, store).rows
    again = done.filter(done["corrected"])
    for name in table.column_names:
        assert again[name].type == table[name].type
        assert again[name].to_pylist() == table[name].to_pylist()[2:]
    assert again["top"].to_pylist() == [BEYOND + 1] * 2
    assert again["total"].to_pylist() == [0, 2 * PRICE]
    assert again["days"].to_pylist() == [table["day"].to_pylist()[at : at + 2] for at in (1, 2)]
