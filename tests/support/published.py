"""What published windows must answer, computed from lists of events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mta import Count, Max, Product, Sum
from mta.errors import StoreUnavailable
from mta.frames import Frame
from stores import MemoryStore
from tests.support.naive import window_of

#: An event: its time in seconds and its value.
Event = tuple[int, int]


def aggregations() -> Product:
    return Product({"peak": ("v", Max("int64")), "total": ("v", Sum("int64")), "events": Count()})


@dataclass
class Lists:
    """The events of each key, in the order of their times."""

    frames: Mapping[str, Frame]
    events: dict[Any, list[Event]] = field(default_factory=lambda: defaultdict(list))
    sum_of_none: int | None = 0
    """The sum of a window without events: None where windows skip nulls."""

    def add(self, key: Any, time: int, value: int) -> None:
        self.events[key].append((time, value))
        self.events[key].sort(key=lambda event: event[0])

    def retract(self, key: Any, time: int) -> None:
        """Take out the newest event of a time."""
        held = self.events[key]
        held.pop(max(at for at, event in enumerate(held) if event[0] == time))

    def query(self, key: Any, at: int) -> dict[str, Any]:
        """The columns of ``aggregations`` over each window."""
        found = {}
        past = [event for event in self.events[key] if event[0] <= at]
        for name, frame in self.frames.items():
            held = window_of(frame, [time for time, _ in past], at)
            values = [value for _, value in past[held]]
            found[f"total_{name}"], found[f"events_{name}"] = self.sum_of_none, len(values)
            if values:
                found[f"total_{name}"] = sum(values)
                found[f"peak_{name}"] = max(values)
        return found


def agrees(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether results are those expected; of no events nothing is said of the largest."""
    return all(found[name] == value for name, value in expected.items())


class Server(MemoryStore):
    """A store that counts as remote, and that can be away."""

    capabilities = replace(MemoryStore().capabilities, durable=True, shared=True, remote=True)
    is_away = False

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        if self.is_away:
            raise StoreUnavailable("it is away")
        return super().get_many(keys)
