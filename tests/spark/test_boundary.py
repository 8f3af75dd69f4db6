"""``boundary_aggregate``: windows that end in any micro-batch are those of numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from mta import Max, Monoid
from mta.errors import LateEvent
from mta.in_order import PBA, SBA
from spark_integration import boundary_aggregate
from spark_integration.boundary import _Work
from spark_integration.errors import CorruptState, InvalidRequest
from tests.support.spark.session import spark

__all__ = ["spark"]

COUNT, KEYS = 600, 3


def readings() -> pd.DataFrame:
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "plug": random.integers(0, KEYS, COUNT),
            "ts": pd.to_datetime(np.arange(COUNT), unit="s"),
            "watts": random.normal(100, 10, COUNT).round(3),
        }
    )


def expected(rows: pd.DataFrame, range_: int, slide: int) -> set[tuple[Any, ...]]:
    """The largest of each window, by plain lists."""
    found = set()
    for plug, some in rows.groupby("plug"):
        watts, times = some["watts"].tolist(), some["ts"].tolist()
        for end in range(range_, len(watts) + 1, slide):
            found.add((plug, times[end - 1], max(watts[end - range_ : end])))
    return found


def as_set(rows: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in rows.collect()}


@pytest.mark.parametrize(("range_", "slide"), [(1, 1), (10, 1), (10, 3), (12, 4), (7, 7)])
@pytest.mark.parametrize("algorithm", [PBA, SBA])
def test_batches_of_any_length_give_the_same_windows(
    range_: int, slide: int, algorithm: Any
) -> None:
    work = _Work(("plug",), "ts", ("watts",), Max(), range_, slide, "peak", algorithm)
    rows = readings().query("plug == 0")
    state, parts, at, random = None, [], 0, np.random.default_rng(range_)
    while at < len(rows):
        step = int(random.integers(1, 25))
        state, found = work.advance(state, rows.iloc[at : at + step])
        assert len(state) < 60 + 8 * range_
        parts.append(found)
        at += step
    together = {tuple(row) for row in pd.concat(parts).itertuples(index=False)}
    assert together == expected(rows, range_, slide)


def test_a_stream_gives_what_a_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    rows = readings()
    for number in range(4):
        part = rows.iloc[150 * number : 150 * (number + 1)]
        spark.createDataFrame(part).coalesce(1).write.mode("append").parquet(f"{tmp_path}/in")
    ask: Any = {"by": "plug", "on": "ts", "values": "watts", "range": 20, "slide": 5}
    batch = spark.read.parquet(f"{tmp_path}/in")
    whole = as_set(boundary_aggregate(batch, monoid=Max(), result="peak", **ask))
    assert whole == expected(rows, 20, 5)
    # A stream takes files by the time at which they were written.
    stream = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", 1)
    results = boundary_aggregate(
        stream.parquet(f"{tmp_path}/in"), monoid=Max(), result="peak", **ask
    )
    writer = results.writeStream.format("parquet").outputMode("append")
    writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint")
    query = writer.option("path", f"{tmp_path}/out").trigger(availableNow=True).start()
    query.awaitTermination()
    assert len([one for one in query.recentProgress if one.numInputRows]) == 4
    assert as_set(spark.read.parquet(f"{tmp_path}/out")) == whole


def test_what_cannot_be_is_said(spark: SparkSession) -> None:
    rows = spark.createDataFrame(readings())
    ask: Any = {"by": "plug", "on": "ts", "values": "watts", "monoid": Max()}
    with pytest.raises(InvalidRequest, match="slide is 6: it must be between 1 and the range, 5"):
        boundary_aggregate(rows, range=5, slide=6, **ask)
    with pytest.raises(InvalidRequest, match="choose another name"):
        boundary_aggregate(rows, range=5, result="ts", **ask)
    with pytest.raises(InvalidRequest, match="no such column"):
        boundary_aggregate(rows, range=5, **(ask | {"values": "volts"}))
    with pytest.raises(InvalidRequest, match="columns of numbers"):
        boundary_aggregate(rows, range=5, **(ask | {"monoid": Monoid("", lambda a, b: a + b)}))


def test_late_rows_and_foreign_states_are_refused() -> None:
    work = _Work(("plug",), "ts", ("watts",), Max(), 10, 1, "peak", PBA)
    rows = readings().query("plug == 0")
    state, _ = work.advance(None, rows.iloc[5:10])
    with pytest.raises(LateEvent, match="older than the newest row of its key"):
        work.advance(state, rows.iloc[:3])
    narrow = _Work(("plug",), "ts", ("watts",), Max(), 3, 1, "peak", PBA)
    with pytest.raises(CorruptState, match="range 3"):
        narrow.advance(state, rows.iloc[10:])
    with pytest.raises(CorruptState):
        work.advance(state[:-3], rows.iloc[10:])


def test_seconds_may_have_fractions() -> None:
    work = _Work(("plug",), "ts", ("watts",), Max(), 2, 1, "peak", PBA)
    rows = pd.DataFrame({"plug": 0, "ts": [1.0, 1.5], "watts": [1.0, 2.0]})
    state, _ = work.advance(None, rows)
    with pytest.raises(LateEvent):
        work.advance(state, rows.assign(ts=[1.25, 2.0]))
