"""The ready-made monoids.

| monoid | result on the window | on an empty window |
|---|---|---|
| Count | how many events | 0 |
| Sum, CheckedSum | their sum | 0 |
| Min, Max | the extreme | NaN |
| Mean, GeometricMean | the mean | NaN |
| SampleStdDev, PopulationStdDev | the deviation, NaN for a sample of one | NaN |
| MinCount, MaxCount | how many events are at the extreme | 0 |
| ArgMin, ArgMax | the argument of the extreme, of the first one in a tie | NaN |
| First, Last | the oldest, the newest value | NaN |
| Collect, CollectDistinct | a list of all values, of the distinct ones | [] |

What each does with infinities, NaN, overflow, signed zeros and the ends of int64 is stated in
``docs/numbers.md``, and is the same on every way. In short: infinities are values like others (inf
- inf is NaN, while both are in the window), but a deviation beside one is NaN; one whose squares
overflow is inf; no sum, mean or extreme is -0.0; a NaN or null is refused or dropped by the window.
Nothing is ever subtracted, so no error survives the event that caused it.

With ``dtype="int64"`` results are exact integers, and an empty window answers the identity.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvalidValue, ResultOutOfRange
from mta.kernels.scans import ones, running_count
from mta.monoids.base import Monoid, Partial, any_of
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.equality import ROUNDING, Scale, close

#: The smallest positive double: below it squares vanish.
_TINY = 5e-324
_LARGEST_LOG = math.log(np.finfo("f8").max)
#: The lower half of a number of 64 bits.
_LOW = (1 << 32) - 1


class Count(ColumnarMonoid):
    """How many events; it looks at no value and stores none."""

    def __init__(self) -> None:
        super().__init__(
            "Count",
            inputs=(),
            partials="i8",
            identity=0,
            output="i8",
            lift=_ones,
            ufuncs=(np.add,),
            inverse=np.subtract,
            empty=0,
        )


class Sum(ColumnarMonoid):
    """The sum of the values, folded along the tree: no cancellation, error of O(arity * log n)."""

    def __init__(self, dtype: Any = "f8") -> None:
        zero = _zero(dtype)
        super().__init__(
            _named("Sum", dtype),
            inputs=dtype,
            partials=dtype,
            identity=zero,
            output=dtype,
            lower=_unsigned(dtype),
            ufuncs=(np.add,),
            inverse=np.subtract,
            empty=zero,
        )


class CheckedSum(ColumnarMonoid):
    """The exact sum of whole numbers, where it leaves their type a ResultOutOfRange.

    It is summed up in two halves of 32 bits each, which hold for 2^31 events. ``label`` is what the
    error calls the sum. The call that asks for such a result raises, and says how many of its
    events are in.
    """

    def __init__(self, dtype: Any = "int64", label: str = "") -> None:
        limits = np.iinfo(dtype)
        self.label = label or f"a sum of {limits.dtype}"
        super().__init__(
            _named("CheckedSum", limits.dtype),
            inputs=limits.dtype,
            partials=("i8", "i8"),
            identity=(0, 0),
            output=limits.dtype,
            lift=_halves,
            lower=self._joined,
            ufuncs=(np.add, np.add),
            inverse=lambda whole, part: (whole[0] - part[0], whole[1] - part[1]),
            empty=limits.dtype.type(0),
        )
        self._limits = limits

    def _joined(self, halves: Any) -> Any:
        high, low = halves[0] + (halves[1] >> 32), halves[1] & _LOW
        least, most, dtype = int(self._limits.min), int(self._limits.max), self._limits.dtype
        over = (high > most >> 32) | ((high == most >> 32) & (low > most & _LOW))
        under = (high < least >> 32) | ((high == least >> 32) & (low < least & _LOW))
        if np.any(over | under):
            raise ResultOutOfRange(
                f"{self.label} is beyond {least} to {most}: choose a monoid whose results are "
                "doubles, as Sum()"
            )
        if dtype == np.uint64:
            return (high.astype("u8") << np.uint64(32)) | low.astype("u8")
        return ((high << 32) | low).astype(dtype)


class _Extremum(ColumnarMonoid):
    _ufunc: np.ufunc

    def __init__(self, dtype: Any = "f8") -> None:
        worst = _limit(dtype, upper=self._ufunc is np.minimum)
        super().__init__(
            _named(type(self).__name__, dtype),
            inputs=dtype,
            partials=dtype,
            identity=worst,
            output=dtype,
            lower=_unsigned(dtype),
            ufuncs=(self._ufunc,),
            selective=True,
            empty=_nan_or(dtype, worst),
        )


class Min(_Extremum):
    """The smallest value."""

    _ufunc = np.minimum


class Max(_Extremum):
    """The largest value."""

    _ufunc = np.maximum


class Mean(ColumnarMonoid):
    """The arithmetic mean, from (sum, count)."""

    def __init__(self) -> None:
        super().__init__(
            "Mean",
            partials=("f8", "f8"),
            identity=(0.0, 0.0),
            lift=lambda value: (value, ones(value)),
            ufuncs=(np.add, np.add),
            inverse=lambda whole, part: (whole[0] - part[0], whole[1] - part[1]),
            lower=lambda partial: partial[0] / partial[1] + 0.0,
        )


class GeometricMean(ColumnarMonoid):
    """The geometric mean of values that are not negative, from (sum of logarithms, count)."""

    def __init__(self) -> None:
        super().__init__(
            "GeometricMean",
            partials=("f8", "f8"),
            identity=(0.0, 0.0),
            lift=lambda value: (np.log(value), ones(value)),
            ufuncs=(np.add, np.add),
            lower=_exp_of_mean,
        )

    def is_valid(self, row: Row) -> bool:
        return bool(row >= 0)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return any_of([~(rows >= 0)])


class _Extreme(ColumnarMonoid):
    """A monoid whose partial is (the extreme value, what goes with it)."""

    _largest: bool

    @property
    def _worst(self) -> float:
        return -np.inf if self._largest else np.inf

    def _right_wins(self, left: Any, right: Any) -> Any:
        """Strictly better, or the first NaN: with NaN accepted, a NaN is the extreme."""
        better = right > left if self._largest else right < left
        return better | ((right != right) & (left == left))


class _ExtremeCount(_Extreme):
    def __init__(self) -> None:
        super().__init__(
            type(self).__name__,
            partials=("f8", "i8"),
            identity=(self._worst, 0),
            output="i8",
            lift=lambda value: (value, ones(value, "i8")),
            combine=self._choose,
            lower=lambda partial: partial[1],
            commutative=True,
            empty=0,
        )

    def _choose(self, left: Partial, right: Partial) -> Partial:
        wins = self._right_wins(left[0], right[0])
        same = (left[0] == right[0]) | ((left[0] != left[0]) & (right[0] != right[0]))
        count = np.where(wins, right[1], np.where(same, left[1] + right[1], left[1]))
        return np.where(wins, right[0], left[0]), count


class MinCount(_ExtremeCount):
    """How many events have the smallest value."""

    _largest = False


class MaxCount(_ExtremeCount):
    """How many events have the largest value."""

    _largest = True


class _ArgExtreme(_Extreme):
    def __init__(self, dtype: Any = "f8") -> None:
        super().__init__(
            _named(type(self).__name__, dtype),
            inputs=("f8", dtype),
            # An event at the worst value still beats "no event yet", so presence is a column.
            partials=("f8", dtype, "?"),
            identity=(self._worst, _zero(dtype), False),
            output=dtype,
            lift=lambda pair: (pair[0], pair[1], np.ones_like(pair[0], dtype="?")),
            combine=self._choose,
            lower=lambda partial: partial[1],
            selective=True,
            empty=_nan_or(dtype, _zero(dtype)),
        )

    def _choose(self, left: Partial, right: Partial) -> Partial:
        wins = right[2] & (self._right_wins(left[0], right[0]) | ~np.asarray(left[2]))
        return (
            np.where(wins, right[0], left[0]),
            np.where(wins, right[1], left[1]),
            left[2] | right[2],
        )


class ArgMin(_ArgExtreme):
    """Of events (value, argument): the argument of the smallest value; the first wins a tie."""

    _largest = False


class ArgMax(_ArgExtreme):
    """Of events (value, argument): the argument of the largest value; the first wins a tie."""

    _largest = True


class _End(ColumnarMonoid):
    _oldest: bool

    def __init__(self, dtype: Any = "f8") -> None:
        zero = _zero(dtype)
        super().__init__(
            _named(type(self).__name__, dtype),
            inputs=dtype,
            partials=(dtype, "?"),
            identity=(zero, False),
            output=dtype,
            lift=lambda value: (value, np.ones_like(value, dtype="?")),
            combine=self._choose,
            selective=True,
            lower=lambda partial: partial[0],
            empty=_nan_or(dtype, zero),
        )

    def _choose(self, left: Partial, right: Partial) -> Partial:
        one, other = (left, right) if self._oldest else (right, left)
        return np.where(one[1], one[0], other[0]), one[1] | other[1]


class First(_End):
    """The oldest value in the window."""

    _oldest = True


class Last(_End):
    """The newest value in the window."""

    _oldest = False


class _StdDev(ColumnarMonoid):
    """Deviations from merged (n, mean, M2), never from a sum of squares, which would cancel."""

    _lost_degrees: int

    def __init__(self) -> None:
        super().__init__(
            type(self).__name__,
            partials=("f8", "f8", "f8"),
            identity=(0.0, 0.0, 0.0),
            # value - value is 0, and for an infinite value NaN: there is no distance from it.
            lift=lambda value: (ones(value), value, value - value),
            combine=_merge_moments,
            lower=self._deviation,
            commutative=True,
        )

    def _deviation(self, partial: Partial) -> Any:
        # A sample of one is 0 / 0, which is the NaN it should be.
        return np.sqrt(np.maximum(partial[2], 0) / (partial[0] - self._lost_degrees))

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """To a rounding an event of the largest value, which is at most |mean| + sqrt(M2)."""
        count, squares = float(one[0]), min(float(one[2]), float(other[2]))
        if not squares < math.inf:  # then the mean says nothing
            return bool(one[0] == other[0]) and close(one[2], other[2], 0.0)
        rounding = 2 * (count + 1) * ROUNDING
        off = rounding * (abs(float(one[1])) + math.sqrt(max(squares, 0.0)))
        slack = 2 * math.sqrt(count * abs(squares)) * off + count * off * off + count * _TINY
        alike = close(one[1], other[1], off) and close(one[2], other[2], slack, rounding)
        return alike and bool(one[0] == other[0])

    def fold(self, partials: Rows, count: int) -> Partial:
        """Two passes: the mean first, then the squares around it."""
        if count == 0:
            return self.identity
        weights, means, squares = partials
        total = weights.sum()
        shift = means[0]
        mean = shift + (weights * (means - shift)).sum() / max(total, 1.0)
        apart = means - mean
        folded = (squares + weights * apart * apart).sum()
        return total, mean, folded if folded < math.inf else _overflown(squares)[-1]

    def scan(self, first: Partial, partials: Rows, count: int, backwards: bool) -> Rows:
        """Welford's update as three running sums, in one pass instead of log2(n).

        M2 grows by w * (m - mean before) * (m - mean after), which is never negative, so running
        sums lose nothing to cancellation; the means are summed as distances from the first one.
        """
        total = running_count(partials[0], first[0])
        # Merging moments commutes, so a scan from the back is a scan of the rows turned round.
        turned = slice(None, None, -1 if backwards else 1)
        weights, means, squares = (
            np.concatenate(([start], column[turned]))
            for start, column in zip(first, partials, strict=True)
        )
        if count and not weights[0]:
            means[0] = means[1]  # no events have no mean: measure from the first that has one
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
        if not math.isfinite(run[-1]):
            run = np.where(np.isfinite(run), run, _overflown(squares))
        return total[turned], after[turned], run[turned]


class SampleStdDev(_StdDev):
    """The standard deviation with n - 1 degrees of freedom; NaN for a single event."""

    _lost_degrees = 1


class PopulationStdDev(_StdDev):
    """The standard deviation with n degrees of freedom; 0 for a single event."""

    _lost_degrees = 0


class _List(Monoid):
    def __init__(self) -> None:
        super().__init__((), self._joined, lambda value: (value,), list, type(self).__name__)

    def _joined(self, left: Partial, right: Partial) -> Partial:
        return left + right


class Collect(_List):
    """A list of all values in order; a result costs O(n), so it is for small windows."""


class CollectDistinct(_List):
    """A list of the distinct values, in the order of first appearance; for few distinct ones."""

    def _joined(self, left: Partial, right: Partial) -> Partial:
        return tuple(dict.fromkeys(left + right))


def _ones(rows: Any) -> Any:
    """1 for a single event (an empty row), ones for a number of events."""
    return 1 if rows == () else np.ones(rows, dtype="i8")


def _halves(value: Any) -> Any:
    """A whole number as its upper and its lower 32 bits; the upper ones have its sign."""
    if value.dtype == np.uint64:
        upper, lower = value >> np.uint64(32), value & np.uint64(_LOW)
        return upper.astype("i8"), lower.astype("i8")
    value = value.astype("i8")
    return value >> 32, value & _LOW


def _merge_moments(left: Partial, right: Partial) -> Partial:
    """Chan's merge of (n, mean, M2); a weight of exactly 0 or 1 leaves the other side as it is."""
    count = left[0] + right[0]
    weight = right[0] / np.maximum(count, 1)
    delta = right[1] - left[1]
    # Where an event is infinite, or squares have overflown, delta may be NaN: then M2 is known.
    apart = np.fmax(delta * (left[0] * weight) * delta, 0.0)
    return count, left[1] + delta * weight, left[2] + right[2] + apart


def _overflown(squares: Any) -> Any:
    """M2 up to each row, where it is not finite: NaN from an infinite or NaN event on, or inf."""
    return np.where(np.logical_or.accumulate(np.isnan(squares)), np.nan, np.inf)


def _exp_of_mean(partial: Partial) -> Any:
    """Never beyond the largest double because of a rounding alone."""
    mean = partial[0] / partial[1]
    return np.exp(np.where(mean < math.inf, np.minimum(mean, _LARGEST_LOG), mean))[()]


def _unsigned(dtype: Any) -> Any:
    """-0.0 as 0.0, which it equals: which of both a fold comes to hangs on the order."""
    return (lambda partial: partial + 0.0) if np.dtype(dtype).kind == "f" else None


def _named(name: str, dtype: Any) -> str:
    dtype = np.dtype(dtype)
    return name if dtype == np.float64 else f"{name}[{dtype.name}]"


def _zero(dtype: Any) -> Any:
    return np.zeros((), dtype)[()]


def _limit(dtype: Any, upper: bool) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return dtype.type(np.inf if upper else -np.inf)
    if dtype.kind not in "iu":
        raise InvalidValue(f"a column of {dtype} has no smallest and largest number")
    info = np.iinfo(dtype)
    return dtype.type(info.max if upper else info.min)


def _nan_or(dtype: Any, value: Any) -> Any:
    return np.nan if np.dtype(dtype).kind == "f" else value
