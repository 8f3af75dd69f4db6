"""``mta inspect``, ``check`` and ``gc`` on snapshots that a program saved by itself."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mta import CountWindow, Max, SharedWindows, TimeWindow, Window
from mta.cli.console import Exit
from stores import open_store
from tests.support.console import mta

EVENTS = 20_000


@pytest.fixture
def saved(tmp_path):
    """A store, and the snapshots of multiple windows and of a single one in it."""
    address = f"file://{tmp_path / 'pages'}?map_size=64MiB"
    values = np.random.default_rng(1).normal(size=EVENTS)
    with open_store(address) as store:
        frames = {"hour": TimeWindow("1 hour"), "day": TimeWindow("1 day")}
        several = SharedWindows(Max(), frames, store, "several", arity=8, leaf_arity=64)
        several.extend(values, np.arange(EVENTS) * 10)
        (tmp_path / "several.snapshot").write_bytes(several.checkpoint())
        one = Window(Max(), CountWindow(1000), store, "one", arity=8, leaf_arity=64)
        one.extend(values)
        (tmp_path / "one.snapshot").write_bytes(one.checkpoint())
    return address, tmp_path / "several.snapshot", tmp_path / "one.snapshot"


def keys_of(address):
    with open_store(address) as store:
        return sorted(store.keys())


def test_what_each_window_holds(saved, capsys):
    address, several, one = saved
    assert mta("inspect", several, "--store", address) == 0
    printed = capsys.readouterr().out
    pages = len([key for key in keys_of(address) if key.startswith("several/")])
    assert re.search(rf"^several +8,\d+ .* 20,000 +\d +{pages} ", printed, re.MULTILINE)
    found = re.findall(r"^  (\w+) +([\d,]+) +([\d,]+) +20,000 +(\d+)$", printed, re.MULTILINE)
    day, hour = found
    assert (day[:3], hour[:3]) == (("day", "8,640", "11,360"), ("hour", "360", "19,640"))
    assert int(hour[3]) < int(day[3]) <= pages
    assert "monoid    Max, by Level log" in printed
    assert "frame     day=TimeWindow(1 day), hour=TimeWindow(1 hour)" in printed
    assert re.search(rf"store +file://.*: {len(keys_of(address))} pages", printed)
    assert mta("inspect", several, "--json") == 0
    assert (
        json.loads(capsys.readouterr().out)["frame"]
        == "day=TimeWindow(1 day), hour=TimeWindow(1 hour)"
    )
    assert mta("inspect", one) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^one +1,000 +- +- +19,000 +20,000 ", printed, re.MULTILINE)
    assert "store" not in printed
    assert "frame     CountWindow(1000)" in printed


def test_damage_is_reported_by_page_and_by_window(saved, capsys):
    address, several, one = saved
    for window_snapshot, name in ((several, "day, hour"), (one, "one")):
        assert mta("check", window_snapshot, "--store", address) == 0
        printed = capsys.readouterr().out
        assert re.search(rf"^windows +{name}$", printed, re.MULTILINE)
        assert re.search(r"pages +\d+ verified", printed)
        assert "damaged   none" in printed
    leaves = [key for key in keys_of(address) if key.startswith("several/0/")]
    leaves.sort(key=lambda key: int(key.split("/")[2]))
    with open_store(address) as store:
        store.delete_many([leaves[5], leaves[-1]])
    assert mta("check", several, "--store", address) == Exit.DAMAGED
    printed = capsys.readouterr().out
    page = re.escape(leaves[5])
    assert re.search(rf"damaged +several: page {page} .*not in the store; in window day; ", printed)
    assert "in windows day, hour; restore a copy of it" in printed
    assert "damaged   2 pages" in printed
    assert mta("check", one, "--store", address) == 0


def test_garbage_goes_and_nothing_that_is_needed(saved, capsys):
    address, several, one = saved
    before = keys_of(address)
    garbage = [f"several/0/200/{'ab' * 16}", f"several/1/3/{'cd' * 16}", f"one/0/9/{'ef' * 16}"]
    ahead = f"several/0/99999/{'ab' * 16}"
    others = ["somebody/0/0/00", "several", "several/x/0/00"]
    with open_store(address) as store:
        store.put_many(dict.fromkeys([*garbage, ahead, *others], b"page"))
    assert mta("gc", several, one, "--store", address) == 0
    printed = capsys.readouterr().out
    assert re.search(r"unneeded +3 pages, 12 B", printed)
    assert re.search(r"left out +2 pages further on, where a writer may be", printed)
    assert re.search(r"to delete +3 pages", printed)
    assert "nothing was deleted" in printed
    assert keys_of(address) == sorted([*before, *garbage, ahead, *others])
    assert mta("gc", several, "--store", address, "--delete") == 0
    assert re.search(r"deleted +2 pages", capsys.readouterr().out)
    assert keys_of(address) == sorted([*before, garbage[2], ahead, *others])
    assert mta("gc", one, several, "--store", address, "--delete") == 0
    assert keys_of(address) == sorted([*before, ahead, *others])
    for window_snapshot in (several, one):
        assert mta("check", window_snapshot, "--store", address) == 0


def test_what_cannot_be_says_what_to_do(saved, tmp_path, capsys):
    address, several, _ = saved
    for command in ("check", "gc"):
        assert mta(command, several) == 2
        assert "--store" in capsys.readouterr().err
    broken = tmp_path / "broken.snapshot"
    broken.write_bytes(several.read_bytes()[:-1])
    for command in (("inspect", broken), ("check", broken, "--store", address)):
        assert mta(*command) == Exit.DAMAGED
        assert "the snapshot cannot be read" in capsys.readouterr().err
    table = tmp_path / "some.csv"
    table.write_text("device,ts,watts\n" * 9)
    (tmp_path / "empty").write_bytes(b"")
    for path, why in ((table, "is not a snapshot"), (tmp_path / "empty", "is not a snapshot"),
                      (tmp_path / "none", "there is no file or folder")):  # fmt: skip
        for command in (("inspect", path), ("check", path, "--store", address),
                        ("gc", several, path, "--store", address)):  # fmt: skip
            assert mta(*command) == Exit.USAGE
            assert f"{path}" in (error := capsys.readouterr().err)
            assert why in error


def test_commands_that_read_create_no_store(saved, tmp_path, capsys):
    _, several, _ = saved
    (tmp_path / "docs").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for folder in (tmp_path / "docs", tmp_path / "missing"):
        for command in ("check", "inspect", "gc", "unpublish", "serve"):
            what = "name" if command in ("unpublish", "serve") else several
            assert mta(command, what, "--store", f"file://{folder}") == Exit.USAGE
            assert "no store here" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_truncated_store_is_named(saved, capsys):
    """Not killed by the signal for a read beyond the end of a file."""
    address, several, _ = saved
    data = Path(address.removeprefix("file://").partition("?")[0], "data.mdb")
    os.truncate(data, data.stat().st_size - 3 * 4096)
    for command in ("check", "gc", "inspect"):
        done = subprocess.run(
            [sys.executable, "-m", "mta", command, several, "--store", address],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == Exit.DAMAGED
        assert "truncated" in done.stderr
