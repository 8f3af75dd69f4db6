"""The longest increasing run, and the frames of Experiment 3 on runs and maxima."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.mta.algorithms import OneByOne, Rule
from benchmarks.papers.mta.dimensions import columns, listing_3, opened
from benchmarks.papers.mta.streams import memory_usage
from mta import CountWindow, Max, TimeWindow, Window
from mta.aggregations import IncreasingRun, LongestIncreasingRun
from mta.algorithms import DABA, AmortizedMTA, LogMTA
from mta.frames import SinceLongestRun, SinceMax
from tests.support.aggregations import MANY_NUMBERS, RUNS, batch_of, run_of
from tests.support.counted import Counted

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
    window = Window(LongestIncreasingRun(), CountWindow(9), nulls="accept")
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


@pytest.mark.sample(1)
@BOTH
@pytest.mark.parametrize("size", [3, 20, 1000])
@pytest.mark.parametrize("own", [False, True])
def test_since_the_maximum(aggregator: Any, size: int, own: bool, tmp_path: Path) -> None:
    """The window begins at the oldest maximum; results are those of the count window alone."""
    frame, store = CountWindow(size) | SinceMax(own=own), f"file://{tmp_path}"
    window = Window(Max(), frame, store, arity=3, aggregator=aggregator)
    kept: list[float] = []
    plain = Window(Max(), CountWindow(size)).extend(MANY_NUMBERS)
    for value, expected in zip(MANY_NUMBERS, plain, strict=True):
        window.insert(value)
        kept = [*kept, value]
        # Both frames are asked of the window before either has evicted anything.
        kept = kept[max(len(kept) - size, kept.index(max(kept))) :]
        assert (len(window), window.query()) == (len(kept), expected)
        window = Window.restore(window.checkpoint(), store)
    window.check()


@BOTH
def test_nothing_is_searched_while_nothing_can_have_changed(
    aggregator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where the maximum is another one, or has left, may a prefix leave."""
    values = memory_usage(3000).tolist()
    for own in (False, True):
        window = Window(
            Counted().max if own else Max(), CountWindow(500) | SinceMax(own=own),
            aggregator=aggregator,
        )  # fmt: skip
        searches: list[Any] = []
        search = window.structure().longest_prefix
        monkeypatch.setattr(
            window.structure(),
            "longest_prefix",
            lambda *a, s=search, n=searches: n.append(a) or s(*a),
        )
        changes, top = 0, -math.inf
        for value in values:
            front = window.structure().front
            window.insert(value)
            changes += top != window.query() or front != window.structure().front
            top = window.query()
        assert changes < 600 and len(searches) <= 2 * changes


def test_evicting_in_bulk_takes_fewer_combines_than_one_by_one() -> None:
    """Experiment 3, on its own stream: beside DABA, which is asked about its oldest value."""
    values, size = memory_usage(6000).tolist(), 1024
    bulk, single = Counted(), Counted()
    window = Window(bulk.max, CountWindow(size) | SinceMax(own=True))
    daba = OneByOne(single.max, Rule(size, lambda prefix, total: prefix < total), DABA)
    for value in values:
        window.insert(value)
        assert window.query() == daba.slide(value)
    assert bulk.combines < single.combines


@BOTH
@pytest.mark.parametrize("size", [3, 20, 1000])
def test_since_the_longest_run(aggregator: Any, size: int) -> None:
    frame = CountWindow(size) | SinceLongestRun()
    window = Window(LongestIncreasingRun(), frame, arity=3, aggregator=aggregator)
    plain = Window(LongestIncreasingRun(), CountWindow(size)).extend(batch_of(RUNS))
    kept: list[tuple[float, float]] = []
    for pair, expected in zip(RUNS, plain, strict=True):
        window.insert(pair)
        kept = [*kept, pair]
        kept = kept[max(len(kept) - size, run_of(kept).before) :]
        assert len(window) == len(kept)
        assert window.query() == run_of(kept)
        assert window.query()[:4] == expected[:4]  # what left could not have come back
    window.check()


def test_own_and_a_column_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="name no column"):
        SinceMax("x", own=True)


def test_the_dimensions_slide_by_listing_3(tmp_path: Path) -> None:
    """Each update says how many the window is to hold; when that falls, many leave at once."""
    window = opened(2, 16, listing_3(), str(tmp_path))
    assert len(window) == 16
    for size, expected in ((16.0, 16), (16.0, 16), (20.0, 17), (5.0, 5), (5.0, 5), (7.0, 6)):
        window.insert({"count_0": 1.0, "count_1": 1.0, "maxSize": size})
        assert len(window) == expected
        assert window.query() == {"count_0": expected, "count_1": expected}
    window.extend(columns(2, 10, 3))
    assert len(window) == 3
    window.close()
