"""Aggregations that need the times of events: decay, time-weighted means, integrals, rates.

An event is (time, value), as ``(("ts", "watts"), TimeWeightedMean())``: the time is one more
column that is read, in ``rolling`` and Spark the column that ``on`` names too. So a time is stored
with the values of each event, a window may go by another time than its aggregations, and no
structure has to hand times to monoids. Times are datetimes ("M8[us]", what datetime columns become)
or numbers, of which ``unit`` says what they count: seconds unless it is given.

    partial of a curve = (count, first time, first value, last time, last value, area)

The area of two parts joined is that of both and that of the gap between them, which the last value
of the one and the first of the other have in common:

    times, values   0: 10   5: 20 | 8: 40       "last":    10 * 5  |  20 * 3 in the gap
                                                "linear":  15 * 5  |  30 * 3 in the gap

Nothing is known of what was before the oldest event of the window, or after its newest one. So all
of these speak of the time from the oldest to the newest event and extrapolate to no window's edge,
where PromQL does. A window of one event has a mean, which is its value, an integral and an increase
of 0, and no rate (NaN).

| monoid | result | PromQL |
|---|---|---|
| DecayedSum, DecayedMean | weights halve each ``half_life``, as of the newest event | - |
| TimeWeightedMean, Integral | of the curve through the values, by steps or straight lines | - |
| RateOfChange | (last value - first value) / seconds between | ``delta`` / range |
| Increase | what a counter grew by, after a reset from 0 on | ``increase`` |
| IncreaseRate | the same per second | ``rate`` |

Events are in the order of time, as windows keep them; those of one time in the order in which they
came. Results are NaN on an empty window, but for DecayedSum, Integral and Increase (0.0). Sums are
rounded as doubles are. The identities have a count of 0, whatever else they hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from mta.columns.schemas import Times
from mta.kernels.scans import ones, zeros
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.equality import ROUNDING, Scale, close, same
from mta.times import MICROSECONDS, Duration, TimeUnit, to_duration

#: How values go on between events: as steps, or along straight lines.
Interpolation = Literal["last", "linear"]
#: A time before all others, from which the distance to each is a number of 64 bits.
_BEFORE_ALL = -(1 << 62)
_COUNT, _FIRST_TIME, _FIRST, _LAST_TIME, _LAST, _AREA = range(6)


class _Decayed(ColumnarMonoid[float]):
    """A monoid of (time, sum, weight): sums of values whose weights halve each ``half_life``."""

    def __init__(self, half_life: float | Duration, unit: TimeUnit = "s") -> None:
        self.half_life = to_duration(half_life, "a half-life")
        super().__init__(
            f"{type(self).__name__}({self.half_life} us, {unit})",
            inputs=(Times(unit), "f8"),
            partials=("i8", "f8", "f8"),
            identity=(_BEFORE_ALL, 0.0, 0.0),
            lift=lambda event: (_micros(event[0]), event[1], ones(event[1])),
            combine=self._merge,
            lower=self._result,
            commutative=True,
            empty=self._empty,
        )

    _empty = np.nan

    def _result(self, partial: Partial) -> Any:
        raise NotImplementedError

    def _merge(self, left: Partial, right: Partial) -> Partial:
        """Both sums as of the later time."""
        time = np.maximum(left[0], right[0])
        one, other = (np.exp2((side[0] - time) / self.half_life) for side in (left, right))
        return time, left[1] * one + right[1] * other, left[2] * one + right[2] * other

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal up to one rounding per event, more where a power of two has a large exponent."""
        rounding = (2 if scale is None else scale.count + 1) * 2048 * ROUNDING
        return bool(one[0] == other[0]) and same(one[1:], other[1:], None, rounding)


class DecayedSum(_Decayed):
    """The sum of the values, each halved for every ``half_life`` between it and the newest event.

    Its events are pairs (time, value). 0.0 on an empty window.

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

    It is what pandas' ``ewm(halflife=, times=)`` gives for the events of the window.

    Args:
        half_life: A number of seconds, or a duration such as "1 minute".
        unit: The unit of numeric times: "s", "ms", "us" or "ns".

    >>> from mta import CountWindow, DecayedMean, Window
    >>> window = Window(DecayedMean("1 minute"), CountWindow(9), name="load")
    >>> window.extend(([0, 60], [8.0, 2.0])).tolist()
    [8.0, 4.0]
    """

    def _result(self, partial: Partial) -> Any:
        return np.divide(partial[1], partial[2]) + 0.0


#: What is between the last event of one part and the first of the next one.
Gap = Callable[[Any, Any, Any], Any]


class _Curve(ColumnarMonoid[float]):
    """A monoid of the curve through values: both its ends, and the area under it."""

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
        """Equal ends, and areas up to one rounding per event of their parts."""
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

    Its events are pairs (time, value). For one event, or several at one time, it is the newest
    value.

    Args:
        interpolation: Whether the "last" value is valid between two events, or the value changes in
            a "linear" way.
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
    """The area under the curve through the values, in units of the value times seconds.

    Its events are pairs (time, value); the area is that from the oldest to the newest event.

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

    >>> from mta import CountWindow, RateOfChange, Window
    >>> window = Window(RateOfChange(), CountWindow(3), name="rate")
    >>> window.extend(([0, 1, 4], [5.0, 1.0, 9.0])).tolist()
    [nan, -4.0, 1.0]
    """

    def __init__(self, unit: TimeUnit = "s") -> None:
        super().__init__("RateOfChange", _nothing, _change_a_second, unit)


class Increase(_Curve):
    """The increase of a counter that may be reset.

    A value below the previous one is the first after a reset, and counts from 0. What the counter
    grew by before the oldest event of the window is not included.

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

    >>> from mta import CountWindow, IncreaseRate, Window
    >>> window = Window(IncreaseRate(), CountWindow(3), name="rate")
    >>> window.extend(([0, 1, 4], [5.0, 9.0, 1.0])).tolist()
    [nan, 4.0, 1.25]
    """

    def __init__(self, unit: TimeUnit = "s") -> None:
        super().__init__("IncreaseRate", _growth, _area_a_second, unit)


def _micros(times: Any) -> Any:
    """Times as numbers of microseconds: one, or a column."""
    return times.astype("i8")


def _lift_event(event: Any) -> Partial:
    time, value = _micros(event[0]), event[1]
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


def _nothing(time: Any, before: Any, after: Any) -> Any:
    return 0.0


def _growth(time: Any, before: Any, after: Any) -> Any:
    return np.where(after >= before, after - before, after)


def _span(partial: Partial) -> Any:
    """The microseconds from the oldest to the newest event; NaN where there are none."""
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
