"""Streams are exact through batches, restarts, replays and killed workers, in any store."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mta import CountWindow, TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.runners.bucket import PROVIDER
from stores import MissingDependency
from stores.errors import pip_install
from tests.support.sampling import REST, some
from tests.support.spark.events import (
    in_form,
    last_n,
    last_seconds,
    make_events,
    oracle,
    spread,
    write_files,
)
from tests.support.spark.faulty_steps import dying_at_the_end
from tests.support.spark.jobs import ALIASES, FOLDS, WINDOW, Job, counts_of
from tests.support.spark.state_steps import conforming, failing_once


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


@pytest.fixture
def on_state(spark: SparkSession, tmp_path: Path) -> Job:
    on_state = Job(spark, tmp_path)
    on_state.store = "spark://state"
    return on_state


@pytest.mark.soak
@pytest.mark.proves("stores", "pages", "spark://state")
def test_sparks_own_map_conforms(on_state: Job, tmp_path: Path, events: pa.Table) -> None:
    """The conformance suite inside a task; a first batch has an empty map, a second one has not."""
    report = tmp_path / "report"
    write_files(events.slice(0, 2), on_state.input, files=1)
    on_state.run_step(conforming(str(report)), buckets=1)
    outcomes = [line.split(" ", 1) for line in report.read_text().splitlines()]
    assert not [each for each in outcomes if each[0] not in ("passed", "skipped")]
    # It is of one process, has no raw access, no conditional puts and cannot list its keys, and
    # never reads ahead.
    assert sum(outcome == "skipped" for outcome, _ in outcomes) == 7
    assert len(outcomes) > 25


@pytest.mark.soak
def test_a_failed_task_leaves_no_page_and_a_replay_the_same_ones(
    on_state: Job, tmp_path: Path, events: pa.Table
) -> None:
    write_files(events, on_state.input, files=2)
    with pytest.raises(StreamingQueryException, match="the task failed after its pages"):
        on_state.run_step(failing_once(str(tmp_path / "failed")))
    assert sorted(on_state.batches) == [0]
    assert on_state.check_places(events.slice(0, 600)) > 0
    on_state.run()
    pages = on_state.pages()
    assert pages
    on_state.remove_commit(1)
    on_state.batches.pop(1)
    on_state.run()
    assert on_state.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert on_state.pages() == pages


def test_evicted_pages_leave_the_state(on_state: Job) -> None:
    """There are exactly the pages that the snapshots name; with eviction they grow no more."""
    size, batches, keys = 450, 6, 6  # the windows are full after two of them
    events = spread(make_events(batches * size, keys))
    write_files(events, on_state.input, files=batches)
    counts = []

    def look(batch: int) -> None:
        if batch % 2:
            # The newest batch is not committed yet: the state is that of the one before.
            counts.append(on_state.check_places(events.slice(0, batch * size)))

    on_state.run(sink=look)
    assert on_state.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert min(counts[1:]) > 0
    assert max(counts[2:]) <= max(counts[:2]) * 1.5


def test_another_store_is_another_checkpoint(
    on_state: Job, tmp_path: Path, events: pa.Table
) -> None:
    write_files(events.slice(0, 600), on_state.input, files=1)
    on_state.run()
    write_files(events.slice(600), on_state.input, files=1, first=1)
    on_state.store = f"file://{tmp_path}/pages"
    with pytest.raises(StreamingQueryException, match="OPERATOR_NOT_MATCH_IN_STATE_METADATA"):
        on_state.run()


def test_a_batch_dataframe_keeps_its_pages_in_memory(on_state: Job, events: pa.Table) -> None:
    settings = {**on_state.settings(), "store": "spark://state"}
    df = on_state.spark.createDataFrame(events)
    rows = sliding_aggregate(df, **settings).collect()
    assert in_form(rows, *ALIASES) == oracle(events, last_n(WINDOW), FOLDS)


def test_a_session_that_keeps_its_states_elsewhere_is_refused(on_state: Job) -> None:
    on_state.spark.conf.set(PROVIDER, "org.example.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(InvalidRequest, match=r"not in RocksDB: leave .*providerClass unset"):
            on_state.run()
    finally:
        on_state.spark.conf.unset(PROVIDER)


def test_without_protobuf_the_error_names_the_extra(
    on_state: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.proto.StateMessage_pb2", None)
    with pytest.raises(MissingDependency, match=re.escape(pip_install("spark"))):
        on_state.run()
