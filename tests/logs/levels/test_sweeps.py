"""The store holds the pages that the newest snapshot names, and no others."""

from __future__ import annotations

import pytest

from mta import CountWindow, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, LogMTA
from mta.audit.walk import audit, live_keys
from mta.frames.base import Frame
from stores import MemoryStore

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
