"""Windows with triggers, sliced and not: boundaries, gaps, costs, snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count as counted_from
from typing import Any

import msgpack
import numpy as np
import pytest

from mta import (
    Collect,
    CountWindow,
    EveryCount,
    EveryPeriod,
    OnDemand,
    SlicedWindow,
    Sum,
    TimeWindow,
    Trigger,
    TriggeredWindow,
    Window,
)
from mta.algorithms import AmortizedMTA, FiBA, SteadyMTA
from mta.errors import InvalidTime, InvalidValue, LateEvent, SnapshotMismatch, StoreUnavailable
from mta.frames import BoundWindow, Frame
from mta.snapshots import Snapshot
from mta.triggers.triggered import ResultsWhenDue, TriggeredSnapshot
from stores import MemoryStore
from stores.testing import FaultyStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted, rolling_hash
from tests.support.naive import IN_ORDER, CrowdedFiBA, joined, letters
from tests.support.random_windows.kinds import TEXT
from tests.support.random_windows.lists import DueLists, OneWindow, Stream
from tests.support.random_windows.rules import SECOND, count, span


def as_pairs(due: Any) -> list[tuple[int, str]]:
    moments, results = due
    return list(zip(moments.astype("i8").tolist(), list(results), strict=True))


def test_a_search_counts_the_events_of_a_batch_once() -> None:
    window = Window(joined(), BoundWindow(letters(), at_most=4), MemoryStore(), "w", arity=3)
    triggered = TriggeredWindow(window, EveryCount(4))
    for _ in range(28):
        triggered.insert("a")
    assert triggered.extend(["a"] * 5 + ["dd", "dd", "a"]).results.tolist() == ["aaaa", "dda"]


# --- boundaries and gaps, in numbers -------------------------------------------------------------


def seconds(due: Any) -> list[tuple[int, Any]]:
    return [(t.astype("M8[s]").astype(int).item(), r) for t, r in zip(*due, strict=True)]


def both_ways(size: str, slide: str) -> list[ResultsWhenDue]:
    window = Window(Collect(), TimeWindow(size), name="whole")
    return [
        TriggeredWindow(window, EveryPeriod(slide)),
        SlicedWindow(Collect(), TimeWindow(size), slide),
    ]


def test_an_event_at_a_boundary_belongs_to_it_and_makes_it_due_only_when_it_is_over() -> None:
    for window in both_ways("1 minute", "1 minute"):
        assert window.insert("a", 1) == window.insert("b", 60) == window.insert("c", 60) == []
        assert window.insert("d", 61) == [(np.datetime64(60, "s"), ["a", "b", "c"])]
        again = both_ways("1 minute", "1 minute")[isinstance(window, SlicedWindow)]
        due = again.extend(["a", "b", "c", "d"], [0, 60, 60, 61])
        assert seconds(due) == [(0, ["a"]), (60, ["b", "c"])]
        assert seconds(again.flush()) == [(120, ["d"])]


def test_a_boundary_just_after_an_event_that_leaves_at_it() -> None:
    for window in both_ways("2 minutes", "1 minute"):
        due = window.extend(["a", "b", "c"], [60, 60.000001, 300])
        assert seconds(due) == [(60, ["a"]), (120, ["a", "b"]), (180, ["b"]), (240, [])]


def test_times_before_1970() -> None:
    for window in both_ways("1 minute", "1 minute"):
        assert seconds(window.extend(["a", "b", "c"], [-61, -60, -59])) == [(-60, ["a", "b"])]


@pytest.mark.parametrize("aggregator", [*IN_ORDER, FiBA])
def test_a_batch_after_a_gap_that_emptied_the_window(aggregator: Any) -> None:
    events = Window(Collect(), TimeWindow(3), aggregator=aggregator)
    for window in (
        TriggeredWindow(events, EveryPeriod(1)),
        SlicedWindow(Collect(), TimeWindow(3), 1, aggregator=aggregator),
    ):
        expected = [(1, ["a"]), (2, ["a", "b"]), (3, ["a", "b"]), (4, ["b"]), (5, [])]
        expected += [(40, ["c"]), (41, ["c", "d"]), (42, ["c", "d", "e"])]
        assert seconds(window.extend("abcdef", [1, 2, 40, 41, 42, 43])) == expected
        window.check()


@pytest.mark.parametrize("aggregator", [*IN_ORDER, FiBA])
def test_slices_take_events_in_order_whatever_keeps_them(aggregator: Any) -> None:
    window = SlicedWindow(Collect(), TimeWindow(4), 2, aggregator=aggregator, on_late="drop")
    due = window.extend("abcde", [1, 7, 5, 8, 9])
    assert seconds(due) == [(2, ["a"]), (4, ["a"]), (6, []), (8, ["b", "d"])]
    strict = SlicedWindow(Collect(), TimeWindow(4), 2, aggregator=aggregator)
    with pytest.raises(LateEvent):
        strict.extend("ab", [7, 5])


def test_a_gap_of_centuries_gives_the_window_until_it_is_empty_and_then_nothing() -> None:
    for window in both_ways("3 seconds", "1 second"):
        due = window.extend(["a", "b"], [10, 10**10])
        assert seconds(due) == [(10, ["a"]), (11, ["a"]), (12, ["a"]), (13, [])]


def test_a_gap_gives_one_result_where_time_does_not_empty_the_window() -> None:
    window = TriggeredWindow(Window(Collect(), CountWindow(2), name="n"), EveryPeriod("1 second"))
    due = window.extend(["a", "b", "c", "d"], [10, 10.5, 10**10, 10**10 + 0.5])
    assert seconds(due) == [(10, ["a"]), (11, ["a", "b"]), (10**10, ["b", "c"])]


def test_nothing_is_due_before_the_first_event_nor_twice() -> None:
    for window in both_ways("2 seconds", "1 second"):
        assert seconds(window.advance(100)) == seconds(window.flush()) == []
        assert seconds(window.extend([], [])) == []
        window.insert("a", 100.5)
        assert seconds(window.advance(100.9)) == []
        assert seconds(window.flush()) == seconds(window.flush()) == [(101, ["a"])]
        assert seconds(window.advance(101)) == [(101, ["a"])]
        assert seconds(window.flush()) == seconds(window.advance(101.99)) == []
        assert seconds(window.advance(200)) == [(102, ["a"]), (103, [])]
        assert seconds(window.advance(300)) == []
        window.insert("b", 400)
        assert seconds(window.advance(400)) == [(400, ["b"])]
        assert seconds(window.flush()) == []  # its newest event is at the boundary


def test_events_that_a_watermark_has_passed_are_late() -> None:
    for window in both_ways("2 seconds", "1 second"):
        window.insert("a", 10.5)
        window.advance(11.7)
        for time in (10.7, 11):
            with pytest.raises(LateEvent):
                window.insert("b", time)
        window.insert("b", 11.000001)
        assert seconds(window.advance(12)) == [(12, ["a", "b"])]


def test_events_that_are_dropped_neither_count_nor_move_time() -> None:
    by_number = Window(Sum(), CountWindow(9), name="n", nulls="drop_row")
    assert TriggeredWindow(by_number, EveryCount(2)).extend([1, np.nan, 2, 4]).results == [3]
    for window in (
        TriggeredWindow(
            Window(Sum(), TimeWindow(2), name="t", nulls="drop_row", on_late="drop"), EveryPeriod(1)
        ),
        SlicedWindow(Sum(), TimeWindow(2), 1, name="s", nulls="drop_row", on_late="drop"),
    ):
        assert seconds(window.extend([1, np.nan, 8, 2], [10, 90, 9, 10])) == []
        assert window.insert(4, 5) == []
        assert window.intake.late_count == 2
        assert window.insert(4, 11) == [(np.datetime64(10, "s"), 3.0)]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "slide", "hint"),
    [
        (TimeWindow("1 hour"), "7 minutes", "multiple"),
        (TimeWindow("1 minute"), "1 hour", "multiple"),
        (CountWindow(10), 3, "multiple"),
        (CountWindow(3), 10, "multiple"),
        (CountWindow(10), "1 minute", "number of events"),
        (CountWindow(10), 2.5, "EveryCount"),
        (TimeWindow(10) | CountWindow(10), 5, "TriggeredWindow"),
        (BoundWindow(Sum(), at_most=10), 5, "TriggeredWindow"),
    ],
)
def test_slices_are_refused_where_they_would_be_cut(frame: Any, slide: Any, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        SlicedWindow(Sum(), frame, slide)


def test_late_events_and_missing_times_are_refused() -> None:
    late = Window(Sum(), TimeWindow(60), name="l", aggregator=FiBA, allowed_lateness=10)
    for trigger in (EveryPeriod(1), EveryCount(2), EveryCount(1)):
        with pytest.raises(ValueError, match="late events"):
            TriggeredWindow(late, trigger)
    assert TriggeredWindow(late, OnDemand()).query() == 0.0
    window = TriggeredWindow(Window(Sum(), CountWindow(5), name="c"), EveryPeriod(1))
    for action in (lambda: window.insert(1.0), lambda: window.extend([1.0])):
        with pytest.raises(InvalidTime):
            action()
    window.insert(1.0, 10)
    with pytest.raises(LateEvent):
        window.extend([1.0, 1.0], [11, 9])
    with pytest.raises(InvalidValue):
        window.extend([1.0, np.nan], [20, 30])
    assert seconds(window.extend([2.0], [10.5])) == [(10, 1.0)]
    with pytest.raises(ValueError, match="EveryPeriod"):
        TriggeredWindow(Window(Sum(), CountWindow(5), name="c"), OnDemand()).advance(1)
    for number in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="EveryCount takes"):
            EveryCount(number)  # type: ignore[arg-type]


# --- costs ---------------------------------------------------------------------------------------


def test_only_due_results_are_computed() -> None:
    """Without a trigger, each result takes its part in scans as well: three times as much."""
    counted, n, every = Counted(), 1 << 14, 1 << 7
    codes = np.arange(n) % 251
    window = Window(counted.columnar_hash, CountWindow(1 << 10), arity=64, name="w")
    due = counted.of(lambda: TriggeredWindow(window, EveryCount(every)).extend(codes), 3 * n)
    whole = Window(rolling_hash(), CountWindow(1 << 10), arity=64, name="v").extend(codes)
    assert due.results.tolist() == whole[every - 1 :: every].tolist()
    assert len(due.results) == n // every
    spent = counted.combines
    each = Window(counted.columnar_hash, CountWindow(1 << 10), arity=64, name="u")
    counted.of(lambda: each.extend(codes), 10 * n)
    assert counted.combines - spent > 3 * spent


@pytest.mark.parametrize("by_count", [False, True])
def test_slices_write_and_combine_by_the_slide_not_by_the_event(by_count: bool) -> None:
    n, slide, size, arity = 1 << 14, 64, 1 << 12, 8
    frame: Frame = CountWindow(size) if by_count else TimeWindow(size)
    trigger: Trigger = EveryCount(slide) if by_count else EveryPeriod(slide)
    codes, times = np.arange(n) % 251, np.arange(1, n + 1)
    whole, parts = Counted(), Counted()
    stores = CountingStore(MemoryStore()), CountingStore(MemoryStore())
    window = Window(whole.columnar_hash, frame, stores[0], "w", arity=arity)
    unsliced = TriggeredWindow(window, trigger)
    sliced = SlicedWindow(
        parts.columnar_hash, frame, slide, stores[1], "s", arity=arity, aggregator=AmortizedMTA
    )
    one = unsliced.extend(codes, times)
    # One combine per event; a slide is one event of a window of size / slide slices: O(1)
    # amortised.
    other = parts.of(lambda: sliced.extend(codes, times), n + 7 * n // slide)
    assert one.results.tolist() == other.results.tolist()
    assert one.moments.tolist() == other.moments.tolist()
    assert len(other.results) == (n // slide if by_count else n // slide - 1)
    for subject in (unsliced, sliced):
        subject.checkpoint()
    pages = [store.counts.put.pages for store in stores]
    assert pages[0] >= n // arity
    assert pages[1] * slide <= 1.2 * pages[0]
    assert stores[1].counts.get.pages <= 2 * n // slide // arity
    assert len(sliced.engine.structure()) <= size // slide
    assert parts.combines < whole.combines


def test_whole_slices_of_a_batch_go_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The open slice goes by itself, then all others together, then what begins the next one."""
    window, calls = SlicedWindow(Sum(), CountWindow(60), 6, store=None), []
    lift_rows = window.monoid.lift_rows
    noted = lambda rows, count: calls.append(count) or lift_rows(rows, count)  # noqa: E731
    monkeypatch.setattr(window.monoid, "lift_rows", noted)
    assert window.extend(np.ones(4)).results.tolist() == []
    due = window.extend(np.ones(1000))
    assert due.results.tolist() == [min(6.0 * slides, 60.0) for slides in range(1, 168)]
    assert calls == [4, 2, 996, 2]


def test_tumbling_windows_need_no_page() -> None:
    store = CountingStore(MemoryStore())
    window = SlicedWindow(Sum(), TimeWindow("1 minute"), store=store, name="t", arity=2)
    times = np.arange(10_000)
    due = window.extend(np.ones(10_000), times)
    assert due.results[:3].tolist() == [1.0, 60.0, 60.0]
    assert set(due.results[1:].tolist()) == {60.0}
    window.checkpoint()
    assert len(window.engine.structure()) == 1
    assert len(list(store.keys())) <= 4


# --- stores that fail, and snapshots
# ---------------------------------------------------------------


FAULTS: dict[str, dict[str, bool]] = {
    "once": {}, "for ever": {"forever": True}, "answer lost": {"applied": True},
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(12))
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tree", [*IN_ORDER, SteadyMTA, CrowdedFiBA])
@pytest.mark.parametrize("kind", ["period", "count", "event", "sliced", "slices"])
def test_a_store_that_fails_loses_no_result_and_repeats_none(
    kind: str, tree: Any, fault: str, part: int
) -> None:
    """Each call fails; what is not accepted is sent again, to a window out of a snapshot or not."""
    rule = count(12) if kind == "slices" else span(40 * SECOND)
    triggers = {"count": EveryCount(3), "slices": EveryCount(2), "event": EveryCount(1)}
    trigger = triggers.get(kind, EveryPeriod(2))
    events = [((i * 7 // 4) * SECOND, "abcdef"[i % 6]) for i in range(120)]
    lists = DueLists(TEXT, trigger, Stream(kind != "slices", None), OneWindow(rule))
    expected = [(moment, "".join(values)) for moment, values in lists.take(events)]
    for nth in counted_from(1 + part, 12):
        store, frame = FaultyStore(MemoryStore()), rule.frame()
        settings: dict[str, Any] = {"arity": 2, "leaf_arity": 2, "aggregator": tree}
        if kind.startswith("slice"):
            window: Any = SlicedWindow(joined(), frame, 2, store, **settings)
        else:
            window = TriggeredWindow(Window(joined(), frame, store, **settings), trigger)
        store.fail(nth, **FAULTS[fault])
        got: list[tuple[int, str]] = []
        while window.progress.events < len(events):
            rest = events[window.progress.events :][:50]
            values, times = [v for _, v in rest], np.array([t for t, _ in rest], "M8[us]")
            try:
                got += as_pairs(window.extend(values, times))
            except StoreUnavailable as error:
                store.heal()
                assert sum("were accepted" in note for note in error.__notes__) == 1
                if nth % 2:
                    window = type(window).restore(
                        window.checkpoint(), store, aggregations=joined(), aggregator=tree
                    )
        fired = store.fired
        store.heal()
        got += as_pairs(window.extend([], []))
        if len(got) < len(expected):  # due with the newest event, which came in before the failure
            got += as_pairs(window.flush())
        assert got == expected
        window.check()
        if not fired:
            break
    assert nth > 1 + part or kind == "slices"


def test_results_that_are_still_to_be_given_are_in_the_snapshot() -> None:
    store = FaultyStore(MemoryStore())
    window = TriggeredWindow(Window(Sum(), CountWindow(50), store, "h", arity=2), EveryCount(1000))
    window.trigger = EveryCount(2)
    store.fail(3)
    with pytest.raises(StoreUnavailable) as caught:
        window.extend(np.ones(100))
    assert any("returned by the next call" in note for note in caught.value.__notes__)
    accepted = window.progress.events
    again = TriggeredWindow.restore(window.checkpoint(), store)
    for subject in (window, again):
        due = subject.extend([])
        assert due.moments.tolist() == list(range(2, accepted + 1, 2))
        assert due.results.tolist() == [float(m) for m in due.moments]
        assert len(subject.extend([]).moments) == 0


def snapshot_of(window: ResultsWhenDue) -> bytes:
    window.extend(["a", "b", "c"], [1, 2, 3.5])
    return window.checkpoint()


def subjects() -> list[tuple[bytes, Callable[[bytes], ResultsWhenDue]]]:
    store = MemoryStore()
    monoid, frame = joined(), TimeWindow(2)
    whole = TriggeredWindow(Window(monoid, frame, store, "w"), EveryPeriod(1))
    sliced = SlicedWindow(monoid, frame, 1, store, "s")
    return [
        (
            snapshot_of(whole),
            lambda data: TriggeredWindow.restore(data, store, aggregations=monoid),
        ),
        (snapshot_of(sliced), lambda data: SlicedWindow.restore(data, store, aggregations=monoid)),
    ]


def test_a_snapshot_of_a_restored_window_is_the_same() -> None:
    for data, restore in subjects():
        again = TriggeredSnapshot.decode(restore(data).checkpoint())
        assert replace(again, window=b"") == replace(TriggeredSnapshot.decode(data), window=b"")


def test_snapshots_of_other_windows_are_refused() -> None:
    (whole, _), (sliced, _) = subjects()
    store = MemoryStore()
    text, two = joined(), TimeWindow(2)
    others: list[tuple[Any, bytes, Any, Any, dict[str, Any]]] = [
        (TriggeredWindow, whole, text, two, {"trigger": EveryPeriod(2)}),
        (TriggeredWindow, whole, text, two, {"trigger": OnDemand()}),
        (TriggeredWindow, sliced, text, two, {"trigger": EveryPeriod(1)}),
        (SlicedWindow, whole, text, two, {"slide": 1}),
        (SlicedWindow, sliced, text, two, {"slide": 2}),
        (SlicedWindow, sliced, text, TimeWindow(4), {"slide": 1}),
        (SlicedWindow, sliced, letters(), two, {"slide": 1}),
    ]
    for kind, snapshot, monoid, frame, when in others:
        with pytest.raises(SnapshotMismatch):
            kind.restore(snapshot, store, aggregations=monoid, window=frame, **when)


def test_a_snapshot_goes_on_under_a_longer_window() -> None:
    """As that of a window by itself: it holds what was kept, and grows from there."""
    store = MemoryStore()
    window = TriggeredWindow(Window(joined(), TimeWindow(2), store, "w"), EveryPeriod(1))
    snapshot = snapshot_of(window)
    known = {"aggregations": joined(), "window": TimeWindow(3)}
    longer: Any = TriggeredWindow.restore(snapshot, store, **known)
    longer.check()
    assert longer.query() == window.query() != ""


def test_the_format_of_the_snapshot() -> None:
    """The bytes as the module's grammar says; a change of the format needs a new version."""
    (whole, _), (sliced, _) = subjects()
    for data, frame, part in (
        (whole, TimeWindow(2), None),
        (sliced, TimeWindow(2), [["msgpack", b"\x91\xa1c"]]),
    ):
        fields = msgpack.unpackb(data[:-16])
        assert fields[:2] == ["mta-triggered", 2]
        assert fields[3] == ["EveryPeriod", [1], {}]
        assert fields[4:] == [3, 3_500_000, 3_000_000, [[], []], part]
        inner = Snapshot.decode(fields[2])
        assert inner.windows[0].fingerprint == frame.fingerprint
        assert (inner.last_time, inner.counts) == (3_500_000, [0, 0, 0])


def test_a_sliced_window_goes_on_counting_what_it_drops() -> None:
    store = MemoryStore()
    window = SlicedWindow(Sum(), TimeWindow(2), 1, store, on_late="drop", nulls="drop_row")
    window.extend([1, np.nan, 2, 4], [10, 10, 9, 10.5])
    again = SlicedWindow.restore(window.checkpoint(), store)
    assert (again.intake.late_count, again.intake.invalid_count) == (1, 1)
    assert again.insert(8, 10.2) == []
    assert again.intake.late_count == 2
    assert again.insert(1, 12.5) == window.insert(1, 12.5) != []
