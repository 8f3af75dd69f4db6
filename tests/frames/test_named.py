"""Windows by name: deltas, punctuation, sessions and ADWIN, against plain lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import (
    Collect,
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Product,
    SessionWindow,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.algorithms import FiBA
from mta.errors import InvalidTime, InvalidValue, SnapshotMismatch
from mta.frames import ADWIN, DeltaWindow, Frame, PunctuationWindow
from stores import MemoryStore
from stores.testing import FaultyStore
from tests.support.naive import AGGREGATORS, CrowdedFiBA, window_of
from tests.support.sampling import REST

BY_TIME = [FiBA, CrowdedFiBA]
ALL = [*AGGREGATORS, FiBA]
#: Of an event: when it is, an attribute that seldom falls, a mark, and a reading.
Event = tuple[int, float, bool, float]
#: From where on a window begins, by all its events, the front so far, and the time.
Cut = Callable[[list[Event], int, int], int]


def delta(size: float) -> tuple[Frame, Cut]:
    def cut(events: list[Event], front: int, now: int) -> int:
        largest = max(event[1] for event in events[front:])
        return next(at for at in range(front, len(events)) if largest - events[at][1] < size)

    return DeltaWindow(size, "at"), cut


def punctuation(last: int, ends: bool) -> tuple[Frame, Cut]:
    def cut(events: list[Event], front: int, now: int) -> int:
        held = events[front:]
        begins = [
            at for at in range(len(held)) if (held[at - 1][2] and at if ends else held[at][2])
        ]
        return front + (begins[-last] if len(begins) >= last else 0)

    return PunctuationWindow("mark", last, ends), cut


def plain(frame: Frame) -> tuple[Frame, Cut]:
    """A frame of counts, times and sessions."""

    def cut(events: list[Event], front: int, now: int) -> int:
        start: int = window_of(frame, [event[0] for event in events], now).start
        return start

    return frame, cut


def adwin(clock: int) -> tuple[Frame, Cut]:
    """As the paper says, by lists: parts the window, newer parts of 8, 12, 16, 24, ... events."""
    sizes = sorted([8 << k for k in range(12)] + [12 << k for k in range(12)], reverse=True)

    def cut(events: list[Event], front: int, now: int) -> int:
        if len(events) % clock:
            return front
        for size in sizes:
            held = [event[3] for event in events[front:]]
            if size > len(held) - 8:
                continue
            older, newer = held[:-size], held[-size:]
            mean = sum(held) / len(held)
            variance = sum((value - mean) ** 2 for value in held) / len(held)
            doubt = math.log(2 * math.log(len(held)) / 0.01)
            parts = 1 / len(older) + 1 / len(newer)
            least = math.sqrt(2 * parts * variance * doubt) + 2 / 3 * parts * doubt
            if abs(sum(older) / len(older) - sum(newer) / len(newer)) >= least:
                front = len(events) - size
        return front

    return ADWIN(0.01, "reading", clock=clock), cut


def joined(one: tuple[Frame, Cut], other: tuple[Frame, Cut], any_of: bool) -> tuple[Frame, Cut]:
    choose = max if any_of else min
    frame = one[0] | other[0] if any_of else one[0] & other[0]
    return frame, lambda events, front, now: choose(
        one[1](events, front, now), other[1](events, front, now)
    )


RULES: dict[str, Callable[[], tuple[Frame, Cut]]] = {
    "delta": lambda: delta(10),
    "delta of a fraction": lambda: delta(0.5),
    "punctuation": lambda: punctuation(1, False),
    "the last two parts": lambda: punctuation(2, False),
    "marks end parts": lambda: punctuation(1, True),
    "the last three parts that end": lambda: punctuation(3, True),
    "session": lambda: plain(SessionWindow(5)),
    "adwin": lambda: adwin(1),
    "adwin from time to time": lambda: adwin(7),
    "session | count": lambda: plain(SessionWindow(5) | CountWindow(6)),
    "session & count": lambda: plain(SessionWindow(5) & CountWindow(6)),
    "session | session & time": lambda: plain(
        SessionWindow(4) | (SessionWindow(9) & TimeWindow(12))
    ),
    "delta | punctuation": lambda: joined(delta(10), punctuation(1, False), True),
    "delta & session": lambda: joined(delta(3), plain(SessionWindow(5)), False),
    "punctuation & time": lambda: joined(punctuation(2, True), plain(TimeWindow(20)), False),
    "adwin | session": lambda: joined(adwin(2), plain(SessionWindow(30)), True),
}
rules = pytest.mark.parametrize("rule", RULES)


def draw(random: Random, size: int) -> list[Event]:
    """Events in order of time whose attribute seldom falls, and whose readings drift."""
    time, at, events = 1_700_000_000, 0.0, []
    for number in range(size):
        time += random.choice([0, 1, 1, 2, 3, 4, 5, 6, 40])
        at += random.choice([0, 0.25, 0.5, 1, 4, 11, -2])
        level = 0.9 if number // 40 % 2 else 0.1
        events.append((time, at, random.random() < 0.15, level + random.random() / 10))
    return events


def monoid() -> Product:
    return Product({"all": ("n", Collect()), "n": Count()})


def columns(events: list[Event], first: int) -> dict[str, Any]:
    return {
        "n": list(range(first, first + len(events))),
        "at": [event[1] for event in events],
        "mark": [event[2] for event in events],
        "reading": [event[3] for event in events],
    }


def row(event: Event, number: int) -> dict[str, Any]:
    return {name: column[0] for name, column in columns([event], number).items()}


def expected(cut: Cut, events: list[Event]) -> list[list[int]]:
    """The numbers of the events in the window after each event."""
    front, found = 0, []
    for stop in range(1, len(events) + 1):
        front = max(front, cut(events[:stop], front, events[stop - 1][0]))
        found.append(list(range(front, stop)))
    return found


@cache
def life(rule: str) -> tuple[list[Event], list[list[int]]]:
    """Events, and what is expected of them: the same whatever structure holds the window."""
    events = draw(Random(f"{rule} 0"), 130)
    return events, expected(RULES[rule]()[1], events)


@pytest.mark.parametrize(
    ("rule", "aggregator"),
    [  # each rule on one structure by default, and each structure with a sixth of the rules
        pytest.param(rule, aggregator, marks=[REST] if (at + nth) % 6 else [])
        for at, rule in enumerate(RULES)
        for nth, aggregator in enumerate(ALL)
    ],
)
def test_events_in_order(rule: str, aggregator: type) -> None:
    """One by one and in batches, with restores of the latest snapshot between any two steps."""
    random, frame = Random(f"{rule} {aggregator.__name__}"), RULES[rule]()[0]
    events, wanted = life(rule)
    store, arity = MemoryStore(), random.choice([2, 3, 8])
    window = Window(monoid(), frame, store, "w", arity=arity, aggregator=aggregator)
    done, timed = 0, frame.needs_times or aggregator.by_time
    while done < len(events):
        some = events[done : done + random.choice([1, 1, 2, 5, 30])]
        times = [event[0] for event in some] if timed else None
        if len(some) == 1:
            window.insert(row(some[0], done), times and times[0])
            assert window.query()["all"] == wanted[done]
        else:
            found = window.extend(columns(some, done), times)
            assert list(found["all"]) == wanted[done : done + len(some)]
        done += len(some)
        if random.random() < 0.3:
            window.check()
        if random.random() < 0.3:
            window = Window.restore(window.checkpoint(), store, aggregator=aggregator)


@rules
def test_windows_that_share_events(rule: str) -> None:
    random, store = Random(rule), MemoryStore()
    made = {"one": RULES[rule](), "five": plain(CountWindow(5)), "gap": plain(SessionWindow(3))}
    frames = {name: frame for name, (frame, _) in made.items()}
    events = draw(random, 120)
    wanted = {name: expected(cut, events) for name, (_, cut) in made.items()}
    windows, done = SharedWindows(monoid(), frames, store, arity=2), 0
    while done < len(events):
        some = events[done : done + random.choice([1, 3, 20])]
        found = windows.extend(columns(some, done), [event[0] for event in some])
        for name in frames:
            assert list(found[f"all_{name}"]) == wanted[name][done : done + len(some)]
        done += len(some)
        if random.random() < 0.5:
            windows = SharedWindows.restore(windows.checkpoint(), store)


@rules
def test_windows_of_many_keys(rule: str) -> None:
    random, store, frame = Random(rule), MemoryStore(), RULES[rule]()[0]
    windows = KeyedWindows(monoid(), frame, store, name="k", timed=True, promote_at=8)
    streams = {key: draw(random, 60) for key in "abc"}
    wanted = {key: expected(RULES[rule]()[1], events) for key, events in streams.items()}
    done = dict.fromkeys(streams, 0)
    while any(done[key] < 60 for key in streams):
        some: list[tuple[str, int]] = []
        for key in streams:
            stop = min(done[key] + random.choice([0, 1, 4, 9]), 60)
            some += [(key, number) for number in range(done[key], stop)]
            done[key] = stop
        if not some:
            continue
        keys = [key for key, _ in some]
        parts = [columns([streams[key][number]], number) for key, number in some]
        batch = {name: [part[name][0] for part in parts] for name in parts[0]}
        times = [streams[key][number][0] for key, number in some]
        found = windows.extend(keys, batch, times)
        assert list(found["all"]) == [wanted[key][number] for key, number in some]
        if random.random() < 0.4:
            windows = KeyedWindows.restore(windows.checkpoint(), store)
    for key in streams:
        assert windows.query(key)["all"] == wanted[key][-1]


@pytest.mark.parametrize("aggregator", BY_TIME)
def test_a_late_event_fills_the_gap_of_a_session(aggregator: type) -> None:
    """As far as the session before is still in the window, that is."""
    both = SessionWindow(5) & TimeWindow(60)
    window = Window(Collect(), both, aggregator=aggregator, allowed_lateness=60, arity=2)
    window.extend(["a", "b"], [0, 8])
    assert window.query() == ["a", "b"]
    shorter = SessionWindow(5) & CountWindow(2)
    window = Window(Collect(), shorter, aggregator=aggregator, allowed_lateness=60, arity=2)
    window.extend(["a", "b", "c"], [0, 8, 16])
    assert window.query() == ["b", "c"]
    window.insert("d", 12)  # b, d and c are one session now
    assert window.query() == ["b", "d", "c"]


def test_time_ends_a_session() -> None:
    """An event exactly the gap later is of the next one, as an event exactly an hour old is out."""
    window = Window(Collect(), SessionWindow("10 seconds"))
    found = window.extend(list("abcd"), [0, 9.999999, 19.999998, 29.999998])
    assert list(found) == [["a"], ["a", "b"], ["a", "b", "c"], ["d"]]
    keys = KeyedWindows(Count(), SessionWindow("10 seconds"), name="sessions")
    keys.extend(["x", "y", "x"], [1, 1, 1], [0, 5, 9])
    assert keys.expire(before=18).tolist() == ["y"]
    assert keys.expire(before=20).tolist() == ["x"]


def test_exact_whole_numbers() -> None:
    """A difference of one beyond 2^53, where doubles are even."""
    with pytest.raises(ValueError, match="cannot read"):
        Window(Max(), DeltaWindow(2, dtype="int64"))
    exact = Window(Max("int64"), DeltaWindow(2, dtype="int64"))
    exact.extend([2**53, 2**53 + 1, 2**53 + 2])
    assert len(exact) == 2


def test_adwin_drops_what_was_before_a_change() -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate((rng.uniform(0, 0.4, 2000), rng.uniform(0.5, 0.9, 500)))
    data = Product({"mean": ("x", Max()), "n": Count()})
    sizes = Window(data, ADWIN(column="x")).extend({"x": values})["n"]
    assert sizes[1999] == 2000, "nothing has changed in the first two thousand"
    assert sizes[2063] < 100, "and a change of half the span is seen within two clocks"
    assert sizes[-1] >= 500 - 32
    wide = Window(data, ADWIN(column="x", span=100.0)).extend({"x": 100 * values})["n"]
    assert wide.tolist() == sizes.tolist()


def test_bad_parameters() -> None:
    for size in (0, -1, float("nan"), "5", True, None):
        with pytest.raises(ValueError, match="positive difference"):
            DeltaWindow(size)  # type: ignore[arg-type]
    for last, error in ((0, ValueError), (1.5, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="number of parts"):
            PunctuationWindow("mark", last)  # type: ignore[arg-type]
    for gap in (0, -5, "soon", float("inf")):
        with pytest.raises(ValueError, match=r"duration|window"):
            SessionWindow(gap)
    for settings in ({"confidence": 0}, {"confidence": 1.5}, {"span": 0}, {"span": math.inf},
                     {"clock": 0}):  # fmt: skip
        with pytest.raises(ValueError, match=f"a {next(iter(settings))}"):
            ADWIN(**settings)  # type: ignore[arg-type]


def test_bad_events_are_refused_and_change_nothing() -> None:
    window = Window(monoid(), PunctuationWindow("mark") | DeltaWindow(3, "at"), arity=2)
    window.insert(row((0, 1.0, True, 0.0), 0))
    for bad in ({"mark": None}, {"mark": 2}, {"mark": "yes"}, {"at": None}, {"at": math.nan}):
        with pytest.raises(InvalidValue):
            window.insert(row((0, 1.0, True, 0.0), 1) | bad)
        with pytest.raises(InvalidValue):
            window.extend({name: [value] for name, value in
                           (row((0, 1.0, True, 0.0), 1) | bad).items()})  # fmt: skip
    assert window.query()["all"] == [0]
    sessions = Window(Count(), SessionWindow(5))
    with pytest.raises(InvalidTime, match="needs a time"):
        sessions.insert(1)
    with pytest.raises(InvalidTime, match="needs a time"):
        sessions.extend([1, 2])


def test_a_snapshot_is_of_its_frame() -> None:
    store = MemoryStore()
    pairs: list[tuple[Frame, Frame]] = [
        (DeltaWindow(3, "at"), DeltaWindow(4, "at")),
        (DeltaWindow(3, "at"), DeltaWindow(3, "at", dtype="int64")),
        (PunctuationWindow("mark"), PunctuationWindow("mark", ends=True)),
        (PunctuationWindow("mark"), PunctuationWindow("mark", 2)),
        (SessionWindow(5), SessionWindow(6)),
        (ADWIN(column="at"), ADWIN(column="at", clock=1)),
    ]
    for one, other in pairs:
        window = Window(monoid(), one, store, "w")
        window.insert(row((0, 1.0, True, 0.0), 0), 0 if one.needs_times else None)
        snapshot = window.checkpoint()
        assert Window.restore(snapshot, store, aggregations=monoid(), window=one).query()[
            "all"
        ] == [0]
        with pytest.raises(SnapshotMismatch):
            Window.restore(snapshot, store, aggregations=monoid(), window=other)


def test_the_cut_of_a_session_needs_no_search() -> None:
    """It is known from the window's own aggregate: about two combines per event, long or short."""
    calls = {"prefix": 0, "suffix": 0}
    window = Window(Count(), SessionWindow(10), arity=4)
    structure = window.structure()
    for name in calls:
        inner = getattr(structure, f"longest_{name}")

        def counted(*args: Any, name: str = name, inner: Any = inner) -> int:
            calls[name] += 1
            return int(inner(*args))

        setattr(structure, f"longest_{name}", counted)
    window.extend([1] * 300, np.cumsum([1, 2, 30] * 100))
    assert calls == {"prefix": 0, "suffix": 0} and len(window) == 1


MERGING: dict[str, Callable[[], Frame]] = {
    "session": lambda: SessionWindow(5),
    "session | count": lambda: SessionWindow(5) | CountWindow(6),
    "session & count": lambda: SessionWindow(5) & CountWindow(6),
    "session | time": lambda: SessionWindow(9) | TimeWindow(12),
    "session | session & time": lambda: SessionWindow(4) | SessionWindow(9) & TimeWindow(12),
}
#: How late events may be.
LATENESS = 20


def late_stream(random: Random, count: int) -> list[int]:
    """Times of which none is more than the lateness older than the newest before it."""
    times = [1_700_000_000]
    while len(times) < count:
        ahead = max(times) + random.choice([0, 1, 3, 4, 5, 6, 9, 40])
        times.append(random.choice([ahead, ahead, max(times) - random.randrange(LATENESS + 1)]))
    return times


def of_a_batch(frame: Callable[[], Frame], times: list[int]) -> list[int]:
    """Which events are in the window after all of them, in order: what a batch says."""
    order = np.argsort(times, kind="stable")
    window = Window(Collect(), frame(), store=None)
    return list(window.extend(order.tolist(), np.array(times)[order])[-1])


@pytest.mark.parametrize("evict", [True, False])
def test_sessions_that_no_late_event_can_reach_leave_the_tree(evict: bool) -> None:
    store = MemoryStore()
    window = Window(Count(), SessionWindow(5), store, arity=4, aggregator=FiBA, allowed_lateness=20)
    for number in range(400):
        window.insert(1, 10 * number)
        if evict and number % 7 == 0:
            window = window.restore_like(window.checkpoint())
    window.checkpoint()
    assert len(window) == 1
    assert window.structure().back - window.structure().kept_from < 30


def test_an_insertion_that_fails_after_a_merge_is_taken_back() -> None:
    store = FaultyStore(MemoryStore())
    window = Window(
        Count(), SessionWindow(5), store, arity=2, aggregator=FiBA, allowed_lateness=1000
    )
    window.extend([1] * 60, [4 * n for n in range(60)])
    window.insert(1, 300)
    assert len(window) == 1
    frame, cut = window.frame, window.frame.cut
    frame.cut = lambda view, time: 1 / 0  # type: ignore[method-assign,assignment]
    with pytest.raises(ZeroDivisionError):
        window.insert(1, 298)
    frame.cut = cut  # type: ignore[method-assign]
    assert len(window) == window.query() == 1
    window.check()
    window.insert(1, 298)
    assert window.query() == 2


@pytest.mark.parametrize("rule", MERGING)
def test_revise_returns_the_results_that_a_late_event_changes(rule: str) -> None:
    random, frame = Random(rule), MERGING[rule]
    times = late_stream(random, 60)
    window = Window(Collect(), frame(), MemoryStore(), allowed_lateness=LATENESS, arity=2)
    known: dict[int, list[int]] = {}
    done = 0
    while done < len(times):
        stop = min(done + random.choice([1, 2, 5]), len(times))
        revision = window.revise(list(range(done, stop)), times[done:stop])
        known |= dict(zip(revision.values, map(list, revision.results), strict=True))
        done = stop
        for number in range(done):
            until = [n for n in range(done) if (times[n], n) <= (times[number], number)]
            wanted = of_a_batch(frame, [times[n] for n in until])
            assert known[number] == [until[n] for n in wanted]


@pytest.mark.parametrize("late", [{}, {"allowed_lateness": 7}])
def test_coverage_of_a_session_lists_nothing_unless_its_events_were_evicted(
    late: dict[str, Any],
) -> None:
    store = MemoryStore()
    for frame in (SessionWindow(5), SessionWindow(5) | CountWindow(2), DeltaWindow(3)):
        window = Window(Sum(), frame, store, name="w", **late)
        window.extend([1.0, 2.0, 4.0, 9.0, 9.5, 20.0], [0, 1, 100, 101, 102, 103])
        assert window.coverage().complete, frame
        window = window.restore_like(window.checkpoint())
        assert window.coverage().complete, frame
    window = Window(Sum(), SessionWindow(5), store, name="e", **late)
    window.extend([1.0, 2.0, 4.0], [0, 1, 2])
    assert window.coverage().complete
    window.evict(2)
    assert window.coverage().missing_at_least == 1 and window.coverage().missing_at_most == 2
