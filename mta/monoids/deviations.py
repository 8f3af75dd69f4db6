"""Standard deviations and variances, computed from merged moments.

Results are NaN for an empty window, and for a window with an infinite value. If the squares
overflow, the result is inf.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.kernels import native
from mta.kernels.native import Kernel, ones, repeats, running_count, zeros
from mta.monoids.base import Out, Partial, same_value
from mta.monoids.columnar import ColumnarMonoid, Plain
from mta.monoids.equality import ROUNDING, Scale, close

#: The smallest positive double: below it squares vanish.
_TINY = 5e-324


class _Moments(ColumnarMonoid[Out]):
    """A monoid of merged (n, mean, M2); a sum of squares would cancel."""

    values_in = itemgetter(0)
    _lost_degrees: int
    #: The lost degrees of the kernel's result; None if numpy computes the result.
    _kernel_lost: int | None = None

    def __init__(self) -> None:
        super().__init__(
            type(self).__name__,
            partials=("f8", "f8", "f8"),
            identity=(0.0, 0.0, 0.0),
            lift=lambda value: (ones(value), value, _no_distance(value)),
            combine=_merge_moments,
            lower=self._result,
            commutative=True,
            kernel=Kernel("moments", self._kernel_lost),
            plain=Plain(
                _plain_merge_moments,
                lambda value: (1.0, value, value - value),
                self._plain_result,
            ),
        )

    def _result(self, partial: Partial) -> Any:
        """Return the variance; a sample of one gives 0 / 0, which is NaN as intended."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.maximum(partial[2], 0) / (partial[0] - self._lost_degrees)

    def _plain_result(self, partial: Partial) -> float:
        """Like ``_result``, on Python numbers."""
        degrees, squares = partial[0] - self._lost_degrees, partial[2]
        return (0.0 if squares < 0 else squares) / degrees if degrees > 0 else math.nan

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """Equal up to one rounding of the largest value, at most |mean| + sqrt(M2), per event."""
        count, squares = float(one[0]), min(float(one[2]), float(other[2]))
        if not squares < math.inf:  # the mean is then meaningless
            return bool(one[0] == other[0]) and close(one[2], other[2], 0.0)
        rounding = 2 * (count + 1) * ROUNDING
        off = rounding * (abs(float(one[1])) + math.sqrt(max(squares, 0.0) + count * _TINY))
        slack = 2 * math.sqrt(count * abs(squares)) * off + count * off * off + count * _TINY
        alike = close(one[1], other[1], off) and close(one[2], other[2], slack, rounding)
        return alike and bool(one[0] == other[0])

    def fold(self, partials: Rows, count: int) -> Partial:
        """Compute the mean, then the squared distances from it: two passes."""
        if count == 0:
            return self.identity
        weights, means, squares = partials
        single = repeats(weights, 1)  # multiplying by them changes nothing
        total = weights.sum()
        shift = means[0]
        distances = means - shift
        if not single:
            distances *= weights
        mean = shift + distances.sum() / max(total, 1.0)
        np.subtract(means, mean, out=distances)
        distances *= distances if single else weights * distances
        if not repeats(squares, 0):
            distances += squares
        folded = distances.sum()
        if not folded < math.inf:
            folded = _overflown(squares)[-1]
        return total.item(), mean.item(), folded.item()

    def scan(self, first: Partial, partials: Rows, count: int, backwards: bool) -> Rows:
        """Apply Welford's update as three running sums: one pass instead of log2(n).

        M2 grows by w * (m - mean before) * (m - mean after), which is never negative, so running
        sums do not cancel. The means are summed as distances from the first mean.
        """
        if self.kernel is not None:
            room = self.partials.new(count + 1)
            self.partials.put(room, count if backwards else 0, first)
            if native.scan(self.kernel, partials, room, backwards):
                return room
        # Merging moments commutes, so a backward scan is a scan of the reversed rows.
        turned = slice(None, None, -1 if backwards else 1)
        weights, means, squares = (
            np.concatenate(([start], column[turned]))
            for start, column in zip(first, partials, strict=True)
        )
        if count and not first[0]:  # without events there is no mean: start with the first one
            means[0] = means[1]
        total = running_count(partials[0], first[0])
        if total is None:
            total = np.add.accumulate(weights)
        after = means - means[0]
        after *= weights
        np.add.accumulate(after, out=after)
        after /= np.maximum(total, 1)
        after += means[0]
        step = means[1:] - after[:-1]
        step *= weights[1:]
        step *= means[1:] - after[1:]
        after[0] = first[1]
        run = squares.copy()
        run[1:] += step
        np.add.accumulate(run, out=run)
        if not np.isfinite(run[-1]):
            run = np.where(np.isfinite(run), run, _overflown(squares))
        return total[turned], after[turned], run[turned]


class Moments(_Moments[tuple[float, float, float]]):
    """A monoid whose result is its partial (n, mean, M2), for frames that read moments."""

    _lost_degrees = _kernel_lost = 0

    def __init__(self) -> None:
        super().__init__()
        self.outputs, self.lower, self.empty = self.partials, same_value, self.identity


class SampleVariance(_Moments[float]):
    """The variance with n - 1 degrees of freedom; NaN for a single event.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import SampleVariance
    >>> Window(SampleVariance(), CountWindow(2)).extend([1.0, 3.0, 3.0]).tolist()
    [nan, 2.0, 0.0]
    """

    _lost_degrees = 1


class PopulationVariance(_Moments[float]):
    """The variance with n degrees of freedom; 0 for a single event.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import PopulationVariance
    >>> Window(PopulationVariance(), CountWindow(2)).extend([1.0, 3.0, 3.0]).tolist()
    [0.0, 1.0, 0.0]
    """

    _lost_degrees = 0


class _Root(_Moments[float]):
    """The square root of a variance; the compiled kernel computes the root too."""

    def _result(self, partial: Partial) -> Any:
        return np.sqrt(super()._result(partial))

    def _plain_result(self, partial: Partial) -> float:
        return math.sqrt(super()._plain_result(partial))


class SampleStdDev(_Root):
    """The standard deviation with n - 1 degrees of freedom; NaN for a single event.

    >>> from mta import CountWindow, SampleStdDev, Window
    >>> Window(SampleStdDev(), CountWindow(2)).extend([1.0, 3.0, 3.0]).tolist()
    [nan, 1.4142135623730951, 0.0]
    """

    _lost_degrees = _kernel_lost = 1


class PopulationStdDev(_Root):
    """The standard deviation with n degrees of freedom; 0 for a single event.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import PopulationStdDev
    >>> Window(PopulationStdDev(), CountWindow(2)).extend([1.0, 3.0, 3.0]).tolist()
    [0.0, 1.0, 0.0]
    """

    _lost_degrees = _kernel_lost = 0


class StandardError(_Moments[float]):
    """The standard error of the mean: the sample deviation divided by the square root of n.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import StandardError
    >>> Window(StandardError(), CountWindow(2)).extend([1.0, 3.0, 3.0]).tolist()
    [nan, 1.0, 0.0]
    """

    _lost_degrees = 1

    def _result(self, partial: Partial) -> Any:
        return np.sqrt(super()._result(partial) / partial[0])

    def _plain_result(self, partial: Partial) -> float:
        variance = super()._plain_result(partial)
        return math.sqrt(variance / partial[0]) if partial[0] else math.nan


def _no_distance(value: Any) -> Any:
    """Return the distance of each value from itself: 0, or NaN for an infinite value."""
    # If the sum is finite, so are all values; the sum of finite values may overflow, though.
    if isinstance(value, np.ndarray) and (
        np.isfinite(np.add.reduce(value)) or np.isfinite(value).all()
    ):
        return zeros(len(value))
    return value - value


def _merge_moments(left: Partial, right: Partial) -> Partial:
    """Merge (n, mean, M2) by Chan's formula; a weight of exactly 0 or 1 returns the other side."""
    count = left[0] + right[0]
    weight = right[0] / np.maximum(count, 1)
    delta = right[1] - left[1]
    # With an infinite event, or after an overflow, delta may be NaN; M2 then holds the result.
    distances = np.fmax(delta * (left[0] * weight) * delta, 0.0)
    return count, left[1] + delta * weight, left[2] + right[2] + distances


def _plain_merge_moments(left: Partial, right: Partial) -> Partial:
    """Like ``_merge_moments``, on Python numbers."""
    n, mean, squares = left
    m, other, more = right
    count = n + m
    weight = m / (count if count > 1.0 else 1.0)
    delta = other - mean
    distances = delta * (n * weight) * delta
    return count, mean + delta * weight, squares + more + (distances if distances > 0.0 else 0.0)


def _overflown(squares: Any) -> Any:
    """Return M2 of non-finite scans: NaN from an infinite or NaN event on, otherwise inf."""
    return np.where(np.logical_or.accumulate(np.isnan(squares)), np.nan, np.inf)
