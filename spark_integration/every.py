"""Results now and then: ``every``, for a window's trigger in Spark (``mta.triggers``).

every k events     the row of each k-th event of a key (see also ``counted.py``)
every period       a row for each boundary: key, time, results, and nulls for all else

A trigger adds nothing to the state. How many events a key has had is in its handle, and a boundary
is due with the first event later than it, so all up to the key's last event have been given.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mta import EveryCount, EveryPeriod, Trigger, TriggeredWindow, Window
from mta.triggered import Due
from mta.triggers import Progress

from .errors import InvalidRequest
from .plan import Plan
from .rows import key_columns

if TYPE_CHECKING:
    from .states import Saved

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
    several: bool,
    *,
    output: str,
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
    for option, given in {
        "output='last'": output == "last",
        f"silent={silent!r}": silent != "keep",
        "several windows; call sliding_aggregate for each": several,
    }.items():
        if given:
            raise InvalidRequest(f"every, a period, does not go with {option}; leave one out")
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


def results_due(window: Window, plan: Plan, before: Saved | None, values: Any, moments: Any) -> Due:
    """A key's rows into its window, and the results that they make due.

    In a batch query also that of the period in which the rows end, as no more will come.
    """
    assert plan.every is not None
    triggered = TriggeredWindow(window, plan.every)
    events = window.tree.back
    newest = None if before is None else before.last_time
    given = events - events % plan.every.count if isinstance(plan.every, EveryCount) else None
    triggered.progress = Progress(events, newest, given)
    due = triggered.extend(values, moments)
    if not (plan.temporary and plan.every.needs_times):
        return due
    rest = triggered.flush()
    results = {alias: np.concatenate((due.results[alias], rest.results[alias])) for alias in due[1]}
    return Due(np.concatenate((due.moments, rest.moments)), results)


class Boundaries:
    """The rows of boundaries, grown key by key."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keys: list[bytes] = []
        self._moments: list[np.ndarray] = [np.zeros(0, "M8[us]")]
        self._results: list[dict[str, Any]] = []

    def add(self, key: bytes, due: Due) -> None:
        """The results of a key."""
        if len(due.moments):
            self._keys += [key] * len(due.moments)
            self._moments.append(due.moments)
            self._results.append(due.results)

    def table(self, convert: Any) -> pa.Table:
        """A row for each; ``convert`` makes results a column of a type."""
        plan, count = self._plan, len(self._keys)
        assert plan.schema is not None
        schema = plan.schema
        columns = {field.name: pa.nulls(count, field.type) for field in schema}
        if count:
            types = [schema.field(name).type for name in plan.keys]
            columns |= zip(plan.keys, key_columns(self._keys, types), strict=True)
        moments = np.concatenate(self._moments).astype("i8")
        columns[plan.time] = pa.array(moments, pa.int64()).cast(schema.field(plan.time).type)
        for alias, kind in plan.results.items():
            parts = [convert(_fitting(part[alias], kind), kind) for part in self._results]
            columns[alias] = pa.concat_arrays(parts) if parts else pa.nulls(0, kind)
        return pa.table({name: columns[name] for name in (*plan.columns, *plan.results)})


def _fitting(results: np.ndarray, kind: pa.DataType) -> np.ndarray:
    """Results of which some may be those of an empty window: whole numbers have no NaN."""
    if not pa.types.is_integer(kind) or results.dtype.kind != "f":
        return results
    return np.array([None if r != r else int(r) for r in results.tolist()], dtype=object)
