"""Ranges of a FiBA window: refused where an event of them has left, and only there."""

from __future__ import annotations

import pytest

from mta import CountWindow, Monoid, TimeWindow, Window
from mta.algorithms import FiBA
from mta.errors import CorruptSnapshot, EventsGone
from mta.logs.ranges import fold_between
from mta.snapshots import Snapshot
from stores import MemoryStore
from tests.support.naive import joined

SECOND = 1_000_000


def asked(window: Window, after: int, until: int) -> str | None:
    """The result of a range in seconds, or None where it is refused."""
    try:
        return str(fold_between(window.structure(), after * SECOND, until * SECOND, False)[0])
    except EventsGone:
        return None


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
        with pytest.raises(CorruptSnapshot, match=r"time of its evicted events|fields of a tree"):
            window.restore_like(snapshot.encode())


def test_a_late_event_does_not_stand_for_younger_ones_that_have_left() -> None:
    window = Window(joined(), TimeWindow(100), MemoryStore(), aggregator=FiBA, allowed_lateness=50)
    window.extend("abcdefghij", range(10))
    window.evict(8)
    window.insert("!", 3)
    assert asked(window, 2, 9) is None and asked(window, 4, 9) is None
    assert asked(window, 7, 9) == "ij"
