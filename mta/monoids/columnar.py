"""Monoids of numpy functions: one definition serves single events, whole groups and batches.

The type of a column determines the schema, the results, the name and the limits of its monoid.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bound
from typing import Any, NamedTuple

import numpy as np

from mta.columns.reading import plain
from mta.columns.schemas import Array, Coded, Decimals, Objects, Record, Row, Rows, Schema
from mta.errors import InvalidValue
from mta.kernels import native
from mta.kernels.native import Kernel, accumulate
from mta.monoids.base import AbstractMonoid, Out, Partial, any_of, same_value
from mta.monoids.equality import ROUNDING, Scale, same


class Plain(NamedTuple):
    """A monoid's functions on single rows and partials of Python numbers.

    A numpy call costs a microsecond even for one number. These functions return the same bits as
    numpy's: they add, multiply, divide, compare and take roots in the same order.
    """

    combine: Callable[[Partial, Partial], Partial]
    lift: Callable[[Row], Partial] = same_value
    lower: Callable[[Partial], Any] = same_value
    inverse: Callable[[Partial, Partial], Partial] | None = None


class ColumnarMonoid(AbstractMonoid[Out]):
    """An aggregation of numpy functions over columns.

    With one column, the functions get an array or a number; with several, a tuple of these.

    Args:
        name: The name in snapshots.
        partials: The type of a partial result: a numpy type, or a tuple of them for several
            columns.
        identity: The partial result of no events.
        inputs: The type of a value, or a tuple of types for several columns.
        output: The type of a result.
        lift: Converts values to partial results. Without inputs, it gets the number of events.
        combine: Combines the partial results of neighboring parts, the older ones first.
        lower: Converts partial results to results.
        ufuncs: Instead of ``combine``, one commutative numpy ufunc for each column of ``partials``;
            a scan is then a single ``ufunc.accumulate``.
        commutative: Whether ``combine(a, b)`` equals ``combine(b, a)``.
        selective: Whether ``combine`` always returns one of its two arguments.
        inverse: Removes an older part from a partial result; some in-memory algorithms need it.
        empty: The result for a window without events; required if the output is no float.
        kernel: The compiled loops of a ready-made aggregation, with the same results.
        plain: The same functions for single events, without numpy.

    >>> span = ColumnarMonoid("Span", inputs="f8", partials=("f8", "f8"),
    ...     identity=(np.inf, -np.inf), lift=lambda v: (v, v),
    ...     ufuncs=(np.minimum, np.maximum), lower=lambda p: p[1] - p[0])
    >>> values, n = span.rows([3, 1, 2])
    >>> span.lower(span.fold(span.lift_rows(values, n), n))
    np.float64(2.0)
    """

    is_columnar = True

    def __init__(  # noqa: PLR0913 (public: explicit keywords)
        self,
        name: str,
        *,
        partials: Any,
        identity: Any,
        inputs: Any = "f8",
        output: Any = "f8",
        lift: Callable[[Any], Any] | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
        lower: Callable[[Any], Any] | None = None,
        ufuncs: tuple[np.ufunc, ...] | None = None,
        commutative: bool | None = None,
        selective: bool = False,
        inverse: Callable[[Any, Any], Any] | None = None,
        empty: Any = np.nan,
        kernel: Kernel | None = None,
        plain: Plain | None = None,
    ) -> None:
        if (combine is None) == (ufuncs is None):
            raise TypeError(f"{name}: give either combine or ufuncs")
        self.name = name
        self.identity = identity
        self.is_plain = plain is not None
        self.inputs, self.partials = (_schema(s, self.is_plain) for s in (inputs, partials))
        self.outputs = _schema(output)
        if empty != empty and isinstance(self.outputs, Array) and self.outputs.dtype.kind in "iub":
            kind = self.outputs.dtype
            raise ValueError(f"{name}: no {kind} is NaN; give empty, the result of no events")
        self._columns = columns = Plain(
            combine or _combine_by(ufuncs or ()), lift or same_value, lower or same_value, inverse
        )
        self.combine, self.lift, self.lower, self.inverse = plain or columns
        self.commutative = bool(ufuncs) if commutative is None else commutative
        self.selective = selective
        self.empty = empty
        self.ufuncs = ufuncs
        if kernel is None and ufuncs and len(ufuncs) == 1 and isinstance(self.partials, Array):
            kernel = Kernel.of(ufuncs[0], self.partials.dtype)
        self._kernel = kernel, self.combine, self.lower

    @property
    def kernel(self) -> Kernel | None:
        """The compiled loop that combines like this monoid; None if there is none."""
        kernel, combine, _ = self._kernel
        return kernel if combine is self.combine else None

    @property
    def kernel_lowers(self) -> bool:
        """Whether the kernel computes results as well as partials."""
        kernel, _, lower = self._kernel
        own = lower is self.lower and type(self).lower_rows is ColumnarMonoid.lower_rows
        plainly = own and type(self.outputs) is Array  # not decimals or objects
        return kernel is not None and kernel.lost is not None and plainly

    @property
    def has_own_rule(self) -> bool:
        kind, usual = type(self), ColumnarMonoid
        return kind.is_valid is not usual.is_valid or kind.invalid is not usual.invalid

    @property
    def taken_as_they_come(self) -> frozenset[type]:
        is_double = isinstance(self.inputs, Array) and self.inputs.kind == "<f8"
        usual = self.is_plain and is_double and not self.has_own_rule
        return frozenset({float}) if usual else frozenset()

    def is_valid(self, row: Row) -> bool:
        if not isinstance(row, tuple):
            return bool(row == row)
        return all(value == value for value in row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        columns = rows if isinstance(rows, tuple) else (rows,)
        missing = [c for c in columns if c.dtype.kind in "fmM" and _has_missing(c)]
        return any_of([column != column for column in missing]) if missing else None

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        lift = self._columns.lift
        if lift is same_value:
            return rows
        return lift(count if isinstance(rows, tuple) and not rows else rows)

    def lower_rows(self, partials: Rows) -> Rows:
        return self._columns.lower(partials)

    def fold(self, partials: Rows, count: int) -> Partial:
        if count < 2:
            return self.partials.at(partials, 0) if count else self.identity
        if self.ufuncs and not isinstance(partials, tuple):
            fold = self.ufuncs[0].reduce(partials)
            return fold.item() if self.is_plain else fold
        if self.ufuncs:
            columns = zip(self.ufuncs, partials, strict=True)
            folds = [ufunc.reduce(column) for ufunc, column in columns]
            return tuple([fold.item() for fold in folds] if self.is_plain else folds)
        schema, combine = self.partials, self._columns.combine
        while count > 1:
            half = count // 2
            pairs = [schema.take(partials, slice(at, 2 * half, 2)) for at in (0, 1)]
            pairs = combine(*pairs)
            if count % 2:
                pairs = _concatenate(pairs, schema.cut(partials, count - 1, count))
            partials, count = pairs, half + count % 2
        return schema.at(partials, 0)

    def folds(self, partials: Rows, count: int, size: int) -> Rows:
        if not self.ufuncs:
            return super().folds(partials, count, size)
        if not isinstance(partials, tuple):
            return self.ufuncs[0].reduce(partials.reshape(-1, size), axis=1)
        columns = zip(self.ufuncs, partials, strict=True)
        return tuple([ufunc.reduce(each.reshape(-1, size), axis=1) for ufunc, each in columns])

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        return self.partials.cut(self.scan(left, partials, count, backwards=False), 1, count + 1)

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        return self.scan(right, partials, count, backwards=True)

    def scan(self, first: Partial, partials: Rows, count: int, backwards: bool) -> Rows:
        """Fold ``first`` and the rows up to each row, from either side; returns n + 1 rows.

        One ``ufunc.accumulate`` per column; without ufuncs, log2(n) whole-group combines.
        """
        if self.ufuncs and not isinstance(partials, tuple):
            return accumulate(self.ufuncs[0], partials, first, backwards)
        if self.kernel is not None and isinstance(partials, tuple):
            room = self.partials.new(count + 1)
            self.partials.put(room, count if backwards else 0, first)
            if native.scan(self.kernel, partials, room, backwards):
                return room
        if self.ufuncs:
            columns = zip(self.ufuncs, partials, first, strict=True)
            return tuple([accumulate(u, column, one, backwards) for u, column, one in columns])
        one, cut, reach = self.partials.one(first), self.partials.cut, 1
        rows = _concatenate(partials, one) if backwards else _concatenate(one, partials)
        while reach <= count:
            stop = count + 1 - reach
            longer = self.combine_rows(cut(rows, 0, stop), cut(rows, reach, count + 1), stop)
            if backwards:
                rows = _concatenate(longer, cut(rows, stop, count + 1))
            else:
                rows = _concatenate(cut(rows, 0, reach), longer)
            reach *= 2
        return rows

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        if self.kernel is not None and not self.ufuncs:
            found = native.join(self.kernel, left, right)
            if found is not None:
                return found
        return self._columns.combine(left, right)

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        """With ufuncs, equal up to one rounding per combine."""
        if scale is None or not self.ufuncs:
            return super().same(one, other, scale)
        return same(one, other, scale, (scale.count + 1) * ROUNDING)


class Choice(ColumnarMonoid[Out]):
    """A monoid of one column that chooses one of its values."""

    #: Creates the same monoid for text and other objects.
    _of_text: Callable[..., AbstractMonoid]
    #: The arguments of the constructor before and after the type.
    _before: tuple[Any, ...] = ()
    _after: tuple[Any, ...] = ()

    def of_types(self, *types: Any) -> AbstractMonoid:
        (kind,) = types
        if not self.follows_column or kind is None:
            return self
        if isinstance(kind, Coded):
            return self._of_text(*self._before, *self._after, kind=kind)
        if kind is str:
            return self._of_text(*self._before, *self._after)
        if isinstance(kind, Objects):
            text = self._of_text(*self._before, *self._after)
            text.inputs = kind
            return text
        return type(self)(*self._before, kind, *self._after)  # type: ignore[call-arg]


def _schema(layout: Any, plain: bool = False) -> Schema:
    if isinstance(layout, tuple):
        return Record([_schema(part, plain) for part in layout])
    schema = layout if isinstance(layout, Schema) else Array(layout)
    return schema.as_plain() if plain and isinstance(schema, Array) else schema


def _combine_by(ufuncs: tuple[np.ufunc, ...]) -> Callable[[Any, Any], Any]:
    if len(ufuncs) == 1:
        return ufuncs[0]

    def combine(left: Any, right: Any) -> Any:
        return tuple(f(a, b) for f, a, b in zip(ufuncs, left, right, strict=True))

    return combine


def _has_missing(column: np.ndarray) -> bool:
    """Whether there is a NaN or NaT; ``min`` returns the first of them."""
    least = column.min() if len(column) else 0
    return bool(least != least)


def _concatenate(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))
    return np.concatenate((first, second))


def positive_zero(value: float) -> float:
    """Replace -0.0 by 0.0."""
    return value + 0.0


def larger(left: Any, right: Any) -> Any:
    """Like np.maximum: a NaN is larger than all numbers."""
    return left if left >= right or left != left else right


def smaller(left: Any, right: Any) -> Any:
    """Like np.minimum: a NaN is smaller than all numbers."""
    return left if left <= right or left != left else right


# --- types of columns --------------------------------------------------------------------------


def layout_of(dtype: Any) -> Array:
    """Return the schema of a type; by default, doubles that reject integers they would round."""
    if dtype is None:
        return Array("f8", exact=True)
    if isinstance(dtype, Coded):
        raise InvalidValue(
            f"{dtype!r} is a type of integers without a limit, not of a column of numbers: write "
            f"MaxText({dtype!r}), LongSum({dtype!r}) and the like"
        )
    return dtype if isinstance(dtype, Decimals) else Array(dtype)


def addable(dtype: Any) -> Array:
    """Like ``layout_of``, for numbers. Raises InvalidValue for datetimes and booleans."""
    kind = layout_of(dtype)
    if kind.dtype.kind in "mMb":
        raise InvalidValue(
            f'a sum needs numbers, not {kind.dtype}: use Sum("int64") for booleans, and convert '
            "datetimes and durations to numbers first"
        )
    return kind


def is_whole(kind: Any) -> bool:
    """Whether the values of a type are integers or decimals."""
    return isinstance(kind, Decimals) or (kind not in (None, str) and np.dtype(kind).kind in "iu")


def is_plain(kind: Array) -> bool:
    """Whether a column's values become Python floats, or integers of 64 bits."""
    return type(kind) is Array and kind.dtype in (np.float64, np.int64)


def outputs_of(kind: Array) -> Schema:
    """Return the schema of results that are values of a type."""
    return Objects() if isinstance(kind, Decimals) else kind


def lowering_of(kind: Array, signed: bool = False) -> Any:
    """Return the function that converts values to results; None if they are the same.

    Unless ``signed``, it replaces -0.0 by 0.0: the two are equal, and the order of a fold
    determines which of them it results in.
    """
    if isinstance(kind, Decimals):
        return bound(shown, kind)
    return (lambda partial: partial + 0.0) if kind.dtype.kind == "f" and not signed else None


def shown(kind: Array, value: Any) -> Any:
    """Convert a value, or a column of values, to what users see."""
    if not isinstance(kind, Decimals):
        return value
    found = kind.shown(np.atleast_1d(value)).tolist()
    return found if np.ndim(value) else found[0]


def named(name: str, kind: Array) -> str:
    """Return a monoid's name with its column's type, unless that is float64."""
    if isinstance(kind, Decimals):
        return f"{name}[{kind!r}]"
    return name if kind.dtype == np.float64 else f"{name}[{kind.dtype.name}]"


def zero_of(kind: Array) -> Any:
    """Return the zero of a column's type."""
    return _number(np.zeros((), kind.dtype)[()])


def limit_of(kind: Array, upper: bool) -> Any:
    """Return the largest or the smallest value of a column's type."""
    dtype = kind.dtype
    if dtype.kind == "f":
        return _number(dtype.type(np.inf if upper else -np.inf))
    if dtype.kind == "b":
        return np.bool_(upper)
    info = np.iinfo("i8" if dtype.kind in "mM" else dtype)
    if dtype.kind in "mM":  # the smallest integer is NaT
        return np.array(info.max if upper else -info.max, "i8").view(dtype)[()]
    return _number(dtype.type(info.max if upper else info.min))


def _number(number: Any) -> Any:
    """Convert a float64 or int64 to a Python number, as in single rows."""
    return number.item() if number.dtype in (np.float64, np.int64) else number


def empty_of(kind: Array, value: Any) -> Any:
    """Return the result of no events: None, NaN, NaT, or ``value`` for integers."""
    if isinstance(kind, Decimals):
        return None
    if kind.dtype.kind in "mM":
        return np.array("NaT", kind.dtype)[()]
    return np.nan if kind.dtype.kind == "f" else plain(value)
