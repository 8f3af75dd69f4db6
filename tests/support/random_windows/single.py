"""The life of one ``Window``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import numpy as np

from mta import CountWindow, TimeWindow, Window
from mta.errors import EmptyWindow, LateEvent
from mta.logs.base import Aggregator
from stores import MemoryStore
from tests.support.random_windows import hostile
from tests.support.random_windows.base import Life
from tests.support.random_windows.kinds import Kind
from tests.support.random_windows.lists import OneWindow, Stream, take
from tests.support.random_windows.rules import SECOND, Event, draw_rule


class SingleLife(Life):
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
        self.aggregator = aggregator
        self.rule = draw_rule(random, kind)
        lateness = None
        if aggregator.by_time:
            lateness = random.choice([0, 5 * SECOND, 100 * SECOND]) if self.rule.settled else 0
        timed = self.rule.needs_times or aggregator.by_time
        self.stream, self.one = Stream(timed, lateness), OneWindow(self.rule)
        self.options: dict[str, Any] = {
            "aggregator": aggregator,
            "on_late": random.choice(["drop", "raise"]),
            "retain": self.retain,
            "allowed_lateness": timedelta(microseconds=lateness) if lateness else None,
        }
        self.monoid, self.frame = kind.monoid(self.stream.is_late), self.rule.frame()
        self.window = self.begin()

    def begin(self) -> Window:
        return Window(self.monoid, self.frame, self.store, "w", **self.sizes(), **self.options)

    def __repr__(self) -> str:
        tree = self.aggregator.__name__
        return f"{self.kind.name}, {tree}, {self.rule}, {self.options}, {self.store}"

    def watch(self) -> None:
        self.window.check()
        assert len(self.window) == self.window.stats().events == len(self.held)
        repr(self.window)

    @property
    def subject(self) -> tuple[Any, Stream]:
        return self.window, self.stream

    @property
    def held(self) -> list[Any]:
        """The values in the window."""
        return self.stream.values(self.one.front)

    def next_batch(self, most: int = 25) -> list[Event] | None:
        """Events to come; None where one of them is late and that is an error."""
        batch = self.renumber(self.stream, self.batch(self.stream, most))
        times = [time for time, _ in batch]
        if self.options["on_late"] == "raise" and len(self.stream.accepted(times)) < len(times):
            values, given = self.values(batch), self.times(batch)
            self.assert_refused(lambda: self.window.extend(values, given), LateEvent, "late events")
            return None
        return batch

    def insert(self) -> None:
        for time, _ in self.batch(self.stream, 3)[:3]:
            batch = self.renumber(self.stream, [(time, self.value())])
            self.insert_one(batch)

    def insert_one(self, batch: list[Event]) -> None:
        (time, value), given = batch[0], None
        if self.stream.timed:
            given = self.form(time)
        self.note(f"{value!r} at {given!r}")
        if not self.stream.accepted([time]) and self.options["on_late"] == "raise":
            self.assert_refused(lambda: self.window.insert(value, given), LateEvent, "late event")
            return
        self.window.insert(value, given)
        take(self.stream, [self.one], batch)

    def extend(self) -> None:
        batch = self.next_batch()
        if batch is None:
            return
        wanted = self.random.choice(["all", "all", "last"])
        times = self.times(batch) if self.stream.timed else None
        self.note(f"{batch} {wanted}")
        results = self.window.extend(self.values(batch), times, wanted)
        expected = take(self.stream, [self.one], batch)[0]
        if wanted == "all":
            self.assert_all(results, expected)
        elif expected:
            self.assert_all(results, [self.held])

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
        take(self.stream, [self.one], batch)
        if not chosen:
            assert not len(revision.index)
            return
        first = self.stream.after(batch[chosen[0]][0] - 1)
        at = next(
            i for i in range(first, len(self.stream.events))
            if self.stream.events[i] is batch[chosen[0]]
        )  # fmt: skip
        assert revision.times.astype("i8").tolist() == [t for t, _ in self.stream.events[at:]]
        placed = [int(i) for i in revision.index if i >= 0]
        assert placed == chosen, f"{placed} where {chosen} is right"
        floor = 0 if self.stream.is_late else front
        self.assert_all(
            revision.results,
            [
                self.stream.values(max(floor, self.one.ending_with(self.stream, i)), i + 1)
                for i in range(at, len(self.stream.events))
            ],
        )

    def ask(self) -> None:
        self.query()

    def query(self) -> None:
        self.assert_is(self.window.query(), self.held)

    def evict(self) -> None:
        """Where nothing is late: what is evicted then may still be asked for by late events."""
        if self.stream.is_late:
            return
        held = len(self.held)
        count = self.random.choice([0, min(1, held), held // 2, held])
        self.note(str(count))
        self.window.evict(count)
        self.one.front += count

    def evict_by_numpy(self) -> None:
        if self.held and not self.stream.is_late:
            self.window.evict(np.int64(1))  # type: ignore[arg-type]
            self.one.front += 1

    def evict_too_many(self) -> None:
        more = len(self.held) + self.random.choice([1, 2, 100])
        self.assert_refused(lambda: self.window.evict(more), EmptyWindow, f"evict({more})")
        told = hostile.refusal(lambda: self.window.evict(more))
        assert f"{more} events of a window of {len(self.held)}" in str(told)

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
        ask = np.datetime64(after, "us"), np.datetime64(until, "us")
        self.note(f"{after} to {until}")
        self.assert_part(
            lambda partial: self.window.range(*ask, partial=partial),
            self.stream,
            self.stream.after(after),
            self.stream.after(until),
            self.one.front,
        )

    def ask_for_positions(self) -> None:
        count = len(self.stream.events)
        first = self.random.choice([0, max(0, self.one.front - 3), self.one.front])
        start = self.random.randint(min(first, count), count)
        stop = self.random.randint(start, count)
        self.note(f"{start} to {stop}")
        self.assert_part(
            lambda partial: self.window.range_by_position(start, stop, partial=partial),
            self.stream,
            start,
            stop,
            self.one.front,
        )

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
            take(self.stream, [self.one], batch)

    def evict_by_no_count(self) -> None:
        count = self.random.choice(hostile.NO_COUNTS)
        self.note(repr(count))
        self.assert_refused(
            lambda: self.window.evict(count), (ValueError, TypeError), f"evict({count!r})"
        )  # type: ignore[arg-type]

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

    # --- snapshots --------------------------------------------------------------------------------

    def _save(self) -> bytes:
        return self.window.checkpoint()

    def _copy(self) -> Any:
        return self.stream.copy(), self.one.copy()

    def _go_back(self, snapshot: bytes, then: Any) -> None:
        stream, one = then
        self.stream, self.one = stream.copy(), one.copy()
        if self.random.random() < 0.5 and not self.reopened():
            self.window = self.window.restore_like(snapshot)
        else:
            assert self.store is not None
            self.window = Window.restore(
                snapshot, self.store, aggregations=self.monoid, window=self.frame, **self.options
            )
