"""Windows that are restored with other sizes and another lateness, held against all that came.

The oracle is the list of all events in order of time, whatever has left. What of it is still kept
is asked of the window itself, by ranges; all else follows from the list: where each window begins,
its result, and how many events it misses.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mta import CountWindow, SessionWindow, SharedWindows, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, FiBA, LogMTA, PagedFlatFAT, PagedReactiveAggregator
from mta.errors import EventsGone, SnapshotMismatch
from mta.evaluators.coverage import Coverage
from mta.frames import BoundWindow
from mta.frames.base import Frame
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support import oracle
from tests.support.naive import CrowdedFiBA, joined, window_of
from tests.support.random_windows.lists import Stream
from tests.support.sampling import parts

#: Whether events are in order of time, and the structure of a single window.
SCENARIOS: dict[str, tuple[bool, type[Aggregator] | None]] = {
    "FiBA": (True, FiBA), "crowded FiBA": (True, CrowdedFiBA),
    "Amortized MTA": (False, AmortizedMTA), "Log MTA": (False, LogMTA),
    "FlatFAT": (False, PagedFlatFAT), "Reactive Aggregator": (False, PagedReactiveAggregator),
    "shared": (False, None), "shared, by time": (True, None),
}  # fmt: skip


#: An event: its time in seconds, and its value, a text of its own.
Event = tuple[int, str]
SIZES = [1, 2, 3, 5, 9, 17, 30]


def cut_of(frame: Frame, events: list[Event], now: int) -> int:
    """Where the window over all events begins, by its frame alone."""
    start: int = window_of(frame, [time for time, _ in events], now).start
    return start


class ChangingLife:
    """A window, or several, and all events there have been, but for those taken out.

    What has left a window stays away, but when it is restored with another frame.
    """

    def __init__(self, random: Random, is_late: bool, aggregator: type[Aggregator] | None) -> None:
        self.random, self.store, self.is_late = random, MemoryStore(), is_late
        self._choices = [0, 0, 4, 12] if is_late else [0]
        self.lateness = random.choice(self._choices)
        self.is_single = aggregator is not None
        self.frames = {name: self.draw_frame() for name in ("ab" if aggregator is None else ["w"])}
        self.options: dict[str, Any] = {"aggregator": aggregator} if self.is_single else {}
        settings = {"arity": 2, "leaf_arity": random.choice([2, 5]), **self.options}
        if not self.is_single:
            settings["timed"] = True
        make: Any = Window if self.is_single else SharedWindows
        self.window: Any = make(
            joined(), self.given, self.store, "w", allowed_lateness=self.allowed, **settings
        )
        #: The position of the oldest event in each window.
        self.fronts = dict.fromkeys(self.frames, 0)
        self.stream, self.number = Stream(True, None, newest=0), 0
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
        found = self.window.extend([value for _, value in batch], [time for time, _ in batch])
        found = {"w": found} if self.is_single else found
        for event in batch:
            self.add(event)
        if self.is_late:
            for name in complete:
                assert list(found[name]) == [self.as_of(name, event) for event in batch]

    def insert(self) -> None:
        event = self.batch()[0]
        self.window.insert(event[1], event[0])
        self.add(event)

    @property
    def events(self) -> list[Event]:
        return self.stream.events

    @property
    def newest(self) -> int:
        return self.stream.newest or 0

    def add(self, event: Event) -> None:
        """Put an event in its place, behind those of its time."""
        self.moved(self.stream.add(event), 1)

    def retract(self) -> None:
        """Take out an event that is in the window, or may still be asked for."""
        if not self.events:
            return
        time = self.random.choice(self.events[-12:])[0]
        at = self.stream.after(time) - 1
        try:
            self.window.retract(time)
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
            front, coverage = self.fronts[name], self.coverage(name)
            held = "".join(value for _, value in self.events[front:])
            assert (self.window.query() if self.is_single else self.window.query(name)) == held
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
            before = [*self.events[: self.stream.after(late)], (late, "")]
            oldest = min(now, cut_of(frame, before, late))
        return max(0, front - max(now, kept)) + max(0, kept - oldest)

    def kept(self) -> int:
        """The position of the oldest event that is kept."""
        count = len(self.events)
        text = self.window.range_by_position(0, count, partial=True)
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
        snapshot = self.window.checkpoint()
        kept = self.kept()  # a snapshot may release some
        before = {name: frame.fingerprint for name, frame in self.frames.items()}
        for name in self.frames:
            if self.random.random() < 0.7:
                self.frames[name] = self.draw_frame()
        self.window = type(self.window).restore(
            snapshot, self.store, aggregations=joined(), window=self.given,
            allowed_lateness=self.allowed, **self.options,
        )  # fmt: skip
        for name, frame in self.frames.items() if self.events else ():
            if frame.fingerprint != before[name]:
                self.fronts[name] = max(kept, cut_of(frame, self.events, self.newest))

    def draw_frame(self) -> Frame:
        """A window by count, by time, or by both; events have times or have none for ever."""
        count, time = (kind(self.random.choice(SIZES)) for kind in (CountWindow, TimeWindow))
        frame: Frame = self.random.choice([count, count, time, time, count | time, count & time])
        if self.is_single and not self.is_late and not frame.needs_times:
            frame = frame | TimeWindow(self.random.choice(SIZES))
        return frame

    @property
    def given(self) -> Any:
        return self.frames["w"] if self.is_single else self.frames

    @property
    def allowed(self) -> int | None:
        return self.lateness if self.is_late else None

    def moved(self, at: int, count: int) -> None:
        """Events were added or taken out at a position."""
        for name, frame in self.frames.items():
            self.fronts[name] += count * (at < self.fronts[name])
            if self.fronts[name] < len(self.events):
                cut = cut_of(frame, self.events, self.newest)
                self.fronts[name] = max(self.fronts[name], cut)

    def coverage(self, name: str) -> Coverage:
        found: Coverage = self.window.coverage(*([] if self.is_single else [name]))
        return found


def live(name: str, seed: int, steps: int) -> ChangingLife:
    life = ChangingLife(Random(f"{name} {seed}"), *SCENARIOS[name])
    for at in range(steps):
        try:
            life.step()
        except Exception as error:
            raise AssertionError(f"life {seed} of {name}, step {at}: {error!r}") from error
    return life


@pytest.mark.parametrize("part", parts(4))
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_window_that_changes_is_a_list_and_knows_what_it_misses(name: str, part: int) -> None:
    seen = {False: 0, True: 0}
    for seed in range(part, 16, 4):
        for complete, times in live(name, seed, 40).seen.items():
            seen[complete] += times
    assert min(seen.values()) > 10


@pytest.mark.soak
@pytest.mark.parametrize("name", SCENARIOS)
def test_for_long(name: str) -> None:
    random = Random(oracle.seed(f"changed windows, {name}"))
    for _ in range(oracle.kills(2000)):
        live(name, random.randrange(1 << 32), random.choice([20, 60]))


@pytest.mark.parametrize(("count", "lateness"), [(20, 30), (40, 0), (40, 30)])
@pytest.mark.parametrize("kind", [Window, SharedWindows])
def test_a_longer_window_begins_with_the_events_that_were_kept_for_late_ones(
    kind: Any, count: int, lateness: int
) -> None:
    store, (short, long) = (
        MemoryStore(),
        (
            {"x": TimeWindow(size)} if kind is SharedWindows else TimeWindow(size)
            for size in (1, 10)
        ),
    )
    window = kind(Sum(), short, store, allowed_lateness=30)
    window.extend([1.0] * count, range(count))
    longer = kind.restore(window.checkpoint(), store, window=long, allowed_lateness=lateness)
    assert longer.query() in (10.0, {"x": 10.0})
    # Of many windows, what none needs may still be in a group that one needs.
    is_whole = count < 30 or lateness == 0
    assert longer.coverage().complete == (is_whole or kind is SharedWindows)
    found = longer.extend([1.0], [count])
    assert (found["x"] if kind is SharedWindows else found).tolist() == [10.0]


def test_coverage_knows_that_a_late_event_may_merge_a_session_with_one_that_left() -> None:
    """After a restore with a larger lateness; with the same one the session is complete."""
    store, gap = MemoryStore(), SessionWindow(2)
    for lateness, complete in ((6, True), (60, False)):
        window = Window(Sum(), gap, store, "w", allowed_lateness=6, arity=2, leaf_arity=3)
        window.extend([1.0] * 40, range(0, 120, 3))
        window = Window.restore(
            window.checkpoint(), store, aggregations=Sum(), window=gap, allowed_lateness=lateness
        )
        assert window.structure().kept_from > 0
        assert (lateness, window.coverage().complete) == (lateness, complete)


def test_frames_that_cannot_stand_for_each_other() -> None:
    store = MemoryStore()
    window = Window(Sum(), CountWindow(5), store)
    window.extend([1.0, 2.0])
    snapshot = window.checkpoint()
    with pytest.raises(SnapshotMismatch, match="so events have no times, not with"):
        Window.restore(snapshot, store, aggregations=Sum(), window=TimeWindow(5))
    with pytest.raises(SnapshotMismatch, match="not with Sum beside Sum"):
        Window.restore(snapshot, store, aggregations=Sum(), window=BoundWindow(Sum(), at_most=3.0))
    with pytest.raises(SnapshotMismatch, match="made with the frame"):
        Window(Sum(), CountWindow(4), store).restore_like(snapshot)


def test_windows_of_the_same_name_and_frame_continue_at_the_same_front() -> None:
    """Also one whose frame looks at values, and would not find its place again."""
    store, bound = MemoryStore(), BoundWindow(Sum(), at_most=5.0)
    windows = SharedWindows(Sum(), {"few": CountWindow(2), "bound": bound}, store)
    windows.extend([1.0, 9.0, 1.0, 1.0])
    before, frames = windows.fronts["bound"], {"more": CountWindow(3), "bound": bound}
    again = SharedWindows.restore(windows.checkpoint(), store, aggregations=Sum(), window=frames)
    assert again.fronts["bound"] == before == 2
    assert (again.query("more"), again.query("bound")) == (11.0, 2.0)
