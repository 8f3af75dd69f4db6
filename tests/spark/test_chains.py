"""Multiple windows in one query: behind one another, united, joined; and what Spark says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from mta import CountWindow, Max, Sum
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.starting import CHECKS
from tests.support.sampling import some
from tests.support.spark.events import last_n, make_events, oracle, spread, write_files
from tests.support.spark.jobs import Job

Combine = Callable[[Job], DataFrame]


@pytest.fixture
def events() -> pa.Table:
    return spread(make_events(400, 5))


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, events: pa.Table) -> Iterator[Job]:
    job = Job(spark, tmp_path)
    write_files(events, job.input, files=2)
    yield job
    spark.conf.unset(CHECKS)


def settings(job: Job, name: str, fold: Any, size: int, **changes: Any) -> dict[str, Any]:
    given = {"window": CountWindow(size), "aggregations": {name: ("watts", fold)}, "metrics": name}
    return {**job.settings(name=name), **given, **changes}


def chained(job: Job) -> DataFrame:
    """The highest of the last 7, and the sum of the last 4 of those."""
    peaks = sliding_aggregate(job.source(), **settings(job, "peak", Max(), 7, carry=["watts"]))
    of_peaks = settings(job, "sum", Sum(), 4, carry=["watts"])
    return sliding_aggregate(peaks, **{**of_peaks, "aggregations": {"sum": ("peak", Sum())}})


def joined(job: Job) -> DataFrame:
    peaks = sliding_aggregate(job.source(), **settings(job, "peak", Max(), 7))
    sums = sliding_aggregate(job.source(), **settings(job, "sum", Sum(), 4))
    return peaks.join(sums.select("device", "ts", "sum"), ["device", "ts"])


def united(job: Job) -> DataFrame:
    peaks = sliding_aggregate(job.source(), **settings(job, "peak", Max(), 7))
    sums = sliding_aggregate(job.source(), **settings(job, "sum", Sum(), 4))
    both = peaks.selectExpr("device", "ts", "watts", "peak", "null as sum")
    return both.union(sums.selectExpr("device", "ts", "watts", "null", "sum"))


def found_by(job: Job, combine: Combine) -> set[tuple[Any, ...]]:
    job.run_frame(combine(job))
    rows = [row for batch in job.batches.values() for row in batch]
    return {(row.device, round(row.ts.timestamp() * 1e6), row.peak, row.sum) for row in rows}


@pytest.mark.parametrize(
    ("combine", "pages"),
    some(
        [(chained, "state"), (joined, "file"), (united, "file"), (chained, "file"),
         (joined, "state")], by_default=3,
    ),
)  # fmt: skip
@pytest.mark.proves("PySpark", "chained, joined and united windows")
@pytest.mark.proves("stores", "chained, joined and united windows", "file", "spark://state")
def test_both_are_exact(job: Job, events: pa.Table, combine: Combine, pages: str) -> None:
    if pages == "state":
        job.store = "spark://state"
    else:
        job.spark.conf.set(CHECKS, "false")
    peaks = {row[:2]: row[3] for row in oracle(events, last_n(7), [max])}
    sums = {row[:2]: row[3] for row in oracle(events, last_n(4), [sum])}
    if combine is chained:
        at = {device: [k for k in sorted(peaks) if k[0] == device] for device, _ in peaks}
        for keys in at.values():
            sums |= {
                k: sum(peaks[j] for j in keys[max(0, i - 3) : i + 1]) for i, k in enumerate(keys)
            }
    wanted = {(*k, peaks[k], sums[k]) for k in peaks}
    if combine is united:
        wanted = {(*k, peaks[k], None) for k in peaks} | {(*k, None, sums[k]) for k in sums}
    assert found_by(job, combine) == wanted


def test_a_chain_that_spark_refuses_is_named_up_front(job: Job) -> None:
    with pytest.raises(InvalidRequest, match=rf"set {CHECKS} to 'false' .*='spark://state'"):
        chained(job)


@pytest.mark.parametrize("combine", [joined, united])
def test_two_that_spark_refuses_are_named_where_the_query_starts(
    job: Job, combine: Combine
) -> None:
    frame = combine(job)
    with pytest.raises(InvalidRequest, match=rf"set {CHECKS} to 'false' .*='spark://state'"):
        job.run_frame(frame)
    assert not job.batches


def test_they_are_named_too_where_the_query_writes_a_table(job: Job, tmp_path: Path) -> None:
    writer = joined(job).writeStream.option("checkpointLocation", str(job.checkpoint))
    try:
        with pytest.raises(InvalidRequest, match=rf"set {CHECKS} to 'false' .*='spark://state'"):
            writer.option("path", str(tmp_path / "table")).toTable("several")
    finally:
        job.spark.sql("DROP TABLE IF EXISTS several")


def test_other_refusals_stay_sparks_own(job: Job) -> None:
    frame = sliding_aggregate(job.source(), **job.settings())
    with pytest.raises(AnalysisException, match=r"(?i)sorting is not supported"):
        frame.sort("ts").writeStream.format("noop").start()


def test_counts_of_one_name_are_named(job: Job) -> None:
    one = sliding_aggregate(job.source(), **job.settings())
    again = job.settings(aggregations={"high": ("peak", Max())}, name="again")
    with pytest.raises(InvalidRequest, match="name here, such as metrics='sliding_aggregate_2'"):
        sliding_aggregate(one, **again)
