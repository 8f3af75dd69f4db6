"""A monoid for events that may be taken out: each row has a mark, and each partial a count.

A slot whose event was taken out is a hole (the empty marker of the Reactive Aggregator paper,
section 5.1.1): its row is blank and unmarked, and lifts to the identity. Partials count the events
that are there, so that the n-th of them is found by walking down, and so that a hole costs no
combine: where one side of a combine has no event, the other side is the result.

In pages the mark is one more column of events, ``|b1``, and the count one more of aggregates,
``<i8``, each after the columns of the values or of the aggregates themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.schemas import Array, Record, Row, Rows, Schema
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.equality import Scale

_MARK, _COUNT = Array("?"), Array("<i8")


class WithHoles(AbstractMonoid):
    """``main`` over marked rows; its partials are pairs of main's partial and a count."""

    def __init__(self, main: AbstractMonoid) -> None:
        self.main = main
        self.name = main.name
        self.identity = (main.identity, 0)
        self.inputs = Record([main.inputs, _MARK])
        self.partials = Record([main.partials, _COUNT])
        self.outputs, self.empty = main.outputs, main.empty
        self.is_columnar, self.commutative = main.is_columnar, main.commutative

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.main.fingerprint)

    # --- rows -----------------------------------------------------------------------------------

    def marked(self, rows: Rows, count: int) -> Rows:
        """Rows of ``main`` as events that are there."""
        return rows, np.broadcast_to(np.True_, count)

    def holes(self, count: int) -> Rows:
        """Rows for slots whose events were taken out."""
        return _blank(self.main.inputs, count), np.zeros(count, bool)

    def row(self, value: Any) -> Row:
        return self.main.row(value), True

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        rows, count = self.main.rows(values, count)
        return self.marked(rows, count), count

    def is_valid(self, row: Row) -> bool:
        return self.main.is_valid(row[0])

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return self.main.invalid(rows[0], count)

    # --- partials -------------------------------------------------------------------------------

    def combine(self, left: Partial, right: Partial) -> Partial:
        """One combine of ``main``; none where one side has no event."""
        if not left[1]:
            return right
        if not right[1]:
            return left
        return self.main.combine(left[0], right[0]), int(left[1]) + int(right[1])

    def lift(self, row: Row) -> Partial:
        return (self.main.lift(row[0]), 1) if row[1] else self.identity

    def lower(self, partial: Partial) -> Any:
        return self.main.lower(partial[0])

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        values, marks = rows
        if marks.all():
            return self.main.lift_rows(values, count), np.ones(count, "<i8")
        schema = self.main.partials
        lifted = schema.take(schema.one(self.main.identity), np.zeros(count, "i8"))
        there = np.flatnonzero(marks)
        if len(there):
            some = self.main.inputs.take(values, there)
            schema.put_at(lifted, there, self.main.lift_rows(some, len(there)))
        return lifted, marks.astype("<i8")

    def lower_rows(self, partials: Rows) -> Rows:
        return self.main.lower_rows(partials[0])

    def fold(self, partials: Rows, count: int) -> Partial:
        return self.main.fold(partials[0], count), int(partials[1].sum())

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        counts = np.cumsum(partials[1]) + left[1]
        return self.main.prefixes(partials[0], count, left[0]), counts

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        counts = np.full(count + 1, right[1], "<i8")
        counts[:count] += np.cumsum(partials[1][::-1])[::-1]
        return self.main.suffixes(partials[0], count, right[0]), counts

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        return self.main.combine_rows(left[0], right[0], count), left[1] + right[1]

    def results(self, outputs: Rows) -> Any:
        return self.main.results(outputs)

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        part = None if scale is None else scale.spread(one)[0]
        return bool(one[1] == other[1]) and self.main.same(one[0], other[0], part)


def _blank(schema: Schema, count: int) -> Rows:
    """Rows that say nothing: zeros, or None."""
    if isinstance(schema, Record):
        return tuple([_blank(part, count) for part in schema.schemas])
    return np.zeros(count, schema.dtype) if isinstance(schema, Array) else [None] * count
