"""Multiple windows at boundaries: each as ``TriggeredWindow`` has it by itself."""

from __future__ import annotations

import numpy as np
import pytest

from mta import (
    BoundWindow,
    Collect,
    CountWindow,
    Due,
    EveryPeriod,
    SharedWindows,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.errors import LateEvent, StoreUnavailable, UnsupportedOperation
from mta.triggers.rules import Progress
from mta.triggers.triggered import SharedDue
from stores import CountingStore, PageStore
from stores.memory import MemoryStore
from tests.support.naive import FailingStore

SIZES = {"arity": 4, "leaf_arity": 4}
POLICIES = {
    "short": TimeWindow(9),
    "long": TimeWindow(40),
    "few": CountWindow(6),
    "bound": BoundWindow(Sum(), at_most=90.0),
    "either": TimeWindow(25) | CountWindow(6),
}


def events(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.arange(count, dtype="f8"), np.cumsum(rng.choice([0, 0.5, 1, 7, 60], count))


@pytest.mark.parametrize("period", [2, 30])
@pytest.mark.parametrize("batches", [1, 30])
def test_each_window_is_as_it_is_alone(batches: int, period: int) -> None:
    """A window by itself may have fewer boundaries in a gap: time empties it earlier, or never."""
    values, times = events(300, batches)
    trigger, store = EveryPeriod(period), MemoryStore()
    windows = SharedWindows(Collect(), POLICIES, store, "shared", **SIZES)
    alone = {
        name: TriggeredWindow(Window(Collect(), policy, None, **SIZES), trigger)
        for name, policy in POLICIES.items()
    }
    newest = None
    for part in np.array_split(np.arange(300), batches):
        due = SharedDue(windows, trigger)
        due.progress = Progress(newest=newest)
        found = due.extend(values[part], times[part])
        newest = round(times[part[-1]] * 1e6)
        for name, window in alone.items():
            moments, results = window.extend(values[part], times[part])
            at = np.searchsorted(found.moments, moments)
            assert found.moments[at].tolist() == moments.tolist()
            assert [found.results[name][i] for i in at] == list(results)
        windows.check()
        windows = windows.restore_like(windows.checkpoint())
    due = SharedDue(windows, trigger)
    due.progress = Progress(newest=newest)
    end = -(-(newest + 40_000_000) // trigger.period) * trigger.period
    rest = due.advance(np.datetime64(end, "us"))
    assert rest.moments.astype("i8")[-1] == end
    for name in ("short", "long", "either"):
        assert rest.results[name][-1] == []
    assert len(due.advance(np.datetime64(end, "us")).moments) == 0


def test_flush_gives_what_has_come() -> None:
    windows = SharedWindows(Collect(), {"a": CountWindow(2)}, name="flush", **SIZES)
    due = SharedDue(windows, EveryPeriod(10))
    assert len(due.flush().moments) == 0
    assert len(due.extend([], []).moments) == 0
    assert len(due.extend([1.0, 2.0], [1, 2]).moments) == 0
    moments, results = due.flush()
    assert (moments.astype("i8").tolist(), list(results["a"])) == ([10_000_000], [[1.0, 2.0]])


def test_a_store_that_fails_loses_no_result_and_repeats_none() -> None:
    values, times = events(100, 3)

    def windows(store: PageStore | None) -> SharedDue:
        return SharedDue(SharedWindows(Collect(), POLICIES, store, **SIZES), EveryPeriod(2))

    def pairs(due: Due) -> list[tuple[int, list[list[float]]]]:
        results = zip(*due.results.values(), strict=True)
        return list(zip(due.moments.tolist(), map(list, results), strict=True))

    expected, failed = pairs(windows(None).extend(values, times)), 0
    for number in range(1, 30):
        store = FailingStore()
        due, got = windows(store), []
        store.failing = {number, number + 7}.__contains__
        while (done := due.progress.events) < len(values):
            try:
                got += pairs(due.extend(values[done:], times[done:]))
            except StoreUnavailable:
                failed += 1
        got += pairs(due.extend([], []))
        assert got == expected
    assert failed > 30


def test_events_older_than_those_of_an_earlier_batch_are_refused() -> None:
    due = SharedDue(SharedWindows(Sum(), {"a": CountWindow(2)}, None), EveryPeriod(10))
    assert due.insert(1.0, 20) == []
    with pytest.raises(LateEvent):
        due.insert(2.0, 19)
    assert due.insert(2.0, 21) == [(np.datetime64(20, "s"), {"a": 1.0})]
    with pytest.raises(UnsupportedOperation, match="windows themselves"):
        due.checkpoint()


def test_between_boundaries_events_are_only_inserted() -> None:
    """Windows longer than what is in memory: reads come with boundaries, not with events."""
    reads, levels = [], 0
    for period in (64, 1024):
        store = CountingStore(MemoryStore())
        policies = {"a": TimeWindow(500), "b": TimeWindow(2000)}
        windows = SharedWindows(Sum(), policies, store, "reads", **SIZES)
        times = np.arange(8192)
        found = SharedDue(windows, EveryPeriod(period)).extend(times * 1.0, times)
        sums = [sum(range(max(0, at - 1999), at + 1)) for at in range(0, 8192 - 1, period)]
        assert found.results["b"].tolist() == sums
        reads.append(store.counts.get.pages)
        levels = windows.stats().levels
        assert reads[-1] <= len(sums) * len(policies) * 6 * levels
    assert reads[1] < reads[0] / 2 < 8192 / 8
