"""``mta check`` and ``mta gc`` on what a real run has left."""

import json
import os
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from mta import KeyedWindows, TimeWindow
from mta.cli.console import Exit
from mta.monoids.product import skipping
from spark_integration.cli.checkpoints import Sighting, last_batch, note, saved_snapshots
from spark_integration.cli.expressions import parse_aggregation
from spark_integration.request import make_product
from spark_integration.session import local_session
from stores import open_store
from tests.support.console import mta

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
    assert mta("run", source, *given) == 0
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


@pytest.fixture(scope="module")
def run_of_many(tmp_path_factory):
    """A run over many keys, of which one has a standalone window."""
    keys = {f"k{number:03}": 100 for number in range(300)} | {"large": 2000}
    return ran(tmp_path_factory.mktemp("many"), keys)


@pytest.fixture
def out(run_of_two, tmp_path):
    return copied(run_of_two, tmp_path / "out")


@pytest.fixture
def many(run_of_many, tmp_path):
    return copied(run_of_many, tmp_path / "out")


def keys_of(out, level):
    with open_store(f"file://{out / 'pages'}") as store:
        return sorted(key for key in store.keys("") if key.split("/")[1] == str(level))


def test_a_whole_run_is_whole(out, capsys):
    assert mta("check", out) == 0
    printed = capsys.readouterr().out
    assert re.search(r"pages +\d+ verified", printed)
    assert "damaged   none" in printed


def test_damage_is_reported_by_page(out, capsys):
    inner, leaf = keys_of(out, 1)[-1], keys_of(out, 0)[-1]
    with open_store(f"file://{out / 'pages'}") as store:
        whole = store.get_many([inner, leaf])
        store.delete_many([inner])
    assert mta("check", out) == Exit.DAMAGED
    printed = capsys.readouterr().out
    assert re.search(rf"damaged +\w: page {inner} \(level 1, .*\): it is not in the store", printed)
    assert re.search(r"damaged +1 page$", printed, re.MULTILINE)
    with open_store(f"file://{out / 'pages'}") as store:
        assert store.get_many([inner]) == [None], "a check wrote something"
        store.put_many({inner: whole[0]})
    assert mta("check", out) == 0
    with open_store(f"file://{out / 'pages'}") as store:
        store.put_many({leaf: whole[1][:-1]})
    capsys.readouterr()
    assert mta("check", out) == Exit.DAMAGED
    assert "restore a copy of it" in capsys.readouterr().out
    assert mta("check", out.parent) == 2


def test_pages_that_nobody_needs_are_deleted_after_the_grace_period(out, capsys):
    prefix = keys_of(out, 0)[0].partition("/")[0]
    garbage = [f"{prefix}/0/9/{'ab' * 16}", f"{prefix.partition(':')[0]}:new/0/0/{'cd' * 16}"]
    foreign = "somebody.else:x/0/0/00"
    with open_store(f"file://{out / 'pages'}") as store:
        store.put_many(dict.fromkeys([*garbage, foreign], b"page"))
        before = set(store.keys())
    assert mta("gc", out, "--delete") == 0
    printed = capsys.readouterr().out
    assert re.search(r"unneeded +2 pages, 8 B", printed)
    assert re.search(r"deleted +0 pages, seen unneeded for 1 hour or more", printed)
    assert mta("gc", out, "--grace", "1 ms") == 0
    printed = capsys.readouterr().out
    assert re.search(r"to delete +2 pages", printed)
    assert "nothing was deleted" in printed
    with open_store(f"file://{out / 'pages'}") as store:
        assert set(store.keys()) == before
    started = last_batch(out / "checkpoint" / "offsets")
    (out / "checkpoint" / "offsets" / str(started + 1)).touch()
    (out / "gc.json").unlink()
    for _ in range(2):  # noted while a batch is under way, which may write them again
        assert mta("gc", out, "--delete", "--grace", "1 ms") == 0
    assert re.search(r"deleted +0 pages", capsys.readouterr().out)
    (out / "checkpoint" / "offsets" / str(started + 1)).unlink()
    (out / "gc.json").unlink()
    for _ in range(2):
        assert mta("gc", out, "--delete", "--grace", "1 ms") == 0
    assert re.search(r"deleted +2 pages", capsys.readouterr().out)
    with open_store(f"file://{out / 'pages'}") as store:
        assert set(store.keys()) == before - set(garbage)
    assert json.loads((out / "gc.json").read_text()) == {}
    assert mta("check", out) == 0
    assert mta("gc", out, "--grace", "soon") == 2


def test_a_damaged_window_is_left_out_of_the_sweep(out, capsys):
    inner = keys_of(out, 1)[-1]
    with open_store(f"file://{out / 'pages'}") as store:
        store.delete_many([inner])
        before = set(store.keys())
    for _ in range(2):
        assert mta("gc", out, "--delete", "--grace", "1 ms") == 0
    assert "see 'mta check'" in capsys.readouterr().out
    with open_store(f"file://{out / 'pages'}") as store:
        assert set(store.keys()) == before


def test_one_key_of_a_run(many, capsys):
    assert mta("inspect", many, "--limit", 2) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^k000 +100 .*^k001 +100 .*299 more", printed, re.MULTILINE | re.DOTALL)
    assert re.search(r"windows +301 keys, 32,000 events$", printed, re.MULTILINE)
    for key, events in (("k123", "100"), ("large", "2,000")):
        assert mta("inspect", many, "--key", key) == 0
        printed = capsys.readouterr().out
        assert re.search(rf"^{key} +{events} ", printed, re.MULTILINE)
        assert f"windows   1 key, {events} events\n" in printed
    assert mta("inspect", many, "--key", "k999") == 2
    assert "--key 'k999': no window has it" in capsys.readouterr().err


def test_a_run_with_a_least_number_of_values_is_whole(tmp_path, capsys):
    assert mta("check", ran(tmp_path, {"a": 2000}, more=("--min-samples", 3))) == 0
    assert re.search(r"windows +1 key, ", capsys.readouterr().out)


def attempt_and_die(out):
    """What a batch leaves that never ended: pages of new rows, whose snapshots are lost."""
    address = f"file://{out / 'pages'}"
    aggregations = [parse_aggregation(text, ["watts"]) for text in AGGREGATIONS[1::2]]
    monoid = skipping(make_product({each.name: each.pair("timestamp") for each in aggregations}))
    with open_store(address) as store:
        before = set(store.keys())
        for snapshot in saved_snapshots(local_session(), out / "checkpoint", address):
            windows = KeyedWindows.restore(
                snapshot, store, aggregations=monoid, window=TimeWindow("7 days")
            )
            keys = [f"new {number}" for number in range(1000)]
            times = np.full(1000, np.datetime64("2025-01-09"))
            windows.extend(keys, {"watts": np.arange(1000.0)}, times)
            windows.checkpoint()
        return set(store.keys()) - before, before


def test_what_a_killed_attempt_left_is_deleted(many, capsys):
    orphans, before = attempt_and_die(many)
    assert orphans
    assert mta("gc", many, "--delete") == 0
    printed = capsys.readouterr().out
    assert re.search(rf"unneeded +{len(orphans)} pages?, ", printed)
    assert "deleted   0 pages" in printed
    for _ in range(2):
        assert mta("gc", many, "--delete", "--grace", "1 ms") == 0
    with open_store(f"file://{many / 'pages'}") as store:
        assert set(store.keys()) == before
    assert mta("check", many) == 0


def test_a_page_is_noted_when_it_was_first_seen(tmp_path):
    path = tmp_path / "gc.json"
    assert note(path, ["a", "b"], Sighting(1.0, 7)) == dict.fromkeys("ab", Sighting(1.0, 7))
    assert note(path, ["b", "c"], Sighting(2.0, 8)) == {
        "b": Sighting(1.0, 7),
        "c": Sighting(2.0, 8),
    }
    assert note(path, ["a"], Sighting(3.0, 9)) == {"a": Sighting(3.0, 9)}
