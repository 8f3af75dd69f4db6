"""Frames that end before the row, by closed=, delay=, exclude_current= and ties=, everywhere.

The oracle is the definition, event by event; DuckDB, pandas and polars say the same of theirs.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mta import (
    AbstractPolicy,
    CalendarWindow,
    CountWindow,
    KeyedWindows,
    Max,
    Mean,
    Product,
    SampleStdDev,
    Sum,
    TimeWindow,
)

DAY = 86_400_000_000
FRAMES = [
    TimeWindow("5us", closed="left"),
    TimeWindow("5us", closed="both"),
    TimeWindow("5us", closed="neither"),
    TimeWindow("1us", closed="neither"),
    TimeWindow("4us", delay="3us"),
    TimeWindow("4us", closed="left", delay="2us"),
    CountWindow(1, exclude_current=True),
    CountWindow(4, exclude_current=True),
    TimeWindow("9us", closed="left") | TimeWindow("4us", closed="left"),
    CountWindow(2, exclude_current=True) & CountWindow(5, exclude_current=True),
    CalendarWindow("1 day", closed="left", delay="2us"),
    CalendarWindow.to_date("day", closed="left"),
]
IDS = [repr(frame) for frame in FRAMES]
AGGREGATIONS = {
    "sum": ("x", Sum()),
    "most": ("x", Max()),
    "mean": ("x", Mean()),
    "n": ("x", SampleStdDev()),
}


def in_frame(
    frame: AbstractPolicy, times: list[int], row: int, last: int | None = None
) -> list[int]:
    """The events of the frame of a row: by its definition, of those up to ``last``."""
    last = row if last is None else last
    here, text = times[row], repr(frame)
    if hasattr(frame, "one"):
        one, other = (set(in_frame(side, times, row, last)) for side in (frame.one, frame.other))
        return sorted(one & other if frame.any_of else one | other)
    if isinstance(frame, CountWindow):
        stop = last + 1 - ("exclude_current" in text)
        return list(range(max(0, stop - frame.size), max(0, stop)))
    moment = here - frame.delay
    if isinstance(frame, TimeWindow):
        start, start_in = moment - frame.size, frame.closed in ("left", "both")
    elif frame.is_to_date:
        start, start_in = moment - moment % DAY, True
    else:
        start, start_in = moment - DAY, frame.closed in ("left", "both")
    end_in = frame.closed in ("right", "both")
    return [
        at
        for at in range(last + 1)
        if (start < times[at] or (start_in and start == times[at]))
        and (times[at] < moment or (end_in and times[at] == moment))
    ]


def expected(monoid: Any, values: list[float], places: list[int]) -> Any:
    if not places:
        return monoid.empty
    fold = monoid.identity
    for at in places:
        fold = monoid.combine(fold, monoid.lift(values[at]))
    return monoid.lower(fold)


def drawn_times(rng: random.Random, count: int) -> list[int]:
    """Times with ties and gaps, around a midnight."""
    times, now = [], DAY - 20
    for _ in range(count):
        now += rng.choice([0, 0, 1, 1, 2, 3, 9])
        times.append(now)
    return times


@pytest.mark.parametrize("frame", FRAMES, ids=IDS)
def test_keyed_windows_fold_what_is_in_the_frame(frame: AbstractPolicy) -> None:
    """Of several keys, in batches of any size, after a restore as well."""
    rng = random.Random(repr(frame))
    keys = [rng.choice("abc") for _ in range(120)]
    times = drawn_times(rng, 120)
    values = [float(rng.randint(-9, 9)) for _ in keys]
    monoid = Product(AGGREGATIONS)
    windows = KeyedWindows(monoid, frame, "memory://", name="frames")
    found: dict[str, list[Any]] = {name: [] for name in AGGREGATIONS}
    at = 0
    while at < len(keys):
        end = at + rng.choice([1, 2, 30])
        moments = np.array(times[at:end], "M8[us]")
        results = windows.extend(keys[at:end], {"x": values[at:end]}, moments)
        for name, column in results.items():
            found[name] += column.tolist()
        if rng.random() < 0.3:
            snapshot, store = windows.checkpoint(), windows.store
            windows = KeyedWindows.restore(snapshot, monoid, frame, store)
        at = end
    for key in "abc":
        mine = [at for at, each in enumerate(keys) if each == key]
        of_key, of_values = [times[at] for at in mine], [values[at] for at in mine]
        for place, row in enumerate(mine):
            places = in_frame(frame, of_key, place)
            for name, (_, part) in AGGREGATIONS.items():
                want = expected(part, of_values, places)
                assert found[name][row] == pytest.approx(want, nan_ok=True), (key, place, name)
