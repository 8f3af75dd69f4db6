"""The small expressions of the command line: ``peak=max(watts)``, ``24 hours``, ``1000 events``."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mta
from mta.columns.schemas import Record, Times
from mta.monoids.base import AbstractMonoid
from mta.monoids.catalogue import factory_of, named
from spark_integration.errors import InvalidRequest
from spark_integration.request import filter_column

_AGGREGATION = re.compile(
    r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*(?:\(\s*(.*?)\s*\))?"
    r"(?:\s*\bfilter\s*\(\s*where\b\s*(.+?)\s*\))?\s*",
    re.DOTALL | re.IGNORECASE,
)
_HALF_FILTER = re.compile(r"\)\s*filter\b", re.IGNORECASE)
#: What stands between quotes in an expression of SQL, a name in backticks, or a plain name.
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`((?:[^`]|``)*)`|(\w+)""", re.DOTALL)
_KEYWORD = re.compile(r"\w+\s*=\s*(.+)", re.DOTALL)
_COUNT = re.compile(r"\s*(\d[\d_]*)\s*(?:\^\s*(\d+))?\s*(?:events?|rows?)\s*")
#: What may stand behind a size: ``closed left``, ``delay 1 hour``, ``exclude current``, a zone.
_BOUND = re.compile(r"\s*(closed|delay|ties|exclude|zone|offset)\s+(.+?)\s*")
#: Durations may have other commas.
_COMMA = re.compile(r",(?=\s*(?:closed|delay|ties|exclude|zone|offset)\b)")
_SESSION = re.compile(r"\s*session\s+(.+?)\s*")
_TO_DATE = re.compile(r"\s*(\w+)\s+to\s+date\s*")
#: The aggregations whose results have the value's unit and size.
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
    """Empty where it reads none, as ``count(*)``."""
    more: tuple[str, ...] = ()
    """Further columns that it reads."""
    arguments: str = ""
    """What stands behind the columns, as ``0.9``."""
    condition: str = ""
    """Of which rows it is, as an expression of Spark SQL; empty for all."""

    def __str__(self) -> str:
        inside = ", ".join(filter(None, [self.column or "*", *self.more, self.arguments]))
        behind = f" filter (where {self.condition})" if self.condition else ""
        return f"{self.name}={self.function}({inside}){behind}"

    @property
    def like_the_value(self) -> bool:
        """Whether the result has the value's unit and size, so that a plot has both on one axis."""
        return self.function in _LIKE_THE_VALUE

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of values that are read; a count of rows reads none."""
        return (self.column, *self.more) if self.column else ()

    @property
    def counts(self) -> bool:
        """Whether it counts rows or values, and so needs no numbers."""
        return isinstance(self.monoid(), mta.Count)

    @property
    def counts_values(self) -> bool:
        """Whether it counts the values of a column, which may be of any type."""
        return bool(self.column) and self.counts

    def pair(self, time: str) -> tuple[Any, ...]:
        """It as ``sliding_aggregate`` takes it; some read the column of the time before the values.

        That column is of timestamps by then. The filter is the name of its column.
        """
        times = (time,) if _reads_times(self.monoid()) else ()
        filters = (filter_column(self.name),) if self.condition else ()
        return ((*times, *self.columns), self._text, *filters)

    def mentions(self, name: str) -> bool:
        """Whether the filter may read a column: names in its text are compared without case."""
        return name.lower() in _names_in(self.condition)

    def monoid(self) -> AbstractMonoid:
        """What computes it."""
        return named(self._text)

    @property
    def _text(self) -> str:
        return f"{self.function}({self.arguments})"


def parse_aggregation(text: str, values: Sequence[str]) -> Aggregation:
    """``[name=]function[(column, ...)] [filter (where condition)]``.

    The column defaults to the first of ``values``; ``count``, as ``count(*)``, reads none. Behind
    the columns may be arguments, as in ``quantile(watts, 0.9)``. Raises InvalidRequest.
    """
    match = _AGGREGATION.fullmatch(text)
    if match is None or _HALF_FILTER.search(match[3] or ""):
        raise InvalidRequest(
            f"--agg {text!r} is not of the form name=function(column), with a filter behind it "
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
    count = max(_count_of_values(monoid), 1)
    if count == 1:  # a name may have commas
        columns = [", ".join(columns)]
    if len(columns) != count:
        raise InvalidRequest(
            f"--agg {text!r} names {len(columns)} of the {count} columns that {function} reads"
        )
    name = name or _as_name(f"{function}_{'_'.join(columns)}_{arguments}_{condition or ''}")
    return Aggregation(name, function, columns[0], tuple(columns[1:]), arguments, condition or "")


def _names_in(condition: str) -> set[str]:
    """The names in an expression of SQL in lower case: columns, functions and words."""
    found = (match.groups() for match in _TOKEN.finditer(condition))
    return {
        (plain or quoted.replace("``", "`")).lower()
        for quoted, plain in found
        if plain or quoted is not None
    }


def _as_name(text: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", text).strip("_")


def _split(inside: str) -> tuple[list[str], str]:
    """What is in the parentheses: columns, and from the first literal after one the arguments."""
    parts = [part.strip() for part in inside.split(",")] if inside else []
    at = next((at for at in range(1, len(parts)) if _is_literal(parts[at])), len(parts))
    return parts[:at], ", ".join(parts[at:])


def _is_literal(text: str) -> bool:
    """Whether a text is a number, a quoted text, or a keyword with one."""
    keyword = _KEYWORD.fullmatch(text)
    try:
        ast.literal_eval(keyword[1] if keyword else text)
    except (ValueError, SyntaxError):
        return False
    return True


def _reads_times(monoid: AbstractMonoid) -> bool:
    inputs = monoid.inputs
    return isinstance(inputs, Record) and any(isinstance(each, Times) for each in inputs.schemas)


def _count_of_values(monoid: AbstractMonoid) -> int:
    """How many columns of values a monoid reads, beside that of the time."""
    if not isinstance(monoid.inputs, Record):
        return 1
    return sum(not isinstance(schema, Times) for schema in monoid.inputs.schemas)


def parse_window(text: str) -> Any:
    """``24 hours`` as a TimeWindow, ``1000 events`` or ``2^20 events`` as a CountWindow.

    ``session 30 minutes`` as a SessionWindow. Behind a comma may be where the window ends:
    ``24 hours, closed left, delay 1 hour``, or ``100 events, exclude current``. With a zone, as
    ``3 months, zone Europe/Berlin``, it is a CalendarWindow, and so is ``month to date``.
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
            f"--window {text!r}: write '24 hours', '1000 events' or 'session 30 minutes'; by the "
            "calendar '3 months, zone Europe/Berlin' or 'month to date'; and behind it ', closed "
            "left', ', delay 1 hour' or ', exclude current' where it ends before the row "
            f"({error})"
        ) from error


def _bounds(texts: Sequence[str]) -> dict[str, Any]:
    """The arguments that are written behind a size."""
    found: dict[str, Any] = {}
    for text in texts:
        match = _BOUND.fullmatch(text)
        if match is None:
            raise ValueError(f"{text.strip()!r} is no bound")
        name, value = match.groups()
        if name == "exclude" and value != "current":
            raise ValueError(f"{text.strip()!r} is no bound")
        found |= {"exclude_current": True} if name == "exclude" else {name: value}
    return found


def parse_windows(texts: str | Sequence[str]) -> Any:
    """The policy of ``24 hours``, or of several ``name=24 hours`` a dictionary by their names."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    if len(texts) == 1 and "=" not in texts[0]:
        return parse_window(texts[0])
    windows: dict[str, Any] = {}
    for text in texts:
        name, equals, size = (part.strip() for part in text.partition("="))
        if not equals or not name or name in windows:
            raise InvalidRequest(
                f"--window {text!r}: each of multiple windows has a name of its own, such as "
                "'day=24 hours'"
            )
        windows[name] = parse_window(size)
    return windows


def parse_every(text: str) -> int | str | mta.EveryPeriod:
    """``100 events`` as 100, ``1 minute`` as it is: when results are wanted, for ``emit_every``.

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
            f"--emit-every {text!r}: write '1 minute' for a result each minute, '100 events', or "
            f"'1 day, offset 9h30m, zone America/New_York' ({error})"
        ) from error


def _events(text: str) -> int | None:
    """What ``1000 events`` or ``2^20 rows`` count; None for a text of another form."""
    match = _COUNT.fullmatch(text)
    return int(int(match[1]) ** int(match[2] or 1)) if match else None
