"""Windows restored with other frames and another lateness, again and again: see the support."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mta import CountWindow, SessionWindow, SharedWindows, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, FiBA, LogMTA, PagedFlatFAT, PagedReactiveAggregator
from mta.errors import SnapshotMismatch
from mta.frames import BoundWindow
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support import oracle
from tests.support.changing_scenarios import ChangingLife
from tests.support.naive import CrowdedFiBA
from tests.support.sampling import parts

#: Whether events are in order of time, and the structure of a single window.
SCENARIOS: dict[str, tuple[bool, type[Aggregator] | None]] = {
    "FiBA": (True, FiBA), "crowded FiBA": (True, CrowdedFiBA),
    "Amortized MTA": (False, AmortizedMTA), "Log MTA": (False, LogMTA),
    "FlatFAT": (False, PagedFlatFAT), "Reactive Aggregator": (False, PagedReactiveAggregator),
    "shared": (False, None), "shared, by time": (True, None),
}  # fmt: skip


def live(name: str, seed: int, steps: int) -> ChangingLife:
    life = ChangingLife(Random(f"{name} {seed}"), *SCENARIOS[name])
    for at in range(steps):
        try:
            life.step()
        except Exception as error:
            raise AssertionError(f"life {seed} of {name}, step {at}: {error!r}") from error
    return life


@pytest.mark.parametrize("part", parts(4))
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_window_that_changes_is_a_list_and_knows_what_it_misses(name: str, part: int) -> None:
    seen = {False: 0, True: 0}
    for seed in range(part, 16, 4):
        for complete, times in live(name, seed, 40).seen.items():
            seen[complete] += times
    assert min(seen.values()) > 10


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_for_long(name: str) -> None:
    random = Random(oracle.seed(f"changed windows, {name}"))
    for _ in range(oracle.kills(2000)):
        live(name, random.randrange(1 << 32), random.choice([20, 60]))


@pytest.mark.parametrize(("count", "lateness"), [(20, 30), (40, 0), (40, 30)])
@pytest.mark.parametrize("kind", [Window, SharedWindows])
def test_a_longer_window_begins_with_the_events_that_were_kept_for_late_ones(
    kind: Any, count: int, lateness: int
) -> None:
    store, (short, long) = (
        MemoryStore(),
        (
            {"x": TimeWindow(size)} if kind is SharedWindows else TimeWindow(size)
            for size in (1, 10)
        ),
    )
    window = kind(Sum(), short, store, allowed_lateness=30)
    window.extend([1.0] * count, range(count))
    longer = kind.restore(window.checkpoint(), store, window=long, allowed_lateness=lateness)
    assert longer.query() in (10.0, {"x": 10.0})
    # Of many windows, what none needs may still be in a group that one needs.
    is_whole = count < 30 or lateness == 0
    assert longer.coverage().complete == (is_whole or kind is SharedWindows)
    found = longer.extend([1.0], [count])
    assert (found["x"] if kind is SharedWindows else found).tolist() == [10.0]


def test_coverage_knows_that_a_late_event_may_merge_a_session_with_one_that_left() -> None:
    """After a restore with a larger lateness; with the same one the session is complete."""
    store, gap = MemoryStore(), SessionWindow(2)
    for lateness, complete in ((6, True), (60, False)):
        window = Window(Sum(), gap, store, "w", allowed_lateness=6, arity=2, leaf_arity=3)
        window.extend([1.0] * 40, range(0, 120, 3))
        window = Window.restore(
            window.checkpoint(), store, aggregations=Sum(), window=gap, allowed_lateness=lateness
        )
        assert window.structure().kept_from > 0
        assert (lateness, window.coverage().complete) == (lateness, complete)


def test_frames_that_cannot_stand_for_each_other() -> None:
    store = MemoryStore()
    window = Window(Sum(), CountWindow(5), store)
    window.extend([1.0, 2.0])
    snapshot = window.checkpoint()
    with pytest.raises(SnapshotMismatch, match="so events have no times, not with"):
        Window.restore(snapshot, store, aggregations=Sum(), window=TimeWindow(5))
    with pytest.raises(SnapshotMismatch, match="not with Sum beside Sum"):
        Window.restore(snapshot, store, aggregations=Sum(), window=BoundWindow(Sum(), at_most=3.0))
    with pytest.raises(SnapshotMismatch, match="made with the frame"):
        Window(Sum(), CountWindow(4), store).restore_like(snapshot)


def test_windows_of_the_same_name_and_frame_continue_at_the_same_front() -> None:
    """Also one whose frame looks at values, and would not find its place again."""
    store, bound = MemoryStore(), BoundWindow(Sum(), at_most=5.0)
    windows = SharedWindows(Sum(), {"few": CountWindow(2), "bound": bound}, store)
    windows.extend([1.0, 9.0, 1.0, 1.0])
    before, frames = windows.fronts["bound"], {"more": CountWindow(3), "bound": bound}
    again = SharedWindows.restore(windows.checkpoint(), store, aggregations=Sum(), window=frames)
    assert again.fronts["bound"] == before == 2
    assert (again.query("more"), again.query("bound")) == (11.0, 2.0)
