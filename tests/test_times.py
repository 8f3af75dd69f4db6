"""Times and durations in every form, and those that are refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mta.errors import InvalidTime
from mta.times import read_times, to_time, to_times

NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
MICROS = 1_709_208_000_123_456


@pytest.mark.parametrize(
    ("given", "micros"),
    [
        (NOON, MICROS),
        (NOON.replace(tzinfo=None), MICROS),
        (NOON.astimezone(timezone(timedelta(hours=-5))), MICROS),
        (np.datetime64(MICROS, "us"), MICROS),
        (np.datetime64(MICROS * 1000, "ns"), MICROS),
        (pd.Timestamp(NOON), MICROS),
        (date(1970, 1, 2), 86_400_000_000),
        (np.datetime64("1970-01-02"), 86_400_000_000),
        (0, 0),
        (-3, -3_000_000),
        (1.5, 1_500_000),
        (np.float64(0.1), 100_000),
        (np.int64(7), 7_000_000),
        (datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), -1_000_000),
    ],
)
def test_one_time(given: Any, micros: int) -> None:
    assert to_time(given) == micros and type(to_time(given)) is int
    assert to_times([given]).tolist() == [micros]


@pytest.mark.parametrize(
    "given",
    [None, math.nan, math.inf, "yesterday", object(), np.datetime64("NaT"), pd.NaT, 1e13, 10**13,
     -(10**400), np.datetime64(1, "ns"), pd.Timestamp(1, unit="ns"), [1], b"1"],
)  # fmt: skip
def test_no_time(given: Any) -> None:
    with pytest.raises(InvalidTime):
        to_time(given)


SECONDS = np.array([1_700_000_000, 1_700_000_001, 1_700_000_001])


@pytest.mark.parametrize(
    "given",
    [
        SECONDS,
        SECONDS.astype("u4"),
        SECONDS.astype(float),
        SECONDS.tolist(),
        SECONDS.astype("M8[s]"),
        SECONDS.astype("M8[s]").astype("M8[ns]"),
        pd.Series(SECONDS.astype("M8[s]")),
        pd.Series(SECONDS.astype("M8[s]")).dt.tz_localize("UTC"),
        pd.to_datetime(SECONDS, unit="s"),
        [datetime.fromtimestamp(second, UTC) for second in SECONDS.tolist()],
        pa.array(SECONDS.astype("M8[s]").astype("M8[us]")),
        pa.chunked_array([pa.array(SECONDS.astype("M8[s]").astype("M8[ms]"))]),
        pa.array(SECONDS.astype("M8[s]").astype("M8[us]")).cast(pa.timestamp("us", "UTC")),
    ],
)
def test_a_batch_of_times(given: Any) -> None:
    micros = to_times(given)
    assert micros.dtype == np.int64
    assert micros.tolist() == (SECONDS * 1_000_000).tolist()


@pytest.mark.parametrize(
    "given",
    [
        [1.0, math.nan],
        [1.0, math.inf],
        np.array(["2024-01-01", "NaT"], dtype="M8[us]"),
        np.array([1], dtype="M8[ns]"),
        pa.array([1, None]),
        [1, 10**15],
        np.array([2**63], dtype="u8"),
        ["2024-01-01"],
        [None],
        [datetime(2024, 1, 1), None],
        [pd.NaT],
        1.0,
        np.ones((2, 2)),
        None,
    ],
)
def test_a_batch_that_holds_no_times(given: Any) -> None:
    with pytest.raises(InvalidTime):
        to_times(given)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "2D"])
@pytest.mark.parametrize("in_order", [True, False])
def test_datetimes_of_every_unit_are_read_as_numpy_reads_them(unit: str, in_order: bool) -> None:
    numbers = np.random.default_rng(5).integers(-900, 900, 500)
    given = (np.sort(numbers) if in_order else numbers) * (10**6 if unit in ("ns", "ps") else 1)
    times = given.astype(f"M8[{unit}]")
    expected = times.astype("M8[us]").view("i8").tolist()
    assert read_times(times)[0].tolist() == expected
    assert read_times(times)[1] == in_order
    assert to_times(times.astype(f">M8[{unit}]")).tolist() == expected  # of another byte order
    assert to_times(times[::3]).tolist() == expected[::3]


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "2D"])
def test_datetimes_beyond_the_limits_are_named_wherever_they_stand(unit: str) -> None:
    last = int(np.array(2**62 - 1, "M8[us]").astype(f"M8[{unit}]").view("i8"))
    for numbers in ([last, 0], [-last, 0, last - 1]):
        times = np.array(numbers, "i8").astype(f"M8[{unit}]")
        assert to_times(times).tolist() == times.astype("M8[us]").view("i8").tolist()
    for numbers in ([0, last + 1], [last + 1, 0], [-last - 2, 0], [1, 2**63 - 1, 0]):
        with pytest.raises(InvalidTime, match="out of range"):
            to_times(np.array(numbers, "i8").astype(f"M8[{unit}]"))


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns", "25ns", "Y"])
def test_a_missing_datetime_is_named_wherever_it_stands(unit: str) -> None:
    for place in range(3):
        times = np.arange(3).astype(f"M8[{unit}]")
        times[place] = "NaT"
        with pytest.raises(InvalidTime, match="null"):
            to_times(times)


@pytest.mark.parametrize("unit", ["ns", "ps", "fs", "as", "25ns"])
def test_datetimes_finer_than_a_microsecond_are_named(unit: str) -> None:
    for numbers in ([0, 1], [1, 0], [-1, 0]):
        with pytest.raises(InvalidTime, match="finer"):
            to_times(np.array(numbers, "i8").astype(f"M8[{unit}]"))


def test_datetimes_in_microseconds_are_not_copied() -> None:
    times = SECONDS.astype("M8[us]")
    assert np.shares_memory(to_times(times), times)


def test_no_times_at_all() -> None:
    assert to_times([]).tolist() == []
