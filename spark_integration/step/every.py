"""Results now and then: ``every``, for a window's trigger in Spark (``mta.triggers``).

every k events     the row of each k-th event of a key (see also ``counted.py``)
every period       a row for each boundary: key, time, results, and nulls for all else

A trigger adds nothing to the state. How many events a key has had is in its handle, and a boundary
is due with the first event later than it, so all up to the key's last event have been given. Of a
key that is forgotten (``silence.py``) also those up to where its windows are empty are given then.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mta import EveryCount, EveryPeriod, SharedWindows, Trigger, TriggeredWindow
from mta.triggers.rules import Progress
from mta.triggers.shared import SharedDue
from mta.triggers.triggered import Due
from spark_integration.errors import InvalidRequest
from spark_integration.plan import Plan
from spark_integration.step.rows import key_columns
from spark_integration.step.silence import end_of
from spark_integration.step.windows import AnyWindow, by_column

if TYPE_CHECKING:
    from spark_integration.step.states import Saved

Every = int | str | timedelta | None


def read_every(every: Every) -> Trigger | None:
    """When results are wanted; None for after every event. Raises InvalidRequest."""
    if every is None:
        return None
    try:
        return EveryPeriod(every) if isinstance(every, (str, timedelta)) else EveryCount(every)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"every is {every!r}: give a period, as '1 minute' or a timedelta, or a number of "
            "events, or leave it out"
        ) from error


def check_every(
    every: Trigger | None,
    *,
    lateness: int | None,
    silent: str = "keep",
    corrections: str = "onward",
    **_: Any,
) -> None:
    """Raises InvalidRequest where results now and then do not go with another option."""
    if every is None:
        return
    if corrections == "append":
        raise InvalidRequest(
            "corrections is 'append', but with every most rows are never given, and cannot be "
            "given again: leave corrections as it is ('onward'), or leave every out"
        )
    if not every.needs_times:
        return
    if lateness is not None:
        raise InvalidRequest(
            "every is a period, but with allowed_lateness an event may come after the result of "
            "its boundary: give a number of events, as every=100, or leave one of them out"
        )
    if silent == "emit":
        raise InvalidRequest(
            "silent is 'emit', but with a period for every the boundaries tell when a window is "
            "empty: set silent='drop', or give a number of events, as every=100"
        )


def _triggered(window: AnyWindow, plan: Plan, before: Saved | None) -> TriggeredWindow | SharedDue:
    """A key's window, or several, with the plan's trigger, where it has come to."""
    every, newest = plan.every, None if before is None else before.last_time
    assert every is not None
    if isinstance(window, SharedWindows):
        assert isinstance(every, EveryPeriod)
        return SharedDue(window, every, newest)
    triggered = TriggeredWindow(window, every)
    events = window.structure.back
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

    def table(self, convert: Any) -> pa.Table:
        """A row for each; ``convert`` makes results a column of a type."""
        plan, found = self._plan, [due for each in self._due.values() for due in each]
        keys = [key for key, each in self._due.items() for due in each for _ in due.moments]
        count = len(keys)
        assert plan.schema is not None
        schema = plan.schema
        columns = {field.name: pa.nulls(count, field.type) for field in schema}
        if count:
            types = [schema.field(name).type for name in plan.keys]
            columns |= zip(plan.keys, key_columns(keys, types), strict=True)
        times = [np.zeros(0, "M8[us]"), *(due.moments for due in found)]
        moments = pa.array(np.concatenate(times).astype("i8"), pa.int64())
        columns[plan.time] = moments.cast(schema.field(plan.time).type)
        for alias, kind in plan.results.items():
            parts = [convert(_fitting(due.results[alias], kind), kind) for due in found]
            columns[alias] = pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
        return pa.table({name: columns[name] for name in (*plan.columns, *plan.results)})


def _fitting(results: np.ndarray, kind: pa.DataType) -> np.ndarray:
    """Results of which some may be those of an empty window: whole numbers have no NaN."""
    if not pa.types.is_integer(kind) or results.dtype.kind != "f":
        return results
    return np.array([None if r != r else int(r) for r in results.tolist()], dtype=object)
