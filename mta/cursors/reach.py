"""What may be asked of events that are kept: any range of them, and how far back a window reaches.

Where events of a range have left already, the answer would be of the others alone, so it is only
given where ``partial=True`` says that this will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mta.errors import EventsGone, InvalidTime
from mta.monoids.base import Partial
from mta.pages.structure import Remembered
from mta.policies.base import AbstractPolicy
from mta.times import clock


@dataclass(frozen=True)
class Reach:
    """How far back a window reaches, and what it lacks of what its policy asks for."""

    events: int
    """Events in the window."""
    front: int
    """The position of the oldest of them, counted from the beginning of the stream."""
    oldest_time: np.datetime64 | None
    """Its time (microseconds, UTC), where times are kept."""
    missing_at_least: int
    """How many events the policy would hold that had left before it was set.

    Where events may come late, also those that the window of the latest of them would hold.
    """
    missing_at_most: int
    """The same for counts; for times an upper bound, since only pages knew when events were."""

    @property
    def complete(self) -> bool:
        """Whether the window holds all that its policy asks for."""
        return self.missing_at_most == 0


def reach_of(
    events: Remembered,
    policy: AbstractPolicy,
    front: int,
    back: int,
    time: int | None,
    lateness: int = 0,
) -> Reach:
    """How far back the window from ``front`` to ``back`` reaches; at most two page reads a level.

    It lacks what its policy asks for before the front, and with a ``lateness`` what an event that
    much late will ask for of what is not kept.
    """
    kept, missing = events.kept_from, [0, 0]
    if front == kept > 0 and not policy.positional:
        missing = [0, kept]
    elif front > 0 and policy.positional:
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
    return Reach(back - front, front, oldest, *missing)


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


class Positions:
    """What a policy on positions and times sees, wherever its window ends (``policies.View``).

    One that ``merges`` sees totals as well.
    """

    def __init__(
        self,
        back: Callable[[], int],
        first_after: Callable[[int], int],
        total: Callable[[AbstractPolicy], Any] | None = None,
    ) -> None:
        self._back, self.first_after = back, first_after
        self.total: Callable[..., Any] = total or self._never

    @property
    def back(self) -> int:
        """The position after the window's newest event."""
        return self._back()

    def _never(self, *args: Any) -> Any:
        raise TypeError("a policy on positions and times alone asked for an aggregate")

    longest_prefix: Callable[..., int] = _never
    longest_suffix: Callable[..., int] = _never
    all_prefixes: Callable[..., Iterable[tuple[int, Any]]] = _never
    all_suffixes: Callable[..., Iterable[tuple[int, Any]]] = _never


def fold_between(events: Remembered, after: int, until: int, partial: bool) -> tuple[Partial, int]:
    """The aggregate of the events with after < t <= until, in microseconds, and how many they are.

    O(arity * log n) combines and at most two page reads a level. Raises EventsGone.
    """
    if until < after:
        raise InvalidTime(f"a range from {clock(after)} to {clock(until)} ends before it begins")
    front, start = events.kept_from, events.first_after(after)
    # Events that came late may be older than others that have left.
    if front > 0 and (start == front or events.by_time) and not partial:
        before = events.time_before(front)
        if start == front if before is None else before > after:
            raise _gone(f"after {clock(after)}", front)
    stop = events.first_after(until)
    return events.fold(start, stop), stop - start


def fold_positions(events: Remembered, start: int, stop: int, partial: bool) -> tuple[Partial, int]:
    """The aggregate of the events from position ``start`` to ``stop``, and how many are kept.

    Raises EventsGone, and ValueError for positions that have not been.
    """
    if not 0 <= start <= stop <= events.back:
        raise ValueError(
            f"positions {start} to {stop} are no range of the {events.back} events there have been"
        )
    if start < events.kept_from and not partial:
        raise _gone(f"from position {start} on", events.kept_from)
    start = max(start, min(events.kept_from, stop))
    return events.fold(start, stop), stop - start


def _gone(what: str, kept: int) -> EventsGone:
    return EventsGone(
        f"events {what} have left already; those from position {kept} on are kept. Ask for a later "
        "range, accept what is left with partial=True, or keep more (keep=...)"
    )
