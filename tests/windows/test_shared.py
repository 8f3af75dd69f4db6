"""Multiple windows over one stream: coming and going, results, snapshots, what is refused."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest

from mta import (
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Product,
    Sum,
    TimeWindow,
    Window,
)
from mta.audit.walk import audit
from mta.errors import EventsGone, InvalidTime, LateEvent, NotPageable, SnapshotMismatch
from mta.frames import BoundWindow, CustomFrame
from mta.windows.shared import SharedWindows
from tests.support.naive import joined
from tests.support.shared_windows import FOUR, counted_windows, values


def test_a_longer_window_by_time_knows_when_it_is_complete() -> None:
    windows, _ = counted_windows({"hour": TimeWindow(1_000)})
    times = np.concatenate((np.arange(3_968), np.arange(9_000, 10_000)))  # a gap where a leaf ends
    windows.extend(values(len(times)), times, emit="last")
    windows.checkpoint()
    kept = windows.coverage("hour").front
    assert kept == 3_968 == len(times) - windows.stats().kept
    assert windows.resize("hour", TimeWindow(5_000)).complete  # the last to leave were too early
    coverage = windows.resize("hour", TimeWindow(7_000))
    assert (coverage.missing_at_least, coverage.missing_at_most) == (1, kept)
    with pytest.raises(EventsGone, match="partial=True"):
        windows.query(TimeWindow(7_000))
    assert windows.query(TimeWindow(7_000), partial=True) == values(len(times))[kept:].max()
    with pytest.raises(EventsGone, match="retain_for"):
        windows.range(3_000, 9_500)
    assert windows.range(3_000, 9_500, partial=True) == values(len(times))[kept : kept + 501].max()
    assert windows.range(4_000, 9_500) == values(len(times))[kept : kept + 501].max()
    assert np.isnan(windows.range(5_000, 6_000))


def test_what_cannot_be_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="name"):
        SharedWindows(Max(), {"": CountWindow(2)})
    with pytest.raises(ValueError, match="by count or time"):
        SharedWindows(Max(), {"a": CountWindow(2)}, retain_for=BoundWindow(Sum(), at_most=1))
    of_weight = {"a": BoundWindow(("watts", Sum()), at_most=10)}
    with pytest.raises(ValueError, match="which is not kept here"):
        SharedWindows(Product({"n": Count()}), of_weight).query(
            BoundWindow(("watts", Max()), at_most=13)
        )
    windows = SharedWindows(Max(), {"a": CountWindow(2)})
    with pytest.raises(ValueError, match="already"):
        windows.add("a", CountWindow(3))
    with pytest.raises(ValueError, match=r"no window is called 'b'; there are \['a'\]"):
        windows.query("b")
    with pytest.raises(ValueError, match="needs times"):
        windows.add("b", TimeWindow(3))
    with pytest.raises(InvalidTime, match="timed=True"):
        windows.range(1, 2)
    with pytest.raises(ValueError, match="not a range"):
        windows.range_by_position(1, 2)
    with pytest.raises(ValueError, match="emit must be"):
        windows.extend([1.0], emit="some")  # type: ignore[arg-type]
    for kind, frame in ((Window, CountWindow(2)), (SharedWindows, {"a": CountWindow(2)})):
        with pytest.raises(NotPageable, match="pass a store"):
            kind(Max(), frame, store=None).checkpoint()
    timed = SharedWindows(Max(), {"a": TimeWindow(2)})
    with pytest.raises(InvalidTime, match="ends before it begins"):
        timed.range(2, 1)
    timed.insert(1.0, 5)
    with pytest.raises(LateEvent):
        timed.extend([1.0, 2.0], [4, 5])
    assert timed.query() == {"a": 1.0}


def test_an_event_in_place_of_one_that_was_taken_back() -> None:
    """A frame refuses an event after its leaf has been looked at; the next one stands there."""
    refused = ["c"]

    def evicts(prefix: str, total: str) -> bool:
        if total.endswith(refused[0]):
            raise RuntimeError("refused")
        return False

    windows = SharedWindows(joined(), {"a": CountWindow(2), "b": CustomFrame(evicts, name="all")})
    for value in "ab":
        windows.insert(value)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            windows.insert("c")
    windows.insert("d")
    assert windows.query() == {"a": "bd", "b": "abd"}
    windows.check()


def test_two_results_of_one_name_are_refused() -> None:
    """Columns are called aggregation_window, which has to say which of them is meant."""
    product = Product({"a": Count(), "a_b": Count()})
    clash, one = {"b_c": CountWindow(1), "c": CountWindow(2)}, {"c": CountWindow(2)}
    for make in (SharedWindows, KeyedWindows):
        with pytest.raises(ValueError, match="two results would be named 'a_b_c'"):
            make(product, clash)
    windows = SharedWindows(product, one)
    with pytest.raises(ValueError, match="two results would be named 'a_b_c'"):
        windows.add("b_c", CountWindow(1))
    assert windows.windows == one
    with pytest.raises(ValueError, match="two results would be named 'a_b_c'"):
        SharedWindows.restore(windows.checkpoint(), aggregations=product, window=clash)


def test_restored_only_with_the_same_events() -> None:
    windows, store = counted_windows(FOUR)
    windows.extend(values(1_000), emit="last")
    snapshot = windows.checkpoint()
    with pytest.raises(SnapshotMismatch, match=r"use SharedWindows\.restore for other"):
        windows.restore_like(SharedWindows(Max(), {"five": CountWindow(50)}, store).checkpoint())
    with pytest.raises(SnapshotMismatch, match=r"'five' has the frame CountWindow\(51\)"):
        other = SharedWindows(Max(), {**FOUR, "five": CountWindow(51)}, store)
        SharedWindows(Max(), {**FOUR, "five": CountWindow(50)}, store).restore_like(
            other.checkpoint()
        )
    with pytest.raises(SnapshotMismatch, match="monoid"):
        SharedWindows.restore(snapshot, store, aggregations=Sum(), window=FOUR)
    with pytest.raises(ValueError, match="kept without any"):
        SharedWindows.restore(
            snapshot, store, aggregations=Max(), window={"day": TimeWindow("1 day")}
        )
    with pytest.raises(SnapshotMismatch, match=r"a single window: use Window\.restore"):
        SharedWindows.restore(
            Window(Max(), CountWindow(5)).checkpoint(), store, aggregations=Max(), window=FOUR
        )
    with pytest.raises(SnapshotMismatch, match=r"multiple windows: use SharedWindows\.restore"):
        Window.restore(snapshot, store, aggregations=Max(), window=CountWindow(50))


def test_the_worked_example_of_a_snapshot() -> None:
    windows = SharedWindows(Max(), {"b": CountWindow(2), "a": CountWindow(1)}, name="w")
    windows.extend([1.0, 2.0, 3.0])
    body = msgpack.unpackb(windows.checkpoint()[:-16])
    assert body[:2] == ["mta-snapshot", 2]
    assert body[15] == [
        ["a", "CountWindow(1)", CountWindow(1).fingerprint, 2],
        ["b", "CountWindow(2)", CountWindow(2).fingerprint, 1],
    ]
    assert audit(windows).pages == 0
