"""``mta check`` and ``mta gc`` on what a real run has left."""

import json
import re
import shutil

import pandas as pd
import pytest

from spark_integration.cli import main
from spark_integration.cli.checkpoints import Sighting, last_batch, note
from stores import open_store

ROWS = 14_000


def mta(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """The output folder of a run over two keys; an inner page is over 5040 events."""
    folder = tmp_path_factory.mktemp("check")
    times = pd.date_range("2025-01-01", periods=ROWS, freq="min")
    for number, device in enumerate("ab"):
        watts = [(7 * i) % 23 + 0.5 for i in range(ROWS)]
        frame = pd.DataFrame({"ts": times, "device": device, "watts": watts})
        frame.to_csv(folder / f"{number}.csv", index=False)
    out = folder / "out"
    given = ("--key", "device", "--agg", "peak=max(watts)", "--agg", "mean=mean(watts)",
             "--window", "9 days", "--output", out, "--no-plot")  # fmt: skip
    assert mta("run", folder / "0.csv", folder / "1.csv", *given) == 0
    return out


@pytest.fixture
def out(run_once, tmp_path):
    """A copy of it, to be damaged."""
    folder = tmp_path / "out"
    shutil.copytree(run_once, folder)
    note = json.loads((folder / "job.json").read_text())
    note["store"] = f"file://{folder / 'pages'}"
    (folder / "job.json").write_text(json.dumps(note))
    return folder


def keys_of(out, level):
    with open_store(f"file://{out / 'pages'}") as store:
        return sorted(key for key in store.keys("") if key.split("/")[1] == str(level))


def test_a_whole_run_is_whole(out, capsys):
    assert mta("check", out) == 0
    printed = capsys.readouterr().out
    assert re.search(r"pages +\d+ verified", printed)
    assert "damaged   none" in printed


def test_damage_is_told_by_page_and_an_inner_page_is_repaired(out, capsys):
    inner, leaf = keys_of(out, 1)[-1], keys_of(out, 0)[-1]
    with open_store(f"file://{out / 'pages'}") as store:
        whole = store.get_many([inner, leaf])
        store.delete_many([inner])
    assert mta("check", out) == 1
    printed = capsys.readouterr().out
    assert re.search(rf"damaged +\w: page {inner} \(level 1, .*\): it is not in the store", printed)
    assert "--repair does" in printed
    assert mta("check", out, "--repair") == 0
    assert re.search(r"damaged +1 page, 1 repaired", capsys.readouterr().out)
    assert mta("check", out) == 0
    with open_store(f"file://{out / 'pages'}") as store:
        assert store.get_many([inner]) == whole[:1]
        store.put_many({leaf: whole[1][:-1]})
    assert mta("check", out, "--repair") == 1
    assert "these events are in no other page" in capsys.readouterr().out
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
    begun = last_batch(out / "checkpoint" / "offsets")
    (out / "checkpoint" / "offsets" / str(begun + 1)).touch()
    (out / "gc.json").unlink()
    for _ in range(2):  # noted while a batch is under way, which may write them again
        assert mta("gc", out, "--delete", "--grace", "1 ms") == 0
    assert re.search(r"deleted +0 pages", capsys.readouterr().out)
    (out / "checkpoint" / "offsets" / str(begun + 1)).unlink()
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


def test_a_page_is_noted_when_it_was_first_seen(tmp_path):
    path = tmp_path / "gc.json"
    assert note(path, ["a", "b"], Sighting(1.0, 7)) == dict.fromkeys("ab", Sighting(1.0, 7))
    assert note(path, ["b", "c"], Sighting(2.0, 8)) == {
        "b": Sighting(1.0, 7),
        "c": Sighting(2.0, 8),
    }
    assert note(path, ["a"], Sighting(3.0, 9)) == {"a": Sighting(3.0, 9)}
