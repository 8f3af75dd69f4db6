"""Durations in every form, each with its microseconds or with the reason why it is refused."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000

#: Text, which every entry point takes.
TEXTS: list[tuple[str, int]] = [
    ("7us", 7),
    ("7 µs", 7),
    ("250 ms", 250_000),
    ("250 milliseconds", 250_000),
    ("1.5s", 1_500_000),
    (".5 seconds", 500_000),
    ("90s", 90_000_000),
    ("5m", 5 * MINUTE),
    ("5min", 5 * MINUTE),
    ("5 mins", 5 * MINUTE),
    (" 1.5 Minutes ", 90_000_000),
    ("5 MINUTES", 5 * MINUTE),
    ("1h", HOUR),
    ("1H", HOUR),
    ("1 hr", HOUR),
    ("2 hrs", 2 * HOUR),
    ("1h30m", 90 * MINUTE),
    ("1 hour 30 minutes", 90 * MINUTE),
    ("1 day, 2 hours", 26 * HOUR),
    ("1d", DAY),
    ("30 days", 30 * DAY),
    ("2w", 14 * DAY),
    ("1 week", 7 * DAY),
    ("PT1H30M", 90 * MINUTE),
    ("P1DT2H", 26 * HOUR),
    ("P1W", 7 * DAY),
    ("PT0.5S", 500_000),
    ("PT0,5S", 500_000),
    ("pt3m", 3 * MINUTE),
]
#: Values of Python, numpy and pandas.
VALUES: list[tuple[Any, int]] = [
    (timedelta(minutes=1, microseconds=1), MINUTE + 1),
    (np.timedelta64(120, "s"), 2 * MINUTE),
    (np.timedelta64(120 * 10**9, "ns"), 2 * MINUTE),
    (np.timedelta64(5, "m"), 5 * MINUTE),
    (np.timedelta64(2, "W"), 14 * DAY),
    (pd.Timedelta("2min"), 2 * MINUTE),
    (pd.Timedelta(2000, "ns"), 2),
    (pd.offsets.Minute(5), 5 * MINUTE),
]
#: Numbers of seconds, where a number does not count rows.
NUMBERS: list[tuple[Any, int]] = [
    (90, 90_000_000),
    (0.25, 250_000),
    (np.int32(5), 5_000_000),
    (Decimal("1.5"), 1_500_000),
]
_FINE, _CALENDAR, _MALFORMED = "one microsecond", "no fixed length", "numbers with their units"
_SIGN = "and finite, not"
#: What no entry point takes, and words of the reason.
BAD_TEXTS: list[tuple[str, str]] = [
    ("500 ns", _FINE),
    ("1 nanosecond", _FINE),
    ("0.1us", _FINE),
    ("0.0000015 s", _FINE),
    ("3M", "write m or min"),
    ("3MS", "write m or min"),
    ("1mo", _CALENDAR),
    ("3 months", _CALENDAR),
    ("1y", _CALENDAR),
    ("2 Years", _CALENDAR),
    ("1q", _CALENDAR),
    ("1h 1mo", _CALENDAR),
    ("P1M", "PT3M"),
    ("P1Y2D", _CALENDAR),
    ("5i", "CountWindow"),
    ("", _MALFORMED),
    ("hour", _MALFORMED),
    ("1", "needs a unit"),
    ("1h30", _MALFORMED),
    ("1e3 s", "no such unit"),
    ("1 fortnight", "no such unit"),
    ("5 mss", "no such unit"),
    ("P", _MALFORMED),
    ("PT", _MALFORMED),
    ("P1.2.3D", _MALFORMED),
    ("1 hour ago", _MALFORMED),
    ("-5m", _SIGN),
    ("999999999999 weeks", _SIGN),
]
BAD_VALUES: list[tuple[Any, str]] = [
    (timedelta(seconds=-1), _SIGN),
    (pd.Timedelta(1500, "ns"), _FINE),
    (np.timedelta64(1500, "ns"), _FINE),
    (np.timedelta64(1, "ps"), _FINE),
    (np.timedelta64(1, "M"), _CALENDAR),
    (np.timedelta64(1, "Y"), _CALENDAR),
    (np.timedelta64(5), "no unit"),
    (np.timedelta64("NaT"), "null"),
    (pd.DateOffset(months=1), _CALENDAR),
    (pd.offsets.MonthEnd(), _CALENDAR),
]
BAD_NUMBERS: list[tuple[Any, str]] = [
    (-1, _SIGN),
    (math.nan, "not a number"),
    (math.inf, _SIGN),
    (1e300, _SIGN),
    (Decimal("0.0000015"), _FINE),
    (Decimal("sNaN"), "not a number"),
    (pd.NaT, "null"),
]
