"""``mta check``, ``gc`` and ``inspect`` on what runs and queries of one's own have left."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mta import Max
from mta.cli.console import Exit
from spark_integration.cli import checkpoints
from spark_integration.cli.checkpoints import Sighting, last_batch, note
from stores import open_store
from tests.support.console import mta
from tests.support.key_by_key import KeyByKey
from tests.support.spark.events import make_events, spread, write_files
from tests.support.spark.jobs import Job
from tests.support.spark.session import spark

ROWS = 11_000
AGGREGATIONS = ("--agg", "peak=watts:max", "--agg", "mean=watts:mean")


def ran(folder, rows_of, first=ROWS, more=()):
    """The output folder of a run over the rows of some devices, one a minute.

    So many come first of each, in a micro-batch of their own.
    """
    frames, source = [], folder / "in"
    source.mkdir()
    for device, rows in rows_of.items():
        times = pd.date_range("2025-01-01", periods=rows, freq="min")
        watts = [(7 * i) % 23 + 0.5 for i in range(rows)]
        frames.append(pd.DataFrame({"ts": times, "device": device, "watts": watts}))
    for number, rows in enumerate((slice(0, first), slice(first, None))):
        if len(part := pd.concat(frame[rows] for frame in frames)):
            part.to_csv(source / f"{number}.csv", index=False)
            os.utime(source / f"{number}.csv", (1e9 + number, 1e9 + number))
    given = ("--key", "device", *AGGREGATIONS, "--window", "7 days", "--output", folder / "out",
             "--no-plot", "--files-per-batch", 1, *more)  # fmt: skip
    mta("run", source, *given)
    return folder / "out"


def copied(run, folder):
    """A copy of it, to be damaged."""
    shutil.copytree(run, folder)
    note = json.loads((folder / "job.json").read_text())
    note["store"] = f"file://{folder / 'pages'}"
    (folder / "job.json").write_text(json.dumps(note))
    return folder


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory):
    """A run over two keys with a standalone window; an inner page is over 5040 events.

    That is so where windows begin with few events.
    """
    return ran(tmp_path_factory.mktemp("two"), dict.fromkeys("ab", ROWS), first=1900)


@pytest.fixture
def out(run_of_two, tmp_path):
    return copied(run_of_two, tmp_path / "out")


def keys_of(out, level):
    with open_store(f"file://{out / 'pages'}") as store:
        return sorted(key for key in store.keys("") if key.split("/")[1] == str(level))


def test_a_whole_run_is_whole(out):
    printed = mta("check", out).out
    assert re.search(r"pages +\d+ verified", printed)
    assert "damaged   none" in printed


def test_damage_is_reported_by_page(out):
    inner, leaf = keys_of(out, 1)[-1], keys_of(out, 0)[-1]
    with open_store(f"file://{out / 'pages'}") as store:
        whole = store.get_many([inner, leaf])
        store.delete_many([inner])
    printed = mta("check", out, code=Exit.DAMAGED).out
    assert re.search(rf"damaged +\w: page {inner} \(level 1, .*\): it is not in the store", printed)
    assert re.search(r"damaged +1 page$", printed, re.MULTILINE)
    with open_store(f"file://{out / 'pages'}") as store:
        assert store.get_many([inner]) == [None], "a check wrote something"
        store.put_many({inner: whole[0]})
    mta("check", out)
    with open_store(f"file://{out / 'pages'}") as store:
        store.put_many({leaf: whole[1][:-1]})
    assert "restore a copy of it" in mta("check", out, code=Exit.DAMAGED).out
    mta("check", out.parent, code=2)


def test_pages_that_nobody_needs_are_deleted_after_the_grace_period(out):
    prefix = keys_of(out, 0)[0].partition("/")[0]
    garbage = [f"{prefix}/0/9/{'ab' * 16}", f"{prefix.partition(':')[0]}:new/0/0/{'cd' * 16}"]
    foreign = "somebody.else:x/0/0/00"
    with open_store(f"file://{out / 'pages'}") as store:
        store.put_many(dict.fromkeys([*garbage, foreign], b"page"))
        before = set(store.keys())
    printed = mta("gc", out, "--delete").out
    assert re.search(r"unneeded +2 pages, 8 B", printed)
    assert re.search(r"deleted +0 pages, seen unneeded for 1 hour or more", printed)
    printed = mta("gc", out, "--grace", "1 ms").out
    assert re.search(r"to delete +2 pages", printed)
    assert "nothing was deleted" in printed
    with open_store(f"file://{out / 'pages'}") as store:
        assert set(store.keys()) == before
    started = last_batch(out / "checkpoint" / "offsets")
    (out / "checkpoint" / "offsets" / str(started + 1)).touch()
    (out / "gc.json").unlink()
    for _ in range(2):  # noted while a batch is under way, which may write them again
        printed = mta("gc", out, "--delete", "--grace", "1 ms").out
        assert re.search(r"deleted +0 pages", printed)
    (out / "checkpoint" / "offsets" / str(started + 1)).unlink()
    (out / "gc.json").unlink()
    for _ in range(2):
        printed = mta("gc", out, "--delete", "--grace", "1 ms").out
    assert re.search(r"deleted +2 pages", printed)
    with open_store(f"file://{out / 'pages'}") as store:
        assert set(store.keys()) == before - set(garbage)
    assert json.loads((out / "gc.json").read_text()) == {}
    mta("check", out)
    mta("gc", out, "--grace", "soon", code=2)


def test_a_damaged_window_is_left_out_of_the_sweep(out):
    inner = keys_of(out, 1)[-1]
    with open_store(f"file://{out / 'pages'}") as store:
        store.delete_many([inner])
        before = set(store.keys())
    for _ in range(2):
        assert "see 'mta check'" in mta("gc", out, "--delete", "--grace", "1 ms").out
    with open_store(f"file://{out / 'pages'}") as store:
        assert set(store.keys()) == before


def test_a_run_with_a_least_number_of_values_is_whole(tmp_path):
    done = mta("check", ran(tmp_path, {"a": 2000}, more=("--min-samples", 3)))
    assert re.search(r"windows +1 key\n", done.out) and "damaged   none" in done.out


def test_a_page_is_noted_when_it_was_first_seen(tmp_path):
    path = tmp_path / "gc.json"
    assert note(path, ["a", "b"], Sighting(1.0, 7)) == dict.fromkeys("ab", Sighting(1.0, 7))
    assert note(path, ["b", "c"], Sighting(2.0, 8)) == {
        "b": Sighting(1.0, 7),
        "c": Sighting(2.0, 8),
    }
    assert note(path, ["a"], Sighting(3.0, 9)) == {"a": Sighting(3.0, 9)}


__all__ = ["spark"]

#: Its windows go key by key, and Spark's state has their snapshots.
PEAK = KeyByKey(float("-inf"), max, "peak")


@pytest.fixture(scope="module", params=[Max(), PEAK], ids=["vectorized", "key by key"])
def job(spark: Any, tmp_path_factory: pytest.TempPathFactory, request: Any) -> Job:
    job = Job(spark, tmp_path_factory.mktemp("own"))
    write_files(spread(make_events(900, 4)), job.input, files=2)
    job.run(aggregations={"peak": ("watts", request.param)}, types={"peak": "double"})
    return job


def seen(note: Path) -> dict[str, tuple[float, int]]:
    """When each page was first seen that nobody needs, and in which batch."""
    found: dict[str, tuple[float, int]] = json.loads(note.read_text())
    return found


def test_whole_and_damaged_pages(job: Job) -> None:
    check = ("check", job.checkpoint, "--store", job.store)
    assert "4 keys" in mta(*check).out
    with open_store(job.store) as store:
        first = max(store.keys())
        (page,) = store.get_many([first])
        assert page is not None
        store.put_many({first: page[:-1] + bytes([page[-1] ^ 1])})
        store.flush()
    assert first in mta(*check, code=Exit.DAMAGED).out
    with open_store(job.store) as store:
        store.put_many({first: page})
    mta(*check)


def test_pages_that_nobody_needs(job: Job) -> None:
    needed = job.pages()
    orphan = min(needed).rpartition("/")[0] + "/orphan"
    with open_store(job.store) as store:
        store.put_many({orphan: b"x", "another/0/0/x": b"y"})
    gc = ("gc", job.checkpoint, "--store", job.store, "--delete")
    for wanted in ("unneeded  1 page, 1 B", "deleted   0 pages, seen unneeded for 1 hour"):
        assert wanted in mta(*gc).out
    note = job.checkpoint / "gc.json"
    note.write_text(json.dumps({key: [0.0, batch] for key, (_, batch) in seen(note).items()}))
    assert "deleted   1 page" in mta(*gc).out
    assert job.pages() == needed | {"another/0/0/x"}


def test_the_pages_of_a_query_whose_checkpoint_is_gone(job: Job, tmp_path: Path) -> None:
    pages = job.pages() - {"another/0/0/x"}
    name = min(pages).partition(".")[0]
    address = f"file://{tmp_path}/pages"
    with open_store(address) as store:
        store.put_many(dict.fromkeys(pages, b"x") | {f"{name}s/0/0/x": b"y"})
    gc = ("gc", "--name", name, "--store", address)
    assert f"to delete {len(pages)} pages" in mta(*gc).out
    mta(*gc, "--delete")
    with open_store(address) as store:
        assert set(store.keys()) == {f"{name}s/0/0/x"}
    for wrong in ((), ("--name", name, job.checkpoint), ("--name", "..")):
        mta("gc", "--store", address, *wrong, code=2)


IN_STATE = 6_000


@pytest.fixture(scope="module")
def in_state(tmp_path_factory):
    """The output folder of a run in two parts over two keys; an inner page is over 5040 events."""
    folder = tmp_path_factory.mktemp("state")
    times = pd.date_range("2025-01-01", periods=IN_STATE, freq="min")
    watts = [(7 * i) % 23 + 0.5 for i in range(IN_STATE)]
    frames = [pd.DataFrame({"ts": times, "device": key, "watts": watts}) for key in "ab"]
    source, out = folder / "in", folder / "out"
    source.mkdir()
    half = IN_STATE // 2
    for number, rows in enumerate((slice(0, half), slice(half, IN_STATE))):
        pd.concat(frame[rows] for frame in frames).to_csv(source / f"{number}.csv", index=False)
        mta("run", source, "--key", "device", "--agg", "peak=watts:max", "--agg",
                   "mean=watts:mean", "--window", "9 days", "--output", out, "--no-plot",
                   "--store", "spark://state")  # fmt: skip
    expected = frames[0].set_index("ts")["watts"].rolling("9D")
    results = pd.read_parquet(out / "results").sort_values(["device", "ts"])
    for _, rows in results.groupby("device"):
        assert rows["peak"].tolist() == expected.max().tolist()
        assert rows["mean"].tolist() == pytest.approx(expected.mean().tolist())
    return out


def test_inspect_counts_its_pages(in_state):
    printed = mta("inspect", in_state).out
    assert re.search(r"^a +6,000 ", printed, re.MULTILINE)
    pages = re.search(r"store +spark://state: (\d+) pages, \S+ \S+ on disk", printed)
    assert pages
    # A leaf group has an eighth of the 3,000 events that a window begins with.
    assert int(pages[1]) >= 2 * (IN_STATE // 375 - 1)


def test_check_verifies_every_page(in_state, monkeypatch):
    printed = mta("check", in_state).out
    assert re.search(r"pages +\d+ verified", printed)
    assert "damaged   none" in printed
    whole = checkpoints.open_pages

    @contextmanager
    def damaged(spark, checkpoint, address):
        with whole(spark, checkpoint, address) as store:
            # The first ones may be of runs that only the state before needs.
            store.delete_many([max(store.keys())])
            yield store

    monkeypatch.setattr(checkpoints, "open_pages", damaged)
    printed = mta("check", in_state, code=Exit.DAMAGED).out
    assert re.search(r"damaged +1 page$", printed, re.MULTILINE)


def test_what_is_not_possible_is_reported(in_state):
    assert "nothing to collect" in mta("gc", in_state, "--delete").out
    done = mta("inspect", in_state / "checkpoint", code=2)
    assert "give the store of this checkpoint" in done.err
    mta("inspect", in_state / "checkpoint", "--store", "spark://state")
    done = mta("inspect", in_state, "--store", "spark://head:7077", code=2)
    assert "spark:// store is spark://state" in done.err
