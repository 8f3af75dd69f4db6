"""What counts events or names a position or a time is a whole number, or is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, FiBA, PagedFlatFAT, PagedReactiveAggregator, Window
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.base import Aggregator
from mta.logs.finger_tree import FingerTree, Tree
from stores import MemoryStore
from tests.support.trees import joined

NO_NUMBERS = [1.0, np.float64(1), "1", None, np.datetime64(1, "us")]
OURS: list[type[Aggregator]] = [FiBA, PagedFlatFAT, PagedReactiveAggregator]


def tree_of(kind: type[Tree]) -> Any:
    tree = kind(joined())
    for time, letter in enumerate("abcdefg"):
        tree.insert(time, letter)
    return tree


CALLS: list[Callable[[Any, Any], object]] = [
    lambda tree, wrong: tree.evict_oldest(wrong),
    lambda tree, wrong: tree.evict(wrong),
    lambda tree, wrong: tree.insert(wrong, "x"),
]


@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_a_tree_takes_whole_numbers(call: Callable[[Any, Any], object], wrong: object) -> None:
    tree = tree_of(FingerTree)
    with pytest.raises(TypeError):
        call(tree, wrong)
    tree.check()
    assert tree.query() == "abcdefg"
    call(tree, np.int32(1))
    tree.check()
    assert len(tree) in (6, 8) and type(tree.size) is int


@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=repr)
def test_a_classic_tree_takes_whole_numbers(wrong: Any) -> None:
    tree = tree_of(Tree)
    for call in (lambda: tree.evict(wrong), lambda: tree.insert(wrong, "x")):
        with pytest.raises(TypeError):
            call()
    tree.check()
    assert tree.query() == "abcdefg"


@pytest.mark.parametrize("wrong", [*NO_NUMBERS[:3], NO_NUMBERS[4]], ids=repr)
def test_a_window_in_memory_takes_whole_numbers(wrong: Any) -> None:
    window = ReactiveAggregator(joined(), 4)
    window.bulk_insert(list("abcdefg"), 7)
    for call in (window.evict, window.bulk_evict):
        with pytest.raises(TypeError):
            call(wrong)
    window.check()
    assert window.query() == "abcdefg"
    window.evict(np.int32(1))
    window.bulk_evict(np.int32(1))
    assert window.query() == "cdefg"


@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("aggregator", OURS)
def test_a_structure_takes_whole_numbers(aggregator: type[Aggregator], wrong: Any) -> None:
    window = Window(
        joined(), CountWindow(9), MemoryStore(), "w", arity=2, leaf_arity=2, aggregator=aggregator
    )
    window.extend("abcdefg", range(7) if aggregator.by_time else None)
    with pytest.raises(TypeError):
        window.structure().evict_to(wrong)
    if isinstance(window.structure(), PagedReactiveAggregator):
        with pytest.raises(TypeError):
            window.structure().evict_at([2, wrong])
    window.check()
    assert window.query() == "abcdefg"
    window.structure().evict_to(np.int32(1))
    assert window.restore_like(window.checkpoint()).query() == "bcdefg"
