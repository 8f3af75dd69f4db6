"""Ranges of retained events, by position and by time, and what a policy sees of them.

Where events of a range have left already, the answer would be of the others alone, so it is only
given where ``partial=True`` says that this will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mta.errors import EventsGone, InvalidTime
from mta.frames.base import AbstractPolicy
from mta.logs.base import Remembered
from mta.monoids.base import Partial
from mta.times import clock


class Positions:
    """What a policy on positions and times sees, wherever its window ends (``frames.View``).

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

    O(arity * log n) combines and at most two page reads per level. Raises EventsGone.
    """
    if until < after:
        raise InvalidTime(f"the range from {clock(after)} to {clock(until)} ends before it begins")
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
        "range, accept what is left with partial=True, or retain more (retain_for=...)"
    )
