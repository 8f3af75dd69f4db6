"""Ranges of a FiBA window: refused where an event of them has left, and only there."""

from __future__ import annotations

from random import Random

import pytest

from mta import CountWindow, Monoid, TimeWindow, Window
from mta.algorithms import FiBA
from mta.errors import CorruptSnapshot, EventsGone
from mta.frames.base import Frame
from mta.logs.ranges import fold_between
from mta.snapshots import Snapshot
from stores import MemoryStore
from tests.support.naive import CrowdedFiBA, joined

SECOND = 1_000_000


def asked(window: Window, after: int, until: int) -> str | None:
    """The result of a range in seconds, or None where it is refused."""
    try:
        return str(fold_between(window.structure(), after * SECOND, until * SECOND, False)[0])
    except EventsGone:
        return None


@pytest.mark.sample
@pytest.mark.parametrize("aggregator", [FiBA, CrowdedFiBA])
@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("size", [1, 5, 17, 60])
def test_a_range_as_long_as_a_time_window_is_that_window(
    aggregator: type[FiBA], restored: bool, size: int
) -> None:
    random = Random(size)
    for leaf_arity in (2, 5, 64):
        window = Window(
            joined(), TimeWindow(size), MemoryStore(), "w", arity=2, leaf_arity=leaf_arity,
            aggregator=aggregator,
        )  # fmt: skip
        now = 0
        for _ in range(60):
            steps = [random.choice([0, 1, 1, 3, 9]) for _ in range(random.choice([1, 8]))]
            times = [now := now + step for step in steps]
            letters = [chr(97 + random.randrange(26)) for _ in times]
            if random.random() < 0.5:
                window.extend(letters, times, "last")
            else:
                for letter, time in zip(letters, times, strict=True):
                    window.insert(letter, time)
            if restored:
                window = window.restore_like(window.checkpoint())
            assert asked(window, now - size, now) == window.query()


@pytest.mark.parametrize("frame", [CountWindow(9), CountWindow(40), TimeWindow(12)], ids=repr)
@pytest.mark.parametrize("lateness", [0, 5])
def test_a_range_is_refused_only_where_events_have_left(frame: Frame, lateness: int) -> None:
    random, store, refused = Random(repr(frame)), MemoryStore(), 0
    window = Window(
        joined(),
        frame,
        store,
        arity=2,
        leaf_arity=3,
        aggregator=CrowdedFiBA,
        allowed_lateness=lateness,
    )
    events: list[tuple[int, str]] = []
    newest = 0
    for _ in range(120):
        newest += random.choice([0, 1, 2, 4])
        time = newest - random.randint(0, lateness)
        letter = chr(97 + random.randrange(26))
        window.insert(letter, time)
        events = sorted([*events, (time, letter)], key=lambda event: event[0])
        if random.random() < 0.2:
            window = window.restore_like(window.checkpoint())
        kept = window.structure().tree.size
        gone = events[: len(events) - kept]
        for _ in range(5):
            after = random.randint(newest - 120, newest)
            until = random.randint(after, newest)
            expected = "".join(letter for time, letter in events if after < time <= until)
            if any(time > after for time, _ in gone):
                assert asked(window, after, until) is None
                refused += 1
            else:
                assert asked(window, after, until) == expected
    assert refused


@pytest.mark.parametrize("newest", ["1", 1.5, 1 << 62, True, [1], None])
def test_a_time_of_what_has_left_that_cannot_be(newest: object) -> None:
    monoid = Monoid("", lambda a, b: a + b, name="joined")
    window = Window(monoid, CountWindow(2), MemoryStore(), "w", aggregator=FiBA)
    window.extend("abc", range(3))
    snapshot = Snapshot.decode(window.checkpoint())
    *state, left, parts = snapshot.state
    assert (left, parts) == (0, [])
    for forged in ([*state, newest, parts], [*state, left], [*state, left, parts, 0]):
        snapshot.state = forged
        with pytest.raises(CorruptSnapshot, match=r"time of its evicted events|not one of a tree"):
            window.restore_like(snapshot.encode())


def test_a_late_event_does_not_stand_for_younger_ones_that_have_left() -> None:
    window = Window(joined(), TimeWindow(100), MemoryStore(), aggregator=FiBA, allowed_lateness=50)
    window.extend("abcdefghij", range(10))
    window.evict(8)
    window.insert("!", 3)
    assert asked(window, 2, 9) is None and asked(window, 4, 9) is None
    assert asked(window, 7, 9) == "ij"
