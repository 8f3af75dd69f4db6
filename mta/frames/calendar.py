"""Windows by the calendar of a time zone: the last three months, or this month to date.

    CalendarWindow("3 months", zone="Europe/Berlin")          the clock three months ago < t <= now
    CalendarWindow.to_date("month", zone="Europe/Berlin")     the first of the month <= t <= now

Days, weeks, months, quarters and years follow the clock of the zone: a day has 23 or 25 hours when
the clock changes. If an earlier month has no such day, the end of its last day is used: on 29, 30
and 31 March, "1 month" starts on 1 March. While the clock shows an hour for the second time, the
end of that hour is used. So bounds never move back.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self, get_args

import numpy as np

from mta.frames.base import Ties
from mta.frames.windows import END, Closed, TimeFrame, end_of
from mta.times import Duration, Zone

_DAY = 86_400_000_000
Unit = Literal["day", "week", "month", "quarter", "year"]
UNITS: tuple[Unit, ...] = get_args(Unit)
#: The number of days or months in a unit.
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
#: A zone's clock never shifts by more than this within the length of a window.
_CHANGES = 2 * _DAY
_MOST = 10_000
_LENGTH = re.compile(r"\s*(?:(\d{1,9})\s*)?([a-z]+?)s?\s*", re.IGNORECASE)
#: The first Monday after 1 January 1970, which was a Thursday.
_MONDAY = 4 * _DAY


class CalendarWindow(TimeFrame):
    """The events of the last days, weeks, months, quarters or years by the clock of a time zone.

    An event that is exactly ``length`` old is outside, as with ``TimeWindow``. The cost is that of
    a ``TimeWindow``, plus a few operations on whole columns. Raises ValueError for other lengths
    and zones.

    Args:
        length: A number and a unit, such as "1 day", "3 months" or "year".
        zone: A name in the time zone database.
        closed: As for ``TimeWindow``.
        delay: A duration, as for ``TimeWindow``.
        ties: As for ``TimeWindow``.

    >>> CalendarWindow("3 months", zone="Europe/Berlin")
    CalendarWindow('3 months', zone='Europe/Berlin')
    """

    def __init__(
        self,
        length: str,
        zone: str = "UTC",
        *,
        closed: Closed = "right",
        delay: float | Duration = 0,
        ties: Ties = "rows",
    ) -> None:
        self.count, self.unit = _parsed(length)
        self._set_end(closed, delay, ties)
        self.zone = Zone(zone)
        self.is_to_date = False

    @classmethod
    def to_date(
        cls,
        unit: Unit,
        zone: str = "UTC",
        *,
        closed: Literal["both", "left"] = "both",
        delay: float | Duration = 0,
        ties: Ties = "rows",
    ) -> Self:
        """Create a window that starts with the current day, week (Monday), month, quarter or year.

        The window includes its start. ``closed="left"`` excludes the newest event and others with
        its time. A ``delay`` moves both the start and the end back.

        >>> CalendarWindow.to_date("month", zone="Asia/Kolkata")
        CalendarWindow.to_date('month', zone='Asia/Kolkata')
        """
        if unit not in UNITS:
            raise ValueError(f"a window to date begins with a {', '.join(UNITS)}, not {unit!r}")
        if closed not in ("both", "left"):
            raise ValueError(f"a window to date is closed 'both' or 'left', not {closed!r}")
        window = cls(f"1 {unit}", zone, closed=closed, delay=delay, ties=ties)
        window.is_to_date, window._usual = True, "both"
        options: dict[str, Any] = {} if closed == "both" else {"closed": closed}
        options |= {"delay": delay} if window.delay else {}
        options |= {} if ties == "rows" else {"ties": ties}
        window.constructed_by, window.constructed_with = "to_date", ((unit, zone), options)
        return window

    @property
    def lifetime(self) -> int:
        """An upper bound for ``Frame.lifetime``."""
        days = _DAYS.get(self.unit, 0) or 31 * _MONTHS[self.unit]
        return self.delay + self._is_start_closed + self.count * days * _DAY + _CHANGES

    @property
    def shortest(self) -> int:
        """The shortest time that any event stays in the window, in microseconds."""
        if self.is_to_date:
            return self.delay
        days = _DAYS.get(self.unit, 0) or 28 * _MONTHS[self.unit]
        return self.delay + max(self.count * days * _DAY - _CHANGES, 0)

    @property
    def predictable(self) -> bool:
        return type(self) is CalendarWindow

    def starts(self, times: np.ndarray) -> np.ndarray:
        local = self.zone.local(np.asarray(times, "<i8") - self.delay)
        found = self._begin(local) if self.is_to_date else self._ago(local)
        return self.zone.times(found) - self._is_start_closed

    def _begin(self, local: np.ndarray) -> np.ndarray:
        """Return the start of the unit of each local time."""
        found: np.ndarray
        if self.unit in _DAYS:
            length, origin = _DAYS[self.unit] * _DAY, _MONDAY if self.unit == "week" else 0
            found = local - (local - origin) % length
            return found
        months = local.astype("M8[us]").astype("M8[M]").astype("<i8")
        found = _of_months(months - months % _MONTHS[self.unit])
        return found

    def _ago(self, local: np.ndarray) -> np.ndarray:
        """Return the local times ``count`` units earlier."""
        if self.unit in _DAYS:
            return local - self.count * _DAYS[self.unit] * _DAY
        months = local.astype("M8[us]").astype("M8[M]").astype("<i8")
        within = local - _of_months(months)
        months -= self.count * _MONTHS[self.unit]
        begin, end = _of_months(months), _of_months(months + 1)
        found: np.ndarray = np.minimum(begin + within, end - 1)
        return found

    def describe(self) -> str:
        what = "to date" if self.is_to_date else f"{self.count}"
        return f"CalendarWindow({what} {self.unit}, {self.zone.name}{self._end_described()})"

    def __repr__(self) -> str:
        if self.is_to_date:
            what = f"to_date({self.unit!r}, zone={self.zone.name!r}{self._end_arguments()})"
            return f"CalendarWindow.{what}"
        plural = "s" if self.count > 1 else ""
        what = f"'{self.count} {self.unit}{plural}', zone={self.zone.name!r}"
        return f"CalendarWindow({what}{self._end_arguments()})"


def _of_months(months: np.ndarray) -> np.ndarray:
    """Return the starts of months since 1970, in local microseconds."""
    begin: np.ndarray = months.astype("M8[M]").astype("M8[us]").astype("<i8")
    return begin


def _parsed(length: str) -> tuple[int, Unit]:
    """Return a length as a number and a unit."""
    found = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    unit = found[2].lower() if found else ""
    count = int(found[1] or 1) if found else 0
    if unit not in UNITS or not 1 <= count <= _MOST:
        units = ", ".join(f"{name}s" for name in UNITS)
        raise ValueError(
            f"a calendar window has a length of 1 to {_MOST:,} {units}, such as '3 months', not "
            f"{length!r}; for hours and shorter units use TimeWindow"
        )
    return count, unit


def calendar_of(text: str) -> CalendarWindow | None:
    """Return the window that a description describes, or None if it is not a calendar window.

    >>> calendar_of("CalendarWindow(to date month, UTC, closed left)")
    CalendarWindow.to_date('month', zone='UTC', closed='left')
    """
    found = re.fullmatch(
        rf"CalendarWindow\((to date|\d{{1,5}}) ([a-z]+), ([\w+/-]{{1,64}}){END}\)", text
    )
    if found is None:
        return None
    count, unit, zone = found.groups()[:3]
    end = end_of(found)
    if count == "to date":
        return CalendarWindow.to_date(unit, zone, **end)  # type: ignore[arg-type]
    return CalendarWindow(f"{count} {unit}", zone, **end)
