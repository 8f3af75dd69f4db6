"""Parts of the open leaf group: what snapshots name of it, and that nothing is left behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Sum, Window, pages
from mta.algorithms import AmortizedMTA
from mta.audit.walk import audit, is_garbage, live_keys
from mta.errors import CorruptPage, CorruptSnapshot, MissingPage
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.snapshots import Snapshot
from stores import MemoryStore, PageStore
from stores.testing.counting import CountingStore

LEAF, SIZE = 10, 40


@pytest.fixture(autouse=True)
def parts_of_three_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PART_BYTES", 24)


def begin(store: PageStore, tree: type[Any] = AmortizedMTA, **more: Any) -> Window:
    return Window(
        Sum(), CountWindow(SIZE), store, "w", leaf_arity=LEAF, arity=3, aggregator=tree, **more
    )


def again(snapshot: bytes, store: PageStore, tree: type[Any] = AmortizedMTA, **more: Any) -> Window:
    return Window.restore(snapshot, store, aggregator=tree, **more)


def test_each_part_is_written_once_and_read_once() -> None:
    store = CountingStore(MemoryStore())
    window = begin(store)
    for value in range(9):
        window.insert(value)
        window.checkpoint()
    assert (store.counts.put.calls, store.counts.put.pages) == (3, 3)
    snapshot = window.checkpoint()
    assert store.counts.put.pages == 3
    store.reset()
    window = again(snapshot, store)
    assert (window.query(), store.counts.get.calls) == (36.0, 0)
    window.insert(9.0)
    assert (window.query(), store.counts.get.calls, store.counts.get.pages) == (45.0, 1, 3)


def test_an_eviction_reads_no_part() -> None:
    store = CountingStore(MemoryStore())
    window = begin(store)
    window.extend(range(38))
    window = again(window.checkpoint(), store)
    window.query()
    store.reset()
    window.evict()
    assert window.query() == sum(range(1, 38))
    assert store.counts.get.pages <= window.stats().levels
    window.extend(range(38, 50))
    assert window.query() == sum(range(10, 50))


def test_a_replay_in_other_cuts_names_the_same_parts() -> None:
    store = MemoryStore()
    window = begin(store)
    window.extend(range(2))
    saved = window.checkpoint()
    for cut in (3, 5, 9):  # snapshots that are lost with their writer
        lost = again(saved, store)
        lost.extend(range(2, cut))
        lost.checkpoint()
    window = again(saved, store)
    window.extend(range(2, 9))
    window.checkpoint()
    assert set(store.keys()) == set(live_keys(window))


def test_parts_of_a_lost_snapshot_are_garbage_once_their_group_is_sealed() -> None:
    store = MemoryStore()
    window = begin(store)
    saved = window.checkpoint()
    window.extend(range(100, 109))
    window.checkpoint()
    left = set(store.keys())
    window = again(saved, store)
    window.extend(range(9))
    window.checkpoint()
    unnamed = set(store.keys()) - set(live_keys(window))
    assert unnamed == left and not any(is_garbage(window, key) for key in unnamed)
    window.extend(range(9, 12))
    window.checkpoint()
    unnamed = set(store.keys()) - set(live_keys(window))
    assert unnamed == left and all(is_garbage(window, key) for key in unnamed)


@pytest.mark.parametrize("harm", ["missing", "damaged"])
def test_a_lost_part_is_named_and_takes_nothing_with_it(harm: str) -> None:
    store = MemoryStore()
    window = begin(store)
    window.extend(range(8))
    snapshot = window.checkpoint()
    [key, _] = sorted(store.keys())
    [data] = store.get_many([key])
    assert data is not None
    store.delete_many([key])
    if harm == "damaged":
        store.put_many({key: data[:-1] + bytes([data[-1] ^ 1])})
    window = again(snapshot, store)
    [found] = audit(window).damaged
    assert (found.key, found.needed) == (key, True)
    assert window.query() == 28.0
    for _ in range(2):
        with pytest.raises((MissingPage, CorruptPage), match=key):
            window.insert(8.0)
        with pytest.raises((MissingPage, CorruptPage), match=key):
            window.extend([8.0, 9.0])
        assert (window.query(), len(window)) == (28.0, 8)
    store.put_many({key: data})
    window.insert(8.0)
    assert window.query() == 36.0
    window.check()


@pytest.mark.parametrize("tree", [PagedFlatFAT, PagedReactiveAggregator])
def test_groups_that_change_or_are_needed_at_once_have_no_parts(tree: type[Any]) -> None:
    store = MemoryStore()
    window = begin(store, tree)
    window.extend(range(9))
    assert again(window.checkpoint(), store, tree).query() == 36.0
    assert not list(store.keys())


def state_of(snapshot: bytes) -> Any:
    return Snapshot.decode(snapshot).state[-1][0]


def test_the_worked_example_of_a_state() -> None:
    window = begin(MemoryStore())
    window.extend(range(8))
    number, held, columns, (size, gone, places), retired = state_of(window.checkpoint())
    assert (number, held, size, gone, retired) == (0, 8, 3, 0, [[]])
    keys = [f"w/0/{group}/{name.hex()}" for group, name in places]
    assert keys == list(live_keys(window))[::-1]
    assert np.frombuffer(columns[0][1], "<f8").tolist() == [6.0, 7.0]
    window.extend(range(8, 11))
    number, held, columns, parts, [retired] = state_of(window.checkpoint())
    assert (number, held, parts) == (1, 1, [])
    assert retired == [[0, 0, name, 0] for _, name in places]


N = b"n" * 16


@pytest.mark.parametrize(
    ("parts", "retired"),
    [
        ([3, 0, []], [[]]), ([3, 0, "places"], [[]]), ([3, 0, [[0, b"short"]]], [[]]),
        ([0, 0, [[0, N]]], [[]]), ([4, 0, [[0, N]] * 3], [[]]), ([-1, 0, [[0, N]]], [[]]),
        ([3, 1, [[0, N]]], [[]]), ([3, 0, [[1, N]]], [[]]), ([3, 0, [[0, N, 0]]], [[]]),
        (["3", 0, [[0, N]]], [[]]), ([3, []], [[]]), (None, [[]]), (7, [[]]),
        ([], [[[0, 9, b"x", 0]]]), ([], [[[0, 0, N, 0]]]), ([], [[[1, 0, N, 1]]]), ([], ["x"]),
        ([], []), ([], None), ([], [[], [], []]), ([], [[[0, 0, N]]]),
    ],
)  # fmt: skip
def test_states_that_cannot_be(parts: Any, retired: Any) -> None:
    store = MemoryStore()
    window = begin(store)
    window.checkpoint()
    window.extend(range(8))
    snapshot = Snapshot.decode(window.checkpoint())
    snapshot.state[-1][0] = [*snapshot.state[-1][0][:3], parts, retired]
    with pytest.raises(CorruptSnapshot):
        again(snapshot.encode(), store)
