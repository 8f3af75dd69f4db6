"""Values by their position: n before the newest, the n-th oldest, the k largest.

A partial holds at most n + 1, n or k values, so its size is bounded; a partial of ``Concat`` holds
all values, so use it for small windows. Results are exact. ``Lag`` looks back within the window:
the oldest event has no previous value. Nulls are skipped, as with SQL's IGNORE NULLS; with
``skip_nulls=False`` they count, as with RESPECT NULLS (see ``mta.monoids.nulls``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mta.columns.schemas import (
    Coded,
    Decimals,
    Nullable,
    NullableColumn,
    Objects,
    Row,
    Rows,
    Vector,
)
from mta.kernels.native import ones
from mta.monoids.base import Partial
from mta.monoids.columnar import Choice, ColumnarMonoid, layout_of, shown
from mta.monoids.ranges import RangeFolds
from mta.monoids.text import ListMonoid, joined_all, joined_once
from mta.times import to_count


class _Place(Choice[Any]):
    """A monoid of (count, values at one end of the window, those nearest to it first)."""

    #: Whether values are counted from the newest one.
    _newest: bool

    def __init__(self, n: int, width: int, dtype: Any, skip_nulls: bool) -> None:
        kind, self.n, self._width = layout_of(dtype), n, width
        #: Whether nulls are skipped, in windows that accept them.
        self.skip_nulls = skip_nulls
        #: Whether the type has a null value: NaT.
        self._has_none = kind.dtype.kind in "mM"
        self.follows_column, self._before, self._after = dtype is None, (n,), (skip_nulls,)
        self._kind, is_decimal = kind, isinstance(kind, Decimals)
        nothing = np.zeros(width, kind.dtype)
        nothing.flags.writeable = False
        super().__init__(
            f"{type(self).__name__}({n})[{kind if is_decimal else kind.dtype.name}]",
            inputs=kind,
            partials=("i8", Vector(kind.dtype, width)),
            identity=(0, nothing),
            output=kind if self._has_none else Objects() if is_decimal else Nullable(kind),
            lift=self._lift,
            combine=self._joined,
            lower=self._result,
            empty=np.array("NaT", kind.dtype)[()] if self._has_none else None,
        )

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.name, self.inputs, self.partials)

    def _lift(self, value: Any) -> Partial:
        values = np.zeros((*np.shape(value), self._width), self._kind.dtype)
        values[..., 0] = value
        return ones(value, "i8"), values

    def _joined(self, left: Partial, right: Partial) -> Partial:
        near, far = (right, left) if self._newest else (left, right)
        places, count = np.arange(self._width), np.expand_dims(near[0], -1)
        behind = np.maximum(places - count, 0)
        shape = np.broadcast_shapes(behind.shape, np.shape(far[1]))
        further = np.broadcast_to(far[1], shape)
        further = np.take_along_axis(further, np.broadcast_to(behind, shape), -1)
        total = np.minimum(near[0] + far[0], self._width)
        return total, np.where(places < count, near[1], further)

    def _result(self, partial: Partial) -> Any:
        present, value = partial[0] >= self._width, partial[1][..., -1]
        if self._has_none:
            return np.where(present, value, self.empty)[()]
        if not np.ndim(present):
            return shown(self._kind, value) if present else None
        if isinstance(self._kind, Decimals):
            pairs = zip(shown(self._kind, value), present.tolist(), strict=True)
            return [one if known else None for one, known in pairs]
        values = np.where(present, value, np.zeros(1, value.dtype))
        return NullableColumn(values, None if present.all() else present)


class _PlaceOfText(ListMonoid[Any]):
    """Text and other objects, those nearest to one end of the window first."""

    follows_column = True

    def __init__(
        self, n: int, width: int, newest: bool, skip_nulls: bool, kind: Coded | None
    ) -> None:
        self.n, self.skip_nulls = n, skip_nulls
        self._width, self._newest = width, newest

        def joined(left: Partial, right: Partial) -> Partial:
            return (right + left if newest else left + right)[:width]

        def placed(values: Sequence[Any]) -> Any:
            return values[-1] if len(values) == width else None

        super().__init__(joined, placed, f"{type(self).__name__}({n})")
        self._read_as(kind)

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        within = folds.without(self.identity)
        starts, stops, width = within.starts, within.stops, self._width
        known = stops - starts >= width
        places = np.where(known, stops - width if self._newest else starts + width - 1, -1)
        return [within.lifted[at][0] if at >= 0 else None for at in places.tolist()]


class LagText(_PlaceOfText):
    """The text or other object n events before the newest event; like ``Lag``.

    Args:
        n: The number of events to go back, at least 0.
        skip_nulls: As for ``Lag``.
        kind: ``LongDecimals(places)`` for decimals of more than 18 digits.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import LagText
    >>> list(Window(LagText(), CountWindow(3), name="LagText").extend(["b", "c", "a"]))
    [None, 'b', 'c']
    """

    def __init__(self, n: int = 1, skip_nulls: bool = True, kind: Coded | None = None) -> None:
        width = to_count(n, "n") + 1
        super().__init__(n, width, newest=True, skip_nulls=skip_nulls and n > 0, kind=kind)


class NthText(_PlaceOfText):
    """The n-th oldest text or other object of the window; like ``NthValue``.

    Args:
        n: The position, from 1. The result is null if the window has fewer events.
        skip_nulls: As for ``NthValue``.
        kind: ``LongDecimals(places)`` for decimals of more than 18 digits.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import NthText
    >>> list(Window(NthText(2), CountWindow(3), name="NthText").extend(["b", "c", "a"]))
    [None, 'c', 'c']
    """

    def __init__(self, n: int, skip_nulls: bool = True, kind: Coded | None = None) -> None:
        super().__init__(n, to_count(n, "n", 1), newest=False, skip_nulls=skip_nulls, kind=kind)


class Lag(_Place):
    """The value n events before the newest event; the newest value for n = 0.

    Args:
        n: The number of events to go back, at least 0. With fewer events, the result is null.
        dtype: A numpy type such as "int64" or "M8[us]", or ``Decimals(places)``. Defaults to the
            column's type in ``rolling`` and Spark, and elsewhere to float64, or the type of the
            first values if they are no numbers.
        skip_nulls: Whether to count back n values, skipping nulls, in windows that accept nulls.
            Otherwise, n events are counted, and the result is null if that event has no value.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import Lag
    >>> Window(Lag(), CountWindow(3)).extend([1.0, 3.0, 2.0]).tolist()
    [None, 1.0, 3.0]
    """

    _of_text, _newest = LagText, True

    def __init__(self, n: int = 1, dtype: Any = None, skip_nulls: bool = True) -> None:
        width = to_count(n, "n") + 1  # for n = 0, the newest row is chosen, null or not
        super().__init__(n, width, dtype, skip_nulls and n > 0)


class NthValue(_Place):
    """The n-th oldest value of the window; the oldest value for n = 1.

    Args:
        n: The position, from 1. The result is null if the window has fewer events.
        dtype: A numpy type such as "int64" or "M8[us]", or ``Decimals(places)``. Defaults to the
            column's type in ``rolling`` and Spark, and elsewhere to float64, or the type of the
            first values if they are no numbers.
        skip_nulls: Whether to count only values, in windows that accept nulls. Otherwise, the
            result is null if the n-th event has no value.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import NthValue
    >>> Window(NthValue(2), CountWindow(3)).extend([1.0, 3.0, 2.0]).tolist()
    [None, 3.0, 3.0]
    """

    _of_text, _newest = NthText, False

    def __init__(self, n: int, dtype: Any = None, skip_nulls: bool = True) -> None:
        super().__init__(n, to_count(n, "n", 1), dtype, skip_nulls)


class _Ends(ColumnarMonoid[list[float]]):
    """The k smallest or largest values, sorted from that end; padded with NaN."""

    never_null = True

    _sign: float

    def __init__(self, k: int) -> None:
        self.k = to_count(k, "k", 1)
        nothing = np.full(k, np.nan)
        nothing.flags.writeable = False
        super().__init__(
            f"{type(self).__name__}({k})",
            partials=Vector("f8", k),
            identity=nothing,
            output=Objects(),
            lift=self._lift,
            combine=self._joined,
            lower=self._result,
            commutative=True,
            empty=[],
        )
        self.result_type = "array<double>"

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.name, self.inputs, self.partials)

    def _lift(self, value: Any) -> Partial:
        partial = np.full((*np.shape(value), self.k), np.nan)
        partial[..., 0] = value * self._sign
        return partial

    def _joined(self, left: Partial, right: Partial) -> Partial:
        both = np.concatenate(np.broadcast_arrays(left, right), axis=-1)
        both.sort(axis=-1)
        return both[..., : self.k].copy()

    def _result(self, partial: Partial) -> Any:
        signed = partial * self._sign + 0.0
        if signed.ndim == 1:
            return signed[signed == signed].tolist()
        return [row[row == row].tolist() for row in signed]


class Largest(_Ends):
    """The k largest values, largest first, like polars' ``top_k`` and DuckDB's ``max(x, k)``.

    Args:
        k: The number of values, at least 1.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import Largest
    >>> window = Window(Largest(2), CountWindow(3), name="Largest")
    >>> [list(each) for each in window.extend([1.0, 3.0, 2.0, 5.0])]
    [[1.0], [3.0, 1.0], [3.0, 2.0], [5.0, 3.0]]
    """

    _sign = -1.0


class Smallest(_Ends):
    """The k smallest values, smallest first.

    Args:
        k: The number of values, at least 1.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import Smallest
    >>> window = Window(Smallest(2), CountWindow(3), name="Smallest")
    >>> [list(each) for each in window.extend([1.0, 3.0, 2.0, 5.0])]
    [[1.0], [1.0, 3.0], [1.0, 2.0], [2.0, 3.0]]
    """

    _sign = 1.0


class Concat(ListMonoid[str | None]):
    """All texts of the window joined by a separator, oldest first; None for an empty window.

    A result costs O(n); use it for small windows.

    Args:
        separator: The text between two values.
        distinct: Whether each text is included only once, at its first occurrence.

    >>> from mta import CountWindow, Window
    >>> list(Window(Concat("-"), CountWindow(3), name="path").extend(["a", "b", "b", "c"]))
    ['a', 'a-b', 'a-b-b', 'b-b-c']
    """

    def __init__(self, separator: str = "", distinct: bool = False) -> None:
        def joined(texts: Sequence[str]) -> str | None:
            return separator.join(dict.fromkeys(texts) if distinct else texts) if texts else None

        name = f"Concat({separator!r}, distinct={distinct})"
        super().__init__(joined_once if distinct else joined_all, joined, name)
        self.result_type = "string"

    def is_valid(self, row: Row) -> bool:
        return isinstance(row, str)
