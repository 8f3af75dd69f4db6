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

from mta.columns.schemas import Rows, Schema
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

    def __post_init__(self) -> None:
        #: The position after the last event.
        self.stop = self.first + self.count

    @cached_property
    def sorted_times(self) -> SortedTimes:
        """The times of the events, where they are kept."""
        assert self.times is not None
        return SortedTimes(self.times)

    @property
    def searched(self) -> SortedTimes:
        """The times of the events, where they are kept, for searches that end before the last."""
        return self.sorted_times

    def pieces_of_times(self) -> Sequence[np.ndarray]:
        """The times of the events, where they are kept, as arrays that follow one another."""
        assert self.times is not None
        return [self.times]

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


class JoinedLeaf(Leaf):
    """Groups of events that follow one another, each with its times; put together when wanted.

    A leaf of a tree by time, and the one entry behind it, serve most of what is asked as they are.
    """

    def __init__(
        self, schema: Schema, first: int, groups: Sequence[tuple[np.ndarray, Rows]]
    ) -> None:
        self._schema, self._groups = schema, groups
        self._times = [times for times, _ in groups]
        self.first, self.count = first, sum(map(len, self._times))
        self.stop = first + self.count
        self._has_one_behind = len(groups) == 2 and len(groups[1][0]) == 1

    @cached_property
    def times(self) -> np.ndarray:  # type: ignore[override]
        """The times of the events."""
        return np.concatenate(self._times)

    def pieces_of_times(self) -> Sequence[np.ndarray]:
        return self._times

    @cached_property
    def rows(self) -> Rows:
        """The events as input rows."""
        rows, at = self._schema.new(self.count), 0
        for times, some in self._groups:
            self._schema.put_many(rows, at, some)
            at += len(times)
        return rows

    @cached_property
    def searched(self) -> SortedTimes:
        return SortedTimes(self._groups[0][0]) if self._has_one_behind else self.sorted_times

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        count = self.stop - 1 - position
        if not (self._has_one_behind and count):
            return super().suffixes(position, right, monoid)
        (times, rows), (_, behind) = self._groups
        right = monoid.combine(monoid.lift(self._schema.at(behind, 0)), right)
        some = self._schema.cut(rows, len(times) - count, len(times))
        return monoid.suffixes(monoid.lift_rows(some, count), count, right)


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

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """The leaf that holds a position, as far as it is filled; at most a page read a level.

        Others after it may be in one with it: those that begin before the position ``upto``, or
        not after the time ``until``. The next leaf may be fetched ahead.
        """

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        """The aggregate from a position to a back, and from some positions behind it.

        The positions, and as many aggregates. Those are best at which leaves begin; combines as a
        few of ``fold``.
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
