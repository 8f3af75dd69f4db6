"""Single events that come late, among others that wait: results, what is stored, and the cost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, FiBA, Max, Mean, Min, Monoid, Product, Sum, TimeWindow, Window
from mta.errors import LateEvent
from mta.frames.base import Frame
from mta.monoids.base import AbstractMonoid
from tests.support.counted import Counted
from tests.support.kernels import numpy_alone

LATENESS = 60
MONOIDS: dict[str, Callable[[], AbstractMonoid]] = {
    "max": Max,
    "sum": Sum,
    "mean": Mean,
    "product": lambda: Product({"most": ("x", Max()), "least": ("x", Min())}),
    "commutative function": lambda: Monoid(0, lambda a, b: a + b, commutative=True, name="added"),
    "order matters": lambda: Monoid(
        "", lambda a, b: a + b, lift=lambda v: f"{v:.0f},", name="text"
    ),
}


def of_values(monoid: AbstractMonoid, values: list[float]) -> Any:
    """The result over values in order."""
    if isinstance(monoid, Product):
        return {"most": max(values), "least": min(values)}
    if monoid.name == "text":
        return "".join(f"{value:.0f}," for value in values)
    named = {"Max": max, "Sum": sum, "added": sum, "Mean": np.mean}
    return named[monoid.name](values)  # type: ignore[operator]


class Listed:
    """The same window over a plain list of (time, value)."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.events = frame, list[tuple[float, float]]()

    def add(self, time: float, value: float) -> None:
        self.events.append((time, value))
        self.events.sort(key=lambda event: event[0])

    def values(self) -> list[float]:
        if isinstance(self.frame, CountWindow):
            return [value for _, value in self.events[-self.frame.size :]]
        oldest = self.events[-1][0] - self.frame.size / 1e6
        return [value for time, value in self.events if time > oldest]


def one_life(seed: int, name: str, compiled: bool) -> None:
    rng, monoid = Random(seed), MONOIDS[name]()
    frame = rng.choice([CountWindow, TimeWindow])(rng.choice([5, 40, 300]))
    settings: dict[str, Any] = {"allowed_lateness": LATENESS, "aggregator": FiBA, "arity": 4}
    settings["leaf_arity"] = rng.choice([2, 16, 64, 500])
    with nullcontext() if compiled else numpy_alone():
        window, listed, now = Window(monoid, frame, name="w", **settings), Listed(frame), 0.0
        share = rng.choice([0.05, 0.5])
        for _ in range(rng.choice([60, 600])):
            now += rng.choice([0, 1, 1, 2, 3])
            late = rng.choice([1, 10, LATENESS, 2 * LATENESS]) if rng.random() < share else 0
            time, value = now - late, float(rng.randrange(1000))
            event = {"x": value} if name == "product" else value
            newest = listed.events[-1][0] if listed.events else time
            if time < newest - LATENESS:
                with pytest.raises(LateEvent):
                    window.insert(event, time)
            else:
                window.insert(event, time)
                listed.add(time, value)
            what = rng.random()
            if what < 0.5 and listed.events:
                assert window.query() == pytest.approx(of_values(monoid, listed.values()))
            elif what < 0.52 and listed.events:
                assert len(window) == len(listed.values())
            elif what < 0.53 and listed.events:
                start = now - rng.choice([3, LATENESS])
                values = [value for at, value in listed.events if start < at <= now]
                if values:
                    found = window.range(start, now, partial=True)
                    assert found == pytest.approx(of_values(monoid, values))
            elif what < 0.54:
                window = Window.restore(
                    window.checkpoint(), monoid, frame, window.store, **settings
                )
        window.check()


@pytest.mark.sparse(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", MONOIDS)
def test_late_events_among_others_that_wait(name: str, compiled: bool, seed: int) -> None:
    one_life(seed, name, compiled)


@pytest.mark.parametrize("frame", [TimeWindow(50_000), CountWindow(50_000)], ids=str)
@pytest.mark.parametrize("make", [Max, lambda: Monoid(-inf, max, commutative=True, name="largest")])
def test_few_late_events_go_one_by_one(
    frame: Frame, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait, and are merged into the last leaf in one bulk; those in order are no slower."""
    window = Window(make(), frame, aggregator=FiBA, allowed_lateness=1000, store=None)
    window.extend(np.zeros(60_000), np.arange(60_000.0))
    alone: list[float] = []
    monkeypatch.setattr(window.engine, "accept", counting(window.engine.accept, alone))
    rng = Random(1)
    for at in range(60_000, 70_000):
        late = rng.randint(1, 100) if rng.random() < 0.05 else 0
        window.insert(float(at % 7), float(at - late))
    assert len(alone) < 100
    window.check()


def counting(call: Callable[..., Any], seen: list[float]) -> Callable[..., Any]:
    def counted(row: Any, micros: Any) -> Any:
        seen.append(micros)
        return call(row, micros)

    return counted


def test_a_late_event_that_waits_takes_a_combine() -> None:
    """And no more when it is merged: up-aggregates are folded with the leaf's page."""
    counted = Counted()
    counted.max.commutative = True
    window = Window(
        counted.max, TimeWindow(50_000), aggregator=FiBA, allowed_lateness=1000, store=None
    )
    window.extend(np.zeros(60_000), np.arange(60_000.0))
    for at in range(60_000, 60_100):  # so that all is prefetched
        window.insert(1.0, float(at))

    def late_ones() -> None:
        for at in range(100):
            window.insert(2.0, 60_099.0 - at % 50)

    counted.of(late_ones, at_most=100 + 100)
    assert window.query() == 2.0
