"""Skewness and kurtosis, from the first four central moments.

    partial = (n, mean, M2, M3, M4),    Mk = the sum of (x - mean)^k

Two partials merge by Pébay's formulas (Formulas for Robust, One-Pass Parallel Computation of
Covariances and Arbitrary-Order Statistical Moments, 2008). Sums of powers would cancel: the fourth
powers of values near 1e9 would have no digits left.

The estimates for a sample equal those of pandas, DuckDB and Excel; the others, those of Spark and
polars. Results are NaN for an empty window, too few events, an infinite value, or equal values (for
which pandas returns 0 and -3). The identity is five zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mta.kernels.native import ones
from mta.monoids.base import Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.equality import ROUNDING, Scale, close


class _Shape(ColumnarMonoid[float]):
    """A monoid of the first four central moments."""

    _result: Callable[[Partial], Any]

    def __init__(self) -> None:
        super().__init__(
            type(self).__name__,
            partials=("f8",) * 5,
            identity=(0.0,) * 5,
            lift=_lift,
            combine=_merge,
            lower=self._result,
            commutative=True,
        )

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal up to one rounding per event of the largest value, to the moment's power."""
        count = float(one[0])
        if count != float(other[0]):
            return False
        spread = np.sqrt(max(float(one[2]), float(other[2]), 0.0))
        size = max(abs(float(one[1])), abs(float(other[1]))) + spread
        slack = [8 * (count + 1) ** 2 * ROUNDING * size**power for power in (1, 2, 3, 4)]
        return all(map(close, one[1:], other[1:], slack, [8 * (count + 1) * ROUNDING] * 4))


class SampleSkewness(_Shape):
    """The skewness of a sample, adjusted for its bias; NaN for fewer than 3 events.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import SampleSkewness
    >>> window = Window(SampleSkewness(), CountWindow(5))
    >>> round(float(window.extend([1.0, 2.0, 2.0, 9.0])[-1]), 6)
    1.900104
    """

    def _result(self, partial: Partial) -> Any:
        n = np.asarray(partial[0])
        found = np.sqrt(n * (n - 1)) / (n - 2) * _standardized(partial, 3)
        return np.where(n > 2, found, np.nan)[()]


class PopulationSkewness(_Shape):
    """The skewness of the events themselves, without bias adjustment.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import PopulationSkewness
    >>> window = Window(PopulationSkewness(), CountWindow(5))
    >>> round(float(window.extend([1.0, 2.0, 2.0, 9.0])[-1]), 6)
    1.097025
    """

    def _result(self, partial: Partial) -> Any:
        return _standardized(partial, 3)


class SampleKurtosis(_Shape):
    """The excess kurtosis of a sample, adjusted for its bias; NaN for fewer than 4 events.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import SampleKurtosis
    >>> window = Window(SampleKurtosis(), CountWindow(5))
    >>> round(float(window.extend([1.0, 2.0, 2.0, 9.0])[-1]), 6)
    3.708507
    """

    def _result(self, partial: Partial) -> Any:
        n = np.asarray(partial[0])
        excess = (n + 1) * (_standardized(partial, 4) - 3) + 6
        found = (n - 1) / ((n - 2) * (n - 3)) * excess
        return np.where(n > 3, found, np.nan)[()]


class PopulationKurtosis(_Shape):
    """The excess kurtosis of the events themselves, without bias adjustment.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import PopulationKurtosis
    >>> window = Window(PopulationKurtosis(), CountWindow(5))
    >>> round(float(window.extend([1.0, 2.0, 2.0, 9.0])[-1]), 6)
    -0.705532
    """

    def _result(self, partial: Partial) -> Any:
        return _standardized(partial, 4) - 3


def _standardized(partial: Partial, power: int) -> Any:
    """Return the mean of ((x - mean) / standard deviation)^power."""
    variance, mean = (np.divide(partial[place], partial[0]) for place in (2, power))
    # 0 / 0 is NaN, the intended result.
    return mean / (variance * (np.sqrt(variance) if power == 3 else variance))


def _lift(value: Any) -> Partial:
    # The distance of a value from itself: 0, or NaN for an infinite value.
    nothing = value - value
    return ones(value), value, nothing, nothing, nothing


def _merge(left: Partial, right: Partial) -> Partial:
    n, mean, two, three, four = left
    m, other, two_, three_, four_ = right
    count = n + m
    share = m / np.maximum(count, 1)
    rest = n / np.maximum(count, 1)
    step = other - mean
    squared = step * step
    both = n * share  # n m / (n + m)
    return (
        count,
        mean + step * share,
        two + two_ + squared * both,
        three
        + three_
        + squared * step * both * (rest - share)
        + 3 * step * (rest * two_ - share * two),
        four
        + four_
        + squared * squared * both * (rest * rest - rest * share + share * share)
        + 6 * squared * (rest * rest * two_ + share * share * two)
        + 4 * step * (rest * three_ - share * three),
    )
