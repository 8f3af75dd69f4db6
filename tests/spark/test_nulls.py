"""Nulls and filters in Spark; ``test_sql`` compares results with those of DuckDB."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mta import Count, CountWindow, Last, Max, Mean, Product, Sum, TimeWindow
from mta.errors import InvalidValue
from mta.monoids.product import skip_nulls
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.step.step import step
from stores import MemoryStore
from tests.support.spark.states import make_plan

AGGREGATIONS: Any = {
    "total": ("watts", Sum()),
    "peak": ("watts", Max()),
    "mean": ("watts", Mean()),
    "values": ("watts", Count()),
    "rows": Count(),
    "as_is": ("watts", Last(skip_nulls=False)),
    "some": ("watts", Sum(), "ok"),
}


def plan_of(**changes: Any) -> Any:
    product = Product(AGGREGATIONS).with_parts(skip_nulls())
    counts = ("values", "rows")
    kinds = {alias: pa.int64() if alias in counts else pa.float64() for alias in AGGREGATIONS}
    columns = ("device", "ts", "watts", "ok")
    given = {"window": CountWindow(5), "monoid": product, "columns": columns, "results": kinds}
    return make_plan(**{**given, **changes})


def test_a_null_is_updated_replaced_and_joined() -> None:
    columns = {"device": ["a"] * 3, "ts": [1, 2, 3], "watts": [1.0, None, 4.0], "ok": [True] * 3}
    late = {"device": ["a"], "ts": [2], "watts": [7.0], "ok": [True]}
    for on_duplicate in ("append", "replace", "combine"):
        product = Product({"total": ("watts", Sum())}).with_parts(skip_nulls())
        plan = make_plan(
            monoid=product, window=TimeWindow(60), allowed_lateness=60.0,
            results={"total": pa.float64()}, emit_updates=True, on_duplicate=on_duplicate,
        )  # fmt: skip
        store = MemoryStore()
        first = step(None, pa.table(columns).drop(["ok"]), plan, store)
        assert first.rows.sort_by("ts").column("total").to_pylist() == [1.0, 1.0, 5.0]
        again = step(first.state, pa.table(late).drop(["ok"]), plan, store).rows
        found: dict[int, list[float]] = {}
        for row in again.to_pylist():
            found.setdefault(row["ts"], []).append(row["total"])
        assert found == {2: [8.0], 3: [12.0]}, on_duplicate


@pytest.mark.proves("asking", '`nulls="skip"`', "a batch")
@pytest.mark.proves("asking", "filters", "a batch")
def test_a_filter_may_be_an_expression_and_its_column_does_not_come_out(
    spark: SparkSession,
) -> None:
    rows = [("a", 1, 5.0, "ok"), ("a", 2, None, "declined"), ("a", 3, 7.0, "declined")]
    frame = spark.createDataFrame(rows, "device string, ts long, amount double, status string")
    how: dict[str, Any] = {"by": "device", "on": "ts", "window": CountWindow(9), "buckets": 1}
    done = sliding_aggregate(
        frame,
        aggregations={
            "declined": ("amount", Sum(), F.col("status") == "declined"),
            "total": ("amount", Sum()),
        },
        **how,
    )
    assert done.columns == ["device", "ts", "amount", "declined", "total"]
    found = [(row.declined, row.total) for row in done.orderBy("ts").collect()]
    assert found == [(None, 5.0), (None, 5.0), (7.0, 12.0)]

    with pytest.raises(InvalidRequest, match="store only which rows have a value"):
        sliding_aggregate(
            frame, aggregations={"n": ("amount", Count())}, emit_updates=True,
            allowed_lateness=9, **how,
        )  # fmt: skip


def test_nulls_and_nan_that_are_refused_are_named() -> None:
    nan, null = ({"watts": [1.0, bad]} for bad in (float("nan"), None))
    rows = {"device": ["a", "a"], "ts": [1, 2], "ok": [True, True]}
    with pytest.raises(InvalidValue, match=r"1 of 2 rows .* contain a NaN.*nan='skip'"):
        step(None, pa.table(rows | nan), plan_of(), MemoryStore())
    with pytest.raises(InvalidValue, match=r"1 of 2 rows .* no 'watts'.*nulls='skip'"):
        step(None, pa.table(rows | null), plan_of(nulls="raise"), MemoryStore())
    dropped = step(None, pa.table(rows | null), plan_of(nulls="drop_row"), MemoryStore())
    assert (dropped.counts.rows_invalid, dropped.rows.num_rows) == (1, 1)
    spread = step(None, pa.table(rows | nan), plan_of(nan="propagate"), MemoryStore()).rows
    assert str(spread.column("total").to_pylist()) == "[1.0, nan]"
    skipped = step(None, pa.table(rows | nan), plan_of(nan="skip"), MemoryStore()).rows
    assert skipped.column("total").to_pylist() == [1.0, 1.0]
