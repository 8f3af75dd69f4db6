"""How far back windows reach, and what they say of it, held against all events that came."""

from __future__ import annotations

import random

import pytest

from mta import BoundWindow, CountWindow, SharedWindows, Sum, TimeWindow
from mta.errors import EventsGone
from mta.policies import AbstractPolicy
from stores.memory import MemoryStore


def in_window(events: list[tuple[int, float]], policy: AbstractPolicy, at: int) -> list[float]:
    """The values of the window that ends with the event at a place in order of time."""
    if isinstance(policy, CountWindow):
        return [value for _, value in events[max(0, at + 1 - policy.size) : at + 1]]
    assert isinstance(policy, TimeWindow)
    now = events[at][0]
    age = policy.size // 1_000_000
    return [value for time, value in events[: at + 1] if time > now - age]


@pytest.mark.parametrize("longer", [CountWindow(12), TimeWindow(12)])
def test_a_window_made_longer_is_complete_only_if_late_results_are_too(
    longer: AbstractPolicy,
) -> None:
    """Whatever has left when a window is made longer: if it says complete, late results are."""
    said = {True: 0, False: 0}
    for seed in range(60):
        rng = random.Random(seed)
        lateness, short = rng.choice([2, 5, 9]), rng.randint(1, 16)
        windows = SharedWindows(
            Sum(), {"one": CountWindow(short)}, MemoryStore(), arity=2, allowed_lateness=lateness
        )
        events: list[tuple[int, float]] = []
        for time in range(rng.randint(4, 60)):
            windows.insert(float(2 ** (time % 20)), time)
            events.append((time, float(2 ** (time % 20))))
        windows.checkpoint()
        reach = windows.resize("one", longer)
        assert reach.missing_at_least <= reach.missing_at_most
        assert windows.reach("one") == reach
        said[reach.complete] += 1
        if not reach.complete:
            continue
        for late in rng.sample(range(lateness + 1), 2):
            time = max(events)[0] - late
            at = sum(1 for other in events if other[0] <= time)
            events.insert(at, (time, 0.5))
            found = windows.extend([0.5], [time])["one"]
            assert found.tolist() == [sum(in_window(events, longer, at))], seed
    assert min(said.values()) > 3


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
        reach = windows.add("two", asked)
        assert not reach.complete and reach.missing_at_least >= 1
        assert reach.events == 0 and reach.oldest_time is None


def test_a_window_that_would_be_empty_anyhow_is_complete() -> None:
    windows = SharedWindows(
        Sum(), {"one": TimeWindow(2)}, MemoryStore(), arity=2, allowed_lateness=0
    )
    windows.extend([1.0] * 9, range(9))
    windows.checkpoint()
    assert windows.add("two", TimeWindow(1)).complete
    assert windows.query(CountWindow(1)) == 1.0
