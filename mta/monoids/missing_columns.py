"""Aggregations of columns that were added later and that some stored events do not have.

For each of its columns, the aggregation also reads a column of marks, which say whether an event
has a value. An event without a value is lifted to the identity, as if it were not in the window.

    >>> from mta.monoids.basic import Max
    >>> late = MissingColumns(Max(), 1)
    >>> rows = np.array([0.0, -3.0, -5.0]), np.array([False, True, True])
    >>> partials = late.lift_rows(rows, 3)
    >>> late.lower(late.fold(partials, 3)), late.lower(late.identity)
    (-3.0, nan)
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Any

import numpy as np

from mta.columns.reading import read_column, read_value
from mta.columns.schemas import Array, Record, Row, Rows
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.logical import AnyTrue
from mta.monoids.parts import Parts
from mta.monoids.product import Pairs, Product, column_names

MARKS = Array("?")


def mark_of(column: tuple[str, str]) -> str:
    """Return the name of the column that marks the values of a column (name, kind)."""
    return "\0".join(("", *column))


class MissingColumns(Parts):
    """A monoid with columns of marks; without marked events, its result is ``empty``."""

    def __init__(self, monoid: AbstractMonoid, marks: int) -> None:
        self.monoid = monoid
        own = monoid.inputs.schemas if isinstance(monoid.inputs, Record) else (monoid.inputs,)
        self._width = len(own) if isinstance(monoid.inputs, Record) else None
        self._schemas = (*own, *[MARKS] * marks)
        self.inputs = Record(self._schemas)
        self.outputs, self.empty = monoid.outputs, monoid.empty
        self.name = f"{monoid.name} of added columns"
        self.result_type = monoid.result_type
        super().__init__([(AnyTrue("?"), self._marked), (monoid, self._values)])
        self.lift = self._lift_marked  # the base class lifts the parts separately

    def _values(self, rows: Rows) -> Rows:
        return rows[0] if self._width is None else rows[: self._width]

    def _marked(self, rows: Rows) -> Any:
        return reduce(np.logical_and, rows[self._width or 1 :])

    def row(self, value: Any) -> Row:
        return tuple([read_value(v, s) for v, s in zip(value, self._schemas, strict=True)])

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        columns = [read_column(v, s) for v, s in zip(values, self._schemas, strict=True)]
        return tuple(columns), len(columns[0])

    def is_valid(self, row: Row) -> bool:
        return not self._marked(row) or self.monoid.is_valid(self._values(row))

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        found = self.monoid.invalid(self._values(rows), count)
        return None if found is None else found & self._marked(rows)

    def _lift_marked(self, row: Row) -> Partial:
        marked = self._marked(row)
        return marked, self.monoid.lift(self._values(row)) if marked else self.monoid.identity

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        monoid, marked = self.monoid, self._marked(rows)
        if marked.all():
            return marked, monoid.lift_rows(self._values(rows), count)
        schema = monoid.inputs
        places = np.flatnonzero(marked)
        room = monoid.partials.take(monoid.partials.one(monoid.identity), np.zeros(count, np.intp))
        if len(places):
            there = schema.take(self._values(rows), places)
            monoid.partials.put_at(room, places, monoid.lift_rows(there, len(places)))
        return marked, room

    def lower(self, partial: Partial) -> Any:
        return self.monoid.lower(partial[1]) if partial[0] else self.empty

    def lower_rows(self, partials: Rows) -> Rows:
        marked, rows = partials
        found = self.monoid.lower_rows(rows)
        if marked.all():
            return found
        places, outputs = np.flatnonzero(~marked), self.outputs
        empty = outputs.take(outputs.one(self.empty), np.zeros(len(places), np.intp))
        found = outputs.take(found, np.arange(len(marked)))
        outputs.put_at(found, places, empty)
        return found

    def results(self, outputs: Rows) -> Any:
        return self.monoid.results(outputs)


def with_missing(product: Product, columns: Collection[tuple[str, str]]) -> Product:
    """Wrap the aggregations of columns (name, kind) that some events do not have."""
    aggregations: Pairs = {}
    for alias, (read, monoid) in product.aggregations.items():
        names = column_names(read)
        schemas = monoid.inputs.schemas if isinstance(monoid.inputs, Record) else [monoid.inputs]
        reads = [(name, repr(schema)) for name, schema in zip(names, schemas, strict=True)]
        marks = [mark_of(column) for column in dict.fromkeys(reads) if column in columns]
        if marks:
            aggregations[alias] = ([*names, *marks], MissingColumns(monoid, len(marks)))
        else:
            aggregations[alias] = (names or None, monoid)
    return Product(aggregations)
