"""Which pages of shared windows, and of any windows, are whole, needed, or needed by nobody."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import pytest

from mta import CountWindow, Max, SharedWindows, TimeWindow, Window
from mta.audit import describe_snapshot
from mta.audit.walk import audit, is_garbage, live_keys
from mta.errors import CorruptSnapshot, SnapshotMismatch
from mta.logs.base import Aggregator
from mta.logs.finger_tree.log import FingerTreeLog
from mta.snapshots import Snapshot
from mta.windows.opaque import restore_opaque
from stores import MemoryStore
from tests.support.naive import AGGREGATORS, joined, pages_of

SIZES = {"few": 5, "more": 60, "most": 200}
N = 400
#: Structures of which nothing is called garbage, as any of their pages may be written again.
WRITTEN_AGAIN = ("FlatFAT", "Reactive Aggregator")
#: Events in order, kept in level queues, or late ones as well, kept in a tree.
ORDERS = pytest.mark.parametrize("lateness", [None, 20], ids=["in order", "late"])


@pytest.fixture(autouse=True)
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees have room for hardly any node in memory, so that pages are written before snapshots."""
    monkeypatch.setattr(FingerTreeLog, "resident_nodes", 3)


def begin(store: MemoryStore, lateness: int | None, retain: int = 2) -> SharedWindows:
    """Windows by count, and one by time where events may come late."""
    frames = {name: CountWindow(size) for name, size in SIZES.items()}
    return SharedWindows(
        joined(), frames, store, "w", arity=3, leaf_arity=4, timed=True,
        allowed_lateness=lateness, retain=retain,
    )  # fmt: skip


def go_on(windows: SharedWindows, count: int, mark: str = "") -> None:
    """Add so many events, ten at a time, some of them late where they may be."""
    start = windows.stats().inserted
    late = 5 if windows.engine.structure().by_time else 0
    for back in range(start, start + count, 10):
        new = range(back, back + 10)
        times = [position - late * (position % 3 == 0) for position in new]
        windows.extend([f"{mark}{position}." for position in new], times, emit="last")


@ORDERS
def test_a_whole_snapshot_is_whole(lateness: int | None) -> None:
    store = MemoryStore()
    windows = begin(store, lateness)
    go_on(windows, N)
    snapshot = windows.checkpoint()
    windows = windows.restore_like(snapshot)
    keys = set(store.keys())
    for held in (windows, restore_opaque(snapshot, store)):
        found = audit(held)
        assert (found.damaged, found.pages, found.gone) == ([], len(keys), 0)
        assert set(live_keys(held)) == keys
        assert held.fronts == {name: N - size for name, size in SIZES.items()}


@ORDERS
def test_what_each_window_holds(lateness: int | None) -> None:
    store = MemoryStore()
    windows = begin(store, lateness)
    go_on(windows, N)
    summary = describe_snapshot(snapshot := windows.checkpoint())
    assert (summary.window, summary.snapshot_bytes, summary.back) == ("w", len(snapshot), N)
    assert summary.frame == "few=CountWindow(5), more=CountWindow(60), most=CountWindow(200)"
    assert [(w.name, w.events, w.front) for w in summary.windows] == [
        (name, size, N - size) for name, size in sorted(SIZES.items())
    ]
    if lateness is not None:
        assert {window.pages for window in summary.windows} == {None}
        return
    pages = [tuple(map(int, key.split("/")[1:3])) for key in pages_of(store)]
    assert summary.pages == len(pages)
    for window in summary.windows:
        ends = [(number + 1) * 4 * 3**level for level, number in pages]
        assert window.pages == sum(end > window.front for end in ends)


@ORDERS
def test_damage_is_named_with_the_windows_that_it_is_in(lateness: int | None) -> None:
    store = MemoryStore()
    windows = begin(store, lateness)
    go_on(windows, N)
    snapshot = windows.checkpoint()
    windows = windows.restore_like(snapshot)
    seen = set()
    for at, (key, data) in enumerate(pages_of(store).items()):
        store.delete_many([key])
        if at % 3:
            flipped = data[:9] + bytes([data[9] ^ 4]) + data[10:]
            store.put_many({key: data[:-1] if at % 3 == 1 else flipped})
        (found,) = audit(windows).damaged
        assert (found.key, found.needed) == (key, True)
        holders = [name for name, size in SIZES.items() if found.last >= N - size]
        assert found.windows == tuple(holders)
        reported = f"in window{'s' * (len(holders) > 1)} {', '.join(holders)}; "
        assert (reported if holders else "in no window, but retained; ") in str(found)
        assert audit(restore_opaque(snapshot, store)).damaged == [found]
        seen.add(found.windows)
        store.put_many({key: data})
    assert {("most",), ("more", "most")} <= seen


@ORDERS
def test_garbage_is_what_a_writer_that_was_given_up_has_left(lateness: int | None) -> None:
    store = MemoryStore()
    windows = begin(store, lateness)
    go_on(windows, 500)
    snapshot = windows.checkpoint()
    go_on(windows, 300, "lost")  # and it dies
    held = restore_opaque(snapshot, store)
    lost = set(store.keys()) - set(live_keys(held))
    assert len(lost) > 50
    assert not any(is_garbage(held, key) for key in lost), "another writer may be putting them"
    windows = windows.restore_like(snapshot)
    go_on(windows, 400)  # more events, as they may take fewer pages
    held = restore_opaque(newer := windows.checkpoint(), store)
    orphans = set(store.keys()) - set(live_keys(held))
    assert orphans <= lost
    garbage = {key for key in orphans if is_garbage(held, key)}
    assert len(garbage) > len(lost) - 10
    assert not any(is_garbage(held, key) for key in ("other/0/0/00", "w/0/x/00", "w/0", "w"))
    store.delete_many(garbage)
    again = windows.restore_like(newer)
    again.check()
    assert again.query() == windows.query()
    assert not audit(again).damaged


Begin = Callable[[MemoryStore], Window | SharedWindows]


def beginnings() -> list[tuple[str, Begin]]:
    """Every structure that keeps pages."""

    def alone(kind: type[Aggregator]) -> Begin:
        return lambda store: Window(
            joined(), CountWindow(90), store, "w", arity=3, leaf_arity=2, aggregator=kind, retain=3,
            allowed_lateness=9 if kind.by_time else None,
        )  # fmt: skip

    shared: list[tuple[str, Begin]] = [
        ("shared", lambda store: begin(store, None, retain=3)),
        ("shared, late", lambda store: begin(store, 9, retain=3)),
    ]
    return shared + [(kind.name, alone(kind)) for kind in AGGREGATORS]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "beginning", [b for _, b in beginnings()], ids=[n for n, _ in beginnings()]
)
@pytest.mark.parametrize("seed", range(4))
def test_garbage_never_becomes_alive(beginning: Begin, seed: int) -> None:
    """Writers die and others go on from what is saved, with the same events or with others."""
    random, store = Random(seed), MemoryStore()
    windows = beginning(store)
    saved: deque[bytes] = deque([windows.checkpoint()], maxlen=3)
    garbage: set[str] = set()
    for _ in range(60):
        add(windows, random.choice((1, 7, 40)), random.choice(("", "", "x")), random)
        if random.random() < 0.3:  # a kill: what was not saved is written again, or otherwise
            windows = windows.restore_like(saved[-1])
        if random.random() < 0.6:
            saved.append(windows.checkpoint())
            held = restore_opaque(saved[-1], store)
            live = set(live_keys(held))
            assert live == set(live_keys(windows.restore_like(saved[-1])))
            assert not live & garbage, "a page that was called garbage is needed"
            garbage |= {key for key in pages_of(store) if key not in live and is_garbage(held, key)}
        store.delete_many([key for key in garbage if random.random() < 0.5])
    for snapshot in saved:
        assert not [d for d in audit(windows.restore_like(snapshot)).damaged if d.needed]
    windows.check()
    assert bool(garbage) != (windows.engine.structure().name in WRITTEN_AGAIN)


def add(windows: Window | SharedWindows, count: int, mark: str, random: Random) -> None:
    """Events, in order of time or a little late."""
    back = windows.stats().inserted
    events = windows.engine
    values = [f"{mark}{position}." for position in range(back, back + count)]
    if not events.timed:
        windows.extend(values)
        return
    late = 3 if events.structure().by_time else 0
    windows.extend(values, [at - random.randint(0, late) for at in range(back, back + count)])


# --- snapshots without their operation
# --------------------------------------------------------------


@pytest.mark.parametrize("kind", AGGREGATORS)
def test_any_window_is_verified_by_its_snapshot_alone(kind: type[Aggregator]) -> None:
    store = MemoryStore()
    window = Window(Max(), TimeWindow(100), store, "w", arity=3, leaf_arity=2, aggregator=kind)
    window.extend([float(at) for at in range(300)], range(300))
    snapshot = window.checkpoint()
    window = window.restore_like(snapshot)
    held = restore_opaque(snapshot, store)
    assert (set(live_keys(held)), held.fronts) == (set(live_keys(window)), None)
    for key, data in pages_of(store).items():
        store.delete_many([key])
        assert audit(held) == audit(window)
        store.put_many({key: data})
    assert not audit(held).damaged


def test_snapshots_that_cannot_be_read_say_so() -> None:
    store = MemoryStore()
    windows = begin(store, None)
    go_on(windows, 100)
    snapshot = windows.checkpoint()
    for damaged in (snapshot[:-1], b"", snapshot[:40] + b"?" + snapshot[41:]):
        with pytest.raises(CorruptSnapshot):
            restore_opaque(damaged, store)
        with pytest.raises(CorruptSnapshot):
            describe_snapshot(damaged)
    events = Snapshot.decode(snapshot)
    events.algorithm = "Quantum MTA"
    with pytest.raises(SnapshotMismatch, match="use the release that wrote it"):
        restore_opaque(events.encode(), store)
    for state in ([], [0], [0, [], [[0, 0, 3]]], "none"):
        events.algorithm, events.state = "Level log", state  # type: ignore[assignment]
        with pytest.raises(CorruptSnapshot):
            restore_opaque(events.encode(), store)
        with pytest.raises(CorruptSnapshot):
            describe_snapshot(events.encode())
