"""What windows must be: a sorted list of all events there have been, and where a window begins."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Any

from mta import EveryCount, EveryPeriod, Trigger
from tests.support.random_windows.kinds import Kind
from tests.support.random_windows.rules import Event, Rule


@dataclass
class Stream:
    """All events that were accepted, in order of time."""

    #: Whether times are looked at; else every event is accepted.
    timed: bool
    #: By how many microseconds an event may be late; None where each must come in order.
    lateness: int | None
    events: list[Event] = field(default_factory=list)
    newest: int | None = None
    #: What an event does that has the time of another one: append, replace or combine.
    on_duplicate: str = "append"

    def copy(self) -> Stream:
        return replace(self, events=list(self.events))

    def __len__(self) -> int:
        return len(self.events)

    @property
    def is_late(self) -> bool:
        """Whether events come out of order."""
        return bool(self.lateness)

    def accepted(self, times: list[int]) -> list[int]:
        """Which events of a batch are accepted, in the order in which they are taken."""
        if not self.timed:
            return list(range(len(times)))
        newest, chosen = self.newest, []
        for at, time in enumerate(times):
            if newest is None or time >= newest - (self.lateness or 0):
                chosen.append(at)
                if self.lateness is None:
                    newest = time
        return sorted(chosen, key=lambda at: times[at])

    def add(self, event: Event) -> int:
        """Put an event in its place, behind those of its time, or into that of one; say where."""
        at = self.after(event[0])
        if not self.timed:
            at = len(self.events)
        if self.on_duplicate != "append" and at and self.events[at - 1][0] == event[0]:
            at -= 1
            joins = self.on_duplicate == "combine"
            self.events[at] = (event[0], self.events[at][1] + event[1]) if joins else event
        else:
            self.events.insert(at, event)
        if self.timed:
            self.newest = event[0] if self.newest is None else max(self.newest, event[0])
        return at

    def values(self, start: int, stop: int | None = None) -> list[Any]:
        """The values of the events at some positions."""
        return [value for _, value in self.events[max(start, 0) : stop]]

    def after(self, time: int) -> int:
        """The position of the oldest event later than a time."""
        return bisect_right(self.events, time, key=lambda known: known[0])


@dataclass
class OneWindow:
    """A window over a stream: a rule, and where it begins."""

    rule: Rule
    front: int = 0
    #: Events before this position had left when the window was set; 0 where it misses none.
    floor: int = 0

    def copy(self) -> OneWindow:
        return OneWindow(self.rule, self.front, self.floor)

    def move(self, stream: Stream, now: int | None = None) -> None:
        """Ask the frame."""
        if stream.events:
            time = (stream.newest or 0) if now is None else now
            self.front = max(self.front, self.rule.cut(stream.events, self.front, time))

    def make_room(self, stream: Stream, at: int) -> None:
        """An event came in at a position; where it is late, sessions may merge."""
        self.front += at < self.front
        self.floor += at < self.floor
        newest = len(stream.events) - 1
        if stream.is_late and self.rule.merges and (at < newest or self.front == newest):
            self.front = self.floor

    def ending_with(self, stream: Stream, at: int) -> int:
        """Where the window begins that ends with the event of a position."""
        return max(0, self.rule.cut(stream.events[: at + 1], 0, stream.events[at][0]))


def take(stream: Stream, windows: list[OneWindow], batch: list[Event]) -> list[list[list[Any]]]:
    """Take in a batch: for each window, the values of the window of each accepted event.

    These are in the order of the batch. Rules that look back answer for the window which ends with
    the event, the others for what is there when it comes.
    """
    chosen = stream.accepted([time for time, _ in batch])
    found: dict[tuple[int, int], list[Any]] = {}
    for index in chosen:
        count, at = len(stream), stream.add(batch[index])
        for n, window in enumerate(windows):
            if len(stream) > count:
                window.make_room(stream, at)
            window.move(stream)
            if stream.is_late and window.rule.looks_back:
                found[n, index] = stream.values(window.ending_with(stream, at), at + 1)
            else:
                found[n, index] = stream.values(window.front)
    return [[found[n, index] for index in sorted(chosen)] for n in range(len(windows))]


# --- results that are due ------------------------------------------------------------------------


@dataclass
class DueLists:
    """What a trigger makes due, boundary by boundary; each result as the values of its window."""

    kind: Kind
    trigger: Trigger
    stream: Stream
    window: OneWindow
    given: int | None = None
    #: The time of the newest event; a watermark may have come further.
    last: int | None = None

    def copy(self) -> DueLists:
        return DueLists(
            self.kind, self.trigger, self.stream.copy(), self.window.copy(), self.given, self.last
        )

    def ask(self, moment: int) -> tuple[int, list[Any]]:
        """The window at a boundary."""
        if self.window.rule.positional or self.window.rule.needs_times:
            self.window.move(self.stream, moment)
        return moment, self.stream.values(self.window.front)

    def before(self, time: int) -> list[tuple[int, list[Any]]]:
        """What a period has due before a time."""
        trigger, due = self.trigger, []
        if not isinstance(trigger, EveryPeriod) or self.last is None:
            return []
        lifetime, at = self.window.rule.lifetime, -(-self.last // trigger.period) * trigger.period
        while at < time:
            if self.given is None or at > self.given:
                due.append(self.ask(at))
                self.given = at
            if lifetime is None or at - lifetime >= self.last:
                break
            at += trigger.period
        return due

    def take(self, batch: list[Event]) -> list[tuple[int, list[Any]]]:
        """What a batch makes due."""
        due = []
        for index in self.stream.accepted([time for time, _ in batch]):
            time, trigger = batch[index][0], self.trigger
            due += self.before(time)
            self.window.make_room(self.stream, self.stream.add(batch[index]))
            self.last = time
            self.window.move(self.stream)
            count = len(self.stream.events)
            if isinstance(trigger, EveryCount) and count % trigger.count == 0:
                due.append((count, self.stream.values(self.window.front)))
        return due

    def advance(self, time: int) -> list[tuple[int, list[Any]]]:
        """What a watermark makes due; events up to its boundary are late from then on."""
        assert isinstance(self.trigger, EveryPeriod)
        moment = time // self.trigger.period * self.trigger.period
        due = self.before(moment + 1)
        stream = self.stream
        if stream.timed:
            stream.newest = moment + 1 if stream.newest is None else max(stream.newest, moment + 1)
        return due

    def flush(self) -> list[tuple[int, list[Any]]]:
        """What is open."""
        count = len(self.stream.events)
        if not count:
            return []
        if isinstance(self.trigger, EveryPeriod):
            assert self.last is not None
            if self.given is not None and self.last <= self.given:
                return []
            return [self.ask(-(-self.last // self.trigger.period) * self.trigger.period)]
        if isinstance(self.trigger, EveryCount) and count % self.trigger.count == 0:
            return []
        return [(count, self.stream.values(self.window.front))]
