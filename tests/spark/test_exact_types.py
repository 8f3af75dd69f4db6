"""Results have the types of their columns: whole numbers, decimals and text are never rounded."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mta import ArgMax, ArgMin, CountWindow, First, Last, Max, Mean, Min, Sum, TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.options import Options
from spark_integration.request import make_request
from spark_integration.step.step import step
from stores import MemoryStore

#: No double: it comes back as the one below.
BEYOND = 2**53 + 1
PRICE = Decimal("1234567890123456.78")
CHOICES: dict[str, Any] = {"Min": Min, "Max": Max, "First": First, "Last": Last}


def rows(spark: SparkSession, times: list[int] | None = None) -> DataFrame:
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


def run(df: DataFrame, store: str, aggregations: dict[str, Any], **changes: Any) -> pa.Table:
    settings: dict[str, Any] = {"by": "device", "on": "ts", "window": CountWindow(2)}
    asked = {**settings, "store": store, "aggregations": aggregations, **changes}
    return sliding_aggregate(df, **asked).toArrow().sort_by("ts")


def test_what_is_chosen_is_what_was_sent(spark: SparkSession, store: str) -> None:
    kinds = {
        "big": pa.int64(), "small": pa.int16(), "price": pa.decimal128(18, 2),
        "text": pa.string(), "raw": pa.binary(),
    }  # fmt: skip
    asked = {f"{name} {column}": (column, make()) for column in kinds
             for name, make in CHOICES.items()}  # fmt: skip
    done, given = run(rows(spark), store, asked), rows(spark).toArrow().sort_by("ts")
    for column, kind in kinds.items():
        sent = given[column].to_pylist()
        pairs = [(sent[max(at - 1, 0)], sent[at]) for at in range(4)]
        assert {done.schema.field(f"{name} {column}").type for name in CHOICES} == {kind}
        assert done[f"Min {column}"].to_pylist() == list(map(min, pairs))
        assert done[f"Max {column}"].to_pylist() == list(map(max, pairs))
        assert done[f"First {column}"].to_pylist() == [one for one, _ in pairs]
        assert done[f"Last {column}"].to_pylist() == sent


def test_sums_and_arguments(spark: SparkSession, store: str) -> None:
    asked: dict[str, Any] = {
        "sum": ("big", Sum()), "money": ("price", Sum()), "few": ("small", Sum()),
        "at": (("big", "price"), ArgMax()), "least": (("price", "big"), ArgMin()),
        "mean": ("big", Mean()), "double": ("big", Max("float64")),
    }  # fmt: skip
    done = run(rows(spark), store, asked)
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
    done = run(
        rows(spark, [0, 58, 60, 178]),
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
    sent = rows(spark, [0, 10, 20, 30])
    options = Options.of(
        by="device", on="ts", window=CountWindow(2), store="file:///nowhere",
        aggregations={"top": ("big", Max()), "mean": ("big", Mean()), "last": ("price", Last()),
                      "total": ("long", Sum()), "days": ("day", "collect_list")},
        allowed_lateness=60, emit_updates=True, name="again",
    )  # fmt: skip
    plan, table, store = make_request(sent, options).plan, sent.toArrow(), MemoryStore()
    first = step(None, table.select(plan.columns).take([0, 2, 3]), plan, store)
    done = step(first.state, table.select(plan.columns).take([1]), plan, store).rows
    again = done.filter(done["corrected"])
    assert again["big"].to_pylist() == [BEYOND + 1, BEYOND]
    assert again["price"].to_pylist() == [PRICE, -PRICE]
    assert again["top"].to_pylist() == [BEYOND + 1] * 2
    assert again["total"].to_pylist() == [0, 2 * PRICE]
    assert again["long"].to_pylist() == [PRICE, PRICE]
    assert again["day"].to_pylist() == table["day"].to_pylist()[2:]
    assert again["days"].to_pylist() == [table["day"].to_pylist()[at : at + 2] for at in (1, 2)]


def test_a_sum_of_decimals_has_ten_more_digits(spark: SparkSession, store: str) -> None:
    price, times = Decimal("9" * 16 + ".99"), pa.array(range(20), pa.int64())
    prices = pa.array([price] * 20, pa.decimal128(18, 2))
    table = pa.table({"device": ["a"] * 20, "ts": times, "v": prices})
    done = run(spark.createDataFrame(table), store, {"sum": ("v", Sum())}, window=CountWindow(20))
    assert done["sum"].to_pylist() == [price * (row + 1) for row in range(20)]
    assert done.schema.field("sum").type == pa.decimal128(28, 2)
