"""Nulls and filters: an aggregation skips a row by lifting it to the identity.

    amount     3.0   null  5.0   2.0        events; a null keeps its place in every window
    declined   true  true  null  true       a filter; null is false
    lifted     3.0   id    id    2.0        what is aggregated
    values     1     0     0     1          the number of values in each row

One wrapper makes any monoid skip nulls and apply a filter. The result of fewer than ``min_samples``
values is null; without ``min_samples``, the result of no values is null. Without values, counts are
0 and lists are empty.

``Last(skip_nulls=False)`` and similar aggregations count a null row like any other. A third part,
the same aggregation over booleans, says whether the chosen row has a value. ``Lag`` skips nulls
among the rows before the newest, as SQL does, so its third part says whether the newest row has a
value:

    values       3.0   5.0   null     Lag(1) is 5.0: the value before the newest row
    Lag(1)       [5.0, 3.0]           its partial: the newest values, without nulls
    newest       false                so a placeholder is combined on the right: [_, 5.0]

The number of values is stored beside the monoid's partial, unless that partial holds it
(``values_in``, as for a mean) or another aggregation of the same column does (``Product``).

>>> from mta.monoids.basic import Max
>>> peak = SkipNulls(Max())
>>> rows, count = peak.rows([3.0, None, float("nan"), 2.0])
>>> partials = peak.lift_rows(rows, count)
>>> peak.lower(peak.fold(partials, count)), peak.lower(peak.identity)
(3.0, None)
"""

from __future__ import annotations

from functools import reduce
from operator import add, sub
from typing import Any

import numpy as np

from mta.columns.schemas import (
    Array,
    Nullable,
    NullableColumn,
    Presence,
    Record,
    Row,
    Rows,
    Schema,
    nullable,
)
from mta.columns.texts import TextColumn, listed_text
from mta.monoids.base import AbstractMonoid, Partial, any_of, lift_where, same_value
from mta.monoids.basic import First, Last, Tally
from mta.monoids.columnar import Plain
from mta.monoids.parts import Parts
from mta.monoids.positional import Lag, LagText, NthText, NthValue
from mta.monoids.text import FirstText

#: A column of booleans that says which rows to aggregate.
FILTER = Nullable(Array("?", exact=True))


def is_filter(schema: Schema) -> bool:
    """Whether a column is a filter, which accepts only booleans."""
    return isinstance(schema, Nullable) and schema.inner.dtype.kind == "b" and schema.exact


class Samples(Tally):
    """The number of values; a value is lifted to 1, a row without a value to 0."""

    def __init__(self) -> None:
        super().__init__("Samples", "i8", plain=Plain(add, inverse=sub))


class CountValues(Tally):
    """The number of values of a column, of any type, that are not null: ``Count("watts")``."""

    never_null = True
    values_in = staticmethod(same_value)

    def __init__(self) -> None:
        super().__init__("Count", Presence(), lambda present: present.astype("i8"))

    def is_valid(self, row: Row) -> bool:
        return bool(row)

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return any_of([~rows])


class SkipNulls(Parts[Any]):
    """A monoid that skips the rows that have a null in any column or that a filter leaves out.

    With ``filtered``, the last column is the filter. With ``refuses``, a null is an invalid value,
    and only filters leave rows out.

    With ``counted_elsewhere``, it lifts rows to partials of the monoid alone. A Product folds them
    with the monoid, and passes the number of values when it computes results.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        filtered: bool = False,
        min_samples: int | None = None,
        refuses: bool = False,
        counted_elsewhere: bool = False,
    ) -> None:
        self.monoid, self.filtered = monoid, filtered
        self.min_samples, self.refuses = min_samples, refuses
        self.counted_elsewhere = counted_elsewhere
        least = 1 if min_samples is None else min_samples
        #: The result of fewer values than this is null.
        self.least = 0 if monoid.never_null else least
        inner = monoid.inputs
        self._width = len(inner.schemas) if isinstance(inner, Record) else None
        self._own = nullable(inner).columns
        whole = Record((*self._own, FILTER) if filtered else self._own)
        self.inputs = whole if filtered or self._width is not None else self._own[0]
        self.outputs = nullable(monoid.outputs) if self.least else monoid.outputs
        self.empty = None if self.least else monoid.empty
        self.result_type, self.follows_column = monoid.result_type, monoid.follows_column
        #: Whether a null row may be chosen.
        self._chooses_nulls = not getattr(monoid, "skip_nulls", True)
        rule = "respecting nulls" if self._chooses_nulls else "" if filtered else "skipping nulls"
        self.name = " ".join(filter(None, [monoid.name, "filtered" if filtered else "", rule]))
        #: The aggregation of which rows have values, if the result needs it.
        self._flags = _flags_of(monoid)
        #: Whether the number of values must be in the partial, even if another part has it.
        self.needs_samples = self._flags is not None
        #: Whether rows are one column from which only nulls are left out.
        self._is_plain_column = isinstance(self.inputs, Nullable) and self._flags is None
        parts = [Samples(), monoid, *([] if self._flags is None else [self._flags])]
        super().__init__([(part, same_value) for part in parts])
        self.lift = self._lift  # the base class lifts the parts separately

    @property
    def bare(self) -> AbstractMonoid:
        return self.monoid

    @property
    def has_own_rule(self) -> bool:
        return self.filtered or self.monoid.has_own_rule

    def of_types(self, *types: Any) -> AbstractMonoid:
        own = types[: len(self._own)]
        return SkipNulls(self.monoid.of_types(*own), self.filtered, self.min_samples, self.refuses)

    def without_samples(self) -> SkipNulls:
        """Return this monoid for a caller that knows the number of values."""
        return SkipNulls(self.monoid, self.filtered, self.min_samples, self.refuses, True)

    # --- events coming in -----------------------------------------------------------------------

    def is_valid(self, row: Row) -> bool:
        own, passes = self._row_parts(row)
        if not passes:
            return True
        if self._is_null(own):
            return not self.refuses
        return self.monoid.is_valid(self._bare_row(own))

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        values, valid, passing = self._columns(rows)
        found = self.monoid.invalid(values, count)
        if found is not None and valid is not None:
            found = found & valid
        if self.refuses and valid is not None:
            found = ~valid if found is None else found | ~valid
        if found is not None and passing is not None:
            found = found & passing
        return any_of([found])

    # --- aggregates -----------------------------------------------------------------------------

    def _lift(self, row: Row) -> Partial:
        own, passes = self._row_parts(row)
        monoid, is_null = self.monoid, self._is_null(own)
        counts = passes and (self._chooses_nulls or not is_null)
        fold = monoid.lift(self._bare_row(own)) if counts else monoid.identity
        if self.counted_elsewhere:
            return fold
        samples = int(passes and not is_null)
        flags = self._flags
        if flags is None:
            return samples, fold
        return samples, fold, flags.lift(np.bool_(not is_null)) if passes else flags.identity

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        if self._is_plain_column:
            valid = rows.valid if rows.has_nulls else None
            found = lift_where(self.monoid, rows.values, count, valid)
            return found if self.counted_elsewhere else (rows.samples(), found)
        values, valid, passing = self._columns(rows)
        present = all_of(valid, passing)
        found = lift_where(self.monoid, values, count, passing if self._chooses_nulls else present)
        if self.counted_elsewhere:
            return found
        samples = np.ones(count, "i8") if present is None else present.astype("i8")
        if self._flags is None:
            return samples, found
        flags = np.ones(count, bool) if valid is None else valid
        return samples, found, lift_where(self._flags, flags, count, passing)

    def lower(self, partial: Partial) -> Any:
        samples, fold = partial[0], partial[1]
        if samples and self._flags is not None and not self._flags.lower(partial[2]):
            if self._chooses_nulls:
                return None
            fold = self.monoid.combine(fold, self._placeholder())
        return self.lower_of(samples, fold)

    def lower_of(self, samples: Any, fold: Partial) -> Any:
        """Return the result of a monoid's partial over a number of values."""
        if samples < self.least:
            return None
        return self.monoid.lower(fold) if samples else self.monoid.empty

    def lower_rows(self, partials: Rows) -> Rows:
        samples, rows = partials[:2]
        few = None
        if self._flags is not None:
            flags = self._flags
            valued = flags.outputs.listed(flags.lower_rows(partials[2]), len(samples))
            null = ~np.fromiter(map(bool, valued), bool, len(samples))
            if self._chooses_nulls:
                few = null
            elif null.any():
                rows = self._behind_nulls(rows, null)
        return self.lower_rows_of(samples, rows, few)

    def lower_rows_of(self, samples: np.ndarray, rows: Rows, few: np.ndarray | None = None) -> Rows:
        """Apply ``lower_of`` to each row; rows marked in ``few`` are null too."""
        found, schema, least = self.monoid.lower_rows(rows), self.monoid.outputs, self.least
        masks = [few, samples < max(least, 1)]
        if isinstance(found, NullableColumn):  # the monoid's results may be null
            masks.append(found.nulls())
            found = found.values
        few = any_of(masks)
        if few is None:
            return NullableColumn(found) if isinstance(self.outputs, Nullable) else found
        if not isinstance(self.outputs, Nullable):
            return with_row(schema, found, few, None if least else self.monoid.empty)
        return NullableColumn(np.where(few, np.zeros(1, found.dtype), found), ~few)

    def _placeholder(self) -> Partial:
        """Return the partial of an event whose value is never read."""
        return self.monoid.lift(self._bare_row(None))

    def _behind_nulls(self, rows: Rows, null: np.ndarray) -> Rows:
        """Copy partials; add an event without a value to those that a mask marks."""
        schema, places = self.monoid.partials, np.flatnonzero(null)
        found = schema.take(rows, np.arange(len(null)))
        there = schema.take(rows, places)
        nothing = schema.take(schema.one(self._placeholder()), np.zeros(len(places), np.intp))
        schema.put_at(found, places, self.monoid.combine_rows(there, nothing, len(places)))
        return found

    def results(self, outputs: Rows) -> Any:
        if not isinstance(outputs, NullableColumn) or isinstance(self.monoid.outputs, Nullable):
            return self.monoid.results(outputs)
        return outputs.shown(self.monoid.results(outputs.values))

    # --- joining values -------------------------------------------------------------------------

    @property
    def joins_values(self) -> bool:
        """As for the monoid; a null joined with a value gives the value."""
        return not self.filtered and not self._chooses_nulls and self.monoid.joins_values

    def join_values(self, older: Row, newer: Row) -> Row:
        if self._is_null(older) or self._is_null(newer):
            return older if self._is_null(newer) else newer
        return self.monoid.join_values(older, newer)

    def values_of(self, partials: Rows) -> Rows:
        samples, rows = partials
        values = self.monoid.values_of(rows)
        if isinstance(self.inputs, Nullable):
            valid = samples > 0
            return NullableColumn(np.where(valid, values, np.zeros(1, values.dtype)), valid)
        return with_row(self.inputs, values, samples == 0, None) if (samples == 0).any() else values

    # --- rows and their nulls -------------------------------------------------------------------

    def _row_parts(self, row: Row) -> tuple[Row, bool]:
        """Return the monoid's part of a row, and whether the row passes the filter."""
        if not self.filtered:
            return row, True
        own = row[:-1] if self._width is not None else row[0]
        return own, bool(row[-1])

    def _is_null(self, own: Row) -> bool:
        values = own if self._width is not None else (own,)
        pairs = zip(self._own, values, strict=False)
        return any(not v if isinstance(s, Presence) else v is None for s, v in pairs)

    def _bare_row(self, own: Row) -> Row:
        """Return a row as the monoid reads it; a null that it may choose becomes 0."""
        if self._width is not None:
            own = own[: self._width]
        inputs = self.monoid.inputs
        if own is None:
            return inputs.at(inputs.blank(1), 0) if self.monoid.is_columnar else 0
        return own

    def _columns(self, rows: Rows) -> tuple[Rows, np.ndarray | None, np.ndarray | None]:
        """Return columns, a mask of non-null rows and one of passing rows; None marks all rows."""
        columns = rows if isinstance(self.inputs, Record) else (rows,)
        bare, masks = [], list[np.ndarray | None]()
        for schema, column in zip(self._own, columns, strict=False):
            if isinstance(schema, Nullable):
                bare.append(column.values)
                masks.append(column.valid if column.has_nulls else None)
            elif isinstance(schema, Presence):
                bare.append(column)
                masks.append(None if column.all() else column)
            else:
                valid = None
                nulls = _nulls_in(column)
                if nulls is not None:
                    valid = ~nulls
                    if self._chooses_nulls:
                        column = with_row(schema, column, nulls, 0)
                bare.append(column)
                masks.append(valid)
        valid = all_of(*masks)
        passing = None
        if self.filtered:
            passes: np.ndarray = columns[-1].values  # False under a null
            passing = None if passes.all() else passes
        return bare[0] if self._width is None else tuple(bare), valid, passing


def _flags_of(monoid: AbstractMonoid) -> AbstractMonoid | None:
    """Return the aggregation of which rows have values; None if nulls are only skipped."""
    skips = getattr(monoid, "skip_nulls", True)
    match monoid:
        case Lag(n=n) | LagText(n=n):
            return Last("?") if skips else Lag(n, "?")
        case NthValue(n=n) | NthText(n=n) if not skips:
            return NthValue(n, "?")
        case First() | FirstText() if not skips:
            return First("?")
    return None if skips else Last("?")


def _nulls_in(column: Any) -> np.ndarray | None:
    """Return which objects are None; None if none is."""
    if isinstance(column, TextColumn):
        return column.nulls()
    if None not in column:
        return None
    return np.fromiter((row is None for row in column), bool, len(column))


def all_of(*masks: np.ndarray | None) -> Any:
    """Return the rows that all masks mark; None for all rows."""
    found = [mask for mask in masks if mask is not None]
    return reduce(np.logical_and, found) if found else None


def with_row(schema: Schema, rows: Rows, at: np.ndarray, row: Row) -> Rows:
    """Copy rows; set those that a mask marks to one row."""
    if isinstance(rows, TextColumn) and row is None:
        return rows.where(~at)
    places = np.flatnonzero(at)
    found = schema.take(listed_text(rows), np.arange(len(at)))
    schema.put_at(found, places, schema.take(schema.one(row), np.zeros(len(places), np.intp)))
    return found
