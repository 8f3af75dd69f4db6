"""Windows since the first row of a key, whose state is one partial aggregate per key.

    state of a key    the partial of all its rows, at the time of its newest row
    new rows          lifted, and folded from the partial on: one result per row
    new state         the last fold

The partials are the events of windows of one row (``CountWindow(1)``), with an aggregation that
returns its newest event. So keys, pages, snapshots and late rows are those of all other windows,
and the state of a key does not grow. This needs partials of a fixed size (``Plan.is_running``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.frames.windows import CountWindow
from mta.keyed.bucket import Advance, KeyedBatch
from mta.keyed.table import NO_TIME, Table, folds, take_or
from mta.keyed.work import Found, union_of
from mta.monoids.base import AbstractMonoid, same_value
from spark_integration.plan import Plan
from spark_integration.step.columns import Ints, to_values
from spark_integration.step.rows import Sorted
from spark_integration.step.windows import Windows, require_valid
from stores.base import PageStore


class Newest(AbstractMonoid[Any]):
    """The newest of events that are partials of another monoid."""

    is_columnar = selective = True

    def __init__(self, monoid: AbstractMonoid) -> None:
        self.name, self.identity = f"newest partial of {monoid.name}", monoid.identity
        self.inputs = self.partials = self.outputs = monoid.partials
        self.empty = monoid.identity
        self.lift, self.lower, self.combine = same_value, same_value, _second

    def is_valid(self, row: Row) -> bool:
        return True

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return None

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        return rows

    def lower_rows(self, partials: Rows) -> Rows:
        return partials

    def fold(self, partials: Rows, count: int) -> Any:
        return self.partials.at(partials, count - 1) if count else self.identity

    def prefixes(self, partials: Rows, count: int, left: Any) -> Rows:
        return partials

    def suffixes(self, partials: Rows, count: int, right: Any) -> Rows:
        rows = self.partials.one(right)
        return self.partials.take(rows, np.zeros(count + 1, np.intp))

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        return right


def _second(left: Any, right: Any) -> Any:
    return right


class RunningWindows(Windows):
    """The windows of one bucket, all of which start with the first row of their key."""

    def __init__(self, plan: Plan, store: PageStore, before: bytes | None) -> None:
        of_state: Any = Newest(plan.monoid)
        options = plan.options.changed(window=CountWindow(1), nulls="accept", min_samples=None)
        super().__init__(replace(plan, monoid=of_state, options=options), store, before)
        self.whole = plan

    def advance(self, group: Sorted) -> Advance:
        """Add sorted rows; raises InvalidValue and LateEvent if the plan says so."""
        monoid, bucket, keys = self.whole.monoid, self.bucket, group.keys
        batch = self._batch(group)
        known = bucket.find(keys)
        at = known.keys.find(keys)
        newest, floors = take_or(known.newest(), at, NO_TIME), None
        if len(batch):
            floors = bucket.floors(known, at, newest, int(group.times.min()), same_value, None)
        line, bounds, late, times = bucket.ordered(batch, newest, floors)
        rows = monoid.inputs.take(batch.rows, line)
        lifted = monoid.lift_rows(rows, len(line))
        new = Table.of(monoid.partials, keys, bounds, times, lifted)
        found, last = self._results(known, at, new)
        self._store(new, last)
        invalid = len(batch) - len(line) - (0 if late is None else int(late.sum()))
        none = line[:0]
        require_valid(self.whole, invalid, len(batch))
        return Advance(line, late, invalid, found, keys, bounds, None, none, none, none)

    def _batch(self, group: Sorted) -> KeyedBatch:
        plan, options = self.whole, self.whole.options
        nulls = options.settings.nulls
        values = {
            name: to_values(group.rows.column(name), name, nulls, options.nan)
            for name in plan.values
        }
        rows, count = plan.monoid.rows(values, group.rows.num_rows)
        codes = np.repeat(np.arange(len(group.keys)), np.diff(group.bounds))
        invalid = plan.monoid.invalid(rows, count)
        return KeyedBatch(group.keys, codes, rows, group.times, invalid, late_first=True)

    def _results(self, known: Table, at: Ints, new: Table) -> tuple[Found, Rows]:
        """Return the results of new rows, and the last partial of each key that has any."""
        monoid = self.whole.monoid
        union, places = union_of(known, at, new, late=False)
        if not new.events:
            return Found(places, places, [monoid.outputs.new(0)] * self._windows), new.rows
        of = np.repeat(np.arange(len(new)), new.counts)
        starts = union.bounds[of]
        folded = folds(monoid, union.rows, union.events, starts, places + 1)
        has_rows = np.flatnonzero(new.counts)
        ends = new.bounds[has_rows + 1] - 1
        which = ends if self.whole.options.emit == "last" else np.arange(len(of))
        outputs = monoid.lower_rows(monoid.partials.take(folded, which))
        return Found(of[which], which, [outputs] * self._windows), monoid.partials.take(
            folded, ends
        )

    @property
    def _windows(self) -> int:
        return len(self.whole.options.windows)

    def _store(self, new: Table, last: Rows) -> None:
        """Store the last partial of each key that has new rows."""
        places = np.flatnonzero(new.counts)
        if len(places) and new.times is not None:
            times = new.times[new.bounds[places + 1] - 1]
            keys = new.keys if len(places) == len(new) else new.keys.take(places)
            self.bucket.advance(KeyedBatch(keys, np.arange(len(places)), last, times), "last")


def windows_of(
    plan: Plan,
    store: PageStore,
    before: bytes | None,
    start: tuple[bytes, PageStore] | None,
    now: int | None,
) -> Windows:
    """Return the windows of a bucket: with one partial per key if the plan is of such windows."""
    if plan.is_running:
        return RunningWindows(plan, store, before)
    return Windows(plan, store, before, start, now)
