"""Text and other objects under many keys, beside plain lists."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from mta import Collect, CountWindow, KeyedWindows, Product, SessionWindow, TimeWindow
from mta.aggregations import (
    CollectDistinct,
    ExactDistinctCount,
    FirstText,
    LagText,
    LastText,
    MaxText,
    MinText,
    Mode,
    MostFrequent,
    NthText,
)
from mta.frames.base import Both, Frame
from stores import MemoryStore
from tests.support.sampling import some

SECOND = 1_000_000


def mode(values: list[Any]) -> Any:
    """The smallest of the most frequent values."""
    return min(values, key=lambda value: (-values.count(value), value))


def most(values: list[Any]) -> list[tuple[Any, int]]:
    return sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))[:2]


#: By alias: the aggregation, what a list says of some values, and of none.
AGGREGATIONS: dict[str, tuple[Any, Callable[[list[Any]], Any], Any]] = {
    "low": (MinText(), min, None), "peak": (MaxText(), max, None),
    "first": (FirstText(), lambda v: v[0], None), "last": (LastText(), lambda v: v[-1], None),
    "distinct": (ExactDistinctCount(), lambda v: len(set(v)), 0), "mode": (Mode(), mode, None),
    "most": (MostFrequent(2), most, []),
    "second": (NthText(2), lambda v: v[1] if len(v) > 1 else None, None),
    "all": (Collect(), list, []), "set": (CollectDistinct(), lambda v: list(dict.fromkeys(v)), []),
}  # fmt: skip
FRAMES: list[Callable[[], Frame]] = [
    lambda: CountWindow(3),
    lambda: TimeWindow(9),
    lambda: SessionWindow(4),
    lambda: SessionWindow(6) | CountWindow(5),
    lambda: CountWindow(2) & TimeWindow(12),
]
#: Values whose order and equality are those of Python.
VALUES: dict[str, list[Any]] = {
    "text": ["", "a", "b", "ba", "é", "z" * 40],
    "words": [f"word {number}" for number in range(500)],
    "integers": [-7, 0, 3, 1 << 70],
    "bytes": [b"", b"x", b"xy"],
    "pairs": [(1, "a"), (1, "b"), (2, "")],
}


def start(frame: Frame, times: list[int]) -> int:
    """Where the window begins that ends with the last of some events."""
    if isinstance(frame, Both):
        sides = start(frame.one, times), start(frame.other, times)
        return max(sides) if frame.any_of else min(sides)
    if isinstance(frame, CountWindow):
        return max(0, len(times) - frame.size)
    if isinstance(frame, SessionWindow):
        at = len(times) - 1
        while at and times[at] - times[at - 1] < frame.gap // SECOND:
            at -= 1
        return at
    assert isinstance(frame, TimeWindow)
    return bisect_right(times, times[-1] - frame.size // SECOND)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("seed", some(range(12), by_default=5))
@pytest.mark.usefixtures("tiny")
def test_results_are_those_of_plain_lists(kind: str, seed: int) -> None:
    """In any cut into batches, restored, promoted, late and with nulls."""
    rng, store = random.Random(f"{kind} {seed}"), MemoryStore()
    frame, lateness = rng.choice(FRAMES)(), rng.choice([None, 30])
    skips = rng.random() < 0.5
    chosen = AGGREGATIONS
    settings: dict[str, Any] = {
        "promote_at": rng.choice([4, 12, 1000]), "page_bytes": rng.choice([1, 16384]),
        "timed": True, "allowed_lateness": lateness, "nulls": "skip" if skips else "raise",
    }  # fmt: skip
    monoid = Product({a: ("v", m) for a, (m, *_) in chosen.items()} | {"lag": ("v", LagText())})
    windows = KeyedWindows(monoid, frame, store, **settings)
    assert windows.stats().vectorized
    events: dict[int, list[tuple[int, int, Any]]] = {}
    now = number = 0
    for _ in range(12):
        batch = []
        for _ in range(rng.choice([1, 3, 20])):
            now += rng.choice([0, 1, 2, 5])
            moment = now - (0 if lateness is None else rng.choice([0, 0, 3, 25]))
            value = None if skips and rng.random() < 0.3 else rng.choice(VALUES[kind])
            batch.append((rng.randrange(3), moment, value))
        for key, moment, value in batch:
            events.setdefault(key, []).append((moment, number, value))
            number += 1
        keys, times, values = zip(*batch, strict=True)
        found = windows.extend(list(keys), {"v": list(values)}, list(times))
        for row, key in enumerate(keys):
            line = sorted(events[key], key=lambda event: event[:2])
            place = [n for _, n, _ in line].index(number - len(batch) + row)
            line = line[: place + 1]
            window = line[start(frame, [moment for moment, _, _ in line]) :]
            held = [value for _, _, value in window if value is not None]
            for alias, (_, plainly, none) in chosen.items():
                wanted = plainly(held) if held else none
                got = found[alias][row]
                got = got.tolist() if hasattr(got, "tolist") else got
                assert got == wanted, (seed, row, alias, frame)
            before = [value for _, _, value in window[:-1] if value is not None]
            assert found["lag"][row] == (before[-1] if before else None), (seed, row)
        if rng.random() < 0.5:
            windows = KeyedWindows.restore(
                windows.checkpoint(), store, aggregations=monoid, window=frame, **settings
            )
            windows.check()
