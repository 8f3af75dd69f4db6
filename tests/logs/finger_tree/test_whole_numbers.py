"""What counts events or names a position or a time is a whole number, or is refused at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Window
from mta.algorithms import FiBA, PagedFlatFAT, PagedReactiveAggregator
from mta.in_order.reactive import ReactiveAggregator
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support.naive import joined

NO_NUMBERS = [1.0, np.float64(1), "1", None, np.datetime64(1, "us")]
OURS: list[type[Aggregator]] = [FiBA, PagedFlatFAT, PagedReactiveAggregator]


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
