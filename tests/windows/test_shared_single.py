"""Single events of multiple windows: few go the slow way, and what fails leaves no trace."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest

from mta import CountWindow, Max, Monoid, SampleStdDev, SharedWindows, TimeWindow, Window
from mta.algorithms import AmortizedMTA, FiBA, LogMTA
from mta.errors import InvalidTime, InvalidValue, LateEvent
from mta.windows.engine import Engine
from tests.support.counted import Counted

BY_BOTH = {"x": TimeWindow(50), "y": CountWindow(37), "z": TimeWindow(1400)}


@pytest.mark.sample
@pytest.mark.parametrize("kind", ["shared", AmortizedMTA, LogMTA, FiBA])
@pytest.mark.parametrize("lateness", [None, 0, 100])
@pytest.mark.parametrize(
    "make",
    [
        CountWindow,
        TimeWindow,
        lambda size: TimeWindow(size, closed="left"),
        lambda size: TimeWindow(size, delay=size // 10),
        lambda size: CountWindow(size, exclude_current=True),
    ],
)
def test_few_events_go_the_slow_way(
    make: Any, lateness: int | None, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those at which leaf groups end, or begin for one of the windows."""
    slow = {"insert": 0, "query": 0}

    def counted(name: str) -> Any:
        method = getattr(Engine, name)

        def call(self: Engine, *args: Any) -> Any:
            slow[name] += 1
            return method(self, *args)

        return call

    for name in slow:
        monkeypatch.setattr(Engine, name, counted(name))
    frames: Any = {"a": make(900), "b": make(300)} if kind == "shared" else {"a": make(900)}
    settings: dict[str, Any] = {"leaf_arity": 256, "allowed_lateness": lateness}
    if kind == "shared":
        window: Any = SharedWindows(Max(), frames, timed=True, **settings)
    else:
        late = kind if lateness is None else FiBA
        window = Window(Max(), frames["a"], aggregator=late, **settings)
    for at in range(3100):
        if at == 100:  # no frame is empty any more
            slow.update(insert=0, query=0)
        window.insert(float(at % 1000), float(at))
        window.query()
    assert window.query() == ({"a": 999.0, "b": 999.0} if kind == "shared" else 999.0)
    per_leaf = 1 + len(frames)
    assert max(slow.values()) <= per_leaf * 3000 / 256 + 3 + (kind != "shared")


@pytest.mark.parametrize("make", [Max, SampleStdDev, lambda: Monoid(-math.inf, max, name="most")])
@pytest.mark.parametrize("frame", [CountWindow, TimeWindow])
def test_short_windows_rarely_need_their_log(
    frame: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new events become the folds of a window as often as necessary."""
    asked = []

    def counted(kind: Any) -> Any:
        ahead = kind.ahead
        return lambda self, most: asked.append(most) or ahead(self, most)

    monkeypatch.setattr(Engine, "ahead", counted(Engine))
    frames = {str(size): frame(size) for size in (1, 2, 20, 100, 700)}
    every: Any = SharedWindows(make(), frames, None, timed=True, leaf_arity=4096)
    alone = {n: Window(make(), each, None, leaf_arity=4096) for n, each in frames.items()}
    for at in range(8000):
        value = float(at * at % 97)
        if at == 3000:
            asked.clear()
        for window in (every, *alone.values()):
            window.insert(value, float(at))
        found = every.query()
        assert found == pytest.approx({n: w.query() for n, w in alone.items()}, nan_ok=True)
    # Each asks once per thousand events; after a full leaf for 16 events, then 32, 64, ...
    assert len(asked) <= 6 * (5000 / 1024 + 10)


def test_windows_that_nobody_asks_for_take_no_combine() -> None:
    counted, frames = Counted(), {"a": CountWindow(30), "b": TimeWindow(500)}
    windows = SharedWindows(counted.max, frames, leaf_arity=1024)  # type: ignore[arg-type]
    for at in range(1000):
        windows.insert(float(-at), float(at))
    assert counted.combines == 0
    assert windows.query("a") == -970.0
    for at in range(1000, 1010):
        windows.insert(float(-at), float(at))
    assert windows.query("a") == -980.0
    assert counted.cost(lambda: windows.query("a")) == 0
    assert windows.query() == {"a": -980.0, "b": -510.0}


def test_an_event_that_is_refused_changes_nothing() -> None:
    def add(a: int, b: int) -> int:
        if b == 13_000:
            raise ArithmeticError("no luck")
        return a + b

    windows = SharedWindows(Monoid(0, add, name="added"), BY_BOTH, leaf_arity=64)
    for at in range(101):
        windows.insert(at, float(at))
        windows.query()
    for value, time, error in (
        (None, 100.0, InvalidValue),
        (1, None, InvalidTime),
        (1, math.nan, InvalidTime),
        (1, 99.5, LateEvent),
        (13_000, 100.0, ArithmeticError),
    ):
        shown, stats = windows.query(), windows.stats()
        with pytest.raises(error):
            windows.insert(value, time)
        assert windows.query() == shown
        assert windows.stats() == stats
    assert shown["y"] == sum(range(64, 101))
    windows.check()


def test_what_is_prefetched_is_written_back_for_whoever_looks() -> None:
    windows = SharedWindows(Max(), {"few": CountWindow(8)}, timed=True, retain_for=CountWindow(100))
    for at in range(50):
        windows.insert(float(at), float(at))
        assert windows.query() == {"few": float(at)}
    assert (windows.structure().back, windows.fronts) == (50, {"few": 42})
    assert windows.range(9.0, 20.0) == 20.0
    windows.add("more", TimeWindow(20))
    windows.insert(0.0, 50.0)
    assert windows.query() == {"few": 49.0, "more": 49.0}
    assert windows.extend([7.0], [90.0])["more"].tolist() == [7.0]
    windows.insert(2.0, 95.0)
    assert windows.query(TimeWindow(1)) == 2.0
    windows.resize("few", CountWindow(2))
    windows.insert(1.0, 2**51 / 1e6 + 0.5)  # beyond what doubles tell apart
    windows.insert(3.0, 2**51 / 1e6 + 1.25)
    assert windows.query() == {"few": 3.0, "more": 3.0}
    windows.remove("more")
    windows.insert(4.0, 2**51 / 1e6 + 2)
    assert windows.query() == {"few": 4.0}
    with pytest.raises(ValueError, match="no window is called 'more'"):
        windows.query("more")


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_a_combine_that_fails_once_for_a_later_window_counts_no_event_twice(error: Any) -> None:
    left = math.inf

    def combine(a: float, b: float) -> float:
        nonlocal left
        left -= 1
        if left == -1:
            raise error
        return a + b

    sizes = {"y": 370, "z": 300}
    frames = {name: CountWindow(size) for name, size in sizes.items()}
    windows = SharedWindows(Monoid(0.0, combine, name="sum"), frames, store=None)
    values: list[float] = []
    for value in map(float, range(500)):
        if value == 100:
            left = 1
            with suppress(KeyboardInterrupt):
                windows.insert(1e6)
                values.append(1e6)
        windows.insert(value)
        values.append(value)
        assert windows.query() == {name: sum(values[-size:]) for name, size in sizes.items()}
