"""``mta inspect``, ``check`` and ``gc`` on snapshots that a program saved by itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, KeyedWindows, Max, SharedWindows, TimeWindow, Window
from mta.audit.keyed import OpaqueKeys
from mta.cli.console import Exit
from mta.keyed.snapshot import MAGIC, VERSION
from mta.snapshots import seal, unseal
from stores import open_store
from tests.support.console import mta

EVENTS = 20_000


@pytest.fixture
def both(tmp_path):
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


def test_what_each_window_holds(both):
    address, several, one = both
    printed = mta("inspect", several, "--store", address).out
    pages = len([key for key in keys_of(address) if key.startswith("several/")])
    assert re.search(rf"^several +8,\d+ .* 20,000 +\d +{pages} ", printed, re.MULTILINE)
    found = re.findall(r"^  (\w+) +([\d,]+) +([\d,]+) +20,000 +(\d+)$", printed, re.MULTILINE)
    day, hour = found
    assert (day[:3], hour[:3]) == (("day", "8,640", "11,360"), ("hour", "360", "19,640"))
    assert int(hour[3]) < int(day[3]) <= pages
    assert "monoid    Max, by Level log" in printed
    assert "frame     day=TimeWindow(1 day), hour=TimeWindow(1 hour)" in printed
    assert re.search(rf"store +file://.*: {len(keys_of(address))} pages", printed)
    done = mta("inspect", several, "--json")
    assert json.loads(done.out)["frame"] == "day=TimeWindow(1 day), hour=TimeWindow(1 hour)"
    printed = mta("inspect", one).out
    assert re.search(r"^one +1,000 +- +- +19,000 +20,000 ", printed, re.MULTILINE)
    assert "store" not in printed
    assert "frame     CountWindow(1000)" in printed


def test_damage_is_reported_by_page_and_by_window(both):
    address, several, one = both
    for window_snapshot, name in ((several, "day, hour"), (one, "one")):
        printed = mta("check", window_snapshot, "--store", address).out
        assert re.search(rf"^windows +{name}$", printed, re.MULTILINE)
        assert re.search(r"pages +\d+ verified", printed)
        assert "damaged   none" in printed
    leaves = [key for key in keys_of(address) if key.startswith("several/0/")]
    leaves.sort(key=lambda key: int(key.split("/")[2]))
    with open_store(address) as store:
        store.delete_many([leaves[5], leaves[-1]])
    printed = mta("check", several, "--store", address, code=Exit.DAMAGED).out
    page = re.escape(leaves[5])
    assert re.search(rf"damaged +several: page {page} .*not in the store; in window day; ", printed)
    assert "in windows day, hour; restore a copy of it" in printed
    assert "damaged   2 pages" in printed
    mta("check", one, "--store", address)


def test_garbage_goes_and_nothing_that_is_needed(both):
    address, several, one = both
    before = keys_of(address)
    garbage = [f"several/0/200/{'ab' * 16}", f"several/1/3/{'cd' * 16}", f"one/0/9/{'ef' * 16}"]
    ahead = f"several/0/99999/{'ab' * 16}"
    others = ["somebody/0/0/00", "several", "several/x/0/00"]
    with open_store(address) as store:
        store.put_many(dict.fromkeys([*garbage, ahead, *others], b"page"))
    printed = mta("gc", several, one, "--store", address).out
    assert re.search(r"unneeded +3 pages, 12 B", printed)
    assert re.search(r"left out +2 pages further on, where a writer may be", printed)
    assert re.search(r"to delete +3 pages", printed)
    assert "nothing was deleted" in printed
    assert keys_of(address) == sorted([*before, *garbage, ahead, *others])
    assert re.search(r"deleted +2 pages", mta("gc", several, "--store", address, "--delete").out)
    assert keys_of(address) == sorted([*before, garbage[2], ahead, *others])
    mta("gc", one, several, "--store", address, "--delete")
    assert keys_of(address) == sorted([*before, ahead, *others])
    for window_snapshot in (several, one):
        mta("check", window_snapshot, "--store", address)


def test_what_cannot_be_says_what_to_do(both, tmp_path):
    address, several, _ = both
    for command in ("check", "gc"):
        assert "--store" in mta(command, several, code=2).err
    broken = tmp_path / "broken.snapshot"
    broken.write_bytes(several.read_bytes()[:-1])
    for command in (("inspect", broken), ("check", broken, "--store", address)):
        assert "the snapshot cannot be read" in mta(*command, code=Exit.DAMAGED).err
    table = tmp_path / "some.csv"
    table.write_text("device,ts,watts\n" * 9)
    (tmp_path / "empty").write_bytes(b"")
    for path, why in ((table, "is not a snapshot"), (tmp_path / "empty", "is not a snapshot"),
                      (tmp_path / "none", "there is no file or folder")):  # fmt: skip
        for command in (("inspect", path), ("check", path, "--store", address),
                        ("gc", several, path, "--store", address)):  # fmt: skip
            assert f"{path}" in (error := mta(*command, code=Exit.USAGE).err)
            assert why in error


def test_commands_that_read_create_no_store(both, tmp_path):
    _, several, _ = both
    (tmp_path / "docs").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for folder in (tmp_path / "docs", tmp_path / "missing"):
        for command in ("check", "inspect", "gc", "unpublish", "serve"):
            what = "name" if command in ("unpublish", "serve") else several
            done = mta(command, what, "--store", f"file://{folder}", code=Exit.USAGE)
            assert "no store here" in done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_truncated_store_is_named(both):
    """Not killed by the signal for a read beyond the end of a file."""
    address, several, _ = both
    data = Path(address.removeprefix("file://").partition("?")[0], "data.mdb")
    os.truncate(data, data.stat().st_size - 3 * 4096)
    for command in ("check", "gc", "inspect"):
        done = subprocess.run(
            [sys.executable, "-m", "mta", command, several, "--store", address],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == Exit.DAMAGED
        assert "truncated" in done.stderr


KEYS, BATCHES, ROWS = 300, 20, 700
HOUR, FEW = TimeWindow("1 hour"), CountWindow(5) | TimeWindow(100)
FRAMES = {"hour": HOUR, "few": FEW}
SIZES = {"page_bytes": 256, "promote_at": 50, "arity": 4, "leaf_arity": 8}


def batch(number, names=lambda key: f"m{key}"):
    """Rows of many keys, and of one that has 200 in each batch; a second between two rows."""
    drawn = np.random.default_rng(number)
    keys = [names(key) for key in drawn.integers(0, KEYS, ROWS - 200)] + [names(999)] * 200
    return keys, drawn.normal(size=ROWS), np.arange(number * ROWS, (number + 1) * ROWS)


class Saved:
    """Windows of many keys in a store, and their snapshot in a file."""

    def __init__(self, folder, frame=None, names=lambda key: f"m{key}"):
        self.folder, self.frame, self.names = folder, frame or FRAMES, names
        with open_store(self.address) as store:
            windows = KeyedWindows(Max(), self.frame, store, "meters", **SIZES)
            self.save("saved.snapshot", windows, range(BATCHES))

    @property
    def address(self):
        return f"file://{self.folder / 'pages'}?map_size=64MiB"

    @property
    def snapshot(self):
        return self.folder / "saved.snapshot"

    def copied_to(self, folder):
        """The same in a folder that a test may change."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        copied = copy(self)
        copied.folder = folder
        return copied

    def save(self, name, windows, numbers):
        for number in numbers:
            windows.extend(*batch(number, self.names))
            snapshot = windows.checkpoint()
        for _ in range(3):  # what merges left behind goes with later snapshots
            snapshot = windows.checkpoint()
        (self.folder / name).write_bytes(snapshot)
        return self.folder / name

    def grown(self, name, snapshot, numbers):
        """A newer snapshot, by a writer who goes on from a snapshot."""
        with open_store(self.address) as store:
            windows = KeyedWindows.restore(snapshot.read_bytes(), store, **SIZES)
            return self.save(name, windows, numbers)

    def pages(self, start=""):
        with open_store(self.address) as store:
            return sorted(store.keys(start))

    def put(self, *keys):
        with open_store(self.address) as store:
            store.put_many(dict.fromkeys(keys, b"page"))

    def delete(self, *keys):
        with open_store(self.address) as store:
            store.delete_many(keys)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return Saved(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def saved(original, tmp_path):
    return original.copied_to(tmp_path)


def events_by_key():
    """How many events each key has in each window, counted one by one."""
    times = {}
    for number in range(BATCHES):
        for key, _, time in zip(*batch(number), strict=True):
            times.setdefault(key, []).append(time)
    return {
        key: (
            len(found),
            sum(time > found[-1] - 3600 for time in found),
            sum(time > found[-1] - 100 for time in found[-5:]),
        )
        for key, found in times.items()
    }


def rows_of(printed):
    """The first columns of the table of windows: events, front and back, and the key before."""
    found = re.findall(
        r"^( *\w+) +([\d,]+)(?: +\S+ \S+ +\S+ \S+)? +([\d,]+) +([\d,]+) ", printed, re.MULTILINE
    )
    return [(key, *(int(n.replace(",", "")) for n in numbers)) for key, *numbers in found]


def test_every_window_is_counted_as_it_is(saved):
    printed = mta("inspect", saved.snapshot, "--store", saved.address, "--limit", 1000).out
    expected, total = [], 0
    for key, (count, hour, few) in sorted(events_by_key().items()):
        sizes = {"few": few, "hour": hour}
        rows = [(f"  {name}", size, count - size, count) for name, size in sizes.items()]
        expected.append([(key, hour, count - hour, count), *rows])
        total += hour
    found = rows_of(printed)
    large = next(rows for rows in expected if rows[0][0] == "m999")
    vectorized = [row for rows in expected if rows is not large for row in rows]
    of_large = next(at for at, row in enumerate(found) if row[0] == "m999")
    # Of a standalone window all positions are those of the key; it keeps a little more than it has.
    assert found[of_large + 1 : of_large + 3] == large[1:]
    assert [*found[:of_large], *found[of_large + 3 :]] == vectorized
    kept = found[of_large][1]
    assert large[0][1] <= kept < large[0][1] + 8
    assert f"windows   {KEYS + 1} keys, {total - large[0][1] + kept:,} events\n" in printed
    assert "frame     few=(CountWindow(5) | TimeWindow(100 seconds)), hour=TimeWindow(1 hour)" in (
        printed
    )


def test_the_first_keys_and_one_key(saved):
    printed = mta("inspect", saved.snapshot, "--store", saved.address, "--limit", 2).out
    assert [row[0] for row in rows_of(printed) if row[0].startswith("m")] == ["m0", "m1"]
    assert f"... and {KEYS - 1} more (--limit)" in printed
    count, hour, _ = events_by_key()["m7"]
    printed = mta("inspect", saved.snapshot, "--store", saved.address, "--key", "m7").out
    assert rows_of(printed)[0] == ("m7", hour, count - hour, count)
    assert f"windows   1 key, {hour} events" in printed
    done = mta("inspect", saved.snapshot, "--store", saved.address, "--key", "m7000", code=2)
    assert "--key 'm7000': no window has it" in done.err


@pytest.mark.parametrize(
    ("names", "given"),
    [
        (lambda key: key, "999"),
        (lambda key: b"m%d\xff" % key, r"m999\xff"),
        (lambda key: ("plant", key), "plant, 999"),
    ],
)
def test_one_key_of_any_kind(tmp_path, names, given):
    saved = Saved(tmp_path, names=names)
    printed = mta("inspect", saved.snapshot, "--store", saved.address, "--key", given).out
    assert printed.splitlines()[2].startswith(given)
    assert re.search(r"^  few +5 ", printed, re.MULTILINE)


def test_events_are_said_to_be_kept_where_no_window_is_known(saved):
    fields = unseal(
        saved.snapshot.read_bytes(), MAGIC, VERSION, "a snapshot", lambda fields: fields
    )
    fields[3] = [["", "Median(5)", b"m" * 16]]
    saved.snapshot.write_bytes(seal(MAGIC, VERSION, fields))
    printed = mta("inspect", saved.snapshot, "--store", saved.address, "--key", "m7").out
    kept = int(re.search(r"windows +1 key, (\d+) events kept$", printed, re.MULTILINE)[1])
    count, hour, _ = events_by_key()["m7"]
    assert hour <= kept <= count
    assert "frame     Median(5)" in printed


def test_dropped_events_are_counted(tmp_path):
    address = f"file://{tmp_path / 'pages'}?map_size=64MiB"
    with open_store(address) as store:
        settings: Any = {"max_ahead": 5, "on_ahead": "drop", "clock": lambda: 20.0}
        settings |= {"on_late": "drop", "nulls": "drop_row"}
        windows = KeyedWindows(Max(), HOUR, store, "meters", **settings)
        windows.extend(["a", "b", "a"], [1.0, np.nan, 2.0], [10, 10, 9])
        windows.extend(["b", "b"], [1.0, 3.0], [10, 9])
        windows.extend(["b"], [1.0], [99])
        (tmp_path / "saved.snapshot").write_bytes(windows.checkpoint())
        store.put_many({"another/0/0": b"page"})  # the windows have no page yet
    printed = mta("inspect", tmp_path / "saved.snapshot", "--store", address).out
    counts = "late      2 events, dropped\ninvalid   1 event, dropped\nahead     1 event, dropped\n"
    assert counts in printed


def test_damage_is_reported_by_page_with_what_it_touches(saved):
    printed = mta("check", saved.snapshot, "--store", saved.address).out
    assert f"windows   {KEYS + 1} keys" in printed
    assert f"pages     {len(saved.pages())} verified" in printed
    assert "damaged   none" in printed
    with open_store(saved.address) as store:
        keyed = OpaqueKeys(saved.snapshot.read_bytes(), store)
        ((_, window_snapshot),) = keyed.snapshots()
        newest = max(run.number for run in keyed.snapshot.runs)
        tables = sorted(store.keys(f"meters/0/{newest}/"))
        # Not the one with the snapshot of the large window, which could not be looked at then.
        others = zip(tables, store.get_many(tables), strict=True)
        table = next(name for name, page in others if b"m999" not in page)
    large = max(saved.pages("meters:"), key=lambda key: int(key.split("/")[2]))
    saved.put(table)
    saved.delete(large)
    assert window_snapshot
    printed = mta("check", saved.snapshot, "--store", saved.address, code=Exit.DAMAGED).out
    of_table = rf"damaged +meters: page {table} \(level 0, run {newest}\): its bytes do not match"
    assert re.search(of_table + r" its name; it holds events of 1 key in \d+, which are", printed)
    assert re.search(rf"damaged +m999: page {large} \(level 0, .*in windows? ", printed)
    assert "damaged   2 pages" in printed


def test_an_index_and_what_it_names(saved):
    index = saved.pages("meters/1/")[0]
    saved.delete(index)
    printed = mta("check", saved.snapshot, "--store", saved.address, code=Exit.DAMAGED).out
    assert re.search(rf"page {index} .*not in the store; nothing else names the tables", printed)


def test_what_a_dead_writer_left_goes_once_a_snapshot_has_passed_it(saved):
    before = set(saved.pages())
    saved.grown("lost.snapshot", saved.snapshot, [BATCHES + 5])
    left = set(saved.pages()) - before
    assert left
    printed = mta("gc", saved.snapshot, "--store", saved.address, "--delete").out
    assert "deleted   0 pages" in printed
    assert re.search(rf"left out +{len(left)} pages further on, where a writer may be", printed)
    newer = saved.grown("newer.snapshot", saved.snapshot, range(BATCHES, BATCHES + 4))
    foreign = ["meters", "meters/x/1/ab", "meter/0/1/ab", "meters.b/0/1/ab"]
    saved.put(*foreign)
    with open_store(saved.address) as store:
        needed = set(OpaqueKeys(newer.read_bytes(), store).live_keys())
    garbage = set(saved.pages("meters/")) - needed - set(foreign)
    assert garbage
    assert garbage & left
    done = mta("gc", newer, "--store", saved.address, "--delete")
    assert f"deleted   {len(garbage)} pages" in done.out
    assert set(saved.pages()) & garbage == set()
    assert set(saved.pages()) >= needed | set(foreign)
    mta("check", newer, "--store", saved.address)
    again = saved.grown("again.snapshot", newer, [BATCHES + 4])
    with open_store(saved.address) as store:
        windows = KeyedWindows.restore(again.read_bytes(), store, **SIZES)
        alone = KeyedWindows(Max(), FRAMES, None, **SIZES)
        for number in range(BATCHES + 5):
            alone.extend(*batch(number))
        keys = sorted(alone.keys())
        for name, results in alone.query(keys).items():
            assert windows.query(keys)[name].tolist() == results.tolist()


def test_a_newer_snapshot_does_not_make_the_older_ones_pages_garbage(saved):
    newer = saved.grown("newer.snapshot", saved.snapshot, [BATCHES])
    before = saved.pages()
    for snapshots in ((newer,), (saved.snapshot, newer)):
        mta("gc", *snapshots, "--store", saved.address, "--delete")
        assert saved.pages() == before
    mta("check", saved.snapshot, "--store", saved.address)


def test_pages_of_runs_that_an_older_snapshot_may_still_write_are_left(saved):
    newer = saved.grown("newer.snapshot", saved.snapshot, [BATCHES])
    with open_store(saved.address) as store:
        numbers = [
            OpaqueKeys(r.read_bytes(), store).snapshot.number for r in (saved.snapshot, newer)
        ]
    assert numbers[0] < numbers[1]
    put = [f"meters/0/{number}/{'ab' * 16}" for number in numbers]
    saved.put(*put)
    done = mta("gc", saved.snapshot, newer, "--store", saved.address, "--delete")
    assert "left out  1 page further on" in done.out
    assert [key in saved.pages() for key in put] == [False, True]


def test_indexes_and_lists_that_a_writer_may_make_again_are_left(saved):
    with open_store(saved.address) as store:
        snapshot = OpaqueKeys(saved.snapshot.read_bytes(), store).snapshot
    live = max(run.number for run in snapshot.runs)
    passed = next(
        n for n in range(1, snapshot.number) if all(n != run.number for run in snapshot.runs)
    )
    kept = [f"meters/1/{live}/{'ab' * 16}", f"meters/15/{snapshot.number}/{'ab' * 16}"]
    garbage = [f"meters/1/{passed}/{'ab' * 16}", f"meters/15/{snapshot.number - 1}/{'ab' * 16}"]
    saved.put(*kept, *garbage)
    mta("gc", saved.snapshot, "--store", saved.address, "--delete")
    assert [key in saved.pages() for key in (*kept, *garbage)] == [True, True, False, False]


def test_standalone_windows(tmp_path):
    saved = Saved(tmp_path, frame=CountWindow(2000))
    window = saved.pages("meters:")[0].partition("/")[0]
    with open_store(saved.address) as store:
        ((_, window_snapshot),) = OpaqueKeys(saved.snapshot.read_bytes(), store).snapshots()
    assert window_snapshot
    garbage, ahead = f"{window}/0/99/{'ab' * 16}", f"{window}/0/99999/{'ab' * 16}"
    other = f"meters:{'0' * 32}/0/1/{'ab' * 16}"
    saved.put(garbage, ahead, other)
    done = mta("gc", saved.snapshot, "--store", saved.address, "--delete")
    assert "left out  2 pages further on" in done.out
    assert [key in saved.pages() for key in (garbage, ahead, other)] == [False, True, True]


def test_a_window_by_itself_that_may_begin_again_is_left_alone(saved):
    window = saved.pages("meters:")[0].partition("/")[0]
    saved.put(page := f"{window}/0/3/{'ab' * 16}")
    mta("gc", saved.snapshot, "--store", saved.address, "--delete")
    assert page in saved.pages()


def test_windows_with_a_damaged_index_are_left_out(saved):
    saved.put(saved.pages("meters/1/")[0], f"meters/0/1/{'ab' * 16}")
    before = saved.pages()
    done = mta("gc", saved.snapshot, "--store", saved.address, "--delete")
    assert re.search(r"left out +meters: page .*see 'mta check'", done.out)
    assert saved.pages() == before


def test_a_snapshot_of_one_window_has_no_keys(saved, tmp_path):
    with open_store(saved.address) as store:
        ((_, window_snapshot),) = OpaqueKeys(saved.snapshot.read_bytes(), store).snapshots()
    (tmp_path / "one.snapshot").write_bytes(window_snapshot)
    done = mta("inspect", tmp_path / "one.snapshot", "--key", "m7", code=2)
    assert "a snapshot of one window" in done.err
