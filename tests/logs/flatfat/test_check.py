"""A check changes nothing: a window goes on as it would have without it, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mta import CountWindow, Sum, Window
from mta.algorithms import PagedFlatFAT, PagedReactiveAggregator
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support.naive import joined, pages_of


def lived(
    aggregator: type[Aggregator], size: int, seed: int, look: Callable[[Window], None]
) -> list[object]:
    """Results, snapshots and pages of a window of floats that is looked at after every step.

    Sums of floats show in their last bits in what order they were added.
    """
    random, store = Random(seed), MemoryStore()
    window = Window(
        Sum(), CountWindow(size), store, arity=2, leaf_arity=4, aggregator=aggregator
    )  # fmt: skip
    found: list[object] = []
    snapshots: list[bytes] = []
    for _ in range(60):
        values = [random.random() for _ in range(random.choice([1, 1, 3, 10, 40]))]
        match random.randrange(7):
            case 0 | 1:
                found.append(window.extend(values).tolist())
            case 2:
                for value in values:
                    window.insert(value)
            case 3:
                found.append(window.query())
            case 4:
                snapshots = [*snapshots, window.checkpoint()][-2:]
                found.append((snapshots[-1], pages_of(store)))
            case 5 if snapshots:
                snapshots = snapshots[: random.choice([1, 2])]
                window = window.restore_like(snapshots[-1])
            case _:
                structure = window.structure()
                if isinstance(structure, PagedReactiveAggregator) and len(window) > 4:
                    structure.evict_at([structure.front + 2, structure.back - 2])
        look(window)
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("aggregator", [PagedFlatFAT, PagedReactiveAggregator])
@pytest.mark.parametrize("size", [3, 30, 200])
def test_a_check_changes_nothing(aggregator: type[Aggregator], size: int, seed: int) -> None:
    alone = lived(aggregator, size, seed, lambda window: None)
    assert lived(aggregator, size, seed, Window.check) == alone


@pytest.mark.parametrize("fifo", [False, True])
def test_a_check_in_memory_leaves_what_waits(fifo: bool) -> None:
    """It must not do what the next query has to do."""
    window = ReactiveAggregator(joined(), 8, fifo)
    for letter in "abcdef":
        window.insert(letter)
    window.evict()
    before = window.fat.aggregate()
    window.check()
    assert window.fat.aggregate() == before != "bcdef"
    assert window.query() == "bcdef"
