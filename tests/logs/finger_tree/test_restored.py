"""A window taken out of its snapshot for every batch, as Spark does it: what it reads and writes.

Its tree has no left spine, and its aggregates are not computed, until something asks for them.
"""

from __future__ import annotations

import gc
from random import Random

import numpy as np
import pytest

from mta import TimeWindow, Window
from mta.algorithms import FiBA
from mta.audit.walk import audit, live_keys
from mta.logs import base
from mta.logs.finger_tree.node import Node
from stores import MemoryStore, PageStore
from stores.testing import CountingStore
from tests.support.counted import Counted
from tests.support.naive import CrowdedFiBA
from tests.support.random_windows.kinds import NEIGHBOURS, TEXT, Kind
from tests.support.random_windows.windows import SingleLife
from tests.support.sampling import some

LEAF, ARITY, EVENTS = 20, 10, 6050


@pytest.mark.parametrize("few", [1, 1024])
@pytest.mark.parametrize("kind", [TEXT, NEIGHBOURS], ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", some(range(12), by_default=2))
def test_a_window_out_of_its_snapshot_for_every_batch_is_a_sorted_list(
    kind: Kind, few: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its pages are those of the store, whose number does not grow."""
    monkeypatch.setattr(base, "_FEW", few)  # from how many events on it reads ahead
    life = SingleLife(Random(f"{kind.name} {seed}"), kind, CrowdedFiBA)
    life.store = life.store or MemoryStore()
    life.window, most = life.begin(), 0
    life.steps = ("insert", "extend", "extend", "extend", "revise", "query", "ask_for_times")
    for _ in range(40):
        life.checkpoint()
        life._go_back(*[(snapshot, then) for snapshot, (then, _) in life.kept][-1])
        for _ in range(life.random.choice([1, 1, 2])):
            life.step()
        again = life.window.restore_like(life.window.checkpoint())
        again.check()
        assert not audit(again).damaged and len(again) == len(life.held(""))
        assert set(live_keys(again)) == set(life.store.keys())
        most = max(most, len(set(life.store.keys())))
    life.watch()
    life.close()
    assert most < 400


def full(counted: Counted, store: PageStore, lateness: int = 300) -> Window:
    """The snapshot of 3,000 seconds of events a second apart, in a tree of three levels."""
    window = Window(
        counted.max,
        TimeWindow(3000),
        store,
        "restored",
        arity=ARITY,
        leaf_arity=LEAF,
        aggregator=FiBA,
        allowed_lateness=lateness,
    )
    for start in range(0, EVENTS, 550):
        window.extend([1.0] * 550, np.arange(start, start + 550), "last")
    window = window.restore_like(window.checkpoint())
    assert window.stats().levels == 3 and not window.structure().tree.has_left
    return window


def test_to_take_a_window_out_of_a_snapshot_takes_no_combine_and_no_store_call() -> None:
    counted, store = Counted(), CountingStore(MemoryStore())
    window = full(counted, store)
    snapshot = window.checkpoint()
    counted.combines = 0
    store.reset()
    again = window.restore_like(snapshot)
    assert counted.combines == 0
    assert again.query() == 1.0
    assert store.counts.get.calls == 2  # on the way to the leaf that the window begins in
    assert again.checkpoint() != b""
    assert store.counts.put.pages == 0


def test_batches_in_order_write_each_event_once_and_read_what_the_window_begins_in() -> None:
    """A leaf of more than the least is filled by every two or more batches of 10 events.

    From time to time what has left is cut off: then the page above the leaves at the front is
    written again, and nothing else is read for it.
    """
    counted, store = Counted(), CountingStore(MemoryStore())
    window, rounds = full(counted, store), 200
    snapshot = window.checkpoint()
    counted.combines = 0
    store.reset()
    for start in range(EVENTS, EVENTS + 10 * rounds, 10):
        window = window.restore_like(snapshot)
        window.extend([1.0] * 10, np.arange(start, start + 10))
        snapshot = window.checkpoint()
        behind = window.structure().back - 3300 - window.structure().kept_from
        assert behind <= window.structure().tree.size / 16 + 2 * LEAF
    assert 10 * rounds / (2 * LEAF) <= store.counts.put.pages <= 10 * rounds / LEAF
    # For the front, and for what late events may ask for.
    assert store.counts.get.pages <= 4 * rounds
    # Of the leaf at the front and the one at the back, and of a node a level, for each batch.
    assert counted.combines <= rounds * (2 * 2 * LEAF + 4 * 2 * ARITY + 4 * 10)


def test_a_window_out_of_a_snapshot_slides_event_by_event() -> None:
    """Once the left spine has been read, a slide takes O(1) combines as before."""
    counted = Counted()
    window = full(counted, MemoryStore(), lateness=0)
    window.insert(1.0, EVENTS)
    counted.combines = 0
    for time in range(EVENTS + 1, EVENTS + 501):
        window.insert(1.0, time)
        assert window.query() == 1.0
    assert counted.combines <= 17 * 500
    window.check()


@pytest.mark.parametrize("lateness", [0, 300])
def test_what_has_left_is_freed_at_once(lateness: int) -> None:
    """Nodes hold whole pages; none of them waits until Python looks for cycles."""

    def nodes() -> int:
        return sum(type(thing) is Node for thing in gc.get_objects())

    window = full(Counted(), MemoryStore(), lateness)
    gc.collect()
    before = nodes()
    gc.disable()
    try:
        for start in range(EVENTS, EVENTS + 10_000, 100):
            window.extend([1.0] * 100, np.arange(start, start + 100))
        window.checkpoint()
        assert nodes() <= before + FiBA.resident_nodes
    finally:
        gc.enable()
