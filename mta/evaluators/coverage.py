"""Coverage: which results are incomplete, and when each is complete again.

After a change of frame, a window is incomplete if the new frame needs events that have already
left. ``coverage()`` of every kind of window returns a ``Coverage``. This module computes it for
single windows, and ``keyed.coverage`` for keyed windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mta.evaluators.observed import total_before
from mta.frames.base import Frame
from mta.logs.base import Lens, Remembered
from mta.logs.ranges import Positions


@dataclass(frozen=True)
class Incomplete:
    """A result without some of its events since a change.

    The result of an event is complete as soon as one of the given conditions is met. Without
    conditions, it is unknown when results are complete again.
    """

    window: str
    """The name of the window; "" for a single one."""
    aggregation: str
    """The name of the aggregation; "" for all of them.

    If this was read from a snapshot alone, the name of the column that the aggregation reads.
    """
    complete_from: np.datetime64 | None = None
    """Results of events from this moment on (UTC, microseconds) are complete."""
    complete_after_events: int | None = None
    """Results are complete once a key has had this many events since the change.

    The count includes the event of the result. Each retraction of one of these events adds one.
    """
    complete_after_both: tuple[np.datetime64, int] | None = None
    """Both conditions together, a moment and a count; for windows combined with ``&``."""


@dataclass(frozen=True)
class Coverage:
    """Whether windows have all events of their frames.

    The numbers are those of one window. They are None for multiple windows or many keys.
    """

    incomplete: tuple[Incomplete, ...] = ()
    """The incomplete results; all others are complete."""
    events: int | None = None
    """The number of events in the window."""
    front: int | None = None
    """The position of the oldest event, counted from the beginning of the stream."""
    oldest_time: np.datetime64 | None = None
    """The time of the oldest event (UTC, microseconds), if times are stored."""
    missing_at_least: int | None = None
    """How many events the frame includes that had left before the frame was set.

    If events may be late, this also counts the events that the window of the latest possible event
    includes.
    """
    missing_at_most: int | None = None
    """The same for counts. For times, an upper bound, because the times are lost with the pages."""

    @property
    def complete(self) -> bool:
        """Return whether every result is complete."""
        return not self.incomplete


def coverage_of(
    name: str,
    events: Remembered,
    frame: Frame,
    front: int,
    back: int,
    time: int | None,
    lens: Callable[[Frame], Lens],
    lateness: int = 0,
) -> Coverage:
    """Return the coverage of the window from ``front`` to ``back``; two page reads per level.

    Events before the front that the frame includes are missing. With a ``lateness``,
    so are events that are not retained but belong to the window of a late event.
    """
    kept, missing = events.kept_from, [0, 0]
    if not (frame.positional or frame.merges):
        missing = [0, kept if front == kept else 0]
    elif front > 0:
        # Twice, with lower and upper bounds for unknown positions.
        for at, least in enumerate((True, False)):
            after = partial(_first_after, events, least=least)
            sessions = _Sessions(events, lens, least)
            view = Positions(lambda: back, after, sessions.until(back))
            cut = oldest_asked = max(0, frame.cut(view, time))
            if lateness and time is not None:
                late = time - lateness
                stop = after(late)
                view = Positions(partial(int, stop + 1), after, sessions.until(stop, late))
                oldest_asked = min(cut, max(0, frame.cut(view, late)))
            missing[at] = max(0, front - max(cut, kept)) + max(0, kept - oldest_asked)
    oldest = None
    if time is not None and front < back:
        found = events.time_before(front + 1)
        oldest = None if found is None else np.datetime64(found, "us")
    incomplete = (Incomplete(name, ""),) if missing[1] else ()
    return Coverage(incomplete, back - front, front, oldest, *missing)


class _Sessions:
    """What session windows observe, including events that have left.

    Of these, only the last one's time may be known. If it is in the session of the first retained
    event, the session starts with it (``least``), or with the first event ever.
    """

    def __init__(self, events: Remembered, lens: Callable[[Frame], Lens], least: bool) -> None:
        self._events, self._lens, self._least = events, lens, least

    def until(self, stop: int, late: int | None = None) -> Callable[[Frame], Any]:
        """Return what they observe in the events before ``stop``, and in a late event."""
        return partial(self._total, stop, late)

    def _total(self, stop: int, late: int | None, frame: Frame) -> tuple[int, int, int]:
        events, gap, kept = self._events, frame.lifetime, self._events.kept_from
        count, before, newest = 0, 0, _UNKNOWN
        if stop > kept:
            observed = total_before(events, stop, self._lens)(frame)
            count, before, newest = map(int, observed)
        assert gap is not None
        if kept and not before:
            time_left = events.time_before(kept)
            first = events.time_before(kept + 1) if count else late
            newest = newest if count or time_left is None else time_left
            if time_left is None or (late is not None and late < time_left):
                may_join = not self._least
            else:
                may_join = first is None or first - time_left < gap
            count += (1 if self._least else kept) * may_join
        if late is None:
            return count, before, newest
        return count + 1, count if late - newest >= gap else before, late


#: Stands for an unknown time of the newest event: its session has not ended.
_UNKNOWN = 1 << 62


def _first_after(events: Remembered, time: int, least: bool) -> int:
    """Return the position of the oldest event later than a time, among all events ever added.

    Of the events that have left, only the last one's time may be known. If the position is among
    them, return its upper (``least``) or lower bound.
    """
    kept, found = events.kept_from, events.first_after(time)
    if found > kept:
        return found
    before = events.time_before(kept)
    if before is None:
        return kept if least else 0
    if before <= time:
        return kept
    return kept - 1 if least else 0
