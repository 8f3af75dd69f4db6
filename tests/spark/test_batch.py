"""sliding_aggregate over batch DataFrames, through Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession

from mta import ArgMax, Collect, Count, CountWindow, Last, Max, Mean, Monoid, Sum, TimeWindow
from spark_integration import sliding_aggregate
from stores import open_store
from tests.support.spark.events import (
    Fold,
    in_form,
    last_n,
    last_of_each,
    last_seconds,
    make_events,
    oracle,
)
from tests.support.spark.jobs import of_rows

WATTS = {"peak": ("watts", Max()), "sum": ("watts", Sum()), "n": (None, Count())}
FOLDS: list[Fold] = [max, sum, len]
NEVER = CountWindow(1000)


@pytest.fixture(scope="module")
def events() -> pa.Table:
    return make_events(4000, 100)


def run(df: DataFrame, store: str, **changes: Any) -> DataFrame:
    settings: dict[str, Any] = {
        "by": "device",
        "on": "ts",
        "aggregations": WATTS,
        "window": NEVER,
        "store": store,
        "buckets": 4,
    }
    return sliding_aggregate(df, **{**settings, **changes})


@pytest.mark.parametrize(
    ("keys", "frame", "expired"),
    [(1, CountWindow(20), last_n(20)), (1500, TimeWindow("5 minutes"), last_seconds(300))],
)
def test_equals_the_oracle(
    spark: SparkSession, store: str, keys: int, frame: Any, expired: Any
) -> None:
    events = make_events(3000, keys)
    done = run(spark.createDataFrame(events), store, window=frame, arity=4, leaf_arity=4)
    assert in_form(done.collect(), "peak", "sum", "n") == oracle(events, expired, FOLDS)
    with open_store(store) as pages:
        assert list(pages.keys()) == []


def test_the_result_has_the_columns_asked_for(
    spark: SparkSession, store: str, events: pa.Table
) -> None:
    df = spark.createDataFrame(events)
    done = run(df, store, carry=["site"])
    assert done.columns == ["device", "ts", "watts", "site", "peak", "sum", "n"]
    assert done.schema["ts"] == df.schema["ts"]
    assert done.schema["n"].dataType.simpleString() == "bigint"
    key_of_site = {(r.device, r.site) for r in done.collect()}
    assert key_of_site == {(r.device, r.site) for r in df.collect()}


@pytest.mark.proves("options", '`emit="last"`', "vectorized", "a batch")
def test_last_gives_one_row_per_key(spark: SparkSession, store: str, events: pa.Table) -> None:
    df = spark.createDataFrame(events)
    rows = run(df, store, emit="last", window=CountWindow(5), carry=["site"]).collect()
    expected = last_of_each(oracle(events, last_n(5), FOLDS))
    assert in_form(rows, "peak", "sum", "n") == expected
    assert all(row.site for row in rows)


def test_an_empty_dataframe(spark: SparkSession, store: str, events: pa.Table) -> None:
    assert run(spark.createDataFrame(events).limit(0), store).collect() == []


def test_results_of_any_kind(spark: SparkSession, store: str) -> None:
    rows = [("a", i, Decimal(i), i, f"t{i}", i % 2 == 0) for i in range(4)]
    df = spark.createDataFrame(
        rows, "device string, ts long, price decimal(9,2), whole int, text string, flag boolean"
    )
    join = Monoid(identity="", combine=lambda a, b: a + b, name="join")
    many = Monoid(identity=0, combine=lambda a, b: a + b, name="total")
    done = run(
        df,
        store,
        window=CountWindow(2),
        aggregations={
            "price_mean": ("price", Mean()),
            "whole_sum": ("whole", Sum("i8")),
            "at": (("whole", "ts"), ArgMax("i8")),
            "texts": ("text", Collect()),
            "numbers": ("whole", Collect()),
            "joined": ("text", join),
            "total": ("whole", many),
            "share": ("flag", Mean()),
            "as_asked": ("whole", Collect()),
        },
        types={"as_asked": "array<double>"},
    )
    assert dict(done.dtypes)["texts"] == "array<string>"
    assert dict(done.dtypes)["as_asked"] == "array<double>"
    last = done.collect()[-1].asDict()
    assert {k: last[k] for k in done.columns[-9:]} == {
        "price_mean": 2.5, "whole_sum": 5, "at": 3, "texts": ["t2", "t3"], "numbers": [2, 3],
        "joined": "t2t3", "total": 5, "share": 0.5, "as_asked": [2.0, 3.0],
    }  # fmt: skip


def test_results_that_do_not_fit_are_named(spark: SparkSession, store: str) -> None:
    """They do not wrap, neither by a monoid in Python nor in a column that is too narrow."""
    df = spark.createDataFrame(
        [("a", i, 2**62) for i in range(3)], "device string, ts long, w long"
    )
    total = Monoid(identity=0, combine=lambda a, b: a + b, name="total")
    for monoid, types, what in (
        (total, None, "a result of aggregation 'sum' does not fit"),
        (Last("i8"), {"sum": "int"}, "a result of aggregation 'sum' does not fit"),
        (Sum("int64"), None, "the aggregation 'sum' is beyond"),
    ):
        done = run(df, store, aggregations={"sum": ("w", monoid)}, types=types)
        with pytest.raises(Exception, match=f"ResultOutOfRange: {what}"):
            done.collect()


def bad_rows(spark: SparkSession) -> DataFrame:
    rows = [("a", 1, 1.0), (None, 1, 1.0), ("a", None, 1.0), ("a", 2, None), ("a", 3, float("nan")),
            ("a", -(2**63), 1.0)]  # fmt: skip
    return spark.createDataFrame(rows, "device string, ts long, watts double")


@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("device is null", "NullKey"),
        ("ts < 0", "InvalidTime"),
        ("isnan(watts)", "InvalidValue"),
    ],
)
def test_a_bad_row_is_named_in_sparks_error(
    spark: SparkSession, store: str, condition: str, error: str
) -> None:
    done = run(bad_rows(spark).where(condition), store)
    with pytest.raises(Exception, match=error):
        done.collect()


@pytest.mark.proves("options", '`on_invalid="drop"`', "a batch")
def test_bad_rows_are_dropped_and_counted(spark: SparkSession, store: str) -> None:
    counts = Observation()
    done = run(bad_rows(spark), store, on_invalid="drop", nulls="drop_row", metrics=counts)
    assert [r.watts for r in done.collect()] == [1.0]
    assert of_rows(counts.get) == {
        "rows_read": 6,
        "rows_dropped": 5,
        "rows_late": 0,
        "rows_invalid": 5,
        "rows_missing": 0,
        "rows_incomplete": 0,
        "rows_ahead": 0,
    }


def test_two_in_one_query(spark: SparkSession, store: str, events: pa.Table) -> None:
    df = spark.createDataFrame(events)
    one = run(df, store, metrics="one").select("device", "n")
    two = run(df, store, metrics="two", window=CountWindow(1)).select("device", "n")
    assert one.union(two).where("n = 1").count() == 100 + events.num_rows
