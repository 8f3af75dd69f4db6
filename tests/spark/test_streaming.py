"""sliding_aggregate over streams: exact through batches, restarts, replays and killed workers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mta import CountWindow, TimeWindow
from tests.support.sampling import REST, some
from tests.support.spark.events import (
    last_n,
    last_seconds,
    make_events,
    oracle,
    write_files,
)
from tests.support.spark.faulty_steps import dying_at_the_end
from tests.support.spark.jobs import FOLDS, WINDOW, Job, counts_of, spread


@pytest.fixture(params=some(["file", "state"], by_default=1))
def job(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Job:
    job = Job(spark, tmp_path)
    job.store = "spark://state" if request.param == "state" else job.store
    return job


@pytest.fixture
def events() -> pa.Table:
    return spread(make_events(1200, 6))


@pytest.mark.parametrize(
    ("keys", "frame", "expired"),
    some(
        [
            (1000, TimeWindow("20 minutes"), last_seconds(1200)),
            (1, CountWindow(WINDOW), last_n(WINDOW)),
        ],
        by_default=1,
    ),
)
def test_equals_the_oracle(job: Job, keys: int, frame: Any, expired: Any) -> None:
    events = spread(make_events(2500, keys))
    write_files(events, job.input, files=3)
    query = job.run(window=frame)
    assert len(job.batches) == 3
    assert job.results() == oracle(events, expired, FOLDS)
    zero = ("rows_dropped", "rows_late", "rows_invalid", "rows_missing", "rows_incomplete")
    counts = dict.fromkeys((*zero, "rows_ahead"), 0)
    assert counts_of(query) == {"rows_read": events.num_rows - 2 * 834, **counts}


def test_a_killed_worker_and_a_failing_sink_are_made_good_by_restarts(
    job: Job, events: pa.Table, tmp_path: Path
) -> None:
    write_files(events, job.input, files=3)
    marker = tmp_path / "killed"

    def fail(batch: int) -> None:
        if batch == 1:
            raise OSError("the sink is down")

    with pytest.raises(StreamingQueryException):
        job.run_step(dying_at_the_end(str(marker)))
    assert marker.exists()
    assert sorted(job.batches) == [0]
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        job.run(sink=fail)
    job.run()
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)


@REST
def test_two_queries_share_a_store(spark: SparkSession, tmp_path: Path, events: pa.Table) -> None:
    first, second = (Job(spark, tmp_path / name) for name in make_folders(tmp_path, "a", "b"))
    second.store = first.store
    for job in (first, second):
        write_files(events, job.input, files=1)
        job.run()
    pages = first.pages()
    shutil.rmtree(second.checkpoint)
    second.run()
    assert pages < first.pages()  # a new checkpoint is a new query with pages of its own
    write_files(spread_later(events), first.input, files=1, first=1)
    first.run()
    whole = pa.concat_tables([events, spread_later(events)])
    assert first.results() == oracle(whole, last_n(WINDOW), FOLDS)


def make_folders(parent: Path, *names: str) -> tuple[str, ...]:
    for name in names:
        (parent / name).mkdir()
    return names


def spread_later(events: pa.Table) -> pa.Table:
    at = events.column_names.index("ts")
    later = events.column("ts").cast(pa.int64()).to_numpy() + 10**10
    return events.set_column(at, "ts", pa.array(later, pa.timestamp("us", "UTC")))


def test_what_stops_a_query_and_what_lets_it_go_on(job: Job, events: pa.Table) -> None:
    """Late events, which may be dropped, and settings that the checkpoint does not suit."""
    write_files(events.slice(100), job.input, files=1)
    job.run()
    write_files(events.slice(0, 100), job.input, files=1, first=1)
    for changes, named in (
        ({"buckets": 8}, r"StateMismatch[^$]*set buckets=2"),
        ({"by": "site"}, r"StateMismatch[^$]*restore its settings[^$]*device string +site"),
        ({}, "LateEvent"),
    ):
        with pytest.raises(StreamingQueryException, match=named):
            job.run(**changes)
    query = job.run(on_late="drop")
    counts = {
        "rows_read": 100,
        "rows_dropped": 100,
        "rows_late": 100,
        "rows_invalid": 0,
        "rows_missing": 0,
        "rows_incomplete": 0,
        "rows_ahead": 0,
    }
    assert counts_of(query) == counts
    assert job.results() == oracle(events.slice(100), last_n(WINDOW), FOLDS)
