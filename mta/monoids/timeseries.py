"""Aggregations that read the times of events: decay, time-weighted means, integrals, rates.

An event is (time, value), as in ``(("ts", "watts"), TimeWeightedMean())``. The time is an input
column, which in ``rolling`` and Spark may be the column that ``on`` names. Each event is therefore
stored with the time, and the window may use another time than its aggregations. Times are datetimes
("M8[us]", the type of datetime columns) or numbers in ``unit``, by default seconds.

    partial of a curve = (count, first time, first value, last time, last value, area)

The area of two combined parts is the sum of their areas and the area of the gap between them, which
depends on the last value of the older part and the first of the newer one:

    times, values   0: 10   5: 20 | 8: 40       "last":    10 * 5  |  20 * 3 in the gap
                                                "linear":  15 * 5  |  30 * 3 in the gap

These aggregations cover the time from the oldest to the newest event of the window. Unlike PromQL's
``increase``, ``rate`` and ``delta``, Increase, IncreaseRate and RateOfChange do not extrapolate to
the limits of the window. For a window of one event, the mean is its value, the integral and the
increase are 0, and rates are NaN.

Events are in the order of their times, and in the order of arrival for equal times. Results are NaN
for an empty window, except for DecayedSum, Integral and Increase (0.0). Sums are rounded
to doubles. An identity has a count of 0, whatever its other numbers are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from mta.columns.schemas import Times
from mta.kernels.native import ones, zeros
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.equality import ROUNDING, Scale, close, same
from mta.times import MICROSECONDS, Duration, TimeUnit, to_duration

#: The value between events: the last value, or a straight line.
Interpolation = Literal["last", "linear"]
#: A time before all others; its distance to any time fits in 64 bits.
_BEFORE_ALL = -(1 << 62)
_COUNT, _FIRST_TIME, _FIRST, _LAST_TIME, _LAST, _AREA = range(6)


class _Decayed(ColumnarMonoid[float]):
    """A monoid of (time, sum, weight): sums whose weights halve every ``half_life``."""

    _empty = np.nan
    _result: Callable[[Partial], Any]

    def __init__(self, half_life: float | Duration, unit: TimeUnit = "s") -> None:
        self.half_life = to_duration(half_life, "a half-life")
        super().__init__(
            f"{type(self).__name__}({self.half_life} us, {unit})",
            inputs=(Times(unit), "f8"),
            partials=("i8", "f8", "f8"),
            identity=(_BEFORE_ALL, 0.0, 0.0),
            lift=lambda event: (event[0].astype("i8"), event[1], ones(event[1])),
            combine=self._merge,
            lower=self._result,
            commutative=True,
            empty=self._empty,
        )

    def _merge(self, left: Partial, right: Partial) -> Partial:
        """Add both sums as of the later time."""
        time = np.maximum(left[0], right[0])
        one, other = (np.exp2((side[0] - time) / self.half_life) for side in (left, right))
        return time, left[1] * one + right[1] * other, left[2] * one + right[2] * other

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal up to one rounding per event; powers of two with large exponents round more."""
        rounding = (2 if scale is None else scale.count + 1) * 2048 * ROUNDING
        return bool(one[0] == other[0]) and same(one[1:], other[1:], None, rounding)


class DecayedSum(_Decayed):
    """The sum of the values, each halved for every ``half_life`` before the newest event.

    Events are pairs (time, value). The result is 0.0 for an empty window.

    Args:
        half_life: A number of seconds, or a duration such as "1 minute".
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, Window
    >>> window = Window(DecayedSum("1 minute"), CountWindow(9), name="load")
    >>> window.extend(([0, 60, 180], [8.0, 1.0, 3.0])).tolist()
    [8.0, 5.0, 4.25]
    """

    _empty = 0.0

    def _result(self, partial: Partial) -> Any:
        return partial[1] + 0.0


class DecayedMean(_Decayed):
    """The mean of the values, weighted as in ``DecayedSum``.

    The result equals pandas' ``ewm(halflife=, times=)`` over the events of the window.

    Args:
        half_life: A number of seconds, or a duration such as "1 minute".
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import DecayedMean
    >>> window = Window(DecayedMean("1 minute"), CountWindow(9), name="load")
    >>> window.extend(([0, 60], [8.0, 2.0])).tolist()
    [8.0, 4.0]
    """

    def _result(self, partial: Partial) -> Any:
        return np.divide(partial[1], partial[2]) + 0.0


#: The area between the last event of one part and the first event of the next.
Gap = Callable[[Any, Any, Any], Any]


class _Curve(ColumnarMonoid[float]):
    """A monoid of the curve through values: its two ends and the area under it."""

    def __init__(
        self,
        name: str,
        gap: Gap,
        result: Callable[[Partial], Any],
        unit: TimeUnit | None = "s",
        empty: float = np.nan,
    ) -> None:
        self._gap = gap
        super().__init__(
            name if unit in (None, "s") else f"{name}[{unit}]",
            inputs="f8" if unit is None else (Times(unit), "f8"),
            partials=("i8", "i8", "f8", "i8", "f8", "f8"),
            identity=(0, 0, 0.0, 0, 0.0, 0.0),
            lift=_lift_value if unit is None else _lift_event,
            combine=self._joined,
            lower=result,
            empty=empty,
        )

    def _joined(self, left: Partial, right: Partial) -> Partial:
        some, more = left[_COUNT] > 0, right[_COUNT] > 0
        between = self._gap(right[_FIRST_TIME] - left[_LAST_TIME], left[_LAST], right[_FIRST])
        return (
            left[_COUNT] + right[_COUNT],
            np.where(some, left[_FIRST_TIME], right[_FIRST_TIME]),
            np.where(some, left[_FIRST], right[_FIRST]),
            np.where(more, right[_LAST_TIME], left[_LAST_TIME]),
            np.where(more, right[_LAST], left[_LAST]),
            left[_AREA] + right[_AREA] + np.where(some & more, between, 0.0),
        )

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal ends; equal areas up to one rounding per event of their parts."""
        ends = slice(_COUNT, _AREA)
        if not same(tuple(one[ends]), tuple(other[ends]), None, 0.0):
            return False
        span = max(float(one[_LAST_TIME]) - float(one[_FIRST_TIME]), 1.0)
        size, count = abs(float(one[_AREA])), 1
        if scale is not None and len(scale.total) > _AREA:
            count = scale.count + 1
            size += (scale.total[_FIRST] + scale.total[_LAST]) * span + scale.total[_AREA]
        return close(one[_AREA], other[_AREA], size * (count + 1) * ROUNDING)


class TimeWeightedMean(_Curve):
    """The mean over time, from the oldest to the newest event.

    Events are pairs (time, value). If all events have one time, the result is the newest value.

    Args:
        interpolation: The value between two events: the "last" value, or a "linear" change.
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, Window
    >>> window = Window(TimeWeightedMean(), CountWindow(3), name="mean")
    >>> window.extend(([0, 1, 10], [5.0, 1.0, 9.0])).tolist()
    [5.0, 5.0, 1.4]
    """

    def __init__(self, interpolation: Interpolation = "last", unit: TimeUnit = "s") -> None:
        gap = _gap_of(interpolation)
        super().__init__(f"TimeWeightedMean({interpolation})", gap, _mean_over_time, unit)


class Integral(_Curve):
    """The area under the curve through the values, in units of value times seconds.

    Events are pairs (time, value). The area spans the time from the oldest to the newest event.

    Args:
        interpolation: "last" or "linear", as for ``TimeWeightedMean``.
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, Window
    >>> window = Window(Integral("linear"), CountWindow(3), name="joules")
    >>> window.extend(([0, 1, 3], [5.0, 1.0, 2.0])).tolist()
    [0.0, 3.0, 6.0]
    """

    def __init__(self, interpolation: Interpolation = "last", unit: TimeUnit = "s") -> None:
        gap = _gap_of(interpolation)
        super().__init__(f"Integral({interpolation})", gap, _area, unit, empty=0.0)


class RateOfChange(_Curve):
    """The change of the value per second, from the oldest to the newest event (time, value).

    Args:
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import RateOfChange
    >>> window = Window(RateOfChange(), CountWindow(3), name="rate")
    >>> window.extend(([0, 1, 4], [5.0, 1.0, 9.0])).tolist()
    [nan, -4.0, 1.0]
    """

    def __init__(self, unit: TimeUnit = "s") -> None:
        super().__init__("RateOfChange", lambda time, before, after: 0.0, _change_a_second, unit)


class Increase(_Curve):
    """The increase of a counter that may be reset.

    A value below the previous one is the first after a reset, and counts from 0. Growth before the
    oldest event of the window is not included.

    >>> from mta import CountWindow, Window
    >>> Window(Increase(), CountWindow(4), name="n").extend([7.0, 9.0, 2.0, 5.0, 6.0]).tolist()
    [0.0, 2.0, 4.0, 7.0, 6.0]
    """

    def __init__(self) -> None:
        super().__init__("Increase", _growth, lambda partial: partial[_AREA] + 0.0, None, 0.0)


class IncreaseRate(_Curve):
    """The increase of a counter per second, from the oldest to the newest event (time, value).

    Args:
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import IncreaseRate
    >>> window = Window(IncreaseRate(), CountWindow(3), name="rate")
    >>> window.extend(([0, 1, 4], [5.0, 9.0, 1.0])).tolist()
    [nan, 4.0, 1.25]
    """

    def __init__(self, unit: TimeUnit = "s") -> None:
        super().__init__("IncreaseRate", _growth, _area_a_second, unit)


def _lift_event(event: Any) -> Partial:
    time, value = event[0].astype("i8"), event[1]
    return ones(value, "i8"), time, value, time, value, value * 0.0


def _lift_value(value: Any) -> Partial:
    none = zeros(len(value), "i8") if isinstance(value, np.ndarray) else 0
    return ones(value, "i8"), none, value, none, value, value * 0.0


def _gap_of(interpolation: str) -> Gap:
    if interpolation not in get_args(Interpolation):
        raise ValueError(f"interpolation is 'last' or 'linear', not {interpolation!r}")
    if interpolation == "last":
        return lambda time, before, after: time * before
    return lambda time, before, after: time * (before / 2 + after / 2)


def _growth(time: Any, before: Any, after: Any) -> Any:
    return np.where(after >= before, after - before, after)


def _span(partial: Partial) -> Any:
    """Return the microseconds from the oldest to the newest event; NaN if there are none."""
    span = partial[_LAST_TIME] - partial[_FIRST_TIME]
    return np.where(span > 0, span, np.nan)


def _mean_over_time(partial: Partial) -> Any:
    span = _span(partial)
    return np.where(span > 0, partial[_AREA] / span, partial[_LAST])[()] + 0.0


def _area(partial: Partial) -> Any:
    return partial[_AREA] / MICROSECONDS + 0.0


def _area_a_second(partial: Partial) -> Any:
    return partial[_AREA] / _span(partial) * MICROSECONDS + 0.0


def _change_a_second(partial: Partial) -> Any:
    return (partial[_LAST] - partial[_FIRST]) / _span(partial) * MICROSECONDS + 0.0
