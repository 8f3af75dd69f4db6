"""Multiple windows over one stream of late events: what leaves, and what corrections change."""

from __future__ import annotations

from typing import Any

import pytest

from mta import CountWindow, TimeWindow
from mta.frames import BoundWindow
from mta.windows.shared import SharedWindows
from stores import open_store
from tests.support.naive import joined, letters, window_of

FRAMES = {"three": CountWindow(3), "short": TimeWindow(4), "long": TimeWindow(60)}


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
    window = SharedWindows(
        joined(), FRAMES, allowed_lateness=500, on_duplicate=existing, arity=2, leaf_arity=2
    )
    values = list("abcdefghi")
    window.extend(values, range(9))
    window.query()
    found = window.extend(["X"], [time])
    values[time] = "X" if existing == "replace" else values[time] + "X"
    for name, frame in FRAMES.items():
        then, now = (window_of(frame, range(at + 1), at) for at in (time, 8))
        assert found[name].tolist() == ["".join(values[then])]
        assert window.query(name) == "".join(values[now])
