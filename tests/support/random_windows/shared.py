"""The life of ``SharedWindows``, with windows that come, go, grow and shrink."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np

from mta import CountWindow, Product, SharedWindows
from mta.frames import Frame
from mta.monoids.product import result_name
from tests.support.random_windows.base import STARTS, Life
from tests.support.random_windows.kinds import Kind
from tests.support.random_windows.lists import OneWindow, Stream, take
from tests.support.random_windows.rules import SECOND, Rule, draw_rule


@dataclass
class _Shared:
    """The lists of multiple windows."""

    stream: Stream
    windows: dict[str, OneWindow]

    def copy(self) -> _Shared:
        return _Shared(self.stream.copy(), {n: w.copy() for n, w in self.windows.items()})


_NAMES = ["a", "b", "c", "d"]


class SharedLife(Life):
    """``SharedWindows``, with windows that come, go, grow and shrink."""

    steps = (
        "insert", "insert", "insert", "extend", "extend", "extend", "query_all", "query_one",
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
        self.timed = lateness is not None or random.random() < 0.7
        timed = self.timed or any(rule.needs_times for rule in chosen.values())
        self.lists = _Shared(
            Stream(timed, lateness), {name: OneWindow(rule) for name, rule in chosen.items()}
        )
        self.monoid = kind.monoid(self.lists.stream.is_late)
        self.options: dict[str, Any] = {
            "on_late": "drop",
            "retain": self.retain,
            "retain_for": self.retain_for,
            "allowed_lateness": None if lateness is None else 0 if not lateness
            else timedelta(microseconds=lateness),
        }  # fmt: skip
        frames = {name: rule.frame() for name, rule in chosen.items()}
        self.shared = SharedWindows(
            self.monoid, frames, self.store, **self.sizes(), timed=timed, **self.options
        )

    def __repr__(self) -> str:
        rules = {name: window.rule for name, window in self.lists.windows.items()}
        return f"{self.kind.name}, shared {rules}, {self.options}, {self.store}"

    def watch(self) -> None:
        self.shared.check()
        stats = self.shared.stats()
        assert stats.inserted == len(self.lists.stream.events)
        repr(self.shared), self.shared.fronts
        for name, window in self.lists.windows.items():
            assert self.shared.coverage(name).events == len(self.held(window))

    @property
    def subject(self) -> tuple[Any, Stream]:
        return self.shared, self.lists.stream

    def held(self, window: OneWindow) -> list[Any]:
        return self.lists.stream.values(window.front)

    @property
    def needed(self) -> int:
        """From which position on events must be kept."""
        stream = self.lists.stream
        fronts = [window.front for window in self.lists.windows.values()]
        if self.retain_for is not None:
            fronts.append(max(0, len(stream.events) - self.retain_for.size))
        return min(fronts, default=len(stream.events))

    def insert(self) -> None:
        for time, _ in self.batch(self.lists.stream, 3)[:3]:
            batch = self.renumber(self.lists.stream, [(time, self.value())])
            value, given = batch[0][1], self.form(time) if self.lists.stream.timed else None
            self.note(f"{value!r} at {given!r}")
            self.shared.insert(value, given)
            take(self.lists.stream, [*self.lists.windows.values()], batch)

    def extend(self) -> None:
        batch = self.renumber(self.lists.stream, self.batch(self.lists.stream))
        wanted = self.random.choice(["all", "all", "last"])
        self.note(f"{batch} {wanted}")
        stream, windows = self.lists.stream, self.lists.windows
        times = self.times(batch) if stream.timed else None
        found = self.shared.extend(self.values(batch), times, wanted)
        monoid = self.shared.monoid
        aliases = monoid.aliases if isinstance(monoid, Product) else [""]
        assert found.keys() == {
            result_name(a, name) if a else name for a in aliases for name in windows
        }
        expected = take(stream, [*windows.values()], batch)
        for (name, window), results in zip(windows.items(), expected, strict=True):
            got = found.get(name)
            if isinstance(monoid, Product):
                got = {alias: found[result_name(alias, name)] for alias in aliases}
            if wanted == "last":
                self.assert_all(got, [self.held(window)] if results else [])
            elif not window.floor or not stream.is_late:
                self.assert_all(got, results)

    def ask(self) -> None:
        self.query_all()

    def query_all(self) -> None:
        found = self.shared.query()
        assert found.keys() == self.lists.windows.keys()
        for name, window in self.lists.windows.items():
            self.assert_is(found[name], self.held(window))

    def query_one(self) -> None:
        if self.lists.windows:
            name = self.random.choice(sorted(self.lists.windows))
            self.note(name)
            self.assert_is(self.shared.query(name), self.held(self.lists.windows[name]))

    def rule(self) -> Rule:
        """A frame that can be set."""
        while True:
            rule = draw_rule(
                self.random, self.kind, settled=True, positional=not self.weighed, sessions=False
            )
            if self.lists.stream.timed or not rule.needs_times:
                return rule

    def query_frame(self) -> None:
        rule, stream = self.rule(), self.lists.stream
        window = OneWindow(rule)
        window.move(stream)
        self.note(f"{rule}")
        frame = rule.frame()
        self.assert_part(
            lambda partial: self.shared.query(frame, partial=partial),
            stream,
            window.front,
            len(stream.events),
            # Nobody knows what a frame on values would have made of events that have left.
            self.needed if rule.positional else len(stream.events) + 1,
        )

    def ask_for_times(self) -> None:
        stream = self.lists.stream
        if not stream.timed:
            return
        known = [time for time, _ in stream.events[-40:]] or [self.now]
        after = self.random.choice(known) - self.random.choice([0, 1, SECOND, 20 * SECOND])
        until = max(after, self.random.choice([*known, self.now]))
        ask = np.datetime64(after, "us"), np.datetime64(until, "us")
        self.note(f"{after} to {until}")
        self.assert_part(
            lambda partial: self.shared.range(*ask, partial=partial),
            stream, stream.after(after), stream.after(until), self.needed,
        )  # fmt: skip

    def ask_for_positions(self) -> None:
        stream = self.lists.stream
        start = self.random.randint(0, len(stream.events))
        stop = self.random.randint(start, len(stream.events))
        self.note(f"{start} to {stop}")
        self.assert_part(
            lambda partial: self.shared.range_by_position(start, stop, partial=partial),
            stream, start, stop, self.needed,
        )  # fmt: skip

    def set(self) -> None:
        """Add a window, or make one longer or shorter."""
        name, rule = self.random.choice(_NAMES), self.rule()
        windows, needed = self.lists.windows, self.needed
        self.note(f"{name} {rule}")
        change = self.shared.resize if name in windows else self.shared.add
        if self.weighed and not self._weighed_without(name) and rule.positional:
            self.assert_refused(lambda: change(name, rule.frame()), ValueError, "a last weight")
            return
        coverage = change(name, rule.frame())
        windows[name] = OneWindow(rule)
        windows[name].move(self.lists.stream)
        self.assert_coverage(coverage, windows[name], needed)

    def assert_coverage(self, coverage: Any, window: OneWindow, needed: int) -> None:
        """What a window says of itself; take it at its word where events may have left."""
        self.answered(coverage)
        cut, count = window.front, len(self.lists.stream.events)
        assert cut <= coverage.front <= max(cut, needed), (
            f"it begins at {coverage.front}, not at {cut}"
        )
        assert coverage.events == count - coverage.front
        kept = self.shared.structure().front
        missing = max(0, kept - min(cut, self._late_cut(window.rule, cut)))
        assert coverage.missing_at_least <= missing <= coverage.missing_at_most, (
            f"{missing} are missing"
        )
        window.front = coverage.front
        window.floor = kept if missing else 0

    def _late_cut(self, rule: Rule, cut: int) -> int:
        """Where the window begins that ends with an event as late as may be."""
        stream = self.lists.stream
        if not stream.is_late or not rule.positional or stream.newest is None:
            return cut
        time = stream.newest - (stream.lateness or 0)
        before = stream.events[: stream.after(time)]
        return max(0, rule.cut([*before, (time, None)], 0, time))

    def _weighed_without(self, name: str) -> bool:
        others = [window.rule for n, window in self.lists.windows.items() if n != name]
        return any(not rule.positional for rule in others)

    def remove(self) -> None:
        if self.lists.windows:
            name = self.random.choice(sorted(self.lists.windows))
            self.note(name)
            if self.weighed and not self._weighed_without(name):
                self.assert_refused(lambda: self.shared.remove(name), ValueError, "a last weight")
                return
            self.shared.remove(name)
            del self.lists.windows[name]

    def coverage(self) -> None:
        """A window that says that it is complete is so; one that misses nothing may not know it."""
        assert self.shared.stats().inserted == len(self.lists.stream.events)
        for name, window in self.lists.windows.items():
            coverage = self.shared.coverage(name)
            self.answered(coverage)
            assert coverage.front == window.front and coverage.events == len(self.held(window))
            cut = max(
                0, window.rule.cut(self.lists.stream.events, 0, self.lists.stream.newest or 0)
            )
            if self.lists.stream.events and coverage.complete:
                assert cut >= window.front, f"{name} misses {window.front - cut} events"

    def _save(self) -> bytes:
        return self.shared.checkpoint()

    def _copy(self) -> tuple[_Shared, dict[str, Frame]]:
        return self.lists.copy(), dict(self.shared.windows)

    def _go_back(self, snapshot: bytes, then: Any) -> None:
        lists, frames = then
        self.lists = lists.copy()
        same = {n: p.fingerprint for n, p in frames.items()} == {
            n: p.fingerprint for n, p in self.shared.windows.items()
        }
        if same and self.random.random() < 0.5 and not self.reopened():
            self.shared = self.shared.restore_like(snapshot)
        else:
            assert self.store is not None
            self.shared = SharedWindows.restore(
                snapshot, self.store, aggregations=self.monoid, window=frames, **self.options
            )
