"""Single events that come late, among others that wait: results, what is stored, and the cost."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Monoid, TimeWindow, Window
from mta.algorithms import FiBA
from mta.frames.base import Frame
from tests.support.counted import Counted


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
