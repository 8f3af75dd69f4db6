"""Counts, sums, means, extremes, first and last values.

For an empty window, counts and sums are 0, and other results are NaN. ``docs/numbers.md`` states
how each aggregation handles infinities, NaN, overflow, signed zeros and the limits of int64. In
short: infinities are ordinary values (inf - inf is NaN while both are in the window); no sum, mean
or extreme is -0.0; the window rejects or drops NaN and null. Nothing is ever subtracted, so no
error outlives the event that caused it.

With ``dtype="int64"``, results are exact integers, and an empty window returns the identity. With
``Decimals(2)``, results are exact decimals. Monoids that choose a value also accept datetimes and
durations, such as ``Max("M8[us]")``, whose result for an empty window is NaT. Without a type,
values are doubles, and an integer that no double represents is rejected. ``rolling`` and Spark know
the column before the first event and use its type (``of_types``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from operator import add, itemgetter, sub
from typing import Any, Literal, overload

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Array, Decimals, LongDecimals, Objects, Row, Rows
from mta.errors import ResultOutOfRange
from mta.kernels.native import Kernel, ones
from mta.monoids.base import AbstractMonoid, Out, Partial, any_of, same_value
from mta.monoids.columnar import (
    Choice,
    ColumnarMonoid,
    Plain,
    addable,
    empty_of,
    is_plain,
    is_whole,
    larger,
    layout_of,
    limit_of,
    lowering_of,
    named,
    outputs_of,
    positive_zero,
    shown,
    smaller,
    zero_of,
)
from mta.monoids.decimals import LongSum
from mta.monoids.parts import Parts
from mta.monoids.text import FirstText, LastText, MaxText, MinText

_LARGEST_LOG = math.log(np.finfo("f8").max)
#: The lower half of a 64-bit integer.
_LOW = (1 << 32) - 1
#: The smallest integer above the range of int64.
_HALF = 1 << 63
#: The most digits and places of a decimal in SQL, and its division.
_MOST_PLACES = 38
_HALF_UP = Context(prec=120, rounding=ROUND_HALF_UP)


#: The types of columns, for type checkers.
Whole = type[int] | type[np.integer[Any]] | np.dtype[np.integer[Any]] | Literal["int64", "i8"]
Floating = type[float] | np.dtype[np.float64] | Literal["float64", "f8"]


class Tally(ColumnarMonoid[int]):
    """A monoid that counts: integers that are added."""

    def __init__(
        self, name: str, inputs: Any, lift: Any = None, plain: Plain | None = None
    ) -> None:
        super().__init__(
            name,
            inputs=inputs,
            partials="i8",
            identity=0,
            output="i8",
            lift=lift,
            ufuncs=(np.add,),
            inverse=np.subtract,
            empty=0,
            kernel=Kernel.of(np.add, "i8", 0),
            plain=plain,
        )


class Count(Tally):
    """The number of events; it reads and stores no values.

    In a Product, and wherever aggregations have names, ``Count("watts")`` counts the values of a
    column that are not null.

    Args:
        column: The column whose values are counted instead of events.

    >>> from mta import CountWindow, Count, Window
    >>> Window(Count(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1, 2, 2, 2]
    """

    never_null = True

    def __init__(self, column: str | None = None) -> None:
        self.column = column
        super().__init__("Count", (), _ones, Plain(add, lambda row: 1, inverse=sub))


class Sum(ColumnarMonoid[Out]):
    """The sum of the values.

    Partial sums are added along the tree and never subtracted: the error is O(arity * log n).

    Args:
        dtype: A numpy type such as "int64", or ``Decimals(places)``. Defaults to the column's type
            in ``rolling`` and Spark, and to float64 elsewhere.

    >>> from mta import CountWindow, Sum, Window
    >>> Window(Sum(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1.0, 4.0, 5.0, 2.0]
    """

    @overload
    def __init__(self: Sum[int], dtype: Whole) -> None: ...

    @overload
    def __init__(self: Sum[float], dtype: Floating | None = None) -> None: ...

    @overload
    def __init__(self: Sum[Decimal], dtype: Decimals) -> None: ...

    @overload
    def __init__(self: Sum[Any], dtype: Any) -> None: ...

    def __init__(self, dtype: Any = None) -> None:
        kind = addable(dtype)
        zero = zero_of(kind)
        super().__init__(
            named("Sum", kind),
            inputs=kind,
            partials=kind,
            identity=zero,
            output=outputs_of(kind),
            lower=lowering_of(kind),
            ufuncs=(np.add,),
            inverse=np.subtract,
            empty=plain(shown(kind, zero)),
            kernel=Kernel.of(np.add, kind.dtype, 0),
            plain=_plain(
                kind,
                Plain(add, lower=positive_zero, inverse=sub),
                Plain(_wrapped(add), inverse=_wrapped(sub)),
            ),
        )
        self._follows = dtype is None

    def of_types(self, *types: Any) -> AbstractMonoid:
        """Integers and decimals use ``CheckedSum``; so do booleans, which count as 0 and 1."""
        kind = "int64" if types[0] == "bool" else types[0]
        if isinstance(kind, LongDecimals):
            return LongSum(kind) if self._follows else self
        return CheckedSum(kind) if self._follows and is_whole(kind) else self


class CheckedSum(ColumnarMonoid[Out]):
    """The exact sum of integers or decimals. Raises ResultOutOfRange if it does not fit its type.

    The sum is stored as two halves of 32 bits, enough for 2^31 events. The call that computes the
    result raises the error, which says how many of the call's events were accepted. A sum of
    decimals may have more digits than they have, so it always fits.

    Args:
        dtype: An integer type such as "int64", or ``Decimals(places)``.
        label: The name of the sum in error messages.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import CheckedSum
    >>> Window(CheckedSum(), CountWindow(2)).extend([1, 3, 2, 0]).tolist()
    [1, 4, 5, 2]
    """

    @overload
    def __init__(self: CheckedSum[Decimal], dtype: Decimals, label: str = "") -> None: ...

    @overload
    def __init__(self: CheckedSum[int], dtype: Any = "int64", label: str = "") -> None: ...

    def __init__(self, dtype: Any = "int64", label: str = "") -> None:
        kind = addable(dtype)
        limits, show = np.iinfo(kind.dtype), lowering_of(kind)
        self.label = label or f"a sum of {limits.dtype}"
        super().__init__(
            named("CheckedSum", kind),
            inputs=kind,
            partials=("i8", "i8"),
            identity=(0, 0),
            output=outputs_of(kind),
            lift=_halves,
            lower=self._joined if show is None else lambda halves: show(self._joined(halves)),
            ufuncs=(np.add, np.add),
            inverse=_subtract_pairs,
            empty=plain(shown(kind, zero_of(kind))),
            plain=_plain(
                kind,
                None,
                Plain(_add_pairs, lambda n: (n >> 32, n & _LOW), self._one, _subtract_pairs),
            ),
        )
        self._limits, self._is_decimal = limits, isinstance(kind, Decimals)

    def _joined(self, halves: Any) -> Any:
        high, low = halves[0] + (halves[1] >> 32), halves[1] & _LOW
        least, most, dtype = int(self._limits.min), int(self._limits.max), self._limits.dtype
        over = (high > most >> 32) | ((high == most >> 32) & (low > most & _LOW))
        under = (high < least >> 32) | ((high == least >> 32) & (low < least & _LOW))
        if np.any(over | under):
            if self._is_decimal:
                high, low = (np.asarray(half).astype(object) for half in (high, low))
                return (high << 32) | low
            raise self._out_of_range()
        if dtype == np.uint64:
            return (high.astype("u8") << np.uint64(32)) | low.astype("u8")
        return ((high << 32) | low).astype(dtype)

    def _one(self, halves: tuple[int, int]) -> int:
        """Like ``_joined``, on Python integers, which do not wrap."""
        joined = (halves[0] << 32) + halves[1]
        if not self._limits.min <= joined <= self._limits.max:
            raise self._out_of_range()
        return joined

    def _out_of_range(self) -> ResultOutOfRange:
        return ResultOutOfRange(
            f"{self.label} is beyond {self._limits.min} to {self._limits.max}: choose a monoid "
            'whose results are doubles, such as Sum("float64")'
        )


class _Extremum(Choice[Out]):
    _ufunc: np.ufunc

    def __init__(self, dtype: Any = None) -> None:
        kind, self.follows_column = layout_of(dtype), dtype is None
        smallest = self._ufunc is np.minimum
        worst, choose = limit_of(kind, upper=smallest), smaller if smallest else larger
        super().__init__(
            named(type(self).__name__, kind),
            inputs=kind,
            partials=kind,
            identity=worst,
            output=outputs_of(kind),
            lower=lowering_of(kind),
            ufuncs=(self._ufunc,),
            selective=True,
            empty=empty_of(kind, worst),
            kernel=Kernel.of(self._ufunc, kind.dtype, 0),
            plain=_plain(kind, Plain(choose, lower=positive_zero), Plain(choose)),
        )


class Min(_Extremum[Out]):
    """The smallest value.

    Args:
        dtype: A numpy type such as "int64" or "M8[us]", or ``Decimals(places)``. Defaults to the
            column's type in ``rolling`` and Spark, and elsewhere to float64, or the type of the
            first values if they are no numbers.

    >>> from mta import CountWindow, Min, Window
    >>> Window(Min(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1.0, 1.0, 2.0, 0.0]
    """

    _ufunc = np.minimum
    _of_text = MinText

    @overload
    def __init__(self: Min[int], dtype: Whole) -> None: ...

    @overload
    def __init__(self: Min[float], dtype: Floating | None = None) -> None: ...

    @overload
    def __init__(self: Min[Decimal | None], dtype: Decimals) -> None: ...

    @overload
    def __init__(self: Min[Any], dtype: Any = None) -> None: ...

    def __init__(self, dtype: Any = None) -> None:
        super().__init__(dtype)


class Max(_Extremum[Out]):
    """The largest value.

    Args:
        dtype: A numpy type such as "int64" or "M8[us]", or ``Decimals(places)``. Defaults to the
            column's type in ``rolling`` and Spark, and elsewhere to float64, or the type of the
            first values if they are no numbers.

    >>> from mta import CountWindow, Max, Window
    >>> Window(Max(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1.0, 3.0, 3.0, 2.0]
    """

    _ufunc = np.maximum
    _of_text = MaxText

    @overload
    def __init__(self: Max[int], dtype: Whole) -> None: ...

    @overload
    def __init__(self: Max[float], dtype: Floating | None = None) -> None: ...

    @overload
    def __init__(self: Max[Decimal | None], dtype: Decimals) -> None: ...

    @overload
    def __init__(self: Max[Any], dtype: Any = None) -> None: ...

    def __init__(self, dtype: Any = None) -> None:
        super().__init__(dtype)


class Mean(ColumnarMonoid[float]):
    """The arithmetic mean, stored as (sum, count).

    >>> from mta import CountWindow, Mean, Window
    >>> Window(Mean(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1.0, 2.0, 2.5, 1.0]
    """

    values_in = itemgetter(1)

    def __init__(self) -> None:
        super().__init__(
            "Mean",
            partials=("f8", "f8"),
            identity=(0.0, 0.0),
            lift=lambda value: (value, ones(value)),
            ufuncs=(np.add, np.add),
            inverse=_subtract_pairs,
            lower=_mean,
            kernel=Kernel("mean", 0),
            plain=Plain(_add_pairs, lambda value: (value, 1.0), _plain_mean, _subtract_pairs),
        )


class DecimalMean(Parts[Decimal | None]):
    """The mean of decimals as in SQL: computed exactly, and rounded half up to 4 more places.

    Args:
        kind: The type of the values: ``Decimals`` or ``LongDecimals``.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import DecimalMean, Decimals
    >>> window = Window(DecimalMean(Decimals(1)), CountWindow(3), name="DecimalMean")
    >>> window.extend([Decimal("0.1"), Decimal("0.1"), Decimal("0.3")]).tolist()
    [Decimal('0.10000'), Decimal('0.10000'), Decimal('0.16667')]
    """

    values_in = itemgetter(1)
    empty = None

    def __init__(self, kind: Decimals | LongDecimals) -> None:
        self._sum: AbstractMonoid = (
            LongSum(kind) if isinstance(kind, LongDecimals) else CheckedSum(kind)
        )
        self.name, self.inputs, self.outputs = f"DecimalMean[{kind!r}]", kind, Objects()
        places = min(kind.places + 4, _MOST_PLACES)
        #: SQL rounds twice: a quotient to one place more than a decimal has, then the result.
        self._units = Decimal((0, (1,), -1 - _MOST_PLACES)), Decimal((0, (1,), -places))
        super().__init__([(self._sum, same_value), (Count(), _no_columns)])

    def lower(self, partial: Partial) -> Decimal | None:
        return self._quotient(self._sum.lower(partial[0]), partial[1]) if partial[1] else None

    def lower_rows(self, partials: Rows) -> Rows:
        pairs = zip(self._sum.lower_rows(partials[0]), partials[1].tolist(), strict=True)
        return [self._quotient(total, count) for total, count in pairs]

    def _quotient(self, total: Decimal, count: int) -> Decimal | None:
        if not count:
            return None
        found = _HALF_UP.divide(total, Decimal(count))
        for unit in self._units:
            found = _HALF_UP.quantize(found, unit)
        return found


class GeometricMean(ColumnarMonoid[float]):
    """The geometric mean of non-negative values, stored as (sum of logarithms, count).

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import GeometricMean
    >>> Window(GeometricMean(), CountWindow(2)).extend([1.0, 4.0, 4.0, 0.0]).tolist()
    [1.0, 2.0, 4.0, 0.0]
    """

    values_in = itemgetter(1)

    def __init__(self) -> None:
        super().__init__(
            "GeometricMean",
            partials=("f8", "f8"),
            identity=(0.0, 0.0),
            lift=lambda value: (np.log(value), ones(value)),
            ufuncs=(np.add, np.add),
            lower=_exp_of_mean,
            kernel=Kernel("mean"),
            plain=Plain(_add_pairs, lambda value: (_plain_log(value), 1.0), _plain_exp_of_mean),
        )

    def is_valid(self, row: Row) -> bool:
        return bool(row >= 0)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return any_of([~(rows >= 0)])


class _Extreme(ColumnarMonoid[Out]):
    """A monoid whose partial is (extreme value, attached data)."""

    _largest: bool

    def _right_wins(self, left: Any, right: Any) -> Any:
        """Whether the right value is strictly better, or the first NaN, which is the extreme."""
        better = right > left if self._largest else right < left
        return better | ((right != right) & (left == left))


class _ExtremeCount(_Extreme[int]):
    never_null = True

    def __init__(self) -> None:
        super().__init__(
            type(self).__name__,
            partials=("f8", "i8"),
            identity=(-np.inf if self._largest else np.inf, 0),
            output="i8",
            lift=lambda value: (value, ones(value, "i8")),
            combine=self._choose,
            lower=lambda partial: partial[1],
            commutative=True,
            empty=0,
            plain=Plain(self._one, lambda value: (value, 1), lambda partial: partial[1]),
        )

    def _one(self, left: Partial, right: Partial) -> Partial:
        """Like ``_choose``, on Python numbers."""
        if self._right_wins(left[0], right[0]):
            return right
        same = left[0] == right[0] or (left[0] != left[0] and right[0] != right[0])
        return (left[0], left[1] + right[1]) if same else left

    def _choose(self, left: Partial, right: Partial) -> Partial:
        wins = self._right_wins(left[0], right[0])
        same = (left[0] == right[0]) | ((left[0] != left[0]) & (right[0] != right[0]))
        count = np.where(wins, right[1], np.where(same, left[1] + right[1], left[1]))
        return np.where(wins, right[0], left[0]), count


class MinCount(_ExtremeCount):
    """The number of events with the smallest value.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import MinCount
    >>> Window(MinCount(), CountWindow(2)).extend([2.0, 2.0, 1.0, 1.0]).tolist()
    [1, 2, 1, 2]
    """

    _largest = False


class MaxCount(_ExtremeCount):
    """The number of events with the largest value.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import MaxCount
    >>> Window(MaxCount(), CountWindow(2)).extend([2.0, 2.0, 1.0, 1.0]).tolist()
    [1, 2, 1, 2]
    """

    _largest = True


class _ArgExtreme(_Extreme[Out]):
    def __init__(self, dtype: Any = None, by: Any = None) -> None:
        kind, value, self._given = layout_of(dtype), layout_of(by), (by, dtype)
        self.follows_column = dtype is None
        show = lowering_of(kind, signed=True)
        functions = Plain(self._one, lambda pair: (*pair, True), itemgetter(1))
        name = named(type(self).__name__, kind)
        super().__init__(
            name if value.dtype == np.float64 else f"{name} by {named('value', value)}",
            inputs=(value, kind),
            # An event with the worst value still wins over "no event yet", so presence is a column.
            partials=(value, kind, "?"),
            identity=(limit_of(value, upper=not self._largest), zero_of(kind), False),
            output=outputs_of(kind),
            lift=lambda pair: (pair[0], pair[1], np.ones_like(pair[0], dtype="?")),
            combine=self._choose,
            lower=lambda partial: partial[1] if show is None else show(partial[1]),
            selective=True,
            empty=empty_of(kind, zero_of(kind)),
            kernel=Kernel("arg_max" if self._largest else "arg_min", 0),
            plain=_plain(kind, functions) if is_plain(value) else None,
        )

    def _one(self, left: Partial, right: Partial) -> Partial:
        """Like ``_choose``, on Python numbers."""
        if right[2] and (not left[2] or self._right_wins(left[0], right[0])):
            return (right[0], right[1], True)
        return left

    def of_types(self, *types: Any) -> AbstractMonoid:
        pairs = zip(self._given, types, strict=True)
        by, kind = (found if given is None else given for given, found in pairs)
        is_text = any(each is str or isinstance(each, Objects) for each in types)
        if is_text or (by, kind) == self._given:
            return self
        return type(self)(kind, by)

    def _choose(self, left: Partial, right: Partial) -> Partial:
        wins = right[2] & (self._right_wins(left[0], right[0]) | ~np.asarray(left[2]))
        return (
            np.where(wins, right[0], left[0]),
            np.where(wins, right[1], left[1]),
            left[2] | right[2],
        )


class ArgMin(_ArgExtreme[Out]):
    """The argument of the event (value, argument) with the smallest value; the oldest wins a tie.

    Args:
        dtype: The type of the argument, as for ``Max``.
        by: The type of the value that is compared.

    >>> from mta import CountWindow, ArgMin, Window
    >>> Window(ArgMin(), CountWindow(2)).extend(([3.0, 9.0, 4.0], [10.0, 20.0, 30.0])).tolist()
    [10.0, 10.0, 30.0]
    """

    _largest = False


class ArgMax(_ArgExtreme[Out]):
    """The argument of the event (value, argument) with the largest value; the oldest wins a tie.

    Args:
        dtype: The type of the argument, as for ``Max``.
        by: The type of the value that is compared.

    >>> from mta import CountWindow, ArgMax, Window
    >>> Window(ArgMax(), CountWindow(2)).extend(([3.0, 9.0, 4.0], [10.0, 20.0, 30.0])).tolist()
    [10.0, 20.0, 20.0]
    """

    _largest = True


class _End(Choice[Out]):
    _oldest: bool

    def __init__(self, dtype: Any = None, skip_nulls: bool = True) -> None:
        #: Whether to skip nulls in windows that accept them; if not, results may be null.
        self.skip_nulls, self._after = skip_nulls, (skip_nulls,)
        kind, self.follows_column = layout_of(dtype), dtype is None
        zero, show = zero_of(kind), lowering_of(kind, signed=True)
        super().__init__(
            named(type(self).__name__, kind),
            inputs=kind,
            partials=(kind, "?"),
            identity=(zero, False),
            output=outputs_of(kind),
            lift=lambda value: (value, np.ones_like(value, dtype="?")),
            combine=self._choose,
            selective=True,
            lower=lambda partial: partial[0] if show is None else show(partial[0]),
            kernel=Kernel("first" if self._oldest else "last", 0),
            empty=empty_of(kind, zero),
            plain=_plain(kind, Plain(self._one, lambda value: (value, True), itemgetter(0))),
        )

    def _one(self, left: Partial, right: Partial) -> Partial:
        """Like ``_choose``, on Python numbers."""
        one, other = (left, right) if self._oldest else (right, left)
        return one if one[1] else other

    def _choose(self, left: Partial, right: Partial) -> Partial:
        one, other = (left, right) if self._oldest else (right, left)
        return np.where(one[1], one[0], other[0]), one[1] | other[1]

    def fold(self, partials: Rows, count: int) -> Partial:
        """Return the oldest or newest row that has a value; no combines."""
        is_there = partials[1][:count] if self._oldest else partials[1][:count][::-1]
        at = int(is_there.argmax()) if count else 0
        if not count or not is_there[at]:
            return self.identity
        return self.partials.at(partials, at if self._oldest else count - 1 - at)


class First(_End[Out]):
    """The oldest value in the window.

    Args:
        dtype: A numpy type such as "int64" or "M8[us]", or ``Decimals(places)``. Defaults to the
            column's type in ``rolling`` and Spark, and elsewhere to float64, or the type of the
            first values if they are no numbers.
        skip_nulls: Whether to skip nulls in windows that accept them; if not, results may be null.

    >>> from mta import CountWindow, First, Window
    >>> Window(First(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1.0, 1.0, 3.0, 2.0]
    """

    _oldest = True
    _of_text = FirstText

    @overload
    def __init__(self: First[int], dtype: Whole, skip_nulls: bool = True) -> None: ...

    @overload
    def __init__(
        self: First[float], dtype: Floating | None = None, skip_nulls: bool = True
    ) -> None: ...

    @overload
    def __init__(self: First[Decimal | None], dtype: Decimals, skip_nulls: bool = True) -> None: ...

    @overload
    def __init__(self: First[Any], dtype: Any = None, skip_nulls: bool = True) -> None: ...

    def __init__(self, dtype: Any = None, skip_nulls: bool = True) -> None:
        super().__init__(dtype, skip_nulls)


class Last(_End[Out]):
    """The newest value in the window.

    Args:
        dtype: A numpy type such as "int64" or "M8[us]", or ``Decimals(places)``. Defaults to the
            column's type in ``rolling`` and Spark, and elsewhere to float64, or the type of the
            first values if they are no numbers.
        skip_nulls: Whether to skip nulls in windows that accept them; if not, results may be null.

    >>> from mta import CountWindow, Last, Window
    >>> Window(Last(), CountWindow(2)).extend([1.0, 3.0, 2.0, 0.0]).tolist()
    [1.0, 3.0, 2.0, 0.0]
    """

    _oldest = False
    _of_text = LastText

    @overload
    def __init__(self: Last[int], dtype: Whole, skip_nulls: bool = True) -> None: ...

    @overload
    def __init__(
        self: Last[float], dtype: Floating | None = None, skip_nulls: bool = True
    ) -> None: ...

    @overload
    def __init__(self: Last[Decimal | None], dtype: Decimals, skip_nulls: bool = True) -> None: ...

    @overload
    def __init__(self: Last[Any], dtype: Any = None, skip_nulls: bool = True) -> None: ...

    def __init__(self, dtype: Any = None, skip_nulls: bool = True) -> None:
        super().__init__(dtype, skip_nulls)


def _no_columns(rows: Any) -> tuple[()]:
    return ()


def _ones(rows: Any) -> Any:
    """Return 1 for one event (an empty row), or an array of ones for a number of events."""
    return 1 if rows == () else np.ones(rows, dtype="i8")


def _halves(value: Any) -> Any:
    """Split an integer into its upper and lower 32 bits; the upper bits carry the sign."""
    if value.dtype == np.uint64:
        upper, lower = value >> np.uint64(32), value & np.uint64(_LOW)
        return upper.astype("i8"), lower.astype("i8")
    value = value.astype("i8")
    return value >> 32, value & _LOW


def _exp_of_mean(partial: Partial) -> Any:
    """Return exp(mean); the cap keeps rounding from making a finite mean infinite."""
    mean = partial[0] / partial[1]
    return np.exp(np.where(mean < math.inf, np.minimum(mean, _LARGEST_LOG), mean))[()]


def _plain(kind: Array, floats: Plain | None, integers: Plain | None = None) -> Plain | None:
    """Return the plain functions for a column; None if its values are not Python numbers."""
    if not is_plain(kind):
        return None
    return floats if kind.dtype == np.float64 else integers or floats


def _wrapped(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Make an operation on Python integers wrap around like int64."""

    def wrapped(left: int, right: int) -> int:
        result = operation(left, right)
        return result if -_HALF <= result < _HALF else (result + _HALF) % (2 * _HALF) - _HALF

    return wrapped


def _add_pairs(left: Any, right: Any) -> Any:
    return left[0] + right[0], left[1] + right[1]


def _subtract_pairs(whole: Any, part: Any) -> Any:
    return whole[0] - part[0], whole[1] - part[1]


def _mean(partial: Any) -> Any:
    mean = partial[0] / partial[1]
    mean += 0.0  # in place
    return mean


def _plain_mean(partial: Any) -> float:
    return partial[0] / partial[1] + 0.0 if partial[1] else math.nan


def _plain_log(value: float) -> float:
    """Return numpy's logarithm, whose last bit may differ from Python's."""
    if value > 0:
        return float(np.log(value))
    return -math.inf if value == 0 else math.nan


def _plain_exp_of_mean(partial: Any) -> float:
    mean = partial[0] / partial[1] if partial[1] else math.nan
    return float(np.exp(min(mean, _LARGEST_LOG) if mean < math.inf else mean))
