"""FiBA as a window's structure: events in order of time, whatever order they come in, in pages.

Results are *as of* their events: that of an event at time t is the aggregate of the window that
ends with it, by the policy. So it does not matter to the last result of an event in what order, and
in which batches, events came; where none is late it is the result after its insertion, as with
level queues. The tree keeps what a late event may still ask for: the window as it was ``lateness``
before the newest event.

A batch goes in run by run, in order of time. Each run is put together with the stored events that
are later than its first one (none, if nothing is late), and a cursor (``mta.cursor``) gives the
result of each; only then is it inserted, so that nothing has changed where a page is missing.

A window out of a handle, as Spark has one for each batch of a key, takes up no more of its tree
than the batch needs. What has left is then cut off in whole leaves, and some of it later, so that
no leaf is read or written anew for that.

Costs: an event in order O(1) combines amortised, one at distance d O(arity * log d), and O(d) where
every result of a batch is wanted; bulk eviction O(arity * log n), and a page or two a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index as whole_number
from typing import NamedTuple

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.cursors.cursor import Cursor
from mta.cursors.ordered import Hand
from mta.errors import NotRevisable
from mta.fiba.events import as_of, leaf_needed_from, needed_from
from mta.fiba.node import Kind
from mta.fiba.pages import TreePages
from mta.monoids.base import Partial
from mta.pages.structure import Setting
from mta.policies.base import AbstractPolicy

#: How many events of a batch go in at once.
RUN = 8192
#: So many events that have left may be in the tree before they are cut off in one go.
_LEAVES_LEFT_BEHIND = 16
#: And of a tree out of a handle, when a handle is taken, no more than one in so many.
_LEFT_BEHIND = 16


class Revised(NamedTuple):
    """Events whose results are new or have changed, in order of time."""

    times: np.ndarray
    rows: Rows
    """The events' values."""
    outputs: Rows
    """Their results."""
    is_new: np.ndarray
    """Which of the events came with this batch."""


class FiBA(TreePages):
    """A window of events in order of time, which may come late."""

    name = "FiBA"

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting, kind)
        self._cursor = Cursor(self.monoid, setting.policy, self.stored)
        #: The time of the event at a position that was the front when it was asked for.
        self._front_time = (-1, 0)

    # --- events in and out ----------------------------------------------------------------------

    def _make_ready(self, count: int = 1) -> None:
        """Do beforehand what needs the store, so that nothing can fail halfway.

        Nodes are let go, and events that have left are cut off, where that has not been done at
        once, as soon as ``count`` of them have.
        """
        self.trim()
        if self.front - self.stored.front < count:
            return
        kept = self._kept(self.front)
        if kept - self.stored.front >= count:
            self.stored.cut_off(kept)

    def cut_off_what_left(self) -> None:
        spare = 0 if self.tree.has_left else min(self.tree.size // _LEFT_BEHIND, self._left_behind)
        self._make_ready(max(spare, 1))

    def _kept(self, front: int) -> int:
        """The position from which on events may still be asked for, with the window's front.

        Without a left spine, or one before it where a leaf begins.
        """
        needed = needed_from if self.tree.has_left else leaf_needed_from
        return needed(self.stored, self.setting.policy, self.setting.lateness, front)

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; O(1) combines amortised in order, O(arity * log d) at distance d."""
        assert time is not None
        self._make_ready()
        position = self.stored.add(row, time)
        self.last_insert = time
        if position < self.back - 1:
            self._note_late(position, 1)

    def _note_late(self, position: int, before: int) -> None:
        """Events came in at a position before the back, so many of them before the front."""
        self._front_time = (-1, 0)
        self._cursor.place(self.stored.front, self.stored.front)
        if position < self.front:
            self.front += before

    def take_back(self) -> None:
        """Undo the last ``insert``, which nothing has followed."""
        self._note_late(self.stored.take_back(self.last_insert), -1)

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events without their results; the tree takes as many as a run has."""
        assert times is not None
        count = min(stop - start, RUN)
        self._make_ready(self._left_behind)
        new = self.monoid.inputs.cut(rows, start, start + count)
        position = self.stored.place_of(int(times[start]))
        self._insert_run(new, times[start : start + count], count, position)
        return count

    def _insert_run(self, rows: Rows, times: np.ndarray, count: int, position: int) -> None:
        """Insert events in order of time, the first of which gets a position."""
        before = 0
        if position < self.front:
            before = int(np.searchsorted(times, self.stored.time_at(self.front - 1)))
        is_late = position < self.back
        left = self.stored.add_sorted(rows, times, count)
        if left:
            self._note_late(self.front - 1, max(before, left))
        elif is_late:
            self._note_late(position, before)

    def slide_to(self, position: int) -> None:
        """Move the window's front on, as its policy says; late events may still look behind it.

        What nobody may ask for any more leaves the tree, so that a query needs no page; without a
        left spine before the next insertion or handle, as a query must look for the front anyway.
        """
        position = max(self.front, position)
        if not self.tree.has_left:
            if self.setting.lateness:
                self.front = position
                return
            if position > self.stored.front:
                self.tree.load_left()
        self.stored.slide_to(self._kept(position))
        self.front = position

    def evict_to(self, position: int) -> None:
        """Remove every event before a position for good; O(arity * log n) combines."""
        position = whole_number(position)
        if position <= self.front:
            return
        self.require_events(position)
        self.tree.load_left()
        self.trim()
        self.stored.cut_off(position)
        self.front = position
        self._cursor.place(position, self.back)

    def query(self) -> Partial:
        """The aggregate of the window; 2 combines, O(arity * log n) where events may come late."""
        if self.front == self.stored.front:
            return self.tree.query()
        return self.stored.fold(self.front, self.back)

    # --- runs -----------------------------------------------------------------------------------

    def run(
        self,
        policy: AbstractPolicy,
        rows: Rows,
        times: np.ndarray | None,
        start: int,
        stop: int,
        out: Rows,
    ) -> int:
        """A run of a batch in order of time: the result of each event, as of it."""
        assert times is not None
        count, monoid, left = min(stop - start, RUN), self.monoid, self.stored.newest_left
        if left is not None and times[start] < left:
            return 0  # it leaves at once, so its result is that of the window
        new, coming = monoid.inputs.cut(rows, start, start + count), times[start : start + count]
        found = self._run(new, coming, count)
        if found is None:
            return 0
        _, folds, is_new = found
        if is_new is not None:
            folds = monoid.partials.take(folds, np.flatnonzero(is_new))
        monoid.outputs.put_many(out, start, monoid.lower_rows(folds))
        return count

    def revise(self, rows: Rows, times: np.ndarray, count: int) -> Iterator[Revised]:
        """Add a batch in order of time; every result that is new or has changed, run by run.

        These are the results of all events from the first added one on. Raises NotRevisable
        where the cuts of the policy cannot be known ahead.
        """
        for start in range(0, count, RUN):
            stop = min(start + RUN, count)
            new, coming = self.monoid.inputs.cut(rows, start, stop), times[start:stop]
            # Later stored events are looked at again with the run that comes before them.
            following = int(times[stop]) if stop < count else None

            def end(time: int | None = following) -> int:
                return self.back if time is None else self.stored.place_of(time)

            found = self._run(new, coming, stop - start, end)
            if found is None:
                raise NotRevisable(f"{self.setting.policy!r} cannot be asked for earlier results")
            hand, folds, is_new = found
            assert hand.times is not None
            mask = np.ones(hand.count, bool) if is_new is None else is_new
            outputs = self.monoid.lower_rows(folds)
            yield Revised(hand.times, hand.rows, outputs, mask)

    def _run(
        self, rows: Rows, times: np.ndarray, count: int, end: Callable[[], int] | None = None
    ) -> tuple[Hand, Rows, np.ndarray | None] | None:
        """Insert a run; what was looked at, the aggregates as of each, and which are new.

        ``end`` is asked for the position up to which stored events are looked at, if any are
        later than the first. None, and nothing done, where the cuts cannot be known ahead.
        """
        self._make_ready(self._left_behind)
        hand, is_new = self.stored.hand_with(rows, times, count, end)
        folds = self._cursor.run(hand)
        if folds is None:
            return None
        front, newest = self._cursor.front, self.stored.newest_time()
        if hand.stop < self.back + count and newest is not None:
            front = as_of(self.setting.policy, self.stored, newest, times)
        self._insert_run(rows, times, count, hand.stop - hand.count)
        self.front = max(self.front, front)
        return hand, folds, is_new

    @property
    def _left_behind(self) -> int:
        return _LEAVES_LEFT_BEHIND * self.setting.leaf_arity

    # --- searches -------------------------------------------------------------------------------

    def oldest_time(self) -> int | None:
        """The time of the oldest event; a page a level where it is not known."""
        if self.front == self.back:
            return None
        if self._front_time[0] != self.front:
            self._front_time = self.front, self.stored.time_at(self.front)
        return self._front_time[1]

    def restore_front_time(self, time: int | None) -> None:
        """The time of the oldest event, as a handle has it."""
        if time is not None:
            self._front_time = self.front, time
        self._cursor.place(self.front, self.back)
