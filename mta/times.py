"""Numbers from users: times, durations and counts, and time zones of whole columns.

Internally, times and durations are whole microseconds. Numbers from users are seconds, unless the
caller names another unit for times.

A ``Zone`` converts columns between UTC and local times, which are microseconds since 1970 by the
zone's clock. A zone is a list of transitions, each with the offset that follows it. Results of both
conversions never decrease as times grow, so the bounds of frames that use them never do:

    clock goes forward   02:00 -> 03:00    a local time between the two is the transition itself
    clock goes back      03:00 -> 02:00    an hour passes twice; local times stay at 03:00 until the
                                           clock shows 03:00 for the second time
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from operator import index
from time import time_ns
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from mta.errors import InvalidTime
from stores.durations import CALENDAR, KNOWN_UNITS, TOO_FINE, UNITS, parse_duration

MICROSECONDS = 1_000_000
#: The number of microseconds in numpy's units.
_NUMPYS = {
    "us": 1,
    "ms": UNITS["millisecond"],
    "s": UNITS["second"],
    "m": UNITS["minute"],
    "h": UNITS["hour"],
    "D": UNITS["day"],
    "W": UNITS["week"],
}
_LIMIT = 2**62  # sums and differences of times must fit in 64 bits
#: A number below this is seconds before the year 5138. Times in milliseconds are above it from 1973
#: on, as are those in finer units.
CERTAIN = 10**11
#: How many digits a decimal may have before or after its point, to be a time or a duration.
_MOST_DIGITS = 60
TimeUnit = Literal["s", "ms", "us", "ns"]
#: The units of numeric times.
TIME_UNITS: dict[TimeUnit, str] = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
#: How many of numpy's finer units make a microsecond.
_FINER = {"ns": 1000, "ps": 10**6, "fs": 10**9, "as": 10**12}
#: How many times are compared together.
_PIECE = 1 << 16
_OUT_OF_RANGE = "a time is out of range: years -144168 to 148107 can be kept; are its units right?"


def to_count(value: Any, what: str, least: int = 0, most: int | None = None) -> int:
    """Return a Python or numpy integer as int. Raises TypeError or ValueError for other values.

    >>> to_count(np.int64(3), "a size")
    3
    """
    try:
        if isinstance(value, (bool, np.bool_, np.timedelta64)):
            raise TypeError
        number = index(value)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {value!r}") from None
    if number < least or (most is not None and number > most):
        upper = "on" if most is None else f"to {most}"
        raise ValueError(f"{what} is a number from {least} {upper}, not {value!r}")
    return number


#: Types of durations, besides numbers of seconds and the fixed offsets of pandas.
Duration = str | timedelta | np.timedelta64


def is_duration(value: Any) -> bool:
    """Return whether a value is a duration; a number is not, as it may count rows or events.

    >>> is_duration("5m"), is_duration(np.timedelta64(5, "m")), is_duration(5)
    (True, True, False)
    """
    return isinstance(value, Duration) or _is_offset(value)


#: What follows the calendar instead of a duration.
_CALENDARS = {
    "a time window": "for a window of months or years, use a CalendarWindow; ",
    "a period": (
        'for results of each month so far, use CalendarWindow.to_date("month") with '
        'EveryPeriod("1 day", zone=...); '
    ),
}


def to_duration(size: float | Duration, what: str = "a time window", least: int = 1) -> int:
    """Return a duration in microseconds, from text, any timedelta, or a number of seconds.

    Raises ValueError, which lists the units, for a length that is not a fixed number of
    microseconds.

    >>> to_duration(1.5), to_duration("2 minutes"), to_duration(timedelta(hours=1))
    (1500000, 120000000, 3600000000)
    """
    if isinstance(size, str):
        try:
            micros = parse_duration(size)
        except ValueError as error:
            hint = _CALENDARS.get(what, "") if CALENDAR in str(error) else ""
            raise ValueError(f"cannot read {size!r} as a duration: {hint}{error}") from None
    elif isinstance(size, np.timedelta64):
        micros = _whole_micros(size, what)
    elif isinstance(size, timedelta):
        numpys = getattr(size, "asm8", None)  # the numpy value of a pandas Timedelta may be finer
        if numpys is not None:
            return to_duration(numpys, what, least)
        micros = size // timedelta(microseconds=1)
    elif isinstance(size, (Real, Decimal)) and not isinstance(size, (bool, np.bool_)):
        micros = _of_seconds(size, what)
    elif isinstance(size, datetime) and size != size:
        raise ValueError(f"{what} is null ({size!r}); {KNOWN_UNITS}")
    elif _is_offset(size):
        micros = _of_offset(size, what)
    else:
        raise TypeError(
            f"{what} is a number of seconds, text or a timedelta, not {size!r}; {KNOWN_UNITS}"
        )
    if not least <= micros < _LIMIT:
        length = "longer than 0" if least else "0 or longer"
        raise ValueError(f"{what} must be {length} and finite, not {size!r}; {KNOWN_UNITS}")
    return int(micros)  # of numpy's integers too


def _of_seconds(size: Any, what: str) -> int:
    """Round floats, as few of their fractions are exact; require exact numbers to fit."""
    if size.is_nan() if isinstance(size, Decimal) else size != size:
        raise ValueError(f"{what} is not a number ({size!r}); {KNOWN_UNITS}")
    if not -_LIMIT < size < _LIMIT:
        return _LIMIT if size > 0 else -_LIMIT
    if not isinstance(size, (Rational, Decimal)):
        return round(float(size) * MICROSECONDS)
    is_tiny = isinstance(size, Decimal) and size and size.adjusted() < -_MOST_DIGITS
    micros = Fraction(1, 2) if is_tiny else Fraction(size) * MICROSECONDS
    if micros.denominator != 1:
        raise ValueError(f"{what} is {size!r} seconds, and {TOO_FINE}; {KNOWN_UNITS}")
    return micros.numerator


def _whole_micros(value: np.timedelta64, what: str) -> int:
    """Compute with Python's integers, which do not overflow."""
    unit, count = np.datetime_data(value.dtype)
    if np.isnat(value):
        raise ValueError(f"{what} is null (NaT); {KNOWN_UNITS}")
    if unit in ("Y", "M"):
        raise ValueError(f"{what} is {value!r}: {CALENDAR}; {KNOWN_UNITS}")
    if unit == "generic":
        raise ValueError(f"{what} is {value!r}, which has no unit; {KNOWN_UNITS}")
    units = int(value.astype("i8")) * count
    if unit in _NUMPYS:
        return units * _NUMPYS[unit]
    micros, rest = divmod(units, _FINER[unit])
    if rest:
        raise ValueError(f"{what} is {value!r}, and {TOO_FINE}; {KNOWN_UNITS}")
    return micros


def _is_offset(value: Any) -> bool:
    """Return whether a value is a date offset of pandas, such as ``pd.offsets.Minute(5)``."""
    return hasattr(value, "is_on_offset") and type(value).__module__.startswith("pandas.")


def _of_offset(value: Any, what: str) -> int:
    try:
        nanos = int(value.nanos)
    except (ValueError, AttributeError):
        raise ValueError(
            f"{what} is {value!r}, which has no fixed length: give days or hours instead; "
            f"{KNOWN_UNITS}"
        ) from None
    return _whole_micros(np.timedelta64(nanos, "ns"), what)


def as_text(micros: int) -> str:
    """Return a duration in the largest unit of which it is a whole number.

    >>> as_text(86_400_000_000), as_text(90_000_000), as_text(250_000)
    ('1 day', '90 seconds', '250 milliseconds')
    """
    names = ("day", "hour", "minute", "second", "millisecond", "microsecond")
    unit = next(name for name in names if micros % UNITS[name] == 0)
    count = micros // UNITS[unit]
    return f"{count} {unit}" + "s" * (count != 1)


def to_time(value: Any, unit: TimeUnit | None = None) -> int:
    """Return a number, a datetime or a numpy time as microseconds since 1970.

    A number counts ``unit``, by default seconds. Without a unit, numbers beyond the year 5138 are
    refused, as they most likely count another unit. A datetime without a zone is UTC. Raises
    InvalidTime.
    """
    # The most common types first.
    if value.__class__ is float and unit is None and -CERTAIN < value < CERTAIN:
        return round(value * MICROSECONDS)
    if isinstance(value, np.datetime64):
        return int(to_times(np.array([value]))[0])
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * UNITS["day"]
    number = _number(value)
    if unit is None and not -CERTAIN < number < CERTAIN:
        raise InvalidTime(doubt_of(number))
    micros = _of_number(number, unit)
    if not -_LIMIT < micros < _LIMIT:
        raise InvalidTime(
            f"{value!r} {TIME_UNITS[unit or 's']} is out of range; is the unit right?"
        )
    return micros


def _number(value: Any) -> float | Fraction:
    """Return a numeric time as an exact number. Raises InvalidTime for other values."""
    if isinstance(value, (str, bytes)):
        raise InvalidTime(f"{value!r} is text; parse it into a datetime or a number first")
    try:
        if isinstance(value, (bool, np.bool_, np.timedelta64)):
            raise TypeError
        number: float | Fraction = float(value)
        if isinstance(value, (int, np.integer)):
            number = int(value)
        elif isinstance(value, Decimal) and abs(value.adjusted()) > _MOST_DIGITS:
            # A fraction would have that many digits.
            size = 10**_MOST_DIGITS if value.adjusted() > 0 else 0
            number = -size if value < 0 else size
        elif isinstance(value, (Decimal, Fraction)):
            number = Fraction(value)
        round(number)  # refuses NaN and infinity
    except (TypeError, ValueError, OverflowError):
        shown = f"{value!r:.60}" if type(value) is not int else "a number of many digits"
        raise InvalidTime(
            f"{shown} is not a time; give seconds, a datetime or a numpy datetime64"
        ) from None
    return number


def _of_number(number: float | Fraction, unit: TimeUnit | None) -> int:
    """Return a number of units as microseconds. Raises InvalidTime for integers that are finer."""
    if unit != "ns":
        return round(number * _NUMPYS[unit or "s"])
    if not isinstance(number, int):
        return round(number / 1000)
    micros, rest = divmod(number, 1000)
    if rest:
        raise InvalidTime(f"{number} ns is finer than a microsecond; round it first")
    return micros


def likely_unit(number: Any) -> TimeUnit | None:
    """Return the unit in which a number is a time between 1973 and 5138; None if there is none.

    Smaller numbers are seconds.

    >>> likely_unit(1_700_000_000), likely_unit(1_700_000_000_000)
    ('s', 'ms')
    """
    limits = zip(TIME_UNITS, (CERTAIN, 10**14, 10**17, 2**63), strict=True)
    return next((unit for unit, limit in limits if abs(number) < limit), None)


def doubt_of(number: Any) -> str:
    """Return why a number without a unit is refused, and its likely unit."""
    unit = likely_unit(number)
    if unit is None or unit == "s":
        return f"{number} seconds is out of range; numbers are seconds unless time_unit= is given"
    count = int(number)
    return (
        f"{number} is no plausible number of seconds; in {TIME_UNITS[unit]} it is "
        f"{np.datetime64(count, unit)}: say so by time_unit={unit!r}, or give datetimes, such as "
        f"np.datetime64({count}, {unit!r})"
    )


def require_unit(unit: Any) -> None:
    """Raise ValueError if a unit of times is unknown."""
    if unit is not None and unit not in TIME_UNITS:
        raise ValueError(f"time_unit is one of {', '.join(map(repr, TIME_UNITS))}, not {unit!r}")


def _of_datetime(value: datetime) -> int:
    if value != value:  # pandas' NaT
        raise InvalidTime(f"a time is null ({value!r}); drop this event first")
    if getattr(value, "nanosecond", 0):
        raise InvalidTime(f"{value} is finer than a microsecond; round it first")
    stamp = getattr(value, "asm8", None)  # a pandas Timestamp may be in any year
    if stamp is not None:
        return to_time(stamp)
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def to_times(values: Any, unit: TimeUnit | None = None) -> np.ndarray:
    """Return a batch of times as int64 microseconds; see ``to_time``. Raises InvalidTime.

    An array of datetime64[us] is checked, but not copied.
    """
    return read_times(values, unit)[0]


def are_many(given: Any) -> bool:
    """Return whether an argument is a list of values, such as keys or moments, and not one value.

    >>> are_many([1, 2]), are_many(("a", 1)), are_many("now")
    (True, False, False)
    """
    return isinstance(given, list) or (
        hasattr(given, "__len__") and not isinstance(given, (str, bytes, tuple))
    )


def moments_of(at: Any, unit: TimeUnit | None = None) -> np.ndarray:
    """Return one or many moments as int64 microseconds; "now" is the time of this machine's clock.

    Raises InvalidTime, and ValueError for an unknown unit.
    """
    return to_times(in_unit(at, unit)) if are_many(at) else np.array([moment_of(at, unit)])


def moment_of(at: Any, unit: TimeUnit | None = None) -> int:
    """Return one moment in microseconds, as ``moments_of`` does."""
    if isinstance(at, str) and at == "now":
        return time_ns() // 1000
    require_unit(unit)
    return to_time(at, unit)


def in_unit(values: Any, unit: TimeUnit | None) -> Any:
    """Return a batch of times unchanged, or as datetimes if the unit of its numbers is given.

    Raises InvalidTime, and ValueError for an unknown unit.
    """
    require_unit(unit)
    return values if unit is None or values is None else to_times(values, unit).view("M8[us]")


def read_times(values: Any, unit: TimeUnit | None = None) -> tuple[np.ndarray, bool]:
    """Return times as ``to_times`` does, and whether they never decrease."""
    array = _as_array(values)
    if array.dtype.kind == "M":
        return _of_datetimes(array)
    found = _to_micros(array, unit)
    return found, are_in_order(found)


def _as_array(values: Any) -> np.ndarray:
    if type(values).__module__.startswith("pyarrow") and getattr(values, "null_count", False):
        raise InvalidTime(f"{values.null_count} times are null; drop these events first")
    if getattr(getattr(values, "dtype", None), "tz", None) is not None:  # pandas with a zone
        values = getattr(values, "dt", values).tz_convert(None)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InvalidTime(f"the times cannot be read as a column: {error}") from None
    if array.ndim != 1:
        raise InvalidTime(f"times must be a column, not {values!r}")
    return array


def _to_micros(array: np.ndarray, unit: TimeUnit | None) -> np.ndarray:
    """Return numbers in a unit, or values of any type, as microseconds."""
    if array.dtype.kind == "m":  # ``tolist`` converts some of these to integers
        raise InvalidTime("durations are not times; add them to a datetime first")
    if array.dtype.kind not in "iuf":
        return np.fromiter((to_time(value, unit) for value in array.tolist()), "i8", len(array))
    if not len(array):
        return np.zeros(0, "<i8")
    ends = array.min(), array.max()
    if array.dtype.kind == "f" and not np.isfinite(ends).all():
        raise InvalidTime("a time is NaN or infinite; drop these events first")
    for end in ends:
        to_time(end.item() if unit != "ns" else float(end), unit)  # raises if out of range
    if array.dtype.kind == "f":
        scaled = array.astype("f8")
        scaled = scaled / 1000 if unit == "ns" else scaled * _NUMPYS[unit or "s"]
        return np.rint(scaled).astype("i8")
    whole: np.ndarray = array.astype("i8")
    if unit != "ns":
        return whole * _NUMPYS[unit or "s"]
    micros = whole // 1000
    if (micros * 1000 != whole).any():
        raise InvalidTime("times are finer than a microsecond; round them first")
    return micros


def _of_datetimes(array: np.ndarray) -> tuple[np.ndarray, bool]:
    """Convert datetime64 of any unit, without numpy's silent overflow beyond int64."""
    if not len(array):
        return np.zeros(0, "<i8"), True
    unit, step = np.datetime_data(array.dtype)
    whole: np.ndarray = array.astype(array.dtype.newbyteorder("="), copy=False).view("i8")
    in_order = are_in_order(whole)
    ends = whole[[0, -1]] if in_order else np.array([whole.min(), whole.max()])
    if np.isnat(ends.view("M8[us]")).any():  # NaT is the smallest integer
        raise InvalidTime("a time is null (NaT); drop these events first")
    if unit in _NUMPYS and step == 1:
        length = _NUMPYS[unit]
        if not all(-_LIMIT < int(end) * length < _LIMIT for end in ends):
            raise InvalidTime(_OUT_OF_RANGE)
        return whole if length == 1 else whole * length, in_order
    if unit in _FINER and step == 1:
        micros = whole // _FINER[unit]
        is_exact = (micros * _FINER[unit] == whole).all()
    else:  # months and years have no fixed length
        is_fine = unit in _FINER
        if not is_fine:  # in finer units, int64 ends long before the limit
            low, high = np.array([1 - _LIMIT, _LIMIT - 1], "M8[us]").astype(array.dtype)
            if (array < low).any() or (array > high).any():
                raise InvalidTime(_OUT_OF_RANGE)
        moments = array.astype("M8[us]")
        micros, is_exact = moments.view("i8"), not is_fine or (moments == array).all()
        if not -_LIMIT < int(micros.min()) <= int(micros.max()) < _LIMIT:
            raise InvalidTime(_OUT_OF_RANGE)
    if not is_exact:
        raise InvalidTime("times are finer than a microsecond; round them first")
    return micros, in_order


def are_in_order(times: np.ndarray) -> bool:
    """Return whether times never decrease; compares pieces that fit the processor's cache.

    >>> are_in_order(np.array([1, 2, 2])), are_in_order(np.array([2, 1]))
    (True, False)
    """
    for start in range(0, len(times), _PIECE):
        piece = times[start : start + _PIECE + 1]
        if not (piece[1:] >= piece[:-1]).all():
            return False
    return True


def clock(micros: int) -> str:
    """Return a time as text for errors.

    >>> clock(1_500_000)
    '1970-01-01T00:00:01.500000 (1.5 s)'
    """
    return f"{np.datetime64(micros, 'us')} ({micros / 1e6} s)"


# --- time zones -----------------------------------------------------------------------------------


_DAY = UNITS["day"]
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
                f"no time zone {name!r} is known here: give a name of the time zone database, such "
                "as 'Europe/Berlin' (where a system has no database, pip install tzdata)"
            ) from error
        self.name = name
        #: The transitions of each year that was looked up, and the offset after each.
        self._years: dict[int, list[tuple[int, int]]] = {}
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
        years = self._years  # without gaps
        if first in years and last in years:
            return
        first, last = min([first, *years]), max([last, *years])
        for year in range(first, last + 1):
            if year not in years:
                years[year] = self._transitions(year)
        found = [each for year in range(first, last + 1) for each in years[year]]
        before = self._offset(_start_of(first))
        self._at = np.array([at for at, _ in found], "<i8")
        self._offsets = np.array([before, *(offset for _, offset in found)], "<i8")

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
        seconds = range(begin // MICROSECONDS, end // MICROSECONDS + 1)
        at = bisect_left(seconds, True, key=lambda s: self._offset(s * MICROSECONDS) != offset)
        return seconds[at] * MICROSECONDS

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
