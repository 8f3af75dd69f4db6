"""One rule for times that are numbers: a table of units and types times entry points."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import (
    EveryCount,
    KeyedWindows,
    SessionWindow,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    TriggeredWindow,
    Window,
    rolling,
)
from mta.algorithms import FiBA
from mta.errors import InvalidTime
from mta.frames import Frame
from mta.times import TIME_UNITS, likely_unit, to_time, to_times

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
START = 1_700_000_000
#: Sums of ones over two minutes, of six events a minute apart.
SUMS = [1, 2, 2, 2, 2, 2]
TWO_MINUTES = TimeWindow("2 minutes")


def moments(unit: str) -> list[int]:
    return [(START + 60 * at) * TICKS[unit] for at in range(6)]


def rolled(times: Any, unit: Any) -> list[float]:
    frame = {"k": pa.array(["a"] * 6), "v": pa.array([1.0] * 6), "t": pa.array(times)}
    found = rolling(
        pa.table(frame),
        by="k",
        on="t",
        window="2m",
        aggregations={"s": ("v", Sum())},
        time_unit=unit,
    )
    return found.column("s").to_pylist()  # type: ignore[no-any-return]


def window(**settings: Any) -> Window[float]:
    return Window(Sum(), TWO_MINUTES, **settings)


#: What adds six events of 1.0 at some times, and gives the result after each.
BATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "Window": lambda times, unit: window().extend([1.0] * 6, times, time_unit=unit),
    "Window of FiBA": lambda times, unit: window(aggregator=FiBA).extend(
        [1.0] * 6, times, time_unit=unit
    ),
    "Window.revise": lambda times, unit: (
        window(aggregator=FiBA).revise([1.0] * 6, times, time_unit=unit).results
    ),
    "SharedWindows": lambda times, unit: SharedWindows(Sum(), {"w": TWO_MINUTES}).extend(
        [1.0] * 6, times, time_unit=unit
    )["w"],
    "KeyedWindows": lambda times, unit: KeyedWindows(Sum(), TWO_MINUTES).extend(
        ["a"] * 6, [1.0] * 6, times, time_unit=unit
    ),
    "TriggeredWindow": lambda times, unit: (
        TriggeredWindow(window(), EveryCount(1)).extend([1.0] * 6, times, time_unit=unit).results
    ),
    # At five whole minutes between the events; the last event is in no result yet.
    "SlicedWindow": lambda times, unit: [
        *SlicedWindow(Sum(), TWO_MINUTES, "1m").extend([1.0] * 6, times, time_unit=unit).results,
        2,
    ],
    "rolling": rolled,
}
#: What takes one time that is a number.
SINGLES: dict[str, Callable[[Any], Any]] = {
    "insert": lambda time: window().insert(1.0, time),
    "insert into memory": lambda time: window(store=None).insert(1.0, time),
    "insert late": lambda time: window(aggregator=FiBA, allowed_lateness=1).insert(1.0, time),
    "insert into several": lambda time: SharedWindows(Sum(), {"w": TWO_MINUTES}).insert(1.0, time),
    "range": lambda time: window().range(0, time),
    "retract": lambda time: window(aggregator=FiBA).retract(time),
    "retract of a key": lambda time: KeyedWindows(Sum(), TWO_MINUTES, allowed_lateness=0).retract(
        "a", time
    ),
    "expire": lambda time: KeyedWindows(Sum(), TWO_MINUTES).expire(time),
}


@pytest.mark.parametrize("unit", TICKS)
@pytest.mark.parametrize("entry", BATCHES)
def test_numbers_of_a_stated_unit_are_read_in_every_entry_point(entry: str, unit: str) -> None:
    columns = [moments(unit), np.array(moments(unit)), pl.Series(moments(unit))]
    if unit != "ns":  # doubles have no room for these
        columns.append(np.array(moments(unit), float))
    for column in columns:
        assert list(BATCHES[entry](column, unit)) == SUMS


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("entry", BATCHES)
def test_numbers_that_are_no_seconds_are_refused_with_their_likely_unit(
    entry: str, unit: str
) -> None:
    for column in (moments(unit), np.array(moments(unit)), np.array(moments(unit), float)):
        with pytest.raises(InvalidTime, match=f"2023-11-14T22:1.*time_unit='{unit}'"):
            BATCHES[entry](column, None)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("entry", SINGLES)
def test_a_single_number_that_is_no_seconds_is_refused_with_what_to_write(
    entry: str, unit: str
) -> None:
    for time in (START * TICKS[unit], float(START * TICKS[unit]), np.int64(START * TICKS[unit])):
        with pytest.raises(InvalidTime, match=rf"np.datetime64\({START * TICKS[unit]}, '{unit}'\)"):
            SINGLES[entry](time)


@pytest.mark.parametrize("frame", [TWO_MINUTES, TimeWindow("5000 weeks"), SessionWindow(9)])
@pytest.mark.parametrize("settings", [{}, {"store": None}, {"aggregator": FiBA}])
def test_a_number_that_is_no_seconds_is_refused_after_many_that_are(
    frame: Frame, settings: dict[str, Any]
) -> None:
    """Single events take a shorter way once there are some."""
    for one in (Window(Sum(), frame, **settings), SharedWindows(Sum(), {"w": frame})):
        for at in range(100):
            one.insert(1.0, float(START + at))
        for time in (START * 1000.0, START * 1000, 1e11):
            with pytest.raises(InvalidTime, match="no plausible number of seconds"):
                one.insert(1.0, time)


@pytest.mark.parametrize("entry", BATCHES)
def test_seconds_need_no_unit_and_datetimes_have_their_own(entry: str) -> None:
    assert list(BATCHES[entry](moments("s"), None)) == SUMS
    assert list(BATCHES[entry](np.arange(0, 360, 60), None)) == SUMS
    for unit in ("us", "ns"):
        times = np.array(moments(unit)).astype(f"M8[{unit}]")
        assert list(BATCHES[entry](times, None)) == list(BATCHES[entry](times, "s")) == SUMS


@pytest.mark.parametrize("entry", BATCHES)
def test_a_unit_that_is_none_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="time_unit is one of 's', 'ms', 'us', 'ns', not 'min'"):
        BATCHES[entry](moments("s"), "min")


@given(st.datetimes(datetime(1974, 1, 1), datetime(5100, 1, 1)), st.sampled_from(list(TICKS)))
def test_the_likely_unit_of_a_plausible_date_is_its_unit(moment: datetime, unit: Any) -> None:
    micros = to_time(moment)
    number = micros * TICKS[unit] // 10**6
    if number < 2**63:
        step = max(10**6 // TICKS[unit], 1)
        whole = [micros // step * step]
        assert likely_unit(number) == unit
        assert [to_time(number, unit)] == to_times([number], unit).tolist() == whole
        assert to_times(np.array([number]), unit).tolist() == whole
        assert to_times([Decimal(number)], unit).tolist() == whole


def test_numbers_finer_than_a_microsecond_are_refused() -> None:
    for read in (lambda: to_time(1, "ns"), lambda: to_times([1], "ns")):
        with pytest.raises(InvalidTime, match="finer"):
            read()


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_the_ends_of_every_unit(unit: Any) -> None:
    last = min((2**62 - 1) * TICKS[unit] // 10**6, 2**63 - 1)
    if unit == "ns":
        last -= last % 1000
    assert to_times(np.array([last, -last]), unit).tolist() == [
        last * 10**6 // TICKS[unit],
        -(last * 10**6 // TICKS[unit]),
    ]
    if unit != "ns":
        with pytest.raises(InvalidTime, match="out of range"):
            to_times([last + 1], unit)


def test_a_duration_is_no_time() -> None:
    for value in (np.timedelta64(5, "s"), pd.Timedelta(5, "s")):
        with pytest.raises(InvalidTime, match="is not a time"):
            to_time(value)
    for unit in ("s", "us", "ns"):
        durations = np.array([1, 2, 3], f"m8[{unit}]")
        for column in (durations, pl.Series(durations.astype("m8[us]")), pa.array(durations)):
            with pytest.raises(InvalidTime, match="durations are not times"):
                to_times(column)
