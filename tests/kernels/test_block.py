"""Single events that a kernel takes: as Python does, to the bit, whatever comes in between."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from mta import CountWindow, Max, Mean, Min, Product, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA, FiBA, LogMTA, SteadyMTA
from mta.errors import EmptyWindow, InvalidTime, InvalidValue, LateEvent, WindowBusy
from mta.kernels import native
from mta.windows.stack import MOST
from stores.errors import WindowStoreError
from tests.support import oracle
from tests.support.bits import Near, bits
from tests.support.kernels import numpy_alone
from tests.support.sampling import some

pytestmark = pytest.mark.skipif(
    native.compiled is None, reason=f"the compiled kernels are not in use: {native.in_use()}"
)

MONOIDS: list[Callable[..., Any]] = [Max, Min, Sum, Mean]
PRODUCTS: list[Callable[[], Any]] = [
    lambda: Product({"most": ("x", Max())}),
    lambda: Product({"least": ("y", Min()), "all": ("x", Sum()), "most": ("y", Max())}),
    lambda: Product({"mean": ("x", Mean()), "sum": ("x", Sum())}),
]
KEPT_BY: list[Any] = [AmortizedMTA, AmortizedMTA, LogMTA, SteadyMTA, FiBA]
#: What stands for a number, or for none that is taken.
VALUES: list[Callable[[random.Random], Any]] = [
    lambda rng: rng.gauss(0, 10),
    lambda rng: rng.randint(-9, 9),
    lambda rng: np.float64(rng.random()),
    lambda rng: rng.choice([np.float32(1.5), np.int64(-3), True, Decimal("2.5"), 2**53 + 1]),
    lambda rng: rng.choice([0.0, -0.0, 1e300, -1e300, 5e-324, float("inf"), 1e17]),
    lambda rng: rng.choice([float("nan"), None, "text", 2**70, np.nan]),
]


def frame_of(rng: random.Random) -> Any:
    size = rng.choice([1, 2, 7, 60, 400])
    if rng.random() < 0.5:
        return rng.choice([CountWindow, TimeWindow])(size)
    delay = rng.choice([1, 50, 700])
    frames = [TimeWindow(size, closed="left"), TimeWindow(size, delay=delay)]
    return rng.choice([*frames, CountWindow(size, exclude_current=True)])


def given(monoid: Any, value: Any, other: Any) -> Any:
    """An event, or a batch, of such values."""
    if not isinstance(monoid, Product):
        return value
    row = {"x": value, "y": other}
    return row if value is not None or other == 0 else {"y": other}


def doings(rng: random.Random, monoid: Any, timed: bool) -> Iterator[tuple[str, Any]]:
    """What is done to a window: mostly single events, nearly all of them doubles in order."""
    now, odd = 0.0, rng.choice([0.0, 0.02, 0.3])
    others = ["extend", "checkpoint", "restore", "len", "late", "far"]
    others += rng.choice([[], ["evict"]])
    for _ in range(rng.choice([50, 400, 1500])):
        now += rng.choice([0, 0.25, 1, 1, 1.000001, 2])
        what = rng.choice(others) if rng.random() < odd / 2 else "insert"
        either = [(rng.choice(VALUES) if rng.random() < odd else VALUES[0])(rng) for _ in "xy"]
        value = given(monoid, *either)
        if what == "late":
            what, time = "insert", now - rng.choice([1, 50])
        elif what == "far":
            now += rng.choice([100.0, 1e5])
            what, time = "insert", now
        else:
            time = now
        if rng.random() < odd / 3:
            shown = datetime.fromtimestamp(time, UTC)
            time = rng.choice([int(time), np.float64(time), shown, None])
        if what == "extend":
            batch = given(monoid, [rng.random() for _ in range(5)], [rng.random()] * 5)
            yield what, (batch, [now] * 5 if timed else None)
        else:
            yield what, (value, time)
        if rng.random() < 0.7:
            yield "query", None


def rounded(found: Any) -> Any:
    """Results of a batch: a kernel may add in another order."""
    return Near(found, [1e18])


def outcome(call: Callable[[], Any], shown: Callable[[Any], Any] = bits) -> Any:
    try:
        return shown(call())
    except (WindowStoreError, OverflowError) as error:
        return type(error), str(error)


def live(seed: int) -> tuple[list[Any], bool]:
    """All that a life shows, and whether a block was in use in it."""
    rng = random.Random(seed)
    monoid, frame = rng.choice([*MONOIDS, *PRODUCTS])(), frame_of(rng)
    kind = rng.choice(KEPT_BY)
    settings: dict[str, Any] = {"leaf_arity": rng.choice([4, 64, 2000]), "arity": 4}
    if kind is FiBA and rng.random() < 0.5:
        settings["allowed_lateness"] = 40
    if rng.random() < 0.3:
        settings["nulls"] = rng.choice(["drop_row", "accept"])
    settings |= {"aggregator": kind}
    window, used = Window(monoid, frame, name="w", **settings), False
    timed, seen = window.engine.timed, []
    for what, args in doings(rng, monoid, timed):
        if what == "insert":
            seen.append(outcome(lambda w=window, a=args: w.insert(*a)))
        elif what == "query":
            seen.append(outcome(window.query))
        elif what == "extend":
            seen.append(outcome(lambda w=window, a=args: w.extend(*a), rounded))
        elif what == "evict":
            seen.append(outcome(window.evict))
        elif what == "len":
            seen.append((len(window), repr(window), window.stats()))
        else:
            snapshot = window.checkpoint()
            seen.append(snapshot)
            if what == "restore":
                window = Window.restore(snapshot, window.store, **settings)
        single = window.engine.single
        used |= single.is_native and single.stacks.came > 0
    window.check()
    return [*seen, window.checkpoint()], used


def one_life(seed: int) -> bool:
    found, used = live(seed)
    with numpy_alone():
        expected, none = live(seed)
    assert found == expected, f"seed {seed}"
    assert not none
    return used


@pytest.mark.parametrize("part", some(range(8), by_default=1))
def test_scenarios(part: int) -> None:
    used = [one_life(seed) for seed in range(part * 10, part * 10 + 10)]
    assert sum(used) > len(used) / 2


@pytest.mark.soak
def test_long_scenarios() -> None:
    seed = oracle.seed("single events with kernels and without")
    for at in range(5000):
        one_life(seed + at)


# --- who takes them -------------------------------------------------------------------------------


@pytest.mark.sample
@pytest.mark.parametrize("kind", KEPT_BY[1:])
@pytest.mark.parametrize(
    "frame",
    [
        CountWindow(500),
        TimeWindow(500),
        CountWindow(500, exclude_current=True),
        TimeWindow(500, closed="left"),
        TimeWindow(500, delay=700),
    ],
    ids=str,
)
@pytest.mark.parametrize("make", [*MONOIDS, PRODUCTS[1]])
def test_nearly_all_go_in_a_block(make: Any, frame: Any, kind: Any) -> None:
    window = Window(make(), frame, name="w", aggregator=kind)
    batch = given(window.monoid, [1.0] * 2000, [2.0] * 2000)
    window.extend(batch, range(2000) if window.engine.timed else None)
    single, slow = window.engine.single, 0
    for at in range(5000):
        window.insert(given(window.monoid, float(at % 7), 1.5), 2000.0 + at)
        slow += not (single.is_native and single.stacks.came)
    # A first one; SteadyMTA takes a few at a time, others as many as a block holds.
    assert slow < (5000 / 16 if kind is SteadyMTA else 20)


def test_what_somebody_evicts_leaves_a_block() -> None:
    window = Window(Max(), CountWindow(1000), name="w")
    window.extend([float(at) for at in range(100)])
    for at in range(50):
        window.insert(float(at))
    window.evict()
    for at in range(50):
        window.insert(float(at))
        window.evict()
        assert window.query() == 99.0
    assert window.engine.single.is_native and window.engine.single.stacks.came
    assert len(window) == 149
    for _ in range(149):
        window.evict()
    with pytest.raises(EmptyWindow):
        window.evict()
    assert np.isnan(window.query()) and np.isnan(window.monoid.empty)


# --- what goes wrong ------------------------------------------------------------------------------


def with_block(frame: Any, **settings: Any) -> Window[Any]:
    """A window whose block has an event."""
    window = Window(Sum(), frame, name="w", **settings)
    window.extend([1.0] * 50, range(50) if window.engine.timed else None)
    for at in range(20):
        window.insert(1.0, 50.0 + at)
    assert window.engine.single.is_native and window.engine.single.stacks.came
    return window


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ((float("nan"), 70.0), InvalidValue),
        ((None, 70.0), InvalidValue),
        (("text", 70.0), InvalidValue),
        ((1.0, None), InvalidTime),
        ((1.0, "yesterday"), InvalidTime),
        ((1.0, float("nan")), InvalidTime),
        ((1.0, 68.0), LateEvent),
        ((1.0, 10**400), InvalidTime),
    ],
)
def test_what_cannot_be_is_refused_and_loses_nothing(event: Any, error: Any) -> None:
    window = with_block(TimeWindow(30))
    with pytest.raises(error):
        window.insert(*event)
    assert window.query() == 30.0 and len(window) == 30
    window.insert(2.0, 70.0)
    assert window.query() == 31.0 and window.stats().inserted == 71


@pytest.mark.parametrize("frame", [CountWindow(30), TimeWindow(30)], ids=str)
def test_a_window_in_the_middle_of_a_call_takes_no_event(frame: Any) -> None:
    window = with_block(frame)
    window.engine.busy = True
    with pytest.raises(WindowBusy):
        window.insert(1.0, 70.0)
    window.engine.busy = False
    window.insert(2.0, 70.0)
    assert window.query() == 31.0


def test_a_late_event_finds_those_in_the_block() -> None:
    window = with_block(TimeWindow(30), aggregator=FiBA, allowed_lateness=100)
    window.insert(5.0, 60.5)
    assert window.query() == 35.0
    assert window.range(60.0, 61.0) == 6.0


def test_times_are_counted_in_whole_microseconds() -> None:
    """As everywhere: halves to even, and none of them beyond what a double has exactly."""
    times = [0.0, 0.0000005, 0.0000015, 1e6 + 0.1, 1e9 + 0.123456, 2.2517998e9, 2.2518e9, 4e9]
    kept = []
    for compiled in (True, False):
        with numpy_alone() if not compiled else np.errstate():
            window = Window(Sum(), TimeWindow("60000 days"), name="w", aggregator=FiBA)
            window.extend([1.0], [-1.0])
            for time in times:
                window.insert(1.0, time)
            kept.append(window.checkpoint())
            assert window.range(0, 1) == 1.0 and window.query() == 9.0
    assert kept[0] == kept[1]


def test_a_product_takes_all_of_an_event_or_nothing() -> None:
    window = Window(PRODUCTS[1](), TimeWindow(30), name="w")
    window.extend({"x": [1.0] * 50, "y": [2.0] * 50}, range(50))
    for at in range(20):
        window.insert({"x": 1.0, "y": float(at)}, 50.0 + at)
    known = {"least": 0.0, "all": 30.0, "most": 19.0}
    assert window.engine.single.is_native and window.engine.single.stacks.came
    assert window.query() == known
    window.query()["all"] = "changed"
    for event, error in [
        ({"x": 1.0, "y": float("nan")}, InvalidValue), ({"x": 1.0}, InvalidValue),
        ({"x": None, "y": 1.0}, InvalidValue), (1.0, InvalidValue), ({}, InvalidValue),
    ]:  # fmt: skip
        with pytest.raises(error):
            window.insert(event, 70.0)
    with pytest.raises(LateEvent):
        window.insert({"x": 1.0, "y": 1.0}, 68.0)
    assert window.query() == known and len(window) == 30
    window.insert({"x": 2, "y": np.float64(40)}, 70.0)
    assert window.query() == {"least": 0.0, "all": 31.0, "most": 40.0}
    window.engine.busy = True
    with pytest.raises(WindowBusy):
        window.insert({"x": 1.0, "y": 1.0}, 71.0)


# --- the block ------------------------------------------------------------------------------------


def stack(
    kind: str, folds: list[float], most: int = 9, leaving: tuple[int, ...] = (), **members: Any
) -> Any:
    """A compiled stack of a window by count with these folds, or by time if events have times."""
    found = native.compiled.Stack()
    found.operation, found.is_mean = {"sum": 0, "mean": 0, "max": 1}[kind], kind == "mean"
    found.most, found.bound, found.floor = most, 10.0, float("inf")
    found.by_count, found.length = not leaving, len(folds)
    for name, value in members.items():
        setattr(found, name, value)
    found.load(np.array(folds), np.array(leaving, "f8"), np.empty(0), np.empty(0))
    return found


def test_a_stack_holds_no_more_than_it_has_room_for() -> None:
    with pytest.raises(ValueError):
        stack("sum", [0.0], MOST + 1)
    block = stack("sum", [0.0], MOST, spare=2 * MOST)
    found = [block.event(1.0, 0.0) for _ in range(MOST + 1)]
    assert found[-1] is None and all(b - a == 1.0 for a, b in pairwise(found[:-1]))
    block.most = 2 * MOST
    assert block.event(1.0, 0.0) is None


def test_a_window_of_batches_has_no_room_for_single_events() -> None:
    window = Window(Max(), CountWindow(1000), name="w")
    window.extend([float(at) for at in range(5000)])
    single = window.engine.single
    assert not single.compiled.windows
    window.insert(1.0)
    assert single.compiled.windows and window.query() == 4999.0


@pytest.mark.parametrize(
    "columns",
    [
        ((), (), (), ()),
        ((1.0,), (), (1.0,), ()),
        ((1.0,) * 1026, (), (), ()),
        ((1.0,), (), (1.0,) * 1020, (1.0,) * 1020),
    ],
)
def test_a_stack_without_fitting_columns_takes_nothing(columns: Any) -> None:
    block = native.compiled.Stack()
    assert block.event(1.0, 0.0) is None
    block.most, block.bound, block.by_count = 9, 1.0, True
    with pytest.raises(ValueError, match=r"stack|doubles"):
        block.load(*map(np.array, columns))
    assert block.event(1.0, 0.0) is None and block.event(1.0) is None
