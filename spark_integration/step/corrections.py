"""Rows given again, with ``corrections="append"``: events whose results a late one has changed.

What a window keeps of an event is its time and the values that aggregations read; so these, the key
and the results are what such a row has. Values come back as the input's types.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mta.windows.revision import Revision
from spark_integration.plan import Plan
from spark_integration.step.columns import as_input, from_micros, to_arrow
from spark_integration.step.rows import Sorted


class _Part(NamedTuple):
    """One key's rows: the key's number, and which events of a revision."""

    key: int
    revision: Revision
    places: npt.NDArray[np.intp]


class Corrected:
    """The rows given again, key by key."""

    def __init__(self, plan: Plan, group: Sorted) -> None:
        self._plan, self._group = plan, group
        self._parts: list[_Part] = []

    def add(self, key: int, revision: Revision, again: npt.NDArray[np.bool_]) -> None:
        """Some events of a revision of the key of a number."""
        if again.any():
            self._parts.append(_Part(key, revision, np.flatnonzero(again)))

    def table(self, schema: pa.Schema, without: Collection[bytes] = ()) -> pa.Table:
        """The rows with the columns of a schema, but for those of some keys; linear."""
        parts = [part for part in self._parts if self._group.keys[part.key] not in without]
        if not parts:
            return schema.empty_table()
        columns = [self._column(field, parts) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def _column(self, field: pa.Field, parts: list[_Part]) -> pa.Array:
        plan, name = self._plan, field.name
        if name in plan.keys:
            firsts = [self._group.bounds[part.key] for part in parts]
            rows = np.repeat(firsts, [len(part.places) for part in parts])
            return self._group.rows.column(name).take(pa.array(rows)).combine_chunks()
        if name == plan.time:
            times = [part.revision.times[part.places] for part in parts]
            return from_micros(np.concatenate(times).astype("M8[us]").view("i8"), field.type)
        if name in plan.values:
            found = [_taken(part.revision.values[name], part.places) for part in parts]
            return as_input(np.concatenate(found), field.type)
        found = [_taken(part.revision.results[name], part.places) for part in parts]
        return to_arrow(found, field.type, name)


def _taken(column: Any, places: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column[places]
    objects = np.empty(len(places), object)
    objects[:] = [column[place] for place in places.tolist()]
    return objects
