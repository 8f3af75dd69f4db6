"""What windows say of the events that they miss, compared with all events that came."""

from __future__ import annotations

import pytest

from mta import (
    CountWindow,
    EveryCount,
    KeyedWindows,
    SharedWindows,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.errors import EventsGone
from mta.frames import BoundWindow
from mta.results import Coverage, Incomplete
from stores.memory import MemoryStore


def test_windows_without_events_know_that_events_have_left() -> None:
    over = {"one": BoundWindow(Sum(), at_most=1.0)}
    for asked in (CountWindow(3), TimeWindow(100), CountWindow(3) | TimeWindow(100)):
        windows = SharedWindows(Sum(), over, MemoryStore(), arity=2, timed=True)
        windows.extend([5.0] * 8, range(8))
        windows.checkpoint()
        assert windows.query() == {"one": 0.0} and windows.stats().kept == 0
        with pytest.raises(EventsGone):
            windows.query(asked)
        assert windows.query(asked, partial=True) == 0.0
        coverage = windows.add("two", asked)
        assert not coverage.complete and coverage.missing_at_least >= 1
        assert coverage.events == 0 and coverage.oldest_time is None


def test_a_window_that_would_be_empty_anyhow_is_complete() -> None:
    windows = SharedWindows(
        Sum(), {"one": TimeWindow(2)}, MemoryStore(), arity=2, allowed_lateness=0
    )
    windows.extend([1.0] * 9, range(9))
    windows.checkpoint()
    assert windows.add("two", TimeWindow(1)).complete
    assert windows.query(CountWindow(1)) == 1.0


def test_every_kind_of_window_reports_one_type_of_coverage() -> None:
    """A longer window than before misses what had left, in the words of one type."""
    short, longer, events = CountWindow(3), CountWindow(8), [1.0] * 20
    window = Window(Sum(), short)
    window.extend(events)
    shared = SharedWindows(Sum(), {"a": short, "b": short}, arity=2)
    shared.extend(events)
    keyed = KeyedWindows(Sum(), {"a": short, "b": short})
    keyed.extend(["k"] * 20, events)
    complete = [window, shared, keyed, TriggeredWindow(window, EveryCount(5))]
    assert [each.coverage() for each in complete[1:3]] == [Coverage(), Coverage()]
    assert all(type(each.coverage()) is Coverage for each in complete)
    assert all(each.coverage().complete for each in complete)

    again = Window.restore(window.checkpoint(), window.store, aggregations=Sum(), window=longer)
    assert again.coverage() == Coverage((Incomplete("", ""),), 3, 17, None, 5, 5)
    triggered = TriggeredWindow(again, EveryCount(5))
    assert triggered.coverage() == again.coverage()
    both = {"a": short, "b": longer}
    others = SharedWindows.restore(
        shared.checkpoint(), shared.store, aggregations=Sum(), window=both
    )
    assert others.coverage().incomplete == others.coverage("b").incomplete
    assert others.coverage().incomplete == (Incomplete("b", ""),)
    assert others.coverage("a").complete and not others.coverage().complete
    keys = KeyedWindows.restore(keyed.checkpoint(), aggregations=Sum(), window=both)
    assert keys.coverage() == Coverage((Incomplete("b", "", complete_after_events=5),))
