"""The longest increasing run, and the policies of Experiment 3 on runs and maxima."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mta import (
    AmortizedMTA,
    CountWindow,
    IncreasingRun,
    LogMTA,
    LongestIncreasingRun,
    Max,
    SinceLongestRun,
    SinceMax,
    TimeWindow,
    Window,
)
from tests.support.catalogue import NUMBERS, batch_of, run_of

BOTH = pytest.mark.parametrize("aggregator", [AmortizedMTA, LogMTA])


def test_the_runs_of_the_modules_example() -> None:
    values = [2, 3, 1, 4, 5, 9, 10, 4, 6]
    window = Window(LongestIncreasingRun("i8"), CountWindow(4), arity=2)
    found = window.extend((values, list(range(9))))
    expected = [
        run_of(list(zip(values, range(9), strict=True))[max(0, i - 3) : i + 1]) for i in range(9)
    ]
    assert list(found) == expected
    assert type(found[0].start) is int


def test_equal_neighbours_and_nan_end_a_run() -> None:
    window = Window(LongestIncreasingRun(), CountWindow(9), invalid="accept")
    values = [1.0, 2.0, 2.0, 3.0, math.nan, 4.0, 5.0]
    found = [run.length for run in window.extend((values, [0.0] * 7))]
    assert found == [1, 2, 2, 2, 2, 2, 2]
    assert window.query().before == 0  # the oldest of equal ones


def test_runs_with_timestamps() -> None:
    days = np.arange("2024-01-01", "2024-01-05", dtype="M8[D]")
    window = Window(LongestIncreasingRun("M8[us]"), TimeWindow("3 days"))
    window.extend(([5.0, 1.0, 2.0, 3.0], days), days.astype("M8[us]"))
    start = datetime(2024, 1, 2)
    assert window.query() == IncreasingRun(start, start + timedelta(2), timedelta(2), 3, 0, 3)
    with pytest.raises(ValueError, match="M8"):
        LongestIncreasingRun("M8[ns]")


@BOTH
@pytest.mark.parametrize("size", [3, 20, 1000])
def test_since_the_maximum(aggregator: Any, size: int, tmp_path: Path) -> None:
    """The window begins at the oldest maximum; results are those of the count window alone."""
    policy, store = CountWindow(size) | SinceMax(), f"file://{tmp_path}"
    window = Window(Max(), policy, store, arity=3, aggregator=aggregator)
    kept: list[float] = []
    plain = Window(Max(), CountWindow(size)).extend(NUMBERS)
    for value, expected in zip(NUMBERS, plain, strict=True):
        window.insert(value)
        kept = [*kept, value]
        # Both policies are asked of the window before either has evicted anything.
        kept = kept[max(len(kept) - size, kept.index(max(kept))) :]
        assert (len(window), window.query()) == (len(kept), expected)
        window = Window.restore(window.checkpoint(), Max(), policy, store, aggregator=aggregator)
    window.check()


@BOTH
@pytest.mark.parametrize("size", [3, 20, 1000])
def test_since_the_longest_run(aggregator: Any, size: int) -> None:
    pairs = list(zip(NUMBERS, map(float, range(120)), strict=True))
    window = Window(
        LongestIncreasingRun(),
        CountWindow(size) | SinceLongestRun(),
        arity=3,
        aggregator=aggregator,
    )
    plain = Window(LongestIncreasingRun(), CountWindow(size)).extend(batch_of(pairs))
    kept: list[tuple[float, float]] = []
    for pair, expected in zip(pairs, plain, strict=True):
        window.insert(pair)
        kept = [*kept, pair]
        kept = kept[max(len(kept) - size, run_of(kept).before) :]
        assert len(window) == len(kept)
        assert window.query() == run_of(kept)
        assert window.query()[:4] == expected[:4]  # what left could not have come back
    window.check()
