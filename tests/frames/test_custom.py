"""Frames: what exactly is inside, which cuts they make together, and who breaks the law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mta import Collect, Count, CountWindow, Max, Mean, Monoid, Sum, TimeWindow, Window
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
    with pytest.raises(ValueError, match="named columns"):
        Window(Sum(), BoundWindow(("at", Max()), at_most=1))
    assert len(window) == 0
    window = Window(Mean(), BoundWindow(Mean(), at_most=5), arity=2)
    window.extend([1.0, 2.0, 30.0, 4.0])
    assert window.query() == 4.0


@BOTH
def test_a_frame_on_the_windows_own_aggregate(aggregator: type) -> None:
    window = Window(Sum(), CustomFrame(lambda old, total: total - old >= 6), aggregator=aggregator)
    assert window.extend([1, 2, 3, 4, 5, 10, 1]).tolist() == [1, 3, 6, 7, 9, 10, 11]


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
    checked = BoundWindow(Sum(), at_most=3, checked=True)
    assert checked.fingerprint == BoundWindow(Sum(), at_most=3).fingerprint
    assert TimeWindow("1 hour").fingerprint == TimeWindow(3600).fingerprint
    assert (CountWindow(3) & TimeWindow(3)).needs_times
    assert not (CountWindow(3) | CountWindow(5)).needs_times
    assert TimeWindow("1 hour").fingerprint.hex() == "b811e08666568f9bb5d802d429831751"
    assert CountWindow(1000).fingerprint.hex() == "3f52613fc26038856190169512adca77"
