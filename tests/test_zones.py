"""Time zones of whole columns, against Python's own, one time after the other."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from mta.times import Zone

EPOCH = datetime(1970, 1, 1)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe",
         "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca"]  # fmt: skip
EACH = pytest.mark.parametrize("name", ZONES)


def micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


def moments(count: int = 3000) -> np.ndarray:
    """Times of 1970 to 2033, and every second around clock changes of Berlin."""
    random = np.random.default_rng(3)
    found = random.integers(0, 2_000_000_000 * 10**6, count)
    changes = [datetime(2024, 3, 31, 1), datetime(2024, 10, 27, 1)]
    around = [micros(at) + 10**6 * np.arange(-7200, 7200, 60) for at in changes]
    return np.sort(np.concatenate([found, *around]))


@EACH
def test_the_clock_of_a_zone_is_that_of_python(name: str) -> None:
    times = moments()
    for time, local in zip(times.tolist(), Zone(name).local(times).tolist(), strict=True):
        there = (
            (EPOCH + timedelta(microseconds=time)).replace(tzinfo=UTC).astimezone(ZoneInfo(name))
        )
        # An hour that passes for the second time counts as its end.
        assert local >= micros(there) if there.fold else local == micros(there)


@EACH
def test_a_local_time_is_the_first_moment_at_which_the_clock_shows_it(name: str) -> None:
    local = moments()
    for shown, time in zip(local.tolist(), Zone(name).times(local).tolist(), strict=True):
        there = (EPOCH + timedelta(microseconds=shown)).replace(tzinfo=ZoneInfo(name))
        moment = there.astimezone(UTC)
        exists = micros(moment.astimezone(ZoneInfo(name))) == shown
        assert time == micros(moment) if exists else time <= micros(moment)


@EACH
def test_neither_way_goes_back(name: str) -> None:
    zone, times = Zone(name), moments()
    assert (np.diff(zone.local(times)) >= 0).all()
    assert (np.diff(zone.times(times)) >= 0).all()


def test_a_change_at_the_turn_of_a_year_is_seen() -> None:
    # Samoa skipped 30 December 2011; Sydney's clock does not change in winter.
    zone = Zone("Pacific/Apia")
    at = np.array([micros(datetime(2011, 12, 30, 9)), micros(datetime(2012, 1, 1))])
    days = (zone.local(at) // 86_400_000_000).tolist()
    assert days[1] - days[0] == 3


def test_columns_may_come_in_any_order_of_years() -> None:
    zone = Zone("Europe/Berlin")
    summer = [micros(datetime(year, 7, 1)) for year in (2024, 1990, 2010)]
    for time in summer:
        assert zone.local(np.array([time])).tolist() == [time + 2 * 3600 * 10**6]
    assert zone.local(np.array([], "<i8")).tolist() == []


def test_a_zone_travels_by_its_name() -> None:
    zone = pickle.loads(pickle.dumps(Zone("Europe/Berlin")))
    assert zone.name == "Europe/Berlin"


@pytest.mark.parametrize("name", ["Europe/Nowhere", "", "../etc/passwd", "/etc/localtime"])
def test_an_unknown_zone_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=r"no time zone .* is known here: give a name"):
        Zone(name)


def test_a_zone_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="is a name such as"):
        Zone(None)  # type: ignore[arg-type]
