"""The results of a window that slides over events in memory, computed in the cheapest way.

    rows      0 1 2 3 4 5 6 7        the fold of rows [f, i] for some rows i
    fronts        0 0 2 3 3 7        from row 2 on: [0, 2] [0, 3] [2, 4] [3, 5] [3, 6] [7, 7]

Fronts must never decrease. There are four ways:

- monoids that compute results from ranges of events (``mta.monoids.ranges``): no combines
- monoids with a compiled kernel: *Two-Stacks*, row by row; three combines per row
- other monoids of columns: a suffix and a prefix within blocks (``blocks``); four combines
- monoids of plain functions: Two-Stacks in Python

Each part of a product is computed in the cheapest way for its monoid.

Rows of many keys may follow each other, as no range crosses from one key's rows to another's:
fronts do not decrease where a new key starts, and no range reads another key's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mta.columns.schemas import Rows, Schema
from mta.folds.blocks import Blocks, rows_at
from mta.kernels import native
from mta.kernels.native import Sweep
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.parts import Parts
from mta.monoids.ranges import RangeFolds

#: Front positions after each event of a run: increasing by one, or any that never decrease.
EachFront = range | np.ndarray
#: Front positions after each event, or one position for all events.
Fronts = int | EachFront


def as_array(fronts: Fronts, count: int) -> np.ndarray:
    """Return the front after each of ``count`` events."""
    if isinstance(fronts, range):
        return np.arange(fronts.start, fronts.stop)[:count]
    return np.full(count, fronts) if isinstance(fronts, int) else np.asarray(fronts)[:count]


def count_below(fronts: EachFront, position: int) -> int:
    """Return how many fronts are before a position."""
    if isinstance(fronts, range):
        return min(max(position - fronts.start, 0), len(fronts))
    return int(fronts.searchsorted(position))


def not_before(oldest: int, fronts: Fronts, count: int) -> EachFront:
    """Return the front after each of ``count`` events, at least ``oldest``.

    >>> not_before(4, np.array([3, 4, 6]), 3).tolist()
    [4, 4, 6]
    """
    if isinstance(fronts, int):
        return np.full(count, max(fronts, oldest))
    return fronts if fronts[0] >= oldest else np.maximum(as_array(fronts, count), oldest)


def moved(fronts: EachFront, distance: int) -> EachFront:
    """Shift fronts by a distance."""
    if isinstance(fronts, range):
        return range(fronts.start + distance, fronts.stop + distance)
    return fronts + distance if distance else fronts


def joined(ranges: Sequence[range]) -> range | None:
    """Join consecutive ranges into one; None if they are not consecutive.

    >>> joined([range(3, 5), range(5, 6)])
    range(3, 6)
    """
    if all(a.stop == b.start for a, b in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop)
    return None


class SlidingFolds:
    """Lifted events and their folds; multiple windows share what is computed."""

    def __init__(self, monoid: AbstractMonoid, lifted: Rows, count: int) -> None:
        self.monoid, self.lifted, self.count = monoid, lifted, count

    @cached_property
    def _parts(self) -> list[SlidingFolds]:
        assert isinstance(self.monoid, Parts)
        parts = zip(self.monoid.monoids, self.lifted, strict=True)
        return [SlidingFolds(monoid, rows, self.count) for monoid, rows in parts]

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(self.monoid, self.lifted, self.count)

    @cached_property
    def prefixes(self) -> Rows:
        """The folds of the first 1, 2, ... rows; one combine per row."""
        return self.monoid.prefixes(self.lifted, self.count, self.monoid.identity)

    def suffixes(self, start: int, right: Partial) -> Rows:
        """Fold from ``start`` and each later row to the end, then ``right``; 1 combine per row."""
        rows, count = self.monoid.partials.cut(self.lifted, start, self.count), self.count - start
        return self.monoid.suffixes(rows, count, right)

    def upto(self, stops: EachFront) -> Rows:
        """Fold the rows before each stop, as a view if possible."""
        if stops[0]:
            return rows_at(self.monoid, self.prefixes, stops, 1)
        return rows_at(self.monoid, self._from_none, stops, 0)

    @cached_property
    def _from_none(self) -> Rows:
        """The folds of the first 0, 1, 2, ... rows."""
        parts = self.monoid.identity_row, self.prefixes
        return self.monoid.partials.joined(parts, (1, self.count))

    def between(self, fronts: EachFront, stops: EachFront) -> Rows:
        """Fold from each front to the row before its stop; fronts and stops never decrease.

        No range may be empty. At most four combines per row from the first front; only monoids of
        plain functions combine row by row.

        >>> from mta import Sum
        >>> rows = SlidingFolds(Sum(), np.array([1.0, 2.0, 3.0, 4.0]), 4)
        >>> rows.between(np.array([0, 0, 1]), np.array([1, 3, 3])).tolist()
        [1.0, 6.0, 5.0]
        """
        if isinstance(self.monoid, Parts):
            return tuple([part.between(fronts, stops) for part in self._parts])
        if not fronts[-1] and not self.monoid.folds_ranges:  # every range starts at the first row
            return self.upto(stops)
        if self.monoid.folds_ranges:
            ends = as_array(stops, len(stops))
            return RangeFolds(self.monoid, self.lifted, as_array(fronts, len(fronts)), ends)
        if not self.monoid.is_columnar:
            return two_stacks(self.monoid, self.lifted, fronts, stops)
        found = self._swept(fronts, stops)
        return self._blocks.folds(fronts, stops) if found is None else found

    def _swept(self, fronts: EachFront, stops: EachFront) -> Rows | None:
        """Like ``between``, by a kernel that goes row by row; 3 combines per row."""
        monoid = self.monoid
        if not has_kernel(monoid):
            return None
        schema, begin = monoid.partials, int(fronts[0])
        one, found = monoid.identity_row, schema.new(len(fronts))
        rows = schema.cut(self.lifted, begin, int(stops[-1]))
        first = int(stops[0]) - 1 - begin
        sweep = Sweep(
            rows, one, 0, 0, first, moved(fronts, -begin), moved(stops, -begin), one, turns=True
        )
        return None if sweep_into(sweep, monoid, found, lowered=False) is None else found


def sweep_into(sweep: Sweep, monoid: AbstractMonoid, out: Rows, lowered: bool) -> Sweep | None:
    """Write a sweep's partials or results to ``out``; return the state from which to continue.

    None if the monoid has no kernel or the kernel cannot process these rows.
    """
    if isinstance(monoid, Parts):
        found = []
        for part, of_part in enumerate(monoid.monoids):
            of_columns = sweep._replace(
                rows=sweep.rows[part], stack=sweep.stack[part], right=sweep.right[part]
            )
            swept = sweep_into(of_columns, of_part, out[part], lowered)
            if swept is None:
                return None
            found.append(swept)
        stack, right = tuple([part.stack for part in found]), tuple([part.right for part in found])
        return found[0]._replace(rows=sweep.rows, stack=stack, right=right)
    kernel = monoid.kernel if isinstance(monoid, ColumnarMonoid) else None
    return None if kernel is None else native.sweep(kernel, sweep, out, lowered)


def has_kernel(monoid: AbstractMonoid) -> bool:
    """Whether a kernel can sweep over a monoid's rows."""
    if isinstance(monoid, Parts):
        return all(map(has_kernel, monoid.monoids))
    kernel = monoid.kernel if isinstance(monoid, ColumnarMonoid) else None
    return native.compiled is not None and kernel is not None


def two_stacks(monoid: AbstractMonoid, lifted: Rows, fronts: EachFront, stops: EachFront) -> Rows:
    """Like ``SlidingFolds.between``, row by row, for plain functions; 3 combines per row.

    Rows before the cut are in a stack of suffix folds, and later rows in one aggregate. When a
    range starts after the cut, all rows before its last one become the stack. So a range that
    starts at the cut, such as each of a window that only grows, costs one combine per row.
    """
    schema, combine, first, last = monoid.partials, monoid.combine, int(fronts[0]), int(stops[-1])
    lifted = schema.cut(lifted, first, last)
    rows = schema.listed(lifted, last - first)
    found, stack, right = list[Partial](), list[Partial](), monoid.identity
    origin = cut = end = -1
    for start, stop in zip(_listed(fronts, first), _listed(stops, first), strict=True):
        if start > cut:
            origin, cut, end = start, stop - 1, stop
            right, size = rows[cut], cut - start
            if size:
                older = schema.cut(lifted, start, cut - 1)
                stack = schema.listed(monoid.suffixes(older, size - 1, rows[cut - 1]), size)
        while end < stop:
            right = combine(right, rows[end])
            end += 1
        found.append(right if start == cut else combine(stack[start - origin], right))
    return schema.gathered(found)


def _listed(places: EachFront, origin: int) -> list[int]:
    """Return places, counted from an origin, as Python integers."""
    listed: list[int] = (as_array(places, len(places)) - origin).tolist()
    return listed


class Events(NamedTuple):
    """Consecutive events: their values as input rows, and their times if stored."""

    rows: Rows
    times: np.ndarray | None
    size: int

    def cut(self, schema: Schema, start: int, stop: int) -> Events:
        """Return the events from ``start`` to ``stop``, as views."""
        times = None if self.times is None else self.times[start:stop]
        return Events(schema.cut(self.rows, start, stop), times, stop - start)

    def take(self, schema: Schema, places: np.ndarray) -> Events:
        """Return the events at some places."""
        times = None if self.times is None else self.times[places]
        return Events(schema.take(self.rows, places), times, len(places))
