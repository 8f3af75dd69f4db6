"""One micro-batch of one bucket of keys: from its state and rows to its new state and results.

The step is a pure function of its arguments and the pages in the store, without Spark: the same
state and the same rows, in any order, give the same new state, results and pages. So a replay is
harmless: pages are named by their content, so it writes them again under the same names. Spark
commits state and results together, so the results are exactly once.

    rows of the bucket -> sorted by key and time -> KeyedWindows -> results next to the rows

One flush at the end makes the pages durable, before the state leaves the task.

The rows of the result are the input's rows, with a column for each aggregation. There are several
kinds of rows, in this order: rows with results, which entered a window or, with a period for
``emit_every``, are boundaries; among them, with ``idle="emit"``, a row for each moment at which a
window became empty; with ``emit_updates``, marked updates of earlier rows, with their new results;
and, with ``on_late="side"``, marked late rows, with null results.

Updates are events whose results a late event has changed. A window stores the time of an event and
the values that aggregations read; so an update has these, the key and the results. Values have the
types of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mta.columns.schemas import Rows
from mta.keyed.bucket import Advance
from mta.keyed.keys import Keys
from mta.keyed.moments import Questions
from mta.keyed.work import Found
from mta.monoids.base import empties
from mta.monoids.product import result_name
from spark_integration.options import AHEAD, CORRECTED, LATE
from spark_integration.plan import Plan
from spark_integration.step.columns import Ints, as_input, from_micros, key_columns, to_arrow
from spark_integration.step.rows import NOW, Sorted, complete, sort_rows
from spark_integration.step.running import windows_of
from spark_integration.step.starts import after_cutover, snapshot_of
from spark_integration.step.states import State
from spark_integration.step.windows import Expired
from stores.base import PageStore


class RowCounts(NamedTuple):
    """The counts of a micro-batch's rows in ``observedMetrics``; docs/spark.md describes them."""

    rows_read: int
    rows_dropped: int = 0
    rows_late: int = 0
    rows_invalid: int = 0
    rows_missing: int = 0
    rows_incomplete: int = 0
    rows_ahead: int = 0


class Advanced(NamedTuple):
    """The results of a step."""

    state: bytes
    rows: pa.Table
    counts: RowCounts
    timer: int | None = None
    """Once the watermark is later than this, in microseconds, the step must run again."""
    promotions: int = 0
    merges: int = 0


Step = Callable[[bytes | None, pa.Table, Plan, PageStore, int | None], Advanced]
"""The type of ``step``, and of its substitutes in tests and benchmarks."""


def step(
    state: bytes | None,
    rows: pa.Table,
    plan: Plan,
    store: PageStore,
    watermark: int | None = None,
) -> Advanced:
    """Advance the windows of all keys with their rows, and return the results next to the rows.

    Costs O(rows * log rows) for the sort, plus the cost of ``KeyedWindows.extend``. The results of
    a key are in order of time, for all accepted rows or only for the last one. ``watermark`` is the
    watermark of the stream's event time, in microseconds. If the plan says so, keys that are idle
    at the watermark are expired, and a later step deletes their pages. Raises NullKey, InvalidTime,
    InvalidValue, LateEvent, AheadEvent, StateMismatch, CorruptState, and errors of the windows and
    the store. After an error nothing is lost, because the old state remains valid.
    """
    options = plan.options
    before = None if state is None else State.decode(state).snapshot_for(plan.buckets, plan.fixed)
    read = rows.num_rows
    now = None
    if NOW in rows.column_names:
        now = int(rows.column(NOW)[0].as_py()) if read else None
        rows = rows.drop_columns([NOW])
    if options.idle == "emit" or options.period is not None:
        # Rows without an event have these types.
        rows = rows.cast(plan.schema)
    known = complete(rows, plan)
    later = after_cutover(known, plan)
    if plan.part is not None:
        store = plan.part.guarded(store)
    with snapshot_of(plan, store) if state is None else nullcontext() as start:
        windows = windows_of(plan, store, before, start, now)
    group = sort_rows(later, plan, windows.bucket.key_kind)
    with np.errstate(all="ignore"):  # such as the means of frames without values
        done = windows.advance(group)
        gone = windows.expire(watermark)
    before_cutover = len(known.times) - len(later.times)
    incomplete = windows.incomplete(group.times[done.line])
    counts = counts_of(plan, read, before_cutover, done, incomplete)
    if plan.temporary:
        return Advanced(b"", results_of(plan, group, done, gone), counts)
    snapshot = windows.keyed.checkpoint(wait=False)
    if plan.part is not None:
        plan.part.write(store, snapshot)
    store.hurry()
    # Compute the results while pages are being written; they are durable only after the flush.
    found = results_of(plan, group, done, gone)
    after = State(plan.buckets, plan.fixed, snapshot).encode()
    timer = windows.timer(watermark)
    store.flush()
    return Advanced(after, found, counts, timer, windows.promotions, windows.merges)


# --- counts and rows ------------------------------------------------------------------------------


def counts_of(
    plan: Plan, read: int, before_cutover: int, done: Advance, incomplete: int
) -> RowCounts:
    """Return the counts of rows, including rows before the cutover and rows ahead."""
    options = plan.options
    late = 0 if done.late is None else int(done.late.sum())
    missing, ahead = len(done.missing), 0 if done.ahead is None else int(done.ahead.sum())
    asked = 0 if done.questions is None else len(done.questions)
    taken = len(done.line) + len(done.retracted) + asked
    invalid = read - before_cutover - ahead - taken - late - missing
    dropped = before_cutover + invalid + missing
    dropped += sum(n for n, mark in ((late, LATE), (ahead, AHEAD)) if mark not in options.marks)
    return RowCounts(read, dropped, late, invalid, missing, incomplete, ahead)


def results_of(plan: Plan, group: Sorted, done: Advance, gone: Expired | None) -> pa.Table:
    """Return all rows of the result."""
    options = plan.options
    monoid, found = plan.monoid, done.found
    if options.peers and len(found):
        found = _of_peers(plan, found, group.times[done.line[found.at]])
    last = options.emit == "last"
    if last and options.trigger is not None:
        found = found.take(monoid, found.lasts)
    if last and gone is not None and (options.period is not None or options.idle == "emit"):
        of_gone = done.keys.find(gone.table.keys)  # keys with later events
        found = found.take(monoid, np.flatnonzero(~np.isin(found.of, of_gone[of_gone >= 0])))
    masks = {LATE: done.late, AHEAD: done.ahead}
    aside = {
        mark: group.rows.filter(pa.array(mask)) for mark, mask in masks.items() if mask is not None
    }
    gone_out = group.rows.take(pa.array(done.retracted)) if len(done.retracted) else None
    if options.period is not None:
        parts = [_at_boundaries(plan, done.keys, found)]
        if gone is not None and gone.due is not None:
            due = gone.due.take(monoid, gone.due.lasts) if last else gone.due
            parts.append(_at_boundaries(plan, gone.table.keys, due))
        return _marked(plan, pa.concat_tables(parts), aside)
    again = None
    if options.emit_updates and (found.at < 0).any():
        again, found = (
            found.take(monoid, np.flatnonzero(is_old)) for is_old in (found.at < 0, found.at >= 0)
        )
    rows, places, outputs = group.rows, done.line[found.at], found.outputs
    if done.questions is not None:
        places, outputs = _with_answers(plan, places, outputs, done.questions)
    if len(places) < rows.num_rows or (places[1:] < places[:-1]).any():
        rows = rows.take(pa.array(places))
    rows = _with_results(plan, rows, outputs)
    if options.idle == "emit":
        rows = _with_emptied(plan, rows, found.at, done, group, gone)
    corrected = None if again is None else _given_again(plan, group, done, again, rows.schema)
    return _marked(plan, rows, aside, corrected, gone_out)


def _with_answers(
    plan: Plan, places: Ints, outputs: list[Rows], questions: Questions
) -> tuple[Ints, list[Rows]]:
    """Return the places of events and questions among the rows, in order, and their results."""
    schema, every = plan.monoid.outputs, np.concatenate((places, questions.at))
    order, joined = np.argsort(every, kind="stable"), []
    for of_events, answers in zip(outputs, questions.outputs, strict=True):
        room = schema.new(len(every))
        schema.put_many(room, 0, of_events)
        schema.put_many(room, len(places), answers)
        joined.append(schema.take(room, order))
    return every[order], joined


def _of_peers(plan: Plan, found: Found, times: Ints) -> Found:
    """Return results in which, for windows with ties, all peers have the last peer's result."""
    ends = np.flatnonzero(np.append((np.diff(found.of) != 0) | (np.diff(times) != 0), True))
    last = np.repeat(ends, np.diff(ends, prepend=-1))
    frames, outputs = plan.options.windows.values(), plan.monoid.outputs
    results = [
        outputs.take(rows, last) if frame.ties == "peers" else rows
        for frame, rows in zip(frames, found.outputs, strict=True)
    ]
    return replace(found, outputs=results)


def _with_results(plan: Plan, rows: pa.Table, outputs: Sequence[Rows]) -> pa.Table:
    columns = rows.column_names
    for window, of_window in zip(plan.options.windows, outputs, strict=True):
        for alias, column in plan.monoid.results(of_window).items():
            name = result_name(alias, window)
            column = to_arrow(column, plan.results[name], name, plan.options.nan == "propagate")
            rows = rows.append_column(name, column)
    return rows.select([*columns, *plan.results])


def _at_boundaries(plan: Plan, keys: Keys, found: Found) -> pa.Table:
    assert found.times is not None or not len(found)
    moments = np.zeros(0, np.int64) if found.times is None else found.times
    rows = _rows_of_keys(plan, [keys.at(place) for place in found.of.tolist()], moments)
    return _with_results(plan, rows, found.outputs)


def _given_again(
    plan: Plan, group: Sorted, done: Advance, again: Found, schema: pa.Schema
) -> pa.Table:
    """Return the rows for updates of earlier events; linear."""
    options = plan.options
    assert again.times is not None
    values: dict[str, Any] = plan.monoid.given(again.rows)
    # Take the key columns from any row of the key.
    any_row = np.append(done.line, -1)[done.bounds[again.of]]
    alone = np.flatnonzero(np.diff(done.bounds)[again.of] == 0)  # these keys have only retractions
    any_row[alone] = done.retracted[np.searchsorted(done.retracted_of, again.of[alone])]
    of_keys = group.rows.take(pa.array(any_row))
    columns = {name: of_keys.column(name) for name in options.keys}
    columns[options.on] = _as_times(plan, again.times, schema)
    if options.retractions is not None:
        columns[options.retractions] = pa.repeat(pa.scalar(False), len(again))
    for name in plan.values:
        if name not in columns:
            columns[name] = as_input(values[name], schema.field(name).type)
    rows = pa.table({name: columns[name] for name in group.rows.column_names})
    return _with_results(plan, rows, again.outputs).cast(schema)


def _with_emptied(
    plan: Plan, rows: pa.Table, given: Ints, done: Advance, group: Sorted, gone: Expired | None
) -> pa.Table:
    """Return the rows, whose places are ``given``, with rows for windows that became empty."""
    options, lifetime = plan.options, plan.options.lifetime
    keys: list[Any] = []
    moments: list[int] = []
    before: list[int] = []
    assert lifetime is not None
    if options.settings.lateness is None and options.emit != "last" and done.last is not None:
        # If events may be late, no such moment is final.
        times = group.times[done.line]
        previous = np.empty_like(times)
        previous[1:] = times[:-1]
        previous[done.bounds[:-1]] = done.last
        at = np.flatnonzero(times > previous + lifetime)
        of = np.searchsorted(done.bounds, at, side="right") - 1
        keys += [done.keys.at(key) for key in of.tolist()]
        moments += (previous[at] + lifetime).tolist()
        before += at.tolist()
    if gone is not None:
        idle = gone.table.keys
        by_key = sorted(range(len(idle)), key=idle.at)
        keys += [idle.at(place) for place in by_key]
        moments += gone.moments[by_key].tolist()
        before += [len(done.line)] * len(by_key)
    if not keys:
        return rows
    emptied = _rows_of_keys(plan, keys, np.array(moments))
    outputs = [empties(plan.monoid, len(keys))] * len(options.windows)
    emptied = _with_results(plan, emptied, outputs).select(rows.column_names)
    count, places = rows.num_rows, np.searchsorted(given, before)
    order = np.insert(np.arange(count), places, count + np.arange(len(keys)))
    return pa.concat_tables([rows, emptied]).take(pa.array(order))


def _marked(
    plan: Plan,
    rows: pa.Table,
    aside: Mapping[str, pa.Table],
    again: pa.Table | None = None,
    retracted: pa.Table | None = None,
) -> pa.Table:
    """Return all rows, with columns that mark updates and the rows that are set aside."""
    options = plan.options
    parts = {"": rows}
    if again is not None:
        parts[CORRECTED] = again
    if retracted is not None and options.retractions is not None:
        parts[options.retractions] = _without_results(plan, retracted)
    for mark, others in aside.items():
        if mark in options.marks:
            parts[mark] = _without_results(plan, others)
    for mark in options.marks:
        for name, part in parts.items():
            parts[name] = part.append_column(mark, pa.repeat(pa.scalar(name == mark), len(part)))
    return pa.concat_tables(parts.values())


def _without_results(plan: Plan, rows: pa.Table) -> pa.Table:
    for alias, kind in plan.results.items():
        rows = rows.append_column(alias, pa.nulls(rows.num_rows, kind))
    return rows


def _rows_of_keys(plan: Plan, keys: Sequence[Any], times: Ints) -> pa.Table:
    """Return the input's columns in rows without an event: null except for keys and times."""
    options = plan.options
    columns = {field.name: pa.nulls(len(keys), field.type) for field in plan.schema}
    if keys:
        types = [plan.schema.field(name).type for name in options.keys]
        columns |= zip(options.keys, key_columns(keys, types), strict=True)
    columns[options.on] = _as_times(plan, times, plan.schema)
    return pa.table({name: columns[name] for name in plan.columns})


def _as_times(plan: Plan, micros: Ints, schema: pa.Schema) -> pa.Array:
    options = plan.options
    return from_micros(micros, schema.field(options.on).type, options.time_unit)
