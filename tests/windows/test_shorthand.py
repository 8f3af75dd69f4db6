"""Every entry point takes the same forms of aggregations and frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mta import (
    CountWindow,
    EveryCount,
    KeyedWindows,
    Max,
    Product,
    SharedWindows,
    SlicedWindow,
    TimeWindow,
    TriggeredWindow,
    Window,
    rolling,
)
from mta.frames.shorthand import frame_of
from mta.monoids.product import aggregation_of

ROWS = {"watts": [3.0, 9.0, 1.0, 4.0, 2.0], "volts": [1.0, 2.0, 3.0, 4.0, 5.0]}
TIMES = [0, 3600, 7200, 10800, 90000]
SIZES: list[tuple[Any, Any]] = [
    (2, CountWindow(2)), (np.int64(2), CountWindow(2)), ("2 hours", TimeWindow("2 hours")),
    (timedelta(hours=2), TimeWindow("2 hours")), (np.timedelta64(2, "h"), TimeWindow("2 hours")),
    (7200.0, TimeWindow("2 hours")), (CountWindow(3), CountWindow(3)),
]  # fmt: skip
FORMS: list[tuple[Any, dict[str, Any]]] = [
    (("watts", "max"), {"watts_max": ("watts", Max())}),
    ({"peak": ("watts", "max"), "n": "count"}, {"peak": ("watts", Max()), "n": "count"}),
    (("watts", "quantile(0.5)"), {"watts_quantile_0_5": ("watts", "quantile(0.5)")}),
    ((["watts", "volts"], "max_by"), {"watts_volts_max_by": (["watts", "volts"], "max_by")}),
]


@pytest.mark.parametrize(("size", "frame"), SIZES, ids=repr)
def test_sizes_are_frames(size: Any, frame: Any) -> None:
    assert repr(frame_of(size)) == repr(frame)
    one: Any = Window("max", size)
    assert repr(one.frame) == repr(frame)
    due: Any = TriggeredWindow(one, EveryCount(1))
    assert repr(due.engine.frame) == repr(frame)
    both: Any = SharedWindows("max", {"a": size})
    assert repr(both.windows) == repr({"a": frame})
    assert repr(both.add("b", size)) and repr(both.windows["b"]) == repr(frame)
    assert repr(KeyedWindows("max", size).frame) == repr(frame)
    assert repr(KeyedWindows("max", {"a": size}).frame) == repr({"a": frame})
    sliced: Any = SlicedWindow("max", size)
    assert repr(sliced.frame) == repr(frame)


@pytest.mark.parametrize(("given", "named"), FORMS, ids=repr)
def test_forms_of_aggregations_give_the_results_of_named_pairs(given: Any, named: Any) -> None:
    """As ``rolling`` with the same arguments, whose results have the same names."""
    frame = pd.DataFrame({**ROWS, "at": TIMES, "key": ["k"] * 5})
    expected = rolling(frame, window={"few": 3, "day": "2 hours"}, aggregations=named, on="at")
    found = rolling(frame, window={"few": 3, "day": "2 hours"}, aggregations=given, on="at")
    pd.testing.assert_frame_equal(found, expected)
    columns = {name: expected[name].tolist() for name in expected if "_few" in name}
    one: Any = Window(given, 3)
    assert {f"{n}_few": v.tolist() for n, v in one.extend(ROWS).items()} == columns
    both: Any = SharedWindows(given, {"few": 3, "day": "2 hours"})
    results = both.extend(ROWS, TIMES)
    assert {n: v.tolist() for n, v in results.items()} == {n: expected[n].tolist() for n in results}
    keyed = KeyedWindows(given, {"few": 3, "day": "2 hours"})
    again = keyed.extend(["k"] * 5, ROWS, TIMES)
    assert again.keys() == results.keys()
    assert {n: v.tolist() for n, v in again.items()} == {n: expected[n].tolist() for n in again}
    assert aggregation_of(given).fingerprint == Product(named).fingerprint


WRONG: list[tuple[Any, Any, str]] = [
    (Max, 3, r"Max is a class: write Max\(\)"), ("maxx", 3, "there is no aggregation 'maxx'"),
    (7, 3, "a monoid is one of mta's"), (Max(), "3 fortnights", "cannot read"),
    (Max(), CountWindow, "CountWindow is a class"), (Max(), None, "a frame is one of mta's"),
    (Max(), True, "a frame is one of mta's"), (Max(), 0, "at least 1 event"),
    (Max(), [3], "a frame is one of mta's"), ({}, 3, "aggregations is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("aggregations", "window", "message"), WRONG, ids=repr)
@pytest.mark.parametrize("kind", [Window, SharedWindows, KeyedWindows, SlicedWindow])
def test_what_is_neither_is_named(kind: Any, aggregations: Any, window: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kind(aggregations, {"w": window} if kind is SharedWindows else window)
