"""The small expressions of the command line: ``peak=max(watts)``, ``24 hours``, ``1000 events``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mta
from spark_integration.errors import InvalidRequest

#: The aggregations that the command line offers.
FUNCTIONS: dict[str, Callable[[], Any]] = {
    "max": mta.Max,
    "min": mta.Min,
    "mean": mta.Mean,
    "geomean": mta.GeometricMean,
    "first": mta.First,
    "last": mta.Last,
    "sum": mta.Sum,
    "count": mta.Count,
    "stddev": mta.SampleStdDev,
    "stddev_pop": mta.PopulationStdDev,
}
_AGGREGATION = re.compile(r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*(?:\(\s*(.*?)\s*\))?\s*", re.DOTALL)
_COUNT = re.compile(r"\s*(\d[\d_]*)\s*(?:\^\s*(\d+))?\s*(?:events?|rows?)\s*")
_SESSION = re.compile(r"\s*session\s+(.+?)\s*")


@dataclass(frozen=True)
class Aggregation:
    """One result column: ``name`` is ``function`` over the window's values of ``column``."""

    name: str
    function: str
    column: str

    def __str__(self) -> str:
        return f"{self.name}={self.function}({self.column})"

    @property
    def like_the_value(self) -> bool:
        """Whether the result has the value's unit and size, so that a plot has both on one axis."""
        return self.function in {"max", "min", "mean", "geomean", "first", "last"}

    @property
    def input(self) -> str | None:
        """The column that the monoid reads; a count reads none."""
        return None if self.function == "count" else self.column

    def monoid(self) -> Any:
        return FUNCTIONS[self.function]()


def parse_aggregation(text: str, values: Sequence[str]) -> Aggregation:
    """``[name=]function[(column)]``; the column defaults to the first of ``values``."""
    match = _AGGREGATION.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"--agg {text!r} is not of the form name=function(column)")
    name, function, column = match.groups()
    if function not in FUNCTIONS:
        raise InvalidRequest(
            f"--agg {text!r}: there is no function {function!r}; there are {', '.join(FUNCTIONS)}"
        )
    if not column and not values:
        raise InvalidRequest(f"--agg {text!r} names no column: write {function}(column)")
    column = column or values[0]
    name = name or f"{function}_{re.sub(r'[^0-9A-Za-z]+', '_', column).strip('_')}"
    return Aggregation(name, function, column)


def parse_window(text: str) -> Any:
    """``24 hours`` as a TimeWindow, ``1000 events`` or ``2^20 events`` as a CountWindow.

    ``session 30 minutes`` as a SessionWindow.
    """
    events, session = _events(text), _SESSION.fullmatch(text)
    try:
        if session is not None:
            return mta.SessionWindow(session[1])
        return mta.TimeWindow(text.strip()) if events is None else mta.CountWindow(events)
    except ValueError as error:
        raise InvalidRequest(
            f"--window {text!r}: write '24 hours', '1000 events' or 'session 30 minutes' ({error})"
        ) from error


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
                f"--window {text!r}: each of multiple windows has a name of its own, as "
                "'day=24 hours'"
            )
        windows[name] = parse_window(size)
    return windows


def parse_every(text: str) -> int | str:
    """``100 events`` as 100, ``1 minute`` as it is: when results are wanted, for ``emit_every``."""
    events, period = _events(text), text.strip()
    try:
        trigger = mta.EveryPeriod(period) if events is None else mta.EveryCount(events)
    except ValueError as error:
        raise InvalidRequest(
            f"--emit-every {text!r}: write '1 minute' for a result each minute, or '100 events' "
            f"({error})"
        ) from error
    return trigger.count if isinstance(trigger, mta.EveryCount) else period


def _events(text: str) -> int | None:
    """What ``1000 events`` or ``2^20 rows`` count; None for a text of another form."""
    match = _COUNT.fullmatch(text)
    return int(int(match[1]) ** int(match[2] or 1)) if match else None
