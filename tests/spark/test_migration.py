"""A stopped query goes on with other buckets, in another store: every event counts once."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mta import CountWindow, Max, TimeWindow
from mta.audit.keyed import OpaqueKeys
from mta.cli import main
from mta.errors import UnsuitableKey
from mta.keyed import repartitioning
from mta.publishing.buckets import hasher_of
from spark_integration import migration, sliding_aggregate
from spark_integration.checkpoint import saved_snapshots, states_by_bucket
from spark_integration.errors import InvalidRequest, TimeLimitReached
from spark_integration.migration import migrate
from spark_integration.runners.bucket import PROVIDER, ROCKSDB
from spark_integration.step.states import State
from stores import open_store
from tests.support.key_by_key import lists
from tests.support.patience import LONG
from tests.support.sampling import REST, some
from tests.support.servers import RedisServer
from tests.support.spark.checkpoints import entries
from tests.support.spark.events import (
    last_n,
    last_seconds,
    make_events,
    oracle,
    spread,
    write_files,
)
from tests.support.spark.jobs import FOLDS, WINDOW, Job, run_to_end

EDGES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [0, -1, 127, -128],
    "smallint": [0, -1, 32767, -32768],
    "int": [0, -1, 1, 2**31 - 1, -(2**31)],
    "bigint": [0, -1, 1, 2**63 - 1, -(2**63), 9007199254740993],
    "float": [0.0, -0.0, 1.5, -1e-40, 3.4e38, float("inf"), float("-inf")],
    "double": [0.0, -0.0, 1.5, 5e-324, float("inf"), float("-inf"), 0.1],
    "date": [datetime(1970, 1, 1), datetime(1600, 2, 29), datetime(9999, 12, 31)],
    "timestamp": [datetime(1970, 1, 1), datetime(1650, 1, 1, 3, 4, 5, 678), datetime(2024, 2, 29)],
    "timestamp_ntz": [datetime(1970, 1, 1), datetime(1650, 1, 1, 3, 4, 5, 678)],
    "decimal(18,3)": [Decimal(0), Decimal("-0.001"), Decimal("999999999999999.999")],
    "decimal(9,0)": [Decimal(0), Decimal(-1), Decimal(999999999)],
    "decimal(38,10)": [
        *map(Decimal, (0, -1, 1, 255, 128, -128, -129, 2**63, -(2**63))), Decimal("1E-10"),
        Decimal("-9999999999999999999999999999.9999999999"), Decimal("0.0000000128"),
    ],
    "string": ["", "a", "żółć", "x" * 31, "y" * 32, "z" * 33, "\0", "漢字" * 40],
    "binary": [b"", b"\0", b"\xff" * 31, bytes(range(256))],
}  # fmt: skip


@pytest.mark.parametrize("kind", EDGES)
def test_the_hash_of_a_key_is_that_of_spark(spark: SparkSession, kind: str) -> None:
    rng = np.random.default_rng(5)
    values = list(EDGES[kind])
    if kind in ("int", "bigint"):
        bits = 31 if kind == "int" else 63
        values += rng.integers(-(2**bits), 2**bits, 200).tolist()
    elif kind == "double":
        values += rng.normal(size=200).tolist()
    elif kind == "string":
        values += ["".join(map(chr, rng.integers(32, 900, n))) for n in range(70)]
    elif kind == "timestamp":
        micros = rng.integers(-(2**50), 2**50, 100).tolist()
        values += [datetime(1970, 1, 1) + timedelta(microseconds=n) for n in micros]
    elif kind.startswith("decimal(38"):
        values += [Decimal(int(n)) * Decimal(10) ** 9 for n in rng.integers(-(2**62), 2**62, 100)]
    if kind == "date":
        values = [value.date() for value in values]
    frame = spark.createDataFrame(
        [(value, n) for n, value in enumerate(values)], f"k {kind}, n int"
    )
    keys = [F.col("k"), F.col("n")]
    found = frame.select(*keys, F.xxhash64("k").alias("one"), F.xxhash64("n", "k").alias("two"))
    table = found.toArrow()
    parts = [table.column(name).to_pylist() for name in ("k", "n")]
    if kind in ("float", "double"):
        parts[0] = [value + 0.0 for value in parts[0]]  # keys have no -0.0
    name = "a name decimal(1,2)"
    one, two = hasher_of([f"{name} {kind}"]), hasher_of(["n int", f"{name} {kind}"])
    assert len(parts[0]) == len(values)
    assert list(map(one, parts[0])) == table.column("one").to_pylist()
    found = [two((n, k)) for k, n in zip(*parts, strict=True)]
    assert found == table.column("two").to_pylist()


def test_a_type_whose_hash_is_not_known() -> None:
    with pytest.raises(UnsuitableKey, match="'k string collate UNICODE' is not known here"):
        hasher_of(["k string collate UNICODE"])


def moved(job: Job, name: str, **changes: Any) -> Job:
    """The job on a checkpoint made again."""
    target = job.checkpoint.with_name(name)
    migrate(job.spark, job.checkpoint, target, job.store, **changes)
    job.checkpoint = target
    job.store = changes.get("to") or job.store
    return job


@REST
def test_it_says_how_far_spark_is_and_waits_no_longer_than_it_may(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, events = Job(spark, tmp_path), spread(make_events(400, 5))
    write_files(events.slice(0, 200), job.input, files=1)
    job.run()
    monkeypatch.setattr(migration, "PERIOD", 0.05)
    with pytest.raises(TimeLimitReached, match=r"nothing is lost.* longer --time-limit"):
        moved(job, "other", buckets=3, time_limit=0.001)
    assert not job.checkpoint.with_name("other").exists()
    assert not job.spark.streams.active
    lines: list[str] = []
    moved(job, "other", buckets=3, report=lines.append)
    assert lines[0] == "Spark reads the state after batch 0"
    assert any(re.fullmatch(r"Spark writes the states: \d+ of \d+ tasks .*", at) for at in lines)
    write_files(events.slice(200), job.input, files=1, first=1)
    job.run(buckets=3)
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)


BY_KEY = {
    "all": ("watts", lists()),
    "peak": ("watts", Max()),
}
#: By name: what a query asks for, and what the naive oracle says of it.
QUERIES: dict[str, tuple[dict[str, Any], Any, list[Any]]] = {
    "vectorized": ({}, last_n(WINDOW), FOLDS),
    "late": (
        {"window": TimeWindow("5 minutes"), "allowed_lateness": 30}, last_seconds(300), FOLDS,
    ),
    "key by key": ({"aggregations": BY_KEY, "window": CountWindow(9)}, last_n(9), [list, max]),
}  # fmt: skip

#: Those whose states are by the provider that is not Spark's default.
IN_ROCKSDB = ("vectorized",)


@pytest.mark.parametrize("query", some(QUERIES, by_default=2))
@pytest.mark.proves("PySpark", "`mta migrate`")
@pytest.mark.proves("stores", "`mta migrate` from this store", "file", "redis")
@pytest.mark.proves("stores", "`mta migrate` to this store", "file", "redis")
@pytest.mark.proves("options", "`mta migrate`", "vectorized", "key by key", "late events")
def test_from_disk_to_redis_and_back(
    spark: SparkSession, tmp_path: Path, query: str, request: pytest.FixtureRequest
) -> None:
    """Every batch has its number, whichever checkpoint it is of, and every event counts once.

    Vectorized windows come back to disk, and the query starts again between the two migrations.
    """
    settings, expired, folds = QUERIES[query]
    if query in IN_ROCKSDB:
        spark.conf.set(PROVIDER, ROCKSDB)
        request.addfinalizer(lambda: spark.conf.unset(PROVIDER))
    redis = RedisServer(tmp_path)
    request.addfinalizer(redis.stop)
    job, home = Job(spark, tmp_path), f"file://{tmp_path}/home"
    events = spread(make_events(4000, 40))
    parts = [events.slice(at, 1000) for at in range(0, 4000, 1000)]
    write_files(parts[0], job.input, files=2)
    job.run(**settings)
    write_files(parts[1], job.input, files=1, first=2)
    job = moved(job, "two", to=redis.url, buckets=3)
    shutil.move(tmp_path / "pages", tmp_path / "gone")  # what was before is not asked any more
    job.run(buckets=3, **settings)
    if query == "vectorized":
        write_files(parts[2], job.input, files=1, first=3)
        job.run(buckets=3, **settings)
        write_files(parts[3], job.input, files=1, first=4)
        job = moved(job, "three", to=home, buckets=8)
        redis.stop()
        job.run(buckets=8, **settings)
    else:
        events = events.slice(0, 2000)
    assert sorted(job.batches) == list(range(5 if query == "vectorized" else 3))
    names = settings.get("aggregations", {"peak": 0, "sum": 0, "n": 0})
    rows = [row for batch in job.batches.values() for row in batch]
    found = sorted(
        (r.device, round(r.ts.timestamp() * 1e6), r.watts, *(r[name] for name in names))
        for r in rows
    )
    assert found == oracle(events, expired, folds)


@pytest.mark.soak
def test_a_folder_of_results_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's sink of files, which passes over the numbers of batches that it has had."""
    job = Job(spark, tmp_path)
    events = spread(make_events(1200, 20))

    def run(buckets: int) -> None:
        frame = sliding_aggregate(job.source(), **job.settings(buckets=buckets))
        run_to_end(frame, job.checkpoint, path=tmp_path / "out")

    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    try:
        for part, files, buckets in ((0, 3, 5), (3, 1, 1), (4, 2, 64)):
            write_files(events.slice(200 * part, 200 * files), job.input, files, first=part)
            if part:
                moved(job, f"cp{part}", buckets=buckets)
            run(buckets)
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert entries(job.checkpoint, "commits") == list(range(6))
    job.batches[0] = spark.read.parquet(str(tmp_path / "out")).collect()
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)


@pytest.mark.soak
@pytest.mark.proves("stores", "`mta migrate` from this store", "file", "spark://state")
@pytest.mark.proves("stores", "`mta migrate` to this store", "file", "spark://state")
def test_pages_go_into_sparks_own_state_and_come_out(spark: SparkSession, tmp_path: Path) -> None:
    """From a state in HDFS format; a window is large."""
    job = Job(spark, tmp_path)
    keys = pa.array(["d0" if n % 2 else f"d{n % 38}" for n in range(3000)])
    events = spread(make_events(3000, 20)).set_column(0, "device", keys)
    asked = {"window": CountWindow(1100)}
    write_files(events.slice(0, 2600), job.input, files=1)
    job.run(**asked)
    write_files(events.slice(2600, 200), job.input, files=1, first=1)
    moved(job, "in state", to="spark://state", buckets=3).run(buckets=3, **asked)
    write_files(events.slice(2800), job.input, files=1, first=2)
    moved(job, "out-again", to=f"file://{tmp_path}/home", buckets=2).run(**asked)
    assert sorted(job.batches) == [0, 1, 2]
    assert job.results() == oracle(events, last_n(1100), FOLDS)


def states_of(job: Job) -> dict[int, bytes]:
    return states_by_bucket(job.spark, job.checkpoint, job.store)


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Job:
    job = Job(spark, tmp_path_factory.mktemp("stopped"))
    write_files(spread(make_events(600, 12)), job.input, files=1)
    job.run()
    return job


def broken(after: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is killed at one of its calls."""
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    return call


#: Where a migration is killed, in the order of its steps: at which call of what, after how many.
STEPS: list[tuple[Any, str, int]] = [
    (repartitioning._Made, "write_runs", 2),  # some buckets are written
    (migration, "_copy_logs", 0),
    (migration, "_write_states", 0),
    (shutil, "rmtree", 1),  # Spark has written its state
    (migration, "_require_still", 1),
]


def test_what_broke_off_is_done_again(
    stopped: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try comes one step further, over what those before have left; the last one ends.

    Nothing changes but for pages that nobody names, and each try writes the same.
    """
    job, target, to = stopped, tmp_path / "new", f"file://{tmp_path}/to"
    old = {path: path.read_bytes() for path in job.checkpoint.rglob("*") if path.is_file()}
    written: set[str] = set()
    for whose, call, calls in STEPS:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(whose, call, broken(calls, getattr(whose, call)))
            migrate(job.spark, job.checkpoint, target, job.store, to=to, buckets=5)
        assert not target.exists()
        with open_store(to) as store:
            assert written <= {*store.keys()}
            written = {*store.keys()}
    made = migrate(job.spark, job.checkpoint, target, job.store, to=to, buckets=5)
    assert (made.batch, made.buckets, len(made.snapshots)) == (0, 5, 5)
    with open_store(to) as store:
        assert written == {*store.keys()}
    assert {p: p.read_bytes() for p in job.checkpoint.rglob("*") if p.is_file()} == old
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


#: How often the command is started, and roughly how many seconds it takes.
KILLS, SECONDS = 3, 12.0


@pytest.mark.soak
def test_a_command_that_is_killed_at_any_time_is_run_again(stopped: Job, tmp_path: Path) -> None:
    """The old checkpoint and its pages stay, and there is no target or a whole one."""
    rng, target, to = Random(52), tmp_path / "new", f"file://{tmp_path}/to"
    command = ["migrate", stopped.checkpoint, target, "--store", stopped.store, "--to", to]
    command += ["--buckets", "5", "--quiet"]
    old = {path: path.read_bytes() for path in stopped.checkpoint.rglob("*") if path.is_file()}
    for kill in range(KILLS):
        program = subprocess.Popen(
            [sys.executable, "-m", "mta", *map(str, command)],
            start_new_session=True,
        )
        try:
            program.wait(rng.uniform(0.2, 1.2) * SECONDS if kill < KILLS - 1 else LONG)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)  # its Java too
            program.wait()
        assert {p: p.read_bytes() for p in stopped.checkpoint.rglob("*") if p.is_file()} == old
        if target.exists():
            break
    assert migrated_keys(stopped, target, to) == migrated_keys(
        stopped, stopped.checkpoint, stopped.store
    )


def migrated_keys(job: Job, checkpoint: Path, store: str) -> dict[Any, int]:
    """The number of events of each key in a checkpoint, all of whose pages are whole."""
    found = {}
    with open_store(store) as pages:
        for snapshot in saved_snapshots(job.spark, checkpoint, store):
            keyed = OpaqueKeys(snapshot, pages)
            assert not keyed.audit().damaged
            found |= {key: summary.events for key, summary in keyed.summaries()}
    assert found
    return found


def test_the_command(stopped: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(stopped.checkpoint), str(tmp_path / "new"), "--store", stopped.store]
    assert main(["migrate", *given, "--buckets", "7"]) == 0
    said = capsys.readouterr().out
    assert "after batch 0, with 7 buckets" in said and "buckets=7" in said
    assert main(["migrate", *given, "--buckets", "7"]) == 2
    assert "new already exists" in capsys.readouterr().err
    (stopped.checkpoint.parent / "job.json").write_text("{}")
    try:
        assert main(["migrate", *given, "--buckets", "7"]) == 2
    finally:
        (stopped.checkpoint.parent / "job.json").unlink()
    assert "belongs to 'mta run'" in capsys.readouterr().err


def test_what_cannot_be_made_again_is_refused(
    stopped: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, copy = stopped, tmp_path / "copy"
    shutil.copytree(job.checkpoint, copy)
    asked: Any = (job.spark, copy, tmp_path / "new", job.store)
    with pytest.raises(InvalidRequest, match="nothing to change"):
        migrate(*asked)
    with pytest.raises(InvalidRequest, match="must be between 1 and 65536"):
        migrate(*asked, buckets=1 << 17)
    (copy / "offsets" / "1").write_text("v1")
    with pytest.raises(InvalidRequest, match=r"batch 1 of .* is not finished"):
        migrate(*asked, buckets=3)
    (copy / "offsets" / "1").unlink()
    (copy / "state" / "1").mkdir()
    with pytest.raises(InvalidRequest, match="2 stateful operators"):
        migrate(*asked, buckets=3)
    (copy / "state" / "1").rmdir()
    (copy / "commits" / "0").write_text('v1\n{"stateUniqueIds":{}}')
    with pytest.raises(InvalidRequest, match="version 2 of Spark's format"):
        migrate(*asked, buckets=3)
    shutil.copy2(job.checkpoint / "commits" / "0", copy / "commits" / "0")
    (copy / "commits" / ".0.crc").unlink()
    state = next(iter(states_of(job).values()))
    odd = {0: State.decode(state)._replace(fixed=[("by", "k string collate UNICODE")]).encode()}
    monkeypatch.setattr(migration, "states_by_bucket", lambda *_: odd)
    with pytest.raises(InvalidRequest, match="is not known here"):
        migrate(*asked, buckets=3)
    monkeypatch.setattr(migration, "states_by_bucket", lambda *_: {})
    with pytest.raises(InvalidRequest, match="has no key yet"):
        migrate(*asked, buckets=3)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
