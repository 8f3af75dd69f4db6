"""A window of late events, and a sorted list of the same.

Every result is that of the window which ends with its event, out of all events that are there.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mta import CountWindow, TimeWindow, Window
from mta.frames.base import Frame
from stores import PageStore
from tests.support.naive import CrowdedFiBA, joined

#: (time in seconds, value)
Event = tuple[int, str]


@dataclass
class Stream:
    """A sorted list and a window over the same events."""

    random: Random
    frame: Frame
    lateness: int
    store: PageStore | None
    events: list[Event] = field(default_factory=list)
    newest: int | None = None

    def __post_init__(self) -> None:
        arities = {"arity": self.random.choice([2, 3, 8]), "leaf_arity": self.random.choice([2, 5])}
        self.options: dict[str, Any] = {
            "aggregator": CrowdedFiBA, "on_late": "drop", "allowed_lateness": self.lateness,
        }  # fmt: skip
        self.window = Window(joined(), self.frame, self.store, "late", **arities, **self.options)

    def draw(self) -> tuple[list[str], list[int], list[bool]]:
        """Values and times of a batch, and which are accepted."""
        base, random = self.newest or 0, self.random
        steps = [0, 0, 1, 2, 3, 5, 8, -1, -2, -7, -20]
        times = [base + random.choice(steps) for _ in range(random.choice([0, 1, 3, 8, 30]))]
        values = [chr(97 + random.randrange(26)) for _ in times]
        ok = [self.newest is None or time >= self.newest - self.lateness for time in times]
        return values, times, ok

    def take(self, values: list[str], times: list[int], ok: list[bool]) -> list[int | None]:
        """Bring a batch into the list; for each event, where it stands in the batch."""
        tagged: list[tuple[int, str, int | None]] = [(t, v, None) for t, v in self.events]
        batch = [(t, v, i) for i, (t, v) in enumerate(zip(times, values, strict=True)) if ok[i]]
        for event in sorted(batch, key=lambda event: event[0]):
            tagged.insert(bisect_right([time for time, _, _ in tagged], event[0]), event)
        self.events = [(time, value) for time, value, _ in tagged]
        if batch:
            newest = max(time for time, _, _ in batch)
            self.newest = newest if self.newest is None else max(self.newest, newest)
        return [tag for _, _, tag in tagged]

    def result(self, position: int) -> str:
        """The window that ends with the event of a position."""
        return "".join(value for _, value in self._window(position, self.events[position][0]))

    def _window(self, position: int, time: int) -> list[Event]:
        if isinstance(self.frame, CountWindow):
            return self.events[max(0, position + 1 - self.frame.size) : position + 1]
        assert isinstance(self.frame, TimeWindow)
        oldest = time - self.frame.size / 1e6
        return [event for event in self.events[: position + 1] if event[0] > oldest]

    def extend(self) -> None:
        values, times, ok = self.draw()
        wanted = self.random.choice(["all", "last"])
        results = list(self.window.extend(values, times, wanted))  # type: ignore[arg-type]
        tags = self.take(values, times, ok)
        expected = {tag: self.result(at) for at, tag in enumerate(tags) if tag is not None}
        if wanted == "all":
            assert results == [expected[tag] for tag in sorted(expected)]

    def revise(self) -> None:
        values, times, ok = self.draw()
        revision = self.window.revise(values, times)
        tags = self.take(values, times, ok)
        first = next((at for at, tag in enumerate(tags) if tag is not None), len(tags))
        assert revision.index.tolist() == [-1 if tag is None else tag for tag in tags[first:]]
        assert revision.times.astype(int).tolist() == [t * 10**6 for t, _ in self.events[first:]]
        assert list(revision.values) == [value for _, value in self.events[first:]]
        assert list(revision.results) == [self.result(at) for at in range(first, len(tags))]

    def insert(self) -> None:
        values, times, ok = self.draw()
        for value, time in list(zip(values, times, strict=True))[:3]:
            accepted = self.newest is None or time >= self.newest - self.lateness
            self.window.insert(value, time)
            self.take([value], [time], [accepted])
        del ok

    def assert_same(self) -> None:
        expected = self._window(len(self.events) - 1, self.newest or 0) if self.events else []
        assert self.window.query() == "".join(value for _, value in expected)
        assert len(self.window) == len(expected)


FRAMES = [CountWindow(1), CountWindow(7), CountWindow(40), TimeWindow(3), TimeWindow(40)]
