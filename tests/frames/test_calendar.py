"""Windows by the calendar, against a list of events and Python's datetimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from mta import (
    CalendarWindow,
    CountWindow,
    EveryPeriod,
    KeyedWindows,
    Max,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
    rolling,
)
from mta.frames.known import covers, frame_from_text

EPOCH = datetime(1970, 1, 1)
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo"]
LENGTHS = ["1 day", "3 days", "2 weeks", "month", "3 months", "1 quarter", "1 year"]
UNITS = ["day", "week", "month", "quarter", "year"]
WINDOWS = [CalendarWindow(length, zone) for length in LENGTHS for zone in ZONES]
WINDOWS += [CalendarWindow.to_date(unit, zone) for unit in UNITS for zone in ZONES]  # type: ignore[arg-type]
EACH = pytest.mark.parametrize("window", WINDOWS, ids=repr)


def micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


def to_utc(local: datetime, zone: ZoneInfo) -> datetime:
    """The moment at which a clock shows a local time; one that it skips is that of the change."""
    moment = local.replace(tzinfo=zone).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local:
        return moment
    change = moment.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    while change.astimezone(zone).replace(tzinfo=None) < local:
        change += timedelta(minutes=15)
    return change


def months_ago(local: datetime, count: int) -> datetime:
    """The same day and time of an earlier month; the end of its last day if it has no such day."""
    month = local.year * 12 + local.month - 1 - count
    first = local.replace(year=month // 12, month=month % 12 + 1, day=1)
    after = first.replace(year=(month + 1) // 12, month=(month + 1) % 12 + 1)
    if local.day > ((after - first).days):
        return after.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(microseconds=1)
    return first.replace(day=local.day)


def start_of(window: CalendarWindow, time: int) -> int:
    """The time after which the events of a window are, for moments with one local time."""
    zone = ZoneInfo(window.zone.name)
    moment = (EPOCH + timedelta(microseconds=time)).replace(tzinfo=UTC)
    local = moment.astimezone(zone).replace(tzinfo=None)
    months = {"month": 1, "quarter": 3, "year": 12}
    if not window.is_to_date:
        days = {"day": 1, "week": 7}.get(window.unit)
        ago = (
            local - timedelta(days=days * window.count)
            if days
            else months_ago(local, months[window.unit] * window.count)
        )
        return micros(to_utc(ago, zone))
    day = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if window.unit == "week":
        day -= timedelta(days=day.weekday())
    elif window.unit != "day":
        first = (day.month - 1) // months[window.unit] * months[window.unit] + 1
        day = day.replace(month=first, day=1)
    return micros(to_utc(day, zone)) - 1


def usual(times: np.ndarray, zone: str) -> np.ndarray:
    """Of some times those that are no second hour of a clock that goes back."""
    there = [
        (EPOCH + timedelta(microseconds=t)).replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
        for t in times.tolist()
    ]
    return times[[not moment.fold for moment in there]]


def times_of(window: CalendarWindow, count: int = 700) -> np.ndarray:
    """Times of four years; those of the changes of clocks, and ends of months, among them."""
    random = np.random.default_rng(5)
    begin, end = micros(datetime(2015, 1, 1)), micros(datetime(2019, 1, 1))
    ends = [micros(datetime(2016, month, 28)) for month in range(1, 12)]
    near = [at + random.integers(0, 4 * 86_400 * 10**6, 12) for at in ends]
    changes = [datetime(2016, 3, 27, 1), datetime(2016, 10, 30, 1), datetime(2016, 10, 16, 3)]
    near += [micros(at) + random.integers(-(10**11), 10**11, 20) for at in changes]
    found = np.sort(np.concatenate([random.integers(begin, end, count), *near]))
    return usual(found, window.zone.name)


@EACH
def test_starts_are_those_of_the_calendar(window: CalendarWindow) -> None:
    times = times_of(window)
    assert window.starts(times).tolist() == [start_of(window, t) for t in times.tolist()]


@EACH
def test_starts_never_go_back(window: CalendarWindow) -> None:
    times = micros(datetime(2016, 1, 1)) + np.arange(0, 366 * 96) * 900 * 10**6
    assert (np.diff(window.starts(times)) >= 0).all()


def naive(window: CalendarWindow, times: np.ndarray, values: np.ndarray) -> list[float]:
    starts = window.starts(times)
    return [
        float(values[int(times.searchsorted(start, side="right")) : i + 1].max())
        for i, start in enumerate(starts.tolist())
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("window", WINDOWS[::5], ids=repr)
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_every_kind_of_window_agrees_with_a_list(window: CalendarWindow, batch: int) -> None:
    times = times_of(window, 100)
    values = np.random.default_rng(7).normal(size=len(times))
    expected = naive(window, times, values)
    moments = times.astype("M8[us]")
    one = Window(Max(), window, arity=3, leaf_arity=4)
    late = Window(Max(), window, arity=3, leaf_arity=4, allowed_lateness="1 hour", name="late")
    shared = SharedWindows(Max(), {"a": window, "b": CountWindow(5)}, arity=3, leaf_arity=4)
    keyed = KeyedWindows(Max(), window)
    found: dict[str, list[Any]] = {"one": [], "late": [], "shared": [], "keyed": []}
    for at in range(0, len(times), batch):
        cut = slice(at, at + batch)
        found["one"] += one.extend(values[cut], moments[cut]).tolist()
        found["late"] += late.extend(values[cut], moments[cut]).tolist()
        found["shared"] += shared.extend(values[cut], moments[cut])["a"].tolist()
        keys = ["k"] * len(values[cut])
        found["keyed"] += keyed.extend(keys, values[cut], moments[cut]).tolist()
    assert found == dict.fromkeys(found, expected)


def test_a_day_of_a_zone_has_23_or_25_hours() -> None:
    window = CalendarWindow("1 day", zone="Europe/Berlin")
    noons = [datetime(2024, 3, 31, 10), datetime(2024, 10, 27, 11), datetime(2024, 6, 1, 10)]
    hours = [(micros(at) - window.start(micros(at))) / 3600e6 for at in noons]
    assert hours == [23, 25, 24]


def test_a_month_before_the_end_of_march_begins_with_march() -> None:
    window = CalendarWindow("1 month")
    for day in (29, 30, 31):
        start = window.start(micros(datetime(2023, 3, day, 12)))
        assert start == micros(datetime(2023, 3, 1)) - 1
    assert window.start(micros(datetime(2024, 3, 29, 12))) == micros(datetime(2024, 2, 29, 12))


def test_a_table_of_two_meters() -> None:
    pd = pytest.importorskip("pandas")
    days = pd.date_range("2024-01-30", periods=40, freq="D", tz="Europe/Berlin").as_unit("us")
    frame = pd.DataFrame({"meter": "a", "ts": days, "kwh": 1.0})
    to_date = CalendarWindow.to_date("month", zone="Europe/Berlin")
    found = rolling(
        frame, by="meter", on="ts", window=to_date, aggregations={"sum": ("kwh", Sum())}
    )
    assert found["sum"].tolist() == [
        float(day.day if day.month > 1 else day.day - 29) for day in days
    ]


@EACH
def test_a_window_is_known_by_its_description(window: CalendarWindow) -> None:
    known = frame_from_text(window.describe(), window.fingerprint)
    assert repr(known) == repr(window) == repr(eval(repr(window)))
    times = times_of(window, 50)
    assert known is not None and known.starts(times).tolist() == window.starts(times).tolist()  # type: ignore[attr-defined]


def test_which_windows_surely_hold_all_of_another() -> None:
    day, month = CalendarWindow("1 day"), CalendarWindow("1 month")
    assert covers(month, day) and not covers(day, month)
    assert covers(TimeWindow("40 days"), month) and not covers(TimeWindow("28 days"), month)
    assert covers(month, TimeWindow("20 days")) and not covers(month, TimeWindow("31 days"))
    assert not covers(CalendarWindow.to_date("year"), TimeWindow("1 hour"))


@pytest.mark.parametrize("length", ["", "0 days", "1 hour", "3 fortnights", "10001 days", "-1 day",
                                    "1.5 months", None, 3])  # fmt: skip
def test_other_lengths_are_named(length: Any) -> None:
    with pytest.raises(ValueError, match="a calendar window has a length of 1 to 10,000 days"):
        CalendarWindow(length)


def test_other_units_and_zones_are_named() -> None:
    with pytest.raises(ValueError, match=r"begins with a day, week, .* year, not 'hour'"):
        CalendarWindow.to_date("hour")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no time zone 'Mars/Olympus' is known here"):
        CalendarWindow("1 day", zone="Mars/Olympus")


@pytest.mark.parametrize(
    ("moment", "start"),
    [
        ("2024-11-03T05:59", "2024-11-02T05:59"),
        ("2024-11-03T06:30", "2024-11-02T06:00"),  # the second pass of the repeated hour
        ("2024-11-03T07:30", "2024-11-02T06:30"),
        ("2024-11-04T06:30", "2024-11-03T05:30"),  # 25 hours, from the first pass on
        ("2024-11-04T07:00", "2024-11-03T07:00"),
        ("2024-03-11T06:30", "2024-03-10T07:00"),  # the clock skipped half past two
    ],
)
def test_a_day_whose_clock_changes(moment: str, start: str) -> None:
    given, wanted = (np.array([text], "M8[us]").view("i8") for text in (moment, start))
    assert (
        CalendarWindow("1 day", zone="America/New_York").starts(given).tolist() == wanted.tolist()
    )


def test_a_duration_of_months_names_what_follows_the_calendar() -> None:
    with pytest.raises(
        ValueError, match="use a CalendarWindow; months, quarters and years have no"
    ):
        TimeWindow("1 month")
    with pytest.raises(ValueError, match=r'CalendarWindow.to_date\("month"\) with EveryPeriod'):
        EveryPeriod("1 month")
