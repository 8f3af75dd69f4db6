"""``mta erase`` for a query: nothing has anything of the keys, and the rest goes on.

The oracle is a list of each key's events, and a search for bytes in what the stores hold outside of
their interface.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mta import CountWindow, Max, SessionWindow, Sum
from mta.cli import main
from mta.errors import StoreUnavailable
from mta.monoids.text import LastText
from mta.published import PublishedWindows
from mta.publishing import batches
from spark_integration import migration, publishing, sliding_aggregate
from spark_integration.checkpoint import query_id, states_by_bucket
from spark_integration.cli import checkpoints
from spark_integration.errors import InvalidRequest
from spark_integration.step.states import State
from stores import PageStore, open_store
from tests.support import erasure
from tests.support.erasure import SECRET, Killed, Stopping, files, left_of
from tests.support.sampling import some
from tests.support.spark.cards import reader_of
from tests.support.spark.events import last_n, make_events, oracle, spread, write_files
from tests.support.spark.jobs import FOLDS, Job, run_to_end
from tests.support.spark.session import quick_environment

PEOPLE = [f"person-{number:03}" for number in range(12)]
GONE = [*PEOPLE[2:5], "standalone"]
SCHEMA = "person string, ts timestamp, watts double, note string"
SIZE = 12
START = datetime(2024, 1, 1, tzinfo=UTC)
KEYS = [option for key in GONE for option in ("--key", key)]


class People:
    """A query over events of people, some of which come late and without values."""

    def __init__(self, spark: SparkSession, folder: Path, store: str) -> None:
        self.spark, self.folder, self.store, self.number = spark, folder, store, 0
        self.checkpoint = folder / "checkpoint"
        #: The time, the value and the note of each event.
        self.lists: defaultdict[str, list[tuple[int, float | None, str | None]]] = defaultdict(list)
        (folder / "input").mkdir()

    def add(self, people: list[str], times: int = 4) -> None:
        """Add a file of events, which is a batch; an hour lies between two files."""
        rows = []
        for _ in range(times):
            for person in people:
                self.number += 1
                late = 45 if self.number % 11 == 0 else 0
                at = self.number * 2 + len(list((self.folder / "input").iterdir())) * 7200 - late
                is_null = self.number % 7 == 0
                value = SECRET if person in GONE else float(self.number)
                note = f"told-{person}" if person in GONE else f"note {self.number}"
                event = (at, None if is_null else value, None if is_null else note)
                self.lists[person].append(event)
                rows.append((person, START + timedelta(seconds=at), *event[1:]))
        columns = [list(column) for column in zip(*rows, strict=True)]
        kinds = [pa.string(), pa.timestamp("us", "UTC"), pa.float64(), pa.string()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        path = self.folder / "input" / f"{self.number:06}.parquet"
        pq.write_table(pa.table(arrays, ["person", "ts", "watts", "note"]), path)

    def run(self, name: str = "people", **more: Any) -> None:
        rows = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        results = sliding_aggregate(
            rows.parquet(f"{self.folder}/input"), by="person", on="ts",
            aggregations={"peak": ("watts", Max()), "last": ("note", LastText()), **more},
            window={"few": CountWindow(SIZE), "many": CountWindow(1100),
                    "visit": SessionWindow("30 minutes")},
            allowed_lateness="1 minute", store=self.store, buckets=2, publish=name,
        )  # fmt: skip
        run_to_end(results, self.checkpoint)

    def reader(self, name: str = "people", batch: int = 0) -> PublishedWindows:
        return reader_of(self.store, name, batch)

    def assert_published(self, reader: PublishedWindows) -> None:
        assert reader.status().keys == len(self.lists)
        for person, events in self.lists.items():
            found, ordered = reader.query(person), sorted(events)[-SIZE:]
            values = [value for _, value, _ in ordered if value is not None]
            notes = [note for *_, note in ordered if note is not None]
            assert found["peak_few"] == max(values), person
            assert found["last_few"] == notes[-1]
            visit = [v for at, v, _ in events if at > max(events)[0] - 3600 and v is not None]
            assert found["peak_visit"] == max(visit)


@pytest.fixture(params=some(["file", "redis", "cached s3"], by_default=1))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, erasure.Raw]]:
    if request.param == "file":  # of which the test looks into a copy
        yield f"file://{tmp_path}/pages", lambda: files(tmp_path / "home")
        return
    with erasure.place(request, tmp_path) as found:
        yield found


@pytest.fixture(autouse=True)
def no_publishing_after_the_server_is_gone(spark: SparkSession) -> Iterator[None]:
    yield
    publishing._listeners[spark].plans.clear()


def fail(*_: Any) -> None:
    raise StoreUnavailable("the store is down")


def test_readers_and_stores_have_nothing_of_erased_keys(
    spark: SparkSession,
    tmp_path: Path,
    place: tuple[str, erasure.Raw],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (url, raw), everyone = place, [*PEOPLE, "standalone"]
    changed: dict[str, Any] = {"total": ("watts", Sum())} if url.startswith("redis") else {}
    people = People(spark, tmp_path, url)
    people.add([*everyone, *["standalone"] * 150], times=8)
    people.add(everyone)
    people.run()
    people.reader(batch=1).close()
    people.add(everyone)
    with monkeypatch.context() as patch:  # the driver dies before it publishes the last batch
        patch.setattr(batches, "replace_head", fail)
        people.run(**changed)
        time.sleep(0.5)
    if url.startswith("file"):  # no worker of the session has a copy open
        shutil.copytree(tmp_path / "pages", tmp_path / "home")
        people.store = f"file://{tmp_path}/home"
    with people.reader() as reader:
        assert reader.status().batch == 1 and reader.query(GONE[0])["peak_few"] == SECRET
        assert len(left_of(GONE, raw())) == 3 * len(GONE), "the search finds what there is"
        if url.startswith("file"):
            reader.close()
        assert main(["erase", str(people.checkpoint), "--store", people.store, *KEYS]) == 0
        said = capsys.readouterr().out
        assert f"erased    {len(GONE)} keys of {len(GONE)} keys, after batch 2" in said
        assert "published people: readers see the windows without the keys" in said
        assert not left_of(GONE, raw() + files(people.checkpoint))
        for key in GONE:
            people.lists.pop(key)
        if not url.startswith("file"):  # which was open during the erasure
            assert reader.refresh()
    with people.reader(batch=2) as reader:
        if changed:  # the published description is of the windows before the change
            assert reader.status().unpublished_buckets == 2
        else:
            people.assert_published(reader)
    # The query goes on, and an erased key begins again.
    people.add([*people.lists, GONE[0]])
    people.run(total=("watts", Sum()))
    with people.reader(batch=3) as reader:
        people.assert_published(reader)


@contextmanager
def stopped_at(number: int, after: bool) -> Iterator[list[bool]]:
    """Stop at a call of the store, or a step with folders, of this number."""
    stops = Stopping(None, number, after)  # type: ignore[arg-type]

    class Stopped(Stopping):
        def __init__(self, store: PageStore) -> None:
            super().__init__(store, 0, after)

        def call(self, call: Callable[..., Any], *args: Any) -> Any:
            return stops.call(call, *args)

    @contextmanager
    def opened(address: str, **options: Any) -> Iterator[PageStore]:
        with open_store(address, **options) as store:
            yield Stopped(store)

    rename, rmtree = Path.rename, shutil.rmtree
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "open_store", opened)
        patch.setattr(checkpoints, "open_store", opened)
        patch.setattr(Path, "rename", lambda path, to: stops.call(rename, path, to))
        patch.setattr(
            shutil,
            "rmtree",
            lambda path, **more: stops.call(lambda: rmtree(path, **more)),
        )
        stopped = [False]
        try:
            yield stopped
        except Killed:
            stopped[0] = True


@pytest.mark.parametrize("after", some([False, True], by_default=1))
def test_an_erasure_that_was_killed_is_finished(
    spark: SparkSession, tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step after Spark has written the new state, which is written only once here."""
    people = People(spark, tmp_path, f"file://{tmp_path}/pages")
    people.add([*PEOPLE, *GONE, *GONE], times=8)
    people.add(PEOPLE)
    people.run()
    people.run("renamed")  # publishes nothing without new rows
    people.reader(batch=1).close()
    people.add(PEOPLE)
    people.run("renamed")  # what it published before remains readable
    people.reader("renamed", batch=2).close()
    made = migration.migrate(
        spark, people.checkpoint, tmp_path / "made", people.store,
        erased=lambda key: key in GONE, name="checkpoint",
    )  # fmt: skip
    old = {
        bucket: State.decode(state).snapshot
        for bucket, state in states_by_bucket(spark, people.checkpoint, people.store).items()
    }
    (tmp_path / "made" / "is-new").touch()

    def written(_: Any, checkpoint: Path, target: Path, *args: Any, **more: Any) -> Any:
        shutil.copytree(tmp_path / "made", target)
        return made

    def saved(_: Any, checkpoint: Path, address: str) -> list[bytes]:
        return [*(made.snapshots if (checkpoint / "is-new").exists() else old).values()]

    monkeypatch.setattr(migration, "migrate", written)
    monkeypatch.setattr(checkpoints, "saved_snapshots", saved)
    ended = set[str]()
    for number in count():
        home = tmp_path / f"{number}"
        shutil.copytree(people.checkpoint, home / "checkpoint")
        shutil.copytree(tmp_path / "pages", home / "pages")
        copy = People(spark, home, f"file://{home}/pages")
        copy.checkpoint, command = home / "checkpoint", ["--store", f"file://{home}/pages"]
        erase = ["erase", str(copy.checkpoint), *command, *KEYS]
        with stopped_at(number, after) as stopped:
            assert main(erase) == 0
        for _ in range(2):
            assert main(["gc", str(copy.checkpoint), *command, "--delete", "--compact",
                         "--grace", "1 us"]) == 0  # fmt: skip
        if (copy.checkpoint / "is-new").exists():
            ended.add("finished by mta gc")
        else:
            ended.add("erased again")
            assert main(erase) == 0
        assert not left_of(GONE, files(home))
        assert {each.name for each in home.iterdir()} == {"checkpoint", "pages", "input"}
        copy.lists = people.lists.copy()
        for key in GONE:
            copy.lists.pop(key)
        for name in ("people", "renamed"):
            with copy.reader(name, batch=2) as reader:
                copy.assert_published(reader)
        shutil.rmtree(home)
        if not stopped[0]:
            break
    assert number > 10
    assert ended == {"erased again", "finished by mta gc"}
    assert query_id(tmp_path / "made")


def test_processes_are_killed_at_random(spark: SparkSession, tmp_path: Path) -> None:
    kill(spark, tmp_path, Random(5), kills=1)


@pytest.mark.soak
def test_many_processes_are_killed_at_random(spark: SparkSession, tmp_path: Path) -> None:
    kill(spark, tmp_path, Random(6), kills=20)


def kill(spark: SparkSession, folder: Path, random: Random, kills: int) -> None:
    """Kill ``mta erase`` with its Spark, at first after its first line of progress."""
    people = People(spark, folder, f"file://{folder}/pages")
    people.add([*PEOPLE, *GONE, *GONE], times=8)
    people.add(PEOPLE)
    people.run()
    people.reader(batch=1).close()
    shutil.copytree(folder / "pages", folder / "home")
    people.store = f"file://{folder}/home"
    command = ["erase", str(people.checkpoint), "--store", people.store, *KEYS]
    killed = 0
    for number in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-m", "mta", *command], start_new_session=True, text=True,
            stdout=subprocess.PIPE, env={**os.environ, **quick_environment()},
        )  # fmt: skip
        assert process.stdout is not None
        for _ in range(1 + number % 4):  # lines of progress
            process.stdout.readline()
        time.sleep(random.choice([0, random.uniform(0, 0.2), random.uniform(0, 3)]))
        os.killpg(process.pid, signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        with people.reader(batch=1) as reader:
            there = [key for key in GONE if reader.query(key)["peak_few"] == SECRET]
            assert there in ([], GONE), "each head has all keys or none"
    assert killed > kills // 2
    assert main(command) == 0
    assert not left_of(GONE, files(folder / "home") + files(people.checkpoint))
    for key in GONE:
        people.lists.pop(key)
    assert {each.name for each in folder.iterdir()} == {"checkpoint", "home", "input", "pages"}
    with people.reader(batch=1) as reader:
        people.assert_published(reader)
    people.add([*PEOPLE[5:], GONE[0]])
    people.run()
    with people.reader(batch=2) as reader:
        people.assert_published(reader)


SECRET_KEYS = ["d-of-a-person", "d-standalone"]


def test_keys_of_a_query_are_gone_and_every_other_row_counts_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, events = Job(spark, tmp_path), spread(make_events(3000, 20))
    names = [
        "d-standalone" if n % 3 else SECRET_KEYS[0] if n % 51 == 0 else f"d{n % 20}"
        for n in range(3000)
    ]
    events = events.set_column(0, "device", pa.array(names))
    write_files(events.slice(0, 2000), job.input, files=2)
    window = {"window": CountWindow(1100)}
    job.run(**window)
    home = tmp_path / "home"  # which no worker of the session has open
    shutil.copytree(tmp_path / "pages", home)
    job.store = home.as_uri()
    assert b"d-of-a-person" in files(home) + files(job.checkpoint / "state")
    keys = [option for key in [*SECRET_KEYS, "nobody"] for option in ("--key", key)]
    assert main(["erase", str(job.checkpoint), "--store", job.store, *keys]) == 0
    said = capsys.readouterr().out
    assert "erased    2 keys of 3 keys, after batch 1" in said and "no window has 'nobody'" in said
    found = files(home) + files(job.checkpoint)
    assert not [key for key in SECRET_KEYS if key.encode() in found]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint",
        "home",
        "input",
        "pages",
    ]
    before, job.batches = job.batches, {}
    write_files(events.slice(2000), job.input, files=1, first=2)
    job.run(**window)
    assert [*job.batches] == [2]
    job.batches |= before
    others = pa.compute.invert(pa.compute.is_in(events["device"], pa.array(SECRET_KEYS)))
    rows = [row for row in job.results() if row[0] not in SECRET_KEYS]
    assert rows == oracle(events.filter(others), last_n(1100), FOLDS)
    # A key that was erased begins again.
    later = [row for row in job.batches[2] if row.device == SECRET_KEYS[0]]
    assert min(row.n for row in later) == 1


def test_folders_of_a_killed_erasure_are_finished(tmp_path: Path) -> None:
    checkpoint = tmp_path / "cp"
    new, old = tmp_path / ".cp.new", tmp_path / ".cp.old"
    for folder, text in ((new, "new"), (old, "old")):
        folder.mkdir()
        (folder / "text").write_text(text)
    migration.finish(checkpoint)
    assert (checkpoint / "text").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["cp"]
    checkpoint.rename(new)
    old.mkdir()
    checkpoint.mkdir()
    with pytest.raises(InvalidRequest, match="a query has been started"):
        migration.finish(checkpoint)
    new.rename(tmp_path / "elsewhere")
    migration.finish(checkpoint)
    assert checkpoint.is_dir() and not old.exists()


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", str(tmp_path / "none"), "--key", "a", "--store", "memory://"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["erase", str(tmp_path)])
    assert "--key" in capsys.readouterr().err
