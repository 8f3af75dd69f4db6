"""The lives of windows with a trigger, sliced and not."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import numpy as np

from mta import (
    CountWindow,
    EveryCount,
    EveryPeriod,
    OnDemand,
    SlicedWindow,
    TriggeredWindow,
    Window,
)
from mta.algorithms import AmortizedMTA
from mta.logs.base import Aggregator
from tests.support.random_windows.base import GAPS, STARTS, Life
from tests.support.random_windows.kinds import Kind, rows
from tests.support.random_windows.lists import DueLists, OneWindow, Stream
from tests.support.random_windows.rules import SECOND, Event, count, draw_rule, span


class DueLife(Life):
    """A window that returns results when a trigger makes them due."""

    steps = (
        "insert", "insert", "insert", "extend", "extend", "extend", "query", "flush", "advance",
        "checkpoint", "checkpoint", "crash", "crash",
    )  # fmt: skip
    hostile_steps = ("give_null", "give_no_time")

    lists: DueLists
    #: What makes results due.
    due: dict[str, Any]
    window: Any

    @property
    def stream(self) -> Stream:  # type: ignore[override]
        return self.lists.stream

    def watch(self) -> None:
        self.window.check()
        repr(self.window)

    def assert_due(self, moments: list[int], results: list[Any], expected: list[Any]) -> None:
        assert moments == [moment for moment, _ in expected], "results at wrong moments"
        for found, (_, values) in zip(results, expected, strict=True):
            self.assert_is(found, values)

    def assert_given(self, due: Any, expected: list[Any]) -> None:
        self.assert_due(due.moments.astype("i8").tolist(), rows(due.results), expected)

    def insert_one(self, batch: list[Event], value: Any, given: Any) -> None:
        pairs = self.window.insert(value, given)
        moments = [int(np.int64(moment)) for moment, _ in pairs]
        self.assert_due(moments, [one for _, one in pairs], self.lists.take(batch))

    def extend(self) -> None:
        batch = self.renumber(self.batch())
        self.note(f"{batch}")
        times = self.times(batch) if self.stream.timed else None
        due = self.window.extend(self.values(batch), times)
        self.assert_given(due, self.lists.take(batch))

    def flush(self) -> None:
        self.assert_given(self.window.flush(), self.open())

    def open(self) -> list[Any]:
        return self.lists.flush()

    def advance(self) -> None:
        if isinstance(self.lists.trigger, EveryPeriod):
            time = self.now = self.now + self.random.choice(GAPS)
            self.note(str(time))
            given = np.datetime64(time, "us")
            self.assert_given(self.window.advance(given), self.lists.advance(time))

    def ask(self) -> None:
        self.query()
        self.flush()

    def query(self) -> None:
        """Of windows that are asked at any time."""

    def _save(self) -> bytes:
        snapshot: bytes = self.window.checkpoint()
        return snapshot

    def _copy(self) -> DueLists:
        return self.lists.copy()

    def _go_back(self, snapshot: bytes, then: DueLists) -> None:
        self.lists = then.copy()
        self.window = self.again(snapshot)

    def again(self, snapshot: bytes) -> Any:
        """The window that a snapshot describes."""
        assert self.store is not None
        return type(self.window).restore(
            snapshot,
            self.store,
            aggregations=self.monoid,
            window=self.frame,
            **self.due,
            **self.options,
        )


class TriggeredLife(DueLife):
    """A ``TriggeredWindow``."""

    def __init__(self, random: Random, kind: Kind, aggregator: type[Aggregator]) -> None:
        super().__init__(random, kind)
        self.now = random.choice(STARTS)
        rule = draw_rule(random, kind, settled=True)
        trigger = random.choice(
            [EveryPeriod(1), EveryPeriod("3 seconds"), EveryPeriod("700 ms"), EveryCount(4),
             EveryCount(3), EveryCount(1), OnDemand(), OnDemand()]
        )  # fmt: skip
        lateness = None
        if aggregator.by_time:
            on_demand = isinstance(trigger, OnDemand)
            lateness = random.choice([0, 5 * SECOND, 100 * SECOND]) if on_demand else 0
        timed = rule.needs_times or aggregator.by_time or trigger.needs_times
        self.lists = DueLists(kind, trigger, Stream(timed, lateness), OneWindow(rule))
        self.monoid, self.frame = kind.monoid(self.lists.stream.is_late), rule.frame()
        self.options: dict[str, Any] = {
            "aggregator": aggregator,
            "on_late": "drop",
            "retain": self.retain,
            "allowed_lateness": timedelta(microseconds=lateness) if lateness else None,
        }
        window = Window(self.monoid, self.frame, self.store, "w", **self.sizes(), **self.options)
        self.window, self.due = TriggeredWindow(window, trigger), {"trigger": trigger}

    def __repr__(self) -> str:
        lists = self.lists
        return (
            f"{self.kind.name}, {lists.trigger}, {lists.window.rule}, {self.options}, {self.store}"
        )

    def query(self) -> None:
        self.assert_is(self.window.query(), self.held())

    def held(self) -> list[Any]:
        """The values in the window."""
        return self.lists.stream.values(self.lists.window.front)

    def watch(self) -> None:
        super().watch()
        if issubclass(self.options["aggregator"], AmortizedMTA) and not self.frame.lags:
            assert self.kind.agrees(self.window.query(), self.held())


class SlicedLife(DueLife):
    """A ``SlicedWindow``."""

    def __init__(self, random: Random, kind: Kind, aggregator: type[Aggregator]) -> None:
        super().__init__(random, kind)
        self.now = random.choice(STARTS)
        parts, slide = random.choice([1, 2, 3, 20]), random.choice([1, 2, 3])
        self.options: dict[str, Any] = {
            "aggregator": aggregator, "on_late": "drop", "retain": self.retain,
        }  # fmt: skip
        self.slide, self.due = slide, {"slide": slide}
        if random.random() < 0.5:
            rule = span(parts * slide * SECOND)
            trigger: Any = EveryPeriod(slide)
        else:
            rule, trigger = count(parts * slide), EveryCount(slide)
        self.monoid, self.frame = kind.monoid(False), rule.frame()
        self.lists = DueLists(kind, trigger, Stream(rule.needs_times, None), OneWindow(rule))
        self.window = SlicedWindow(
            self.monoid, self.frame, slide, self.store, **self.sizes(), **self.options
        )

    def __repr__(self) -> str:
        return f"{self.kind.name}, sliced {self.slide}, {self.frame}, {self.options}, {self.store}"

    def open(self) -> list[Any]:
        """By count, a window holds whole slices, and the open one in place of the oldest."""
        due, lists = self.lists.flush(), self.lists
        if due and isinstance(lists.trigger, EveryCount):
            count, slide = len(lists.stream.events), lists.trigger.count
            assert isinstance(self.frame, CountWindow)
            whole = self.frame.size - slide + count % slide
            return [(count, lists.stream.values(count - whole))]
        return due
