"""What a batch with late events changes: new results, and earlier ones that are no longer valid.

>>> from mta import CountWindow, Sum, Window
>>> window = Window(Sum(), CountWindow(2), name="late", allowed_lateness=60)
>>> window.extend([1.0, 4.0], [10, 30]).tolist()
[1.0, 5.0]
>>> revision = window.revise([2.0, 8.0], [20, 40])
>>> revision.index.tolist(), revision.results.tolist()
([0, -1, 1], [3.0, 6.0, 12.0])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mta.columns.reading import as_given
from mta.errors import NotRevisable
from mta.evaluators.fiba import FiBA
from mta.monoids.product import Product
from mta.windows.engine import WindowEngine


@dataclass(frozen=True)
class Revision:
    """Events in order of time, from the oldest added one on, with their current results."""

    times: np.ndarray
    """datetime64[us]."""
    values: Any
    """A column; of a Product a dictionary of columns."""
    results: Any
    """As returned by ``Window.extend``."""
    index: np.ndarray
    """The position of the event in the batch; -1 for an earlier event."""


def revise(engine: WindowEngine, values: Any, times: Any) -> Revision:
    """Add a batch, and return every result that is new or may have changed.

    Costs what ``extend`` costs, and O(1) whole-group combines for each event later than the oldest
    added one. Raises NotRevisable, and what ``extend`` raises.
    """
    structure = engine.structure
    if not isinstance(structure, FiBA):
        raise NotRevisable(
            f"{structure.name} takes events in order, so that no result ever changes"
        )
    rows, micros, count = engine.intake.admit_batch(values, times)
    assert micros is not None
    given, parts = _places(engine, count), []
    with engine.counting(count):
        for part in structure.revise(rows, micros, count):
            parts.append(part)
            engine.went(int(part.times[part.is_new][-1]))
    is_new = np.concatenate([np.zeros(0, bool), *(part.is_new for part in parts)])
    index = np.full(len(is_new), -1)
    index[is_new] = given
    moments = np.concatenate([np.zeros(0, "<i8"), *(part.times for part in parts)])
    monoid, at = engine.monoid, 0
    columns, outputs = monoid.inputs.new(len(index)), monoid.outputs.new(len(index))
    for part in parts:
        monoid.inputs.put_many(columns, at, part.rows)
        monoid.outputs.put_many(outputs, at, part.outputs)
        at += len(part.times)
    if isinstance(engine.main, Product):
        shown = engine.main.named(columns)
    else:
        shown = as_given(columns, engine.main.inputs)
    return Revision(moments.view("M8[us]"), shown, monoid.results(outputs), index)


def _places(engine: WindowEngine, count: int) -> np.ndarray:
    """Return the positions in the batch of its accepted events, in order of time."""
    accepted, order = engine.intake.last_accepted, engine.intake.order
    places = np.arange(count) if accepted is None else np.flatnonzero(accepted)
    return places if order is None else places[order]
