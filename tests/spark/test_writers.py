"""Output modes, triggers and encodings that Spark cannot run windows with, refused up front."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from mta import CountWindow
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.runners.bucket import ENCODING
from tests.support.spark.jobs import Job


@pytest.fixture(params=["file", "spark://state"])
def windows(job: Job, request: pytest.FixtureRequest) -> DataFrame:
    """Behind something else, as a query may do more with what comes out."""
    changes: dict[str, Any] = {} if request.param == "file" else {"store": request.param}
    return sliding_aggregate(job.source(), **job.settings(**changes)).where("n > 1")


@pytest.mark.parametrize("mode", ["update", "Complete"])
def test_an_output_mode_that_gives_rows_again(windows: DataFrame, job: Job, mode: str) -> None:
    advice = rf"output mode is '{mode}'.* leave the mode unset \('append'\).*emit_updates=True"
    with pytest.raises(InvalidRequest, match=advice):
        windows.writeStream.outputMode(mode)
    with pytest.raises(InvalidRequest, match=advice):
        windows.writeStream.format("noop").start(outputMode=mode)
    with pytest.raises(InvalidRequest, match=advice):
        windows.writeStream.toTable("never", outputMode=mode)
    assert not job.spark.streams.active
    windows.writeStream.outputMode("append")


@pytest.mark.parametrize("name", ["realTime", "continuous"])
def test_a_trigger_without_micro_batches(windows: DataFrame, name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"trigger is {name}='5 minutes'.*processingTime="):
        windows.writeStream.trigger(**{name: "5 minutes"})
    windows.writeStream.trigger(processingTime="1 second")


def test_streams_without_windows_are_as_they_were(windows: DataFrame, job: Job) -> None:
    assert windows.isStreaming
    counts = job.source().groupBy("device").count()
    counts.writeStream.outputMode("update").trigger(continuous="5 minutes")


def test_an_encoding_of_states(job: Job) -> None:
    job.spark.conf.set(ENCODING, "avro")
    try:
        with pytest.raises(InvalidRequest, match=rf"{ENCODING} is 'avro'.*'unsaferow'"):
            sliding_aggregate(job.source(), **job.settings())
        sliding_aggregate(job.source(), **job.settings(store="spark://state"))
    finally:
        job.spark.conf.unset(ENCODING)


def test_a_stream_needs_a_store_and_a_batch_none(job: Job, tmp_path: Path) -> None:
    """A batch's pages, of which there are thousands here, are nowhere afterwards."""
    settings = {name: value for name, value in job.settings().items() if name != "store"}
    with pytest.raises(InvalidRequest, match=r"is a stream, but store is not given.*file:///path"):
        sliding_aggregate(job.source(), **settings)
    before = everything_near(tmp_path)
    rows = job.spark.range(20_000).selectExpr(
        "concat('d', id % 3) device", "timestamp_seconds(id) ts", "double(id % 7) watts"
    )
    done = sliding_aggregate(rows, **{**settings, "window": CountWindow(3000)})
    assert done.agg({"peak": "min", "n": "max"}).first() == (0.0, 3000)
    assert everything_near(tmp_path) == before


def everything_near(folder: Path) -> set[Path]:
    """All files where pages could be left: among the test's, here, and ours for a while."""
    return {
        *folder.rglob("*"),
        *Path.cwd().glob("*"),
        *Path(tempfile.gettempdir()).glob("mta-pages-*"),
    }
