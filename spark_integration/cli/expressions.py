"""The expressions of the command line: ``peak=max(watts)``, ``24 hours``, ``1000 events``."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mta
from mta.columns.schemas import Times
from mta.monoids.base import AbstractMonoid
from mta.monoids.catalogue import factory_of, named
from spark_integration.errors import InvalidRequest
from spark_integration.request import FILTER, inputs_of

_AGGREGATION = re.compile(
    r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*(?:\(\s*(.*?)\s*\))?"
    r"(?:\s*\bfilter\s*\(\s*where\b\s*(.+?)\s*\))?\s*",
    re.DOTALL | re.IGNORECASE,
)
_HALF_FILTER = re.compile(r"\)\s*filter\b", re.IGNORECASE)
#: A quoted text in an SQL expression, a name in backticks, or a plain name.
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`((?:[^`]|``)*)`|(\w+)""", re.DOTALL)
_KEYWORD = re.compile(r"\w+\s*=\s*(.+)", re.DOTALL)
_COUNT = re.compile(r"\s*(\d[\d_]*)\s*(?:\^\s*(\d+))?\s*(?:events?|rows?)\s*")
#: What may follow a size: ``closed left``, ``delay 1 hour``, ``exclude current``, a zone.
_BOUND = re.compile(r"\s*(closed|delay|ties|exclude|zone|offset)\s+(.+?)\s*")
#: A comma before a bound; durations may contain other commas.
_COMMA = re.compile(r",(?=\s*(?:closed|delay|ties|exclude|zone|offset)\b)")
_SESSION = re.compile(r"\s*session\s+(.+?)\s*")
_TO_DATE = re.compile(r"\s*(\w+)\s+to\s+date\s*")
#: The aggregations whose results have the unit and scale of the value.
_LIKE_THE_VALUE = frozenset({
    "max", "min", "mean", "avg", "geomean", "first", "last", "median", "quantile", "mode", "lag",
    "nth_value", "decayed_mean", "time_weighted_mean",
})  # fmt: skip


@dataclass(frozen=True)
class Aggregation:
    """One result column: ``name`` is ``function`` over the window's values of ``column``."""

    name: str
    function: str
    column: str
    """Empty if no column is read, as for ``count(*)``."""
    more: tuple[str, ...] = ()
    """Further columns that are read."""
    arguments: str = ""
    """The arguments after the columns, such as ``0.9``."""
    condition: str = ""
    """The filter of the rows, as a Spark SQL expression; empty for all rows."""

    def __str__(self) -> str:
        inside = ", ".join(filter(None, [self.column or "*", *self.more, self.arguments]))
        behind = f" filter (where {self.condition})" if self.condition else ""
        return f"{self.name}={self.function}({inside}){behind}"

    @property
    def like_the_value(self) -> bool:
        """Return whether the result has the unit and scale of the value, for a common plot axis."""
        return self.function in _LIKE_THE_VALUE

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the value columns that are read; a count of rows reads none."""
        return (self.column, *self.more) if self.column else ()

    @property
    def counts(self) -> bool:
        """Return whether this counts rows or values, which need not be numbers."""
        return isinstance(self.monoid(), mta.Count)

    @property
    def counts_values(self) -> bool:
        """Return whether this counts the values of a column, which may have any type."""
        return bool(self.column) and self.counts

    def pair(self, time: str) -> tuple[Any, ...]:
        """Return the columns, the aggregation and the filter, as for ``sliding_aggregate``.

        Some aggregations read the time column before the values; it has timestamps by then. The
        filter is given as the name of its column.
        """
        times = (time,) if any(isinstance(each, Times) for each in inputs_of(self.monoid())) else ()
        filters = (FILTER + self.name,) if self.condition else ()
        return ((*times, *self.columns), self._text, *filters)

    def mentions(self, name: str) -> bool:
        """Return whether the filter may read a column; names are compared without case."""
        return name.lower() in _names_in(self.condition)

    def monoid(self) -> AbstractMonoid:
        return named(self._text)

    @property
    def _text(self) -> str:
        return f"{self.function}({self.arguments})"


def parse_aggregation(text: str, values: Sequence[str]) -> Aggregation:
    """Parse ``[name=]function[(column, ...)] [filter (where condition)]``.

    The column defaults to the first of ``values``; ``count``, like ``count(*)``, reads no column.
    Arguments may follow the columns, as in ``quantile(watts, 0.9)``. Raises InvalidRequest.
    """
    match = _AGGREGATION.fullmatch(text)
    if match is None or _HALF_FILTER.search(match[3] or ""):
        raise InvalidRequest(
            f"--agg {text!r} is not of the form name=function(column), or with a filter "
            "name=function(column) filter (where condition)"
        )
    name, function, inside, condition = match.groups()
    columns, arguments = _split(inside or "")
    try:
        factory_of(function)
        monoid = named(f"{function}({arguments})")
    except ValueError as error:
        raise InvalidRequest(f"--agg {text!r}: {error}") from error
    if isinstance(monoid, mta.Count) and columns in ([], ["*"]):
        name = name or _as_name(f"{function}_{condition or ''}")
        return Aggregation(name, function, "", condition=condition or "")
    if not columns and not values:
        raise InvalidRequest(f"--agg {text!r} names no column: write {function}(column)")
    columns = columns or [values[0]]
    count = max(sum(not isinstance(each, Times) for each in inputs_of(monoid)), 1)
    if count == 1:  # a column's name may contain commas
        columns = [", ".join(columns)]
    if len(columns) != count:
        raise InvalidRequest(
            f"--agg {text!r} names {len(columns)} of the {count} columns that {function} reads"
        )
    name = name or _as_name(f"{function}_{'_'.join(columns)}_{arguments}_{condition or ''}")
    return Aggregation(name, function, columns[0], tuple(columns[1:]), arguments, condition or "")


def _names_in(condition: str) -> set[str]:
    """Return the names in an SQL expression in lower case: columns, functions and keywords."""
    found = (match.groups() for match in _TOKEN.finditer(condition))
    return {
        (plain or quoted.replace("``", "`")).lower()
        for quoted, plain in found
        if plain or quoted is not None
    }


def _as_name(text: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")


def _split(inside: str) -> tuple[list[str], str]:
    """Split the content of the parentheses into columns and, from the first literal, arguments."""
    parts = [part.strip() for part in inside.split(",")] if inside else []
    at = next((at for at in range(1, len(parts)) if _is_literal(parts[at])), len(parts))
    return parts[:at], ", ".join(parts[at:])


def _is_literal(text: str) -> bool:
    """Return whether a text is a number, a quoted text, or a keyword argument with one of these."""
    keyword = _KEYWORD.fullmatch(text)
    try:
        ast.literal_eval(keyword[1] if keyword else text)
    except (ValueError, SyntaxError):
        return False
    return True


def parse_window(text: str) -> Any:
    """Parse a window.

    ``24 hours`` is a TimeWindow, ``1000 events`` or ``2^20 events`` is a CountWindow, and ``session
    30 minutes`` is a SessionWindow. Bounds can follow after commas: ``24 hours, closed left, delay
    1 hour``, or ``100 events, exclude current``. With a zone, as in ``3 months, zone
    Europe/Berlin``, the window is a CalendarWindow, and so is ``month to date``.
    """
    size, *behind = _COMMA.split(text)
    events, session, to_date = _events(size), _SESSION.fullmatch(size), _TO_DATE.fullmatch(size)
    try:
        bounds = _bounds(behind)
        if session is not None and not bounds:
            return mta.SessionWindow(session[1])
        if to_date is not None:
            unit: Any = to_date[1]
            return mta.CalendarWindow.to_date(unit, **bounds)
        if "zone" in bounds:
            return mta.CalendarWindow(size.strip(), **bounds)
        if events is None:
            return mta.TimeWindow(size.strip(), **bounds)
        return mta.CountWindow(events, **bounds)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(
            f"--window {text!r}: {error}; write '24 hours', '1000 events' or 'session 30 minutes', "
            "or for calendar windows '3 months, zone Europe/Berlin' or 'month to date'; append "
            "', closed left', ', delay 1 hour' or ', exclude current' if the window ends before "
            "the row"
        ) from error


def _bounds(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        match = _BOUND.fullmatch(text)
        if match is None:
            raise ValueError(f"{text.strip()!r} is not a bound")
        name, value = match.groups()
        if name == "exclude" and value != "current":
            raise ValueError(f"{text.strip()!r} is not a bound")
        found |= {"exclude_current": True} if name == "exclude" else {name: value}
    return found


def parse_windows(texts: str | Sequence[str]) -> Any:
    """Return the policy of ``24 hours``, or a dictionary of policies for several ``name=size``."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    if len(texts) == 1 and "=" not in texts[0]:
        return parse_window(texts[0])
    windows: dict[str, Any] = {}
    for text in texts:
        name, equals, size = (part.strip() for part in text.partition("="))
        if not equals or not name or name in windows:
            raise InvalidRequest(
                f"--window {text!r}: multiple windows need different names, such as 'day=24 hours'"
            )
        windows[name] = parse_window(size)
    return windows


def described_windows(texts: Any) -> str:
    """Return the same text for texts that mean the same windows.

    >>> described_windows(["24h"]), described_windows(["a=24 hours", "b=5 events"])
    ("TimeWindow('1 day')", "{'a': TimeWindow('1 day'), 'b': CountWindow(5)}")
    """
    try:
        return repr(parse_windows(texts))
    except (InvalidRequest, AttributeError, TypeError):  # not what this release writes
        return repr(texts)


def parse_every(text: str) -> int | str | mta.EveryPeriod:
    """Return the value of ``emit_every``: 100 for ``100 events``; ``1 minute`` stays unchanged.

    A period may have an offset and a zone: ``1 day, offset 9h30m, zone America/New_York``.
    """
    period, *behind = _COMMA.split(text)
    events = _events(text)
    try:
        if events is not None:
            return mta.EveryCount(events).count
        trigger = mta.EveryPeriod(period.strip(), **_bounds(behind))
        return trigger if behind else period.strip()
    except (ValueError, TypeError) as error:
        raise InvalidRequest(
            f"--emit-every {text!r}: {error}; write '1 minute' for a result each minute, "
            "'100 events', or '1 day, offset 9h30m, zone America/New_York'"
        ) from error


def _events(text: str) -> int | None:
    """Return the number in ``1000 events`` or ``2^20 rows``; None for other texts."""
    match = _COUNT.fullmatch(text)
    return int(int(match[1]) ** int(match[2] or 1)) if match else None
