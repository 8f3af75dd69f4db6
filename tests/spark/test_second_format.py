"""Checkpoints of version 2 of Spark's format, which ``recommended_conf`` does not choose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_integration import events_of_key, inspect_query
from spark_integration.errors import InvalidRequest
from spark_integration.migration import migrate
from spark_integration.runners.bucket import PROVIDER, ROCKSDB
from tests.support.spark.events import last_n, make_events, oracle, spread, write_files
from tests.support.spark.faulty_steps import dying_at_the_end
from tests.support.spark.jobs import FOLDS, WINDOW, Job

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@pytest.fixture(autouse=True)
def second_format(spark: SparkSession) -> Iterator[None]:
    """RocksDB alone has it."""
    chosen = {FORMAT: "2", PROVIDER: ROCKSDB}
    before = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.mark.soak
@pytest.mark.parametrize("store", ["file", "spark://state"])
@pytest.mark.proves("PySpark", "checkpoints of format 2")
@pytest.mark.refuses("PySpark", "`mta migrate` of checkpoints of format 2", "newest")
def test_kills_under_it_and_looks_into_it(spark: SparkSession, tmp_path: Path, store: str) -> None:
    job, events = Job(spark, tmp_path), spread(make_events(1200, 4))
    job.store = job.store if store == "file" else store
    write_files(events.slice(0, 400), job.input, files=1)
    if store == "file":
        job.run()
    write_files(events.slice(400, 400), job.input, files=1, first=1)
    if store == "file":  # a worker dies when its pages are out; local tasks have one attempt
        with pytest.raises(Exception, match="Python worker exited"):
            job.run_step(dying_at_the_end(str(tmp_path / "died")))
    job.run()
    job.remove_commit(1)  # the driver dies after a batch's work
    write_files(events.slice(800), job.input, files=1, first=2)
    job.run()
    assert "stateUniqueIds" in (job.checkpoint / "commits" / "2").read_text()
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert job.check_places(events) > 0

    own = job.settings()
    asked: dict[str, Any] = {"aggregations": own["aggregations"], "window": own["window"]}
    assert inspect_query(job.checkpoint, job.store).events.tolist() == [WINDOW] * 4
    held = events_of_key(job.checkpoint, job.store, "d2", **asked)
    rows = zip(events["device"].to_pylist(), events["watts"].to_pylist(), strict=True)
    assert held.watts.tolist() == [watts for name, watts in rows if name == "d2"][-WINDOW:]
    with pytest.raises(InvalidRequest, match=r"version 2 of Spark's format.*sets version 1"):
        migrate(spark, job.checkpoint, tmp_path / "new", job.store, buckets=3)
    assert not (tmp_path / "new").exists()
