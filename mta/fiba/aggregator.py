"""FiBA as a window's structure: events in order of time, whatever order they come in, in pages.

Results are *as of* their events: that of an event at time t is the aggregate of the window that
ends with it, by the policy. So it does not matter to the last result of an event in what order, and
in which batches, events came; where none is late it is the result after its insertion, as with
level queues. The tree keeps what a late event may still ask for: the window as it was ``lateness``
before the newest event.

A batch goes in run by run, in order of time. Each run is put together with the stored events that
are later than its first one (none, if nothing is late), and a cursor (``mta.cursor``) gives the
result of each; only then is it inserted, so that nothing has changed where a page is missing.

Costs: an event in order O(1) combines amortised, one at distance d O(arity * log d), and O(d) where
every result of a batch is wanted; bulk eviction O(arity * log n), and a page or two a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mta.aggregator import Lens, Setting
from mta.columns import Row, Rows
from mta.cursor import Cursor, Hand
from mta.cuts import cuts
from mta.errors import NotRevisable
from mta.fiba.bulk import evict_first, insert_sorted
from mta.fiba.events import TreeEvents
from mta.fiba.pages import TreePages
from mta.monoid import Partial
from mta.policy import AbstractPolicy, as_array

#: How many events of a batch go in at once.
RUN = 8192
#: So many events that have left may be in the tree before they are cut off in one go.
_LEAVES_LEFT_BEHIND = 16


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

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._cursor = Cursor(self.monoid, setting.policy, self.stored)
        self._last_insert = 0
        #: The time of the event at a position that was the front when it was asked for.
        self._front_time = (-1, 0)

    def newest_time(self) -> int | None:
        """The time of the newest event, None without events; no page read."""
        leaf = self.tree.right[0] if self.tree.right else self.tree.root
        return leaf.time_at(leaf.count - 1) if leaf.count else None

    # --- events in and out ----------------------------------------------------------------------

    def _make_ready(self, count: int = 1) -> None:
        """Do beforehand what needs the store, so that nothing can fail halfway.

        Nodes are let go, and events that have left are cut off, where that has not been done at
        once, as soon as ``count`` of them have.
        """
        self.keeper.trim(self.tree)
        kept = self._kept(self.front)
        if kept - self.stored.front >= count:
            self._cut_off(kept)

    def cut_off_what_left(self) -> None:
        self._make_ready()

    def _kept(self, front: int) -> int:
        """The position from which on events may still be asked for, with the window's front."""
        policy, lateness, newest = self.setting.policy, self.setting.lateness, self.newest_time()
        if not lateness or newest is None or not policy.positional:
            return front
        return min(front, as_of(policy, self.stored, newest - lateness))

    def _cut_off(self, position: int) -> None:
        """Take the events before a position out of the tree."""
        if position > self.stored.front:
            evict_first(self.tree, position - self.stored.front)
            self.stored.front = position

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; O(1) combines amortised in order, O(arity * log d) at distance d."""
        assert time is not None
        newest = self.newest_time()
        self._make_ready()
        if newest is not None and time < newest:
            self.tree.load_left()
            self._note_late(self.stored.first_after(time))
        elif not self.tree.has_room():
            self.tree.load_left()
        self.tree.insert(time, row)
        self._last_insert = time

    def _note_late(self, position: int, count: int = 1) -> None:
        """Events come in at a position before the back: those after it move on."""
        self._moved()
        if position < self.front:
            self.front += count

    def _moved(self) -> None:
        """Positions are not what they were."""
        self.stored.stamp += 1
        self._front_time = (-1, 0)
        self._cursor.place(self.stored.front, self.stored.front)

    def take_back(self) -> None:
        """Undo the last ``insert``, which nothing has followed."""
        position = self.stored.first_after(self._last_insert) - 1
        self.tree.remove_at(position - self.stored.front)
        self._moved()
        if position < self.front:
            self.front -= 1

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events without their results; the tree takes as many as a run has."""
        assert times is not None
        count = min(stop - start, RUN)
        self._make_ready(self._left_behind)
        new, coming = self.monoid.inputs.cut(rows, start, start + count), times[start:][:count]
        self._insert_run(new, coming, count, self._place_of(int(coming[0])))
        return count

    def _place_of(self, time: int) -> int:
        """The position that the next event of a time gets."""
        newest = self.newest_time()
        return self.back if newest is None or time >= newest else self.stored.first_after(time)

    def _insert_run(self, rows: Rows, times: np.ndarray, count: int, position: int) -> None:
        """Insert sorted events of which the first gets a position."""
        before = 0
        if position < self.front:
            before = int(np.searchsorted(times, self._time_at(self.front - 1)))
        is_late = position < self.back
        insert_sorted(self.tree, times, rows, count)
        if is_late:
            self._note_late(position, before)

    def slide_to(self, position: int) -> None:
        """Move the window's front on, as its policy says; late events may still look behind it.

        What nobody may ask for any more leaves the tree, so that a query needs no page.
        """
        position = max(self.front, position)
        gone = self._kept(position) - self.stored.front
        if 0 < gone <= self.tree.spare():
            self.tree.evict_oldest(gone)
            self.stored.front += gone
        elif gone > 0:
            self._cut_off(self.stored.front + gone)
        self.front = position

    def evict_to(self, position: int) -> None:
        """Remove every event before a position for good; O(arity * log n) combines."""
        if position <= self.front:
            return
        self.require_events(position)
        self.keeper.trim(self.tree)
        self._cut_off(position)
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
        count, monoid = min(stop - start, RUN), self.monoid
        new, coming = monoid.inputs.cut(rows, start, start + count), times[start : start + count]
        last = int(coming[-1])
        told = self._run(new, coming, count, lambda: self.stored.first_after(last))
        if told is None:
            return 0
        _, folds, is_new = told
        if is_new is not None:
            folds = monoid.partials.take(folds, np.flatnonzero(is_new))
        monoid.outputs.put_many(out, start, monoid.lower_rows(folds))
        return count

    def revise(self, rows: Rows, times: np.ndarray, count: int) -> Iterator[Revised]:
        """Add a batch in order of time; every result that is new or has changed, run by run.

        These are the results of all events from the first added one on. Raises NotRevisable
        where the policy cannot be told ahead.
        """
        for start in range(0, count, RUN):
            stop = min(start + RUN, count)
            new, coming = self.monoid.inputs.cut(rows, start, stop), times[start:stop]
            # Later stored events are looked at again with the run that comes before them.
            following = int(times[stop]) if stop < count else None

            def end(time: int | None = following) -> int:
                return self.back if time is None else self._place_of(time)

            told = self._run(new, coming, stop - start, end)
            if told is None:
                raise NotRevisable(f"{self.setting.policy!r} cannot be asked for earlier results")
            hand, folds, is_new = told
            assert hand.times is not None
            mask = np.ones(hand.count, bool) if is_new is None else is_new
            outputs = self.monoid.lower_rows(folds)
            yield Revised(hand.times, hand.rows, outputs, mask)

    def _run(
        self, rows: Rows, times: np.ndarray, count: int, end: Callable[[], int]
    ) -> tuple[Hand, Rows, np.ndarray | None] | None:
        """Insert a run; what was looked at, the aggregates as of each, and which are new.

        ``end`` is asked for the position up to which stored events are looked at, if any are
        later than the first. None, and nothing done, where the policy cannot be told ahead.
        """
        self._make_ready(self._left_behind)
        position, is_new = self._place_of(int(times[0])), None
        seen, seen_times, size = rows, times, count
        if position < self.back:
            stop = end()
            stored_times, stored = self.stored.slice(position, stop)
            is_new, seen, seen_times = self._merged(stored, stored_times, rows, times)
            size = len(seen_times)
        hand = Hand(self.monoid, position, seen, seen_times, size)
        folds = self._cursor.run(hand)
        if folds is None:
            return None
        front = self._cursor.front
        self._insert_run(rows, times, count, position)
        if hand.stop == self.back:
            self.front = max(self.front, front)
        else:
            newest = self.newest_time()
            assert newest is not None
            self.front = max(self.front, as_of(self.setting.policy, self.stored, newest))
        return hand, folds, is_new

    def _merged(
        self, stored: Rows, stored_times: np.ndarray, rows: Rows, times: np.ndarray
    ) -> tuple[np.ndarray, Rows, np.ndarray]:
        """Stored and new events in order of time, and which of them are new."""
        schema, old, count = self.monoid.inputs, len(stored_times), len(times)
        together = schema.new(old + count)
        schema.put_many(together, 0, stored)
        schema.put_many(together, old, rows)
        joined = np.concatenate((stored_times, times))
        order = np.argsort(joined, kind="stable")
        return order >= old, schema.take(together, order), joined[order]

    @property
    def _left_behind(self) -> int:
        return _LEAVES_LEFT_BEHIND * self.setting.leaf_arity

    # --- searches -------------------------------------------------------------------------------

    def _time_at(self, position: int) -> int:
        leaf = self.stored.leaf(position)
        assert leaf.times is not None
        return int(leaf.times[position - leaf.first])

    def oldest_time(self) -> int | None:
        """The time of the oldest event; a page a level where it is not known."""
        if self.front == self.back:
            return None
        if self._front_time[0] != self.front:
            self._front_time = self.front, self._time_at(self.front)
        return self._front_time[1]

    def restore_front_time(self, time: int | None) -> None:
        """Take up the time of the oldest event from a handle."""
        if time is not None:
            self._front_time = self.front, time
        self._cursor.place(self.front, self.back)

    def head_times(self) -> tuple[int, np.ndarray]:
        if self.front == self.back:
            return self.front, np.empty(0, "<i8")
        leaf = self.stored.leaf(self.front)
        assert leaf.times is not None
        return self.front, leaf.times[self.front - leaf.first :]

    def first_after(self, time: int) -> int:
        return max(self.front, self.stored.first_after(time))

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self._searching(lens).longest_prefix(self.setting.policy, accepts)

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self._searching(lens).longest_suffix(self.setting.policy, accepts)

    def _searching(self, lens: Lens) -> Cursor:
        policy = self.setting.policy
        cursor = Cursor(self.monoid, policy, self.stored, {id(policy): lens})
        cursor.place(self.front, self.back)
        return cursor

    def events(self) -> Iterator[Partial]:
        position = self.front
        while position < self.back:
            leaf = self.stored.leaf(position)
            rows = leaf.partials(position, leaf.stop, self.monoid)
            for i in range(leaf.stop - position):
                yield self.monoid.partials.at(rows, i)
            position = leaf.stop
            self.keeper.trim(self.tree)


def as_of(policy: AbstractPolicy, stored: TreeEvents, time: int) -> int:
    """The front, by a policy on positions, of the window that ends with the events of a time."""
    back = stored.first_after(time)
    fronts = cuts(policy, AsOf(stored), back - 1, np.array([time]), 1)
    assert fronts is not None  # only policies on positions are asked
    return max(stored.front, int(as_array(fronts, 1)[0]))


class AsOf:
    """What policies on times ask for, of all events that are kept (``cuts.TimeSearch``)."""

    def __init__(self, stored: TreeEvents) -> None:
        self._stored = stored

    def first_after_each(self, times: np.ndarray) -> np.ndarray:
        """The position of the oldest event later than each of some times."""
        return np.array([self._stored.first_after(int(time)) for time in times])
