"""Consecutive events of a log: stored leaves, chunks of the current batch, and time searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mta.columns.schemas import Rows, Schema
from mta.folds.sliding import Events, Fronts, SlidingFolds, joined
from mta.kernels.native import ranks
from mta.monoids.base import AbstractMonoid, Partial

#: When fewer events than this are searched for, only the leaves with their fronts are read.
_FEW = 1024
#: A leaf with at least this many events is searched separately, not concatenated with others.
_MANY = 4096


@dataclass(eq=False)
class Leaf:
    """A group of consecutive events: values as input rows, and times if they are stored."""

    first: int
    rows: Rows
    times: np.ndarray | None
    count: int

    def __post_init__(self) -> None:
        #: The position after the last event.
        self.stop = self.first + self.count

    @property
    def searched(self) -> np.ndarray:
        """The times to search, which may omit the last one. The events must have times."""
        assert self.times is not None
        return self.times

    @property
    def groups(self) -> Sequence[Events]:
        return [Events(self.rows, self.times, self.count)]

    def before(self, stop: int, monoid: AbstractMonoid) -> Leaf:
        """Return the events before a position."""
        if stop >= self.stop:
            return self
        count = stop - self.first
        times = None if self.times is None else self.times[:count]
        return Leaf(self.first, monoid.inputs.cut(self.rows, 0, count), times, count)

    def partials(self, start: int, stop: int, monoid: AbstractMonoid) -> Rows:
        """Return the lifted events from position ``start`` to ``stop``."""
        rows = monoid.inputs.cut(self.rows, start - self.first, stop - self.first)
        return monoid.lift_rows(rows, stop - start)

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        """Return the fold of each suffix from ``position`` on with ``right``. One combine each."""
        count = self.stop - position
        return monoid.suffixes(self.partials(position, self.stop, monoid), count, right)


class JoinedLeaf(Leaf):
    """Consecutive groups of events, concatenated on first access.

    The usual pair, a leaf of a tree by time and the one entry after it, is not concatenated.
    """

    def __init__(self, schema: Schema, first: int, groups: Sequence[Events]) -> None:
        self._schema, self._groups = schema, groups
        self.first, self.count = first, sum(group.size for group in groups)
        self.__post_init__()
        self._has_one_behind = len(groups) == 2 and groups[1].size == 1

    @property
    def groups(self) -> Sequence[Events]:
        return self._groups

    @cached_property
    def times(self) -> np.ndarray | None:  # type: ignore[override]
        pieces = [group.times for group in self._groups if group.times is not None]
        return np.concatenate(pieces) if pieces else None

    @cached_property
    def rows(self) -> Rows:
        rows, at = self._schema.new(self.count), 0
        for some, _, size in self._groups:
            self._schema.put_many(rows, at, some)
            at += size
        return rows

    @property
    def searched(self) -> np.ndarray:
        times = self._groups[0].times if self._has_one_behind else None
        return super().searched if times is None else times

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        count = self.stop - 1 - position
        if not (self._has_one_behind and count):
            return super().suffixes(position, right, monoid)
        (rows, _, size), (behind, _, _) = self._groups
        right = monoid.combine(monoid.lift(self._schema.at(behind, 0)), right)
        some = self._schema.cut(rows, size - count, size)
        return monoid.suffixes(monoid.lift_rows(some, count), count, right)


def suffixes_of(
    leaves: Sequence[Leaf], position: int, right: Partial, monoid: AbstractMonoid
) -> Rows:
    """Return ``Leaf.suffixes`` of consecutive leaves."""
    leaf = leaves[0]
    if len(leaves) > 1:
        groups = [group for leaf in leaves for group in leaf.groups]
        leaf = JoinedLeaf(monoid.inputs, leaf.first, groups)
    return leaf.suffixes(position, right, monoid)


class Chunk(Leaf):
    """Events of the current batch, stored or not. Computes once what all cursors need."""

    def __init__(
        self, monoid: AbstractMonoid, first: int, rows: Rows, times: np.ndarray | None, count: int
    ) -> None:
        super().__init__(first, rows, times, count)
        self.monoid = monoid

    @cached_property
    def sliding(self) -> SlidingFolds:
        """The events as partial aggregates, and their folds. One combine per event."""
        return SlidingFolds(self.monoid, self.monoid.lift_rows(self.rows, self.count), self.count)

    def lifted(self, start: int, stop: int, leaf: Callable[[int], Leaf]) -> Rows:
        """Return the lifted events of some positions; ``leaf`` reads those before the chunk."""
        monoid, at = self.monoid, start
        if start >= self.first:
            return self.partials(start, stop, monoid)
        rows = monoid.partials.new(stop - start)
        while at < stop:
            part = self if at >= self.first else leaf(at).before(self.first, monoid)
            end = min(stop, part.stop)
            monoid.partials.put_many(rows, at - start, part.partials(at, end, monoid))
            at = end
        return rows

    def partials(self, start: int, stop: int, monoid: AbstractMonoid) -> Rows:
        return monoid.partials.cut(self.sliding.lifted, start - self.first, stop - self.first)

    def suffixes(self, position: int, right: Partial, monoid: AbstractMonoid) -> Rows:
        return self.sliding.suffixes(position - self.first, right)


class SearchedTimes:
    """Stored times from a window's front on, then the times of a chunk (``frames.TimeSearch``).

    Positions count from the first event of the chunk, so those of stored events are negative. Each
    search covers one piece: a stored chunk of the batch, some concatenated leaves, or the chunk.

    ``leaf`` reads the leaf at a position; its second argument is ``until`` of
    ``OrderedEvents.leaf``. ``first_after`` is the method of the log.
    """

    def __init__(
        self,
        front: int,
        chunk: Chunk,
        leaf: Callable[[int, int | None], Leaf],
        first_after: Callable[[int], int],
    ) -> None:
        self._front, self._chunk, self._leaf, self._first_after = front, chunk, leaf, first_after

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """Return, for each time, the position of the oldest event less than ``age`` old.

        Searches leaf by leaf, and from the root again when a whole leaf is skipped.
        """
        chunk, count, position, done = self._chunk, len(times), self._front, 0
        until = int(times[-1]) - age if count >= _FEW else None
        found, searched = np.empty(count, np.int64), []
        while done < count and position < chunk.first:
            first, stored, stop, end = self._gather(position, times, age, done, until)
            at = position - first
            if done == 0 and at < len(stored) and times[-1] - age < stored[at]:
                return position - chunk.first
            position = stop
            if end > done:
                searched.append((done, end, stored, first - chunk.first))
                done = end
            else:
                position = max(position, self._first_after(int(times[end]) - age))
        if done < count:
            assert chunk.times is not None
            at = position - chunk.first
            stop = at + int(chunk.times[at:].searchsorted(times[-1] - age, side="right"))
            searched.append((done, count, chunk.times[at:stop], at))
        pieces = []
        for start, end, stored, shift in searched:
            piece = ranks(stored, times[start:end], age, found[start:end])
            if isinstance(piece, range):
                pieces.append(range(piece.start + shift, piece.stop + shift))
        if len(pieces) == len(searched) and (whole := joined(pieces)) is not None:
            return whole
        for start, end, _, shift in searched:
            found[start:end] += shift
        return found

    def _gather(
        self, position: int, times: np.ndarray, age: int, done: int, until: int | None
    ) -> tuple[int, np.ndarray, int, int]:
        """Return the times of consecutive leaves, as long as a search ends in each of them.

        Does not concatenate leaves of many events. Also returns the position of the first event,
        the position after the last event, and the end of the part of ``times`` that was searched.
        """
        leaf = start = self._leaf(position, until)
        stop = leaf.first
        gathered: list[np.ndarray] = []
        while leaf.first == stop and not (gathered and isinstance(leaf, Chunk)):
            gathered += [group.times for group in leaf.groups if group.times is not None]
            stop, end = leaf.stop, done + int(times[done:].searchsorted(gathered[-1][-1] + age))
            if end in (done, len(times)) or stop == self._chunk.first:
                break
            if leaf.count >= _MANY or isinstance(leaf, Chunk):
                break
            done, leaf = end, self._leaf(stop, until)
        if stop == start.stop:
            return start.first, start.searched, stop, end
        return start.first, np.concatenate(gathered), stop, end
