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
from mta.frames.base import Frame
from mta.logs import base
from mta.logs.finger_tree.node import Node
from stores import MemoryStore, PageStore
from stores.testing import CountingStore
from tests.support.counted import Counted
from tests.support.late_streams import FRAMES, Stream

LEAF, ARITY, EVENTS = 20, 10, 6050


def restored(stream: Stream, snapshot: bytes) -> Window:
    """The same window in a process of its own."""
    return stream.window.restore_like(snapshot)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("frame", FRAMES, ids=repr)
@pytest.mark.parametrize("lateness", [0, 5, 1000])
def test_a_window_out_of_its_snapshot_for_every_batch_is_a_sorted_list(
    frame: Frame, lateness: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_FEW", [1, 1024][seed])  # from how many events on it reads ahead
    store = MemoryStore()
    stream = Stream(Random(seed), frame, lateness, store)
    snapshot = stream.window.checkpoint()
    for _ in range(60):
        stream.window = restored(stream, snapshot)
        for _ in range(stream.random.choice([1, 1, 2])):
            actions = [stream.extend, stream.extend, stream.revise, stream.insert]
            stream.random.choice(actions)()
        if stream.random.random() < 0.5:
            stream.assert_same()
        snapshot = stream.window.checkpoint()
        again = restored(stream, snapshot)
        again.check()
        assert not audit(again).damaged
        assert set(live_keys(again)) == set(store.keys())
        assert len(again) == len(stream.window)
    stream.window = restored(stream, snapshot)
    stream.assert_same()
    stream.window.check()


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
    assert window.structure().tree.has_left
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
