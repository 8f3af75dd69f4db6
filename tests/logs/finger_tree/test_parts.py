"""Parts of the last leaf: what snapshots name of it, and that nothing is left behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Product, SharedWindows, Sum, TimeWindow, Window, pages
from mta.algorithms import FiBA
from mta.audit.walk import audit, is_garbage, live_keys
from mta.errors import CorruptSnapshot, InvariantViolation, MissingPage
from mta.logs.finger_tree.pages import TreePages
from mta.snapshots import Snapshot
from stores import MemoryStore, PageStore
from stores.testing.counting import CountingStore

LEAF, SIZE = 10, 60


@pytest.fixture(autouse=True)
def parts_of_three_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PART_BYTES", 3 * 16)


def begin(store: PageStore, **more: Any) -> Window:
    return Window(
        Sum(), TimeWindow(SIZE), store, "w", leaf_arity=LEAF, arity=3, aggregator=FiBA,
        allowed_lateness=20, **more,
    )  # fmt: skip


def again(snapshot: bytes, store: PageStore, **more: Any) -> Window:
    return Window.restore(snapshot, store, **more)


def parts_of(window: Any) -> Any:
    """What a snapshot says of parts: size, how much of the first is gone, and the places."""
    return Snapshot.decode(window.checkpoint()).state[6]


def test_each_part_is_written_once_and_all_are_read_at_once() -> None:
    store = CountingStore(MemoryStore())
    window = begin(store)
    for time in range(2 * LEAF - 1):
        window.insert(1.0, time)
        window.checkpoint()
    assert (store.counts.put.calls, store.counts.put.pages) == (6, 6)
    snapshot = window.checkpoint()
    assert store.counts.put.pages == 6
    store.reset()
    window = again(snapshot, store)
    assert (window.query(), store.counts.get.calls, store.counts.get.pages) == (19.0, 1, 6)
    assert window.checkpoint() == snapshot
    assert not store.counts.put.calls and not store.counts.delete.calls


def test_a_late_event_costs_the_parts_from_its_place_on() -> None:
    store = CountingStore(MemoryStore())
    window = begin(store)
    window.extend(np.ones(18), range(0, 36, 2))
    size, gone, before = parts_of(window)
    assert (size, gone, len(before)) == (3, 0, 6)
    window.insert(1.0, 21)  # after the 11th, in the fourth part
    after = parts_of(window)[2]
    assert after[:3] == before[:3] and not {*map(str, after[3:])} & {*map(str, before)}
    assert store.counts.put.pages == 6 + 3


def test_parts_of_which_events_have_left_are_kept() -> None:
    """Until all of one have: a window in one leaf writes each event once."""
    store = CountingStore(MemoryStore())
    window = Window(Sum(), CountWindow(10), store, "w", leaf_arity=LEAF, arity=3, aggregator=FiBA)
    gones = set()
    for time in range(300):
        window.insert(1.0, time)
        snapshot = window.checkpoint()
        if parts := Snapshot.decode(snapshot).state[6]:
            _, gone, places = parts
            gones.add(gone)
            assert 3 * len(places) - gone <= 10
    assert gones == {0, 1, 2}
    assert store.counts.put.pages <= 110


def test_parts_of_a_lost_snapshot_are_garbage_once_others_have_their_numbers() -> None:
    store = MemoryStore()
    window = begin(store)
    saved = window.checkpoint()
    window.extend(range(100, 109), range(9))
    window.checkpoint()
    left = set(store.keys())
    window = again(saved, store)
    window.extend(range(19), range(19))
    window.checkpoint()
    unnamed = set(store.keys()) - set(live_keys(window))
    assert unnamed == left and all(is_garbage(window, key) for key in unnamed)


@pytest.mark.parametrize("harm", ["missing", "damaged", "shorter"])
def test_a_lost_part_is_named_when_its_snapshot_is_restored(harm: str) -> None:
    store = MemoryStore()
    window = begin(store)
    window.extend(range(8), range(8))
    earlier, snapshot = window.checkpoint(), b""
    window.extend(range(8, 12), range(8, 12))
    snapshot = window.checkpoint()
    [*_, key] = sorted(store.keys())
    [data] = store.get_many([key])
    assert data is not None
    store.delete_many([key])
    if harm == "damaged":
        store.put_many({key: data[:-1] + bytes([data[-1] ^ 1])})
    [found] = audit(window).damaged
    assert (found.key, found.needed) == (key, True)
    if harm == "shorter":  # a sound page of another size, which the snapshot names
        saved = Snapshot.decode(snapshot)
        saved.state[6][0] = 2
        with pytest.raises(CorruptSnapshot, match="another size"):
            again(saved.encode(), _with(store, key, data))
        return
    with pytest.raises((MissingPage, CorruptSnapshot), match=key):
        again(snapshot, store)
    assert again(earlier, store).query() == 28.0
    store.put_many({key: data})
    assert again(snapshot, store).query() == 66.0


def _with(store: MemoryStore, key: str, data: bytes) -> MemoryStore:
    store.put_many({key: data})
    return store


def test_other_events_in_a_part_are_found_by_a_check() -> None:
    store = MemoryStore()
    window = begin(store)
    window.extend(range(8), range(8))
    window.checkpoint()
    assert isinstance(window.structure(), TreePages)
    leaf = window.structure().tree.last_leaf
    _, rows = leaf.entries.rows
    rows[1], rows[2] = 2.0, 1.0  # with the same sum
    with pytest.raises(InvariantViolation, match="part 0 of the last leaf"):
        window.check()


@pytest.mark.parametrize("late", [None, "1 hour"])
@pytest.mark.parametrize("kind", [Window, SharedWindows])
def test_a_snapshot_stays_small_however_many_columns_there_are(
    kind: Any, late: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for columns, most in ((1, 20_000), (50, 40_000)):
        sums = Product({f"sum {i}": (f"column {i}", Sum()) for i in range(columns)})
        day: Any = TimeWindow("1 day")
        frame = day if kind is Window else {"day": day}
        window = kind(sums, frame, name="w", allowed_lateness=late)
        full = (2 if late else 1) * (window.structure().setting.leaf_arity - 1)
        rows = {f"column {i}": np.random.default_rng(i).random(full) for i in range(columns)}
        window.extend(rows, np.arange(full), emit="last")
        assert len(window.checkpoint()) < most
        pages = [data for data in window.store.get_many(list(window.store.keys())) if data]
        assert all(len(data) < 20_000 for data in pages)
        assert len(pages) == len(set(live_keys(window)))


def test_the_worked_example_of_a_state() -> None:
    window = begin(MemoryStore())
    window.extend(np.arange(8.0), range(8))
    state = Snapshot.decode(window.checkpoint()).state
    [[held, [values, times]]] = state[4]
    size, gone, places = state[6]
    assert (state[1], held, size, gone) == (2, 2, 3, 0)
    assert [f"w/0/{number}/{name.hex()}" for number, name in places] == sorted(live_keys(window))
    assert np.frombuffer(values[1], "<f8").tolist() == [6.0, 7.0]
    assert np.frombuffer(times[1], "<i8").tolist() == [6_000_000, 7_000_000]


NAME = b"n" * 16


@pytest.mark.parametrize(
    "parts",
    [
        7, None, "x", [3], [3, 0, []], [3, 0, "x"], [3, 0, [[0, NAME]], 1], ["3", 0, [[0, NAME]]],
        [3, 3, [[0, NAME]]], [3, -1, [[0, NAME]]], [0, 0, [[0, NAME]]], [3, 0, [[2, NAME]]],
        [3, 0, [[-1, NAME]]], [3, 0, [[0, b"short"]]], [3, 0, [[0, bytes(16)]]], [3, 0, [0, NAME]],
        [3, 0, [[0, "n" * 16]]], [3, 0, [[0, NAME, 0]]],
    ],
)  # fmt: skip
def test_states_that_cannot_be(parts: Any) -> None:
    store = MemoryStore()
    window = begin(store)
    window.extend(range(8), range(8))
    snapshot = Snapshot.decode(window.checkpoint())
    snapshot.state[6] = parts
    with pytest.raises(CorruptSnapshot):
        again(snapshot.encode(), store)
