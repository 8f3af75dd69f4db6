"""Frames of SQL as frames of the package.

    ROWS BETWEEN 9 PRECEDING AND CURRENT ROW        CountWindow(10)
    ROWS BETWEEN 9 PRECEDING AND 3 PRECEDING        CountWindow(7, delay=3)
    RANGE BETWEEN s PRECEDING AND CURRENT ROW       TimeWindow(s, closed="both", ties="peers")
    the same with EXCLUDE GROUP                     TimeWindow(s, closed="left")
    RANGE BETWEEN s PRECEDING AND e PRECEDING       TimeWindow(s - e, closed="both", delay=e)

A frame from UNBOUNDED PRECEDING is as long as a frame can be.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from sqlglot import exp

from mta.frames.base import Ties
from mta.frames.windows import UNBOUNDED, CountWindow, TimeWindow
from mta.queries.text import Text
from mta.times import to_duration

#: How an ORDER BY column counts: as a point in time, as whole numbers without a unit, or with one.
Axis = Literal["time", "number", "numeric time"]
_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": None}


class Frames:
    """Reads frames, for columns of a kind."""

    def __init__(self, text: Text, axis: Axis, unit: str | None, ties: Ties) -> None:
        self.text, self.axis, self.unit, self.ties = text, axis, unit, ties

    def read(self, window: exp.Window, spec: exp.WindowSpec | None) -> CountWindow | TimeWindow:
        """Return the frame of a window. Raises InvalidQuery."""
        given: dict[str, Any] = {} if spec is None else spec.args
        kind = str(given.get("kind") or "RANGE").upper()
        start, end = given.get("start", "UNBOUNDED"), given.get("end") or "CURRENT ROW"
        sides = [str(given.get(name) or "").upper() for name in ("start_side", "end_side")]
        if "FOLLOWING" in sides:
            raise self.text.error(
                window, "a frame ends with the current row or before it",
                "no later row is known when a row arrives; write AND CURRENT ROW", "FOLLOWING",
            )  # fmt: skip
        if kind not in ("ROWS", "RANGE"):
            raise self.text.error(window, f"{kind} frames are not supported", "use RANGE", kind)
        read: Any = self._rows if kind == "ROWS" else self._range
        exclude = given.get("exclude")
        excluded = "" if exclude is None else exclude.sql().upper()
        bounds = [self._bound(window, kind, each) for each in (start, end)]
        found: CountWindow | TimeWindow = read(
            window, *bounds, "" if excluded == "NO OTHERS" else excluded
        )
        return found

    def _bound(self, window: exp.Window, kind: str, bound: Any) -> int:
        """Return how many rows or microseconds before the current row a bound is."""
        if bound == "CURRENT ROW":
            return 0
        if bound == "UNBOUNDED":
            return UNBOUNDED
        return self._count(window, bound) if kind == "ROWS" else self._distance(window, bound)

    def _count(self, window: exp.Window, bound: exp.Expr) -> int:
        if not (isinstance(bound, exp.Literal) and bound.is_int):
            problem = f"ROWS {bound.sql(self.text.dialect)} PRECEDING is not a number of rows"
            raise self.text.error(bound, problem, "write a whole number, such as ROWS 9 PRECEDING")
        return int(bound.name)

    def _distance(self, window: exp.Window, bound: exp.Expr) -> int:
        """Return a distance on the axis of ORDER BY in microseconds."""
        if isinstance(bound, exp.Literal) and bound.is_int:
            scale = _UNIT[self.unit or "us"]
            if self.axis == "time" or scale is None:
                raise self.text.error(
                    bound, f"RANGE {bound.name} PRECEDING has no unit",
                    "ORDER BY is a time: write RANGE INTERVAL 10 MINUTES PRECEDING",
                )  # fmt: skip
            return int(bound.name) * scale
        if self.axis == "number":
            raise self.text.error(
                bound, "ORDER BY is a column of numbers, and the frame is an interval",
                'write RANGE 10 PRECEDING, or give the unit of the numbers, such as time_unit="s"',
                _word(bound),
            )  # fmt: skip
        return self._interval(bound)

    def _interval(self, bound: exp.Expr) -> int:
        if isinstance(bound, exp.Add):
            return self._interval(bound.this) + self._interval(bound.expression)
        value = bound.this if isinstance(bound, exp.Interval) else bound
        unit = bound.args.get("unit") if isinstance(bound, exp.Interval) else None
        if isinstance(value, exp.Cast):  # '1 day'::interval
            value = value.this
        text = f"{value.name} {unit.name if unit else ''}".strip().lower()
        try:
            if not isinstance(value, exp.Literal) or isinstance(unit, exp.IntervalSpan):
                raise ValueError("it is not of the form INTERVAL 90 MINUTES")
            return to_duration(text, "an interval", least=0)
        except ValueError as error:
            raise self.text.error(
                bound, f"{bound.sql(self.text.dialect)} is not a fixed length ({error})",
                "write days, hours or shorter units, such as INTERVAL 30 DAYS", _word(bound),
            ) from None  # fmt: skip

    def _rows(self, window: exp.Window, start: int, end: int, exclude: str) -> CountWindow:
        if exclude in ("GROUP", "TIES"):
            raise self.text.error(
                window, f"EXCLUDE {exclude} is not supported with ROWS",
                "use RANGE ... EXCLUDE GROUP, or ROWS ... EXCLUDE CURRENT ROW", "EXCLUDE",
            )  # fmt: skip
        end = max(end, 1 if exclude else 0)
        if start < end:
            raise self._empty(window)
        size = UNBOUNDED if start == UNBOUNDED else start - end + 1
        return CountWindow(size, delay=end)

    def _range(self, window: exp.Window, start: int, end: int, exclude: str) -> TimeWindow:
        if start < end or (not start and exclude == "GROUP"):
            raise self._empty(window)
        if end:  # the current row and its peers are outside anyway
            return _window(start if start == UNBOUNDED else start - end, delay=_micros(end))
        if exclude == "GROUP":
            return TimeWindow(_micros(start), closed="left")
        if exclude:
            raise self.text.error(
                window, f"EXCLUDE {exclude} is not supported with RANGE",
                "use EXCLUDE GROUP, which also excludes rows of the same time, or ROWS", "EXCLUDE",
            )  # fmt: skip
        return _window(start, ties=self.ties)

    def _empty(self, window: exp.Window) -> Exception:
        return self.text.error(window, "the frame contains no rows", "let it start before its end")


def _word(bound: exp.Expr) -> str:
    """Return the word that an error points at if the parser knows no position of a bound."""
    return "" if any("start" in each.meta for each in bound.walk()) else "INTERVAL"


def _micros(count: int) -> timedelta:
    return timedelta(microseconds=count)


def _window(length: int, **end: Any) -> TimeWindow:
    """Return a window with both bounds; a window without length contains one moment."""
    if not length:
        return TimeWindow(_micros(1), **end)
    return TimeWindow(_micros(length), closed="both", **end)


def merged(
    text: Text, window: exp.Window, named: dict[str, exp.Window]
) -> tuple[list[exp.Expr], exp.Order | None, exp.WindowSpec | None]:
    """Return PARTITION BY, ORDER BY and the frame of a window, with those of the one it names."""
    own = window.args
    by, order, spec = own.get("partition_by") or [], own.get("order"), own.get("spec")
    if own.get("alias") is None:
        return by, order, spec
    name = window.args["alias"].name
    if name.lower() not in named:
        known = f"the query has {', '.join(named)}" if named else "the query has no WINDOW clause"
        raise text.error(own["alias"], f"there is no window {name!r}", f"{known}: define it there")
    others = {key: each for key, each in named.items() if key != name.lower()}
    base = merged(text, named[name.lower()], others)
    return by or base[0], order or base[1], spec or base[2]
