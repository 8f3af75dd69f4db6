"""Large leaves are written soon: some at once, as soon as no event can come into them any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import Sum, TimeWindow, Window
from mta.algorithms import FiBA
from mta.logs.finger_tree import node_cache
from mta.logs.finger_tree.node import Node
from mta.pages import NO_NAME
from stores import MemoryStore, PageStore
from stores.errors import StoreUnavailable
from stores.testing import CountingStore, FaultyStore

#: So many events fill a leaf, and are 64 KiB; a batch has as many.
EVENTS = 4096


def window_over(store: PageStore, lateness: float = 0, size: int = 10**9) -> Window:
    """A window of events a second apart, in leaves that are large."""
    return Window(
        Sum(),
        TimeWindow(size),
        store,
        "settled",
        aggregator=FiBA,
        leaf_arity=EVENTS // 2,
        arity=64,
        allowed_lateness=lateness,
    )


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers, and times in order."""
    times = np.arange(number * EVENTS, (number + 1) * EVENTS)
    return (times % 97).astype(float), times


def unwritten(window: Window) -> list[Node]:
    """The leaves in memory that are no pages as they are, but for the first and the last of all."""
    tree: Any = window.structure().tree  # type: ignore[attr-defined]
    leaves = [node for node in tree.resident() if not (node.level or tree.is_spine(node))]
    return [leaf for leaf in leaves if leaf.link.name == NO_NAME]


def test_they_are_written_some_at_once_each_once_and_kept_no_longer() -> None:
    store, at_once = CountingStore(MemoryStore()), node_cache._AT_ONCE
    window, batches = window_over(store), 5 * at_once
    for number in range(batches):
        window.extend(*batch(number))
        assert len(unwritten(window)) <= at_once + 1
    put = store.counts.put
    assert put.pages == at_once * put.calls and put.calls >= batches // at_once - 1
    assert store.counts.get.calls == 0
    window.check()


def test_small_ones_wait_until_they_have_not_been_needed_for_long() -> None:
    store = CountingStore(MemoryStore())
    window = Window(
        Sum(), TimeWindow(10**9), store, "small", aggregator=FiBA, leaf_arity=32, arity=64
    )
    for start in range(0, 40 * 64, 64):
        window.extend(np.ones(64), np.arange(start, start + 64))
    assert len(unwritten(window)) > 2 * node_cache._AT_ONCE and store.counts.put.calls == 0


def test_those_that_late_events_may_come_into_wait() -> None:
    """And are written once for that, though every tenth event comes late."""
    store, late_leaves = CountingStore(MemoryStore()), 20
    lateness = late_leaves * EVENTS
    window, batches = window_over(store, lateness), 70
    random = np.random.default_rng(1)
    for number in range(batches):
        values, times = batch(number)
        late = random.random(EVENTS) < 0.1
        late[-1] = False
        times[late] -= random.integers(0, lateness - EVENTS, late.sum())
        window.extend(values, np.maximum(times, 0))
    kept = unwritten(window)
    assert len(kept) >= late_leaves
    newest = batches * EVENTS
    written = store.counts.put.pages
    # Halved, as leaves are into which late events come, they are up to twice as many.
    assert written <= 2 * batches
    assert all(leaf.time_at(leaf.count - 1) > (newest - 2 * lateness) * 10**6 for leaf in kept)
    window.check()


def test_where_the_store_fails_the_batch_is_in_and_the_next_one_says_so() -> None:
    store = FaultyStore(MemoryStore())
    window, expected, number = window_over(store), window_over(MemoryStore()), 0
    store.fail(forever=True, operations=("put",))
    while not store.fired:
        assert np.array_equal(window.extend(*batch(number)), expected.extend(*batch(number)))
        number += 1
    assert number >= node_cache._AT_ONCE
    for _ in range(2):
        fired = store.fired
        with pytest.raises(StoreUnavailable):
            window.extend(*batch(number))
        assert store.fired == fired + 1
        assert len(window) == number * EVENTS and window.query() == expected.query()
    store.heal()
    for at in range(number, number + 3):
        assert np.array_equal(window.extend(*batch(at)), expected.extend(*batch(at)))
    assert len(unwritten(window)) <= 4
    again = window.restore_like(window.checkpoint())
    assert again.query() == expected.query()
    again.check()
