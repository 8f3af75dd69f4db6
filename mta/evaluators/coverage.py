"""Coverage: which results are incomplete, and when each of them is complete again.

A window is incomplete after its policy was changed to one that asks for events that have left
already. ``coverage()`` of every kind of window returns one type, ``Coverage``. What a single window
knows beyond that is computed here; ``keyed.coverage`` has what keyed windows know.
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

    It is complete for an event as soon as one of the given conditions is met; where none is given,
    it is not known when it is complete again.
    """

    window: str
    """The name of the window; "" where there is but one."""
    aggregation: str
    """The aggregation's name; "" for all of them. Read from a snapshot alone it is the column
    that the aggregation reads."""
    complete_from: np.datetime64 | None = None
    """Results of events from this moment on (microseconds, UTC) are complete."""
    complete_after_events: int | None = None
    """Results of events whose key has so many newest events, this one included, that all came
    since the change. Each of its events that was retracted since then adds one."""
    complete_after_both: tuple[np.datetime64, int] | None = None
    """Both together: from this moment on, with so many events; for windows joined by ``&``."""


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
    """Its time (microseconds, UTC), where times are kept."""
    missing_at_least: int | None = None
    """How many events the policy would hold that had left before it was set.

    Where events may come late, also those that the window of the latest of them would hold.
    """
    missing_at_most: int | None = None
    """The same for counts; for times an upper bound, since only pages knew when events were."""

    @property
    def complete(self) -> bool:
        """Whether every result is complete."""
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
    """The coverage of the window from ``front`` to ``back``; at most two page reads per level.

    It misses what its policy asks for before the front, and with a ``lateness`` what an event that
    much late will ask for of what is not retained.
    """
    kept, missing = events.kept_from, [0, 0]
    if not policy.positional:
        reached = front == kept or _may_reach_what_left(events, policy, time, lateness)
        missing = [0, kept if reached else 0]
    elif front > 0:
        # Asked twice, with what cannot be known taken for as little and for as much as it can be.
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
    """Whether a late event may join the window to events that have left, as it merges sessions."""
    if not (policy.merges and lateness and events.kept_from) or time is None:
        return False
    newest_left, gap = events.time_before(events.kept_from), policy.lifetime
    return newest_left is None or gap is None or newest_left + gap > time - lateness


def _cut(policy: AbstractPolicy, back: int, time: int | None, after: Callable[[int], int]) -> int:
    return policy.cut(Positions(lambda: back, after), time)


def _first_after(events: Remembered, time: int, least: bool) -> int:
    """The position of the oldest event later than a time, of all events that have been.

    Of those that have left only the last one's time may be known: where it is among them, it is
    taken for as late (``least``) or for as early as it can be.
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
