"""What a step hands back: the rows, with a column for each aggregation.

Four kinds of rows, in this order: those that entered a window, with the window's result; among
them, where ``silent="emit"``, one for each moment at which a window became empty; where
``corrections="append"``, rows given again, marked, with the results that hold now; and, where
``late="side"``, the late rows, marked, with nulls for results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_integration.plan import CORRECTED, LATE, Plan, column_name
from spark_integration.step.columns import Column, Flags, Ints, to_arrow
from spark_integration.step.corrections import Corrected
from spark_integration.step.every import Boundaries, rows_of_keys
from spark_integration.step.rows import Sorted
from spark_integration.step.silence import Gap


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
        self._last = plan.output == "last"
        self._plan, self._group = plan, group
        self.corrected = Corrected(plan, group)
        self._found: dict[str, list[Column]] = {alias: [] for alias in plan.results}
        #: With output "last" or every k events, the rows that have a result; else None.
        self._picked: list[int] | None = [] if self._last or plan.every else None
        self.boundaries = Boundaries(plan)
        self._late: list[Ints] = []
        self._invalid: list[Ints] = []
        #: Key and moment of windows that became empty, and how many results come before each.
        self._emptied: list[tuple[bytes, int]] = []
        self._places: list[int] = []
        self._size = 0

    def counts(self, read: int) -> Counts:
        """What became of the ``read`` rows that the step was given."""
        late = sum(map(len, self._late))
        invalid = read - self._group.rows.num_rows + sum(map(len, self._invalid))
        dropped = invalid if self._plan.late == "side" else invalid + late
        return Counts(read, dropped, late, invalid)

    def add_late(self, first: int, start: int) -> None:
        """The rows ``first`` to ``start`` came too late."""
        if first < start:
            self._late.append(np.arange(first, start))

    def enter(self, start: int, end: int, accepted: Flags | None) -> tuple[int, int] | None:
        """The newest of a key's rows that entered the window, and how many did, if any.

        Of the rows ``start`` to ``end`` the ``accepted`` ones entered (None: all).
        """
        if accepted is None:
            return end - 1, end - start
        self._invalid.append(start + np.flatnonzero(~accepted))
        inside = np.flatnonzero(accepted)
        return (start + int(inside[-1]), len(inside)) if len(inside) else None

    def add(self, found: Mapping[str, Column], newest: int, count: int) -> None:
        """Take over a key's results, of all its rows that entered or of the newest."""
        if self._picked is not None:
            self._picked.append(newest)
            count = 1
        self._take(found, count)

    def add_picked(self, found: Mapping[str, Column], rows: Ints) -> None:
        """Take over results of some of a key's rows, or of the last of these."""
        assert self._picked is not None
        rows = rows[-1:] if self._last else rows
        self._picked += rows.tolist()
        self._take(found, len(rows))

    def _take(self, found: Mapping[str, Column], count: int) -> None:
        """The last ``count`` of some results."""
        if count:
            for alias, parts in self._found.items():
                parts.append(found[alias][-count:])
        self._size += count

    def add_gaps(self, key: bytes, gaps: Sequence[Gap], count: int) -> None:
        """A key's window became empty among the ``count`` rows that just entered."""
        for gap in gaps:
            self.add_emptied(key, gap.moment, count - gap.at)

    def add_emptied(self, key: bytes, moment: int, before: int = 0) -> None:
        """A key's window became empty, ``before`` the last so many of the results so far."""
        if before and self._last:
            return
        self._emptied.append((key, moment))
        self._places.append(self._size - before)

    def table(self) -> pa.Table:
        """All rows that come out."""
        rows = self._table_of_results()
        if self._emptied:
            rows = self._with_emptied(rows)
        if self._plan.appends:
            emptied = {key for key, _ in self._emptied} if self._last else ()
            again = self.corrected.table(rows.schema, without=emptied)
            rows = pa.concat_tables(
                [_marked(rows, CORRECTED, False), _marked(again, CORRECTED, True)]
            )
        if self._plan.late == "side":
            rows = _marked(rows, LATE, False)
            if self._late:
                rows = pa.concat_tables([rows, self._table_of_late()])
        return rows

    def _table_of_results(self) -> pa.Table:
        """The rows that have a result, with a column for each aggregation."""
        if self._plan.by_boundaries:
            return self.boundaries.table()
        rows = self._group.rows
        if self._picked is not None:
            rows = rows.take(pa.array(self._picked, pa.int64()))
        elif without := self._late + self._invalid:
            kept = np.ones(rows.num_rows, np.bool_)
            kept[np.concatenate(without)] = False
            rows = rows.filter(pa.array(kept))
        for alias, parts in self._found.items():
            rows = rows.append_column(alias, to_arrow(parts, self._plan.results[alias], alias))
        return rows

    def _table_of_late(self) -> pa.Table:
        rows = self._group.rows.take(pa.array(np.concatenate(self._late)))
        for alias, kind in self._plan.results.items():
            rows = rows.append_column(alias, pa.nulls(rows.num_rows, kind))
        if self._plan.appends:
            rows = _marked(rows, CORRECTED, False)
        return _marked(rows, LATE, True)

    def _with_emptied(self, rows: pa.Table) -> pa.Table:
        """The rows, and among them one for each window that became empty."""
        emptied = dict(self._emptied).items() if self._last else self._emptied
        keys, moments = zip(*emptied, strict=True)
        order, places = np.arange(rows.num_rows), np.array(self._places)
        if self._last:
            # One row for each key, so the one that is newer.
            assert self._picked is not None
            of = np.searchsorted(self._group.bounds, self._picked, side="right") - 1
            order = order[[self._group.keys[at] not in keys for at in of]]
            places = np.full(len(keys), len(order))
        emptied = table_of_emptied(keys, moments, self._plan)
        order = np.insert(order, places, rows.num_rows + np.arange(len(keys)))
        return pa.concat_tables([rows, emptied]).take(pa.array(order))


def table_of_emptied(keys: tuple[bytes, ...], moments: tuple[int, ...], plan: Plan) -> pa.Table:
    """A row for each key and moment: null but for these and the results of an empty window."""
    columns = rows_of_keys(plan, keys, np.array(moments, np.int64))
    count, outputs = len(keys), plan.monoid.outputs
    empty = outputs.new(1)
    outputs.put(empty, 0, tuple(plan.monoid.empty.values()))
    for alias, result in plan.monoid.results(empty).items():
        for window in plan.policies:
            name = column_name(alias, window)
            one = to_arrow([result], plan.results[name], name)
            columns[name] = one.take(pa.array([0] * count))
    return pa.table({name: columns[name] for name in (*plan.columns, *plan.results)})


def _marked(rows: pa.Table, name: str, mark: bool) -> pa.Table:
    return rows.append_column(name, pa.repeat(pa.scalar(mark), rows.num_rows))
