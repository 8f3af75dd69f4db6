"""The simple flags of the command line: ``peak=watts:max``, ``24 hours``, ``1000 events``.

They name the same pairs of columns and aggregation, and frames, that Python's functions take.
Expressions are SQL (``--sql``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import mta
from mta.columns.schemas import Times
from mta.frames.shorthand import frame_of
from mta.monoids.catalogue import named
from mta.monoids.product import pairs_of
from spark_integration.errors import InvalidRequest

#: A name, columns and an aggregation, which may have arguments.
_AGGREGATION = re.compile(r"\s*(?:(\w+)\s*=)?(?:(.*):)?\s*(\w+\s*(?:\(.*\))?)\s*", re.DOTALL)
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
    """One result column: an aggregation of columns of values, as ``pairs_of`` reads it."""

    name: str
    columns: tuple[str, ...]
    """The value columns that are read; a count of rows reads none."""
    function: str
    """The aggregation, with arguments if it takes any."""

    def __str__(self) -> str:
        return f"{self.name}={':'.join([*self.columns, self.function])}"

    @property
    def like_the_value(self) -> bool:
        """Return whether the result has the unit and scale of the value, for a common plot axis."""
        return self.function in _LIKE_THE_VALUE

    @property
    def counts(self) -> bool:
        """Return whether this counts rows or values, which need not be numbers."""
        return isinstance(named(self.function), mta.Count)

    def pair(self, time: str) -> tuple[Any, ...]:
        """Return the columns and the aggregation, as for ``sliding_aggregate``.

        Some aggregations read the time column before the values; it has timestamps by then.
        """
        times = [time] * any(
            isinstance(each, Times) for each in named(self.function).inputs.columns
        )
        return (*times, *self.columns), self.function


def parse_aggregation(text: str, values: Sequence[str]) -> Aggregation:
    """Parse ``[name=][column:]aggregation``, with several columns if the aggregation reads several.

    The column defaults to the first of ``values``; ``count`` reads no column. The name defaults to
    that of ``pairs_of``. Raises InvalidRequest.
    """
    match = _AGGREGATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"--agg {text!r}: write name=column:aggregation; {_SQL}")
    name, given, function = match[1], match[2], match[3].rstrip()
    columns = tuple(map(str.strip, given.split(":"))) if given else ()
    try:
        if not columns and not isinstance(named(function), mta.Count):
            columns = tuple(values[:1])
        found = Aggregation(name or "", columns, function)
        ((alias, _),) = pairs_of({name: found.pair("")} if name else found.pair("")).items()
    except ValueError as error:
        hint = "write column:aggregation, such as watts:max"
        raise InvalidRequest(f"--agg {text!r}: {error}; {hint}; {_SQL}") from error
    return replace(found, name=alias)


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
