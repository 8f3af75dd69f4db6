"""Time zones for whole columns: conversions between UTC and local times.

Times are microseconds since 1970 in UTC. Local times are microseconds since 1970 by the zone's
clock. A zone is a list of transitions, each with the offset that follows it. Results of both
conversions never decrease as times grow, so the bounds of frames that use them never do:

    clock goes forward   02:00 -> 03:00    a local time between the two is the transition itself
    clock goes back      03:00 -> 02:00    an hour passes twice; local times stay at 03:00 until the
                                           clock shows 03:00 for the second time
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
#: No zone has two transitions within this many microseconds.
_STEP = 7 * _DAY // 2
#: The first and last year of Python's datetimes, with a margin.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Zone:
    """A time zone by name, such as "Europe/Berlin". Raises ValueError for an unknown name."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a time zone is a name such as 'Europe/Berlin', not {name!r}")
        try:
            self._zone: tzinfo = UTC if name == "UTC" else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(
                f"no time zone {name!r} is known here: give a name of the time zone database, "
                "such as "
                "'Europe/Berlin' (where a system has no database, pip install tzdata)"
            ) from error
        self.name = name
        #: The transitions of each year that was looked up, and the offset after each.
        self._years: dict[int, list[tuple[int, int]]] = {}
        self._known = (0, -1)
        self._at, self._offsets = np.zeros(0, "<i8"), np.zeros(1, "<i8")

    def local(self, times: np.ndarray) -> np.ndarray:
        """Return what the zone's clock shows at some times."""
        self._look_up(times)
        period = self._at.searchsorted(times, side="right")
        shown: np.ndarray = times + self._offsets[period]
        # After the clock goes back, it shows earlier times again.
        latest, after = self._at + self._offsets[:-1], period > 0
        shown[after] = np.maximum(shown[after], latest[period[after] - 1])
        return shown

    def times(self, local: np.ndarray) -> np.ndarray:
        """Return the first time at which the zone's clock shows or has passed each local time."""
        self._look_up(local)
        period = (self._at + self._offsets[:-1]).searchsorted(local, side="right")
        found: np.ndarray = local - self._offsets[period]
        after = period > 0
        found[after] = np.maximum(found[after], self._at[period[after] - 1])
        return found

    def _look_up(self, times: np.ndarray) -> None:
        if not len(times):
            return
        first, last = _year(int(times.min()) - 2 * _DAY), _year(int(times.max()) + 2 * _DAY)
        begin, end = self._known
        if begin <= first and last <= end:
            return
        if begin <= end:
            first, last = min(first, begin), max(last, end)
        for year in range(first, last + 1):
            if year not in self._years:
                self._years[year] = self._transitions(year)
        found = [each for year in range(first, last + 1) for each in self._years[year]]
        before = self._offset(_start_of(first))
        self._at = np.array([at for at, _ in found], "<i8")
        self._offsets = np.array([before, *(offset for _, offset in found)], "<i8")
        self._known = (first, last)

    def _transitions(self, year: int) -> list[tuple[int, int]]:
        """Return the transitions within a year, each with the offset that follows."""
        found = []
        begin, stop = _start_of(year), _start_of(year + 1)
        offset = self._offset(begin)
        while begin < stop:
            end = min(begin + _STEP, stop)
            new = self._offset(end)
            if new != offset:
                end = self._changed(begin, end, offset)
                new = self._offset(end)
                found.append((end, new))
            begin, offset = end, new
        return found

    def _changed(self, begin: int, end: int, offset: int) -> int:
        """Return the first full second after ``begin`` with another offset; ``end`` has one."""
        seconds = range(begin // _SECOND, end // _SECOND + 1)
        return (
            seconds[bisect_left(seconds, True, key=lambda s: self._offset(s * _SECOND) != offset)]
            * _SECOND
        )

    def _offset(self, time: int) -> int:
        moment = _EPOCH + timedelta(microseconds=time)
        offset = moment.astimezone(self._zone).utcoffset()
        return 0 if offset is None else offset // timedelta(microseconds=1)

    def __reduce__(self) -> tuple[type[Zone], tuple[str]]:
        return Zone, (self.name,)


def _year(time: int) -> int:
    year = int(np.datetime64(time, "us").astype("M8[Y]").astype(int)) + 1970
    return min(max(year, _FIRST_YEAR), _LAST_YEAR)


def _start_of(year: int) -> int:
    return int(np.datetime64(f"{year:04}-01-01", "us").astype("<i8"))
