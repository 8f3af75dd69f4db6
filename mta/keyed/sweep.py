"""The windows of many keys at once: where each begins, and the folds of their events.

All keys' events stand end to end, key by key, each key's in order: *lanes*. Where a window begins
follows from positions and times alone (``CountWindow``, ``TimeWindow``, and these joined by ``|``
and ``&``), so a few searches over whole columns find it for every event of every key. No range
crosses from one lane into another, so the folds of all ranges are taken together.

Three ways, the cheapest of which is taken:

- all events in turn: as one long window slides (``SlidingFolds``);
- few events of long lanes, under operations of numpy's: each range by itself, in one pass
  (``ufunc.reduceat``);
- any other: ranges put together from blocks of 1, 2, 4, ... events (``fold_ranges``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.blocks import fold_ranges
from mta.folds.sliding import SlidingFolds
from mta.kernels.segments import first_later
from mta.monoids.base import AbstractMonoid
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.parts import Parts
from mta.monoids.ranges import RangeFolds
from mta.policies.base import AbstractPolicy, Both
from mta.policies.windows import CountWindow, TimeWindow

#: Ranges are taken one by one where all together have at most so many rows for each row there is.
_ONE_BY_ONE = 4


def is_swept(monoid: AbstractMonoid, policies: list[AbstractPolicy]) -> bool:
    """Whether windows of such policies are swept by columns."""
    return monoid.is_columnar and all(policy.foreseen for policy in policies)


@dataclass
class Lanes:
    """The events of many keys end to end; key i has the rows ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: np.ndarray
    times: np.ndarray | None

    @cached_property
    def keys(self) -> np.ndarray:
        """The key of each row."""
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    def fronts(self, policy: AbstractPolicy, rows: np.ndarray) -> np.ndarray:
        """Where each window that ends with one of some rows begins; one search a row and policy."""
        times = None if self.times is None else self.times[rows]
        return self.fronts_at(policy, self.keys[rows], rows, times)

    def fronts_at(
        self, policy: AbstractPolicy, keys: np.ndarray, rows: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        """Where windows begin that end with row ``rows`` and at ``times``, as far as there are any.

        ``keys``, which never decrease, tell whose windows they are.
        """
        found: np.ndarray = np.maximum(self._cuts(policy, keys, rows, times), self.bounds[keys])
        return found

    def _cuts(
        self, policy: AbstractPolicy, keys: np.ndarray, rows: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        if isinstance(policy, Both):
            sides = [self._cuts(p, keys, rows, times) for p in (policy.one, policy.other)]
            joined: np.ndarray = (np.maximum if policy.any_of else np.minimum)(*sides)
            return joined
        if isinstance(policy, CountWindow):
            return rows + 1 - policy.size
        assert isinstance(policy, TimeWindow) and times is not None and self.times is not None
        return first_later(self.times, self.bounds, keys, times - policy.size)


def empties(monoid: AbstractMonoid, count: int) -> Rows:
    """Outputs of so many windows without events."""
    empty = monoid.empty
    one = monoid.outputs.one(tuple(empty.values()) if isinstance(empty, dict) else empty)
    return monoid.outputs.take(one, np.zeros(count, np.intp))


def folds(
    monoid: AbstractMonoid, lifted: Rows, count: int, fronts: np.ndarray, rows: np.ndarray
) -> Rows:
    """The fold from each front to its row, both included, of which neither ever decreases.

    At most about 2 log2(longest) combines a row, fewer where all rows are asked for.
    """
    if monoid.folds_ranges:
        if isinstance(monoid, Parts):
            parts = zip(monoid.monoids, lifted, strict=True)
            return tuple([folds(part, column, count, fronts, rows) for part, column in parts])
        return RangeFolds(monoid, lifted, fronts, rows + 1)
    once = bool((rows[1:] > rows[:-1]).all())
    if len(rows) == count and once and monoid.is_columnar:
        return SlidingFolds(monoid, lifted, count).folds(fronts, 0)
    lengths = rows + 1 - fronts
    if once and _by_ufuncs(monoid) and int(lengths.sum()) <= _ONE_BY_ONE * count:
        ends = np.stack((fronts, rows + 1), axis=1).reshape(-1)
        return _reduced(monoid, lifted, ends, count)
    return fold_ranges(monoid, lifted, count, fronts, lengths)


def _by_ufuncs(monoid: AbstractMonoid) -> bool:
    if isinstance(monoid, Parts):
        return all(map(_by_ufuncs, monoid.monoids))
    return isinstance(monoid, ColumnarMonoid) and bool(monoid.ufuncs)


def _reduced(monoid: AbstractMonoid, lifted: Rows, ends: np.ndarray, count: int) -> Rows:
    """The folds of ranges, each as two ends; what lies between two ranges is folded in vain."""
    if isinstance(monoid, Parts):
        parts = zip(monoid.monoids, lifted, strict=True)
        return tuple([_reduced(part, rows, ends, count) for part, rows in parts])
    assert isinstance(monoid, ColumnarMonoid) and monoid.ufuncs
    last = len(ends) - 1 if ends[-1] == count else len(ends)  # none may be behind the last row
    if isinstance(lifted, tuple):
        columns: list[Any] = [
            ufunc.reduceat(column, ends[:last])[::2]
            for ufunc, column in zip(monoid.ufuncs, lifted, strict=True)
        ]
        return tuple(columns)
    return monoid.ufuncs[0].reduceat(lifted, ends[:last])[::2]
