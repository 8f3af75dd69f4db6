"""One reader of durations behind every entry point: a table of durations times entry points."""

from __future__ import annotations

import re
from collections.abc import Callable
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
from tests.support.durations import BAD_NUMBERS, BAD_TEXTS, BAD_VALUES, NUMBERS, TEXTS, VALUES


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
