"""Ranges of level queues: what a window holds, and when the last event left."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mta import CountWindow, TimeWindow, Window
from mta.logs.base import Aggregator
from mta.logs.levels.queues import BEFORE_ALL
from mta.logs.ranges import fold_between
from tests.support.naive import IN_ORDER, joined


@pytest.mark.parametrize("aggregator", IN_ORDER)
def test_what_a_time_window_holds_is_the_range_of_its_size(aggregator: type[Aggregator]) -> None:
    """Also where all that had left filled its groups to the brim, and their pages are deleted."""
    for count in range(1, 40):
        window = Window(
            joined(), TimeWindow("10 seconds"), arity=2, leaf_arity=2, aggregator=aggregator
        )
        window.extend([str(i % 10) for i in range(count)], [float(i) for i in range(count)])
        window.insert("x", 1000.0)
        window.checkpoint()
        window.checkpoint()
        window.insert("y", 1001.0)
        window.checkpoint()
        events = window.structure().remembered()
        newest = 1_001_000_000
        held, size = fold_between(events, newest - 10_000_000, newest, partial=False)
        assert (held, size) == ("xy", 2)


@pytest.mark.parametrize("aggregator", IN_ORDER)
def test_a_count_window_knows_when_the_last_event_left(aggregator: type[Aggregator]) -> None:
    frame = CountWindow(3) | TimeWindow("1 hour")
    window = Window(joined(), frame, arity=2, leaf_arity=2, aggregator=aggregator)
    times = [float(i) for i in range(50)]
    for _, time in pairwise([0.0, *times]):
        window.insert("v", time)
        window.checkpoint()
        structure = window.structure()
        before = structure.remembered().time_before(structure.front)
        if time >= 3:
            assert before == int(time - 3) * 1_000_000
        else:
            assert before in (None, BEFORE_ALL)
