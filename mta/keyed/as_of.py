"""Windows as of the times of other rows: a point-in-time table of aggregates.

    events      key, time, values      each is added to the window of its key
    questions   key, time              answered from the events of the key up to that time

In memory, one pass answers all questions (``moments``). With a store, events and questions are
processed in order of time, in parts (``questions``), and only the windows are retained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mta.frames.base import require_answerable
from mta.kernels.native import bounds_of, group, inverse
from mta.keyed.moments import in_lanes
from mta.keyed.table import Table
from mta.keyed.windows import KeyedWindows
from mta.monoids.base import empties


class Events(NamedTuple):
    """Events in any order; keys are small integers, and times are in microseconds."""

    keys: np.ndarray
    values: dict[str, Any]
    times: np.ndarray


def answered(
    windows: KeyedWindows, events: Events, keys: np.ndarray, moments: np.ndarray, chunk: int
) -> Any:
    """Return the results of keys at moments, in windows that contain only these events.

    With a store, a batch has ``chunk`` rows. Costs a sort by key and time, then 0.2 us per
    question and aggregation. Raises UnsupportedOperation if a policy reads values, and the errors
    of ``KeyedWindows.extend``.
    """
    for policy in windows.bucket.kind.policies.values():
        require_answerable(policy)
    if windows.store is not None and len(events.keys) and len(events.keys) + len(keys) > chunk:
        return _in_parts(windows, events, keys, moments, chunk)
    values = events.values or range(len(events.keys))
    batch = windows.read(events.keys, values, events.times.view("M8[us]"))
    kind, monoid, times = windows.bucket.kind, windows.monoid, batch.times
    assert times is not None
    of = _places(batch.codes, events.keys, keys)
    order = by_key_and_time(batch.codes, times, len(batch.keys))
    bounds = bounds_of(np.bincount(batch.codes, minlength=len(batch.keys)))
    schema = kind.reader.inputs
    table = Table.of(schema, batch.keys, bounds, times[order], schema.take(batch.rows, order))
    known = np.flatnonzero(of >= 0)
    known = known[by_key_and_time(of[known], moments[known], len(batch.keys))]
    outputs = [empties(monoid, len(of)) for _ in kind.policies]
    found, _ = in_lanes(kind, monoid, table, of[known], moments[known])
    for out, part in zip(outputs, found, strict=True):
        monoid.outputs.put_at(out, known, part)
    return windows.as_columns(outputs)


def _in_parts(
    windows: KeyedWindows, events: Events, keys: np.ndarray, moments: np.ndarray, chunk: int
) -> Any:
    """Return the same results, in parts by time; events precede questions of the same time."""
    every = np.concatenate((events.keys, keys))
    times = np.concatenate((events.times, moments))
    asks = np.arange(len(every)) >= len(events.keys)
    order = np.argsort(times, kind="stable")
    parts, answers = [], []
    for start in range(0, len(order), chunk):
        rows = order[start : start + chunk]
        is_asked = asks[rows]
        # The values of questions are ignored, so use those of the first event.
        of_events = np.where(is_asked, 0, rows)
        values = {name: taken(column, of_events) for name, column in events.values.items()}
        moment, given = times[rows].view("M8[us]"), values or range(len(rows))
        batch = windows.read(every[rows], given, moment, asks=is_asked)
        found = windows.answers(batch)
        windows.checkpoint(wait=False)
        parts.append(rows[found.at] - len(events.keys))
        answers.append(windows.as_columns(found.outputs))
    return joined(answers, inverse(np.concatenate(parts)))


def taken(column: Any, rows: np.ndarray) -> Any:
    """Return the values of a column at some rows."""
    return [column[row] for row in rows.tolist()] if isinstance(column, list) else column.take(rows)


def joined(parts: Sequence[Any], order: np.ndarray) -> Any:
    """Concatenate the results of parts, then reorder them."""
    if isinstance(parts[0], dict):
        return {name: joined([part[name] for part in parts], order) for name in parts[0]}
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        concatenate: Any = np.ma.concatenate
        return concatenate(parts)[order]
    return np.concatenate(parts)[order]


def _places(codes: np.ndarray, keys: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return the place of each requested key, or -1; ``codes`` are the places of ``keys``."""
    most = max(int(keys.max(initial=-1)), int(asked.max(initial=-1))) + 1
    place = np.full(most, -1)
    place[keys] = codes
    found: np.ndarray = place[asked]
    return found


def by_key_and_time(codes: np.ndarray, times: np.ndarray, most: int) -> np.ndarray:
    """Return the order by key, then time; ties keep their order. Linear if times are sorted."""
    if (times[1:] >= times[:-1]).all():
        return group(codes, most)
    order = np.argsort(times, kind="stable")
    found: np.ndarray = order[group(codes[order], most)]
    return found
