"""The workers' Python, and settings that were not given, before a query starts."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from mta import Count, CountWindow
from spark_integration import check_workers, interpreter, sliding_aggregate
from spark_integration.checkpoint import partitions_of, states_by_bucket
from spark_integration.errors import InvalidRequest
from spark_integration.java import ensure_java
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
from tests.support.spark.events import last_n, make_events, oracle, spread, write_files
from tests.support.spark.home import QUICK_JAVA
from tests.support.spark.jobs import FOLDS, WINDOW, Job

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


ROOT = Path(__file__).parents[2]

#: A job as one writes it first: a session of its own, and nothing set.
JOB = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pyspark.sql import SparkSession
from mta import Count, CountWindow
from spark_integration import check_workers, interpreter, sliding_aggregate

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
events = spark.createDataFrame([("a", 1.0)], "k string, t double")
try:
    sliding_aggregate(
        events, by="k", on="t", aggregations={{"n": (None, Count())}}, window=CountWindow(1),
        store="file:///nowhere",
    )
except ValueError as error:
    print("up front:", error)
interpreter.is_local = lambda context: False  # as on a cluster, where a task is asked
try:
    check_workers(spark)
except ValueError as error:
    print("by a task:", error)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python3"


def counted(spark: SparkSession, store: str) -> Any:
    events = spark.createDataFrame([("a", 1.0)], "k string, t double")
    return sliding_aggregate(
        events, by="k", on="t", aggregations={"n": (None, Count())}, window=CountWindow(1),
        store=store,
    )  # fmt: skip


@pytest.mark.soak
def test_a_job_without_activation_is_reported_what_to_set(bare: Path, tmp_path: Path) -> None:
    """In place of some hundred lines from the workers."""
    (tmp_path / "job.py").write_text(JOB)
    left_out = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"PATH": f"{bare.parent}:{os.environ['PATH']}", "JAVA_HOME": str(ensure_java())}
    environment["SPARK_SUBMIT_OPTS"] = QUICK_JAVA  # and not the tests' own daemon of workers
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    up_front, by_a_task = done.stdout.splitlines()
    assert up_front.startswith("up front: Spark's workers run 'python3', which does not have ")
    assert f"PYSPARK_PYTHON={sys.executable} before the session" in up_front
    assert by_a_task.startswith("by a task: the Python of Spark's workers does not have spark")
    assert "--archives" in by_a_task


def test_what_is_amiss_is_named(
    spark: SparkSession, bare: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", str(bare))
    with pytest.raises(InvalidRequest, match=r"does not have numpy, pandas, pyarrow.*: set the"):
        counted(spark, store)  # the packages of the project itself are on PYTHONPATH
    monkeypatch.setattr(context, "pythonExec", "/no/such/python")
    with pytest.raises(InvalidRequest, match="'/no/such/python', which does not run"):
        counted(spark, store)
    monkeypatch.setattr(interpreter, "NEEDED", ())
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    monkeypatch.setattr(context, "pythonExec", sys.executable + "3")
    old = interpreter.Probed((3, 9), (), "26.0.1", "")
    monkeypatch.setattr(interpreter, "_found_by", lambda *_: old)
    with pytest.raises(InvalidRequest, match=r"is Python 3.9, but this program runs on 3.99"):
        counted(spark, store)


def test_what_executors_are_given_counts(
    spark: SparkSession, bare: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their environment, and the files that were shipped, bring packages too."""
    site = str(Path(pytest.__file__).parents[1])
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", f"{ROOT}:{site}")
    assert counted(spark, store).columns == ["k", "t", "n"]


def test_a_good_one_is_let_pass(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    check_workers(spark)
    monkeypatch.setattr(interpreter, "is_local", lambda context: False)
    check_workers(spark)


def test_a_cluster_is_asked_by_itself_and_once_it_has_all_never_again(
    spark: SparkSession, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(context: Any) -> interpreter.Probed:
        asked.append(context)
        missing = ("mta", "xxhash") if len(asked) == 1 else ()
        return interpreter.Probed(sys.version_info[:2], missing, "25.0.1", "")

    monkeypatch.setattr(interpreter, "is_local", lambda context: False)
    monkeypatch.setattr(interpreter, "_ask_a_task", ask)
    monkeypatch.setattr(interpreter, "_of_applications", {})
    with pytest.raises(InvalidRequest, match=r"does not have mta, xxhash: install .*--archives"):
        counted(spark, store)
    for _ in range(2):
        assert counted(spark, store).columns == ["k", "t", "n"]
    assert len(asked) == 2


def test_a_pyarrow_that_cannot_be_imported_is_named(
    spark: SparkSession, bare: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where it wants a newer numpy than PySpark 3.5 does."""
    site, broken = str(Path(pytest.__file__).parents[1]), tmp_path / "pyarrow.py"
    broken.write_text("raise ImportError('pyarrow requires NumPy 2.0 or newer, found 1.26.4')")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", f"{tmp_path}:{ROOT}:{site}")
    with pytest.raises(InvalidRequest, match=r"cannot import pyarrow \(.* NumPy 2.0 or newer"):
        counted(spark, store)
