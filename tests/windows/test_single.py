"""Single events: the same bits as batches, and nothing computed twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import product as pairs
from typing import Any

import numpy as np
import pytest

from mta import (
    ArgMax,
    ArgMin,
    Count,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Min,
    Monoid,
    Product,
    SampleStdDev,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.aggregations import GeometricMean, MaxCount, MinCount, PopulationStdDev
from mta.algorithms import AmortizedMTA, FiBA, LogMTA
from mta.evaluators.cursor import Cursor
from mta.frames import SinceMax
from mta.monoids.basic import CheckedSum
from mta.monoids.columnar import ColumnarMonoid
from stores import MemoryStore
from stores.testing import FaultyStore
from tests.support.bits import bits
from tests.support.counted import Counted, general_inserts

DOUBLES = [0.0, -0.0, 1.0, -1.5, 0.1, 3e-310, 1e300, -1e300, math.inf, -math.inf, math.nan]
LONGS = [0, 1, -1, 2**31, -(2**63), 2**63 - 1]
OF_DOUBLES: list[Callable[[], ColumnarMonoid]] = [
    Sum, Max, Min, Mean, GeometricMean, MinCount, MaxCount, First, Last,
    SampleStdDev, PopulationStdDev, ArgMin, ArgMax,
]  # fmt: skip
OF_LONGS: list[Callable[[], ColumnarMonoid]] = [
    lambda: Sum("int64"), lambda: Max("int64"), lambda: Min("int64"), CheckedSum,
    lambda: First("int64"), lambda: Last("int64"),
]  # fmt: skip


@pytest.mark.parametrize(
    "make, values", [(make, DOUBLES) for make in OF_DOUBLES] + [(make, LONGS) for make in OF_LONGS]
)
def test_plain_functions_give_the_bits_of_the_array_functions(make: Any, values: Any) -> None:
    monoid = make()
    assert monoid.is_plain
    two = isinstance(monoid, ArgMin | ArgMax)
    rows = [monoid.row((value, 7.0) if two else value) for value in values]
    partials = [monoid.identity]

    def agree(plain: Any, columns: Any) -> None:
        first = tuple(column[0] for column in columns) if isinstance(columns, tuple) else columns[0]
        assert bits(plain) == bits(first), (plain, first)

    with np.errstate(all="ignore"):
        for row in rows:
            partials.append(monoid.lift(row))
            agree(partials[-1], monoid.lift_rows(monoid.inputs.one(row), 1))
        for depth in range(2):
            found = []
            for left, right in pairs(partials, partials):
                one, other = monoid.partials.one(left), monoid.partials.one(right)
                found.append(monoid.combine(left, right))
                agree(found[-1], monoid.combine_rows(one, other, 1))
            partials = found[:: 7 + depth]
        for partial in partials:
            if not (monoid.same(partial, monoid.identity) or isinstance(monoid, CheckedSum)):
                agree(monoid.lower(partial), monoid.lower_rows(monoid.partials.one(partial)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("frame", [CountWindow(50), TimeWindow(50)])
@pytest.mark.parametrize(
    "make", [Sum, Max, Min, Mean, GeometricMean, MinCount, MaxCount, First, Last, Count]
)
def test_single_events_give_the_bits_of_batches(make: Any, frame: Any) -> None:
    rng = np.random.default_rng(7)
    values, times = rng.random(900) * 10.0 ** rng.integers(-8, 8, 900), np.arange(900.0)
    # Batches of one take a vector's way and leave the same groups behind.
    one_by_one, batches = (
        Window(make(), frame, store=None, name="w", arity=4, leaf_arity=16) for _ in range(2)
    )
    for value, time in zip(values.tolist(), times.tolist(), strict=True):
        one_by_one.insert(value, time)
        single = one_by_one.query()
        batch = batches.extend(np.array([value]), np.array([time]))
        if not isinstance(one_by_one.monoid, Sum | Mean | GeometricMean):
            assert bits(single) == bits(batch[0])
        else:  # a short window is folded again for every batch, in another order
            assert single == pytest.approx(batch[0], rel=1e-12)
        assert type(single) in (float, int)
    one_by_one.check()


@pytest.mark.parametrize("make", [Sum, Mean, GeometricMean])
def test_single_events_give_the_results_of_batches_of_long_windows(make: Any) -> None:
    rng = np.random.default_rng(8)
    values = rng.random(40_000)
    single, batch = (
        Window(make(), CountWindow(20_000), store=None, name="w", leaf_arity=64) for _ in range(2)
    )
    for window in (single, batch):
        window.extend(values[:20_000], emit="last")
    found = []
    for value in values[20_000:].tolist():
        single.insert(value)
        found.append(single.query())
    # A whole leaf group at a time: a window so long is no short one beside it.
    in_batches = [batch.extend(values[at : at + 64]) for at in range(20_000, 40_000, 64)]
    np.testing.assert_allclose(found, np.concatenate(in_batches), rtol=1e-12)


KINDS = [AmortizedMTA, LogMTA, FiBA]


def test_times_are_rounded_as_those_of_batches() -> None:
    rng = np.random.default_rng(3)
    seconds = np.sort(rng.integers(0, 2 * 10**7, 400) / 2e6).tolist()
    one, other = (Window(Last(), TimeWindow(1e-5), None, f"w{at}") for at in range(2))
    lengths = []
    for time in seconds:
        one.insert(time, time)
        other.extend([time], [time])
        lengths.append((len(one), len(other)))
    assert all(mine == known for mine, known in lengths)
    assert one.engine.intake.last_time == other.engine.intake.last_time


@pytest.mark.parametrize("year", [1, 1600, 1897, 2042, 9990])
def test_times_that_are_no_double_are_kept_to_the_microsecond(year: int) -> None:
    window = Window(Last(), TimeWindow(1), None, "w", allowed_lateness=0)
    start = np.datetime64(f"{year:04}-01-01T00:00:00.000001")
    for at in range(50):
        window.insert(float(at), start + at)
    for at in range(50):
        assert window.query() == 49 - at
        window.retract(start + 49 - at)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("frame", "oldest", "newest"),
    [
        (CountWindow(1000), 999, 0), (TimeWindow(1000), 999, 0),
        (CountWindow(1000, exclude_current=True), 1000, 1),
        (TimeWindow(1000, closed="left"), 1000, 1),
        (TimeWindow(1000, delay=700), 1699, 700),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lateness", [None, 300])
def test_what_an_event_in_order_takes(frame: Any, oldest: int, newest: int, lateness: Any) -> None:
    """One combine, and one for the result; leaves are folded a few times each, and read once."""
    counted, store = Counted(), FaultyStore(MemoryStore())
    window = Window(
        counted.max, frame, store, "w", allowed_lateness=lateness, arity=16, leaf_arity=64
    )
    combines, calls = [], []
    for at in range(6000):
        before, made = counted.combines, store.calls
        window.insert(float(-at), float(at))
        assert window.query() == (float(-max(0, at - oldest)) if at >= newest else -math.inf)
        combines.append(counted.combines - before)
        calls.append(store.calls - made)
    plain = [at for at, taken in enumerate(combines) if taken <= 2]
    assert len(plain) >= (0.9 if newest else 0.95) * 6000 and sum(combines) <= 9 * 6000
    if lateness and not newest:
        assert not any(calls[at] for at in plain) and sum(calls) <= 4 * 6000 / 64


def test_a_value_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by an event that the log takes at once, because it seals a page."""
    reads, general = Counter[float](), general_inserts(monkeypatch)
    row = ColumnarMonoid.row
    monkeypatch.setattr(
        ColumnarMonoid, "row", lambda monoid, value: (reads.update([value]), row(monoid, value))[1]
    )
    window = Window(Max("int64"), TimeWindow(20), leaf_arity=4, arity=4)
    for at in range(100):
        window.insert(at, float(at))
        window.query()
    assert general and max(reads[at] for at in general[1:]) == 1


def test_a_late_event_takes_up_nothing_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    prefetched = Cursor.prefetched

    def counted(self: Cursor, most: int) -> Any:
        nonlocal asked
        asked += 1
        return prefetched(self, most)

    monkeypatch.setattr(Cursor, "prefetched", counted)
    window = Window(Max(), CountWindow(50), None, "w", aggregator=FiBA, allowed_lateness=300)
    window.extend([1.0] * 100, np.arange(100.0))
    for at in range(50):
        window.insert(float(at), 50.0 + at / 2)
        window.query()
    assert asked == 0


def test_a_result_that_cannot_be_keeps_no_event_out() -> None:
    """Only who asks for it is informed."""

    def add(a: int, b: int) -> int:
        if a + b > 100:
            raise OverflowError
        return a + b

    monoid = Monoid(0, add, name="to a hundred")
    window = Window(
        monoid,
        CountWindow(40),
        None,
        "w",
        aggregator=FiBA,
        arity=2,
        leaf_arity=2,
        allowed_lateness=1,
    )
    for at in range(300):
        window.insert(3 if at < 200 else 1, float(at))
        if at in (150, 199):
            with pytest.raises(OverflowError):
                window.query()
    assert window.query() == 40


def test_a_frame_on_an_aggregate_is_asked_when_that_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under SinceMax few events go the slow way: those that let something leave."""
    slow, counted = general_inserts(monkeypatch), Counted()
    window = Window(counted.max, CountWindow(500) | SinceMax(own=True), None, "w")
    plain: list[float] = []
    for value in np.random.default_rng(3).random(4000).tolist():
        window.insert(value)
        plain = [*plain, value]
        plain = plain[max(len(plain) - 500, plain.index(max(plain))) :]
        assert (window.query(), len(window)) == (max(plain), len(plain))
    assert len(slow) <= 200
    assert counted.cost(lambda: (window.insert(-1.0), window.query())) <= 2
    assert window.query() == max(plain)


@pytest.mark.parametrize("kind", [*KINDS, None, 3])
def test_a_query_of_an_unchanged_window_combines_nothing(kind: Any) -> None:
    """Of one window of a structure, and of two, in order or late by so many seconds."""
    counted, biggest = Counted(), Max()
    biggest.combine = counted.max.combine
    frames: Any = {"few": CountWindow(8), "more": TimeWindow(21)}
    for monoid in (Monoid(-math.inf, counted.max.combine, lower=str, name="larger"), biggest):
        if kind in KINDS:
            window: Any = Window(monoid, CountWindow(8), None, "w", arity=2, aggregator=kind)
        else:
            window = SharedWindows(monoid, frames, None, "w", allowed_lateness=kind, arity=2)
        for value in range(100):
            window.insert(0.0 - value, float(value))
            first, before = window.query(), counted.combines
            few, more = (monoid.lower(0.0 - max(value - back, 0)) for back in (7, 20))
            assert first == (few if kind in KINDS else {"few": few, "more": more})
            assert (window.query(), counted.combines) == (first, before)
        if kind == 3:
            window.insert(50.0, 97.5)
            assert {*window.query().values()} == {monoid.lower(50.0)}
            window.retract(97.5)
            few = monoid.lower(0.0 - (99 - 6))
            assert window.query() == first | {"few": few}  # what has left stays away


def test_an_empty_window_is_not_taken_for_one_whose_events_make_no_difference() -> None:
    for monoid, value, shown in ((Max(), -math.inf, -math.inf), (Sum(), 0.0, 0.0)):
        window = Window(monoid, CountWindow(3), store=None, name="w", arity=2)
        for _ in range(5):
            assert window.query() == monoid.empty or math.isnan(window.query())
            window.insert(value)
            assert (window.query(), window.query()) == (shown, shown)
            window.insert(value)
            assert window.query() == shown
            window.evict(2)
            assert len(window) == 0


def test_a_result_of_several_is_the_callers_own() -> None:
    window = Window(
        Product({"most": ("x", Max()), "sum": ("x", Sum())}), CountWindow(3), store=None, name="w"
    )
    window.insert({"x": 2.0})
    window.query()["most"] = "spoilt"
    assert window.query() == {"most": 2.0, "sum": 2.0}


def test_a_part_of_numpys_numbers_beside_one_of_pythons() -> None:
    """What users wrote for numpy's numbers gets those, whatever stands beside it."""
    rounded = ColumnarMonoid(
        "Rounded", partials="f8", identity=0.0, lift=lambda v: v.round(1), ufuncs=(np.add,)
    )
    one: Any = {"a": ("x", Max())}
    other: Any = {"b": ("x", rounded)}
    for parts in (one | other, other | one):
        window = Window(Product(parts), CountWindow(2), store=None, name="w")
        for value in (1.26, 0.5, 0.26):
            window.insert({"x": value})
        assert window.query() == {"a": 0.5, "b": pytest.approx(0.8)}
