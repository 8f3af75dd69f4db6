"""Multiple windows over one stream of late events, against a sorted list."""

from __future__ import annotations

from bisect import bisect_right
from random import Random
from typing import Any

import pytest

from mta import BoundWindow, CountWindow, Monoid, TimeWindow
from mta.audit.walk import audit, live_keys
from mta.errors import LateEvent
from mta.frames.base import Frame
from mta.windows.shared import SharedWindows
from stores import open_store
from tests.support.sampling import parts

Event = tuple[int, str]


def joined() -> Monoid:
    """Concatenation: order matters and nothing can be subtracted."""
    return Monoid(identity="", combine=lambda left, right: left + right, name="joined")


def letters() -> Monoid:
    """How many letters the values have."""
    return Monoid(identity=0, combine=lambda a, b: a + b, lift=len, name="letters")


FRAMES: dict[str, Frame] = {
    "three": CountWindow(3),
    "many": CountWindow(40),
    "short": TimeWindow(4),
    "long": TimeWindow(60),
    "either": CountWindow(9) | TimeWindow(20),
}


def held(events: list[Event], frame: Frame, time: int) -> list[Event]:
    """The window that ends with the last of some events."""
    if frame is FRAMES["either"]:
        return held(held(events, CountWindow(9), time), TimeWindow(20), time)
    if isinstance(frame, CountWindow):
        return events[-frame.size :]
    assert isinstance(frame, TimeWindow)
    return [event for event in events if event[0] > time - frame.size / 1e6]


def text(events: list[Event]) -> str:
    return "".join(value for _, value in events)


@pytest.mark.parametrize("part", parts(3))
@pytest.mark.parametrize("scheme", [None, "memory"])
@pytest.mark.parametrize("lateness", [0, 15, 500])
def test_windows_over_late_events_are_sorted_lists(
    scheme: str | None, lateness: int, part: int
) -> None:
    for seed in range(part, 9, 3):
        random = Random(seed)
        store = None if scheme is None else open_store(f"{scheme}://")
        options: dict[str, Any] = {"on_late": "drop", "allowed_lateness": lateness}
        sizes = {"arity": random.choice([2, 3]), "leaf_arity": random.choice([2, 4])}
        windows = SharedWindows(joined(), FRAMES, store, **sizes, **options)
        events: list[Event] = []
        kept: list[tuple[bytes, list[Event], int | None]] = []
        newest: int | None = None
        for _ in range(25):
            base = newest or 0
            times = [base + random.choice([0, 1, 2, 5, -1, -4, -12]) for _ in range(12)]
            times = times[: random.choice([1, 4, 12])]
            values = [chr(97 + random.randrange(26)) for _ in times]
            floor = -(10**9) if newest is None else newest - lateness
            if random.random() < 0.3:
                for value, time in zip(values[:1], times[:1], strict=True):
                    windows.insert(value, time)
                values, times, results = values[:1], times[:1], None
            else:
                results = windows.extend(values, times)
            accepted = [i for i, time in enumerate(times) if time >= floor]
            places: dict[int, int] = {}
            for i in sorted(accepted, key=lambda i: times[i]):
                at = bisect_right([time for time, _ in events], times[i])
                events.insert(at, (times[i], values[i]))
                places[i] = at
            newest = max([*[times[i] for i in accepted], *([] if newest is None else [newest])])
            for name, frame in FRAMES.items():
                if results is not None:
                    expected = [
                        text(held(events[: places[i] + 1], frame, times[i])) for i in accepted
                    ]
                    assert list(results[name]) == expected, (seed, name)
                assert windows.query(name) == text(held(events, frame, newest)), (seed, name)
            if store is not None and random.random() < 0.3:
                kept = [*kept, (windows.checkpoint(), list(events), newest)][-2:]
            elif kept and random.random() < 0.2:
                snapshot, saved, newest = kept[-1]
                events = list(saved)
                windows = SharedWindows.restore(snapshot, joined(), FRAMES, store, **options)
                assert not audit(windows).damaged
        windows.check()


def test_pages_leave_with_the_longest_window() -> None:
    store = open_store("memory://")
    windows = SharedWindows(
        joined(), {"a": CountWindow(5), "b": TimeWindow(50)}, store,
        arity=2, leaf_arity=2, allowed_lateness=10,
    )  # fmt: skip
    for start in range(0, 600, 20):
        times = [start + i - 7 * (i % 3 == 0) * (start > 0) for i in range(20)]
        windows.extend(["x"] * 20, times)
        snapshot = windows.checkpoint()
        again = windows.restore_like(snapshot)
        assert set(live_keys(again)) == set(store.keys())
    assert windows.stats().kept < 100


def test_a_frame_on_values_answers_as_of_the_newest_event() -> None:
    windows = SharedWindows(
        joined(), {"bound": BoundWindow(letters(), at_most=3)}, allowed_lateness=100
    )
    assert list(windows.extend(["a", "b", "c", "d"], [1, 2, 3, 4])["bound"])[-1] == "bcd"
    windows.insert("X", 3.5)
    assert windows.query("bound") == "cXd"


def test_ranges_and_lateness() -> None:
    windows = SharedWindows(joined(), {"long": TimeWindow(100)}, allowed_lateness="5 seconds")
    windows.extend(["a", "c", "b"], [10, 30, 20])
    windows.insert("x", 27)
    assert windows.range(10, 27) == "bx"
    with pytest.raises(LateEvent):
        windows.insert("y", 24)


def test_an_event_older_than_one_that_no_window_kept_has_left_as_well() -> None:
    frames = {"two": BoundWindow(letters(), at_most=2)}
    store = open_store("memory://")
    windows = SharedWindows(joined(), frames, store, arity=2, allowed_lateness=100)
    windows.extend(["a", "bbb", "c"], [10, 20, 30])
    windows.checkpoint()  # only now do events leave
    windows.insert("d", 15)
    assert windows.query("two") == "c"
    assert windows.extend(["e", "f"], [12, 40])["two"].tolist() == ["c", "cf"]
    assert windows.add("all", CountWindow(10)).events == 2
    assert windows.query("all") == "cf" and windows.stats().inserted == 6
    windows.check()


@pytest.mark.parametrize("existing", ["replace", "combine"])
@pytest.mark.parametrize("time", range(9))
def test_an_event_that_replaces_another_has_the_result_as_of_it_after_a_query(
    existing: Any, time: int
) -> None:
    frames = {name: FRAMES[name] for name in ("three", "short", "long")}
    window = SharedWindows(
        joined(), frames, allowed_lateness=500, on_duplicate=existing, arity=2, leaf_arity=2
    )
    events = [(at, "abcdefghi"[at]) for at in range(9)]
    window.extend([value for _, value in events], [at for at, _ in events])
    window.query()
    found = window.extend(["X"], [time])
    events[time] = time, "X" if existing == "replace" else events[time][1] + "X"
    for name, frame in frames.items():
        assert found[name].tolist() == [text(held(events[: time + 1], frame, time))]
        assert window.query(name) == text(held(events, frame, 8))
