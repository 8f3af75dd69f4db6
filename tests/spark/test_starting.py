"""A query that was given nothing gets settings that fit; what was given stays as it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_integration import sliding_aggregate
from spark_integration.checkpoint import partitions_of, states_by_bucket
from spark_integration.migration import migrate
from spark_integration.runners.workers import PARTITIONS
from spark_integration.starting import (
    CHECKPOINTS,
    FILES,
    cores_of,
    fitting_settings,
    local_folder,
    parts_of_a_range,
)
from spark_integration.step.states import State
from spark_integration.versions import BY_FILE_SYSTEM
from tests.support.spark.events import last_n, make_events, oracle, write_files
from tests.support.spark.jobs import FOLDS, WINDOW, Job, spread

EVENTS = spread(make_events(1200, 20))


@pytest.fixture
def unset(spark: SparkSession) -> Iterator[SparkSession]:
    """The session as one that was made without any settings of ours."""
    before = {name: spark.conf.get(name, None) for name in (PARTITIONS, FILES)}
    for name in before:
        spark.conf.unset(name)
    yield spark
    for name, value in before.items():
        if value is not None:
            spark.conf.set(name, value)


def run_part(job: Job, part: int, **changes: Any) -> None:
    write_files(EVENTS.slice(400 * part, 400), job.input, files=1, first=part)
    job.run(**{"buckets": None, **changes})


def buckets_of(job: Job) -> set[int]:
    """What the states say of how many buckets there are."""
    states = states_by_bucket(job.spark, job.checkpoint, job.store)
    return {State.decode(state).buckets for state in states.values()}


def test_partitions_and_buckets_are_as_many_as_cores_when_the_query_first_starts(
    unset: SparkSession, tmp_path: Path
) -> None:
    """A restart has those of the checkpoint, whatever the session says, and ``mta migrate`` others.

    The settings of the session stay as they are.
    """
    job = Job(unset, tmp_path)
    run_part(job, 0)
    assert (partitions_of(job.checkpoint), buckets_of(job)) == (2, {2})
    assert unset.conf.get(PARTITIONS, None) is None and unset.conf.get(FILES, None) is None
    unset.conf.set(PARTITIONS, "5")
    run_part(job, 1)
    assert (partitions_of(job.checkpoint), buckets_of(job)) == (2, {2})
    target = tmp_path / "moved"
    migrate(unset, job.checkpoint, target, job.store, buckets=3)
    job.checkpoint = target
    run_part(job, 2)
    assert (partitions_of(job.checkpoint), buckets_of(job)) == (3, {3})
    assert unset.conf.get(PARTITIONS) == "5"
    assert job.results() == oracle(EVENTS, last_n(WINDOW), FOLDS)


def test_what_is_given_stays(unset: SparkSession, tmp_path: Path) -> None:
    job = Job(unset, tmp_path)
    unset.conf.set(PARTITIONS, "3")
    run_part(job, 0, buckets=5)
    assert (partitions_of(job.checkpoint), buckets_of(job)) == (3, {5})
    target = tmp_path / "moved"
    migrate(unset, job.checkpoint, target, job.store, buckets=4)
    assert partitions_of(target) == 3


@pytest.mark.parametrize(
    ("partitions", "reported"), [(1, True), (2, False), (16, False), (17, True)]
)
def test_partitions_that_do_not_fit_the_cores_are_reported(
    unset: SparkSession, tmp_path: Path, partitions: int, reported: bool
) -> None:
    """Those of the checkpoint where there is one, else of the session."""
    unset.conf.set(PARTITIONS, str(partitions))
    (tmp_path / "offsets").mkdir()
    for where in ("session", "checkpoint"):
        with (
            warnings.catch_warnings(record=True) as found,
            fitting_settings(unset, str(tmp_path), rocksdb=False),
        ):
            pass
        numbers = f"the {where} sets the number of state partitions to {partitions}, on 2 cores"
        assert [numbers in str(each.message) for each in found] == [True] * reported
        conf = f'{{"conf": {{"{PARTITIONS}": "{partitions}"}}}}'
        (tmp_path / "offsets" / "0").write_text(f"v1\n{conf}\n{{}}")
        unset.conf.set(PARTITIONS, "2")


@pytest.mark.parametrize(
    ("buckets", "why"),
    [(None, None), (1, "some cores have nothing to do"), (2, None), (16, None), (17, "8 in a row")],
)
def test_buckets_that_do_not_fit_the_cores_are_reported(
    spark: SparkSession, tmp_path: Path, buckets: int | None, why: str | None
) -> None:
    job = Job(spark, tmp_path)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sliding_aggregate(job.source(), **job.settings(buckets=buckets))
    assert [f"has buckets={buckets} on 2 cores" in str(each.message) for each in found] == [
        True
    ] * (why is not None)
    assert all(why in str(each.message) and each.filename == __file__ for each in found)


def test_the_warning_names_the_line_that_starts_the_query(
    unset: SparkSession, tmp_path: Path
) -> None:
    unset.conf.set(PARTITIONS, "40")
    job = Job(unset, tmp_path)
    writer = sliding_aggregate(job.source(), **job.settings()).writeStream.format("noop")
    with pytest.warns(
        RuntimeWarning, match="partitions to 40, on 2 cores: .* 20 in a row"
    ) as found:
        writer.option("checkpointLocation", str(job.checkpoint)).start().stop()
    assert found[0].filename == __file__


@pytest.mark.parametrize("given", ["option", "options", "start", "session"])
def test_a_checkpoint_on_local_disk_is_written_the_older_way(
    unset: SparkSession, tmp_path: Path, given: str
) -> None:
    """However the checkpoint is given; a sink sees the settings that the query was started with."""
    job, seen = Job(unset, tmp_path), []
    write_files(EVENTS.slice(0, 20), job.input, files=1)
    writer = sliding_aggregate(job.source(), **job.settings()).writeStream

    def note(rows: DataFrame, batch: int) -> None:
        rows.collect()
        seen.append(rows.sparkSession.conf.get(FILES, None))

    writer.foreachBatch(note)
    named: dict[str, Any] = {"checkpointLocation": str(job.checkpoint)}
    if given == "session":
        unset.conf.set(CHECKPOINTS, str(tmp_path))
    elif given != "start":
        getattr(writer, given)(*(named.popitem() if given == "option" else ()), **named)
    try:
        query = writer.trigger(availableNow=True).start(**named if given == "start" else {})
        query.awaitTermination()
    finally:
        unset.conf.unset(CHECKPOINTS)
    assert seen == [BY_FILE_SYSTEM]


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("/var/my%20query", "/var/my%20query"),
        ("file:///var/my%20query", "/var/my query"),
        ("file:/var/cp", "/var/cp"),
        ("file://host/var/cp", None),
        ("hdfs://host/cp", None),
        ("s3a://bucket/cp", None),
        (None, None),
    ],
)
def test_which_checkpoints_are_on_local_disk(
    spark: SparkSession, location: str | None, found: str | None
) -> None:
    assert local_folder(spark, location) == (None if found is None else Path(found))


def test_cores_are_those_of_the_master(spark: SparkSession) -> None:
    assert cores_of(spark) == parts_of_a_range(spark) == 2
