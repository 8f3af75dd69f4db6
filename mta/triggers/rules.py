"""Triggers: at which moments a window gives a result.

The moments of ``EveryPeriod`` are *boundaries*. The result at boundary B covers the events with
``time <= B``. It is due when the first event later than B arrives: events arrive in order, so none
that belongs to B is still missing.

With boundaries 60 seconds apart and a window of 60 seconds:

    events       t = 10    60    61                               200
    due          -         -     60: {10, 60}                     120: {61}, 180: {}

Nothing is due before the first event. In a gap between events, each boundary gives a result until
the window is empty, and the first boundary of the empty window gives the last one. Windows that
time does not empty give one result per gap. Only accepted events count and advance the time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mta.kernels.native import spread
from mta.recipes import Recorded
from mta.times import Duration, Zone, as_text, to_count, to_duration
from stores.durations import UNITS

#: Sums of a time, a lifetime and two periods stay within 64 bits.
_LONGEST_LIFETIME, _LONGEST_PERIOD = 1 << 61, 1 << 59


@dataclass(frozen=True, slots=True)
class TriggerProgress:
    """The progress of a stream, as far as triggers need it."""

    events: int = 0
    """Events accepted since the beginning."""
    newest: int | None = None
    """The time of the newest event, in microseconds; None if the trigger ignores times."""
    given: int | None = None
    """The moment of the last result."""


class Stops(NamedTuple):
    """The results that a batch makes due: after how many of its events, and at which moments."""

    stops: np.ndarray
    moments: np.ndarray


class Trigger(Recorded, ABC):
    """A rule for when results are due."""

    #: Whether moments are times, which all events must then have; otherwise, numbers of events.
    needs_times = False

    @abstractmethod
    def due(
        self, progress: TriggerProgress, micros: np.ndarray | None, count: int, lifetime: int | None
    ) -> Stops:
        """Return what the next ``count`` events make due; a few whole-batch expressions.

        ``lifetime`` is the time after which a window without new events is empty, None if never.
        """

    @abstractmethod
    def quiet(self, progress: TriggerProgress, micros: int | None) -> bool:
        """Return whether an event that arrives next makes nothing due."""

    def next_moment(self, progress: TriggerProgress) -> int:
        """Return the moment of a result that is requested now."""
        return progress.events

    def is_open(self, progress: TriggerProgress) -> bool:
        """Return whether an event has arrived since the last result."""
        return progress.events > (progress.given or 0)

    @abstractmethod
    def describe(self) -> str:
        """Return the trigger and its parameters as text, the same in every process."""

    def __repr__(self) -> str:
        return self.describe()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trigger) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(self.describe())


class EveryCount(Trigger):
    """A result after every k-th event; its moment is the number of events so far.

    Args:
        count: The number of events between two results, at least 1.

    >>> EveryCount(3).due(TriggerProgress(events=2), None, 5, None).stops.tolist()
    [1, 4]
    """

    def __init__(self, count: int) -> None:
        try:
            self.count = to_count(count, "a number of events", 1)
        except (TypeError, ValueError):
            raise ValueError(
                f"EveryCount takes a whole number of at least 1, not {count!r}"
            ) from None

    def due(
        self, progress: TriggerProgress, micros: np.ndarray | None, count: int, lifetime: int | None
    ) -> Stops:
        first = 0 if self.is_overdue(progress) else self.count - progress.events % self.count
        stops = np.arange(first, count + 1, self.count)
        return Stops(stops, stops + progress.events)

    def quiet(self, progress: TriggerProgress, micros: int | None) -> bool:
        return (progress.events + 1) % self.count != 0 and not self.is_overdue(progress)

    def is_overdue(self, progress: TriggerProgress) -> bool:
        """Return whether the last event's result is still due, because a store failed."""
        return progress.events % self.count == 0 and self.is_open(progress)

    def describe(self) -> str:
        return f"EveryCount({self.count})"


class EveryPeriod(Trigger):
    """A result at each multiple of a period since 1970, over the events up to that moment.

    Args:
        period: A number of seconds, or a duration such as "1 minute".
        offset: A shift of the boundaries: "1 day" with "9h30m" is each day at 09:30 UTC.
        zone: The time zone of periods of whole days, such as "America/New_York". Days have 23 or 25
            hours when the clock changes. A boundary that the clock skips is at the moment of the
            change.

    >>> trigger = EveryPeriod("1 minute")
    >>> trigger
    EveryPeriod(60000000 us)
    >>> seconds = np.array([10, 60, 61, 200]) * 1_000_000
    >>> stops, moments = trigger.due(TriggerProgress(), seconds, 4, lifetime=60_000_000)
    >>> stops.tolist(), (moments // 1_000_000).tolist()
    ([2, 3, 3], [60, 120, 180])
    """

    needs_times = True

    def __init__(
        self, period: float | Duration, *, offset: float | Duration = 0, zone: str | None = None
    ) -> None:
        self.period = to_duration(period, "a period")
        if self.period > _LONGEST_PERIOD:
            raise ValueError(f"a period is at most {_LONGEST_PERIOD} us, not {period!r}")
        self.offset = to_duration(offset, "an offset", least=0)
        if self.offset >= self.period:
            raise ValueError(
                f"an offset is shorter than its period, {as_text(self.period)}, not {offset!r}"
            )
        self._zone = None if zone is None else Zone(zone)
        if zone is not None and self.period % UNITS["day"]:
            raise ValueError(
                f"zone={zone!r} is for periods of whole days, whose length follows the clock, not "
                f"for {as_text(self.period)}: leave zone out, and give an offset"
            )

    def number(self, micros: Any) -> Any:
        """Return the number, counted from 1970, of the first boundary at or after each time."""
        if self._zone is None:
            return -(-(micros - self.offset) // self.period)
        times = np.atleast_1d(np.asarray(micros, "<i8"))
        found = -(-(self._zone.local(times) - self.offset) // self.period)
        found -= self.moment(found - 1) >= times  # the clock may skip boundaries
        return found if np.ndim(micros) else int(found[0])

    def moment(self, number: Any) -> Any:
        """Return the boundaries with these numbers."""
        moments = number * self.period + self.offset
        if self._zone is None:
            return moments
        found = self._zone.times(np.atleast_1d(np.asarray(moments, "<i8")))
        return found if np.ndim(number) else int(found[0])

    def boundary(self, micros: Any) -> Any:
        """Return the first boundary at or after each time."""
        return self.moment(self.number(micros))

    def last_boundary(self, micros: Any) -> Any:
        """Return the last boundary at or before each time."""
        return self.moment(self.number(micros + 1) - 1)

    def due(
        self, progress: TriggerProgress, micros: np.ndarray | None, count: int, lifetime: int | None
    ) -> Stops:
        assert micros is not None
        if progress.newest is None:
            before, offset = micros[: count - 1], 1
        else:
            before, offset = np.concatenate(([progress.newest], micros[: count - 1])), 0
        now = micros[offset:count]
        gaps, moments = self.spread(*self.between(before, now, lifetime, progress.given))
        return Stops(gaps + offset, moments)

    def between(
        self, before: np.ndarray, now: np.ndarray, lifetime: int | None, given: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return how many boundaries each event makes due, and the number of the first.

        ``before`` and ``now`` are the times of the previous event and of the event.
        """
        first = idle = self.number(before)
        if lifetime is not None:  # the first boundary at which the window is empty
            idle = self.number(before + min(lifetime, _LONGEST_LIFETIME))
        if given is not None:
            first = np.maximum(first, self.number(given) + 1)
        stop = np.minimum(idle, self.number(now) - 1)
        return np.maximum(stop - first + 1, 0), first

    def spread(self, counts: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the event that makes each boundary due, and the boundary."""
        return np.repeat(np.arange(len(counts)), counts), self.moment(spread(first, counts))

    def quiet(self, progress: TriggerProgress, micros: int | None) -> bool:
        assert micros is not None
        return progress.newest is None or micros <= self.boundary(progress.newest)

    def next_moment(self, progress: TriggerProgress) -> int:
        """Return the boundary of the next result, if an event has arrived since the last one."""
        assert progress.newest is not None
        first: int = self.number(progress.newest)
        if progress.given is not None:
            first = max(first, self.number(progress.given) + 1)
        moment: int = self.moment(first)
        return moment

    def is_open(self, progress: TriggerProgress) -> bool:
        newest, given = progress.newest, progress.given
        return newest is not None and (given is None or newest > given)

    def describe(self) -> str:
        own = [f"{self.period} us"]
        own += [f"offset {self.offset} us"] * bool(self.offset)
        own += [] if self._zone is None else [f"zone {self._zone.name}"]
        return f"EveryPeriod({', '.join(own)})"


class OnDemand(Trigger):
    """Only ``query`` and ``flush`` return results."""

    def __init__(self) -> None:
        """Take no parameters."""

    def due(
        self, progress: TriggerProgress, micros: np.ndarray | None, count: int, lifetime: int | None
    ) -> Stops:
        none = np.zeros(0, "<i8")
        return Stops(none, none)

    def quiet(self, progress: TriggerProgress, micros: int | None) -> bool:
        return True

    def describe(self) -> str:
        return "OnDemand()"


#: The triggers, which snapshots name.
TRIGGERS: dict[str, type[Trigger]] = {
    kind.__name__: kind for kind in (EveryCount, EveryPeriod, OnDemand)
}
