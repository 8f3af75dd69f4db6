"""Reliability 16 and 17 on a real Spark: what is killed, frozen or run twice changes no result."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from mta import open_published
from mta.errors import NotPublished
from spark_integration import sliding_aggregate
from spark_integration.checkpoint import saved_snapshots
from stores import StoreUnavailable, open_store
from tests.support.faulty import eventually
from tests.support.oracle import say
from tests.support.oracle import seed as seed_of
from tests.support.servers import RedisServer, free_port
from tests.support.spark.asking import Asking
from tests.support.spark.cards import CardFiles
from tests.support.spark.checkpoints import (
    entries,
    files_of_batches,
    find_a_file,
    remove_commit,
)
from tests.support.spark.drivers import (
    PATIENCE,
    Driver,
    standalone_cluster,
    workers_below,
)
from tests.support.spark.events import in_form, last_n, make_events, oracle, spread, write_files
from tests.support.spark.faulty_steps import freezing_once
from tests.support.spark.jobs import ALIASES, FOLDS, WINDOW, Job, run_to_end
from tests.support.spark.states import check_places

ARITY = 4
#: What an attempt can leave: a page of each bucket's rows, and one of what is merged with them.
MOST_PAGES = 2 * 4
#: Bytes of a page of keys on local disk.
PAGE = 1 << 16
#: After how many pages of a step its worker is killed, where keys are vectorized and where they
#: are not.
PUTS = {"vectorized": (1, 2), "plain": (2, 8, 13)}


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Makes a driver over events in files, in a folder of its own; it is gone after the test."""
    made: list[Driver] = []

    def make(events: pa.Table, files: int, store: str, **options: Any) -> Driver:
        folder = tmp_path / f"driver{len(made)}"
        write_files(events, folder / "input", files)
        made.append(Driver(folder, store, **{"window": WINDOW, "arity": ARITY, **options}))
        return made[-1]

    yield make
    for driver in made:
        driver.kill_if_alive()


def check_output(spark: SparkSession, driver: Driver, events: pa.Table) -> None:
    """Every event's result is in the sink once, and equals the oracle's."""
    rows = spark.read.parquet(str(driver.output)).collect()
    assert in_form(rows, *ALIASES) == oracle(events, last_n(WINDOW), FOLDS)


def check_pages(spark: SparkSession, driver: Driver, events: pa.Table, abandoned: int = 0) -> None:
    """Only pages that the snapshots after the last batch name, and all of these.

    So many attempts were ``abandoned``, and may have gone on beside the batches after theirs.
    """
    snapshots = saved_snapshots(spark, driver.checkpoint, driver.store)
    with open_store(driver.store) as pages:
        assert check_places(snapshots, pages, events, WINDOW, abandoned * MOST_PAGES) > 0


def check_batches(driver: Driver, files: int) -> None:
    """Each file is in one batch, in their order, and each batch is committed.

    A batch has more than one file where a driver died after the source had found a file and before
    Spark wrote the batch down, so the number of batches says nothing.
    """
    assert entries(driver.checkpoint, "commits") == entries(driver.checkpoint, "offsets")
    batches = files_of_batches(driver.checkpoint)
    assert [file for batch in batches for file in batch] == [
        f"{i:04d}.parquet" for i in range(files)
    ]


def test_a_death_between_the_sources_log_and_sparks(job: Job) -> None:
    """A file that was found and is in no batch comes with the next one: nothing lost or doubled."""
    events = spread(make_events(900, 6))
    write_files(events.slice(0, 300), job.input, files=1)
    job.run()
    write_files(events.slice(300), job.input, files=2, first=1)
    find_a_file(job.checkpoint, "0001.parquet")
    job.run()
    names = [f"{i:04d}.parquet" for i in range(3)]
    assert files_of_batches(job.checkpoint) == [names[:1], names[1:]]
    assert entries(job.checkpoint, "commits") == [0, 1]
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)


def test_a_death_between_the_sinks_commit_and_sparks(job: Job, tmp_path: Path) -> None:
    """The sink passes over the batch that it has; the states that it came with must count."""
    events, output = spread(make_events(1200, 6)), str(tmp_path / "output")

    def run() -> None:
        run_to_end(sliding_aggregate(job.source(), **job.settings()), job.checkpoint, path=output)

    for start in (0, 600):
        write_files(events.slice(start, 600), job.input, files=2, first=start // 300)
        run()
        job.remove_commit(start // 300 + 1)
    run()
    rows = job.spark.read.parquet(output).collect()
    assert in_form(rows, *ALIASES) == oracle(events, last_n(WINDOW), FOLDS)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["file", "redis"])
def test_soak_of_killed_drivers(
    kind: str,
    spark: SparkSession,
    store: str,
    start_driver: Callable[..., Driver],
    request: pytest.FixtureRequest,
) -> None:
    """Drivers and workers die, batches are replayed, and options change from start to start."""
    seed, kills = seed_of(f"killed drivers, {kind}"), soak_kills()
    url = request.getfixturevalue("own_redis").url if kind == "redis" else store
    draw, began = random.Random(seed), time.monotonic()
    files = 6 * kills
    events = spread(make_events(150 * files, 6, seed))
    driver = start_driver(events, files, url)
    done, story = under_fire(driver, kills, draw)
    check_output(spark, driver, events)
    check_batches(driver, files)
    check_pages(spark, driver, events, abandoned=done)
    say(f"{story}, {events.num_rows} rows, nothing lost, {_since(began)}")


@pytest.mark.soak
def test_soak_of_a_million_keys(
    spark: SparkSession, store: str, start_driver: Callable[..., Driver]
) -> None:
    """The same with a million keys, each in the first batches once, then at random.

    A short soak has a tenth of them.
    """
    seed = seed_of("killed drivers of many keys")
    kills, window, began = soak_kills(), 3, time.monotonic()
    keys = 1_000_000 if kills >= 10 else 100_000
    each = keys // 10
    files = keys // each + 2 * kills
    events = all_and_random(keys, files * each, seed)
    driver = start_driver(events, files, store, window=window, arity=None, buckets=8, memory="3g")
    done, story = under_fire(driver, kills, random.Random(seed))
    committed = spark.read.parquet(str(driver.output)).inputFiles()
    paths = [unquote(urlsplit(path).path) for path in committed]
    found = pq.read_table(paths, columns=["device", "ts", "watts", *ALIASES])
    assert_last_n(found, events, window)
    check_batches(driver, files)
    with open_store(driver.store) as pages:
        snapshots = saved_snapshots(spark, driver.checkpoint, driver.store)
        # An attempt writes at most all that is retained, some 64 bytes per event, and its own rows.
        again = keys * window * 64 // PAGE + 2 * MOST_PAGES
        check_places(snapshots, pages, events, window, orphans=2 * done * again)
    say(f"{story}, {events.num_rows} rows, nothing lost, {_since(began)}")


def all_and_random(keys: int, count: int, seed: int) -> pa.Table:
    """Events of random devices, after one of every device; each of a time of its own."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate((rng.permutation(keys), rng.integers(0, keys, count - keys)))
    names = pa.array([f"d{code}" for code in range(keys)]).take(pa.array(codes))
    watts = rng.integers(-50, 50, count).astype(np.float64)
    # ``spread`` gives them their times.
    return spread(pa.table({"device": names, "ts": codes, "watts": watts, "site": names}))


def assert_last_n(found: pa.Table, events: pa.Table, window: int) -> None:
    """Every event has its result once, over so many of its device's events."""
    given, got = (in_order(table) for table in (events.drop_columns("site"), found))
    earlier = [given.groupby("device")["watts"].shift(back) for back in range(window)]
    held = np.stack([shifted.to_numpy() for shifted in earlier])
    expected = {name: given[name].to_numpy() for name in ("device", "ts", "watts")}
    expected |= {
        "peak": np.nanmax(held, axis=0),
        "sum": np.nansum(held, axis=0),
        "n": (~np.isnan(held)).sum(axis=0),
    }
    for name, column in expected.items():
        assert np.array_equal(got[name].to_numpy(), column), name


def in_order(table: pa.Table) -> Any:
    """A table with times in whole microseconds as a frame, by device and time."""
    times = table.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    at = table.column_names.index("ts")
    frame = table.set_column(at, "ts", times).to_pandas()
    return frame.sort_values(["device", "ts"]).reset_index(drop=True)


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def under_fire(driver: Driver, kills: int, draw: random.Random) -> tuple[int, str]:
    """Kill so many drivers, or until the input ends, and let the last one end; what was done."""
    done = hits = workers = 0
    while done < kills and start_and_disturb(driver, draw):
        workers += driver.killed
        driver.kill_if_alive()
        done += 1
        hits += driver.batches("offsets") > driver.batches("commits")
        if draw.random() < 0.3 and driver.batches("commits") > driver.batches("offsets") - 1 > 0:
            remove_commit(driver.checkpoint)
    driver.start(files=4)
    driver.finish(10 * PATIENCE)
    return done, (
        f"{done} drivers killed, {hits} in mid-batch; {workers} workers killed; "
        f"{driver.batches('offsets')} batches"
    )


def soak_kills() -> int:
    """How many drivers a long run kills: one for each hundred writers, which need no Java."""
    return max(1, int(os.environ.get("MTA_SOAK_KILLS", "2000")) // 100)


def start_and_disturb(driver: Driver, draw: random.Random) -> bool:
    """Let a driver work for a while and kill workers of it; False when the input has ended."""
    driver.start(files=draw.choice([1, 1, 2, 3]), master=draw.choice(["local[1,4]", "local[2,4]"]))
    if draw.random() < 0.75:
        driver.wait_for_commits(driver.batches("commits") + 1)
    until = time.monotonic() + draw.uniform(0.0, 4.0)
    while time.monotonic() < until and draw.random() < 0.7:
        driver.killed += kill_a_worker(driver, draw)
        time.sleep(draw.uniform(0.1, 1.0))
    time.sleep(max(0.0, until - time.monotonic()))
    assert driver.process is not None
    code = driver.process.poll()
    # A task whose worker was killed four times takes the query with it; nothing else may.
    assert code in (None, 0) or driver.killed, driver.why()
    return code != 0


@pytest.mark.soak
def test_soak_of_killed_publishers(tmp_path: Path, own_redis: RedisServer) -> None:
    """Another process asks all the while, and gets what lists say of the batch that it sees."""
    seed = seed_of("killed publishers")
    kills, draw, began = 1 + soak_kills(), random.Random(seed), time.monotonic()
    folder = tmp_path / "cards"
    cards = CardFiles(folder, own_redis.url, seed)
    for _ in range(5 * kills):
        cards.write()
    driver = Driver(folder, cards.store, "tests.support.spark.cards")
    done = unpublished = 0
    with Asking(folder, cards.store, cards.as_of) as asking:
        while done < kills:
            driver.start()
            driver.wait_for_commits(driver.batches("commits") + 1)
            time.sleep(draw.uniform(0.0, 2.0))
            if driver.process is None or driver.process.poll() is not None:
                break  # the input has ended
            driver.kill()
            done += 1
            committed = entries(driver.checkpoint, "commits")[-1]
            unpublished += published_batch(cards.store) < committed
        driver.start()
        driver.finish()
        last = entries(driver.checkpoint, "commits")[-1]
        assert published_batch(cards.store) == last
    check_batches(driver, cards.files)
    assert done and asking.seen == sorted(set(asking.seen)) and asking.seen[-1] == last
    say(
        f"{done} drivers killed, {unpublished} before they published what was committed; "
        f"{asking.checks} times all answers of {len(asking.seen)} of {last + 1} batches were "
        f"those of lists, {_since(began)}"
    )


def published_batch(store: str) -> int:
    """The batch that readers see, -1 where nothing is published."""
    try:
        with open_published(store, "cards", refresh=None) as reader:
            return reader.status().batch
    except NotPublished:
        return -1


def kill_a_worker(driver: Driver, draw: random.Random) -> int:
    """Kill one of the driver's Python workers, if it has any; return how many."""
    assert driver.process is not None
    found = workers_below(driver.process.pid)
    if not found:
        return 0
    try:
        os.kill(draw.choice(found), signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


@pytest.mark.soak  # five Javas take a while to start
def test_killed_workers_of_two_executors_and_a_driver_killed_twice(
    spark: SparkSession, store: str, tmp_path: Path, start_driver: Callable[..., Driver]
) -> None:
    """Some workers die with fewer or more of their pages out; the tasks are retried.

    The third query's driver dies in mid-batch, and the one after it at a random moment.
    """
    events, more, files = spread(make_events(1200, 6)), spread(make_events(1500, 6)), 4
    vectorized, plain = (
        start_driver(
            events,
            3,
            f"{store}-{name}",
            plain=name == "plain",
            master="local-cluster[2,1,1024]",
            fault=["dying_inside", str(tmp_path / name), *puts],
            conf={"spark.task.maxFailures": "20"},
        )
        for name, puts in PUTS.items()
    )
    marker = tmp_path / "slow"
    third = start_driver(more, files, store, fault=["slow_once", str(marker), 60.0])
    vectorized.start(plain, third)
    process = vectorized.process
    assert process is not None
    # The third hangs when its pages are out.
    eventually(lambda: marker.exists() or process.poll() is not None, PATIENCE)
    assert marker.exists(), vectorized.why()
    vectorized.kill()
    for name, puts in PUTS.items():
        assert not [put for put in puts if not (tmp_path / f"{name}.{put}").exists()], name
    for driver in (vectorized, plain):
        check_output(spark, driver, events)
        # A retry of a batch writes the pages that its dead attempts wrote.
        check_pages(spark, driver, events)
    assert third.batches("offsets") == third.batches("commits") + 1
    third.job["fault"] = None
    third.start()
    time.sleep(random.Random(seed_of("a killed driver")).uniform(0.0, 3.0))
    third.kill_if_alive()
    third.go_on_in(spark)
    check_output(spark, third, more)
    check_batches(third, files)
    check_pages(spark, third, more, abandoned=2)


@pytest.mark.soak
@pytest.mark.proves("PySpark", "a standalone cluster loses a worker")
def test_a_standalone_cluster_goes_on_without_a_worker(
    spark: SparkSession, store: str, tmp_path: Path, start_driver: Callable[..., Driver]
) -> None:
    """A whole host dies when a task has its pages out: the other one does its task and the rest."""
    events, marker = spread(make_events(1200, 6)), tmp_path / "lost"
    with standalone_cluster(tmp_path, free_port()) as master:
        conf = {"spark.executor.memory": "512m"}
        fault = ["losing_its_host_once", str(marker)]
        driver = start_driver(events, 2, store, master=master, conf=conf, fault=fault)
        driver.start()
        driver.finish()
    assert not Path(f"/proc/{marker.read_text()}").exists()
    check_output(spark, driver, events)
    check_batches(driver, 2)
    check_pages(spark, driver, events)


@pytest.mark.soak  # six Java processes take a while to start
def test_speculation_runs_a_slow_task_twice(
    spark: SparkSession, store: str, tmp_path: Path, start_driver: Callable[..., Driver]
) -> None:
    events = spread(make_events(600, 6))
    marker = tmp_path / "slow"
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.4",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.locality.wait": "0s",
        "spark.executor.memory": "768m",
    }
    fault = ["slow_once", str(marker), 60.0]
    with standalone_cluster(tmp_path, free_port()) as master:
        driver = start_driver(events, 2, store, master=master, conf=conf, fault=fault)
        driver.start()
        driver.finish()
    assert Path(f"{marker}.twin").exists()
    assert not Path(f"{marker}.ended").exists()
    check_output(spark, driver, events)
    check_pages(spark, driver, events, abandoned=1)


@pytest.fixture
def frozen(own_redis: RedisServer) -> Iterator[RedisServer]:
    yield own_redis
    own_redis.thaw()


def test_a_store_that_stops_in_mid_batch_is_named_and_made_good(
    job: Job, tmp_path: Path, frozen: RedisServer
) -> None:
    pytest.importorskip("redis")
    assert frozen.process is not None
    events = spread(make_events(1200, 6))
    hasty, patient = (f"{frozen.url}?{how}" for how in ("timeout=0.3&deadline=1", "deadline=60"))
    job.store = patient
    write_files(events.slice(0, 400), job.input, files=1)
    job.run()
    job.store = hasty
    write_files(events.slice(400), job.input, files=2, first=1)
    with pytest.raises(StreamingQueryException, match="StoreUnavailable"):
        job.run_step(freezing_once(str(tmp_path / "frozen"), frozen.process.pid))
    assert sorted(job.batches) == [0]
    with pytest.raises(StoreUnavailable, match="did not answer"):
        job.run()  # it is still away, which is seen before the query starts
    frozen.thaw()
    job.store = patient
    job.run()
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert job.check_places(events) > 0


def test_a_short_outage_is_waited_for(job: Job, tmp_path: Path, frozen: RedisServer) -> None:
    pytest.importorskip("redis")
    assert frozen.process is not None
    events = spread(make_events(1200, 6))
    write_files(events, job.input, files=3)
    job.store = f"{frozen.url}?timeout=0.3&deadline=60"
    marker = tmp_path / "frozen"

    def thaw() -> None:
        eventually(marker.exists, PATIENCE)
        time.sleep(0.7)  # more than twice the time that a call waits
        frozen.thaw()

    healer = threading.Thread(target=thaw)
    healer.start()
    job.run_step(freezing_once(str(marker), frozen.process.pid))
    healer.join()
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    assert job.check_places(events) > 0


def test_many_micro_batches_leave_nothing_behind(job: Job) -> None:
    batches, size = 8, 450  # the windows are full after two of them
    events = spread(make_events(batches * size, 6))
    write_files(events, job.input, files=batches)
    seen: list[tuple[int, int]] = []
    used: dict[int, list[tuple[int, int]]] = {}

    def measure(batch: int) -> None:
        below = workers_below(os.getpid())
        for worker in below:
            if holds := _files_and_threads(worker, job.input.parent):
                used.setdefault(worker, []).append(holds)
        if batch % 2:
            # The newest batch has its pages out and is not committed yet.
            pages = job.check_places(events.slice(0, batch * size), MOST_PAGES)
            seen.append((len(below), pages))

    job.run(sink=measure)
    assert len(seen) == batches // 2
    assert job.results() == oracle(events, last_n(WINDOW), FOLDS)
    workers, pages = zip(*seen, strict=True)
    assert min(workers) > 0 or not Path("/proc/self").exists()
    assert max(workers[3:]) <= max(workers[:3]) + 1
    # Those of a worker beside its own, as some have stores of earlier tests open, and others none.
    assert any(len(each) > batches // 2 for each in used.values()) or not Path("/proc").exists()
    for each in used.values():
        files, threads = zip(*each, strict=True)
        assert max(files) <= files[0] + 2
        assert max(threads) <= threads[0] + 2
    assert 0 < max(pages[3:]) <= max(pages[:3]) * 1.5
    job.check_places(events)


def _files_and_threads(process: int, folder: Path) -> tuple[int, int] | None:
    """How many a process has; None where none of its files is in the folder."""
    found = Path(f"/proc/{process}")
    try:
        files = [os.readlink(link) for link in (found / "fd").iterdir()]
        threads = len(os.listdir(found / "task"))
    except FileNotFoundError:  # a file was closed meanwhile, or the process has ended
        return None
    return (len(files), threads) if any(str(folder) in file for file in files) else None
