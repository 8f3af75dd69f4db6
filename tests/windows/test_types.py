"""What a type checker knows of results: this file is among those that mypy checks.

``assert_type`` fails there; here the results themselves are looked at.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, assert_type

from mta import (
    Collect,
    Count,
    CountWindow,
    EveryCount,
    First,
    Max,
    Mean,
    Monoid,
    Product,
    SampleStdDev,
    SharedWindows,
    SlicedWindow,
    Sum,
    TriggeredWindow,
    Window,
)
from mta.aggregations import BloomFilter, CheckedSum, MinCount, MomentSketch
from mta.columns.schemas import Decimals
from mta.monoids.bloom import Members

LAST_TWO = CountWindow(2)


def test_ready_made_monoids() -> None:
    peak = Window(Max(), LAST_TWO)
    peak.extend([3.0, 5.0, 4.0])
    assert type(assert_type(peak.query(), float)) is float
    assert type(assert_type(Window(Count(), LAST_TWO).query(), int)) is int
    assert type(assert_type(Window(MinCount(), LAST_TWO).query(), int)) is int
    for mean in (Window(Mean(), LAST_TWO), Window(SampleStdDev(), LAST_TWO)):
        mean.extend([1.0, 2.0])
        assert type(assert_type(mean.query(), float)) is float
    items = Window(Collect(), LAST_TWO)
    items.insert("a")
    assert assert_type(items.query(), list[Any]) == ["a"]
    seen = Window(BloomFilter(100), LAST_TWO)
    assert isinstance(assert_type(seen.query(), Members), Members)


def test_types_follow_the_columns() -> None:
    assert type(assert_type(Window(Sum("int64"), LAST_TWO).query(), int)) is int
    assert type(assert_type(Window(Max(int), LAST_TWO).query(), int)) is int
    assert type(assert_type(Window(First("i8"), LAST_TWO).query(), int)) is int
    assert type(assert_type(Window(CheckedSum(), LAST_TWO).query(), int)) is int
    assert type(assert_type(Window(Sum(Decimals(2)), LAST_TWO).query(), Decimal)) is Decimal
    price = Window(Max(Decimals(2)), LAST_TWO)
    assert assert_type(price.query(), Decimal | None) is None
    price.insert(Decimal("1.50"))
    assert price.query() == Decimal("1.50")
    one, several = Window(MomentSketch(0.5), LAST_TWO), Window(MomentSketch([0.5, 0.9]), LAST_TWO)
    assert type(assert_type(one.query(), float)) is float
    assert type(assert_type(several.query(), list[float])) is list


def test_monoids_of_ones_own() -> None:
    text = Monoid("", lambda a, b: a + b, name="text")
    assert_type(text, Monoid[Any, str, str])
    assert assert_type(Window(text, LAST_TWO).query(), str) == ""
    share = Monoid(
        (0.0, 0),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda value: (value, 1),
        lambda pair: f"{pair[0]:g} in {pair[1]}",
        name="share",
    )
    assert assert_type(Window(share, LAST_TWO).query(), str) == "0 in 0"
    both = Product({"peak": ("watts", Max()), "n": Count()})
    assert assert_type(Window(both, LAST_TWO).query(), dict[str, Any])["n"] == 0


def test_every_window() -> None:
    window = Window(Max(), LAST_TWO, "memory://", "typed")
    window.extend([3.0, 5.0])
    snapshot = window.checkpoint()
    restored = Window.restore(
        snapshot, window.store or "memory://", aggregations=Max(), window=LAST_TWO
    )
    assert assert_type(restored.query(), float) == 5.0
    assert assert_type(restored.restore_like(snapshot).query(), float) == 5.0
    assert assert_type(restored.range_by_position(0, 1), float) == 3.0
    triggered = TriggeredWindow(restored, EveryCount(2))
    assert assert_type(triggered.insert(1.0), list[tuple[Any, float]]) == []
    assert assert_type(triggered.query(), float) == 5.0
    sliced = SlicedWindow(Count(), LAST_TWO, 1)
    assert assert_type(sliced.insert(1.0), list[tuple[Any, int]]) == [(1, 1)]
    shared = SharedWindows(Max(), {"two": LAST_TWO})
    shared.extend([3.0, 5.0])
    assert assert_type(shared.query("two"), float) == 5.0
    assert assert_type(shared.query(CountWindow(1)), float) == 5.0
    assert assert_type(shared.query(), dict[str, float]) == {"two": 5.0}
    assert assert_type(shared.range_by_position(0, 1), float) == 3.0
