"""Monoids: what a window computes, as ``lower(combine(lift(e1), combine(lift(e2), ...)))``.

``combine`` must be associative and ``identity`` its neutral element; it need be neither commutative
nor invertible (MTA paper, section 3.3; Reactive Aggregator paper, section 2). There are two ways to
write one:

- ``Monoid``: plain Python functions on any object, called once per combine;
- ``ColumnarMonoid``: functions on numpy arrays, so that one definition serves a single event, a
  whole group and a batch.

An aggregator never calls ``lift`` in a loop itself: it asks for whole groups (``lift_rows``,
``fold``, ``prefixes``, ``suffixes``), and each kind of monoid answers in the way that suits it.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any

import numpy as np

from mta import codec
from mta.columns import Array, Objects, Record, Row, Rows, Schema
from mta.errors import InvalidValue, NotPageable

Partial = Any


class AbstractMonoid(ABC):
    """What aggregators ask of a monoid, one event or one group at a time.

    Costs are in combines; ``n`` is the number of rows. Rows are laid out as the schema says:
    ``inputs`` for the values of events, ``partials`` for aggregates, ``outputs`` for results.
    """

    name: str
    identity: Partial
    inputs: Schema
    partials: Schema
    outputs: Schema
    #: The result on a window without events.
    empty: Any
    #: combine(a, b) equals combine(b, a).
    commutative: bool = False
    #: inverse(combine(a, b), a) equals b; None where there is no such function.
    inverse: Callable[[Partial, Partial], Partial] | None = None
    #: combine(a, b) on two partials, and on rows (or a row and rows) element by element.
    combine: Callable[[Partial, Partial], Partial]

    @property
    def invertible(self) -> bool:
        """Whether ``inverse`` undoes a combine on the left."""
        return self.inverse is not None

    @cached_property
    def fingerprint(self) -> bytes:
        """16 bytes, the same in every process for the same name, layout and identity."""
        return _digest(repr(self._identifies()))

    def _identifies(self) -> tuple[Any, ...]:
        try:
            identity: Any = codec.pack(self.identity)
        except NotPageable:
            identity = type(self.identity).__qualname__
        return (type(self).__name__, self.name, self.inputs, self.partials, identity)

    def __repr__(self) -> str:
        return self.name

    # --- events coming in -------------------------------------------------------------------

    @abstractmethod
    def row(self, value: Any) -> Row:
        """One event's value as an input row. Raises InvalidValue for a wrong type."""

    @abstractmethod
    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        """A batch of values as input rows, and how many. Raises InvalidValue for a wrong type."""

    @abstractmethod
    def is_valid(self, row: Row) -> bool:
        """Whether a row holds a value that may be aggregated (no null, no NaN)."""

    @abstractmethod
    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        """A mask of the rows that hold a null or a NaN; None when there are none."""

    # --- aggregates -------------------------------------------------------------------------

    @abstractmethod
    def lift(self, row: Row) -> Partial:
        """The partial aggregate of one event."""

    @abstractmethod
    def lower(self, partial: Partial) -> Any:
        """The result that a partial aggregate stands for."""

    @abstractmethod
    def lift_rows(self, rows: Rows, count: int) -> Rows:
        """``lift`` for each row."""

    @abstractmethod
    def lower_rows(self, partials: Rows) -> Rows:
        """``lower`` for each row."""

    @abstractmethod
    def fold(self, partials: Rows, count: int) -> Partial:
        """All rows combined in order; n - 1 combines, the identity when there are none."""

    @abstractmethod
    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        """``left`` combined with the first 1, 2, ... n rows; n combines."""

    @abstractmethod
    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        """The last n, n-1, ... 0 rows combined with ``right``: n + 1 rows; n combines."""

    @abstractmethod
    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        """Row by row; one side may be a single partial, which then serves for every row."""

    @abstractmethod
    def results(self, outputs: Rows) -> Any:
        """Output rows as the caller gets them: an array, or a dictionary of arrays."""


class Monoid(AbstractMonoid):
    """A monoid of plain Python functions over any objects.

    >>> longest = Monoid(identity="", combine=lambda a, b: a if len(a) >= len(b) else b)
    >>> longest.fold(["to", "be", "or not"], 3)
    'or not'

    Give it a ``name``: a handle is only restored with a monoid of the same name and identity.
    ``empty`` is the result on a window without events, by default ``lower(identity)``.
    """

    def __init__(
        self,
        identity: Any,
        combine: Callable[[Any, Any], Any],
        lift: Callable[[Any], Any] | None = None,
        lower: Callable[[Any], Any] | None = None,
        name: str | None = None,
        *,
        commutative: bool = False,
        inverse: Callable[[Any, Any], Any] | None = None,
        empty: Any = ...,
    ) -> None:
        self.identity = identity
        self.combine = combine
        self.commutative = commutative
        self.inverse = inverse
        self.inputs = self.partials = self.outputs = Objects()
        self._lift, self._lower = lift, lower
        self.lift = lift or _same  # type: ignore[method-assign]
        self.lower = lower or _same  # type: ignore[method-assign]
        self.empty = self.lower(identity) if empty is ... else empty
        self.name = name or ".".join(_name_of(f) for f in (lift, combine, lower) if f is not None)

    def row(self, value: Any) -> Row:
        return value

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        rows = readread_column(values, self.inputs)
        return rows, len(rows)

    def is_valid(self, row: Row) -> bool:
        return row is not None and not (row.__class__ is float and row != row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        if all(map(self.is_valid, rows)):
            return None
        return np.array([not self.is_valid(row) for row in rows], dtype=bool)

    def lift(self, row: Row) -> Partial:
        return row if self._lift is None else self._lift(row)

    def lower(self, partial: Partial) -> Any:
        return partial if self._lower is None else self._lower(partial)

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        return rows if self._lift is None else list(map(self._lift, rows))

    def lower_rows(self, partials: Rows) -> Rows:
        return partials if self._lower is None else list(map(self._lower, partials))

    def fold(self, partials: Rows, count: int) -> Partial:
        return reduce(self.combine, partials) if count else self.identity

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        scan = list(accumulate(partials, self.combine, initial=left))
        del scan[0]
        return scan

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        combine, scan = self.combine, [right]
        push = scan.append
        for partial in reversed(partials):
            right = combine(partial, right)
            push(right)
        scan.reverse()
        return scan

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        lefts = left if isinstance(left, list) else [left] * count
        rights = right if isinstance(right, list) else [right] * count
        return list(map(self.combine, lefts, rights))

    def results(self, outputs: Rows) -> Any:
        if outputs and all(item.__class__ in (int, float, bool) for item in outputs):
            return np.asarray(outputs)
        array = np.empty(len(outputs), dtype=object)
        array[:] = outputs
        return array


class ColumnarMonoid(AbstractMonoid):
    """A monoid of numpy functions over columns.

    ``inputs`` and ``partials`` are a dtype, or a tuple of dtypes for several columns. With one
    column the functions get a bare array (or number), with several a tuple of them; ``lift`` of a
    monoid without inputs gets the number of events. ``ufuncs``, one commutative numpy ufunc a
    partial column, replaces ``combine`` and makes every scan a single ``ufunc.accumulate``.

    >>> span = ColumnarMonoid("Span", inputs="f8", partials=("f8", "f8"),
    ...     identity=(np.inf, -np.inf), lift=lambda v: (v, v),
    ...     ufuncs=(np.minimum, np.maximum), lower=lambda p: p[1] - p[0])
    >>> values, n = span.rows([3, 1, 2])
    >>> span.lower(span.fold(span.lift_rows(values, n), n))
    np.float64(2.0)
    """

    def __init__(
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
        inverse: Callable[[Any, Any], Any] | None = None,
        empty: Any = np.nan,
        nullable: bool = False,
    ) -> None:
        if (combine is None) == (ufuncs is None):
            raise TypeError(f"{name}: give either combine or ufuncs")
        self.name = name
        self.identity = identity
        self.inputs, self.partials = _schema(inputs), _schema(partials)
        self.outputs = _schema(output)
        self.lift = lift or _same  # type: ignore[method-assign]
        self.lower = lower or _same  # type: ignore[method-assign]
        self.combine = combine or _combine_by(ufuncs or ())
        self.commutative = bool(ufuncs) if commutative is None else commutative
        self.inverse = inverse
        self.empty = empty
        self._ufuncs = ufuncs
        self._nullable = nullable

    def row(self, value: Any) -> Row:
        if isinstance(self.inputs, Array):
            return read_value(value, self.inputs)
        schemas = _columns_of(self.inputs)
        if not schemas:
            return ()
        if not isinstance(value, (tuple, list)) or len(value) != len(schemas):
            raise InvalidValue(f"{self.name} takes {len(schemas)} values an event, not {value!r}")
        return tuple(read_value(v, s) for v, s in zip(value, schemas, strict=True))

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        if isinstance(self.inputs, Array):
            column = read_column(values, self.inputs)
            return column, len(column)
        schemas = _columns_of(self.inputs)
        if not schemas:
            return (), len(values) if count is None else count
        if len(values) != len(schemas):
            raise InvalidValue(
                f"{self.name} takes a tuple of {len(schemas)} columns, not {len(values)}"
            )
        columns = tuple(read_column(v, s) for v, s in zip(values, schemas, strict=True))
        if len({len(column) for column in columns}) > 1:
            raise InvalidValue(f"the columns of {self.name} differ in length")
        return columns, len(columns[0])

    def is_valid(self, row: Row) -> bool:
        values = row if isinstance(row, tuple) else (row,)
        return self._nullable or all(value == value for value in values)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        mask: np.ndarray | None = None
        for column in () if self._nullable else _as_tuple(rows):
            if column.dtype.kind in "fmM":
                bad = np.isnan(column) if column.dtype.kind == "f" else np.isnat(column)
                if bad.any():
                    mask = bad if mask is None else mask | bad
        return mask

    def lift(self, row: Row) -> Partial:
        raise NotImplementedError  # replaced in __init__

    def lower(self, partial: Partial) -> Any:
        raise NotImplementedError  # replaced in __init__

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        return self.lift(count if isinstance(rows, tuple) and not rows else rows)

    def lower_rows(self, partials: Rows) -> Rows:
        return self.lower(partials)

    def fold(self, partials: Rows, count: int) -> Partial:
        if count == 0:
            return self.identity
        if self._ufuncs:
            columns = zip(self._ufuncs, _as_tuple(partials), strict=True)
            return _like(self.partials, [ufunc.reduce(column) for ufunc, column in columns])
        schema = self.partials
        while count > 1:
            half = count // 2
            even = _each(partials, lambda c, stop=2 * half: c[0:stop:2])
            odd = _each(partials, lambda c, stop=2 * half: c[1:stop:2])
            pairs = self.combine(even, odd)
            if count % 2:
                pairs = _concatenate(pairs, schema.cut(partials, count - 1, count))
            partials, count = pairs, half + count % 2
        return schema.at(partials, 0)

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        if self._ufuncs:
            return self._accumulate(partials, count, left, backwards=False)
        return self.combine(left, self.scan(partials, count))

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        if self._ufuncs:
            return self._accumulate(partials, count, right, backwards=True)
        scan = self.combine(self.scan_back(partials, count), right)
        return _concatenate(scan, self.partials.one(right))

    def _accumulate(self, partials: Rows, count: int, first: Partial, backwards: bool) -> Rows:
        """One ``ufunc.accumulate`` a column, over ``first`` and then the rows."""
        columns = []
        for ufunc, column, start in zip(
            self._ufuncs or (), _as_tuple(partials), _as_tuple(first), strict=True
        ):
            scan = np.empty(count + 1, column.dtype)
            run = scan[::-1] if backwards else scan
            run[0] = start
            run[1:] = column[::-1] if backwards else column
            ufunc.accumulate(run, out=run)
            columns.append(scan if backwards else scan[1:])
        return _like(self.partials, columns)

    def scan(self, partials: Rows, count: int) -> Rows:
        """The folds of the first 1, 2, ... n rows, by doubling: log2(n) whole-group combines."""
        cut, reach = self.partials.cut, 1
        while reach < count:
            longer = self.combine(cut(partials, 0, count - reach), cut(partials, reach, count))
            partials = _concatenate(cut(partials, 0, reach), longer)
            reach *= 2
        return partials

    def scan_back(self, partials: Rows, count: int) -> Rows:
        """The folds of the last n, n-1, ... 1 rows, by doubling."""
        cut, reach = self.partials.cut, 1
        while reach < count:
            longer = self.combine(cut(partials, 0, count - reach), cut(partials, reach, count))
            partials = _concatenate(longer, cut(partials, count - reach, count))
            reach *= 2
        return partials

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        return self.combine(left, right)

    def results(self, outputs: Rows) -> Any:
        return outputs


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _same(value: Any) -> Any:
    return value


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _schema(layout: Any) -> Schema:
    if isinstance(layout, Schema):
        return layout
    return (
        Record([_schema(part) for part in layout]) if isinstance(layout, tuple) else Array(layout)
    )


def _columns_of(schema: Schema) -> Sequence[Array]:
    return schema.schemas if isinstance(schema, Record) else (schema,)  # type: ignore[return-value]


def _combine_by(ufuncs: tuple[np.ufunc, ...]) -> Callable[[Any, Any], Any]:
    if len(ufuncs) == 1:
        return ufuncs[0]

    def combine(left: Any, right: Any) -> Any:
        return tuple(f(a, b) for f, a, b in zip(ufuncs, left, right, strict=True))

    return combine


def _as_tuple(rows: Any) -> tuple[Any, ...]:
    return rows if isinstance(rows, tuple) else (rows,)


def _like(schema: Schema, columns: list[Any]) -> Any:
    return tuple(columns) if isinstance(schema, Record) else columns[0]


def _each(rows: Any, function: Callable[[Any], Any]) -> Any:
    return tuple(map(function, rows)) if isinstance(rows, tuple) else function(rows)


def _concatenate(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))
    return np.concatenate((first, second))


def read_value(value: Any, schema: Schema) -> Any:
    """A user's value as one row of a column. Raises InvalidValue."""
    if not isinstance(schema, Array):
        return value
    try:
        return schema.dtype.type(value) if value is not None else schema.dtype.type(np.nan)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(
            f"{value!r} is not a number that fits {schema.dtype}; convert it first"
        ) from None


def read_column(values: Any, schema: Schema) -> Any:
    """A user's batch (list, numpy, pandas, Arrow) as a column; in numbers, nulls become NaN.

    Raises InvalidValue for what is no number.
    """
    if not isinstance(schema, Array):
        listed = getattr(values, "tolist", None) or getattr(values, "to_pylist", None)
        return list(listed() if listed else values)
    if hasattr(values, "to_numpy") and hasattr(values, "null_count"):  # Arrow
        values = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(False)
    try:
        column = np.asarray(values)
        if column.dtype.kind in "OUS":
            if column.dtype.kind != "O":
                raise TypeError("text")
            column = np.asarray(column, dtype=schema.dtype if schema.dtype.kind == "f" else "f8")
        if column.dtype.kind == "f" and schema.dtype.kind in "iu":
            whole = column.astype(schema.dtype)
            if not np.array_equal(whole, column):
                raise ValueError("fractions, nulls or numbers out of range")
        return column.astype(schema.dtype, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"the values cannot be read as {schema.dtype} ({error}); convert the column first"
        ) from None
