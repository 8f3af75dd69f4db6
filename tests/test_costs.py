"""What a short text or number makes the package compute is bounded by its length."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from mta import Count, CountWindow, KeyedWindows, Last, Max, Mean, Sum, TimeWindow, Window
from mta.aggregations import Decimals
from mta.errors import InvalidTime, WindowStoreError
from mta.times import to_duration, to_time, to_times

#: Seconds of the processor: an integer with each digit of these numbers takes longer.
MOST = 0.5
HUGE = [
    f"{sign}{digits}e{exponent}"
    for sign in ("", "-")
    for digits in ("1", "0", "12345678901234567890.5")
    for exponent in (400_000, -400_000, 999_990, -999_990, 10**17, -(10**17))
]


def keyed(**given: Any) -> KeyedWindows:
    return KeyedWindows(Count(), CountWindow(2), store=None, **given)


READERS: dict[str, Callable[[Decimal], Any]] = {
    "a time": to_time,
    "a time in nanoseconds": lambda number: to_time(number, "ns"),
    "times": lambda number: to_times([number, 1]),
    "times in milliseconds": lambda number: to_times([number, 1], "ms"),
    "a duration": to_duration,
    "a time window": lambda number: TimeWindow(number),  # type: ignore[arg-type]
    "a key": lambda number: keyed().extend([number], [1]),
    "a part of a key": lambda number: keyed().extend([("a", number)], [1]),
    "a time of an event": lambda number: Window(Max(), TimeWindow(9), store=None).extend(
        [1.0], [number]
    ),
} | {
    f"a value of {monoid!r}, {how}": lambda number, monoid=monoid, how=how: (
        Window(monoid, CountWindow(2), store=None).extend([number])
        if how == "together"
        else Window(monoid, CountWindow(2), store=None).insert(number)
    )
    for how in ("together", "alone")
    for monoid in (
        Sum(), Sum("int64"), Sum(Decimals(2)), Max(), Max("uint64"), Max(Decimals(2)),
        Last(Decimals(18)), Mean(),
    )
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_a_decimal_with_a_huge_exponent_is_read_soon(reader: str) -> None:
    for text in HUGE:
        started = time.process_time()
        try:
            READERS[reader](Decimal(text))
        except (WindowStoreError, ValueError) as error:
            assert isinstance(error, WindowStoreError) or "duration" in reader or "time w" in reader
            assert len(str(error)) < 1000
        assert time.process_time() - started < MOST, text


@pytest.mark.parametrize("unit", [None, "s", "ns"])
def test_times_of_many_digits_are_refused_by_name(unit: Any) -> None:
    for number in (10**5000, -(10**5000), Decimal("1e400000"), Decimal("-1e400000")):
        with pytest.raises(InvalidTime):
            to_time(number, unit)
    assert to_time(Decimal("-1e-400000"), unit) == 0
