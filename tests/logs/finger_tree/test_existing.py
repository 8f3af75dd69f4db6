"""Out-of-order windows whole: events that replace, join or stand beside others, and retractions.

After the FiBA paper, definition 2.1: ``insert`` at a time that has an event already, and ``evict``
of any time, against a sorted list.
"""

from __future__ import annotations

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
from tests.support.random_windows.kinds import CHOSEN, COLLECTED, MIXED, TEXT, Kind, rows
from tests.support.random_windows.rules import Rule, draw_rule
from tests.support.random_windows.windows import SingleLife
from tests.support.sampling import some


class CorrectedLife(SingleLife):
    """A window whose events take the place of others, or join them, and are retracted."""

    steps = (
        "insert", "insert", "extend", "extend", "retract", "retract", "query", "ask_for_times",
        "checkpoint", "checkpoint", "crash",
    )  # fmt: skip
    retracted = 0

    def __init__(self, random: Random, kind: Kind, aggregator: type, existing: str) -> None:
        self.existing = existing
        super().__init__(random, kind, aggregator)

    def rule(self) -> Rule:
        """No frame that looks at values, where these are joined.

        Nor sessions with counts: what a late event brings back depends on what was retracted.
        """
        while True:
            rule = draw_rule(self.random, self.kind, settled=True)
            if rule.merges and "count" in rule.name:
                continue
            if rule.looks_back or self.existing != "combine":
                return rule

    def begin(self) -> Window:
        self.stream.on_duplicate = self.options["on_duplicate"] = self.existing
        return super().begin()

    def retract(self) -> None:
        """An event that is in the window, or that a late one may ask for."""
        stream, one = self.stream, self.one
        if stream.newest is None:
            return
        first = one.front
        if stream.is_late and one.rule.looks_back:
            first = min(first, stream.after(stream.newest - (stream.lateness or 0) - 1))
        if not stream.events[first:]:
            return
        time, _ = self.random.choice(stream.events[first:])
        self.note(f"{time}")
        self.window.retract(np.datetime64(time, "us"))
        at = stream.after(time) - 1
        del stream.events[at]
        one.front -= at < one.front
        one.move(stream)
        self.retracted += 1

    def assert_all(self, results: Any, expected: list[list[Any]]) -> None:
        """Windows by count may be short where events were taken out."""
        short = self.retracted if "count" in self.one.rule.name else 0
        for one, values in zip(rows(results), expected, strict=True):
            self.answered(one)
            most = min(short, len(values))
            assert any(self.kind.agrees(one, values[at:]) for at in range(most + 1)), values


@pytest.mark.parametrize("seed", some(range(40), by_default=4))
@pytest.mark.parametrize(
    ("kind", "existing"),
    [*product([TEXT, COLLECTED, CHOSEN, MIXED], ["append", "replace"]), (TEXT, "combine")],
)  # fmt: skip
@pytest.mark.parametrize("aggregator", [FiBA, CrowdedFiBA])
def test_windows_are_lists(kind: Kind, existing: str, aggregator: type, seed: int) -> None:
    """Random events, late ones, retractions, and restores between any two steps."""
    life = CorrectedLife(Random(f"{kind.name} {existing} {seed}"), kind, aggregator, existing)
    for step in range(60):
        life.step()
        if step % 5 == seed % 5:
            life.watch()
        life.query()
    life.close()


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
