"""Monoids of numpy functions: one definition for single events, whole groups and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mta.columns import Array, Record, Row, Rows, Schema, read_column, read_value
from mta.errors import InvalidValue
from mta.monoid import AbstractMonoid, Partial, same_value


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
        self.lift = lift or same_value
        self.lower = lower or same_value
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
            pairs = self.combine(_every_other(partials, 0, half), _every_other(partials, 1, half))
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


def _every_other(rows: Any, start: int, count: int) -> Any:
    if isinstance(rows, tuple):
        return tuple([column[start : 2 * count : 2] for column in rows])
    return rows[start : 2 * count : 2]


def _concatenate(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))
    return np.concatenate((first, second))
