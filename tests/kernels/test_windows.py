"""Windows with compiled kernels and without: the same state and pages, to the bit.

Results are the same up to the order of additions, which is a kernel's own where a window is short.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from mta import (
    ArgMax,
    ArgMin,
    Count,
    CountWindow,
    First,
    KeyedWindows,
    Last,
    Max,
    Mean,
    Min,
    Product,
    SampleStdDev,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.algorithms import FiBA
from mta.errors import LateEvent
from mta.frames.base import Frame
from mta.kernels import native
from mta.logs.finger_tree import node_cache
from mta.monoids.base import AbstractMonoid
from tests.support import oracle
from tests.support.bits import Near
from tests.support.kernels import numpy_alone
from tests.support.sampling import some

pytestmark = pytest.mark.skipif(
    native.compiled is None, reason=f"the compiled kernels are not in use: {native.in_use()}"
)

#: What sums and squares of keep to the last bit only in one order.
VALUES: list[Callable[[random.Random], float]] = [
    lambda rng: rng.gauss(100, 10),
    lambda rng: round(rng.gauss(0, 3)),
    lambda rng: rng.choice([0.0, -0.0, 1e300, -1e300, 5e-324, 1.0, 1e17]),
    lambda rng: rng.choice([1.0, 2.5, float("inf"), -float("inf")]),
]
MONOIDS: list[Callable[[], AbstractMonoid]] = [
    Max, Sum, Mean, SampleStdDev, Count, First, ArgMax,
    lambda: Min("int64"), lambda: Sum("int64"), lambda: Last("int64"), lambda: ArgMin("int64"),
    lambda: Product({"a": ("x", Mean()), "b": ("x", Max()), "n": Count()}),
]  # fmt: skip


def frame_of(rng: random.Random) -> Frame:
    few, many = rng.randint(1, 40), rng.randint(1, 900)
    count, time = CountWindow(rng.choice([few, many])), TimeWindow(rng.choice([few, many]))
    return rng.choice([count, count, time, time, count | time, count & time])


def given(monoid: AbstractMonoid, values: np.ndarray) -> Any:
    """A batch of such values that a monoid takes."""
    whole = np.where(np.abs(values) < 1e9, values, 7).astype("i8")
    if isinstance(monoid, Product):
        return {"x": values}
    if isinstance(monoid, (ArgMax, ArgMin)):
        return values, whole.astype(monoid.inputs.schemas[1].dtype)
    if isinstance(monoid, Count):
        return range(len(values))
    return whole if monoid.inputs.dtype.kind == "i" else values


def batches(rng: random.Random, sizes: list[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and times, which pause from time to time for longer than most windows."""
    value, now, found = rng.choice(VALUES), 0, []
    for _ in range(rng.randint(1, 5)):
        count = rng.choice(sizes)
        times = []
        for _ in range(count):
            now += rng.choice([0, 1, 1, 2, 3]) if rng.random() < 0.995 else 200
            times.append(now)
        values = np.array([value(rng) for _ in range(count)], "f8")
        found.append((values, np.array(times).astype("M8[s]")))
    return found


def one_life(seed: int) -> None:
    """Results, and how windows are laid out: the front, or a snapshot, which names pages."""
    rng = random.Random(seed)
    make, frame = rng.choice(MONOIDS), frame_of(rng)
    sizes = {"leaf_arity": rng.choice([2, 3, 8, 64, 300, 1000]), "arity": rng.choice([2, 3, 16])}
    kind = rng.choice(["window", "by time", "shared", "keyed"])
    came = batches(rng, [1, 20, 300] if kind == "keyed" else [1, 2, 5, 50, 700, 1500])
    lateness = rng.choice([None, 0, 20]) if kind in ("by time", "keyed") else None
    moves, chosen = np.random.default_rng(seed), [rng.randrange(9) for _ in range(1500)]
    if lateness and kind == "by time":
        came = [(v, t - moves.integers(0, 20, len(t)).astype("m8[s]")) for v, t in came]

    def made(monoid: AbstractMonoid) -> Any:
        settings: dict[str, Any] = {"name": "w", "allowed_lateness": lateness, **sizes}
        if kind == "shared":
            return SharedWindows(monoid, {"one": frame, "other": CountWindow(20)}, **settings)
        if kind == "keyed":
            return KeyedWindows(monoid, frame, timed=True, promote_at=200, **settings)
        return Window(monoid, frame, aggregator=FiBA if kind == "by time" else None, **settings)

    def live() -> list[Any]:
        monoid, seen = make(), list[Any]()
        window = made(monoid)
        for values, times in came:
            batch = given(monoid, values), times
            keys = [chosen[: len(values)]] if kind == "keyed" else []
            seen.append(outcome(lambda b=(*keys, *batch): window.extend(*b), values))
            if kind != "keyed":
                seen.append(Near(window.query(), values))
            if kind == "window":
                with np.errstate(all="ignore"):
                    seen.append((window.structure().front, len(window)))
        return [*seen, window.checkpoint()] if kind == "by time" else seen

    found = live()
    with numpy_alone():
        assert found == live(), f"seed {seed}"


def outcome(call: Callable[[], Any], values: np.ndarray) -> Any:
    try:
        return Near(call(), values)
    except LateEvent as error:
        return str(error)


def lived(seed: int) -> None:
    """Of odd seeds with all leaves as large ones."""
    with pytest.MonkeyPatch.context() as patch:
        if seed % 2:
            patch.setattr(node_cache, "_LARGE", 1)
            patch.setattr(node_cache, "_AT_ONCE", 2)
        one_life(seed)


@pytest.mark.parametrize("part", some(range(8), by_default=4))
def test_windows(part: int) -> None:
    for seed in range(part * 18, part * 18 + 18):
        lived(seed)


@pytest.mark.soak
def test_windows_for_long() -> None:
    seed = oracle.seed("windows with kernels and without")
    for at in range(6000):
        lived(seed + at)


@pytest.mark.parametrize("seed", range(8))
def test_a_snapshot_goes_on_with_either(seed: int) -> None:
    """What one has begun the other one continues, with the same pages."""
    rng = random.Random(seed)
    frame = rng.choice([CountWindow(900), TimeWindow(700), CountWindow(60)])
    came = [batch for _ in range(3) for batch in batches(random.Random(seed), [300, 700])]
    steps = np.concatenate([times for _, times in came]).argsort(kind="stable")
    values = np.concatenate([values for values, _ in came])[steps]
    times = np.sort(np.concatenate([times for _, times in came]))

    def live(ways: list[bool]) -> list[Any]:
        monoid, seen = Mean(), []
        window = Window(monoid, frame, name="w", leaf_arity=500, arity=4)
        for at, compiled in zip(range(0, len(values), 400), cycle(ways)):
            with nullcontext() if compiled else numpy_alone():
                batch = values[at : at + 400], times[at : at + 400]
                seen.append(Near(window.extend(*batch), values))
                snapshot = window.checkpoint()
                window = Window.restore(snapshot, window.store, aggregations=monoid, window=frame)
        assert window.store is not None
        return [*seen, set(window.store.keys())]

    assert live([True, False]) == live([False]) == live([True])
