"""Single events of frames that end before the newest event: what is prefetched of such a frame."""

from __future__ import annotations

from typing import NamedTuple

from mta.evaluators.cursor import Cursor
from mta.folds.sliding import Events
from mta.logs.base import Prefetched
from mta.logs.ranges import events_in, leaves_from


class Lag(NamedTuple):
    """How a frame ends before the newest event, and the stored events that it reaches next.

    An event is in once the newest one is ``delay`` later, and ``rows`` others have come after it.
    """

    delay: int
    """In microseconds."""
    rows: int
    waiting: Events
    is_all: bool
    """Whether these are all stored events that it has yet to reach."""


def prefetched_frame(cursor: Cursor, most: int, timed: bool) -> tuple[Prefetched, Lag]:
    """Return what is prefetched of a non-empty frame, as of now.

    For at most ``most`` events, including those that it has yet to reach. At most one page read per
    level, and one for each leaf of these.
    """
    events, monoid, end = cursor.events, cursor.monoid, cursor.policy.end
    stop = min(events.back, cursor.back + max(most // 2, 1))
    leaves = leaves_from(events, cursor.back, monoid.inputs, stop)
    waiting = events_in(leaves, monoid.inputs, timed)
    cursor.hold()
    found = cursor.prefetched(most)
    if timed:
        if not len(found.leaving):
            cursor.look_at_leaf()
            found = cursor.prefetched(most)
        found = found.cut(len(found.leaving), monoid)
    is_all = cursor.back + waiting.size == events.back
    lag = Lag(end.delay, end.rows, waiting, is_all)
    return found.beside(monoid.identity, most - waiting.size), lag
