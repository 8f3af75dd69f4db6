"""Multiple windows over one stream, as writers leave them, and what each of them must be then.

Events tell their own time, a second each, so a window by time of so many seconds holds as many
events as one by count. Where they come late, those of each four come in the order 3, 2, 1, 0: what
has come tells what is missing among the newest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mta import CountWindow, SharedWindows, TimeWindow
from mta.audit.walk import audit
from mta.frames.base import Frame
from stores import PageStore
from tests.support import oracle
from tests.support.naive import window_of
from tests.support.writers import AnyWindow, Noted

#: How late an event may be, in seconds.
LATENESS = 3


@dataclass(frozen=True)
class SharedLife(Noted):
    """Windows over one stream, and how they were made."""

    folder: str
    name: str
    store: str
    sizes: tuple[int, int, int, int]
    """Two by count, two by time, in the order of their names."""
    arity: int
    leaf_arity: int
    late: bool

    @property
    def frames(self) -> dict[str, Frame]:
        """The windows by their names."""
        few, many, short, long = self.sizes
        return {
            "count, few": CountWindow(few),
            "count, many": CountWindow(many),
            "time, short": TimeWindow(short),
            "time, long": TimeWindow(long),
        }

    def open_on(self, store: PageStore, retain: int = 2) -> SharedWindows:
        options: dict[str, Any] = {
            "retain": retain,
            "allowed_lateness": LATENESS if self.late else None,
        }
        if self.snapshot.exists():
            snapshot = self.snapshot.read_bytes()
            joined = oracle.joined()
            return SharedWindows.restore(snapshot, store, aggregations=joined, **options)
        options |= {"arity": self.arity, "leaf_arity": self.leaf_arity}
        return SharedWindows(oracle.joined(), self.frames, store, self.name, **options)

    def time_of(self, position: int) -> int:
        """The time of the event that comes at a position, in seconds, which it also tells."""
        return position ^ 3 if self.late else position

    def insert(self, window: AnyWindow, at: int) -> None:
        time = self.time_of(at)
        window.insert(oracle.event(time), time)

    def extend(self, window: AnyWindow, start: int, stop: int) -> None:
        times = [self.time_of(position) for position in range(start, stop)]
        window.extend([oracle.event(time) for time in times], times)

    def held(self, frame: Frame, back: int) -> list[int]:
        """The times of the events in a window once so many have come."""
        first = max(0, back - max(self.sizes) - 2 * LATENESS)
        times = sorted(map(self.time_of, range(first - first % 4, back)))
        return times[window_of(frame, times, times[-1])] if times else []

    def assert_whole(self, window: AnyWindow) -> int:
        assert isinstance(window, SharedWindows)
        back = window.engine.structure().back
        self._assert_answers(window, back)
        window.check()
        found = audit(window)
        assert not [damage for damage in found.damaged if damage.needed], found.damaged
        self._assert_goes_on(window, back)
        return back

    def _assert_answers(self, window: SharedWindows, back: int) -> None:
        sizes = window.stats().windows
        for name, frame in self.frames.items():
            times = self.held(frame, back)
            assert sizes[name] == len(times), f"{name} has {sizes[name]} events at {back}"
            assert window.query(name) == _text(times), f"a wrong result of {name} at {back}"
        longest = max(self.frames, key=lambda name: sizes[name])
        front = back - sizes[longest]
        assert window.range_by_position(front, back) == window.query(longest)

    def _assert_goes_on(self, window: SharedWindows, back: int) -> None:
        """Take in what follows, never to be saved: every result of every window is right."""
        for start, stop in ((back, back + 5), (back + 5, back + 6), (back + 6, back + 60)):
            times = [self.time_of(position) for position in range(start, stop)]
            results = window.extend([oracle.event(time) for time in times], times)
            for name, frame in self.frames.items() if not self.late else ():
                expected = [_text(self.held(frame, at + 1)) for at in range(start, stop)]
                assert results[name].tolist() == expected, f"wrong results of {name} after {start}"
            self._assert_answers(window, stop)


def _text(times: list[int]) -> str:
    return "".join(map(oracle.event, times))
