"""Windows that are restored with other sizes and another lateness, held against all that came.

The oracle is the list of all events in order of time, whatever has left. What of it is still kept
is asked of the window itself, by ranges; all else follows from the list: where each window begins,
its result, and how many events it misses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from random import Random
from typing import Any

from mta import CountWindow, SharedWindows, TimeWindow, Window
from mta.errors import EventsGone
from mta.evaluators.coverage import Coverage
from mta.frames.base import Both, Frame
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support.oracle import joined

#: An event: its time in seconds, and its value, a text of its own.
Event = tuple[int, str]
SIZES = [1, 2, 3, 5, 9, 17, 30]


def draw_frame(random: Random) -> Frame:
    """A window by count, by time, or by both."""
    count, time = CountWindow(random.choice(SIZES)), TimeWindow(random.choice(SIZES))
    return random.choice([count, count, time, time, count | time, count & time])


def cut_of(frame: Frame, events: list[Event], now: int) -> int:
    """Where the window over all events begins, by its frame alone."""
    if isinstance(frame, Both):
        both = [cut_of(part, events, now) for part in (frame.one, frame.other)]
        return max(both) if frame.any_of else min(both)
    if isinstance(frame, CountWindow):
        return max(0, len(events) - frame.size)
    assert isinstance(frame, TimeWindow)
    return _after(events, now - frame.size // 1_000_000)


def _after(events: list[Event], time: int) -> int:
    return bisect_right(events, time, key=lambda event: event[0])


class ChangingLife(ABC):
    """A window, or several, and all events there have been, but for those taken out."""

    def __init__(self, random: Random, is_late: bool, lateness: list[int]) -> None:
        self.random, self.store, self.is_late = random, MemoryStore(), is_late
        self._choices = lateness
        self.lateness = random.choice(lateness)
        self.events: list[Event] = []
        self.newest = 0
        self.number = 0
        #: How often a window was incomplete, and how often it was complete though events had left.
        self.seen = {False: 0, True: 0}

    def step(self) -> None:
        """Do something, and look at what it has made."""
        steps = [self.extend, self.extend, self.insert, self.restore]
        if self.is_late:
            steps += [self.extend, self.retract]
        self.random.choice(steps)()
        self.look()

    # --- events ---------------------------------------------------------------------------------

    def batch(self) -> list[Event]:
        """Events in order of time, none of which is too late."""
        behind = self.random.choice([0, 0, 1, self.lateness]) if self.events else 0
        now, batch = self.newest - min(behind, self.lateness), []
        for _ in range(self.random.choice([1, 2, 9, 40])):
            now += self.random.choice([0, 0, 1, 1, 2])
            self.number += 1
            batch.append((now, f"{self.number}."))
        return batch

    def extend(self) -> None:
        batch, complete = self.batch(), self.complete()
        found = self.add_batch([value for _, value in batch], [time for time, _ in batch])
        for event in batch:
            self.add(event)
        if self.is_late:
            for name in complete:
                assert list(found[name]) == [self.as_of(name, event) for event in batch]

    def insert(self) -> None:
        event = self.batch()[0]
        self.add_one(event[1], event[0])
        self.add(event)

    def add(self, event: Event) -> None:
        """Put an event in its place, behind those of its time."""
        at = _after(self.events, event[0])
        self.events.insert(at, event)
        self.newest = max(self.newest, event[0])
        self.moved(at, 1)

    def retract(self) -> None:
        """Take out an event that is in the window, or may still be asked for."""
        if not self.events:
            return
        time = self.random.choice(self.events[-12:])[0]
        at = _after(self.events, time) - 1
        try:
            self.take_out(time)
        except EventsGone:
            return
        del self.events[at]
        self.moved(at, -1)

    def as_of(self, name: str, event: Event) -> str:
        """The result of the window that ends with an event."""
        events = self.events[: self.events.index(event) + 1]
        return "".join(v for _, v in events[cut_of(self.frames[name], events, event[0]) :])

    # --- what must be ---------------------------------------------------------------------------

    def look(self) -> None:
        """Each window is the newest events from its front on, and says how many it misses."""
        for name, frame in self.frames.items():
            front, coverage = self.front_of(name), self.coverage(name)
            held = "".join(value for _, value in self.events[front:])
            assert self.query(name) == held
            assert (coverage.front, coverage.events) == (front, len(self.events) - front)
            missing, kept = self.missing(frame, front), self.kept()
            assert coverage.missing_at_least <= missing <= coverage.missing_at_most, missing
            assert not (coverage.complete and missing)
            if self.is_late:  # the time of the newest event that has left is known
                assert coverage.complete == (missing == 0)
            if kept:
                self.seen[coverage.complete] += 1

    def missing(self, frame: Frame, front: int) -> int:
        """How many events a window misses: before its front, and of what a late event will ask."""
        kept, now = self.kept(), cut_of(frame, self.events, self.newest)
        oldest = now
        if self.lateness and self.events:
            late = self.newest - self.lateness
            before = [*self.events[: _after(self.events, late)], (late, "")]
            oldest = min(now, cut_of(frame, before, late))
        return max(0, front - max(now, kept)) + max(0, kept - oldest)

    def kept(self) -> int:
        """The position of the oldest event that is kept."""
        count = len(self.events)
        text = self.range(0, count)
        return next(
            at for at in range(count + 1)
            if text == "".join(value for _, value in self.events[at:])
        )  # fmt: skip

    def complete(self) -> list[str]:
        """The windows that say that they miss nothing."""
        return [name for name in self.frames if self.coverage(name).complete]

    def restore(self) -> None:
        """Go on from a snapshot, with another lateness, and with other windows."""
        if self.is_late and self.random.random() < 0.7:
            self.lateness = self.random.choice(self._choices)
        snapshot = self.checkpoint()
        self.change(snapshot, self.kept())  # a snapshot may release some

    frames: dict[str, Frame]

    @property
    def _given(self) -> int | None:
        return self.lateness if self.is_late else None

    @abstractmethod
    def checkpoint(self) -> bytes: ...

    @abstractmethod
    def change(self, snapshot: bytes, kept: int) -> None: ...

    @abstractmethod
    def moved(self, at: int, count: int) -> None: ...

    @abstractmethod
    def front_of(self, name: str) -> int: ...

    @abstractmethod
    def add_batch(self, values: list[str], times: list[int]) -> dict[str, Any]: ...

    @abstractmethod
    def add_one(self, value: str, time: int) -> None: ...

    @abstractmethod
    def take_out(self, time: int) -> None: ...

    @abstractmethod
    def query(self, name: str) -> Any: ...

    @abstractmethod
    def coverage(self, name: str) -> Coverage: ...

    @abstractmethod
    def range(self, start: int, stop: int) -> Any: ...


class ChangingWindow(ChangingLife):
    """A ``Window``: what has left it stays away, but when it is restored with another frame."""

    def __init__(self, random: Random, aggregator: type[Aggregator]) -> None:
        super().__init__(random, aggregator.by_time, [0, 0, 4, 12] if aggregator.by_time else [0])
        self.frames = {"": draw_frame(random)}
        if not self.is_late:  # events have times or have none, whatever windows come
            self.frames = {"": TimeWindow(random.choice(SIZES))}
        self.options: dict[str, Any] = {"aggregator": aggregator}
        sizes = {"arity": 2, "leaf_arity": random.choice([2, 5])}
        self.window = Window(
            joined(), self.frames[""], self.store, "w", allowed_lateness=self._given, **sizes,
            **self.options,
        )  # fmt: skip
        self.front = 0

    def checkpoint(self) -> bytes:
        return self.window.checkpoint()

    def change(self, snapshot: bytes, kept: int) -> None:
        frame = self.frames[""]
        if self.random.random() < 0.8:
            frame = draw_frame(self.random)
            if not self.is_late and not frame.needs_times:
                frame = frame | TimeWindow(self.random.choice(SIZES))
        self.window = Window.restore(
            snapshot, self.store, aggregations=joined(), window=frame,
            allowed_lateness=self._given, **self.options,
        )  # fmt: skip
        if frame.fingerprint != self.frames[""].fingerprint and self.events:
            self.front = max(kept, cut_of(frame, self.events, self.newest))
        self.frames = {"": frame}

    def moved(self, at: int, count: int) -> None:
        if at < self.front:
            self.front += count
        if self.front < len(self.events):
            self.front = max(self.front, cut_of(self.frames[""], self.events, self.newest))

    def front_of(self, name: str) -> int:
        return self.front

    def add_batch(self, values: list[str], times: list[int]) -> dict[str, Any]:
        return {"": self.window.extend(values, times)}

    def add_one(self, value: str, time: int) -> None:
        self.window.insert(value, time)

    def take_out(self, time: int) -> None:
        self.window.retract(time)

    def query(self, name: str) -> Any:
        return self.window.query()

    def coverage(self, name: str) -> Coverage:
        return self.window.coverage()

    def range(self, start: int, stop: int) -> Any:
        return self.window.range_by_position(start, stop, partial=True)


class ChangingShared(ChangingLife):
    """``SharedWindows``: each begins where its frame says, as far back as events are kept."""

    def __init__(self, random: Random, by_time: bool) -> None:
        super().__init__(random, by_time, [0, 0, 4, 12] if by_time else [0])
        self.frames = {name: draw_frame(random) for name in "ab"}
        sizes = {"arity": 2, "leaf_arity": random.choice([2, 5])}
        self.windows = SharedWindows(
            joined(),
            self.frames,
            self.store,
            "w",
            timed=True,
            allowed_lateness=self._given,
            **sizes,
        )

    def checkpoint(self) -> bytes:
        return self.windows.checkpoint()

    def change(self, snapshot: bytes, kept: int) -> None:
        for name in self.frames:
            if self.random.random() < 0.6:
                self.frames[name] = draw_frame(self.random)
        self.windows = SharedWindows.restore(
            snapshot,
            self.store,
            aggregations=joined(),
            window=self.frames,
            allowed_lateness=self._given,
        )

    def moved(self, at: int, count: int) -> None:
        pass

    def front_of(self, name: str) -> int:
        return max(self.kept(), cut_of(self.frames[name], self.events, self.newest))

    def add_batch(self, values: list[str], times: list[int]) -> dict[str, Any]:
        return self.windows.extend(values, times)

    def add_one(self, value: str, time: int) -> None:
        self.windows.insert(value, time)

    def take_out(self, time: int) -> None:
        self.windows.retract(time)

    def query(self, name: str) -> Any:
        return self.windows.query(name)

    def coverage(self, name: str) -> Coverage:
        return self.windows.coverage(name)

    def range(self, start: int, stop: int) -> Any:
        return self.windows.range_by_position(start, stop, partial=True)
