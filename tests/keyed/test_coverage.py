"""What keyed windows say is incomplete after they were changed, one case of each kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import (
    CountWindow,
    KeyedWindows,
    Max,
    Min,
    Product,
    Sum,
    TimeWindow,
)
from mta.errors import LateEvent
from mta.frames import BoundWindow
from mta.keyed.repartitioning import repartition
from stores import MemoryStore


def sums(frame: Any, store: MemoryStore, snapshot: bytes | None = None, **settings: Any) -> Any:
    monoid = Product({"n": ("v", Sum())})
    if snapshot is None:
        return KeyedWindows(monoid, frame, store, **settings)
    return KeyedWindows.restore(snapshot, store, aggregations=monoid, window=frame, **settings)


def ones(count: int) -> dict[str, list[float]]:
    return {"v": [1.0] * count}


def test_a_larger_lateness_does_not_bring_back_what_had_left() -> None:
    """What is missing goes by the lateness that applied, not by the one that applies now."""
    store = MemoryStore()
    windows = sums(TimeWindow(10), store, allowed_lateness=0)
    windows.extend(["a"] * 101, ones(101), range(101))
    windows = sums(TimeWindow(10), store, windows.checkpoint(), allowed_lateness=1000)
    windows.extend(["b"], ones(1), [100])
    windows = sums(TimeWindow(100), store, windows.checkpoint(), allowed_lateness=1000)
    (found,) = windows.coverage().incomplete
    assert found.complete_from == np.datetime64(190, "s")  # the events up to 90 had left
    assert windows.extend(["a"], ones(1), [101])["n"].tolist() == [11.0]


@pytest.mark.parametrize("named", [False, True])
def test_standalone_windows_by_count_store_the_times_of_their_events(named: bool) -> None:
    """So another frame may need them, and every moment can be asked for."""
    store, count = MemoryStore(), CountWindow(20)
    before = {"w": count} if named else count
    windows = sums(before, store, timed=True, promote_at=4)
    windows.extend(["a"] * 30, ones(30), range(30))
    assert windows.stats().standalone == 1
    for moment, newest in ((99, 20.0), (29, 20.0), (25, 16.0)):
        found = windows.query("a", at=moment, partial=moment < 29)
        assert (found["w"] if named else found)["n"] == newest
    after = {"w0": CountWindow(3), "w1": TimeWindow(7)}
    windows = sums(after, store, windows.checkpoint(), timed=True, promote_at=4)
    (only,) = windows.coverage().incomplete  # only of moments that have passed
    assert (only.window, only.complete_from) == ("w1", np.datetime64(10 + 7, "s"))
    found = windows.extend(["a"], ones(1), [30])
    assert (found["n_w0"].tolist(), found["n_w1"].tolist()) == ([3.0], [7.0])


def test_a_key_that_has_to_begin_empty_makes_every_window_incomplete() -> None:
    """Windows that depend on values store no times, which the new ones need."""
    store = MemoryStore()
    windows = sums(BoundWindow(("v", Sum()), at_most=20.0), store, timed=True)
    windows.extend(["a"] * 10, ones(10), range(10))
    wanted = {"w0": CountWindow(3), "w1": TimeWindow(7)}
    windows = sums(wanted, store, windows.checkpoint(), timed=True)
    found = {
        each.window: (each.complete_from, each.complete_after_events)
        for each in windows.coverage().incomplete
    }
    assert found == {"w0": (None, 3), "w1": (np.datetime64(16, "s"), None)}
    assert windows.extend(["a"], ones(1), [10])["n_w0"].tolist() == [1.0]
    same = sums(BoundWindow(("v", Sum()), at_most=5.0), store, timed=True)
    same.extend(["a"] * 10, ones(10), range(10))
    same = sums(BoundWindow(("v", Sum()), at_most=4.0), store, same.checkpoint(), timed=True)
    assert same.query("a")["n"] == 4.0


@pytest.mark.parametrize(("promote_at", "known"), [(1000, 10), (4, 10)])
def test_events_newer_than_a_late_one_are_not_in_its_window(promote_at: int, known: int) -> None:
    store = MemoryStore()
    windows = sums(TimeWindow(10), store, allowed_lateness=10, promote_at=promote_at)
    windows.extend(["a"] * 41, ones(41), range(41))
    snapshot = windows.checkpoint()
    windows = sums(CountWindow(15), store, snapshot, allowed_lateness=10, promote_at=promote_at)
    (found,) = windows.coverage().incomplete
    # Of the events held, those from 21 to 30 are older than whatever comes.
    assert found.complete_after_events == 15 - known
    late = [30.1, 30.2, 30.3, 30.4, 30.5]
    assert windows.extend(["a"] * 5, ones(5), late)["n"].tolist() == [11.0, 12.0, 13.0, 14.0, 15.0]


def test_windows_joined_by_and_are_whole_once_both_are() -> None:
    store = MemoryStore()
    windows = sums(TimeWindow(5), store, allowed_lateness=0)
    windows.extend(["a"] * 20, ones(20), range(20))
    windows = sums(TimeWindow(9) & CountWindow(7), store, windows.checkpoint(), allowed_lateness=0)
    (found,) = windows.coverage().incomplete
    assert (found.complete_from, found.complete_after_events) == (None, None)
    assert found.complete_after_both == (np.datetime64(23, "s"), 2)
    found = windows.extend(["a"] * 4, ones(4), range(20, 24))["n"].tolist()
    assert found[-1] == 9.0 and found[0] == 6.0


def test_a_column_and_a_window_are_whole_once_both_are() -> None:
    store = MemoryStore()
    windows = sums(TimeWindow(5), store, allowed_lateness=0)
    windows.extend(["a"] * 20, ones(20), range(20))
    other = Product({"low": ("b", Min())})
    either = TimeWindow(9) | CountWindow(7)
    windows = KeyedWindows.restore(
        windows.checkpoint(), store, aggregations=other, window=either, allowed_lateness=0
    )
    (found,) = windows.coverage().incomplete
    assert (found.complete_from, found.complete_after_events) == (np.datetime64(28, "s"), 7)


@pytest.mark.parametrize("promote_at", [2, 1000])
@pytest.mark.parametrize("way", ["restore", "take over", "repartition"])
def test_a_key_whose_newest_event_was_retracted_keeps_its_cutoff(promote_at: int, way: str) -> None:
    store = MemoryStore()
    two = Product({"s": ("v", Sum()), "m": ("v", Max())})
    settings: dict[str, Any] = {"allowed_lateness": 0, "promote_at": promote_at}
    windows = KeyedWindows(two, TimeWindow(10), store, **settings)
    windows.extend(["a"] * 3, ones(3), [88, 96, 101])
    windows.retract("a", 101)
    snapshot, one = windows.checkpoint(), Product({"s": ("v", Sum())})
    if way == "repartition":
        snapshot = repartition(
            {0: snapshot}, store, store, lambda _: [0], lambda _: 0, lambda _: None
        )[0]
    if way == "take over":
        again = KeyedWindows(one, TimeWindow(10), store, "other", **settings)
        again.take_over(snapshot, store)
    else:
        again = KeyedWindows.restore(
            snapshot, store, aggregations=one, window=TimeWindow(10), **settings
        )
    for moment in (97, 100.9):
        with pytest.raises(LateEvent):
            again.extend(["a"], ones(1), [moment])
    assert again.query("a") == {"s": 1.0} and again.coverage().complete
    again = again.restore_like(again.checkpoint())
    assert again.query("a") == {"s": 1.0}
    assert again.extend(["a", "a"], ones(2), [101, 105])["s"].tolist() == [2.0, 3.0]
    with pytest.raises(LateEvent):
        again.extend(["a"], ones(1), [104])


@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.parametrize("frame", [TimeWindow(1), CountWindow(1), TimeWindow(1) | CountWindow(9)])
def test_what_has_left_is_not_retracted_however_a_key_is_stored(
    frame: Any, standalone: bool
) -> None:
    """23 is older than any event to come, which is at 31 at least, and in no window of one."""
    windows = KeyedWindows(
        Sum(), frame, None, allowed_lateness=5, on_missing="drop", arity=4, leaf_arity=4
    )  # fmt: skip
    # A retraction of what its own batch brought takes a window of its own.
    times, retracts = [23, 24, 36, 36], [False, False, False, True]
    count = 3 + standalone
    windows.extend(["a"] * count, [1.0] * count, times[:count], retracts=retracts[:count])
    assert windows.stats().standalone == standalone
    windows.extend(["a", "a"], [1.0] * 2, [23, 39], retracts=[True, False])
    assert windows.last_accepted is not None
    assert windows.last_accepted.tolist() == [False, True]


@pytest.mark.parametrize("promote_at", [2, 1000])
def test_a_key_from_before_others_were_expired_takes_late_events(promote_at: int) -> None:
    """However it is stored: its events from then are all known."""
    windows = KeyedWindows(
        Sum(), TimeWindow(10), MemoryStore(), allowed_lateness=50, promote_at=promote_at
    )
    windows.extend(["gone", "a", "a", "a"], [1.0] * 4, [0, 5, 6, 7])
    windows.expire(before=12)
    assert windows.keys and len(windows) == 1
    windows.extend(["a"], [1.0], [20])
    assert windows.extend(["a"], [1.0], [8]).tolist() == [4.0]
    with pytest.raises(LateEvent):
        windows.extend(["new", "new"], [1.0] * 2, [9, 20])
