"""Single events that come late: as lists kept in order of time, and what they cost."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, First, Last, Max, Monoid, SharedWindows, TimeWindow, Window
from mta.frames.base import Frame
from mta.monoids.base import AbstractMonoid
from stores import MemoryStore
from stores.testing import FaultyStore
from tests.support.counted import Counted, general_inserts, hash_of, rolling_hash
from tests.support.naive import joined, window_of

#: A monoid, the value of a letter, and the result of a text.
Of = tuple[Callable[[], AbstractMonoid], Callable[[str], Any], Callable[[str], Any]]
CODES: dict[str, Of] = {
    "joined": (joined, str, str),
    "hash": (rolling_hash, ord, lambda text: hash_of(text)[0]),
    "first": (First, lambda a: float(ord(a)), lambda text: float(ord(text[0]))),
    "last": (Last, lambda a: float(ord(a)), lambda text: float(ord(text[-1]))),
    "largest": (Max, lambda a: float(ord(a)), lambda text: float(ord(max(text)))),
}
WINDOWS: dict[str, Frame] = {
    "few": CountWindow(7),
    "some": CountWindow(250),
    "many": CountWindow(900),
    "time": TimeWindow(150),
    "hour": TimeWindow(1200),
}
ARITIES = pytest.mark.parametrize(
    "arities", [{"arity": 2, "leaf_arity": 4}, {"arity": 4, "leaf_arity": 100}, {}], ids=str
)


class Stream:
    """Letters and their times, late by up to 300 places, and all that came in order of time."""

    def __init__(self, random: Random) -> None:
        self._random, self._newest = random, 0.0
        self.events: list[tuple[float, str]] = []

    def __next__(self) -> tuple[str, float]:
        random, letter = self._random, self._random.choice("abcdefgh")
        if random.random() < 0.1 and self.events:  # at the time of another one, more often than not
            time = self.events[-min(random.randint(1, 300), len(self.events))][0]
            time += random.choice([0.0, 0.0, 0.5])
        else:
            time = self._newest + random.choice([0.0, 1.0, 1.0, 1.0, 2.5])
        self._newest = max(self._newest, time)
        insort(self.events, (time, letter), key=lambda event: event[0])
        return letter, time

    def text(self, frame: Frame) -> str:
        """The letters of a window."""
        held = window_of(frame, [time for time, _ in self.events], self._newest)
        return "".join(letter for _, letter in self.events[held])


@pytest.mark.sample(1)
@pytest.mark.parametrize("code", CODES)
@ARITIES
@pytest.mark.parametrize("window", [*WINDOWS, None])
def test_late_events_take_their_places(
    code: str, arities: dict[str, int], window: str | None
) -> None:
    """In one window, or in all of them over one stream."""
    make, value_of, result_of = CODES[code]
    random, stream, options = Random(5), Stream(Random(5)), {"allowed_lateness": 3600, **arities}
    frames = WINDOWS if window is None else {window: WINDOWS[window]}
    if window is None:
        late: Any = SharedWindows(make(), frames, **options)  # type: ignore[arg-type]
    else:
        late = Window(make(), frames[window], "memory://", "w", **options)  # type: ignore[arg-type]
    for at in range(1300 if window else 700):
        letter, time = next(stream)
        late.insert(value_of(letter), time)
        if random.random() < 0.2:
            name = random.choice(list(frames))
            text = stream.text(frames[name])
            assert (late.query() if window else late.query(name)) == result_of(text)
            assert not window or len(late) == len(text)
        if not window and random.random() < 0.05:
            assert late.query() == {n: result_of(stream.text(f)) for n, f in frames.items()}
        if at % 500 == 249:
            late.check()
            late = late.restore_like(late.checkpoint())


def few_late(places: int, share: float = 0.05, count: int = 5000) -> list[tuple[float, int]]:
    """Times of events a second apart, some of them late, and by how many places."""
    random, found = Random(3), []
    for at in range(count):
        by = random.randint(1, places) if random.random() < share and at > places else 0
        found.append((float(at - by), by))
    return found


def combines_of(
    frame: Frame, share: float, value: Any = "a", of: str = "joined"
) -> tuple[list[int], list[int], int]:
    """The combines of each event in order and of each late one, with its result.

    And how many places these are late, all together. No late event makes a store call.
    """
    counted, store = Counted(), FaultyStore(MemoryStore())
    window = Window(
        getattr(counted, of), frame, store, "w", allowed_lateness=3600, arity=16, leaf_arity=400
    )
    window.extend([value] * 4000, np.arange(-4000.0, 0.0), emit="last")
    in_order: list[int] = []
    late: list[int] = []
    stream = few_late(100, share)
    for time, by in stream:
        before, calls = counted.combines, store.calls
        window.insert(value, time)
        window.query()
        (late if by else in_order).append(counted.combines - before)
        assert not by or store.calls == calls
    window.check()
    return in_order, late, sum(by for _, by in stream)


@pytest.mark.parametrize("frame", [CountWindow(2000), TimeWindow(2000)], ids=repr)
def test_a_late_event_takes_a_combine_for_each_newer_one_and_no_store_call(frame: Frame) -> None:
    alone, _, _ = combines_of(frame, share=0.0)
    in_order, late, places = combines_of(frame, share=0.05)
    assert sum(alone) <= 8 * len(alone)
    assert sum(in_order) <= 8 * len(in_order)
    # And for each event in order one more, when the next late one comes.
    assert sum(late) <= places + 1.5 * len(in_order)


def test_a_late_event_that_is_not_chosen_takes_no_combine_for_newer_ones() -> None:
    in_order, late, places = combines_of(CountWindow(2000), share=0.05, value=1.0, of="max")
    # For each event in order two more: once for those that wait, and once for those stored since.
    assert sum(late) <= 2 * len(late) + 2.2 * len(in_order) < places


@pytest.mark.parametrize("make", [joined, Max], ids=["joined", "largest"])
def test_few_late_events_go_the_general_way(
    make: Callable[[], AbstractMonoid], monkeypatch: pytest.MonkeyPatch
) -> None:
    general = general_inserts(monkeypatch)
    value: Any = "a" if make is joined else 1.0
    frames = {"a": CountWindow(1500), "b": TimeWindow(900)}
    options: dict[str, Any] = {"allowed_lateness": 3600, "leaf_arity": 400}
    for windows in (
        Window(make(), CountWindow(1500), None, "w", **options),
        SharedWindows(make(), frames, None, "w", **options),
    ):
        general.clear()
        windows.extend([value] * 3000, np.arange(-3000.0, 0.0))
        for time, _ in few_late(100):
            windows.insert(value, time)
            windows.query()
        assert len(general) <= 5 * 5000 / 400
        windows.check()


def test_a_combine_that_fails_loses_no_event() -> None:
    """A late event is in, and whoever asks for a result gets the error for as long as it lasts."""
    failing = False

    def add(left: str, right: str) -> str:
        if failing:
            raise ArithmeticError("no luck")
        return left + right

    random, stream = Random(8), Stream(Random(9))
    window = Window(
        Monoid("", add, name="sometimes"), CountWindow(300), "memory://", "w",
        allowed_lateness=3600, leaf_arity=400,
    )  # fmt: skip
    for at in range(1500):
        letter, time = next(stream)
        failing = at > 500 and random.random() < 0.1
        try:
            window.insert(letter, time)
        except ArithmeticError:
            failing = False
            window.insert(letter, time)
        failing = False
        assert window.query() == stream.text(CountWindow(300))
    window.check()
