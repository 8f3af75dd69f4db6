"""The simple flags of the command line: ``peak=max(watts)``, ``24 hours``, ``1000 events``.

Everything else is SQL (``--sql``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mta
from mta.columns.schemas import Times
from mta.frames.shorthand import frame_of
from mta.monoids.base import AbstractMonoid
from mta.monoids.catalogue import factory_of, named
from spark_integration.errors import InvalidRequest
from spark_integration.request import inputs_of

_AGGREGATION = re.compile(r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*", re.DOTALL)
_COUNT = re.compile(r"\s*(\d[\d_]*)\s*(?:\^\s*(\d+))?\s*(?:events?|rows?)?\s*")
_SESSION = re.compile(r"\s*session\s+(.+?)\s*")
#: What may follow a period: an offset, a zone.
_MORE = re.compile(r"\s*(offset|zone)\s+(.+?)\s*")
#: The aggregations whose results have the unit and scale of the value.
_LIKE_THE_VALUE = frozenset({
    "max", "min", "mean", "avg", "geomean", "first", "last", "median", "mode", "time_weighted_mean",
})  # fmt: skip
_SQL = "for anything else, write the query with --sql"


@dataclass(frozen=True)
class Aggregation:
    """One result column: ``name`` is ``function`` over the window's values of ``column``."""

    name: str
    function: str
    column: str
    """Empty if no column is read, as for ``count(*)``."""

    def __str__(self) -> str:
        return f"{self.name}={self.function}({self.column or '*'})"

    @property
    def like_the_value(self) -> bool:
        """Return whether the result has the unit and scale of the value, for a common plot axis."""
        return self.function in _LIKE_THE_VALUE

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the value columns that are read; a count of rows reads none."""
        return (self.column,) if self.column else ()

    @property
    def counts(self) -> bool:
        """Return whether this counts rows or values, which need not be numbers."""
        return isinstance(self.monoid(), mta.Count)

    @property
    def counts_values(self) -> bool:
        """Return whether this counts the values of a column, which may have any type."""
        return bool(self.column) and self.counts

    def pair(self, time: str) -> tuple[Any, ...]:
        """Return the columns and the aggregation, as for ``sliding_aggregate``.

        Some aggregations read the time column before the values; it has timestamps by then.
        """
        times = (time,) if any(isinstance(each, Times) for each in inputs_of(self.monoid())) else ()
        return (*times, *self.columns), self.function

    def monoid(self) -> AbstractMonoid:
        return named(self.function)


def parse_aggregation(text: str, values: Sequence[str]) -> Aggregation:
    """Parse ``[name=]function[(column)]``.

    The column defaults to the first of ``values``; ``count``, like ``count(*)``, reads no column.
    Raises InvalidRequest.
    """
    match = _AGGREGATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"--agg {text!r} is not of the form name=function(column); {_SQL}")
    name, function, column = match.groups()
    try:
        factory_of(function)
        monoid = named(function)
    except ValueError as error:
        raise InvalidRequest(f"--agg {text!r}: {error}; {_SQL}") from error
    if isinstance(monoid, mta.Count) and column in (None, "", "*"):
        return Aggregation(name or function, function, "")
    if not column and not values:
        raise InvalidRequest(f"--agg {text!r} names no column: write {function}(column)")
    if sum(not isinstance(each, Times) for each in inputs_of(monoid)) > 1:
        raise InvalidRequest(f"--agg {text!r}: {function} reads several columns; {_SQL}")
    column = column or values[0]
    name = name or re.sub(r"[^0-9A-Za-z]+", "_", f"{function}_{column}").strip("_")
    return Aggregation(name, function, column)


def parse_window(text: str) -> Any:
    """Parse a window.

    ``24 hours`` is a TimeWindow; ``1000``, ``1000 events`` or ``2^20 events`` is a CountWindow; and
    ``session 30 minutes`` is a SessionWindow. Raises InvalidRequest.
    """
    events, session = _events(text), _SESSION.fullmatch(text)
    try:
        if session is not None:
            return mta.SessionWindow(session[1])
        return frame_of(text.strip() if events is None else events)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(
            f"--window {text!r}: write '24 hours', '1000 events' or 'session 30 minutes' "
            f"({error}); {_SQL}"
        ) from error


def described_window(text: Any) -> str:
    """Return the same text for texts that mean the same window.

    >>> described_window("24h"), described_window("5 events")
    ("TimeWindow('1 day')", 'CountWindow(5)')
    """
    try:
        return repr(parse_window(text))
    except (InvalidRequest, AttributeError, TypeError):  # not what this release writes
        return repr(text)


def parse_every(text: str) -> int | str | mta.EveryPeriod:
    """Return the value of ``emit_every``: 100 for ``100 events``; ``1 minute`` stays.

    A period may have an offset and a zone: ``1 day, offset 9h30m, zone America/New_York``.
    """
    period, *more = re.split(r",(?=\s*(?:offset|zone)\b)", text)
    events, given = _events(text), [_MORE.fullmatch(each) for each in more]
    try:
        if events is not None:
            return mta.EveryCount(events).count
        options: dict[str, Any] = {each[1]: each[2] for each in given if each is not None}
        trigger = mta.EveryPeriod(period.strip(), **options)
        return trigger if more else period.strip()
    except (ValueError, TypeError) as error:
        raise InvalidRequest(
            f"--emit-every {text!r}: write '1 minute' for a result each minute, '100 events', or "
            f"'1 day, offset 9h30m, zone America/New_York' ({error})"
        ) from error


def _events(text: str) -> int | None:
    """Return the number in ``1000 events`` or ``2^20 rows``; None for other texts."""
    match = _COUNT.fullmatch(text)
    return int(int(match[1]) ** int(match[2] or 1)) if match else None
