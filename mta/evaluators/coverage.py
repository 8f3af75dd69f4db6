"""Coverage: which results are incomplete, and when each of them is complete again.

A window is incomplete after its policy was changed to one that needs events that have already left.
``coverage()`` of every kind of window returns a ``Coverage``. This module computes it for single
windows, and ``keyed.coverage`` for keyed windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from mta.frames.base import AbstractPolicy
from mta.logs.base import Remembered
from mta.logs.ranges import Positions


@dataclass(frozen=True)
class Incomplete:
    """A result that misses events since a change.

    It is complete for an event as soon as one of the given conditions is met; without conditions,
    it is unknown when it is complete again.
    """

    window: str
    """The name of the window; "" for a single one."""
    aggregation: str
    """The name of the aggregation; "" for all of them.

    If read from a snapshot alone, the name of the column that the aggregation reads.
    """
    complete_from: np.datetime64 | None = None
    """Results of events from this moment on (microseconds, UTC) are complete."""
    complete_after_events: int | None = None
    """Results of events are complete once so many newest events of their key, this one included,
    arrived after the change. Each of its events that was retracted since then adds one.
    """
    complete_after_both: tuple[np.datetime64, int] | None = None
    """Both together: from this moment on, with so many events; for windows combined with ``&``."""


@dataclass(frozen=True)
class Coverage:
    """Whether windows hold all events of their frames.

    The numbers are those of one window, and None for multiple windows or many keys.
    """

    incomplete: tuple[Incomplete, ...] = ()
    """The incomplete results; every other one is complete."""
    events: int | None = None
    """Events in the window."""
    front: int | None = None
    """The position of the oldest of them, counted from the beginning of the stream."""
    oldest_time: np.datetime64 | None = None
    """Its time (microseconds, UTC), if times are stored."""
    missing_at_least: int | None = None
    """How many events the policy would include that had left before it was set.

    If events may be late, also those that the window of the latest of them would include.
    """
    missing_at_most: int | None = None
    """The same for counts; for times an upper bound, since only deleted pages had the times."""

    @property
    def complete(self) -> bool:
        """Return whether every result is complete."""
        return not self.incomplete


def coverage_of(
    name: str,
    events: Remembered,
    policy: AbstractPolicy,
    front: int,
    back: int,
    time: int | None,
    lateness: int = 0,
) -> Coverage:
    """Return the coverage of the window from ``front`` to ``back``; two page reads per level.

    It misses the events before the front that its policy includes, and with a ``lateness`` the
    events that are not retained but that the window of such a late event includes.
    """
    kept, missing = events.kept_from, [0, 0]
    if not policy.positional:
        reached = front == kept or _may_reach_what_left(events, policy, time, lateness)
        missing = [0, kept if reached else 0]
    elif front > 0:
        # Twice, with lower and upper bounds for what is unknown.
        for at, least in enumerate((True, False)):
            after = partial(_first_after, events, least=least)
            cut = oldest_asked = max(0, _cut(policy, back, time, after))
            if lateness and time is not None:
                late = time - lateness
                oldest_asked = min(cut, max(0, _cut(policy, after(late) + 1, late, after)))
            missing[at] = max(0, front - max(cut, kept)) + max(0, kept - oldest_asked)
    oldest = None
    if time is not None and front < back:
        found = events.time_before(front + 1)
        oldest = None if found is None else np.datetime64(found, "us")
    incomplete = (Incomplete(name, ""),) if missing[1] else ()
    return Coverage(incomplete, back - front, front, oldest, *missing)


def _may_reach_what_left(
    events: Remembered, policy: AbstractPolicy, time: int | None, lateness: int
) -> bool:
    """Return whether a late event may join the window to events that have left (sessions)."""
    if not (policy.merges and lateness and events.kept_from) or time is None:
        return False
    newest_left, gap = events.time_before(events.kept_from), policy.lifetime
    return newest_left is None or gap is None or newest_left + gap > time - lateness


def _cut(policy: AbstractPolicy, back: int, time: int | None, after: Callable[[int], int]) -> int:
    return policy.cut(Positions(lambda: back, after), time)


def _first_after(events: Remembered, time: int, least: bool) -> int:
    """Return the position of the oldest event later than a time, of all events ever added.

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
