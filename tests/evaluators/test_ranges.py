"""Any range of the events of level queues, wherever it begins, against a plain list."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import CountWindow, TimeWindow, Window
from mta.errors import EventsGone
from mta.logs.base import Aggregator
from mta.logs.levels.queues import BEFORE_ALL
from mta.logs.ranges import fold_between, fold_positions
from tests.support.naive import IN_ORDER, joined

BEGIN = 10**15


@settings(max_examples=100, deadline=None)
@given(
    gaps=st.lists(st.sampled_from([0, 1, 1, 2, 9, 40]), min_size=1, max_size=60),
    size=st.integers(1, 30),
    leaf_arity=st.integers(2, 4),
    arity=st.integers(2, 3),
    aggregator=st.sampled_from(IN_ORDER),
    batch=st.integers(1, 17),
    restored=st.booleans(),
)
def test_ranges_that_begin_before_the_window(
    gaps: list[int],
    size: int,
    leaf_arity: int,
    arity: int,
    aggregator: type[Aggregator],
    batch: int,
    restored: bool,
) -> None:
    """None fails; one is refused exactly if events of it have left."""
    times = [BEGIN + int(gap) for gap in np.cumsum(gaps)]
    values = [str(i % 10) for i in range(len(times))]
    frame = TimeWindow(np.timedelta64(size, "us").item())
    window = Window(
        joined(), frame, arity=arity, leaf_arity=leaf_arity, aggregator=aggregator, name="w"
    )
    for start in range(0, len(times), batch):
        stop = start + batch
        window.extend(values[start:stop], np.array(times[start:stop], "M8[us]"), emit="last")
        if restored:
            window.store.flush()  # type: ignore[union-attr]
            window = Window.restore(
                window.checkpoint(),
                window.store,
                aggregations=joined(),
                window=frame,
                aggregator=aggregator,
            )
    structure = window.structure()
    front, newest = structure.front, times[-1]
    for after in range(BEGIN - 2, newest + 3, 1 + len(times) // 20):
        first = bisect_right(times, after)
        for until in (after, after + size, newest, newest + 5):
            if until < after:
                continue
            stop = bisect_right(times, until)
            expected = "".join(values[max(first, front) : stop])
            events = structure.remembered()
            assert fold_between(events, after, until, partial=True)[0] == expected
            if first >= front:
                assert fold_between(events, after, until, partial=False)[0] == expected
            else:
                with pytest.raises(EventsGone):
                    fold_between(events, after, until, partial=False)
    for position in range(len(times) + 1):
        events = structure.remembered()
        found, count = fold_positions(events, position, len(times), partial=True)
        assert found == "".join(values[max(position, front) :])
        assert count == len(times) - max(position, front)


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
