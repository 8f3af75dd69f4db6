"""The core of what Spark does here, kept short: it runs on every supported version of PySpark.

``nox -s spark`` runs this file with the oldest ones, ``make test`` with the newest.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import spark_integration
from mta import Count, CountWindow, Mean, Monoid, TimeWindow
from mta.cli import main
from spark_integration import (
    History,
    delete_history,
    save_history,
    sliding_aggregate,
    versions,
)
from spark_integration.checkpoint import saved_snapshots
from spark_integration.errors import InvalidRequest
from spark_integration.versions import check_pyarrow
from stores import open_store
from stores.errors import MissingDependency
from tests.support.spark.events import (
    SCHEMA,
    in_form,
    last_n,
    make_events,
    oracle,
    spread,
    write_files,
)
from tests.support.spark.jobs import ALIASES, FOLDS, WINDOW, Job, counts_of

OLD = versions.INSTALLED < (4, 0)
IN_STATE = pytest.mark.skipif(OLD, reason="spark://state needs PySpark 4.0")


@pytest.fixture
def events() -> pa.Table:
    return spread(make_events(1200, 6))


#: One that no column can sweep: its windows go key by key.
LARGEST = Monoid(float("-inf"), max, name="largest")


@pytest.mark.parametrize("pages", ["file", "redis", "state"])
@pytest.mark.proves("stores", "a Spark stream with a restart", "file", "redis", "spark://state")
@pytest.mark.proves("PySpark", "streams with pages in a store")
def test_a_stream_goes_on_after_a_restart(
    job: Job, events: pa.Table, pages: str, request: pytest.FixtureRequest
) -> None:
    if pages == "redis":
        job.store = request.getfixturevalue("redis_url")
    if pages == "state":
        job.store = "spark://state"
    if pages == "state" and OLD:
        with pytest.raises(InvalidRequest, match=r"needs PySpark 4\.0 or later"):
            job.run()
        return
    write_files(events.slice(0, 600), job.input, files=1)
    first = job.run()
    assert counts_of(first)["rows_read"] == 600
    write_files(events.slice(0, 0), job.input, files=1, first=1)  # a micro-batch without rows
    write_files(events.slice(600), job.input, files=1, first=2)
    second = job.run()
    assert first.id == second.id
    assert sorted(job.batches) == [0, 1, 2]
    assert job.batches[1] == []
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)


@pytest.mark.proves("PySpark", "windows processed key by key")
def test_windows_key_by_key(job: Job, events: pa.Table) -> None:
    write_files(events, job.input, files=2)
    job.run(
        aggregations={"peak": ("watts", LARGEST), "n": (None, Count())},
        types={"peak": "double"},
        allowed_lateness="1 minute",
    )
    found = in_form((row for rows in job.batches.values() for row in rows), "peak", "n")
    assert found == oracle(events, last_n(WINDOW), [max, len])


@pytest.mark.proves("PySpark", "idle keys expire")
@pytest.mark.proves("PySpark", "changes of `idle` in a running query")
def test_idle_keys_go_by_the_watermark(job: Job, events: pa.Table) -> None:
    """One key stops after the first file, and its window is empty a minute later."""
    others = pc.not_equal(events.column("device"), "d5")
    write_files(events.slice(0, 300), job.input, files=1)
    job.run(window=TimeWindow("1 minute"))  # without a watermark, and all keys are kept
    write_files(events.filter(others).slice(300), job.input, files=2, first=1)
    settings = job.settings(window=TimeWindow("1 minute"), idle="emit")
    stream = job.source().withWatermark("ts", "0 seconds")
    job.run_frame(sliding_aggregate(stream, **settings))
    emptied = [row for rows in job.batches.values() for row in rows if row.watts is None]
    (gone,) = [row for row in emptied if row.device == "d5" and row.n == 0]
    heard = events.slice(0, 300).filter(pc.equal(events.slice(0, 300).column("device"), "d5"))
    last = heard.column("ts")[-1].value
    assert round(gone.ts.timestamp() * 1e6) == last + 60_000_000


@pytest.mark.parametrize("state", [False, pytest.param(True, marks=IN_STATE)])
@pytest.mark.proves("PySpark", "`start_from`")
@pytest.mark.proves("stores", "`start_from`", "file", "spark://state")
@pytest.mark.proves("options", "`start_from`", "vectorized")
def test_a_stream_goes_on_from_history(job: Job, events: pa.Table, state: bool) -> None:
    """Both have rows beyond the cutover, and the stream is stopped and started again."""
    times = events.column("ts").cast(pa.int64()).to_numpy()
    cutover = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(times[500]))
    past = job.input.parent / "history"
    past.mkdir()
    write_files(events.slice(0, 600), past, files=2)
    frame = job.spark.read.schema(SCHEMA).parquet(str(past))
    history = save_history(frame, "past", until=cutover, **job.settings())
    assert history == History("past", job.store)
    if state:
        job.store = "spark://state"
    write_files(events.slice(400, 300), job.input, files=1)
    first = job.run(start_from=history)
    assert counts_of(first)["rows_dropped"] == 100
    write_files(events.slice(700), job.input, files=1, first=1)
    job.run(start_from=history)
    expected = [row for row in oracle(events, last_n(WINDOW), FOLDS) if row[1] >= int(times[500])]
    assert job.results() == expected
    assert len(in_form(job.batches[0], *ALIASES)) == 200
    if not state:  # What history has made is there for other streams, until it is deleted.
        assert delete_history(history) > 2
        with open_store(history.store) as store:
            assert not [*store.keys("start.past")]


@pytest.mark.proves("PySpark", "batch queries")
def test_a_batch(job: Job, events: pa.Table) -> None:
    write_files(events, job.input, files=2)
    frame = job.spark.read.parquet(str(job.input))
    found = sliding_aggregate(frame, **job.settings()).collect()
    assert in_form(found, *ALIASES) == oracle(events, last_n(WINDOW), FOLDS)
    means = job.settings(aggregations={"mean": ("watts", Mean())}, window=CountWindow(1))
    naive = frame.selectExpr("device", "cast(ts as timestamp_ntz) as ts", "watts")
    assert all(row["mean"] == row.watts for row in sliding_aggregate(naive, **means).collect())


@pytest.mark.proves("PySpark", "reading a checkpoint: inspect, check, gc")
@pytest.mark.refuses("PySpark", "reading a checkpoint: inspect, check, gc", "3.5")
def test_the_state_of_a_checkpoint_is_read(job: Job, events: pa.Table) -> None:
    write_files(events, job.input, files=1)
    job.run()
    if OLD:
        with pytest.raises(InvalidRequest, match=r"reading a checkpoint needs PySpark 4\.0"):
            saved_snapshots(job.spark, job.checkpoint, job.store)
    else:
        assert saved_snapshots(job.spark, job.checkpoint, job.store)


@pytest.mark.proves("PySpark", "`mta run`")
def test_the_command(tmp_path: Path, spark: SparkSession, capsys: Any) -> None:
    lines = [f"2024-01-01T00:00:{second:02d}Z,{second % 7}" for second in range(60)]
    (tmp_path / "events.csv").write_text("\n".join(["ts,watts", *lines]))
    arguments = ["--value", "watts", "--window", "10 events", "--no-plot"]
    out = tmp_path / "out"
    assert main(["run", str(tmp_path / "events.csv"), *arguments, "--output", str(out)]) == 0
    assert "done      60 rows in 1 batch" in capsys.readouterr().out
    assert spark.read.parquet(str(out / "results")).count() == 60


def test_what_an_old_version_cannot_do_is_said_up_front(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "INSTALLED", (3, 5))
    with pytest.raises(InvalidRequest, match=r"store='spark://state' needs .* redis://host"):
        sliding_aggregate(job.source(), **job.settings(store="spark://state"))


@pytest.mark.parametrize(
    ("spark_version", "pyarrow", "suits"),
    [
        ("3.5.9", "25.0.1", True), ("3.5.9", "26.0.0", False), ("4.0.0", "26.0.1", False),
        ("4.0.4", "27.1.0", False), ("4.0.5", "26.0.1", True), ("4.1.0", "26.0.1", False),
        ("4.1.3", "26.0.1", False), ("4.1.4", "26.0.1", True), ("4.1.4-amzn-0", "26.0.1", True),
        ("4.2.0", "26.0.1", True), ("4.3.0", "30.0.0.dev1", True), ("5.0.0", "26.0.1", True),
    ],
)  # fmt: skip
def test_pairs_of_pyspark_and_pyarrow(spark_version: str, pyarrow: str, suits: bool) -> None:
    if suits:
        check_pyarrow(spark_version, pyarrow)
        return
    with pytest.raises(InvalidRequest, match=r"pyarrow<26' for the workers, or .* 4.0.5 or 4.1.4"):
        check_pyarrow(spark_version, pyarrow)


@pytest.mark.parametrize("version", ["3.4.1", "2.4.8"])
def test_a_version_too_old_is_named(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    monkeypatch.delitem(sys.modules, "spark_integration.versions")
    with pytest.raises(MissingDependency, match=f"PySpark {version} is installed, but 3.5"):
        __import__("spark_integration.versions")


def test_what_a_library_misses_is_not_taken_for_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.pandas", None)
    monkeypatch.delitem(sys.modules, "spark_integration.sliding")
    monkeypatch.delattr(spark_integration, "sliding")
    for name in [name for name in sys.modules if name.startswith("spark_integration.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError) as caught:
        spark_integration.sliding_aggregate  # noqa: B018
    assert not isinstance(caught.value, MissingDependency)
