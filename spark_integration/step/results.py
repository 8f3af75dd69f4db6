"""What a step hands back: the rows, with a column for each aggregation.

Four kinds of rows, in this order: those that have a result, be they rows that entered a window or,
with a period for ``every``, boundaries; among them, where ``silent="emit"``, one for each moment at
which a window became empty; where ``corrections="append"``, rows given again, marked, with the
results that hold now; and, where ``late="side"``, the late rows, marked, with nulls for results.

Rows given again are events whose results a late one has changed. What a window keeps of an event is
its time and the values that aggregations read; so these, the key and the results are what such a
row has. Values come back as the input's types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mta.triggers.triggered import Due
from mta.windows.revision import Revision
from spark_integration.plan import CORRECTED, LATE, Plan, column_name
from spark_integration.step.columns import (
    Column,
    Flags,
    Ints,
    as_input,
    from_micros,
    key_columns,
    to_arrow,
)
from spark_integration.step.rows import Sorted
from spark_integration.step.silence import Gap
from spark_integration.step.windows import by_column


class Counts(NamedTuple):
    """What became of a micro-batch's rows, as the query's ``observedMetrics`` name it."""

    rows_read: int
    rows_dropped: int = 0
    """Rows that are not in the results: invalid ones, and late ones unless they come out marked."""
    rows_late: int = 0
    """Rows too much older than their key's last one, or than keys of their bucket that were
    forgotten."""
    rows_invalid: int = 0
    """Rows without key, time or value, or with one that no window takes."""


class Results:
    """The output table, grown key by key."""

    def __init__(self, plan: Plan, group: Sorted) -> None:
        self._plan, self._group, self._last = plan, group, plan.output == "last"
        #: Of each key one of its rows, a revision, and which of its events are given again.
        self._again: dict[bytes, tuple[int, Revision, Ints]] = {}
        #: Of each key the rows that have results, or the boundaries, and the results.
        self._found: dict[bytes, list[tuple[Ints, Mapping[str, Column]]]] = {}
        self._size = 0
        self._late: list[Ints] = []
        self._invalid = 0
        #: Key and moment of windows that became empty, and how many results come before each.
        self._emptied: list[tuple[bytes, int, int]] = []

    def counts(self, read: int) -> Counts:
        """What became of the ``read`` rows that the step was given."""
        late = sum(map(len, self._late))
        invalid = read - self._group.rows.num_rows + self._invalid
        dropped = invalid if self._plan.late == "side" else invalid + late
        return Counts(read, dropped, late, invalid)

    def add_late(self, first: int, start: int) -> None:
        """The rows ``first`` to ``start`` came too late."""
        if first < start:
            self._late.append(np.arange(first, start))

    def enter(self, start: int, end: int, accepted: Flags | None) -> Ints:
        """Of the rows ``start`` to ``end`` those that entered the window (None: all)."""
        rows = np.arange(start, end)
        if accepted is None:
            return rows
        self._invalid += len(rows) - int(np.count_nonzero(accepted))
        return rows[accepted]

    def add(self, key: bytes, rows: Ints, found: Mapping[str, Column]) -> None:
        """Take over results of a key's rows, or of boundaries; with output "last" the last one."""
        if self._last and len(rows):
            newest = {alias: column[-1:] for alias, column in found.items()}
            self._found[key] = [(rows[-1:], newest)]
        elif len(rows):
            self._found.setdefault(key, []).append((rows, found))
        self._size += len(rows)

    def add_due(self, key: bytes, found: Sequence[Due]) -> None:
        """Take over a key's results at boundaries."""
        for moments, results in found:
            self.add(key, moments.view("i8"), by_column(results, self._plan))

    def add_again(self, key: bytes, row: int, revision: Revision, again: Flags) -> None:
        """Some events of a revision of a key, of which this is any row, are given again."""
        if again.any():
            self._again[key] = row, revision, np.flatnonzero(again)

    def add_gaps(self, key: bytes, gaps: Sequence[Gap], count: int) -> None:
        """A key's window became empty among the ``count`` rows that just entered."""
        if not self._last:  # a row of the key is newer
            before = self._size - count
            self._emptied += [(key, gap.moment, before + gap.at) for gap in gaps]

    def add_emptied(self, key: bytes, moment: int) -> None:
        """A key's window became empty, after all its rows."""
        if self._last:
            self._found.pop(key, None)
            self._again.pop(key, None)
        self._emptied.append((key, moment, self._size))

    def table(self) -> pa.Table:
        """All rows that come out."""
        plan, rows = self._plan, self._table_of_results()
        again = late = None
        if self._emptied:
            keys, moments, places = zip(*self._emptied, strict=True)
            # With output "last" rows have gone since they were counted, and these come last.
            rows = with_emptied(rows, plan, keys, moments, places)
        if self._again:
            columns = [self._column_again(field) for field in rows.schema]
            again = pa.Table.from_arrays(columns, schema=rows.schema)
        if self._late:
            late = self._group.rows.take(pa.array(np.concatenate(self._late)))
        return marked(plan, rows, again, late)

    def _table_of_results(self) -> pa.Table:
        plan, rows = self._plan, self._group.rows
        parts = [part for each in self._found.values() for part in each]
        places = np.concatenate([np.zeros(0, np.int64), *(places for places, _ in parts)])
        if plan.by_boundaries:
            each = self._found.items()
            keys = [key for key, found in each for moments, _ in found for _ in moments]
            rows = _rows_of_keys(plan, keys, places)
        elif len(places) < rows.num_rows:
            rows = rows.take(pa.array(places))
        for alias, kind in plan.results.items():
            columns = [found[alias] for _, found in parts]
            rows = rows.append_column(alias, to_arrow(columns, kind, alias))
        return rows

    def _column_again(self, field: pa.Field) -> pa.Array:
        """A column of the rows given again; linear."""
        plan, name, parts = self._plan, field.name, self._again.values()
        if name in plan.keys:
            rows = np.repeat([row for row, _, _ in parts], [len(places) for _, _, places in parts])
            return self._group.rows.column(name).take(pa.array(rows)).combine_chunks()
        if name == plan.time:
            times = [revision.times[places] for _, revision, places in parts]
            return from_micros(np.concatenate(times).astype("M8[us]").view("i8"), field.type)
        if name in plan.values:
            found = [_taken(revision.values[name], places) for _, revision, places in parts]
            return as_input(np.concatenate(found), field.type)
        found = [_taken(revision.results[name], places) for _, revision, places in parts]
        return to_arrow(found, field.type, name)


def with_emptied(
    rows: pa.Table,
    plan: Plan,
    keys: Sequence[bytes],
    moments: Sequence[int],
    places: Sequence[int] | Ints,
) -> pa.Table:
    """Rows, and before some places among them one for each window that became empty."""
    emptied, outputs = _rows_of_keys(plan, keys, np.array(moments)), plan.monoid.outputs
    empty = outputs.new(1)
    outputs.put(empty, 0, tuple(plan.monoid.empty.values()))
    for alias, result in plan.monoid.results(empty).items():
        for window in plan.policies:
            name = column_name(alias, window)
            one = to_arrow([result], plan.results[name], name)
            emptied = emptied.append_column(name, one.take(pa.array([0] * len(keys))))
    emptied = emptied.select(rows.column_names)
    order = np.insert(
        np.arange(rows.num_rows),
        np.minimum(places, rows.num_rows),
        rows.num_rows + np.arange(len(keys)),
    )
    return pa.concat_tables([rows, emptied]).take(pa.array(order))


def marked(plan: Plan, rows: pa.Table, again: pa.Table | None, late: pa.Table | None) -> pa.Table:
    """All rows, with the columns that tell those given again, and late ones, from the others."""
    parts = {"": rows}
    if again is not None:
        parts[CORRECTED] = again
    if late is not None and plan.late == "side":
        for alias, kind in plan.results.items():
            late = late.append_column(alias, pa.nulls(late.num_rows, kind))
        parts[LATE] = late
    for mark in [CORRECTED] * plan.appends + [LATE] * (plan.late == "side"):
        for name, part in parts.items():
            parts[name] = part.append_column(mark, pa.repeat(pa.scalar(name == mark), len(part)))
    return pa.concat_tables(parts.values())


def _rows_of_keys(plan: Plan, keys: Sequence[bytes], times: Ints) -> pa.Table:
    """The input's columns in rows that belong to no event: null but for keys and times."""
    schema = plan.row_schema
    columns = {field.name: pa.nulls(len(keys), field.type) for field in schema}
    if keys:
        types = [schema.field(name).type for name in plan.keys]
        columns |= zip(plan.keys, key_columns(keys, types), strict=True)
    columns[plan.time] = from_micros(times, schema.field(plan.time).type)
    return pa.table({name: columns[name] for name in plan.columns})


def _taken(column: Any, places: Ints) -> Column:
    if isinstance(column, np.ndarray):
        return column[places]
    objects = np.empty(len(places), object)
    objects[:] = [column[place] for place in places.tolist()]
    return objects
