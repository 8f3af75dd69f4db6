"""Windows as of any moment, against lists of all events there ever were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import (
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Monoid,
    Product,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)  # fmt: skip
from mta.errors import EventsGone, InvalidTime, UnsupportedOperation
from mta.frames import BoundWindow
from mta.frames.base import Frame
from stores import MemoryStore
from tests.support.key_by_key import KeyByKey
from tests.support.naive import window_of

WINDOWS: dict[str, Frame] = {
    "time": TimeWindow(10),
    "count": CountWindow(3),
    "either": TimeWindow(10) | CountWindow(3),
    "both": TimeWindow(4) & CountWindow(3),
    "left": TimeWindow(10, closed="left"),
    "delayed": TimeWindow(10, delay=3),
}


def summed(frame: Frame, events: list[tuple[int, int]], moment: int) -> int:
    """The sum of the values of a window at a moment; ``events`` as they came."""
    until = sorted((e for e in events if e[0] <= moment), key=lambda event: event[0])
    held = window_of(frame, [time for time, _ in until], moment)
    return sum(value for _, value in until[held])


def arrivals(
    seed: int, count: int = 400, keys: int = 7, lateness: int = 0
) -> list[tuple[Any, ...]]:
    """Events as (key, time, value), with ties, and late by up to so much."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.integers(0, 3, count)) - random.integers(0, lateness + 1, count)
    names = random.integers(0, 7, count).tolist()
    return list(zip(names, times.tolist(), random.integers(1, 100, count).tolist(), strict=True))


def of_key(events: list[tuple[Any, ...]], key: Any) -> list[tuple[int, int]]:
    return [(time, value) for name, time, value in events if name == key]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize(("lateness", "promote_at"), [(0, 1024), (5, 1024), (5, 8)])
@pytest.mark.proves("asking", "as of any moment (`at=`)", "KeyedWindows")
def test_keys_are_answered_at_any_moment_that_is_retained_for(
    name: str, lateness: int, promote_at: int
) -> None:
    frame, store, events = WINDOWS[name], MemoryStore(), arrivals(1, lateness=lateness)
    given: dict[str, Any] = {
        "store": store, "retain_for": 60, "allowed_lateness": lateness or None,
        "promote_at": promote_at, "on_late": "drop",
    }  # fmt: skip
    windows = KeyedWindows(Sum("i8"), frame, name="moments", **given)
    random, known = np.random.default_rng(2), list[tuple[Any, ...]]()
    for start in range(0, len(events), 50):
        part = events[start : start + 50]
        keys, times, values = zip(*part, strict=True)
        windows.extend(list(keys), list(values), list(times))
        accepted = windows.last_accepted
        known += part if accepted is None else [e for e, a in zip(part, accepted, strict=True) if a]
        if start == 200:
            del given["store"]
            windows = KeyedWindows.restore(windows.checkpoint(), store, **given)
        newest = {k: max((t for t, _ in of_key(known, k)), default=0) for k in range(8)}
        asked = [(k, newest[k] - int(random.integers(-20, 61))) for k in range(8) for _ in range(9)]
        found = windows.query([k for k, _ in asked], at=[m for _, m in asked]).tolist()
        assert found == [summed(frame, of_key(known, k), m) for k, m in asked]
        moments = [m for k, m in asked if k == 3]
        of_one = windows.query(3, at=moments).tolist()
        assert of_one == [f for (k, _), f in zip(asked, found, strict=True) if k == 3]
        assert windows.query(3, at=moments[0]) == of_one[0]


def test_without_a_moment_a_key_is_answered_as_of_its_newest_event() -> None:
    windows = KeyedWindows(Sum(), TimeWindow(10), name="now")
    windows.extend(["a", "a", "b"], [1.0, 2.0, 4.0], [0, 5, 100])
    assert windows.query(["a", "b", "c"]).tolist() == [3.0, 4.0, 0.0]
    assert windows.query(["a", "b", "c"], at=100).tolist() == [0.0, 4.0, 0.0]
    assert windows.query("a", at="now") == 0.0


@pytest.mark.parametrize("promote_at", [1024, 4])
def test_what_has_left_is_not_passed_over(promote_at: int) -> None:
    given: dict[str, Any] = {"store": MemoryStore(), "promote_at": promote_at}
    windows = KeyedWindows(Sum(), TimeWindow(10), name="left", retain_for=20, **given)
    for time in range(100):
        windows.extend(["a"], [1.0], [time])
        windows.checkpoint()
    assert windows.query("a", at=[79, 85, 99]).tolist() == [10.0, 10.0, 10.0]
    with pytest.raises(EventsGone, match=r"of the key 'a' have left .*retain_for"):
        windows.query("a", at=[99, 60])
    with pytest.raises(EventsGone, match="of the key 'a'"):
        windows.query(["b", "a"], at=40)
    assert windows.query("a", at=[60], partial=True).tolist() <= [10.0]


@pytest.mark.parametrize("promote_at", [1024, 4])
def test_what_a_key_had_before_it_expired_is_not_passed_over(promote_at: int) -> None:
    given: dict[str, Any] = {"retain_for": 1000, "promote_at": promote_at}
    windows = KeyedWindows(Sum(), TimeWindow(10), name="expired", **given)
    windows.extend(["a"] * 9 + ["b"], [1.0] * 10, [*range(9), 200])
    assert windows.expire(100).tolist() == ["a"]
    for start in (300, 400):
        assert windows.query(["a", "b", "c"], at=200).tolist() == [0.0, 1.0, 0.0]
        for key in ("a", "b", "c"):
            with pytest.raises(EventsGone, match=f"of the key '{key}'"):
                windows.query(key, at=5)
        windows.extend(["a"] * 9, [2.0] * 9, [*range(start, start + 9)])
    assert windows.query("a", at=[299, 304]).tolist() == [0.0, 10.0]


@pytest.mark.parametrize("promote_at", [1024, 4])
def test_more_is_retained_only_from_when_on_it_is_asked_for(promote_at: int) -> None:
    """A restore that retains for longer does not answer what had left before it."""
    store = MemoryStore()
    given: dict[str, Any] = {"allowed_lateness": 0, "promote_at": promote_at}
    windows = KeyedWindows(Sum(), TimeWindow(10), store, "longer", **given)
    for time in range(50):
        windows.extend(["a"], [1.0], [time])
        snapshot = windows.checkpoint()
    given["retain_for"] = 30
    windows = KeyedWindows.restore(snapshot, store, **given)
    for time in range(50, 70):
        windows.extend(["a"], [1.0], [time])
        again = KeyedWindows.restore(windows.checkpoint(), store, **given)
    for each in (windows, again):
        assert each.query("a", at=[49, 55, 69]).tolist() == [10.0, 10.0, 10.0]
        with pytest.raises(EventsGone):
            each.query("a", at=42)


@pytest.mark.parametrize("monoid", [Monoid("", str.__add__), KeyByKey("", str.__add__, "text")])
def test_keys_of_plain_functions_are_answered(monoid: Any) -> None:
    windows = KeyedWindows(monoid, TimeWindow(10), name="texts", retain_for=60)
    windows.extend(list("aabba"), list("vwxyz"), [0, 5, 6, 7, 30])
    assert list(windows.query(list("aab"), at=[30, 6, 7])) == ["z", "vw", "xy"]


def test_several_windows_and_aggregations_are_answered_together() -> None:
    both = Product({"sum": ("watts", Sum()), "n": Count()})
    named = {"short": TimeWindow(2), "long": TimeWindow(10)}
    windows = KeyedWindows(both, named, name="several", retain_for=60)
    windows.extend(["a", "a", "b"], {"watts": [1.0, 2.0, 4.0]}, [0, 5, 6])
    found = windows.query(["a", "b"], at=[5, 5])
    assert found["long"]["sum"].tolist() == [3.0, 0.0]
    assert found["short"]["n"].tolist() == [1, 0]


def test_windows_that_keep_no_times_have_none_to_be_asked_for() -> None:
    windows = KeyedWindows(Sum(), CountWindow(2), name="untimed")
    windows.extend(["a"], [1.0])
    with pytest.raises(InvalidTime, match="timed=True"):
        windows.query("a", at=1)
    with pytest.raises(ValueError, match="2 keys have 3 moments"):
        KeyedWindows(Sum(), TimeWindow(2), name="many").query(["a", "b"], at=[1, 2, 3])


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.proves("asking", "as of any moment (`at=`)", "Window", "SharedWindows")
def test_a_window_is_answered_at_any_moment_that_is_retained_for(name: str, lateness: int) -> None:
    frame, store = WINDOWS[name], MemoryStore()
    events = [(time, value) for _, time, value in arrivals(3, lateness=lateness)]
    given: dict[str, Any] = {"retain_for": 60, "allowed_lateness": lateness, "on_late": "drop"}
    one = Window(Sum("i8"), frame, store, "one", arity=4, **given)
    shared = SharedWindows(Sum("i8"), {"w": frame}, store, "shared", arity=4, **given)
    known = list[tuple[int, int]]()
    for start in range(0, len(events), 40):
        times, values = zip(*events[start : start + 40], strict=True)
        one.extend(list(values), list(times))
        shared.extend(list(values), list(times))
        accepted = one.last_accepted
        marks = [True] * len(times) if accepted is None else accepted.tolist()
        known += [e for e, a in zip(events[start : start + 40], marks, strict=True) if a]
        if start == 200:
            one = Window.restore(one.checkpoint(), store, **given)
            shared = SharedWindows.restore(shared.checkpoint(), store, **given)
        newest = max(time for time, _ in known)
        moments = list(range(newest - 60, newest + 20, 7))
        expected = [summed(frame, known, moment) for moment in moments]
        assert one.query(at=moments).tolist() == expected
        assert shared.query("w", at=moments).tolist() == expected
        assert shared.query(at=moments[0]) == {"w": expected[0]}
        assert shared.query(TimeWindow(3), at=newest) == summed(TimeWindow(3), known, newest)


def test_a_window_says_what_it_does_not_retain() -> None:
    window = Window(Sum(), TimeWindow(10), name="gone", arity=4)
    for time in range(100):
        window.insert(1.0, float(time))
    assert window.query(at=105) == 4.0
    with pytest.raises(EventsGone, match="retain_for"):
        window.query(at=50)
    assert window.query(at=50, partial=True) <= 10.0


def test_a_window_without_times_gets_them_from_retain_for() -> None:
    untimed = Window(Sum(), CountWindow(3), name="untimed")
    for ask in (lambda: untimed.query(at=1), lambda: untimed.range(0, 1)):
        with pytest.raises(InvalidTime, match="set retain_for="):
            ask()
    timed = Window(Sum(), CountWindow(3), name="timed", retain_for=10)
    timed.extend([1.0, 2.0], [1, 2])
    assert (timed.query(at=1), timed.range(1, 2)) == (1.0, 2.0)


def test_an_unkeyed_window_by_values_has_no_earlier_moments() -> None:
    window = Window(Max(), BoundWindow(Sum(), at_most=10) & TimeWindow(5), name="values")
    window.insert(1.0, 0.0)
    with pytest.raises(UnsupportedOperation, match="looks at values"):
        window.query(at=10)
