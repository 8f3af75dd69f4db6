"""The lives of one ``Window``, and of ``SharedWindows`` that come, go, grow and shrink."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np

from mta import CountWindow, Product, SharedWindows, TimeWindow, Window
from mta.algorithms import AmortizedMTA
from mta.errors import EmptyWindow, LateEvent
from mta.logs.base import Aggregator
from mta.logs.levels.log import LevelLog
from mta.monoids.product import result_name
from stores import MemoryStore
from tests.support.random_windows import hostile
from tests.support.random_windows.base import STARTS, Life
from tests.support.random_windows.kinds import Kind
from tests.support.random_windows.lists import OneWindow, Stream, take
from tests.support.random_windows.rules import SECOND, Event, Rule, draw_rule


class WindowsLife(Life):
    """One window or several over the same events, each with its list."""

    windows: dict[str, OneWindow]
    options: dict[str, Any]

    @property
    def needed(self) -> int:
        """From which position on events are kept."""
        return min((window.front for window in self.windows.values()), default=len(self.stream))

    def held(self, name: str) -> list[Any]:
        """The values in a window."""
        return self.stream.values(self.windows[name].front)

    def take(self, batch: list[Event]) -> list[list[list[Any]]]:
        return take(self.stream, [*self.windows.values()], batch)

    def insert_one(self, batch: list[Event], value: Any, given: Any) -> None:
        self.window.insert(value, given)
        self.take(batch)

    def assert_range(self, after: int, until: int) -> None:
        """A range of times is answered as far as it is kept."""
        ask = np.datetime64(after, "us"), np.datetime64(until, "us")
        self.note(f"{after} to {until}")
        start, stop = self.stream.after(after), self.stream.after(until)
        self.assert_part(lambda partial: self.window.range(*ask, partial=partial), start, stop)

    def assert_positions(self, start: int, stop: int) -> None:
        self.note(f"{start} to {stop}")
        self.assert_part(
            lambda partial: self.window.range_by_position(start, stop, partial=partial), start, stop
        )

    def watch_ranges(self) -> None:
        """Ask for ranges up to the newest event, of level queues: others keep what they read."""
        if not isinstance(self.window.structure(), LevelLog):
            return
        back = len(self.stream)
        for start in {self.needed, (self.needed + back) // 2}:
            found = self.window.range_by_position(start, back)
            assert self.kind.agrees(found, self.stream.values(start))

    def _save(self) -> bytes:
        snapshot: bytes = self.window.checkpoint()
        return snapshot

    def _copy(self) -> Any:
        copies = {name: window.copy() for name, window in self.windows.items()}
        return self.stream.copy(), copies, getattr(self.window, "windows", None)

    def _go_back(self, snapshot: bytes, then: Any) -> None:
        stream, windows, frames = then
        self.stream = stream.copy()
        self.windows = {name: window.copy() for name, window in windows.items()}
        same = frames is None or {n: f.fingerprint for n, f in frames.items()} == {
            n: f.fingerprint for n, f in self.window.windows.items()
        }
        if same and self.random.random() < 0.5 and not self.reopened():
            self.window = self.window.restore_like(snapshot)
        else:
            assert self.store is not None
            window = self.frame if frames is None else frames
            self.window = type(self.window).restore(
                snapshot, self.store, aggregations=self.monoid, window=window, **self.options
            )


class SingleLife(WindowsLife):
    """One ``Window``."""

    steps = (
        "insert", "insert", "insert", "extend", "extend", "extend", "evict", "evict_too_many",
        "query", "query", "ask_for_times", "ask_for_positions", "revise", "checkpoint",
        "checkpoint", "crash", "crash",
    )  # fmt: skip
    hostile_steps = (
        "give_null", "give_unpageable", "give_no_time", "evict_by_numpy", "evict_by_no_count",
        "ask_badly",
    )  # fmt: skip

    def __init__(self, random: Random, kind: Kind, aggregator: type[Aggregator]) -> None:
        super().__init__(random, kind)
        self.aggregator, rule, lateness = aggregator, self.rule(), None
        if aggregator.by_time:
            lateness = random.choice([0, 5 * SECOND, 100 * SECOND]) if rule.settled else 0
        self.stream = Stream(rule.needs_times or aggregator.by_time, lateness)
        self.one = OneWindow(rule)
        self.options = {
            "aggregator": aggregator,
            "on_late": random.choice(["drop", "raise"]),
            "retain": self.retain,
            "allowed_lateness": timedelta(microseconds=lateness) if lateness else None,
        }
        self.monoid, self.frame = kind.monoid(self.stream.is_late), rule.frame()
        self.window = self.begin()

    def rule(self) -> Rule:
        return draw_rule(self.random, self.kind)

    def begin(self) -> Window:
        return Window(self.monoid, self.frame, self.store, "w", **self.sizes(), **self.options)

    @property
    def one(self) -> OneWindow:
        return self.windows[""]

    @one.setter
    def one(self, window: OneWindow) -> None:
        self.windows = {"": window}

    def __repr__(self) -> str:
        tree = self.aggregator.__name__
        return f"{self.kind.name}, {tree}, {self.one.rule}, {self.options}, {self.store}"

    def watch(self) -> None:
        self.window.check()
        assert len(self.window) == self.window.stats().events == len(self.held(""))
        repr(self.window)
        self.watch_ranges()
        if issubclass(self.aggregator, AmortizedMTA) and not self.frame.lags:
            assert self.kind.agrees(self.window.query(), self.held(""))

    def is_refused(self, batch: list[Event], call: Callable[[], Any]) -> bool:
        """Whether an event is late and that is an error, as a call must say."""
        times = [time for time, _ in batch]
        late = self.options["on_late"] == "raise" and len(self.stream.accepted(times)) < len(times)
        if late:
            self.assert_refused(call, LateEvent, "late events")
        return late

    def next_batch(self, most: int = 25) -> list[Event] | None:
        """Events to come; None where one of them is late and that is an error."""
        batch = self.renumber(self.batch(most))
        values, given = self.values(batch), self.times(batch)
        return None if self.is_refused(batch, lambda: self.window.extend(values, given)) else batch

    def insert_one(self, batch: list[Event], value: Any, given: Any) -> None:
        if not self.is_refused(batch, lambda: self.window.insert(value, given)):
            super().insert_one(batch, value, given)

    def extend(self) -> None:
        batch = self.next_batch()
        if batch is None:
            return
        wanted = self.random.choice(["all", "all", "last"])
        times = self.times(batch) if self.stream.timed else None
        self.note(f"{batch} {wanted}")
        results = self.window.extend(self.values(batch), times, wanted)
        expected = self.take(batch)[0]
        if wanted == "all":
            self.assert_all(results, expected)
        elif expected:
            self.assert_all(results, [self.held("")])

    def revise(self) -> None:
        """What a batch changes; of windows by count or time in order of time alone."""
        if not self.aggregator.by_time or type(self.frame) not in (CountWindow, TimeWindow):
            return
        batch = self.next_batch(8)
        if batch is None:
            return
        front = self.one.front
        revision = self.window.revise(self.values(batch), self.times(batch))
        chosen = self.stream.accepted([time for time, _ in batch])
        self.take(batch)
        if not chosen:
            assert not len(revision.index)
            return
        events, first = self.stream.events, batch[chosen[0]]
        at = next(i for i in range(self.stream.after(first[0] - 1), len(events))
                  if events[i] is first)  # fmt: skip
        assert revision.times.astype("i8").tolist() == [time for time, _ in events[at:]]
        placed = [int(i) for i in revision.index if i >= 0]
        assert placed == chosen, f"{placed} where {chosen} is right"
        floor = 0 if self.stream.is_late else front
        fronts = [max(floor, self.one.ending_with(self.stream, i)) for i in range(at, len(events))]
        self.assert_all(
            revision.results,
            [self.stream.values(front, i) for i, front in enumerate(fronts, at + 1)],
        )

    def query(self) -> None:
        self.assert_is(self.window.query(), self.held(""))

    ask = query

    def evict(self) -> None:
        """Where nothing is late: what is evicted then may still be asked for by late events."""
        if self.stream.is_late:
            return
        held = len(self.held(""))
        count = self.random.choice([0, min(1, held), held // 2, held])
        self.note(str(count))
        self.window.evict(count)
        self.one.front += count

    def evict_by_numpy(self) -> None:
        if self.held("") and not self.stream.is_late:
            self.window.evict(np.int64(1))
            self.one.front += 1

    def evict_too_many(self) -> None:
        held = len(self.held(""))
        more = held + self.random.choice([1, 2, 100])
        error = hostile.refusal(lambda: self.window.evict(more))
        assert isinstance(error, EmptyWindow) and f"{more} events of a window of {held}" in str(
            error
        )

    def ask_for_times(self) -> None:
        if not self.stream.timed:
            return
        known = [time for time, _ in self.stream.events[-40:]] or [self.now]
        after = self.random.choice(known) - self.random.choice([0, 1, SECOND])
        until = max(after, self.random.choice([*known, self.now]))
        if self.random.random() < 0.3:  # what a time window of a size holds
            until, after = max(known), max(known) - self.random.choice([1, 5, 45]) * SECOND
            if type(self.frame) is TimeWindow and self.random.random() < 0.5:
                after = max(known) - self.frame.size
        self.assert_range(after, until)

    def ask_for_positions(self) -> None:
        count = len(self.stream.events)
        first = self.random.choice([0, max(0, self.one.front - 3), self.one.front])
        start = self.random.randint(min(first, count), count)
        self.assert_positions(start, self.random.randint(start, count))

    # --- what nobody should give ------------------------------------------------------------------

    def give_unpageable(self) -> None:
        """Refused at the entry, or it can be saved; where no page is written, anything goes."""
        if not self.kind.takes_anything:
            return
        value = self.random.choice(hostile.UNPAGEABLE)
        batch = [(self.now, value)]
        times = self.times(batch) if self.stream.timed else None
        call, how = self.insert_or_extend(value, [value], times)
        self.note(f"{value!r} {how}")
        if not self.refused(call):
            self.take(batch)

    def evict_by_no_count(self) -> None:
        count = self.random.choice(hostile.NO_COUNTS)
        self.note(repr(count))
        self.assert_refused(
            lambda: self.window.evict(count), (ValueError, TypeError), f"evict({count!r})"
        )

    def ask_badly(self) -> None:
        """Calls that are wrong in their form; refused, or answered and without effect."""
        window, bad = self.window, self.random.choice(hostile.NO_COUNTS)
        value = self.value()
        values, times = self.kind.batch([value, value]), self.times([(self.now, None)])
        call: Callable[[], Any] = self.random.choice(
            [
                lambda: window.extend(values, times if self.stream.timed else None, "some"),
                lambda: window.extend(5, times),
                lambda: window.range_by_position(bad, bad),
                lambda: window.range_by_position(0, len(self.stream.events) + 1),
                lambda: window.range("a", "b"),
                lambda: window.range(5, 4),
                lambda: Window.restore(
                    b"", self.store or MemoryStore(), aggregations=self.monoid, window=self.frame
                ),
            ]
        )
        self.refused(call)


_NAMES = ["a", "b", "c", "d"]


class SharedLife(WindowsLife):
    """``SharedWindows``, with windows that come, go, grow and shrink."""

    steps = (
        "insert", "insert", "insert", "extend", "extend", "extend", "ask", "query_one",
        "query_frame", "ask_for_times", "ask_for_positions", "set", "set", "remove", "coverage",
        "checkpoint", "checkpoint", "crash", "crash",
    )  # fmt: skip
    hostile_steps = ("give_null", "give_no_time")

    def __init__(self, random: Random, kind: Kind, by_time: bool) -> None:
        super().__init__(random, kind)
        self.now = random.choice(STARTS)
        lateness = random.choice([0, 5 * SECOND, 100 * SECOND]) if by_time else None
        chosen = {
            name: draw_rule(random, kind, settled=True, sessions=False)
            for name in _NAMES[: random.choice([0, 1, 2, 3, 4])]
        }
        #: Whether a frame looks at values: then one of that sort must stay.
        self.weighed = any(not rule.positional for rule in chosen.values())
        self.retain_for = random.choice([None, None, CountWindow(10), CountWindow(30)])
        timed = lateness is not None or random.random() < 0.7
        timed = timed or any(rule.needs_times for rule in chosen.values())
        self.stream = Stream(timed, lateness)
        self.windows = {name: OneWindow(rule) for name, rule in chosen.items()}
        self.monoid = kind.monoid(self.stream.is_late)
        late = 0 if not lateness else timedelta(microseconds=lateness)
        self.options = {
            "on_late": "drop", "retain": self.retain, "retain_for": self.retain_for,
            "allowed_lateness": None if lateness is None else late,
        }  # fmt: skip
        frames = {name: rule.frame() for name, rule in chosen.items()}
        self.window = SharedWindows(
            self.monoid, frames, self.store, **self.sizes(), timed=timed, **self.options
        )

    def __repr__(self) -> str:
        rules = {name: window.rule for name, window in self.windows.items()}
        return f"{self.kind.name}, shared {rules}, {self.options}, {self.store}"

    def watch(self) -> None:
        self.window.check()
        assert self.window.stats().inserted == len(self.stream)
        repr(self.window), self.window.fronts
        for name in self.windows:
            assert self.window.coverage(name).events == len(self.held(name))
        self.watch_ranges()

    @property
    def needed(self) -> int:
        if self.retain_for is None:
            return super().needed
        return min(super().needed, max(0, len(self.stream) - self.retain_for.size))

    def extend(self) -> None:
        batch = self.renumber(self.batch())
        wanted = self.random.choice(["all", "all", "last"])
        self.note(f"{batch} {wanted}")
        times = self.times(batch) if self.stream.timed else None
        found = self.window.extend(self.values(batch), times, wanted)
        aliases = self.monoid.aliases if isinstance(self.monoid, Product) else [""]
        assert found.keys() == {
            result_name(a, name) if a else name for a in aliases for name in self.windows
        }
        expected = self.take(batch)
        for (name, window), results in zip(self.windows.items(), expected, strict=True):
            got = found.get(name)
            if isinstance(self.monoid, Product):
                got = {alias: found[result_name(alias, name)] for alias in aliases}
            if wanted == "last":
                self.assert_all(got, [self.held(name)] if results else [])
            elif not window.floor or not self.stream.is_late:
                self.assert_all(got, results)

    def ask(self) -> None:
        found = self.window.query()
        assert found.keys() == self.windows.keys()
        for name in self.windows:
            self.assert_is(found[name], self.held(name))

    def query_one(self) -> None:
        if self.windows:
            name = self.random.choice(sorted(self.windows))
            self.note(name)
            self.assert_is(self.window.query(name), self.held(name))

    def rule(self) -> Rule:
        """A frame that can be set."""
        while True:
            rule = draw_rule(
                self.random, self.kind, settled=True, positional=not self.weighed, sessions=False
            )
            if self.stream.timed or not rule.needs_times:
                return rule

    def query_frame(self) -> None:
        rule = self.rule()
        window, frame = OneWindow(rule), rule.frame()
        window.move(self.stream)
        self.note(f"{rule}")
        self.assert_part(
            lambda partial: self.window.query(frame, partial=partial),
            window.front,
            len(self.stream),
            # Nobody knows what a frame on values would have made of events that have left.
            self.needed if rule.positional else len(self.stream) + 1,
        )

    def ask_for_times(self) -> None:
        if not self.stream.timed:
            return
        known = [time for time, _ in self.stream.events[-40:]] or [self.now]
        after = self.random.choice(known) - self.random.choice([0, 1, SECOND, 20 * SECOND])
        self.assert_range(after, max(after, self.random.choice([*known, self.now])))

    def ask_for_positions(self) -> None:
        start = self.random.randint(0, len(self.stream))
        self.assert_positions(start, self.random.randint(start, len(self.stream)))

    def set(self) -> None:
        """Add a window, or make one longer or shorter."""
        name, rule, needed = self.random.choice(_NAMES), self.rule(), self.needed
        self.note(f"{name} {rule}")
        change = self.window.resize if name in self.windows else self.window.add
        if rule.positional and self.is_last_weight(name):
            self.assert_refused(lambda: change(name, rule.frame()), ValueError, "a last weight")
            return
        coverage = change(name, rule.frame())
        self.windows[name] = OneWindow(rule)
        self.windows[name].move(self.stream)
        self.assert_coverage(coverage, self.windows[name], needed)

    def assert_coverage(self, coverage: Any, window: OneWindow, needed: int) -> None:
        """What a window says of itself; take it at its word where events may have left."""
        self.answered(coverage)
        cut = window.front
        assert cut <= coverage.front <= max(cut, needed), (
            f"it begins at {coverage.front}, not at {cut}"
        )
        assert coverage.events == len(self.stream) - coverage.front
        kept = self.window.structure().front
        missing = max(0, kept - min(cut, self._late_cut(window.rule, cut)))
        assert coverage.missing_at_least <= missing <= coverage.missing_at_most, (
            f"{missing} are missing"
        )
        window.front, window.floor = coverage.front, kept if missing else 0

    def _late_cut(self, rule: Rule, cut: int) -> int:
        """Where the window begins that ends with an event as late as may be."""
        stream = self.stream
        if not stream.is_late or not rule.positional or stream.newest is None:
            return cut
        time = stream.newest - (stream.lateness or 0)
        before = stream.events[: stream.after(time)]
        return max(0, rule.cut([*before, (time, None)], 0, time))

    def is_last_weight(self, name: str) -> bool:
        """Whether no other window looks at values, and one must."""
        others = [window.rule for n, window in self.windows.items() if n != name]
        return self.weighed and all(rule.positional for rule in others)

    def remove(self) -> None:
        if self.windows:
            name = self.random.choice(sorted(self.windows))
            self.note(name)
            if self.is_last_weight(name):
                self.assert_refused(lambda: self.window.remove(name), ValueError, "a last weight")
                return
            self.window.remove(name)
            del self.windows[name]

    def coverage(self) -> None:
        """A window that says that it is complete is so; one that misses nothing may not know it."""
        assert self.window.stats().inserted == len(self.stream)
        for name, window in self.windows.items():
            coverage = self.window.coverage(name)
            self.answered(coverage)
            assert coverage.front == window.front and coverage.events == len(self.held(name))
            cut = max(0, window.rule.cut(self.stream.events, 0, self.stream.newest or 0))
            if self.stream.events and coverage.complete:
                assert cut >= window.front, f"{name} misses {window.front - cut} events"
