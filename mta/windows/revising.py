"""Results of earlier events: those that a batch changes, and the current ones of stored events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import NotRevisable
from mta.evaluators.runs import results_of
from mta.folds.sliding import Events
from mta.logs.base import Chunk
from mta.logs.finger_tree.log import FingerTreeLog
from mta.monoids.product import Observed
from mta.windows.checks import by_time
from mta.windows.engine import Engine
from mta.windows.intake import counting


class Revised(NamedTuple):
    """Events with new or changed results, in order of time."""

    times: np.ndarray
    rows: Rows
    """The values of the events."""
    outputs: Rows
    """The results of the events."""
    is_new: np.ndarray
    """Whether each event is in this batch."""


def revised(engine: Engine[Any], values: Any, times: Any) -> tuple[Revised, np.ndarray]:
    """Add a batch; return every result that is new or may have changed (``Window.revise``).

    The second item is the index of each event in the batch, or -1.
    """
    revisable(engine)
    rows, micros, count = engine.intake.admit_batch(values, times)
    assert micros is not None
    accepted, order, parts = engine.intake.last_accepted, engine.intake.order, list[Revised]()
    given = np.arange(count) if accepted is None else np.flatnonzero(accepted)
    if order is not None:
        given = given[order]
    with counting(engine, count):
        for part in revise(engine, rows, micros, count):
            parts.append(part)
            engine.went(int(part.times[part.is_new][-1]))
    is_new = np.concatenate([np.zeros(0, bool), *(part.is_new for part in parts)])
    index = np.full(len(is_new), -1)
    index[is_new] = given
    moments = np.concatenate([np.zeros(0, "<i8"), *(part.times for part in parts)])
    monoid, sizes = engine.monoid, [0, *(len(part.times) for part in parts)]
    none, no_outputs = monoid.inputs.new(0), monoid.outputs.new(0)
    columns = monoid.inputs.joined([none, *(part.rows for part in parts)], sizes)
    outputs = monoid.outputs.joined([no_outputs, *(part.outputs for part in parts)], sizes)
    if isinstance(monoid, Observed):
        columns = monoid.unstamped(columns)
    return Revised(moments, columns, outputs, is_new), index


def revise(engine: Engine[Any], rows: Rows, times: np.ndarray, count: int) -> Iterator[Revised]:
    """Add a batch in order of time to an only window; yield every new or changed result.

    These are the results of the oldest new event and all later events, run by run. Raises
    NotRevisable if events arrive in order, or if the cuts of the frame are not predictable.
    """
    log, start = revisable(engine), 0
    while start < count:
        stop = log.run_end(times, start, min(start + log.most, count))
        new = Events(engine.monoid.inputs.cut(rows, start, stop), times[start:stop], stop - start)
        # Later stored events belong to the run that precedes them.
        following = int(times[stop]) if stop < count else None
        chunk, outputs, is_new = engine.add_run(new, following)
        assert chunk.times is not None
        mask = np.ones(chunk.count, bool)
        if is_new is not None:
            mask[: len(is_new)] = is_new
        yield Revised(chunk.times, chunk.rows, outputs, mask)
        start = stop


def again(engine: Engine[Any], time: int, until: int | None = None) -> Revised | None:
    """Return the current results of an only window's events from ``time`` to before ``until``.

    Leaves out events that have left for good, whose windows are not known. For frames on positions.
    O(1) whole-group combines per event, and one page per leaf.
    """
    log, cursor = revisable(engine), engine.cursor(engine.frame)
    cursor.floor = engine.windows[""].floor
    first = max(log.first_after(time - 1), cursor.oldest)
    stop = log.back if until is None else log.first_after(until - 1)
    if first >= stop:
        return None
    chunk: Chunk = log.stored(first, stop)
    outputs = results_of(cursor, chunk)
    assert chunk.times is not None
    return Revised(chunk.times, chunk.rows, outputs, np.zeros(chunk.count, bool))


def revisable(engine: Engine[Any]) -> FingerTreeLog:
    """Return the log, if the results of its events may change and can be computed."""
    log, frame = engine.structure(), engine.frame
    if not log.by_time:
        raise NotRevisable(f"{log.name} takes events in order, so that no result ever changes")
    if not frame.predictable:
        raise NotRevisable(f"{frame!r} cannot return earlier results")
    return by_time(log, FingerTreeLog)
