"""Frames: what exactly is inside, which cuts they make together, and who breaks the law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import Collect, Count, CountWindow, Max, Mean, Monoid, Product, Sum, TimeWindow, Window
from mta.algorithms import AmortizedMTA
from mta.errors import FrameNotMonotone, InvalidTime
from mta.frames import BoundWindow, CustomFrame, Frame
from tests.support.naive import AGGREGATORS

BOTH = pytest.mark.parametrize("aggregator", AGGREGATORS)
HOUR = 3600


def collected(frame: Frame, aggregator: type = AmortizedMTA, **options: Any) -> Window:
    return Window(Collect(), frame, arity=2, aggregator=aggregator, **options)


# --- time ---------------------------------------------------------------------------------------


@BOTH
def test_an_event_exactly_one_hour_old_is_outside(aggregator: type) -> None:
    window = collected(TimeWindow("1 hour"), aggregator)
    window.insert("a", 0)
    window.insert("b", 1e-6)
    window.insert("c", HOUR - 1e-6)
    assert window.query() == ["a", "b", "c"]
    window.insert("d", HOUR)
    assert window.query() == ["b", "c", "d"]
    window.insert("e", HOUR + 1e-6)
    assert window.query() == ["c", "d", "e"]


def test_times_finer_than_a_microsecond_are_refused() -> None:
    window = collected(TimeWindow(60))
    with pytest.raises(InvalidTime, match="finer"):
        window.insert("a", np.datetime64(1, "ns"))
    with pytest.raises(InvalidTime, match="finer"):
        window.extend(["a"], np.array([1], "M8[ns]"))
    assert len(window) == 0


@pytest.mark.parametrize("size", ["1 fortnight", "", 0, -5, float("nan"), "5"])
def test_bad_sizes(size: Any) -> None:
    with pytest.raises(ValueError, match=r"window|duration"):
        TimeWindow(size)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, float("nan"), float("inf"), "3", None])
def test_bad_counts(size: Any) -> None:
    with pytest.raises(ValueError, match=f"at least 1 event, not {size!r}"):
        CountWindow(size)


def test_a_count_of_numpy_type() -> None:
    assert CountWindow(np.int64(3)).fingerprint == CountWindow(3).fingerprint  # type: ignore[arg-type]


# --- bounds and users' frames -----------------------------------------------------------------


@BOTH
def test_bounds(aggregator: type) -> None:
    def sizes(frame: Frame) -> list[int]:
        window = Window(Count(), frame, arity=2, aggregator=aggregator)
        return list(window.extend(range(0)))

    assert sizes(CountWindow(1)) == []
    window = Window(Sum(), BoundWindow(Sum(), at_most=10), arity=2, aggregator=aggregator)
    assert window.extend([4, 4, 2, 1, 11, 3, 0, 10, 0, 0]).tolist() == [
        4, 8, 10, 7, 0, 3, 3, 10, 10, 10,
    ]  # fmt: skip
    assert len(window) == 4  # a longest run takes in the zero before the 10


@BOTH
def test_an_event_that_breaks_the_bound_alone_leaves_the_window_empty(aggregator: type) -> None:
    window = Window(Max(), BoundWindow(Max(), at_most=5), arity=2, aggregator=aggregator)
    found = window.extend([1.0, 7.0, 2.0])
    assert found[0] == 1.0 and np.isnan(found[1]) and found[2] == 2.0
    window.insert(9.0)
    assert len(window) == 0 and np.isnan(window.query())


def test_bounds_below_and_both() -> None:
    window = collected(BoundWindow(Monoid(0, min, name="least"), at_least=0))
    for value in (3, 1, -1, 2, 5):
        window.insert(value)
    assert window.query() == [2, 5]
    window = collected(BoundWindow(Monoid(0, lambda a, b: a + b, name="s"), at_least=0, at_most=4))
    for value in (3, 1, 0, 2, 1):
        window.insert(value)
    assert window.query() == [1, 0, 2, 1]
    with pytest.raises(ValueError, match="at_most"):
        BoundWindow(Sum())


def test_a_bound_on_a_mean_says_nothing_of_the_empty_window() -> None:
    window = Window(Count(), CountWindow(3))
    with pytest.raises(ValueError, match="cannot read"):
        Window(Count(), BoundWindow(Sum(), at_most=1))
    assert len(window) == 0
    window = Window(Mean(), BoundWindow(Mean(), at_most=5), arity=2)
    window.extend([1.0, 2.0, 30.0, 4.0])
    assert window.query() == 4.0


@BOTH
def test_a_frame_on_the_windows_own_aggregate(aggregator: type) -> None:
    window = Window(Sum(), CustomFrame(lambda old, total: total - old >= 6), aggregator=aggregator)
    assert window.extend([1, 2, 3, 4, 5, 10, 1]).tolist() == [1, 3, 6, 7, 9, 10, 11]


@BOTH
def test_a_frame_on_a_column(aggregator: type) -> None:
    frame = CustomFrame(lambda old, new: new - old >= 3, on=("at", Max()), name="three units")
    window = Window(
        Product({"n": Count(), "sum": ("x", Sum())}), frame, arity=2, aggregator=aggregator
    )
    found = window.extend({"at": [0, 1, 2, 3, 3, 7], "x": [1, 2, 4, 8, 16, 32]})
    assert found["sum"].tolist() == [1, 3, 7, 14, 30, 32]
    assert found["n"].tolist() == [1, 2, 3, 3, 4, 1]
    with pytest.raises(ValueError, match="named columns"):
        Window(Sum(), frame)


@BOTH
def test_the_last_result_asks_the_frame_no_oftener(aggregator: type) -> None:
    """A frame that looks at the total may evict more when asked a second time."""
    frame = CustomFrame(lambda old, total: 2 * old < total, on=Sum())
    one = Window(Sum(), frame, arity=2, aggregator=aggregator)
    for value in (3.0, 3.0, 4.0):
        one.insert(value)
    last = Window(Sum(), frame, arity=2, aggregator=aggregator)
    assert last.extend([3.0, 3.0, 4.0], emit="last").tolist() == [one.query()] == [7.0]
    assert len(last) == len(one) == 2


# --- combinations -------------------------------------------------------------------------------


@BOTH
def test_either_and_both(aggregator: type) -> None:
    events = list(range(8))
    times = [0, 1, 2, 3, 30, 31, 32, 100]
    count, time = CountWindow(3), TimeWindow(20)
    assert list(collected(count | time, aggregator).extend(events, times)) == [
        [0], [0, 1], [0, 1, 2], [1, 2, 3], [4], [4, 5], [4, 5, 6], [7],
    ]  # fmt: skip
    assert list(collected(count & time, aggregator).extend(events, times)) == [
        [0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7],
    ]  # fmt: skip
    three = (count & time) | CountWindow(2)
    assert list(collected(three, aggregator).extend(events, times))[3] == [2, 3]
    assert three.needs_times and not (count | CountWindow(5)).needs_times


@BOTH
def test_two_frames_on_aggregates(aggregator: type) -> None:
    total = Monoid(0, lambda a, b: a + b, name="total")
    frame = BoundWindow(total, at_most=10) | CustomFrame(lambda p, t: t - p >= 2, on=Count())
    window = collected(frame, aggregator)
    found = list(window.extend([9, 1, 5, 3, 3, 1]))
    assert found == [[9], [9, 1], [1, 5], [5, 3], [3, 3], [3, 1]]


# --- the law ------------------------------------------------------------------------------------


@BOTH
def test_a_frame_that_is_not_monotone_is_reported(aggregator: type) -> None:
    odd = CustomFrame(lambda old, total: old % 2 == 1, on=Count(), name="odd", checked=True)
    window = Window(Sum(), odd, arity=2, aggregator=aggregator)
    window.insert(1.0)  # evicted: a prefix of one is odd
    assert len(window) == 0
    sums = CustomFrame(lambda old, total: old >= 2, on=Sum(), name="two", checked=True)
    window = Window(Sum(), sums, arity=2, aggregator=aggregator)
    window.insert(1.0)
    with pytest.raises(FrameNotMonotone, match=r"two.*position 0.*newer one at 1"):
        window.insert(1.0)
    assert (window.query(), len(window)) == (1.0, 1)  # nothing has changed
    with pytest.raises(FrameNotMonotone) as raised:
        window.extend([0.5, 0.25, 3.0, 1.0])
    assert raised.value.__notes__ == ["2 of 4 events of the batch were accepted"]
    assert (window.query(), len(window)) == (1.75, 3)
    window.check()


@BOTH
def test_a_bound_that_is_not_monotone_is_reported(aggregator: type) -> None:
    checked = BoundWindow(Sum(), at_most=5, checked=True)
    window = Window(Sum(), checked, arity=2, aggregator=aggregator)
    with pytest.raises(FrameNotMonotone, match="BoundWindow"):
        window.extend([1.0, -3.0, 2.0, 6.0])
    assert window.query() == 0.0 and len(window) == 3


@BOTH
def test_checking_does_not_change_a_monotone_frame(aggregator: type) -> None:
    values = np.random.default_rng(0).integers(0, 6, 200).astype(float)
    for one, other in [
        (BoundWindow(Sum(), at_most=20), BoundWindow(Sum(), at_most=20, checked=True)),
        (
            CustomFrame(lambda p, t: t - p >= 15, on=Sum()),
            CustomFrame(lambda p, t: t - p >= 15, on=Sum(), checked=True),
        ),
    ]:
        found = [
            Window(Max(), frame, arity=3, aggregator=aggregator).extend(values).tolist()
            for frame in (one, other)
        ]
        assert found[0] == found[1]
        assert one.fingerprint == other.fingerprint


@BOTH
def test_a_frame_that_raises_leaves_the_window_as_it_was(aggregator: type) -> None:
    class Broken(RuntimeError):
        pass

    broken = [True]

    def evicts(old: float, total: float) -> bool:
        if broken[0]:
            raise Broken
        return total - old >= 5

    window = Window(Sum(), CustomFrame(evicts), arity=2, aggregator=aggregator)
    expected: list[float] = []
    for i in range(30):
        broken[0] = True
        with pytest.raises(Broken):
            window.insert(1.0)
        assert window.query() == sum(expected) and len(window) == len(expected)
        broken[0] = False
        if i % 7 == 6:
            window.evict(len(window))
            expected = []
            continue
        window.insert(float(i % 3))
        expected.append(float(i % 3))
        while expected and sum(expected[1:]) >= 5:
            del expected[0]
        assert window.query() == sum(expected)
        window.check()


# --- descriptions -------------------------------------------------------------------------------


def test_frames_with_other_parameters_have_other_fingerprints() -> None:
    def keep(old: float, total: float) -> bool:
        return old < total

    different = [
        CountWindow(3),
        CountWindow(4),
        TimeWindow(3),
        TimeWindow(4),
        BoundWindow(Sum(), at_most=3),
        BoundWindow(Sum(), at_most=4),
        BoundWindow(Sum(), at_least=3),
        BoundWindow(Max(), at_most=3),
        BoundWindow(("a", Sum()), at_most=3),
        BoundWindow(("b", Sum()), at_most=3),
        CustomFrame(keep),
        CustomFrame(keep, name="other"),
        CustomFrame(keep, on=Sum()),
        CustomFrame(keep, on=("a", Sum())),
        CustomFrame(keep, on=("b", Sum())),
        CountWindow(3) | TimeWindow(3),
        CountWindow(3) & TimeWindow(3),
        TimeWindow(3) | CountWindow(3),
        (CountWindow(3) | TimeWindow(3)) & CountWindow(5),
    ]
    assert len({frame.fingerprint for frame in different}) == len(different)
    assert TimeWindow("1 hour").fingerprint == TimeWindow(3600).fingerprint
    assert TimeWindow("1 hour").fingerprint.hex() == "b811e08666568f9bb5d802d429831751"
    assert CountWindow(1000).fingerprint.hex() == "3f52613fc26038856190169512adca77"
