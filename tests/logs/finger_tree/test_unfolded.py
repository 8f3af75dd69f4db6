"""Trees out of snapshots, which fold nothing before it is asked for: no step may lose an event.

Nothing here calls ``check`` between steps: a check that folds what was left undone would hide what
has gone wrong.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from mta import CountWindow, EveryPeriod, OnDemand, TimeWindow, TriggeredWindow, Window
from mta.algorithms import FiBA
from mta.logs.finger_tree import FingerTree
from mta.logs.finger_tree.bulk import insert_sorted
from stores import MemoryStore, PageStore
from tests.support.naive import joined

# --- what was found ------------------------------------------------------------------------------


def triggered(store: PageStore) -> TriggeredWindow:
    window = Window(joined(), CountWindow(5), store, "w", aggregator=FiBA)
    return TriggeredWindow(window, OnDemand())


def test_a_window_asked_now_and_then_keeps_what_came_between_two_evictions() -> None:
    store = MemoryStore()
    window = triggered(store)
    window.extend("abcde", range(5))
    snapshot = window.checkpoint()
    window = TriggeredWindow.restore(snapshot, store, aggregations=joined())
    window.extend("f", [5])
    window.extend("g", [6])
    assert window.query() == "cdefg"
    window.extend("h", [7])
    assert window.query() == "defgh"


def test_results_of_periods_have_what_came_between_two_evictions() -> None:
    store, frame, trigger = MemoryStore(), TimeWindow(10), EveryPeriod(4)
    window = TriggeredWindow(Window(joined(), frame, store, "w", aggregator=FiBA), trigger)
    window.extend("abcdefghij", range(10))
    restored = TriggeredWindow.restore(window.checkpoint(), store, aggregations=joined())
    for time, letter in enumerate("klmnopqrstuvwxyz", 10):
        found, expected = restored.extend([letter], [time]), window.extend([letter], [time])
        assert list(found.results) == list(expected.results)


# --- the tree itself -----------------------------------------------------------------------------


def unfolded(texts: str, leaf_arity: int) -> FingerTree:
    """A tree as it comes out of a snapshot: no left spine, and no aggregates but up-aggregates."""
    grown = FingerTree(joined(), 2, leaf_arity)
    insert_sorted(grown, np.arange(len(texts)), list(texts), len(texts))
    grown.settle_left()
    tree = FingerTree(joined(), 2, leaf_arity)
    tree.restore([grown.root, *reversed(grown.right)], grown.size)
    return tree


@pytest.mark.parametrize("leaf_arity", [2, 3, 8, 64])
def test_a_leaf_evicted_from_before_it_is_folded_takes_in_what_comes(leaf_arity: int) -> None:
    tree, held = unfolded("ab", leaf_arity), "ab"
    tree.load_left()
    for time, letter in enumerate("cdefgh", 2):
        insert_sorted(tree, np.array([time]), [letter], 1)
        tree.load_left()
        tree.evict_oldest()
        held = held[1:] + letter
        if time > 2:
            assert tree.query() == held


@pytest.mark.parametrize("leaf_arity", [2, 3, 8, 64])
@pytest.mark.parametrize("size", [1, 3, 5, 20, 60])
def test_evictions_without_a_query_between_them(size: int, leaf_arity: int) -> None:
    for seed in range(6):
        random, text = Random(seed), "".join(chr(97 + i % 26) for i in range(size))
        tree, expected, time = unfolded(text, leaf_arity), text, size
        for _ in range(40):
            step = random.randrange(5)
            if step == 0 and expected:
                tree.load_left()
                count = min(random.choice([1, 2, 5]), len(expected))
                if count:
                    tree.evict_oldest(count)
                    expected = expected[count:]
            elif step == 1 and expected:
                tree.load_left()
                tree.evict_oldest()
                expected = expected[1:]
            elif step == 2:
                count = random.randrange(len(expected) // 2 + 1)
                tree.evict_oldest(count)
                expected = expected[count:]
            else:
                count = random.choice([1, 1, 2, 9])
                added = "".join(chr(65 + random.randrange(26)) for _ in range(count))
                insert_sorted(tree, np.arange(time, time + count), list(added), count)
                expected, time = expected + added, time + count
            if random.random() < 0.2:
                assert tree.query() == expected
        assert tree.query() == expected
        tree.check()
