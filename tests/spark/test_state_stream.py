"""sliding_aggregate over streams with the pages in Spark's own state.

What is expected of a stream over any store is in ``test_streaming.py`` and ``test_idle_stream.py``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mta import Count, Sum, TimeWindow
from spark_integration import sliding_aggregate
from spark_integration.errors import InvalidRequest
from spark_integration.runners.bucket import PROVIDER
from stores import MissingDependency
from stores.errors import pip_install
from tests.spark.test_streaming import events
from tests.support.spark.driver import PEAK
from tests.support.spark.events import in_form, last_n, make_events, oracle, write_files
from tests.support.spark.jobs import ALIASES, FOLDS, WINDOW, Job, spread
from tests.support.spark.state_steps import conforming, failing_once

__all__ = ["events"]


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    job = Job(spark, tmp_path)
    job.store = "spark://state"
    return job


@pytest.mark.soak
@pytest.mark.proves("stores", "pages", "spark://state")
def test_sparks_own_map_conforms(job: Job, tmp_path: Path, events: pa.Table) -> None:
    """The conformance suite inside a task; a first batch has an empty map, a second one has not."""
    report = tmp_path / "report"
    write_files(events.slice(0, 2), job.input, files=1)
    job.run_step(conforming(str(report)), buckets=1)
    outcomes = [line.split(" ", 1) for line in report.read_text().splitlines()]
    assert not [each for each in outcomes if each[0] not in ("passed", "skipped")]
    # It is of one process, has no raw access, no conditional puts and cannot list its keys, and
    # never reads ahead.
    assert sum(outcome == "skipped" for outcome, _ in outcomes) == 7
    assert len(outcomes) > 25


@pytest.mark.soak
def test_a_failed_task_leaves_no_page_and_a_replay_the_same_ones(
    job: Job, tmp_path: Path, events: pa.Table
) -> None:
    write_files(events, job.input, files=2)
    with pytest.raises(StreamingQueryException, match="the task failed after its pages"):
        job.run_step(failing_once(str(tmp_path / "failed")))
    assert sorted(job.batches) == [0]
    assert job.check_places(events.slice(0, 600)) > 0
    job.run()
    pages = job.pages()
    assert pages
    job.remove_commit(1)
    job.batches.pop(1)
    job.run()
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert job.pages() == pages


def test_evicted_pages_leave_the_state(job: Job) -> None:
    """There are exactly the pages that the snapshots name; with eviction they grow no more."""
    size, batches, keys = 450, 6, 6  # the windows are full after two of them
    events = spread(make_events(batches * size, keys))
    write_files(events, job.input, files=batches)
    counts = []

    def look(batch: int) -> None:
        if batch % 2:
            # The newest batch is not committed yet: the state is that of the one before.
            counts.append(job.check_places(events.slice(0, batch * size)))

    job.run(sink=look)
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert min(counts[1:]) > 0
    assert max(counts[2:]) <= max(counts[:2]) * 1.5


def test_another_store_is_another_checkpoint(job: Job, tmp_path: Path, events: pa.Table) -> None:
    write_files(events.slice(0, 600), job.input, files=1)
    job.run()
    write_files(events.slice(600), job.input, files=1, first=1)
    job.store = f"file://{tmp_path}/pages"
    with pytest.raises(StreamingQueryException, match="OPERATOR_NOT_MATCH_IN_STATE_METADATA"):
        job.run()


def test_a_batch_dataframe_keeps_its_pages_in_memory(job: Job, events: pa.Table) -> None:
    settings = {**job.settings(), "store": "spark://state"}
    df = job.spark.createDataFrame(events)
    rows = sliding_aggregate(df, **settings).collect()
    assert in_form(rows, *ALIASES) == oracle(events, last_n(WINDOW), FOLDS)


def test_a_session_that_keeps_its_states_elsewhere_is_refused(job: Job) -> None:
    job.spark.conf.set(PROVIDER, "org.example.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(InvalidRequest, match=r"not in RocksDB: leave .*providerClass unset"):
            job.run()
    finally:
        job.spark.conf.unset(PROVIDER)


def test_without_protobuf_the_error_names_the_extra(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.proto.StateMessage_pb2", None)
    with pytest.raises(MissingDependency, match=re.escape(pip_install("spark"))):
        job.run()


def test_late_events_give_what_they_give_on_local_disk(job: Job, tmp_path: Path) -> None:
    """The same results, and pages of the same keys, by windows that are trees (FiBA)."""
    events = spread(make_events(1200, 4))
    delayed = np.arange(1200) + np.random.default_rng(1).integers(0, 30, 1200)
    events = events.take(pa.array(np.argsort(delayed, kind="stable")))
    (tmp_path / "disk").mkdir()
    on_disk = Job(job.spark, tmp_path / "disk")
    for each in (job, on_disk):
        write_files(events, each.input, files=2)
        plain = {"peak": ("watts", PEAK), "sum": ("watts", Sum()), "n": (None, Count())}
        late = {"window": TimeWindow("5 minutes"), "allowed_lateness": "1 minute"}
        each.run(aggregations=plain, **late)
    assert job.results() == on_disk.results()
    assert len(job.results()) == 1200
    assert len(job.pages()) == len(on_disk.pages()) > 20
