"""Frames that end before the row: the same rows as Spark SQL's window functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mta import Count, CountWindow, Max, Sum, TimeWindow
from mta.frames import Frame
from spark_integration import save_history, sliding_aggregate
from spark_integration.errors import InvalidRequest
from tests.support.spark.jobs import run_to_end

FRAMES: dict[str, Frame | dict[str, Frame]] = {
    "range between interval 20 seconds preceding and current row": TimeWindow(
        20, closed="both", ties="peers"
    ),
    "range between interval 20 seconds preceding and interval '0.000001' second preceding": (
        TimeWindow(20, closed="left")
    ),
    "range between interval 29 seconds preceding and interval 10 seconds preceding": TimeWindow(
        19, closed="both", delay="10 seconds"
    ),
    "rows between 4 preceding and 1 preceding": CountWindow(4, exclude_current=True),
}


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    """Rows in order of their times, with ties; the values of one time are in order, too."""
    rows = spark.range(600).withColumn("device", F.concat(F.lit("d"), F.col("id") % 7))
    rows = rows.withColumn("ts", F.timestamp_seconds(F.floor(F.col("id") / 14) * 3))
    return rows.withColumn("watts", (F.col("id") * 1000 + F.col("id") * 37 % 101).cast("long"))


def run(df: DataFrame, **changes: Any) -> DataFrame:
    aggregations = {"n": Count(), "most": ("watts", Max()), "total": ("watts", Sum())}
    given = {"by": "device", "on": "ts", "aggregations": aggregations, "buckets": 2, **changes}
    return sliding_aggregate(df, **given)


@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "a batch")
def test_batches_are_those_of_window_functions(spark: SparkSession, events: DataFrame) -> None:
    """Maxima of whole numbers are null where nothing is in the frame."""
    events.createOrReplaceTempView("lagging")
    named = {f"f{at}": frame for at, frame in enumerate(FRAMES.values())}
    found = run(events, window=named).collect()
    over = "over (partition by device order by {} {})"
    columns = ", ".join(
        f"{call} {over.format('ts, watts' if 'rows' in sql else 'ts', sql)} as {name}_f{at}"
        for at, sql in enumerate(FRAMES)
        for name, call in (("n", "count(*)"), ("most", "max(watts)"))
    )
    wanted = spark.sql(f"select device, ts, watts, {columns} from lagging").collect()
    names = [name for name in wanted[0].asDict() if not name.startswith("total")]
    rows = (sorted(tuple(row[name] for name in names) for row in each) for each in (found, wanted))
    assert next(rows) == next(rows)


@pytest.mark.refuses("asking", '`ties="peers"`', "a stream", "periodic")
def test_peers_of_a_stream_may_still_come(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    peers = TimeWindow(20, ties="peers")
    events.write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
    store = f"file://{tmp_path}/pages"
    with pytest.raises(InvalidRequest, match="later micro-batches may bring more rows with"):
        run(stream, window=peers, store=store)
    aggregations = {"n": Count()}
    with pytest.raises(InvalidRequest, match="leave ties= out"):
        save_history(
            events, "h", until=100, by="device", on="ts", window=peers, store=store,
            aggregations=aggregations,
        )  # fmt: skip
    with pytest.raises(InvalidRequest, match="emit_every"):
        run(events, window=peers, emit_every=10)


@pytest.mark.proves("asking", "`closed=`, `delay=`, `exclude_current=`", "a stream")
def test_a_stream_has_the_rows_of_a_batch(
    spark: SparkSession, events: DataFrame, tmp_path: Path
) -> None:
    """In as many micro-batches as files, one of them after a restart."""
    frame, store = TimeWindow(20, closed="left", delay=3), f"file://{tmp_path}/pages"
    rows = events.orderBy("id").select("device", "ts", "watts")
    given = tmp_path / "events"
    for part, limits in enumerate([(0, 200), (200, 400), (400, 600)]):
        some = events.where(F.col("id").between(limits[0], limits[1] - 1)).coalesce(1)
        some.select("device", "ts", "watts").write.mode("append").parquet(str(given))
        stream = spark.readStream.schema(rows.schema).parquet(str(given))
        results = run(stream, window=frame, store=store)
        run_to_end(results, tmp_path / "checkpoint", path=tmp_path / "out")
        assert spark.read.parquet(str(tmp_path / "out")).count() == 200 * (part + 1)
    columns = ["device", "ts", "watts", "n", "most", "total"]
    found = spark.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted(map(tuple, found), key=str) == sorted(
        map(tuple, run(rows, window=frame).select(*columns).collect()), key=str
    )
