"""Multiple windows over one stream: the lists that they are, and windows whose store counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mta import CountWindow, Max
from mta.windows.shared import SharedWindows
from stores import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.naive import Event, Rule, text_of

SECOND = 1_000_000
NAMES = ["five", "hour", "day", "month"]


@dataclass
class Lists:
    """All events there have been, and those in each window."""

    events: list[Event] = field(default_factory=list)
    rules: dict[str, Rule] = field(default_factory=dict)
    windows: dict[str, list[Event]] = field(default_factory=dict)

    def copy(self) -> Lists:
        windows = {name: list(events) for name, events in self.windows.items()}
        return Lists(list(self.events), dict(self.rules), windows)

    def add(self, event: Event) -> dict[str, str]:
        """Take in an event: the result of each window."""
        self.events.append(event)
        for name, events in self.windows.items():
            events.append(event)
            self.rules[name].apply(events)
        return self.results()

    def results(self) -> dict[str, str]:
        """The result of each window."""
        return {name: text_of(events) for name, events in self.windows.items()}

    def set(self, name: str, frame: Rule, kept: int) -> None:
        """A window again, out of the events that are kept."""
        self.rules[name], self.windows[name] = frame, self.events[kept:]
        frame.apply(self.windows[name]) if self.windows[name] else None


LEAF, ARITY, N = 64, 8, 20_000
FOUR = {
    "five": CountWindow(50),
    "hour": CountWindow(400),
    "day": CountWindow(3_000),
    "month": CountWindow(9_000),
}


def counted_windows(frames: dict[str, Any], **options: Any) -> tuple[SharedWindows, CountingStore]:
    store = CountingStore(MemoryStore())
    sizes = {"leaf_arity": LEAF, "arity": ARITY}
    return SharedWindows(Max(), frames, store=store, **sizes, **options), store


def values(count: int) -> np.ndarray:
    return np.random.default_rng(3).random(count)
