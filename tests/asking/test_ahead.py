"""Events ahead of the clock: refused, or dropped and counted, before they make others late."""

from __future__ import annotations

from typing import Any

import pytest

from mta import CountWindow, KeyedWindows, SharedWindows, Sum, TimeWindow, Window
from mta.errors import AheadEvent

NOW = 1000.0
GIVEN: dict[str, Any] = {"max_ahead": "5 minutes", "clock": lambda: NOW}


def opened(kind: str, **given: Any) -> Any:
    """Windows of a kind, and how a batch and a question go there."""
    if kind == "Window":
        one = Window(Sum(), TimeWindow("1 hour"), name="one", **GIVEN, **given)
        return one, one.extend, one.query
    if kind == "SharedWindows":
        several = SharedWindows(Sum(), {"w": TimeWindow("1 hour")}, name="w", **GIVEN, **given)
        return several, lambda *events: several.extend(*events)["w"], lambda: several.query("w")
    keyed = KeyedWindows(Sum(), TimeWindow("1 hour"), name="keyed", **GIVEN, **given)
    return keyed, lambda v, t: keyed.extend(["a"] * len(v), v, t), lambda: keyed.query("a")


@pytest.mark.parametrize("kind", ["Window", "SharedWindows", "KeyedWindows"])
def test_events_ahead_of_the_clock_are_refused(kind: str) -> None:
    windows, extend, query = opened(kind)
    assert extend([1.0, 2.0], [NOW, NOW + 300]).tolist() == [1.0, 3.0]
    with pytest.raises(AheadEvent, match="1 of 2 events are ahead of the clock by more than 5 min"):
        extend([1.0, 2.0], [NOW + 300, NOW + 301])
    assert query() == 3.0
    assert windows.stats().ahead == 0


@pytest.mark.parametrize("kind", ["Window", "SharedWindows", "KeyedWindows"])
def test_events_ahead_of_the_clock_are_dropped_and_counted(kind: str) -> None:
    windows, extend, query = opened(kind, on_ahead="drop", on_invalid="drop")
    found = extend([1.0, 9.0, 2.0, float("nan")], [NOW, 1e9, NOW + 1, NOW + 1])
    assert found.tolist() == [1.0, 3.0]
    assert windows.last_accepted.tolist() == [True, False, True, False]
    assert (query(), windows.stats().ahead, windows.stats().invalid) == (3.0, 1, 1)
    assert (windows.stats().late, windows.stats().dropped if kind != "SharedWindows" else 2) == (
        0,
        2,
    )


@pytest.mark.parametrize("kind", ["Window", "SharedWindows"])
def test_single_events_are_compared_with_the_clock(kind: str) -> None:
    windows, _, query = opened(kind, on_ahead="drop")
    for value, time in ((1.0, NOW), (5.0, 1e9), (2.0, NOW + 1), (3.0, NOW + 2)):
        windows.insert(value, time)
    assert (query(), windows.stats().ahead) == (6.0, 1)
    with pytest.raises(AheadEvent, match="nothing was inserted"):
        opened(kind)[0].insert(1.0, NOW + 301)


def test_the_clock_is_that_of_the_machine() -> None:
    window = Window(Sum(), TimeWindow("1 hour"), name="now", max_ahead=60)
    window.insert(1.0, 1.7e9)
    with pytest.raises(AheadEvent):
        window.insert(1.0, 9e10)


def test_what_does_not_go_together_is_named() -> None:
    with pytest.raises(ValueError, match="on_ahead= needs max_ahead="):
        Window(Sum(), TimeWindow(5), on_ahead="drop")
    with pytest.raises(ValueError, match="max_ahead= needs events with times"):
        Window(Sum(), CountWindow(5), max_ahead=5)
    with pytest.raises(ValueError, match="on_ahead is one of"):
        Window(Sum(), TimeWindow(5), max_ahead=5, on_ahead="side")  # type: ignore[arg-type]
