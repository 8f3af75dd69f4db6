"""The log of a finger tree: events in order of time, in any order of arrival, in pages.

An event is inserted after other events with its time or, depending on the settings, replaces the
existing event or is combined with it. A late event that is older than an event evicted for good is
evicted on arrival.

``FingerTreeLog`` serves windows that share the events; each has a cursor that reads from the log.
FiBA is this log with a single window (``evaluators.fiba``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EventsGone, NoSuchEvent, UnsuitableMonoid
from mta.folds.sliding import Events
from mta.frames.base import Frame
from mta.logs.base import Chunk, JoinedLeaf, Leaf, OnDuplicate, Setting, Undo
from mta.logs.finger_tree.bulk import insert_sorted
from mta.logs.finger_tree.node import Kind
from mta.logs.finger_tree.pages import TreePages
from mta.logs.ranges import Positions, events_in, leaves_from
from mta.monoids.base import AbstractMonoid
from mta.times import clock

#: The most events of a batch to add together: this many, or as many as this many leaves contain.
RUN, _RUN_LEAVES = 8192, 16
#: This many or more events in order that follow late ones are added separately.
_MANY = 16384
#: How many leaves of evicted events may stay in the tree before one cut removes them: at most, at
#: least, and between these, as many as 1 / LEFT_BEHIND of the events need.
_LEAVES_LEFT_BEHIND, _LEAST_LEFT_BEHIND, LEFT_BEHIND = 64, 16, 16
#: If order matters, how many of the newest stored events single late events may precede.
_NEWEST = 256


def require_joins(monoid: AbstractMonoid, on_duplicate: OnDuplicate) -> None:
    """Raise UnsuitableMonoid if events must be combined and the monoid cannot combine values."""
    if on_duplicate == "combine" and not monoid.joins_values:
        raise UnsuitableMonoid(
            f"{monoid.name} cannot combine two values into one: use on_duplicate='replace', or a "
            "monoid whose partials are its values, such as Sum, Max or a Monoid without lift"
        )


class FingerTreeLog(TreePages):
    """Events by time, for windows that share them."""

    name = "Finger tree log"

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting, kind)
        #: How many events have replaced other events, or were combined with them.
        self._met = 0
        require_joins(self.monoid, setting.on_duplicate)

    @property
    def taken(self) -> int:
        return self.back + self._met

    @property
    def front(self) -> int:  # type: ignore[override]
        return self.kept_from

    @property
    def looks_back(self) -> bool:
        return self.setting.reach > 0

    @property
    def discards(self) -> bool:  # type: ignore[override]
        return self.setting.store is None or not self.paged.retain

    # --- single events --------------------------------------------------------------------------

    def _make_ready(self, count: int = 1) -> None:
        """Do first what may need the store, so that an insertion cannot fail halfway."""
        self.trim()

    def insert(self, row: Row, time: int | None = None) -> Undo:
        """Add one event. Amortized O(1) combines in order, O(arity * log d) at distance d."""
        assert time is not None
        self._make_ready()
        if self._has_left(time):
            self.monoid.lift(row)  # raises for a value that cannot be added
            self._count_left(1)
            return partial(self._count_left, -1)
        if (met := self._met_by(time)) is not None:
            return partial(self._put_back, met, self._put(met, row))
        position, back = self.place_of(time), self.back
        self.tree.unfold()  # windows fold ranges
        self.tree.insert(time, row)
        if position < back:
            self._note_moved(position, 1)
        return partial(self._remove, position)

    def _remove(self, position: int) -> Row:
        """Remove the event at a position, and return its value."""
        node, index = self.tree.entry_at(position - self.kept_from)
        row = node.entries.part_at(1, index)
        self.tree.remove(node, index)
        self._drop_leaves_from(0)  # nodes are filled up in place, with events of their neighbors
        self._note_moved(position, -1)
        return row

    @property
    def spare(self) -> int:
        """How many events in order can be added without a store call."""
        return self.tree.room if self.setting.on_duplicate == "append" else 0

    def newest(self, length: int) -> Events:
        """Return the newest events as views; late events may be inserted after the first of them.

        They are in the last leaf. If order matters, there are few of them, at most half of a window
        of this length. Empty if no event may be late.
        """
        leaf, count = self.tree.last_leaf, self._unsettled(length)
        if self.monoid.commutative and self.setting.lateness:
            count = leaf.count
        start = leaf.count - count
        return Events(leaf.values(start, leaf.count), leaf.times[start:], count)

    def _unsettled(self, length: int) -> int:
        """Return how many of the newest events late events may precede if order matters."""
        if self.monoid.commutative or not self.setting.lateness:
            return 0
        return min(self.tree.last_leaf.count, _NEWEST, length // 2)

    def settled(self, front: int, end: int) -> int:
        return end if end < self.back else end - self._unsettled(end - front)

    def take_in(self, new: Events) -> int | None:
        """See ``EventLog.take_in``.

        Inserts the late ones into the last leaf together. No combine.
        """
        rows, times, count = new
        assert times is not None
        tree, leaf, newest = self.tree, self.tree.last_leaf, self.newest_time()
        in_order = newest is None or not count or times[0] >= newest
        if in_order and (times[1:] >= times[:-1]).all():
            tree.append(times, rows, count)
            return None
        first = int(leaf.times.searchsorted(times.min(), side="right"))
        later = Events(leaf.values(first, leaf.count), leaf.times[first:], leaf.count - first)
        shifts = self._shifts(times, self.back - later.size)
        (rows, times, count), _ = _merged(self.monoid, later, new)
        assert times is not None
        if not later.size:
            tree.append(times, rows, count)
            return None
        position = self.back - later.size
        tree.drop_newest(later.size)
        tree.append(times, rows, count)
        self._note_moved(position)
        self._shift(shifts)
        return position

    def reader(self) -> Self:
        return self

    def has_lost(self, newest: int | None) -> bool:
        return self.newest_time() != newest

    # --- events at times that already have an event -----------------------------------------------

    def _has_left(self, time: int) -> bool:
        """Return whether an event is evicted on arrival, as one that it precedes was evicted."""
        beside = self.setting.on_duplicate == "append"
        return self.newest_left is not None and time < self.newest_left + (not beside)

    def _met_by(self, time: int) -> int | None:
        """Return the position of the event that a new event replaces or joins, if any."""
        newest = self.newest_time()
        if self.setting.on_duplicate == "append" or newest is None or time > newest:
            return None
        return self._position_of(time)

    def first_changed(self, time: int) -> int:
        met = self._met_by(time)
        return self.place_of(time) if met is None else met

    def _position_of(self, time: int) -> int | None:
        """Return the position of the newest event with this time, if any. One page per level."""
        position = self.first_after(time) - 1
        if position < self.kept_from or self.time_at(position) != time:
            return None
        return position

    def _joined(self, older: Row, newer: Row) -> Row:
        """Return the value that replaces two values."""
        return (
            newer
            if self.setting.on_duplicate == "replace"
            else self.monoid.join_values(older, newer)
        )

    def _put(self, position: int, row: Row) -> Row:
        """Replace the value at a position, or combine with it; return the previous value."""
        node, index = self.tree.entry_at(position - self.kept_from)
        older = node.entries.part_at(1, index)
        self.tree.replace(node, index, self._joined(older, row))
        self._met += 1
        self._note_moved(position)
        return older

    def _put_back(self, position: int, row: Row) -> None:
        """Undo ``_put``, given the previous value."""
        self.tree.replace(*self.tree.entry_at(position - self.kept_from), row)
        self._met -= 1
        self._note_moved(position)

    def run_end(self, times: np.ndarray | None, start: int, stop: int) -> int:
        """Return the end of the run to add together: one event that replaces, or others.

        Many events in order after late ones are a separate run, because adding them needs no copy.
        """
        assert times is not None
        if self.leaves_at_once(times, start):
            return start + 1
        if self.setting.on_duplicate == "append":
            newest = self.newest_time()
            if newest is None or times[start] >= newest:
                return stop
            late = start + int(times[start:stop].searchsorted(newest))
            return stop if stop - late < _MANY else late
        if self._met_by(int(times[start])) is not None:
            return start + 1
        some = times[start:stop]
        again = np.flatnonzero(some[1:] == some[:-1])
        if len(again):
            some = some[: int(again[0]) + 1]
        position, end = self.place_of(int(some[0])), self.place_of(int(some[-1]))
        while position < end:
            leaf = self.leaf(position)
            assert leaf.times is not None
            known = leaf.times[position - leaf.first : end - leaf.first]
            if len(met := np.flatnonzero(np.isin(some, known))):
                return start + int(met[0])
            position = leaf.stop
        return start + len(some)

    # --- retractions ------------------------------------------------------------------------------

    def retract(self, time: int) -> Row:
        """Remove the newest event with a given time, and return its value.

        Costs O(arity * log d) combines and O(log d) nodes at distance d from the nearer end. Raises
        NoSuchEvent, and EventsGone.
        """
        self.trim()
        position = self._position_of(time)
        if position is None and not (self.newest_left is not None and time <= self.newest_left):
            raise NoSuchEvent(
                f"there is no event at {clock(time)}: only existing events can be retracted"
            )
        if position is None or self._is_gone(position):
            raise EventsGone(f"an event at {clock(time)}, if there was one, has left already")
        return self._remove(position)

    def count_at(self, time: int) -> int:
        """Return how many events at this time can be retracted. One or two pages per level."""
        start, stop = self.first_after(time - 1), self.first_after(time)
        while start < stop and self._is_gone(start):
            start += 1
        return stop - start

    def _is_gone(self, position: int) -> bool:
        """Return whether neither the window nor a late event can need the event at a position."""
        return position < self.kept_from

    def undo_retract(self, row: Row, time: int) -> None:
        """Undo the last ``retract``. Nothing else may have happened since."""
        position = self.first_after(time)
        self.tree.insert(time, row)
        self._note_moved(position, 1)

    # --- batches, and late events -----------------------------------------------------------------

    @property
    def most(self) -> int:
        """The most events to add together."""
        return max(RUN, _RUN_LEAVES * self.setting.leaf_arity)

    @property
    def _left_behind(self) -> int:
        most = min(_LEAVES_LEFT_BEHIND * self.setting.leaf_arity, self.tree.size // LEFT_BEHIND)
        return max(most, _LEAST_LEFT_BEHIND * self.setting.leaf_arity)

    def most_together(self, left: int, each: bool) -> int:
        return min(self.most, super().most_together(left, each))

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        assert times is not None
        count = self.run_end(times, start, min(stop, start + self.most)) - start
        if count == 1 and self._met_by(int(times[start])) is not None:
            self.insert(self.monoid.inputs.at(rows, start), int(times[start]))
            return 1
        new = self.monoid.inputs.cut(rows, start, start + count)
        self._insert_run(Events(new, times[start : start + count], count))
        return count

    def store_chunk(self, new: Events, chunk: Chunk, front: int) -> None:
        assert new.times is not None
        if new.size == 1 and self._met_by(int(new.times[0])) is not None:
            self.insert(self.monoid.inputs.at(new.rows, 0), int(new.times[0]))
        else:
            self._insert_run(new, chunk)
            with suppress(Exception):  # the next run tries again, and fails before any change
                self._settle()

    def _insert_run(self, new: Events, chunk: Chunk | None = None) -> None:
        """Insert events in order of time.

        A ``chunk`` of these events and all later stored ones replaces the latter, if they are in
        the last leaf. A failed read changes nothing.
        """
        self._make_ready(self._left_behind)
        rows, times, count = new
        assert times is not None
        position = self.place_of(int(times[0]))
        left, is_late, inputs = 0, position < self.back, self.monoid.inputs
        shifts = self._shifts(times, position)
        self.tree.unfold()  # windows fold ranges
        if self._has_left(int(times[0])):
            assert self.newest_left is not None
            side: Literal["left", "right"] = (
                "left" if self.setting.on_duplicate == "append" else "right"
            )
            left = int(times.searchsorted(self.newest_left, side))
            self.monoid.lift_rows(inputs.cut(rows, 0, left), left)
            rows, times = inputs.cut(rows, left, count), times[left:]
        older = self.back - position
        if chunk is not None and 0 < older < self.tree.last_leaf.count and not left:
            assert chunk.times is not None
            if chunk.count == count + older:
                self.tree.drop_newest(older)
                rows, times, count = chunk.rows, chunk.times, chunk.count
        if left < count:
            insert_sorted(self.tree, times, rows, count - left)
        self.kept_from += left
        if left or is_late:
            self._note_moved(-1 if left else position)
            self._shift([max(shift, left) for shift in shifts])

    def _shifts(self, times: np.ndarray, position: int) -> list[int]:
        """Return how many new events, the first of them at a position, each window has left."""
        return [
            int((times < self.time_at(reader.floor - 1)).sum()) if position < reader.floor else 0
            for reader in self.readers.values()
        ]

    def _shift(self, shifts: Iterable[int]) -> None:
        for reader, shift in zip(self.readers.values(), shifts, strict=True):
            reader.floor += shift

    def _count_left(self, count: int) -> None:
        """Record events that were evicted on arrival: all positions grow by their number."""
        self.kept_from += count
        self._note_moved(-1, count)

    def _note_moved(self, position: int, by: int = 0) -> None:
        """Record that events from a position on have changed, or have moved by a number."""
        self.stamp, self.moved_from = self.stamp + 1, position
        self._drop_leaves_from(position)
        if by:
            self._shift([by * (position < reader.floor) for reader in self.readers.values()])

    def chunk_with(
        self,
        rows: Rows,
        times: np.ndarray | None,
        count: int,
        stop: Callable[[], int] | None = None,
    ) -> tuple[Chunk, np.ndarray | None]:
        """Return new events in order of time, together with stored events, as one chunk.

        Includes the stored events after the first new event, up to ``stop`` (by default, those not
        later than the last new event), but no event that a single new event replaces. Also returns
        which events are new, up to the last stored one; None if all are new. One page read per
        leaf.
        """
        assert times is not None
        met = self._met_by(int(times[0])) if count == 1 else None
        start = self.place_of(int(times[0])) if met is None else met
        if start == self.back:
            return Chunk(self.monoid, start, rows, times, count), None
        end = self.place_of(int(times[-1])) if stop is None else stop()
        end = max(end, start + (met is not None))
        schema, leaf = self.monoid.inputs, self.leaf(start)
        if leaf.stop < end:
            leaf = self.stored(start, end)
        assert leaf.times is not None
        first, last = start - leaf.first, end - leaf.first
        if met is not None:
            rows = schema.one(self._joined(schema.at(leaf.rows, first), schema.at(rows, 0)))
            first += 1
        later, among = leaf.times[first:last], 0
        if len(later):  # new events after all stored events are already in order
            among = int(times.searchsorted(later[-1]))
        mixed, order = _merged(
            self.monoid,
            Events(schema.cut(leaf.rows, first, last), later, len(later)),
            Events(schema.cut(rows, 0, among), times[:among], among),
        )
        newer = Events(schema.cut(rows, among, count), times[among:], count - among)
        seen = JoinedLeaf(schema, start, [mixed, newer])
        chunk = Chunk(self.monoid, start, seen.rows, seen.times, seen.count)
        return chunk, order >= len(later)

    def stored(self, start: int, stop: int) -> Chunk:
        """Return stored events as a chunk. One page read per leaf, one store call per parent."""
        leaves = leaves_from(self, start, self.monoid.inputs, stop)
        return Chunk(self.monoid, start, *events_in(leaves, self.monoid.inputs, timed=True))

    def leaves(self) -> Iterator[Leaf]:
        for leaf in leaves_from(self, self.front, self.monoid.inputs, self.back):
            yield leaf
            self.trim()

    # --- eviction ---------------------------------------------------------------------------------

    def _evict_before(self, position: int) -> None:
        self.trim()
        self._cut_off(position)

    def _cut_off(self, position: int) -> None:
        """Remove the events before a position from the tree. A failed read changes nothing."""
        gone = position - self.kept_from
        if gone > 0:
            self._note_left(self.tree.evict_oldest(gone), position)

    def _note_left(self, newest: int, position: int) -> None:
        """Record that the events before a position were evicted, the last one at ``newest``."""
        self.newest_left = max(newest, newest if self.newest_left is None else self.newest_left)
        self.kept_from = position

    def needed_from(self, window: Any, front: int) -> int:
        newest, reach, frame = self.newest_time(), self.setting.reach, window.frame
        if not reach or newest is None or not (frame.positional or frame.merges):
            return front
        return min(front, self._as_of(window, newest - reach, self.first_after))

    def _as_of(self, window: Any, time: int, after: Callable[[int], int]) -> int:
        """Return the front of the window that ends at a time; ``after`` is ``first_after``."""
        view = Positions(lambda: after(time), after, partial(self._total_until, window, time))
        cut: int = window.frame.cut(view, time)
        return max(self.kept_from, cut)

    def _total_until(self, window: Any, time: int, frame: Frame) -> Any:
        """Return what a frame observes in all retained events up to a time."""
        monoid, pick = window.lens(frame)
        return monoid.lower(pick(self.fold(self.kept_from, self.first_after(time))))

    def leaves_at_once(self, times: np.ndarray | None, start: int) -> bool:
        return times is not None and self._has_left(int(times[start]))


def _merged(monoid: AbstractMonoid, stored: Events, new: Events) -> tuple[Events, np.ndarray]:
    """Return events in order of time, ties in order of arrival, and the permutation."""
    both = JoinedLeaf(monoid.inputs, 0, [stored, new])
    assert both.times is not None
    order = both.times.argsort(kind="stable")
    return Events(monoid.inputs.take(both.rows, order), both.times[order], both.count), order
