"""What the tests of the monoids beyond the usual share: events, and an oracle of runs."""

from __future__ import annotations

import random
from typing import Any

from mta.aggregations import IncreasingRun

DRAWN = random.Random(5)
WORDS = [f"w{int(DRAWN.paretovariate(0.8)) % 40}" for _ in range(120)]


NUMBERS = [float(DRAWN.randrange(30)) for _ in range(120)]


def run_of(pairs: list[tuple[float, float]]) -> IncreasingRun:
    best, at, length = 0, 0, 0
    for i, (value, _) in enumerate(pairs):
        length = length + 1 if i and pairs[i - 1][0] < value else 1
        if length > best:
            best, at = length, i - length + 1
    start, end = pairs[at][1], pairs[at + best - 1][1]
    return IncreasingRun(start, end, end - start, best, at, len(pairs))


def batch_of(events: list[Any]) -> Any:
    if isinstance(events[0], tuple):
        return tuple(list(column) for column in zip(*events, strict=True))
    return events
