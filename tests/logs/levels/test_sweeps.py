"""The store holds the pages that are named, and no others; nothing is folded across a gap."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mta import CountWindow, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, LogMTA, SteadyMTA
from mta.audit.walk import audit, live_keys
from mta.frames.base import Frame
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support.naive import IN_ORDER
from tests.support.random_windows.kinds import NEIGHBOURS

AGGREGATORS = [AmortizedMTA, LogMTA]


def make(store: MemoryStore, frame: Frame, aggregator: type[AmortizedMTA]) -> Window:
    return Window(Sum(), frame, store, arity=4, leaf_arity=4, aggregator=aggregator)


@pytest.mark.sample(1)
@pytest.mark.parametrize("chunk", [7, 64, 1000])
@pytest.mark.parametrize("size", [1, 5, 16, 20, 50])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_pages_of_a_sliding_window_all_leave(
    aggregator: type[AmortizedMTA], size: int, chunk: int
) -> None:
    """Also where a level has been filled to the brim by events that have all left."""
    store = MemoryStore()
    window = make(store, CountWindow(size), aggregator)
    for start in range(0, 1000, chunk):
        window.extend(range(start, min(start + chunk, 1000)))
        assert set(store.keys()) == set(live_keys(window))
    window.delete_pages()
    assert list(store.keys()) == []


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_a_window_that_time_empties_leaves_no_page(aggregator: type[AmortizedMTA]) -> None:
    """The next event finds full groups of events that have all left, the newest ones among them."""
    for count in (4, 15, 16, 64, 127, 128, 192, 256):
        store = MemoryStore()
        window = make(store, TimeWindow("10 minutes"), aggregator)
        window.extend(range(count), [float(second) for second in range(count)])
        for second in range(10):
            window.insert(1, 10_000.0 + second)
            assert window.query() == second + 1
            window.checkpoint()
            window = window.restore_like(window.checkpoint())
            assert set(store.keys()) == set(live_keys(window))
            assert audit(window).damaged == []


@pytest.mark.parametrize("together", [1, 6, 70])
@pytest.mark.parametrize("aggregator", IN_ORDER)
def test_a_window_without_events_leaves_no_page(
    aggregator: type[Aggregator], together: int
) -> None:
    """The next batch finds full groups whose pages are all deleted."""
    sizes: dict[str, Any] = {"arity": 4, "leaf_arity": 4, "aggregator": aggregator}
    for count in (4, 15, 16, 64, 127, 128, 256):
        store = MemoryStore()
        window = Window(Sum(), CountWindow(1000), store, **sizes)
        window.extend(range(count))
        window.evict(count)
        for _ in range(3):
            window.checkpoint()
        assert list(store.keys()) == []
        for filled in range(together, 3 * together + 1, together):
            assert window.extend([1] * together)[-1] == filled
            window.checkpoint()
            assert set(store.keys()) == set(live_keys(window))
            assert audit(window).damaged == []


@pytest.mark.parametrize("store", [None, "memory://"], ids=["in memory", "in pages"])
@pytest.mark.parametrize("aggregator", [*IN_ORDER, SteadyMTA])
def test_events_are_combined_with_their_neighbors_alone(
    aggregator: type[Aggregator], store: str | None
) -> None:
    """Also where a batch leaves out groups of events that arrive and leave in one call."""
    sizes: dict[str, Any] = {"arity": 2, "leaf_arity": 2, "aggregator": aggregator}
    for size, before, batch in product((1, 3), (3, 4, 7, 12), (2, 5, 9, 20)):
        window = Window(NEIGHBOURS.monoid(False), CountWindow(size), store, **sizes)
        events = [f"{number}:" for number in range(before + batch + 12)]
        for event in events[:before]:
            window.insert(event)
        window.extend(events[before : before + batch])
        window.check()
        assert store is None or audit(window).damaged == []
        for number in range(before + batch, len(events)):
            window.insert(events[number])
            assert window.query() == (number - size + 1, number, size)
        window.check()
        assert store is None or audit(window).damaged == []
