"""The small expressions of the command line: ``peak=max(watts)``, ``24 hours``, ``1000 events``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mta
from spark_integration.errors import InvalidRequest


@dataclass(frozen=True)
class Function:
    """An aggregation that the command line offers."""

    monoid: Callable[[], Any]
    like_the_value: bool
    """The result has the value's unit and size, so a plot can show both on one axis."""


FUNCTIONS = {
    "max": Function(mta.Max, True),
    "min": Function(mta.Min, True),
    "mean": Function(mta.Mean, True),
    "geomean": Function(mta.GeometricMean, True),
    "first": Function(mta.First, True),
    "last": Function(mta.Last, True),
    "sum": Function(mta.Sum, False),
    "count": Function(mta.Count, False),
    "stddev": Function(mta.SampleStdDev, False),
    "stddev_pop": Function(mta.PopulationStdDev, False),
}

_AGGREGATION = re.compile(r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*(?:\(\s*([^()]*?)\s*\))?\s*")
_COUNT = re.compile(r"\s*(\d[\d_]*)\s*(?:\^\s*(\d+))?\s*(?:events?|rows?)\s*")


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
        """Whether the result has the value's unit and size."""
        return FUNCTIONS[self.function].like_the_value

    @property
    def input(self) -> str | None:
        """The column that the monoid reads; a count reads none."""
        return None if self.function == "count" else self.column

    def monoid(self) -> Any:
        """A new monoid for this aggregation."""
        return FUNCTIONS[self.function].monoid()


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
    if not column:
        if not values:
            raise InvalidRequest(f"--agg {text!r} names no column: write {function}(column)")
        column = values[0]
    return Aggregation(
        name or f"{function}_{re.sub(r'[^0-9A-Za-z]+', '_', column)}", function, column
    )


def parse_window(text: str) -> Any:
    """``24 hours`` as a TimeWindow, ``1000 events`` or ``2^20 events`` as a CountWindow."""
    if match := _COUNT.fullmatch(text):
        return _policy(text, mta.CountWindow, _number(match))
    return _policy(text, mta.TimeWindow, text.strip())


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
                f"--window {text!r}: of several windows each has a name of its own, as "
                "'day=24 hours'"
            )
        windows[name] = parse_window(size)
    return windows


def parse_every(text: str) -> int | str:
    """``100 events`` as 100, ``1 minute`` as it is: when results are wanted, for ``every``."""
    match = _COUNT.fullmatch(text)
    try:
        if match:
            return mta.EveryCount(_number(match)).count
        mta.EveryPeriod(text.strip())
    except ValueError as error:
        raise InvalidRequest(
            f"--every {text!r}: write '1 minute' for a result each minute, or '100 events'"
        ) from error
    return text.strip()


def _number(match: re.Match[str]) -> int:
    base, power = match.groups()
    return int(int(base) ** int(power or 1))


def _policy(text: str, policy: Callable[[Any], Any], size: object) -> Any:
    try:
        return policy(size)
    except ValueError as error:
        raise InvalidRequest(
            f"--window {text!r}: write '24 hours', '30 minutes' or '1000 events' ({error})"
        ) from error
