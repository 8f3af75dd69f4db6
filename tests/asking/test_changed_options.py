"""A restore with other options: each that changes results takes effect at once, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mta import (
    CalendarWindow,
    CountWindow,
    EveryPeriod,
    First,
    KeyedWindows,
    Last,
    Product,
    SharedWindows,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
)
from mta.aggregations import Lag, NthValue
from mta.errors import SnapshotMismatch
from mta.monoids.product import skip_nulls
from stores import MemoryStore

HOUR = TimeWindow("1 hour")
VALUES, TIMES = [1.0, 2.0, None, 8.0], [100, 200, 300, 300]
KINDS = (Window, SharedWindows, KeyedWindows)


def of(kind: type, frame: Any) -> Any:
    return {"w": frame} if kind is SharedWindows else frame


def fed(windows: Any, values: Any, times: Any) -> Any:
    """The last result of the events, all of one key."""
    keys = [["k"] * len(times)] if isinstance(windows, KeyedWindows) else []
    found = windows.extend(*keys, values, times)
    column = next(iter(found.values())) if isinstance(found, dict) else found
    return column.tolist()[-1]


def restored(kind: type, before: Any, after: Any, was: Any, now: Any, **feed: Any) -> Any:
    """Windows with ``now`` as options, from the snapshot of those with ``was``."""
    store = MemoryStore()
    windows = kind(before[0], of(kind, before[1]), store, name="w", **was)
    fed(windows, feed.get("values", VALUES), TIMES)
    return kind.restore(
        windows.checkpoint(), store, aggregations=after[0], window=of(kind, after[1]), **now
    )


#: Of all these the events are still retained, so results are those of windows that always had them.
TAKES_EFFECT: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "min_samples": (HOUR, HOUR, {}, {"min_samples": 6}),
    "no min_samples": (HOUR, HOUR, {"min_samples": 6}, {"min_samples": None}),
    "closed": (HOUR, TimeWindow("1 hour", closed="left"), {}, {}),
    "delay": (HOUR, TimeWindow("50 minutes", delay="1 minute"), {}, {}),
    "exclude_current": (CountWindow(9), CountWindow(8, exclude_current=True), {}, {}),
    "zone": (
        CalendarWindow("1 day", zone="Europe/Berlin"), CalendarWindow("1 day", zone="Asia/Tokyo"),
        {}, {},
    ),
    "retain_for": (HOUR, HOUR, {"retain_for": "1 day"}, {"retain_for": "1 hour"}),
    "max_ahead": (HOUR, HOUR, {}, {"max_ahead": "1 minute"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", TAKES_EFFECT)
def test_an_option_takes_effect_with_the_restore(option: str, kind: type) -> None:
    before, after, was, now = TAKES_EFFECT[option]
    again = restored(
        kind, (Sum(), before), (Sum(), after), {"nulls": "skip"} | was, {"nulls": "skip"} | now
    )
    fresh: Any = kind(Sum(), of(kind, after), name="w", nulls="skip", **now)
    fed(fresh, VALUES, TIMES)
    more = ([32.0, 64.0], [400, 410])
    assert fed(again, *more) == fed(fresh, *more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ({"nulls": "skip"}, {"nulls": "raise"}, "skip"),
        ({}, {"retain_for": "1 day"}, "allowed_lateness|FiBA|Finger"),
        (
            {"retain_for": "1 day"},
            {"retain_for": None, "allowed_lateness": None},
            "allowed_lateness|FiBA|Finger",
        ),
    ],
)
def test_what_is_stored_otherwise_is_refused(
    kind: type, was: dict[str, Any], now: dict[str, Any], message: str
) -> None:
    with pytest.raises(SnapshotMismatch, match=message):
        restored(kind, (Sum(), HOUR), (Sum(), HOUR), was, now, values=[1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("kind", [Window, SharedWindows])
@pytest.mark.parametrize("make", [First, Last, lambda **skip: Lag(1, **skip),
                                  lambda **skip: NthValue(2, **skip)])  # fmt: skip
def test_other_rules_for_nulls_are_refused_by_name(kind: type, make: Callable[..., Any]) -> None:
    skips = {"nulls": "skip"}
    with pytest.raises(SnapshotMismatch, match=r"skipping nulls, not with .* respecting nulls"):
        restored(kind, (make(), HOUR), (make(skip_nulls=False), HOUR), skips, skips)


def filtered(by: str) -> Product:
    return Product({"s": ("v", Sum(), by)})


def test_another_filter_is_refused_or_reported_as_incomplete() -> None:
    values = {"v": [1.0, 2.0, 4.0, 8.0], "a": [True] * 4, "b": [True] * 4}
    for kind in (Window, SharedWindows):
        with pytest.raises(SnapshotMismatch, match=r"Sum filtered.*\(v,a\).*\(v,b\)"):
            restored(kind, (filtered("a"), HOUR), (filtered("b"), HOUR), {}, {}, values=values)
    keyed = restored(
        KeyedWindows, (filtered("a"), HOUR), (filtered("b"), HOUR), {}, {}, values=values
    )
    (missing,) = keyed.coverage().incomplete
    assert missing.aggregation == "s"
    assert missing.complete_from == np.datetime64("1970-01-01T01:05:00")


@pytest.mark.parametrize("other", [{"offset": "9h"}, {"zone": "Europe/Berlin"}])
def test_another_period_is_refused(other: dict[str, Any]) -> None:
    store = MemoryStore()
    daily = TriggeredWindow(Window(Sum(), HOUR, store, name="w"), EveryPeriod("1 day"))
    daily.extend([1.0], [1e9])
    with pytest.raises(SnapshotMismatch, match="has the trigger"):
        TriggeredWindow.restore(
            daily.checkpoint(),
            store,
            aggregations=Sum(),
            window=HOUR,
            trigger=EveryPeriod("1 day", **other),
        )


def test_a_query_takes_another_min_samples() -> None:
    pytest.importorskip("pyspark")
    from spark_integration.step.step import step
    from tests.support.spark.states import make_plan

    def rows(*seconds: int) -> pa.Table:
        times = pa.array([s * 10**6 for s in seconds], pa.timestamp("us", "UTC"))
        count = len(seconds)
        return pa.table({"device": ["a"] * count, "ts": times, "watts": np.ones(count)})

    def plan(least: int) -> Any:
        total = Product({"sum": ("watts", Sum())}).with_parts(skip_nulls(min_samples=least))
        return make_plan(window=HOUR, monoid=total, results={"sum": pa.float64()})

    store = MemoryStore()
    done = step(None, rows(1, 2), plan(1), store)
    assert done.rows.column("sum").to_pylist() == [1.0, 2.0]
    done = step(done.state, rows(3, 4), plan(4), store)
    assert done.rows.column("sum").to_pylist() == [None, 4.0]
