"""Several aggregations over one stream, in one structure (MTA paper, section 5.8).

A product of monoids is a monoid: partials are tuples, combined side by side. Every distinct column
of the events is stored once, however many aggregations read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from mta.columns.reading import plain, read_column, read_value
from mta.columns.schemas import Array, Objects, Record, Row, Rows, Schema
from mta.errors import InvalidValue
from mta.monoids.base import AbstractMonoid, Partial, any_of, same_value
from mta.monoids.equality import Scale

#: Takes what a part reads out of the input rows (or out of one input row).
Pick = Callable[[Any], Any]
#: What an aggregation reads: a column, several, or none (Count).
Columns = str | Sequence[str] | None


class Parts(AbstractMonoid):
    """Monoids side by side, each on its own pick of the input."""

    def __init__(self, parts: Sequence[tuple[AbstractMonoid, Pick]]) -> None:
        self.monoids = tuple(monoid for monoid, _ in parts)
        self.picks = tuple(pick for _, pick in parts)
        self.identity = tuple(monoid.identity for monoid in self.monoids)
        self.partials = Record([monoid.partials for monoid in self.monoids])
        self.is_columnar = all(monoid.is_columnar for monoid in self.monoids)
        self.commutative = all(monoid.commutative for monoid in self.monoids)
        combines = tuple(monoid.combine for monoid in self.monoids)

        def combine(left: Partial, right: Partial) -> Partial:
            return tuple([f(a, b) for f, a, b in zip(combines, left, right, strict=True)])

        self.combine = combine
        if all(monoid.inverse for monoid in self.monoids):
            inverses = [monoid.inverse for monoid in self.monoids if monoid.inverse]
            self.inverse = lambda whole, part: tuple(
                f(a, b) for f, a, b in zip(inverses, whole, part, strict=True)
            )

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.name, *(monoid.fingerprint for monoid in self.monoids))

    def lift(self, row: Row) -> Partial:
        return tuple([m.lift(pick(row)) for m, pick in zip(self.monoids, self.picks, strict=True)])

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        parts = zip(self.monoids, self.picks, strict=True)
        return tuple([monoid.lift_rows(pick(rows), count) for monoid, pick in parts])

    def fold(self, partials: Rows, count: int) -> Partial:
        return tuple([m.fold(p, count) for m, p in zip(self.monoids, partials, strict=True)])

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        parts = zip(self.monoids, partials, left, strict=True)
        return tuple([monoid.prefixes(p, count, side) for monoid, p, side in parts])

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        parts = zip(self.monoids, partials, right, strict=True)
        return tuple([monoid.suffixes(p, count, side) for monoid, p, side in parts])

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        parts = zip(self.monoids, left, right, strict=True)
        return tuple([monoid.combine_rows(a, b, count) for monoid, a, b in parts])

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        scales = repeat(None) if scale is None else scale.spread(one)
        parts = zip(self.monoids, one, other, scales, strict=False)
        return all(monoid.same(a, b, part) for monoid, a, b, part in parts)


class Product(Parts):
    """Named aggregations over the columns of one event.

    >>> from mta import Count, Max, Mean, Product
    >>> power = Product({"peak": ("watts", Max()), "mean": ("watts", Mean()), "n": Count()})
    >>> rows, n = power.rows({"watts": [3.0, 5.0, 1.0]})
    >>> power.lower(power.fold(power.lift_rows(rows, n), n))
    {'peak': 5.0, 'mean': 3.0, 'n': 3}

    An aggregation is a pair of column and monoid: one column's name, several names for a monoid of
    several inputs (ArgMax), or None for one that reads none; a bare monoid is one that reads none.
    Events are mappings from column to value; batches are mappings, data frames or Arrow tables.
    """

    def __init__(
        self, aggregations: Mapping[str, tuple[Columns, AbstractMonoid] | AbstractMonoid]
    ) -> None:
        if not aggregations:
            raise ValueError("a Product needs at least one aggregation")
        self.aggregations = dict(aggregations)
        self._schemas: dict[tuple[str, str], Schema] = {}
        parts = []
        described = []
        for alias, aggregation in aggregations.items():
            pair = (None, aggregation) if isinstance(aggregation, AbstractMonoid) else aggregation
            columns, monoid = pair
            parts.append((monoid, self._pick(alias, columns, monoid)))
            described.append(f"{alias}={monoid.name}({','.join(column_names(columns))})")
        super().__init__(parts)
        self.aliases = tuple(aggregations)
        self.name = f"Product({', '.join(described)})"
        self.inputs = Record(list(self._schemas.values()))
        self.outputs = Record([monoid.outputs for monoid in self.monoids])
        self.empty = {a: m.empty for a, m in zip(self.aliases, self.monoids, strict=True)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The distinct columns that are read from events, in the order of first use."""
        return tuple(dict.fromkeys(name for name, _ in self._schemas))

    def named(self, rows: Rows) -> dict[str, Any]:
        """Input rows as a dictionary of columns."""
        return {name: column for (name, _), column in zip(self._schemas, rows, strict=True)}

    @property
    def output_types(self) -> dict[str, np.dtype]:
        """The numpy type of each result; object where results are no numbers."""
        return {
            alias: getattr(monoid.outputs, "dtype", np.dtype(object))
            for alias, monoid in zip(self.aliases, self.monoids, strict=True)
        }

    def _pick(self, alias: str, columns: Columns, monoid: AbstractMonoid) -> Pick:
        """Register what a monoid reads as stored columns; return how to take it out of a row."""
        names, inputs = column_names(columns), monoid.inputs
        schemas = inputs.schemas if isinstance(inputs, Record) else [inputs]
        if len(names) != len(schemas):
            raise ValueError(
                f"aggregation {alias!r}: {monoid.name} reads {len(schemas)} column(s), "
                f"but {len(names)} given; write (column, monoid)"
            )
        keys = [(name, repr(schema)) for name, schema in zip(names, schemas, strict=True)]
        for key, schema in zip(keys, schemas, strict=True):
            self._schemas.setdefault(key, schema)
        places = list(map(list(self._schemas).index, keys))
        if isinstance(inputs, Record):
            return lambda row: tuple([row[place] for place in places])
        only = places[0]
        return lambda row: row[only]

    def row(self, value: Any) -> Row:
        try:
            return tuple(
                read_value(value[name], schema) for (name, _), schema in self._schemas.items()
            )
        except (KeyError, TypeError, IndexError):
            raise InvalidValue(
                f"an event must be a mapping with {list(self.columns)}, not {value!r}"
            ) from None

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        columns = []
        for (name, _), schema in self._schemas.items():
            try:
                given = values[name]
            except (KeyError, TypeError, IndexError):
                raise InvalidValue(
                    f"column {name!r} is missing; a batch needs {list(self.columns)}"
                ) from None
            columns.append(read_column(given, schema))
        lengths = {len(column) for column in columns} or {_length(values, count)}
        if len(lengths) > 1:
            raise InvalidValue(f"the columns differ in length: {sorted(lengths)}")
        return tuple(columns), lengths.pop()

    def is_valid(self, row: Row) -> bool:
        parts = zip(self.monoids, self.picks, strict=True)
        return all(monoid.is_valid(pick(row)) for monoid, pick in parts)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        parts = zip(self.monoids, self.picks, strict=True)
        return any_of([monoid.invalid(pick(rows), count) for monoid, pick in parts])

    def lower(self, partial: Partial) -> Any:
        parts = zip(self.aliases, self.monoids, partial, strict=True)
        return {alias: plain(monoid.lower(part)) for alias, monoid, part in parts}

    def lower_rows(self, partials: Rows) -> Rows:
        return tuple([m.lower_rows(p) for m, p in zip(self.monoids, partials, strict=True)])

    def results(self, outputs: Rows) -> Any:
        parts = zip(self.aliases, self.monoids, outputs, strict=True)
        return {alias: monoid.results(column) for alias, monoid, column in parts}


class Observed(Parts):
    """A monoid, and beside it the aggregates that policies decide on; results are its own alone."""

    def __init__(
        self, main: AbstractMonoid, observers: Sequence[tuple[Columns, AbstractMonoid]]
    ) -> None:
        self.main = self.reader = main
        picks: list[Pick]
        if isinstance(main, Product):
            # The wider product stores main's columns first, so main's own picks stay right.
            named = {f"policy {i}": observer for i, observer in enumerate(observers)}
            self.reader = wider = Product({**main.aggregations, **named})
            picks = list(wider.picks[len(main.monoids) :])
        else:
            picks = [_share(main, columns, monoid) for columns, monoid in observers]
        self.inputs, self.outputs, self.empty = self.reader.inputs, main.outputs, main.empty
        monoids = [monoid for _, monoid in observers]
        super().__init__([(main, same_value), *zip(monoids, picks, strict=True)])
        self.name = f"{main.name} beside {', '.join(monoid.name for monoid in monoids)}"

    def row(self, value: Any) -> Row:
        return self.reader.row(value)

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        return self.reader.rows(values, count)

    def is_valid(self, row: Row) -> bool:
        return self.reader.is_valid(row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return self.reader.invalid(rows, count)

    def lower(self, partial: Partial) -> Any:
        return self.main.lower(partial[0])

    def lower_rows(self, partials: Rows) -> Rows:
        return self.main.lower_rows(partials[0])

    def results(self, outputs: Rows) -> Any:
        return self.main.results(outputs)


def _length(values: Any, count: int | None) -> int:
    """How many events a batch holds of which no column is read."""
    if count is None and isinstance(values, Mapping):
        return max((len(column) for column in values.values()), default=0)
    return len(values) if count is None else count


def _share(main: AbstractMonoid, columns: Columns, monoid: AbstractMonoid) -> Pick:
    """How an observer reads the values of a window whose events have no named columns."""
    if columns is not None:
        raise ValueError(f"the policy reads {columns!r}, but the events have no named columns")
    if isinstance(monoid.inputs, Record) and not monoid.inputs.schemas:
        return lambda row: ()
    if isinstance(main.inputs, Objects) and isinstance(monoid.inputs, Array):
        dtype = monoid.inputs.dtype
        return lambda row: np.asarray(row, dtype)
    if isinstance(main.inputs, Array) and isinstance(monoid.inputs, Objects):
        return lambda row: row.tolist()
    if repr(main.inputs) != repr(monoid.inputs):
        raise ValueError(f"{monoid.name} cannot read the values that {main.name} reads")
    return same_value


def column_names(columns: Columns) -> list[str]:
    """The columns that an aggregation reads."""
    return [columns] if isinstance(columns, str) else list(columns or ())
