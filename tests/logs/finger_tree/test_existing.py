"""Out-of-order windows whole: events that replace, join or stand beside others, and retractions.

After the FiBA paper, definition 2.1: ``insert`` at a time that has an event already, and ``evict``
of any time, against a sorted list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import (
    CountWindow,
    Max,
    Mean,
    Monoid,
    Product,
    SessionWindow,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.algorithms import AmortizedMTA, FiBA
from mta.errors import EventsGone, NoSuchEvent, UnsuitableMonoid, UnsupportedOperation
from mta.frames import CustomFrame
from mta.logs.finger_tree import FingerTree
from stores import MemoryStore
from stores.testing.counting import CountingStore
from tests.support.counted import Counted
from tests.support.naive import CrowdedFiBA
from tests.support.random_windows.kinds import TEXT
from tests.support.random_windows.rules import SECOND, Rule, bound, count, either, session, span

LATE = 30 * SECOND
RULES: dict[str, Callable[[], Rule]] = {
    "count": lambda: count(7),
    "time": lambda: span(20 * SECOND),
    "time or count": lambda: either(span(20 * SECOND), count(9)),
    "session": lambda: session(6 * SECOND),
    "bound": lambda: bound(TEXT, 12),
}
everywhere = [
    pytest.param(rule, existing, id=f"{rule}-{existing}")
    for rule in RULES
    for existing in ("append", "replace", "combine")
    if (rule, existing) != ("bound", "combine")  # the frame looks at the values
]


@dataclass
class Listed:
    """What a window must be: all events in order of time, and from where on it holds them."""

    rule: Rule
    existing: str
    lateness: int
    events: list[tuple[int, str]] = field(default_factory=list)
    front: int = 0
    newest: int | None = None
    retracted: bool = False

    def copy(self) -> Listed:
        return Listed(self.rule, self.existing, self.lateness, list(self.events), self.front,
                      self.newest, self.retracted)  # fmt: skip

    @property
    def held(self) -> str:
        return "".join(value for _, value in self.events[self.front :])

    def accepts(self, time: int) -> bool:
        return self.newest is None or time >= self.newest - self.lateness

    def move(self) -> None:
        if self.events and self.newest is not None:
            self.front = max(self.front, self.rule.cut(self.events, self.front, self.newest))

    def add(self, time: int, value: str) -> tuple[str, str]:
        """The result of an event: the least that it may be, and all that belongs into it.

        Windows by count may be short where events were taken out.
        """
        at = bisect_right(self.events, time, key=lambda event: event[0])
        met = self.existing != "append" and at > 0 and self.events[at - 1][0] == time
        if met:
            at -= 1
            older = self.events[at][1]
            self.events[at] = (time, older + value if self.existing == "combine" else value)
        else:
            self.events.insert(at, (time, value))
            self.front += at < self.front
            late = at < len(self.events) - 1 or self.front == at
            if self.rule.merges and self.lateness and late:
                self.front = 0
        self.newest = time if self.newest is None else max(self.newest, time)
        self.move()
        if not (self.rule.positional or self.rule.merges):
            return self.held, self.held
        floor = 0 if self.lateness else self.front
        start = max(floor, self.rule.cut(self.events[: at + 1], 0, time), 0)
        short = self.retracted and "count" in self.rule.name
        most = "".join(value for _, value in self.events[start : at + 1])
        least = "".join(value for _, value in self.events[max(start, self.front) : at + 1])
        return least if short else most, most

    def retract(self, time: int) -> None:
        at = bisect_right(self.events, time, key=lambda event: event[0]) - 1
        assert self.events[at][0] == time
        del self.events[at]
        self.front -= at < self.front
        self.retracted = True
        self.move()

    def retractable(self) -> list[int]:
        """Times of events that are in the window, or that late events may ask for."""
        if self.newest is None:
            return []
        allowed = self.newest - self.lateness
        first = bisect_left(self.events, allowed, key=lambda event: event[0])
        looks_back = self.rule.positional or (self.rule.merges and self.lateness)
        first = min(first, self.front) if looks_back else self.front
        return [time for time, _ in self.events[first:]]


def assert_results(expected: list[tuple[str, str]], found: Any) -> None:
    assert len(expected) == len(found)
    for (least, most), one in zip(expected, found, strict=True):
        assert most.endswith(one) and one.endswith(least)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("rule", "existing"), everywhere)
@pytest.mark.parametrize("aggregator", [FiBA, CrowdedFiBA])
def test_windows_are_lists(rule: str, existing: Any, aggregator: type, seed: int) -> None:  # noqa: C901
    """Random events, late ones, retractions, and restores between any two steps."""
    random, store = Random(f"{rule} {existing} {seed}"), MemoryStore()
    lateness = random.choice([0, LATE, LATE])
    listed = Listed(RULES[rule](), existing, lateness)
    settings: dict[str, Any] = {
        "aggregator": aggregator, "on_duplicate": existing, "on_late": "drop",
        "allowed_lateness": timedelta(microseconds=lateness),
    }  # fmt: skip
    arity = random.choice([2, 3, 8])
    window = Window(TEXT.monoid(True), listed.rule.frame(), store, "w", arity=arity, **settings)
    now, saved = 1_700_000_000 * SECOND, (b"", listed)
    for step in range(120):
        what = random.choice(["insert", "insert", "extend", "retract", "retract", "save", "go"])
        batch = []
        for _ in range({"insert": 1, "extend": random.choice([2, 5, 20])}.get(what, 0)):
            now += random.choice([0, 0, 1, 2, 3, 8]) * SECOND
            late = random.choice([0, 0, 0, 1, 4, 12]) * SECOND if lateness else 0
            batch.append((now - late, f"{step}{random.choice('abc')}"))
        if what == "insert":
            (time, value) = batch[0]
            window.insert(value, np.datetime64(time, "us"))
            if listed.accepts(time):
                listed.add(time, value)
        elif what == "extend":
            floor = None if listed.newest is None else listed.newest - lateness
            taken = [at for at, (t, _) in enumerate(batch) if floor is None or t >= floor]
            if not lateness:  # then each must come in order
                assert taken == list(range(len(batch)))
            times = np.array([time for time, _ in batch], "M8[us]")
            found = window.extend([value for _, value in batch], times)
            results = {at: listed.add(*batch[at])
                       for at in sorted(taken, key=lambda at: batch[at][0])}  # fmt: skip
            assert_results([results[at] for at in taken], found)
        elif what == "retract" and (times := listed.retractable()):
            time = random.choice(times)
            window.retract(np.datetime64(time, "us"))
            listed.retract(time)
        elif what == "save":
            saved = window.checkpoint(), listed.copy()
        elif what == "go" and saved[0]:
            listed = saved[1].copy()
            window = window.restore_like(saved[0])
            now = max(now, listed.newest or 0)
        if random.random() < 0.2:
            window.check()
        assert window.query() == listed.held, f"seed {seed}, step {step}: {what}"


def test_what_a_correction_changes() -> None:
    """``revise`` gives the results of the event that took another's place, and of all after it."""
    settings: dict[str, Any] = {"allowed_lateness": 100, "on_duplicate": "replace", "arity": 2}
    window = Window(Sum(), TimeWindow(60), aggregator=FiBA, **settings)
    window.extend([1.0, 2.0, 4.0, 8.0], [0, 20, 40, 70])
    revision = window.revise([100.0, 5.0], [20, 30])
    assert revision.times.astype("M8[s]").astype(int).tolist() == [20, 30, 40, 70]
    assert revision.values.tolist() == [100.0, 5.0, 4.0, 8.0]
    assert revision.results.tolist() == [101.0, 106.0, 110.0, 117.0]
    assert revision.index.tolist() == [0, 1, -1, -1]
    both = window.revise([6.0, 1.0, 7.0], [20, 40, 40])  # the last of a time holds
    assert both.index.tolist() == [0, -1, 1, 2, -1]
    assert both.results.tolist() == [7.0, 12.0, 13.0, 19.0, 26.0]
    assert window.query() == 26.0


def test_values_of_one_minute_are_one() -> None:
    """As the paper has it for panes: times rounded to minutes, and values joined as they come."""
    window = Window(
        Sum(), TimeWindow("3 minutes"), aggregator=FiBA, on_duplicate="combine", arity=2
    )
    seconds = np.arange(0, 600, 7)
    results = window.extend(np.ones(len(seconds)), seconds // 60 * 60)
    minutes = seconds // 60
    wanted = [int((minutes[: i + 1] > m - 3).sum()) for i, m in enumerate(minutes)]
    assert results.tolist() == wanted
    assert len(window) == 3


def test_a_product_joins_column_by_column() -> None:
    parts = Product({"peak": ("x", Max()), "sum": ("y", Sum())})
    window = Window(parts, TimeWindow(60), aggregator=FiBA, on_duplicate="combine")
    window.extend({"x": [1.0, 3.0, 2.0], "y": [1.0, 2.0, 4.0]}, [0, 10, 10])
    assert window.query() == {"peak": 3.0, "sum": 7.0} and len(window) == 2
    sessions = Window(
        Max(), SessionWindow(5), aggregator=FiBA, on_duplicate="combine", allowed_lateness=60
    )
    sessions.extend([1.0, 9.0, 2.0, 3.0], [0, 3, 3, 60])
    sessions.insert(5.0, 57)
    sessions.insert(4.0, 57)
    assert sessions.query() == 5.0 and len(sessions) == 2


@pytest.mark.parametrize("monoid", [
    Mean(), Monoid(0, lambda a, b: a + b, lift=len, name="letters"),
    Product({"peak": ("x", Max()), "sum": ("x", Sum())}), Product({"mean": ("x", Mean())}),
], ids=repr)  # fmt: skip
def test_what_cannot_be_one_value(monoid: Any) -> None:
    with pytest.raises(UnsuitableMonoid, match="cannot combine two values"):
        Window(monoid, TimeWindow(60), aggregator=FiBA, on_duplicate="combine")


def test_what_is_not_there() -> None:
    window = Window(TEXT.monoid(True), CountWindow(2), aggregator=FiBA, arity=2)
    with pytest.raises(NoSuchEvent, match="no event at"):
        window.retract(0)
    window.extend(["a", "b", "c"], [0, 10, 20])
    for nothing in (5, 15, 30):
        with pytest.raises((NoSuchEvent, EventsGone)):
            window.retract(nothing)
    with pytest.raises(EventsGone, match="has left already"):
        window.retract(0)
    assert window.query() == "bc"
    window.retract(10)
    assert window.query() == "c" and len(window) == 1
    window.insert("d", 30)
    assert window.query() == "cd"
    for time in (20, 30):
        window.retract(time)
    assert window.query() == "" and len(window) == 0
    window.insert("e", 40)
    assert window.query() == "e"
    with pytest.raises(UnsupportedOperation, match="set allowed_lateness"):
        Window(Max(), CountWindow(2), aggregator=AmortizedMTA).retract(0)
    with pytest.raises(UnsupportedOperation, match="set allowed_lateness"):
        SharedWindows(Max(), {"a": TimeWindow(2)}).retract(0)
    with pytest.raises(ValueError, match="takes events in order"):
        Window(Max(), CountWindow(2), aggregator=AmortizedMTA, on_duplicate="replace")
    with pytest.raises(ValueError, match="on_duplicate is "):
        Window(Max(), CountWindow(2), aggregator=FiBA, on_duplicate="join")  # type: ignore[arg-type]


def test_combines_at_a_distance() -> None:
    """O(log d) at distance d, whatever the size of the tree: for a replacement as for a removal."""
    most: dict[tuple[int, int, bool], int] = {}
    for size in (2**10, 2**12):
        counted = Counted()
        tree = FingerTree(counted.max, 2)
        for time in range(size):
            tree.insert(time, float(time))
        for distance, removes in product((1, 4, 16, 64), (False, True)):
            costs = []
            for shift in range(8):
                at = len(tree) - distance - shift - 1
                place = tree.entry_at(at)
                remove, replace = partial(tree.remove, *place), partial(tree.replace, *place, -1.0)
                costs.append(counted.cost(remove if removes else replace))
            most[size, distance, removes] = max(costs)
            assert max(costs) <= 10 * (np.log2(8 + distance) + 2)
    for (size, distance, removes), cost in most.items():
        assert cost <= most[2**10, distance, removes] + 10, (size, distance, removes)


@pytest.mark.parametrize("operation", ["retract", "replace"])
def test_pages_of_a_correction(operation: str) -> None:
    """After a restore: a few pages per level are read, and those of one path written."""
    store = CountingStore(MemoryStore())
    window = Window(
        Sum(), CountWindow(8192), store, "w", arity=4, leaf_arity=4, aggregator=CrowdedFiBA,
        allowed_lateness=10**6, on_duplicate="replace",
    )  # fmt: skip
    window.extend(np.ones(4096), np.arange(4096))
    snapshot, levels = window.checkpoint(), window.stats().levels
    window = window.restore_like(snapshot)
    store.reset()
    if operation == "retract":
        window.retract(2000)
    else:
        window.insert(0.0, 2000)
    window.checkpoint()
    counts = store.reset()
    assert counts.get.pages <= 4 * levels
    assert counts.put.pages <= 3 * levels
    assert window.query() == 4095.0


@pytest.mark.parametrize("operation", ["retract", "replace"])
def test_a_frame_that_raises_changes_nothing(operation: str) -> None:
    broken = False

    def evicts(prefix: float, total: float) -> bool:
        if broken:
            raise ZeroDivisionError
        return total - prefix > 100

    settings: dict[str, Any] = {"allowed_lateness": 100, "on_duplicate": "replace", "arity": 2}
    window = Window(Sum(), CustomFrame(evicts, on=Max(), name="far"), aggregator=FiBA, **settings)
    window.extend([float(i) for i in range(20)], range(20))
    for time in (3, 12, 19):
        broken = True
        with pytest.raises(ZeroDivisionError):
            if operation == "retract":
                window.retract(time)
            else:
                window.insert(50.0, time)
        broken = False
        window.check()
        assert (window.query(), len(window)) == (190.0, 20)
        assert window.range_by_position(time, time + 1) == float(time)
