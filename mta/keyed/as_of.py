"""Events' windows as of the times of other rows: a point-in-time table of aggregates.

    events      key, time, values      in windows, key by key
    questions   key, time              each is answered by the events of its key up to its time

In memory all events are laid out once, and all questions answered together (``moments``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mta.errors import UnsupportedOperation
from mta.kernels.segments import bounds_of, group
from mta.keyed.moments import in_lanes
from mta.keyed.table import Table, empties
from mta.keyed.windows import KeyedWindows


class Events(NamedTuple):
    """Events in no order: their keys as small numbers, values by column, times."""

    keys: np.ndarray
    values: dict[str, Any]
    times: np.ndarray


def answered(windows: KeyedWindows, events: Events, keys: np.ndarray, moments: np.ndarray) -> Any:
    """Results at moments of keys, of windows that have no events but these.

    Sorts events and questions by key and time, then 0.2 us per question and aggregation. Raises
    UnsupportedOperation where a policy looks at values, and as ``KeyedWindows.extend``.
    """
    require_positions(windows)
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


def _places(codes: np.ndarray, keys: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The place of each key that is asked for, -1 of one without events; ``codes`` are of keys."""
    most = max(int(keys.max(initial=-1)), int(asked.max(initial=-1))) + 1
    place = np.full(most, -1)
    place[keys] = codes
    found: np.ndarray = place[asked]
    return found


def require_positions(windows: KeyedWindows) -> None:
    """Raises UnsupportedOperation where a policy looks at values."""
    for policy in windows.bucket.kind.policies.values():
        if not policy.predictable:
            raise UnsupportedOperation(
                f"{policy!r} looks at values, and cannot be asked for a moment between events: "
                "with at= take windows by count, time or calendar"
            )


def by_key_and_time(codes: np.ndarray, times: np.ndarray, most: int) -> np.ndarray:
    """The order by key, then by time, rows of one time as they stand; linear in sorted times."""
    if (times[1:] >= times[:-1]).all():
        return group(codes, most)
    order = np.argsort(times, kind="stable")
    found: np.ndarray = order[group(codes[order], most)]
    return found
