"""Covariance, correlation and linear regression of events that are pairs (y, x).

    partial = (n, mean of y, mean of x, Syy, Sxy, Sxx),    Sxy = the sum of (x - mean)(y - mean)

Partials merge like those of a standard deviation (Chan, Golub and LeVeque, 1979); sums of products
would cancel. The order of the columns is SQL's: ``regr_slope(y, x)`` is
``(("y", "x"), Regression("slope"))``.

Results are NaN for an empty window, for a window with an infinite value, and where they are
undefined: a sample covariance of fewer than two events, a correlation or r2 where x or y does not
vary, a slope or intercept where x does not vary. The identity is six zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from mta.columns.schemas import Array
from mta.kernels.native import ones
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.equality import ROUNDING, Scale, close

#: The statistics of a regression, by their names in SQL.
Statistic = Literal["slope", "intercept", "r2", "avgx", "avgy", "count", "sxx", "sxy", "syy"]


class _Pairs(ColumnarMonoid[float]):
    """A monoid of the means of pairs, and of sums of products of distances from them."""

    def __init__(self, name: str, lower: Callable[[Partial], Any]) -> None:
        super().__init__(
            name,
            inputs=("f8", "f8"),
            partials=("f8",) * 6,
            identity=(0.0,) * 6,
            lift=_lift,
            combine=_merge,
            lower=lower,
            commutative=True,
        )

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal up to one rounding of the largest values, and of their products, per event."""
        count = float(one[0])
        if count != float(other[0]):
            return False
        ys, xs = (
            max(
                abs(float(side[mean])) + np.sqrt(max(float(side[squares]), 0.0))
                for side in (one, other)
            )
            for mean, squares in ((1, 3), (2, 5))
        )
        rounding = 8 * (count + 1) * ROUNDING
        slack = [size * rounding for size in (ys, xs)]
        slack += [size * rounding * (count + 1) for size in (ys * ys, ys * xs, xs * xs)]
        return all(map(close, one[1:], other[1:], slack, [rounding] * 5))


class SampleCovariance(_Pairs):
    """The covariance of pairs, with n - 1 degrees of freedom; NaN for fewer than 2 events.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import SampleCovariance
    >>> window = Window(SampleCovariance(), CountWindow(3))
    >>> window.extend(([1.0, 3.0, 5.0, 4.0], [0.0, 1.0, 2.0, 3.0])).round(6).tolist()
    [nan, 1.0, 2.0, 0.5]
    """

    def __init__(self) -> None:
        super().__init__("SampleCovariance", lambda partial: _divided(partial[4], partial[0] - 1))


class PopulationCovariance(_Pairs):
    """The covariance of pairs, with n degrees of freedom; 0 for a single event.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import PopulationCovariance
    >>> window = Window(PopulationCovariance(), CountWindow(3))
    >>> window.extend(([1.0, 3.0, 5.0, 4.0], [0.0, 1.0, 2.0, 3.0])).round(6).tolist()
    [0.0, 0.5, 1.333333, 0.333333]
    """

    def __init__(self) -> None:
        super().__init__("PopulationCovariance", lambda partial: _divided(partial[4], partial[0]))


class Correlation(_Pairs):
    """Pearson's correlation of pairs, from -1 to 1.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import Correlation
    >>> window = Window(Correlation(), CountWindow(3))
    >>> window.extend(([1.0, 3.0, 5.0, 4.0], [0.0, 1.0, 2.0, 3.0])).round(6).tolist()
    [nan, 1.0, 1.0, 0.5]
    """

    def __init__(self) -> None:
        super().__init__("Correlation", _correlation)


class Regression(_Pairs):
    """A statistic of the least-squares line through pairs (y, x).

    Args:
        statistic: "slope", "intercept", "r2" (the share of y's variance that the line explains), or
            another SQL statistic: "avgx", "avgy", "count", "sxx", "sxy", "syy".

    >>> from mta import CountWindow, Window
    >>> window = Window(Regression("slope"), CountWindow(3), name="trend")
    >>> window.extend(([1.0, 3.0, 5.0, 5.0], [0.0, 1.0, 2.0, 3.0])).tolist()
    [nan, 2.0, 2.0, 1.0]
    """

    def __init__(self, statistic: Statistic = "slope") -> None:
        if statistic not in get_args(Statistic):
            known = ", ".join(get_args(Statistic))
            raise ValueError(f"statistic is one of {known}, not {statistic!r}")
        self.statistic = statistic
        super().__init__(f"Regression({statistic})", _STATISTICS[statistic])
        if statistic == "count":
            self.outputs, self.empty = Array("i8"), 0


def _divided(number: Any, divisor: Any) -> Any:
    return np.where(divisor > 0, np.divide(number, divisor), np.nan)[()]


def _correlation(partial: Partial) -> Any:
    _, _, _, yy, xy, xx = partial
    found = _divided(xy, np.sqrt(yy) * np.sqrt(xx))
    return np.clip(found, -1.0, 1.0)[()]


def _slope(partial: Partial) -> Any:
    return _divided(partial[4], partial[5])


_STATISTICS: dict[str, Callable[[Partial], Any]] = {
    "slope": _slope,
    "intercept": lambda partial: partial[1] - _slope(partial) * partial[2],
    # If y does not vary, r2 is 1, as in SQL.
    "r2": lambda partial: np.where(
        (partial[3] == 0) & (partial[5] > 0), 1.0, _correlation(partial) ** 2
    )[()],
    "avgx": lambda partial: _where_any(partial, 2),
    "avgy": lambda partial: _where_any(partial, 1),
    "count": lambda partial: np.asarray(partial[0]).astype("i8")[()],
    "sxx": lambda partial: _where_any(partial, 5),
    "sxy": lambda partial: _where_any(partial, 4),
    "syy": lambda partial: _where_any(partial, 3),
}


def _where_any(partial: Partial, place: int) -> Any:
    return np.where(partial[0] > 0, partial[place] + 0.0, np.nan)[()]


def _lift(pair: Any) -> Partial:
    y, x = pair
    # The distance of a value from itself: 0, or NaN for an infinite value.
    off_y, off_x = y - y, x - x
    return ones(y), y, x, off_y, off_y * off_x, off_x


def _merge(left: Partial, right: Partial) -> Partial:
    n, y, x, yy, xy, xx = left
    m, y_, x_, yy_, xy_, xx_ = right
    count = n + m
    share = m / np.maximum(count, 1)
    step_y, step_x, both = y_ - y, x_ - x, n * share
    return (
        count,
        y + step_y * share,
        x + step_x * share,
        yy + yy_ + step_y * step_y * both,
        xy + xy_ + step_y * step_x * both,
        xx + xx_ + step_x * step_x * both,
    )
