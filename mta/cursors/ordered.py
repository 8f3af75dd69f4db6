"""Events in order, as cursors read them: leaves, folds of ranges, positions by time.

Whatever keeps events so can be shared by several windows: level queues (``levels.kept``), and the
tree of FiBA.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.sliding import SlidingFolds
from mta.kernels.ranks import SortedTimes
from mta.monoids.base import AbstractMonoid, Partial
from mta.pages.structure import Remembered


@dataclass(eq=False)
class Leaf:
    """A group of consecutive events: values as input rows, and times where they are kept."""

    first: int
    rows: Rows
    times: np.ndarray | None
    count: int

    @cached_property
    def sorted_times(self) -> SortedTimes:
        """The times of the events, where they are kept."""
        assert self.times is not None
        return SortedTimes(self.times)

    @property
    def stop(self) -> int:
        """The position after the last event."""
        return self.first + self.count

    def before(self, stop: int, monoid: AbstractMonoid) -> Leaf:
        """The part of it that lies before a position."""
        if stop >= self.stop:
            return self
        count = stop - self.first
        times = None if self.times is None else self.times[:count]
        return Leaf(self.first, monoid.inputs.cut(self.rows, 0, count), times, count)

    def partials(self, start: int, stop: int, monoid: AbstractMonoid) -> Rows:
        """The events of some positions, lifted."""
        rows = monoid.inputs.cut(self.rows, start - self.first, stop - self.first)
        return monoid.lift_rows(rows, stop - start)

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        """Folds from a position, and each after it, to the end, joined to ``right`` on their right.

        One combine an event.
        """
        count = self.stop - position
        return monoid.suffixes(self.partials(position, self.stop, monoid), count, right)


def suffixes_of(
    leaves: Sequence[Leaf], position: int, right: Partial, monoid: AbstractMonoid
) -> Rows:
    """As ``Leaf.suffixes``, of leaves that follow one another."""
    count = leaves[-1].stop - position
    if len(leaves) == 1:
        return leaves[0].suffixes(position, right, monoid)
    rows, at = monoid.inputs.new(count), 0
    for leaf in leaves:
        start = max(position - leaf.first, 0)
        monoid.inputs.put_many(rows, at, monoid.inputs.cut(leaf.rows, start, leaf.count))
        at += leaf.count - start
    return monoid.suffixes(monoid.lift_rows(rows, count), count, right)


class OrderedEvents(Remembered, Protocol):
    """Events by position, oldest first, as cursors read them."""

    @property
    def stamp(self) -> int:
        """Grows whenever events before the back have changed positions.

        Cursors then forget what they hold. Level queues never do that; where events may come late,
        an insertion among others does.
        """

    def leaf(self, position: int, upto: int = 0) -> Leaf:
        """The leaf that holds a position, as far as it is filled; at most a page read a level.

        Others after it that begin before ``upto`` may be in one with it. The next leaf may be
        fetched ahead.
        """

    def leaf_after(self, time: int) -> int:
        """Where the leaf begins that has the oldest event later than a time, or one before that.

        Reads no leaf; some earlier position where only a leaf could tell.
        """


class Hand(Leaf):
    """Events in hand: rows and times at positions from ``first`` on, whether stored yet or not.

    Whatever all cursors need of them is computed once, also for those that come to them later.
    """

    def __init__(
        self, monoid: AbstractMonoid, first: int, rows: Rows, times: np.ndarray | None, count: int
    ) -> None:
        super().__init__(first, rows, times, count)
        self.monoid = monoid

    @cached_property
    def sliding(self) -> SlidingFolds:
        """The events as partial aggregates, and all folds of them; one combine each, once."""
        return SlidingFolds(self.monoid, self.monoid.lift_rows(self.rows, self.count), self.count)

    def partials(self, start: int, stop: int, monoid: AbstractMonoid) -> Rows:
        return monoid.partials.cut(self.sliding.lifted, start - self.first, stop - self.first)

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        return self.sliding.suffixes(position - self.first, right)
