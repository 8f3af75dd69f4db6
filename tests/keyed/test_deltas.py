"""Delta windows of many keys, alone and joined with others, beside lists and one window per key."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mta import (
    Collect,
    Count,
    CountWindow,
    KeyedWindows,
    Max,
    Product,
    SessionWindow,
    Sum,
    TimeWindow,
    Window,
)
from mta.frames import DeltaWindow
from mta.frames.base import Frame
from stores import MemoryStore
from tests.support.sampling import some

#: Frames, and whether other frames can evict the largest attribute.
FRAMES: dict[str, Callable[[Any], Any]] = {
    "alone": lambda delta: delta,
    "and": lambda delta: delta & CountWindow(3),
    "or": lambda delta: delta | CountWindow(4),
    "or time": lambda delta: delta | TimeWindow(9),
    "and session": lambda delta: delta & SessionWindow(4),
    "nested": lambda delta: (delta & CountWindow(2)) | TimeWindow(12),
    "named": lambda delta: {"a": delta, "b": delta | CountWindow(2), "c": CountWindow(3)},
}
#: By name: the size, the type, and the step of the attribute from one event to the next.
STEPS: dict[str, tuple[Any, str, list[Any]]] = {
    "rising": (3.0, "f8", [0.0, 0.1, 0.7, 1.0, 2.5]),
    "falling at times": (3.0, "f8", [0.0, 0.1, 0.3, 0.7, 1.0, 2.5, -0.4]),
    "falling": (2.0, "f8", [1.0, -1.0, 0.5, -2.5, 3.0]),
    "integers": (5, "i8", [0, 1, 2, 4]),
    "small integers": (5.5, "i4", [0, 1, 2, 4, -1]),
    "tenths": (0.3, "f8", [0.1, 0.0, 0.2]),
}


def delta_of(steps: str) -> DeltaWindow:
    size, dtype, _ = STEPS[steps]
    return DeltaWindow(size, "d", dtype)


def product(steps: str) -> Product:
    top = Max(STEPS[steps][1])
    return Product({"all": ("v", Collect()), "sum": ("v", Sum()), "top": ("d", top), "n": Count()})


def drawn(seed: str, steps: str, count: int, keys: int) -> list[tuple[int, int, float, Any]]:
    """Events of (key, time, value, attribute)."""
    draw = random.Random(seed)
    tops = [draw.randrange(5) * (1 if steps.endswith("integers") else 1.0) for _ in range(keys)]
    events, now = [], 0
    for number in range(count):
        key = draw.randrange(keys)
        tops[key] += draw.choice(STEPS[steps][2])
        now += draw.choice([0, 1, 1, 5])
        events.append((key, now, float(number), tops[key]))
    return events


def given(events: list[tuple[int, int, float, Any]]) -> dict[str, Any]:
    return {"v": [v for _, _, v, _ in events], "d": [d for *_, d in events]}


@pytest.mark.sample
@pytest.mark.parametrize("seed", some(range(4), by_default=2))
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("frame", FRAMES)
def test_each_key_is_as_its_own_window(frame: str, steps: str, seed: int) -> None:
    draw = random.Random(f"{frame} {steps} {seed}")
    events, keys = drawn(f"{frame} {steps} {seed}", steps, 160, 5), 5
    chosen, store = FRAMES[frame](delta_of(steps)), MemoryStore()
    settings: dict[str, Any] = {
        "promote_at": draw.choice([2, 6, 1000]), "page_bytes": draw.choice([64, 16384]),
        "timed": True,
    }  # fmt: skip
    windows = KeyedWindows(product(steps), chosen, store, **settings)
    frames: dict[str, Frame] = chosen if isinstance(chosen, dict) else {"": chosen}
    own = {
        (key, name): Window(product(steps), each, None) for key in range(keys)
        for name, each in frames.items()
    }  # fmt: skip
    at = 0
    while at < len(events):
        part = events[at : at + draw.choice([1, 3, 20])]
        at += len(part)
        done = windows.extend([key for key, *_ in part], given(part), [t for _, t, *_ in part])
        for row, (key, time, value, attribute) in enumerate(part):
            for name, each in frames.items():
                one = own[key, name]
                one.insert({"v": value, "d": attribute}, time if each.needs_times else None)
                suffix = f"_{name}" if name else ""
                found = {alias: done[alias + suffix][row] for alias in ("all", "sum", "top", "n")}
                assert found == one.query(), (at, row, name)
        if draw.random() < 0.3:
            windows = windows.restore_like(windows.checkpoint())
        if draw.random() < 0.2:
            windows.check()
    for (key, name), one in own.items():
        if len(one) or windows.query(key) is not None:
            found = windows.query(key)
            assert (found[name] if name else found) == one.query()


@pytest.mark.parametrize("steps", STEPS)
def test_results_are_those_of_lists(steps: str) -> None:
    """The events whose running maximum is less than the size below the newest one."""
    size, events = STEPS[steps][0], drawn(steps, steps, 200, 3)
    windows = KeyedWindows(product(steps), delta_of(steps), None)
    assert windows.stats().vectorized
    done = windows.extend([key for key, *_ in events], given(events))
    held: dict[int, list[tuple[float, Any]]] = {}
    for row, (key, _, value, attribute) in enumerate(events):
        line = held.setdefault(key, [])
        line.append((value, max([attribute, *(top for _, top in line)])))
        last = line[-1][1]
        assert done["all"][row] == [v for v, top in line if not last - top >= size]
    assert windows.stats().standalone == 0


@pytest.mark.parametrize("steps", ["falling", "rising"])
def test_keys_whose_attribute_falls_are_standalone_under_or(steps: str) -> None:
    events = drawn(steps, steps, 60, 3)
    windows = KeyedWindows(product(steps), delta_of(steps) | CountWindow(5), None)
    windows.extend([key for key, *_ in events], given(events))
    assert windows.stats().vectorized
    assert windows.stats().standalone == (3 if steps == "falling" else 0)


def test_integers_are_compared_exactly() -> None:
    big = 1 << 62
    for size in (1, 1.5, float(1 << 60), 1 << 63):
        windows = KeyedWindows(
            Product({"n": Count(), "last": ("d", Max("i8"))}), DeltaWindow(size, "d", "i8"), None
        )
        values = [-big - 3, -big - 2, -5, 0, big, big + 1, big + 2]
        found = windows.extend([1] * len(values), {"d": values})["n"].tolist()
        wanted = [
            sum(values[at] - old < size for old in values[: at + 1]) for at in range(len(values))
        ]
        assert found == wanted, size


def test_late_events_go_key_by_key() -> None:
    windows = KeyedWindows(product("rising"), DeltaWindow(1.0, "d"), allowed_lateness=5)
    assert not windows.stats().vectorized
    assert KeyedWindows(Sum(), DeltaWindow(1.0)).extend(
        np.array([1, 1, 2]), [0.0, 1.0, 5.0]
    ).tolist() == [0.0, 1.0, 5.0]
