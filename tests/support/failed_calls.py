"""One call of a window whose store fails, and the list that says what the window is then.

Events tell their times, a second each, so that windows by count and by time hold as many. A call
that raises has taken in what its note says, and no more; what it has taken in makes others leave,
whenever the store is back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mta.errors import StoreUnavailable
from mta.frames.base import Both, Frame
from mta.frames.bounds import BoundWindow
from mta.frames.windows import CountWindow, TimeWindow

Event = tuple[int, str]
#: The most letters that a bounded window holds.
LETTERS = 60


def tag(time: int) -> str:
    """The value of the event at a time."""
    return f"{time}."


@dataclass
class Listed:
    """All events in order of time, and where the window begins."""

    frame: Frame
    events: list[Event] = field(default_factory=list)
    front: int = 0
    newest: int = -1

    def copy(self) -> Listed:
        return Listed(self.frame, list(self.events), self.front, self.newest)

    @property
    def held(self) -> list[str]:
        """The values in the window."""
        return [value for _, value in self.events[self.front :]]

    @property
    def text(self) -> str:
        """The result over the window."""
        return "".join(self.held)

    def add(self, event: Event) -> None:
        """Take in an event."""
        at = self._after(event[0])
        self.events.insert(at, event)
        self.newest = max(self.newest, event[0])
        self._moved(at, 1)

    def retract(self, time: int) -> None:
        """Take out the newest event of a time."""
        at = self._after(time) - 1
        del self.events[at]
        self._moved(at, -1)

    def _after(self, time: int) -> int:
        return bisect_right(self.events, time, key=lambda event: event[0])

    def _moved(self, at: int, count: int) -> None:
        self.front += count * (at < self.front)
        self.front = max(self.front, self._cut(self.frame))

    def _cut(self, frame: Frame) -> int:
        if isinstance(frame, Both):
            return max(self._cut(frame.one), self._cut(frame.other))
        if isinstance(frame, BoundWindow):
            fits = (sum(map(len, self.held[at:])) <= LETTERS for at in range(len(self.held) + 1))
            return self.front + list(fits).index(True)
        if isinstance(frame, CountWindow):
            return len(self.events) - frame.size
        assert isinstance(frame, TimeWindow)
        return self._after(self.newest - frame.size // 1_000_000)

    def following(self, count: int, gap: int = 1, late: int = 0, mark: str = "") -> list[Event]:
        """So many events to come, the first of them so late."""
        first = self.newest - late
        times = range(first + gap, first + gap * (count + 1), gap)
        return [(time, mark + tag(time)) for time in times]


#: A call and what it adds to the list when so many of its events are in, 1 for all of another call.
Call = Callable[[Any, Listed], tuple[Callable[[], Any], Callable[[int], None], int]]


def try_out(call: Call, window: Any, listed: Listed) -> None:
    """Make a call, and have in the list what it did, whether it fails or not."""
    run, add, count = call(window, listed)
    try:
        run()
    except StoreUnavailable as error:
        add(accepted(error))
    else:
        add(count)


def accepted(error: Exception) -> int:
    """How many events are in, as the note of an error says; none without one."""
    notes = [note for note in getattr(error, "__notes__", []) if "batch were accepted" in note]
    return int(notes[0].split()[0]) if notes else 0


def insert(ahead: int = 1, late: int = 0) -> Call:
    """A single event."""

    def call(window: Any, listed: Listed) -> Any:
        event = (listed.newest + ahead - late, f"one {tag(listed.newest + ahead - late)}")
        run = lambda: window.insert(event[1], float(event[0]))  # noqa: E731
        return run, lambda n: listed.add(event) if n else None, 1

    return call


def extend(count: int, emit: str = "all", gap: int = 1, late: int = 0) -> Call:
    """A batch."""

    def call(window: Any, listed: Listed) -> Any:
        batch = listed.following(count, gap, late, "in a batch ")
        values, times = [value for _, value in batch], [time for time, _ in batch]
        run = lambda: window.extend(values, times, emit=emit)  # noqa: E731
        return run, lambda n: [listed.add(event) for event in batch[:n]], count

    return call


def revise(count: int, late: int = 0) -> Call:
    """A batch whose corrections are asked for."""

    def call(window: Any, listed: Listed) -> Any:
        batch = listed.following(count, 1, late, "revised ")
        values, times = [value for _, value in batch], [time for time, _ in batch]
        run = lambda: window.revise(values, times)  # noqa: E731
        return run, lambda n: [listed.add(event) for event in batch[:n]], count

    return call


def evict(count: int) -> Call:
    """The oldest events leave, as many as there are at most."""

    def call(window: Any, listed: Listed) -> Any:
        some = min(count, len(listed.held))

        def add(n: int) -> None:
            listed.front += some * n

        return lambda: window.evict(some), add, 1

    return call


def retract(back: int) -> Call:
    """The event of a time before the newest is taken out."""

    def call(window: Any, listed: Listed) -> Any:
        time = listed.newest - back
        run = lambda: window.retract(time)  # noqa: E731
        return run, lambda n: listed.retract(time) if n else None, 1

    return call


def reading(read: Callable[[Any], Any]) -> Call:
    """What changes nothing."""
    return lambda window, listed: (lambda: read(window), lambda n: None, 1)
