"""One call of a window whose store fails, and the list that says what the window is then.

Events tell their times, a second each, so that windows by count and by time hold as many. A call
that raises has taken in what its note says, and no more; what it has taken in makes others leave,
whenever the store is back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mta.errors import StoreUnavailable
from mta.frames.base import Frame
from mta.frames.bounds import BoundWindow
from tests.support.naive import window_of

Event = tuple[int, str]
#: How much of a call that failed was done.
NOTE = re.compile(r"\d+ of \d+ events .*(accepted|removed)")
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
    existing: str = "append"

    def copy(self) -> Listed:
        return replace(self, events=list(self.events))

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
        if self.existing != "append" and at and self.events[at - 1][0] == event[0]:
            older = self.events[at - 1][1] if self.existing == "combine" else ""
            self.events[at - 1] = (event[0], older + event[1])
            return
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
        if isinstance(frame, BoundWindow):
            fits = (sum(map(len, self.held[at:])) <= LETTERS for at in range(len(self.held) + 1))
            return self.front + list(fits).index(True)
        start: int = window_of(frame, [time for time, _ in self.events], self.newest).start
        return start

    def following(self, count: int, gap: int = 1, late: int = 0, mark: str = "") -> list[Event]:
        """So many events to come, the first of them so late."""
        first = self.newest - late
        times = range(first + gap, first + gap * (count + 1), gap)
        return [(time, mark + tag(time)) for time in times]


#: A call and what it adds to the list when so many of its events are in, 1 for all of another call.
Call = Callable[[Any, Listed], tuple[Callable[[], Any], Callable[[int], None], int]]


def try_out(call: Call, window: Any, *lists: Listed) -> None:
    """Make a call, and have in the list of each window what it did, whether it fails or not."""
    runs = [call(window, listed) for listed in lists]
    try:
        runs[0][0]()
        done = runs[0][2]
    except StoreUnavailable as error:
        notes = [note for note in getattr(error, "__notes__", []) if NOTE.match(note)]
        done = int(notes[0].split()[0]) if notes else 0
    for _, add, _ in runs:
        add(done)


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


def evict_at(places: list[int]) -> Call:
    """Events leave from anywhere, the oldest ones of the window last."""

    def call(window: Any, listed: Listed) -> Any:
        inside = [place for place in places if place < len(listed.held)]
        first = next((at for at, place in enumerate(inside) if place != at), len(inside))
        order = inside[first:] + inside[:first]

        def add(n: int) -> None:
            gone = {listed.front + place for place in order[:n]}
            kept = [event for at, event in enumerate(listed.events) if at not in gone]
            # The positions of older events move on, as if others had been there before them.
            listed.events[:] = [(-1, "gone.")] * len(gone) + kept
            listed.front += len(gone)

        positions = [window.structure().front + place for place in inside]
        return lambda: window.structure().evict_at(positions), add, len(inside)

    return call


def reading(read: Callable[[Any], Any]) -> Call:
    """What changes nothing."""
    return lambda window, listed: (lambda: read(window), lambda n: None, 1)
