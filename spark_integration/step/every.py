"""Results now and then: ``every``, for a window's trigger in Spark (``mta.triggers``).

every k events     the row of each k-th event of a key, in the order in which micro-batches bring
                   events, those of one micro-batch by time
every period       a row for each boundary: key, time, results, and nulls for all else

A trigger adds nothing to the state. How many events a key has had is in its handle, and a boundary
is due with the first event later than it, so all up to the key's last event have been given. Of a
key that is forgotten (``silence.py``) also those up to where its windows are empty are given then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mta import EveryCount, EveryPeriod, SharedWindows, TriggeredWindow
from mta.triggers.rules import Progress
from mta.triggers.shared import SharedDue
from mta.triggers.triggered import Due
from spark_integration.plan import Plan
from spark_integration.step.columns import Ints, from_micros, key_columns, to_arrow
from spark_integration.step.silence import end_of
from spark_integration.step.states import Saved
from spark_integration.step.windows import AnyWindow, by_column, events_of


def _triggered(window: AnyWindow, plan: Plan, before: Saved | None) -> TriggeredWindow | SharedDue:
    """A key's window, or several, with the plan's trigger, where it has come to."""
    every, newest = plan.every, None if before is None else before.last_time
    assert every is not None
    if isinstance(window, SharedWindows):
        assert isinstance(every, EveryPeriod)
        return SharedDue(window, every, newest)
    triggered = TriggeredWindow(window, every)
    events = events_of(window)
    given = events - events % every.count if isinstance(every, EveryCount) else None
    triggered.progress = Progress(events, newest, given)
    return triggered


def results_due(
    window: AnyWindow, plan: Plan, before: Saved | None, values: Any, moments: Any
) -> list[Due]:
    """A key's rows into its window, and the results that they make due.

    In a batch query also that of the period in which the rows end, as no more will come.
    """
    triggered = _triggered(window, plan, before)
    due = triggered.extend(values, moments)
    ends = plan.temporary and plan.by_boundaries
    return [due, triggered.flush()] if ends else [due]


def results_of_silence(window: AnyWindow, plan: Plan, before: Saved) -> list[Due]:
    """The results up to the first boundary at which the window of a silent key is empty."""
    assert plan.lifetime is not None and plan.period is not None
    end = end_of(before.last_time, plan.lifetime, plan.period)
    triggered = _triggered(window, plan, before)
    assert isinstance(triggered, SharedDue) or triggered.trigger.needs_times
    return [triggered.advance(np.datetime64(end, "us"))]


def places_due(every: EveryCount, before: int, count: int) -> Ints:
    """Which of the next ``count`` events of a key are due, after ``before`` of them.

    >>> places_due(EveryCount(3), 4, 7).tolist()
    [1, 4]
    """
    return np.arange(-(before + 1) % every.count, count, every.count)


def places_of(nth: Ints, window: AnyWindow) -> Ints:
    """Which rows of its last batch the n-th accepted ones are."""
    accepted = window.last_accepted
    return nth if accepted is None else np.flatnonzero(accepted)[nth]


class Boundaries:
    """The rows of boundaries, grown key by key."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        #: What is due of each key, in order of time.
        self._due: dict[bytes, list[Due]] = {}

    def add(self, key: bytes, found: list[Due]) -> None:
        """Results of a key; with output "last" its last one alone counts."""
        for moments, results in found:
            if not len(moments):
                continue
            columns = by_column(results, self._plan)
            if self._plan.output == "last":
                self._due[key] = [
                    Due(moments[-1:], {alias: column[-1:] for alias, column in columns.items()})
                ]
            else:
                self._due.setdefault(key, []).append(Due(moments, columns))

    def table(self) -> pa.Table:
        """A row for each."""
        plan, found = self._plan, [due for each in self._due.values() for due in each]
        keys = [key for key, each in self._due.items() for due in each for _ in due.moments]
        times = [np.zeros(0, "M8[us]"), *(due.moments for due in found)]
        columns = rows_of_keys(plan, keys, np.concatenate(times).view("i8"))
        for alias, kind in plan.results.items():
            columns[alias] = to_arrow([due.results[alias] for due in found], kind, alias)
        return pa.table({name: columns[name] for name in (*plan.columns, *plan.results)})


def rows_of_keys(plan: Plan, keys: Sequence[bytes], times: Ints) -> dict[str, pa.Array]:
    """The input's columns in rows that belong to no event: null but for keys and times."""
    schema = plan.row_schema
    columns = {field.name: pa.nulls(len(keys), field.type) for field in schema}
    if keys:
        types = [schema.field(name).type for name in plan.keys]
        columns |= zip(plan.keys, key_columns(keys, types), strict=True)
    columns[plan.time] = from_micros(times, schema.field(plan.time).type)
    return columns
