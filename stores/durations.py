"""Durations as text: ``5m``, ``1 hour 30 minutes``, ``PT1H30M``.

This is the only parser, for store URLs, windows, periods and the command line. A duration is a
whole number of microseconds. The units are those of polars, pandas and SQL that have a fixed
length.
"""

from __future__ import annotations

import re
from fractions import Fraction

#: The microseconds in each unit, by the unit's plain name.
UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
#: The end of every error about a duration: the units, and examples.
KNOWN_UNITS = (
    "the units are us, ms, s, m (min), h (hr), d and w, or their English words, as in '5m', "
    "'90 seconds', '1h30m', '1 hour 30 minutes' or 'PT1H30M'"
)
#: Reasons for refusals.
CALENDAR = (
    "months, quarters and years have no fixed length: give days or hours instead, such as '30 "
    "days' or '365 days'"
)
TOO_FINE = "times have a resolution of one microsecond: give a whole number of microseconds"

#: Other names of the units, in upper or lower case.
_WORDS = {
    alias: name
    for name, aliases in (
        ("microsecond", "us usec micro"),
        ("millisecond", "msec milli"),
        ("second", "s sec"),
        ("minute", "min"),
        ("hour", "h hr"),
        ("day", "d"),
        ("week", "w wk"),
    )
    for alias in (name, *aliases.split())
}
#: Names whose meaning depends on the case: in pandas, ``M`` is a month, and ``MS`` its start.
_SYMBOLS = {"m": "minute", "ms": "millisecond"}
_REFUSED = {
    word: reason
    for words, reason in (
        ("n ns nsec nano nanosecond", TOO_FINE),
        ("mo mon month mth me q qtr quarter qs qe y yr year annum ys ye", CALENDAR),
        ("i", "for a number of rows, give a whole number or a CountWindow"),
    )
    for word in words.split()
}
_PART = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([^\W\d_]+)(?:\s*,(?=\s*\d))?")
_ISO = re.compile(
    r"P(?=.)(?:(?P<year>[\d.,]+)Y)?(?:(?P<month>[\d.,]+)M)?(?:(?P<week>[\d.,]+)W)?"
    r"(?:(?P<day>[\d.,]+)D)?"
    r"(?:T(?=.)(?:(?P<hour>[\d.,]+)H)?(?:(?P<minute>[\d.,]+)M)?(?:(?P<second>[\d.,]+)S)?)?",
    re.IGNORECASE,
)
_CAPITALS = "M is a month and MS its start (for minutes write m or min, for milliseconds ms)"
_MALFORMED = "it is not numbers with their units"
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")


def parse_duration(text: str) -> int:
    """Return a duration in microseconds, negative after a leading minus.

    Raises ValueError for other text, and for months, years and anything that is not a whole number
    of microseconds. The error lists the units. It never repeats the text, which may be part of a
    URL with a password.

    >>> parse_duration("90s"), parse_duration("1 hour 30 minutes"), parse_duration("PT0.5S")
    (90000000, 5400000000, 500000)
    """
    given = text.strip()
    sign, body = (-1, given[1:].lstrip()) if given.startswith("-") else (1, given)
    iso = _ISO.fullmatch(body)
    parts = _read_parts(body) if iso is None else _read_iso(iso)
    micros = sum((number * UNITS[name] for number, name in parts), Fraction(0))
    if micros.denominator != 1:
        raise _refusal(TOO_FINE)
    return sign * micros.numerator


def _read_parts(body: str) -> list[tuple[Fraction, str]]:
    """Return the numbers and unit names of ``1 hour 30 minutes``."""
    parts, at = [], 0
    while match := _PART.match(body, at):
        parts.append((Fraction(match[1]), _unit(match[2])))
        at = match.end()
    if not parts or at < len(body):
        raise _refusal("a number needs a unit" if _NUMBER.fullmatch(body) else _MALFORMED)
    return parts


def _unit(word: str) -> str:
    """Return the plain name of a unit."""
    word = word.replace("µ", "u").replace("μ", "u")  # the micro sign and the Greek letter
    lower = word.lower()
    if lower in _SYMBOLS:
        if word == lower:
            return _SYMBOLS[lower]
        raise _refusal(f"{_CAPITALS}, and {CALENDAR}")
    singular = lower if lower.endswith("ss") or len(lower) == 2 else lower.removesuffix("s")
    for name in (lower, singular):
        if name in _WORDS:
            return _WORDS[name]
        if name in _REFUSED:
            raise _refusal(_REFUSED[name])
    raise _refusal("there is no such unit")


def _read_iso(match: re.Match[str]) -> list[tuple[Fraction, str]]:
    """Return the numbers and unit names of ISO 8601's ``P1DT2H``."""
    found = {name: number.replace(",", ".") for name, number in match.groupdict("").items()}
    if found.pop("year") or found.pop("month"):
        raise _refusal(f"{CALENDAR}, and minutes follow a T, as in 'PT3M'")
    numbers = {name: number for name, number in found.items() if number}
    if not all(map(_NUMBER.fullmatch, numbers.values())):
        raise _refusal(_MALFORMED)
    return [(Fraction(number), name) for name, number in numbers.items()]


def _refusal(reason: str) -> ValueError:
    return ValueError(f"{reason}; {KNOWN_UNITS}")
