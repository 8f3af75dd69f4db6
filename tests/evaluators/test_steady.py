"""SteadyMTA: no single event waits for a border of groups, and all else is as of Amortized MTA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import CountWindow, TimeWindow, Window
from mta.algorithms import AmortizedMTA, SteadyMTA
from stores import StoreUnavailable
from stores.memory import MemoryStore
from stores.testing import FaultyStore
from tests.support.counted import Counted
from tests.support.naive import joined


def counting(kind: Any, frame: Any, **arities: int) -> tuple[Window, Any]:
    """A window of an aggregator, and what an event and its query cost in combines."""
    counted = Counted()
    window = Window(counted.max, frame, None, "w", aggregator=kind, **arities)
    return window, lambda *event: counted.cost(lambda: (window.insert(*event), window.query()))


def bound(window: Window) -> float:
    """What the module says."""
    levels, height = window.structure().levels, window.structure().height  # type: ignore[attr-defined]
    c = 1 + levels.arity * height / levels.leaf_arity
    return float(2 * levels.arity + 8 * (c + 3) + 6 * height)


SIZES: list[dict[str, int]] = [
    {}, {"arity": 2}, {"arity": 16}, {"arity": 4, "leaf_arity": 200}, {"arity": 30, "leaf_arity": 8}
]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("arities", SIZES, ids=str)
@pytest.mark.parametrize("frame", [CountWindow(3000), TimeWindow(3000)], ids=str)
def test_the_worst_event_takes_what_the_module_says(frame: Any, arities: dict[str, int]) -> None:
    steady, steady_cost = counting(SteadyMTA, frame, **arities)
    usual, usual_cost = counting(AmortizedMTA, frame, **arities)
    values = np.random.default_rng(5).random(9000)
    for window in (steady, usual):
        window.extend(values[:4000], np.arange(4000.0), emit="last")
    costs: list[tuple[int, int]] = []
    for at, value in enumerate(values[4000:].tolist()):
        costs.append((steady_cost(value, 4000.0 + at), usual_cost(value, 4000.0 + at)))
        if at % 10 == 0:
            assert steady.query() == usual.query()
    # What the batch left behind takes a leaf group to be gone through.
    worst, worst_usual = map(max, zip(*costs[1100:], strict=True))
    assert worst <= bound(steady)
    mine = sum(cost for cost, _ in costs)
    assert mine / len(costs) <= (6.1 if arities != {"arity": 2} else 10)
    if not arities:
        assert worst_usual >= 1016 > 4 * worst
    steady.check()


def test_where_events_have_no_steps_in_time() -> None:
    """Several leave at once, or none."""
    steady, cost = counting(SteadyMTA, TimeWindow(2000), leaf_arity=100, arity=8)
    gaps = np.random.default_rng(6).integers(0, 3, 6000)
    times = np.cumsum(gaps).astype(float)
    costs = [cost(float(at % 77), time) for at, time in enumerate(times.tolist())]
    assert max(costs[3000:]) <= bound(steady)
    steady.check()


def test_each_goes_on_from_the_others_snapshot() -> None:
    store = MemoryStore()
    window = Window(joined(), CountWindow(50), store, "w", arity=3, leaf_arity=7)
    plain: list[str] = []
    for at in range(600):
        value = f"{at}."
        window.insert(value)
        plain = [*plain, value][-50:]
        assert window.query() == "".join(plain)
        if at % 13 == 12:
            kind = (AmortizedMTA, SteadyMTA)[at % 2]
            window.check()
            known: Any = {"aggregations": joined(), "aggregator": kind}
            window = Window.restore(window.checkpoint(), store, **known)
        if at % 41 == 40:
            values = [f"{at}+{i}." for i in range(17)]
            window.extend(values)
            plain = [*plain, *values][-50:]
            window.evict(11)
            plain = plain[11:]


def test_a_store_that_fails_ahead_of_the_front_keeps_no_event_out() -> None:
    store, sizes = FaultyStore(MemoryStore()), {"arity": 4, "leaf_arity": 16}
    window = Window(joined(), CountWindow(64), store, "w", aggregator=SteadyMTA, **sizes)
    for at in range(128):  # the front is at the end of a leaf group
        window.insert(f"{at}.")
    window.insert("128.")  # and in the next one
    window.insert("129.")

    store.fail(1, forever=True, operations=["get"])
    for at in range(130, 140):
        window.insert(f"{at}.")
    with pytest.raises(StoreUnavailable):
        for at in range(140, 180):
            window.insert(f"{at}.")
    assert store.fired > 1
    store.heal()
    assert window.query() == "".join(f"{at}." for at in range(at - 64, at))
    window.insert(f"{at}.")
    window.check()


@pytest.mark.parametrize(
    "frame", [CountWindow(40), CountWindow(40, delay=3), TimeWindow(40, closed="left")], ids=str
)
def test_single_events_after_batches_that_end_within_a_leaf(frame: Any) -> None:
    """The folds of tails then lack the last events of the batch until a window needs them."""
    steady, usual = (
        Window(joined(), frame, None, "w", aggregator=kind, arity=2, leaf_arity=8)
        for kind in (SteadyMTA, AmortizedMTA)
    )
    rng, now = np.random.default_rng(1), 0
    for _ in range(30):
        letters, times = list("abcdefghijklm"[: rng.integers(1, 14)]), np.arange(now, now + 40.0)
        for window in (steady, usual):
            window.extend(letters, times[: len(letters)])
        now += len(letters)
        for letter in "nopqrstuvwxyz"[: rng.integers(1, 14)]:
            for window in (steady, usual):
                window.insert(letter, float(now))
            now += 1
            assert steady.query() == usual.query()
    steady.check()
