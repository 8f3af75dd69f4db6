"""Window functions in SQL through Spark: streams with restarts and changed queries, and batches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from mta.errors import InvalidQuery
from spark_integration import sql
from spark_integration.errors import InvalidRequest
from tests.support.sampling import REST, some
from tests.support.spark.jobs import run_to_end
from tests.support.sql_queries import Case, by_duckdb, case_of, require_equal, table_of

ZONE = "spark.sql.session.timeZone"


@pytest.fixture(autouse=True)
def utc(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "UTC")
    yield
    assert before is not None
    spark.conf.set(ZONE, before)


def rows_of(results: DataFrame | list[Any]) -> list[dict[str, Any]]:
    rows = results if isinstance(results, list) else results.collect()
    return [{name: _in_utc(value) for name, value in row.asDict().items()} for row in rows]


def _in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def events(rows: int = 60, has_ties: bool = False, seed: int = 5) -> pa.Table:
    return table_of(np.random.default_rng(seed), rows, has_ties, "UTC")


class Stream:
    """A stream ``t`` over a folder of files, whose query may change between runs."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.parts = spark, folder, 0
        self.input, self.store = folder / "input", f"file://{folder}/pages"
        self.input.mkdir()
        self.rows: list[Any] = []

    def add(self, table: pa.Table) -> None:
        path = self.input / f"{self.parts}.parquet"
        pq.write_table(table, path)
        self.parts += 1
        os.utime(path, (self.parts, self.parts))  # Spark reads files in this order

    def source(self) -> DataFrame:
        schema = self.spark.createDataFrame(events(1)).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(
            str(self.input)
        )  # fmt: skip

    def run(self, query: str, **options: Any) -> list[dict[str, Any]]:
        """The rows of all files that no earlier run has read."""
        options = {"store": self.store, "dialect": "duckdb", "ties": "rows", **options}
        found: list[Any] = []
        results = sql(self.spark, query, t=self.source(), **options)
        checkpoint = self.folder / "checkpoint"
        run_to_end(results, checkpoint, lambda df, _: found.extend(df.collect()))
        self.rows += found
        return rows_of(found)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


HOUR = "PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"


@pytest.mark.parametrize("seed", some(range(12), by_default=3))
@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "a batch")
def test_batches_equal_duckdb(spark: SparkSession, seed: int) -> None:
    case = case_of(np.random.default_rng(seed))
    query = case.query.replace("avg(d)", "avg(x)")
    df = spark.createDataFrame(case.table)
    found = rows_of(sql(spark, query, dialect="duckdb", t=df, buckets=2))
    require_equal(found, by_duckdb(Case(case.table, query, case.has_ties)))


def test_batches_equal_sparks_own_windows(spark: SparkSession) -> None:
    """The same text, but for the zone's days, also where clocks change."""
    spark.conf.set(ZONE, "Europe/Berlin")
    df = spark.createDataFrame(events(80, has_ties=True))
    df.createOrReplaceTempView("readings_of_spark")
    query = f"""
        SELECT k, ts, count_if(b) OVER w AS n, sum(i) OVER w AS s, min(b) OVER w AS b,
               percentile(x, 0.25) OVER w AS p, stddev(x) OVER w AS sd, sum(d) OVER w AS d,
               avg(i) OVER w AS a, hour(ts) AS h
        FROM readings_of_spark WHERE i > -40 OR i IS NULL WINDOW w AS ({HOUR})
    """
    try:
        found, theirs = sql(spark, query), spark.sql(query)
        assert [each.dataType for each in found.schema] == [each.dataType for each in theirs.schema]
        require_equal(rows_of(found), rows_of(theirs))
    finally:
        spark.catalog.dropTempView("readings_of_spark")


def test_joins_and_expressions_are_left_to_spark(spark: SparkSession) -> None:
    df = spark.createDataFrame(events())
    names = spark.createDataFrame([(0, "zero"), (1, "one"), (2, "{two}")], "k long, name string")
    query = """
        WITH some AS (SELECT * FROM t WHERE k < 3)
        SELECT upper(n.name) AS name, some.ts, '{' AS brace,
               sum(some.i * 2) OVER (PARTITION BY n.name ORDER BY some.ts ROWS 3 PRECEDING) / 2 AS s
        FROM some JOIN names n ON n.k = some.k
    """
    found = rows_of(sql(spark, query, t=df, names=names))
    wanted = """
        SELECT CASE k WHEN 0 THEN 'ZERO' WHEN 1 THEN 'ONE' ELSE '{TWO}' END AS name, ts,
        '{' AS brace, sum(i * 2) OVER (PARTITION BY k ORDER BY ts ROWS 3 PRECEDING) / 2.0 AS s
        FROM t WHERE k < 3
    """
    require_equal(found, by_duckdb(Case(events(), wanted, False)))


@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "a stream")
@pytest.mark.proves("asking", '`nulls="skip"`', "a stream")
def test_a_stream_is_exact_over_restarts_and_changes(stream: Stream) -> None:
    """A second run with another aggregation and a longer frame continues from the first."""
    table = events(90)
    for at in range(0, 60, 20):
        stream.add(table.slice(at, 20))
    first = f"SELECT *, max(x) OVER w AS peak FROM t WINDOW w AS ({HOUR})"
    second = (
        "SELECT k, ts, round(max(x) OVER w, 1) AS peak, count(s) FILTER (WHERE b) OVER (PARTITION "
        f"BY k ORDER BY ts ROWS 2 PRECEDING EXCLUDE CURRENT ROW) AS n FROM t WINDOW w AS ({HOUR})"
    )
    require_equal(stream.run(first), by_duckdb(Case(table.slice(0, 60), first, False)))
    assert stream.run(first) == []
    stream.add(table.slice(60, 15))
    stream.run(second)  # the column s was not stored, so counts start here
    stream.add(table.slice(75))
    found, whole = stream.run(second), by_duckdb(Case(table, second, False))
    newest = {(row["k"], row["ts"]): row for row in whole}
    of_key = {k: [r for r in whole if r["k"] == k] for k in range(4)}
    assert found and len(found) == 15
    for row in found:
        wanted = newest[row["k"], row["ts"].astimezone(UTC)]
        assert row["peak"] == wanted["peak"]
        seen = [r["ts"] for r in of_key[row["k"]] if r["ts"] > table["ts"][59].as_py()]
        if sorted(seen).index(row["ts"]) >= 2:
            assert row["n"] == wanted["n"]


def test_another_partition_is_shown_in_the_words_of_sql(stream: Stream) -> None:
    table = events(40)
    stream.add(table.slice(0, 20))
    stream.run(f"SELECT max(x) OVER ({HOUR}) AS m FROM t")
    stream.add(table.slice(20))
    with pytest.raises(StreamingQueryException) as caught:
        stream.run(f"SELECT max(x) OVER ({HOUR.replace('k', 'g')}) AS m FROM t")
    said = str(caught.value)
    assert "StateMismatch" in said
    assert re.search(r"by \(PARTITION BY\) +k bigint +g string", said)


@REST
def test_totals_since_the_first_row_keep_one_partial_per_key(stream: Stream) -> None:
    table = events(600)
    query = (
        "SELECT k, ts, sum(i) OVER w AS s, avg(x) OVER w AS a, row_number() OVER (PARTITION BY k "
        "ORDER BY ts) AS n, lag(x IGNORE NULLS) OVER (PARTITION BY k ORDER BY ts) AS l FROM t "
        "WINDOW w AS (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING)"
    )
    sizes = []
    for at in range(0, 600, 150):
        stream.add(table.slice(at, 150))
        stream.run(query)
        pages = (each for each in (stream.folder / "pages").rglob("*") if each.is_file())
        sizes.append(sum(each.stat().st_size for each in pages))
    require_equal(rows_of(stream.rows), by_duckdb(Case(table, query, False)))
    assert sizes[-1] <= sizes[0] + 4096
    stream.add(table.slice(0, 1))
    with pytest.raises(StreamingQueryException, match=r"(?s)StateMismatch.*since the first row"):
        stream.run(query.replace("sum(i)", "max(i)"))
    with pytest.raises(StreamingQueryException, match="LateEvent"):
        stream.run(query)
    assert stream.run(query, on_late="drop") == []


@REST
def test_partitions_follow_each_other_in_a_stream(stream: Stream) -> None:
    """Two partitions are two passes, which Spark chains with pages in its own state."""
    table = events(60)
    query = (
        f"SELECT *, max(x) OVER ({HOUR}) AS a, count(*) OVER (PARTITION BY g ORDER BY ts ROWS 4 "
        "PRECEDING) AS n_of_g FROM t"
    )
    for at in range(0, 60, 20):
        stream.add(table.slice(at, 20))
    stream.run(query, store="spark://state")
    require_equal(rows_of(stream.rows), by_duckdb(Case(table, query, False)))


def test_options_that_emit_other_rows_need_one_pass(spark: SparkSession, store: str) -> None:
    query = (
        "SELECT sum(x) OVER (PARTITION BY k ORDER BY ts ROWS 1 PRECEDING) AS a, sum(x) OVER "
        "(PARTITION BY g ORDER BY ts ROWS 1 PRECEDING) AS b FROM t"
    )
    df = spark.createDataFrame(events())
    with pytest.raises(InvalidRequest, match=r"emit is 'last', but .* by k, ts and by g, ts"):
        sql(spark, query, t=df, emit="last")


def test_late_rows_are_marked_behind_the_items(stream: Stream) -> None:
    table = events(30)
    stream.add(table.slice(10))
    stream.add(table.slice(0, 10))
    query = "SELECT ts, sum(i) OVER (PARTITION BY k ORDER BY ts ROWS 3 PRECEDING) AS s FROM t"
    found = stream.run(query, on_late="side")
    assert [*found[0]] == ["ts", "s", "late"]
    assert sum(row["late"] for row in found) > 0


def test_mistakes_are_found_before_the_query_starts(stream: Stream) -> None:
    stream.add(events(5))
    window = "OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL '1' HOUR PRECEDING)"
    for query, error, says in (
        (f"SELECT max(x) {window} FROM t", InvalidQuery, 'write ROWS.*ties="rows"'),
        ("SELECT max(x) OVER (ORDER BY x ROWS 1 PRECEDING) FROM t", InvalidQuery, "double"),
        ("SELECT max(y) OVER (ORDER BY ts ROWS 1 PRECEDING) FROM t", InvalidQuery, "column 'y'"),
        ("SELECT sum(s) OVER (ORDER BY ts ROWS 1 PRECEDING) FROM t", InvalidRequest, "cannot re"),
        ("SELECT max(x) OVER (ORDER BY ts ROWS 1 PRECEDING) FROM u", AnalysisException, "u"),
    ):
        with pytest.raises(error, match=f"(?s){says}"):
            stream.run(query, ties=None)
    with pytest.raises(InvalidRequest, match="give a DataFrame, or an option"):
        sql(stream.spark, f"SELECT max(x) {window} FROM t", stores="file:///x")  # type: ignore[arg-type]
    assert not (stream.folder / "checkpoint").exists()
