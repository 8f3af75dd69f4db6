"""One reader of durations behind every entry point: a table of durations times entry points."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mta import (
    CountWindow,
    EveryCount,
    EveryPeriod,
    KeyedWindows,
    Max,
    SessionWindow,
    SharedWindows,
    SlicedWindow,
    Sum,
    TimeWindow,
    Window,
    rolling,
)
from mta.algorithms import FiBA
from mta.frames import DeltaWindow
from mta.in_order.boundary import PBA, SBA
from mta.times import to_duration
from spark_integration.cli.checkpoints import _seconds
from spark_integration.cli.expressions import parse_every, parse_window
from spark_integration.cli.job import Job
from spark_integration.cli.run import _with_watermark
from spark_integration.errors import InvalidRequest
from spark_integration.options import Options
from stores import InvalidStoreURL
from stores.address import parse, seconds, whole_seconds
from stores.durations import UNITS, parse_duration

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
#: Text, which every entry point takes, by its microseconds.
TEXTS: list[tuple[str, int]] = [
    (text, micros)
    for micros, texts in {
        7: ["7us", "7 µs"], 250_000: ["250 ms", "250 milliseconds"], 1_500_000: ["1.5s"],
        500_000: [".5 seconds", "PT0.5S", "PT0,5S"], 90_000_000: ["90s", " 1.5 Minutes "],
        3 * MINUTE: ["pt3m"], 5 * MINUTE: ["5m", "5min", "5 mins", "5 MINUTES"],
        HOUR: ["1h", "1H", "1 hr"], 90 * MINUTE: ["1h30m", "1 hour 30 minutes", "PT1H30M"],
        2 * HOUR: ["2 hrs"], 26 * HOUR: ["1 day, 2 hours", "P1DT2H"], DAY: ["1d"],
        7 * DAY: ["1 week", "P1W"], 14 * DAY: ["2w"], 30 * DAY: ["30 days"],
    }.items()
    for text in texts
]  # fmt: skip
#: Values of Python, numpy and pandas.
VALUES: list[tuple[Any, int]] = [
    (timedelta(minutes=1, microseconds=1), MINUTE + 1), (np.timedelta64(120, "s"), 2 * MINUTE),
    (np.timedelta64(120 * 10**9, "ns"), 2 * MINUTE), (np.timedelta64(5, "m"), 5 * MINUTE),
    (np.timedelta64(2, "W"), 14 * DAY), (pd.Timedelta("2min"), 2 * MINUTE),
    (pd.Timedelta(2000, "ns"), 2), (pd.offsets.Minute(5), 5 * MINUTE),
]  # fmt: skip
#: Numbers of seconds, where a number does not count rows.
NUMBERS: list[tuple[Any, int]] = [
    (90, 90_000_000), (0.25, 250_000), (np.int32(5), 5_000_000), (Decimal("1.5"), 1_500_000),
]  # fmt: skip
_FINE, _CALENDAR, _MALFORMED = "one microsecond", "no fixed length", "numbers with their units"
_SIGN, _NUMBER = "and finite, not", "not a number"


def _by_reason(reasons: dict[str, list[Any]]) -> list[tuple[Any, str]]:
    return [(given, reason) for reason, every in reasons.items() for given in every]


#: What no entry point takes, with words of the reason.
BAD_TEXTS = _by_reason({
    _FINE: ["500 ns", "1 nanosecond", "0.1us", "0.0000015 s"], "write m or min": ["3M", "3MS"],
    _CALENDAR: ["1mo", "3 months", "1y", "2 Years", "1q", "1h 1mo", "P1Y2D"], "PT3M": ["P1M"],
    "CountWindow": ["5i"], "needs a unit": ["1"],
    _MALFORMED: ["", "hour", "1h30", "P", "PT", "P1.2.3D", "1 hour ago"],
    "no such unit": ["1e3 s", "1 fortnight", "5 mss"], _SIGN: ["-5m", "999999999999 weeks"],
})  # fmt: skip
BAD_VALUES = _by_reason({
    _FINE: [pd.Timedelta(1500, "ns"), np.timedelta64(1500, "ns"), np.timedelta64(1, "ps")],
    _CALENDAR: [np.timedelta64(1, "M"), np.timedelta64(1, "Y"), pd.DateOffset(months=1),
                pd.offsets.MonthEnd()],
    _SIGN: [timedelta(seconds=-1)], "no unit": [np.timedelta64(5)], "null": [np.timedelta64("NaT")],
})  # fmt: skip
BAD_NUMBERS = _by_reason({
    _SIGN: [-1, math.inf, 1e300], _NUMBER: [math.nan, Decimal("sNaN")], "null": [pd.NaT],
    _FINE: [Decimal("0.0000015")],
})  # fmt: skip


def options(**given: Any) -> Options:
    return Options.of(
        by="k",
        on="t",
        aggregations={"peak": ("v", Max())},
        window=CountWindow(1),
        store="memory://",
        **given,
    )


def rolled(size: Any) -> int:
    """The window that ``rolling`` reads: its length is where an event of exactly its age is out."""
    micros = to_duration(size)
    times = np.array([0, 1, micros - 1, micros, micros + 1]).astype("M8[us]")
    frame = pd.DataFrame({"k": "a", "t": times, "v": 1.0})
    sums = rolling(frame, by="k", on="t", window=size, aggregations={"s": ("v", Sum())})["s"]
    ages = times.astype("i8")
    wanted = [sum(1 for t in ages[: i + 1] if ages[i] - t < micros) for i in range(len(ages))]
    assert sums.tolist() == wanted
    return micros


class Rows:
    """What ``_with_watermark`` asks of a frame."""

    def withWatermark(self, column: str, delay: str) -> int:
        count, unit = delay.split()
        assert unit == "microseconds"
        return int(count)


def watermark(text: str) -> Any:
    return _with_watermark(Rows(), Job(time="t", idle="expire", watermark=text))  # type: ignore[arg-type]


def url_option(text: str) -> int:
    address = parse("redis://host?deadline=" + text.replace(" ", "%20"))
    return round(address.parsed({"deadline": seconds})["deadline"] * 1e6)


def sliced(size: Any) -> int:
    window = SlicedWindow(Sum(), TimeWindow(size), size, name="w")
    return window.trigger.period  # type: ignore[attr-defined,no-any-return]


Entry = Callable[[Any], Any]
#: Where a number is a number of seconds.
OF_NUMBERS: dict[str, Entry] = {
    "TimeWindow": lambda size: TimeWindow(size).size,
    "SessionWindow": lambda size: SessionWindow(size).gap,
    "EveryPeriod": lambda size: EveryPeriod(size).period,
    "Window(lateness)": lambda size: (
        Window(Max(), CountWindow(1), aggregator=FiBA, allowed_lateness=size).settings.lateness
    ),
    "SharedWindows(lateness)": lambda size: (
        SharedWindows(Max(), {"a": CountWindow(1)}, allowed_lateness=size).settings.lateness
    ),
    "KeyedWindows(lateness)": lambda size: (
        KeyedWindows(Max(), CountWindow(1), allowed_lateness=size).settings.lateness
    ),
    "sliding_aggregate(allowed_lateness)": lambda size: (
        options(allowed_lateness=size).settings.lateness
    ),
    "SBA.timed": lambda size: SBA.timed(Max(), size, size).range,
    "PBA.timed": lambda size: PBA.timed(Max(), size, size).range,
    "SlicedWindow(slide)": sliced,
}
#: Where a number counts rows or events.
OF_VALUES: dict[str, Entry] = {
    "rolling": rolled,
    "sliding_aggregate(emit_every)": lambda size: options(emit_every=size).trigger.period,  # type: ignore[union-attr]
}
OF_TEXTS: dict[str, Entry] = {
    "mta run --window": lambda text: parse_window(text).size,
    "mta run --window session": lambda text: parse_window(f"session {text}").gap,
    "mta run --emit-every": lambda text: EveryPeriod(str(parse_every(text))).period,
    "mta run --watermark": watermark,
    "mta gc --grace": lambda text: round(_seconds("--grace", text) * 1e6),
    "store URL": url_option,
}
REFUSALS = (ValueError, TypeError, InvalidRequest, InvalidStoreURL)


@pytest.mark.parametrize("entry", OF_NUMBERS | OF_VALUES | OF_TEXTS)
def test_every_entry_point_reads_every_duration(entry: str) -> None:
    read = (OF_NUMBERS | OF_VALUES | OF_TEXTS)[entry]
    given = TEXTS + (VALUES if entry not in OF_TEXTS else [])
    given += NUMBERS if entry in OF_NUMBERS else []
    assert [(one, read(one)) for one, _ in given] == given


@pytest.mark.parametrize("entry", OF_NUMBERS | OF_VALUES | OF_TEXTS)
def test_entry_points_refuse_other_durations_with_the_reason_and_the_units(
    entry: str,
) -> None:
    read = (OF_NUMBERS | OF_VALUES | OF_TEXTS)[entry]
    given = BAD_TEXTS + (BAD_VALUES if entry not in OF_TEXTS else [])
    given += BAD_NUMBERS if entry in OF_NUMBERS else []
    for size, reason in given:
        if entry == "store URL" and size in ("1", "999999999999 weeks"):
            continue  # there a number is of seconds, and a deadline may be of any length
        if entry in ("mta run --window", "mta run --emit-every") and size.isdigit():
            continue  # there a number is of events
        with pytest.raises(REFUSALS) as refused:
            read(size)
        message = str(refused.value)
        said = reason in message or (
            entry == "store URL" and size == "-5m" and "positive" in message
        )
        assert said and "the units are us, ms, s, m (min)" in message, (size, message)


def test_an_expiry_in_a_store_url_is_a_duration_of_whole_seconds() -> None:
    assert list(map(whole_seconds, ["0", "90", "5m", "1 week"])) == [0, 90, 300, 604_800]
    for text in ("-1", "-5m", "1500ms", "1.5", "3M"):
        with pytest.raises(ValueError, match="the units are us, ms, s"):
            whole_seconds(text)


@pytest.mark.parametrize("size", [np.timedelta64(3, "s"), np.timedelta64(3), pd.Timedelta(3, "s")])
def test_a_duration_is_never_taken_for_a_number(size: Any) -> None:
    for count in (CountWindow, EveryCount, DeltaWindow):
        with pytest.raises(ValueError, match=re.escape(repr(size))):
            count(size)
    with pytest.raises(TypeError, match="whole number"):
        Window(Max(), CountWindow(1), arity=size)


@pytest.mark.parametrize("size", [np.timedelta64(120, "s"), np.timedelta64(120 * 10**9, "ns")])
def test_rolling_takes_a_duration_of_numpy_for_a_time(size: Any) -> None:
    times = pd.date_range("2024-01-01", periods=4, freq="min")
    frame = pd.DataFrame({"k": "a", "t": times, "v": [1.0, 2.0, 3.0, 4.0]})
    found = rolling(frame, by="k", on="t", window=size, aggregations={"s": ("v", Sum())})
    assert found["s"].tolist() == [1, 3, 5, 7]


@given(st.integers(1, 10**15).map(lambda micros: pd.Timedelta(micros, "us")))
def test_what_pandas_writes_is_read(size: pd.Timedelta) -> None:
    micros = size.value // 1000
    assert to_duration(size) == to_duration(size.isoformat()) == micros
    assert to_duration(size.to_timedelta64()) == to_duration(size.to_pytimedelta()) == micros


_PANDAS = {"us": "us", "ms": "ms", "s": "s", "m": "min", "h": "h", "d": "D", "w": "W"}
_PARTS = st.lists(st.tuples(st.integers(0, 500), st.sampled_from(list(_PANDAS))), min_size=1)


@given(_PARTS)
def test_durations_are_those_of_pandas_and_polars(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    of_pandas = sum((pd.Timedelta(count, _PANDAS[unit]) for count, unit in parts), pd.Timedelta(0))
    assert parse_duration(text) == of_pandas.value // 1000
    start = pl.Series([0]).cast(pl.Datetime("us"))
    assert start.dt.offset_by(text).cast(pl.Int64)[0] == parse_duration(text)


@given(st.integers(0, 10**6), st.sampled_from(list(UNITS)))
def test_a_unit_has_one_length_however_it_is_written(count: int, unit: str) -> None:
    micros = count * UNITS[unit]
    for text in (f"{count} {unit}", f"{count}{unit}s", f"{count} {unit.upper()}S"):
        assert parse_duration(text) == micros
