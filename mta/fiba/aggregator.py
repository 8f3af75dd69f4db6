"""FiBA as a window's structure: events in order of time, whatever order they come in, in pages.

Results are *as of* their events: that of an event at time t is the aggregate of the window that
ends with it, by the policy. So it does not matter to the last result of an event in what order, and
in which batches, events came; where none is late it is the result after its insertion, as with
level queues. The tree keeps what a late event may still ask for: the window as it was ``lateness``
before the newest event.

A batch goes in run by run, in order of time. Each run is put together with the stored events that
are later than its first one (none, if nothing is late), and a cursor (``mta.cursor``) gives the
result of each; only then is it inserted, so that nothing has changed where a page is missing.

A window out of a snapshot, as Spark has one for each batch of a key, restores no more of its tree
than the batch needs. What has left is then cut off in whole leaves, and some of it later, so that
no leaf is read or written anew for that.

Costs: an event in order O(1) combines amortised, one at distance d O(arity * log d), and O(d) where
every result of a batch is wanted; bulk eviction O(arity * log n), and a page a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EventsGone, NoSuchEvent, NotRevisable, UnsuitableMonoid
from mta.evaluators.cursor import Cursor
from mta.evaluators.observed import part_of
from mta.evaluators.ranges import Positions
from mta.fiba.bulk import insert_sorted
from mta.fiba.node import Kind
from mta.fiba.pages import TreePages
from mta.folds.sliding import Events
from mta.frames.base import AbstractPolicy
from mta.frames.windows import TimeWindow
from mta.logs.base import AtHand, Batch, OnDuplicate, Setting
from mta.logs.leaves import Chunk
from mta.monoids.base import AbstractMonoid, Partial
from mta.pages.snapshot import Snapshot
from mta.times import clock

#: How many events of a batch go in at once: so many, or as many as these leaves hold.
RUN, _RUN_LEAVES = 8192, 16
#: So many leaves of events that have left may be in the tree before they are cut off in one go, at
#: most and at least, and between these one event in so many.
_LEAVES_LEFT_BEHIND, _LEAST_LEFT_BEHIND, _LEFT_BEHIND = 64, 16, 16


class Revised(NamedTuple):
    """Events whose results are new or have changed, in order of time."""

    times: np.ndarray
    rows: Rows
    """The events' values."""
    outputs: Rows
    """Their results."""
    is_new: np.ndarray
    """Which of the events came with this batch."""


def require_joins(monoid: AbstractMonoid, on_duplicate: OnDuplicate) -> None:
    """Raises UnsuitableMonoid where events are to be one, and the monoid has no value of two."""
    if on_duplicate == "combine" and not monoid.joins_values:
        raise UnsuitableMonoid(
            f"{monoid.name} cannot make one value of two: take on_duplicate='replace', or a monoid "
            "whose partials are its values, as Sum, Max or a Monoid without lift"
        )


class FiBA(TreePages):
    """A window of events in order of time, which may come late."""

    name = "FiBA"

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting, kind)
        observers = enumerate(setting.policy.observers, 1)
        lenses = {id(policy): part_of(self.monoid, i) for i, (policy, _, _) in observers}
        self._cursor = Cursor(self.monoid, setting.policy, self, lenses)
        #: Where the front stood before the last single event had the policy look further back.
        self._receded: int | None = None
        #: Whether the event that was added last has left at once.
        self._added_left = False
        #: The value in whose place the last one was put, in a list; None where in nobody's.
        self._put_aside: list[Row] | None = None
        #: How many events have taken the place of others, or joined them.
        self._met = 0
        #: Events older than this are late, though none as new may be left: it was retracted.
        self._newest_ever: int | None = None
        #: The front for which it was last seen what nobody may ask for any more.
        self._cut_at = 0
        require_joins(self.monoid, setting.on_duplicate)

    @property
    def taken(self) -> int:
        return self.back + self._met

    # --- events in and out ----------------------------------------------------------------------

    def _make_ready(self, count: int = 1) -> None:
        """Do beforehand what needs the store, so that nothing can fail halfway.

        Nodes are let go, and events that have left are cut off, where that has not been done at
        once, as soon as ``count`` of them have.
        """
        self.trim()
        if self.front - max(self.kept_from, self._cut_at) < count:
            return
        kept = self._kept(self.front)
        if kept - self.kept_from >= count:
            self._cut_off(kept)

    def tidy(self) -> None:
        spare = 0 if self.tree.has_left else min(self.tree.size // _LEFT_BEHIND, self._left_behind)
        self._cut_at = 0  # newer events at the same front may let go of some as well
        self._make_ready(max(spare, 1))
        super().tidy()

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; O(1) combines amortised in order, O(arity * log d) at distance d."""
        assert time is not None
        self._make_ready()
        self.last_insert, self._put_aside, self._receded = time, None, None
        self._added_left = self._has_left(time)
        if self._added_left:
            self.monoid.lift(row)  # what cannot be lifted must not get in
            self._count_left(1)
            return
        if (met := self._met_by(time)) is not None:
            self._put_aside = [self._put(met, row)]
            return
        position = self.place_of(time)
        may_merge = position < self.back or self.front == self.back
        if position < self.back:
            self.tree.unfold()  # a query seldom asks for the spine, and pays no more
            self.tree.insert(time, row)
            self._note_late(position, 1)
        else:
            self.tree.insert(time, row)
            if self._cursor.back == position:
                self._cursor.take_in(row)
        if may_merge and self.setting.allowed_lateness and self.setting.policy.merges:
            self._receded, self.front = self.front, self.kept_from
            self._front_time = (-1, 0)

    # --- events at times that have one already ----------------------------------------------------

    def _has_left(self, time: int) -> bool:
        """Whether an event of a time has left as soon as it comes, as a newer one has.

        So has one that would replace or join the newest that has left.
        """
        beside = self.setting.on_duplicate == "append"
        return self.newest_left is not None and time < self.newest_left + (not beside)

    def _met_by(self, time: int) -> int | None:
        """The position of the event that one of a time replaces or joins, if there is any."""
        newest = self.newest_time()
        if self.setting.on_duplicate == "append" or newest is None or time > newest:
            return None
        return self._position_of(time)

    def _position_of(self, time: int) -> int | None:
        """The position of the newest event of a time; None without one. A page a level."""
        position = self.first_after(time) - 1
        if position < self.kept_from or self.time_at(position) != time:
            return None
        return position

    def _joined(self, older: Row, newer: Row) -> Row:
        """The value that stands in place of two."""
        return (
            newer
            if self.setting.on_duplicate == "replace"
            else self.monoid.join_values(older, newer)
        )

    def _put(self, position: int, row: Row) -> Row:
        """Let a value replace or join that of a position; the one that was there."""
        node, index = self.tree.entry_at(position - self.kept_from)
        older = node.entries.part_at(1, index)
        self.tree.replace(node, index, self._joined(older, row))
        self._met += 1
        self._note_late(position, 0)
        return older

    def run_end(self, times: np.ndarray | None, start: int, stop: int) -> int:
        """One event that meets another, or as many as meet none, each of a time of its own."""
        if self.setting.on_duplicate == "append":
            return stop
        assert times is not None
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

    def retract(self, time: int) -> Row:
        """Take out the newest event of a time; its value.

        O(arity * log d) combines and O(log d) nodes at distance d from the nearer end. Raises
        NoSuchEvent, EventsGone.
        """
        self.trim()
        position = self._position_of(time)
        if position is None and not (self.newest_left is not None and time <= self.newest_left):
            raise NoSuchEvent(
                f"there is no event at {clock(time)}: only what is there can be taken out"
            )
        if position is None or self._is_gone(position):
            raise EventsGone(f"an event at {clock(time)} has left already, if there was one")
        node, index = self.tree.entry_at(position - self.kept_from)
        row = node.entries.part_at(1, index)
        self.tree.remove(node, index)
        self._newest_ever = max(time, self._newest_ever or time)
        self._note_late(position, -1)
        return row

    def standing(self, time: int) -> int:
        """How many events of a time there are to be retracted; at most a page or two a level."""
        start, stop = self.first_after(time - 1), self.first_after(time)
        while start < stop and self._is_gone(start):
            start += 1
        return stop - start

    def _is_gone(self, position: int) -> bool:
        """Whether neither the window nor a late event may ask for a position any more."""
        return position < self.front and position < self.needed_from(self._cursor, self.front)

    def put_back(self, row: Row, time: int) -> None:
        """Undo the last ``retract``, which nothing has followed."""
        position = self.first_after(time)
        self.tree.insert(time, row)
        self._note_late(position, 1)

    # --- events in and out, many at once ----------------------------------------------------------

    def take_back(self) -> None:
        if self._added_left:
            self._count_left(-1)
            return
        if self._receded is not None:
            self.front = self._receded
        position = self.first_after(self.last_insert) - 1
        if self._put_aside is not None:
            self.tree.replace(*self.tree.entry_at(position - self.kept_from), self._put_aside[0])
            self._met -= 1
            self._note_late(position, 0)
            return
        self.tree.remove_at(position - self.kept_from)
        self._note_late(position, -1)

    def _count_left(self, count: int) -> None:
        """So many events have left as soon as they came: all others are that much further on."""
        self.kept_from += count
        self._note_late(-1, count)

    def _note_late(self, position: int, before: int) -> None:
        """Events came in at a position before the back, so many of them before the front.

        What is known of those before it stays known.
        """
        self.stamp += 1
        self._forget_from(position)
        if position <= self.front:
            self._front_time = (-1, 0)
        self._cursor.place(self.kept_from, self.kept_from)
        if position < self.front:
            self.front += before
            self._cut_at += before

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        assert times is not None
        count = self.run_end(times, start, min(stop, start + self._most)) - start
        if count == 1 and self._met_by(int(times[start])) is not None:
            self.insert(self.monoid.inputs.at(rows, start), int(times[start]))
            return 1
        self._make_ready(self._left_behind)
        new = self.monoid.inputs.cut(rows, start, start + count)
        position = self.place_of(int(times[start]))
        self._insert_run(new, times[start : start + count], count, position)
        return count

    def _insert_run(self, rows: Rows, times: np.ndarray, count: int, position: int) -> None:
        """Insert events in order of time, the first of which gets a position.

        A failed read changes nothing.
        """
        before, left, is_late, inputs = 0, 0, position < self.back, self.monoid.inputs
        if position < self.front:
            before = int(np.searchsorted(times, self.time_at(self.front - 1)))
        if self._has_left(int(times[0])):
            assert self.newest_left is not None
            side: Literal["left", "right"] = (
                "left" if self.setting.on_duplicate == "append" else "right"
            )
            left = int(times.searchsorted(self.newest_left, side))
            self.monoid.lift_rows(inputs.cut(rows, 0, left), left)
            rows, times = inputs.cut(rows, left, count), times[left:]
        if left < count:
            insert_sorted(self.tree, times, rows, count - left)
        self.kept_from += left
        if left or is_late:
            self._note_late(-1 if left else position, max(before, left))

    def slide_to(self, position: int) -> None:
        """Move the window's front on, as its policy says; late events may still look behind it.

        What nobody may ask for any more leaves the tree, so that a query needs no page; without a
        left spine before the next insertion or snapshot, as a query must look for the front anyway.
        A few events of the first leaf take a combine each, amortised.
        """
        position = max(self.front, position)
        if not self.setting.allowed_lateness and position > self.kept_from:
            self.tree.load_left()
        if position > self._cut_at and (self.tree.has_left or not self.setting.allowed_lateness):
            self._cut_off(self._kept(position))
            self._cut_at = position
        if self._cursor.back == self.back:
            self._cursor.move(position)
        self.front = position

    def recede(self) -> None:
        """Have the window begin with the oldest event that is kept for late ones."""
        self.front = self.kept_from
        self._front_time = (-1, 0)
        self._cursor.place(self.front, self.back)

    def _evict_before(self, position: int) -> None:
        """O(arity * log n) combines; no late event sees them again."""
        self.tree.load_left()
        self.trim()
        self._cut_off(position)
        self.front = position
        self._cursor.place(position, self.back)

    def _cut_off(self, position: int) -> None:
        """Take the events before a position out of the tree. A failed read changes nothing."""
        gone = position - self.kept_from
        if gone > 0:
            self._note_left(self.tree.evict_oldest(gone), position)

    def _note_left(self, newest: int, position: int) -> None:
        """The events before a position have left, the last of them of this time."""
        self.newest_left = max(newest, newest if self.newest_left is None else self.newest_left)
        self.kept_from = position

    # --- what late events may ask for -----------------------------------------------------------

    def needed_from(self, window: Cursor, front: int) -> int:
        """From where on a window with a front may still be asked for, as late events look back."""
        newest, lateness, policy = self.newest_time(), self.setting.allowed_lateness, window.policy
        if not lateness or newest is None or not (policy.positional or policy.merges):
            return front
        return min(front, self._as_of(window, newest - lateness, self.first_after))

    def _kept(self, front: int) -> int:
        """The position from which on events may still be asked for, with the window's front.

        Without a left spine, or one before it where a leaf begins; then no leaf is read.
        """
        tree, policy, lateness = self.tree, self.setting.policy, self.setting.allowed_lateness
        if tree.has_left:
            return self.needed_from(self._cursor, front)
        newest = self.newest_time()
        if lateness and newest is not None and policy.positional:
            needed = self._as_of(self._cursor, newest - lateness, self.leaf_after)
            if needed <= front and type(policy) is TimeWindow:
                return needed
            front = min(front, needed)
        elif policy.merges:
            front = self.needed_from(self._cursor, front)
        cut = tree.at_position(front - self.kept_from)
        return self.kept_from + tree.rank(cut, reads_leaf=False)

    def _as_of(self, window: Cursor, time: int, after: Callable[[int], int]) -> int:
        """The front of the window that ends with the events of a time.

        ``after`` gives the position of the oldest event later than a time.
        """
        view = Positions(lambda: after(time), after, partial(self._total_until, window, time))
        return max(self.kept_from, window.policy.cut(view, time))

    def _total_until(self, window: Cursor, time: int, policy: AbstractPolicy) -> Any:
        """What a policy observes in all retained events up to a time."""
        monoid, pick = window.lens(policy)
        return monoid.lower(pick(self.fold(self.kept_from, self.first_after(time))))

    def query(self) -> Partial:
        """The aggregate of the window; 2 combines, O(arity * log n) after a late event.

        On the same way as single events have it, so that it is the same to the last bit.
        """
        if self.setting.allowed_lateness or self.front != self.kept_from:
            return self._standing().query()
        return self.tree.query()

    def _standing(self) -> Cursor:
        """The cursor, where the window stands."""
        if (self._cursor.front, self._cursor.back) != (self.front, self.back):
            self._cursor.place(self.front, self.back)
        return self._cursor

    # --- single events --------------------------------------------------------------------------

    def at_hand(self, most: int) -> AtHand | None:
        """As ever, of events in order, each beside the others.

        Where none may come late, the first leaf of the tree has what is needed. Else a cursor has
        it, as that leaf has events which late ones may ask for: 1 combine an event amortised, at a
        new leaf and after a late event O(arity * log n), and at most a page read a level.
        """
        setting = self.setting
        if setting.on_duplicate != "append":
            return None
        if not setting.allowed_lateness:
            return self.tree.at_hand(most) if self.front == self.kept_from else None
        room = self.tree.room
        if not room or self.back - self.front < 2:
            return None
        try:
            folds, known, times = self._folds_ahead(most)
        except Exception:  # an event that needs what could not be had will say so
            return None
        grown, count, partials = self._cursor.grown, min(known, len(times)), self.monoid.partials
        right = self.monoid.identity if grown is None else grown
        left, lefts = partials.at(folds, 0), partials.cut(folds, 1, count)
        return AtHand(left, right, lefts, count - 1, times[:count], room)

    def _folds_ahead(self, most: int) -> tuple[Rows, int, np.ndarray]:
        """The folds from the front and each event after it on, and the times of these events."""
        cursor = self._standing()
        found = cursor.at_hand(most)
        _, known, times = found
        if not min(known, len(times)):
            cursor.place(self.front, self.back)
            cursor.query()
            found = cursor.at_hand(most)
        return found

    def catch_up(self, new: Events, gone: int, left: Partial, right: Partial) -> None:
        if self.setting.allowed_lateness:
            self.take_in(new)
            self.front += gone  # late events may still look at what has left
            self._cursor.catch_up(new.size, gone, right)
            return
        assert new.times is not None
        self.tree.append_folded(new.times, new.rows, new.size, right)
        if gone:
            self._note_left(self.tree.evict_oldest(gone), self.kept_from + gone)
            self.front = self.kept_from

    @property
    def spare(self) -> int:
        """How many events may come in order without a store call."""
        return self.tree.room if self.setting.on_duplicate == "append" else 0

    def take_in(self, new: Events) -> None:
        """Have the events that came by themselves, in order, no more than there was room for."""
        assert new.times is not None
        self.tree.append(new.times, new.rows, new.size)

    # --- runs -----------------------------------------------------------------------------------

    def run(self, batch: Batch, start: int) -> int:
        """A run of a batch in order of time: the result of each event, as of it."""
        assert batch.times is not None
        if self._has_left(int(batch.times[start])):
            return 0  # it leaves at once, so its result is that of the window
        most = min(start + self._most, batch.count)
        new = batch.part(start, self.run_end(batch.times, start, most))
        found = self._run(new, into=(batch, start))
        if found is None:
            return 0
        _, folds, is_new = found
        if is_new is not None:
            batch.put(start, self.monoid.partials.take(folds, np.flatnonzero(is_new)))
        return new.size

    def revise(self, rows: Rows, times: np.ndarray, count: int) -> Iterator[Revised]:
        """Add a batch in order of time; every result that is new or has changed, run by run.

        These are the results of all events from the first added one on. Raises NotRevisable
        where the cuts of the policy cannot be known ahead.
        """
        start = 0
        while start < count:
            stop = self.run_end(times, start, min(start + self._most, count))
            new = Events(self.monoid.inputs.cut(rows, start, stop), times[start:stop], stop - start)
            # Later stored events are looked at again with the run that comes before them.
            following = int(times[stop]) if stop < count else None

            def end(time: int | None = following) -> int:
                if time is None:
                    return self.back
                met = self._met_by(time)
                return self.place_of(time) if met is None else met

            found = self._run(new, end)
            if found is None:
                raise NotRevisable(f"{self.setting.policy!r} cannot be asked for earlier results")
            hand, folds, is_new = found
            assert hand.times is not None
            mask = np.ones(hand.count, bool) if is_new is None else is_new
            outputs = self.monoid.lower_rows(folds)
            yield Revised(hand.times, hand.rows, outputs, mask)
            start = stop

    def again(self, time: int, until: int | None = None) -> Revised | None:
        """The results as they are now of the events from a time on, before another; None for none.

        For policies on positions. O(1) whole-group combines an event, and a page a leaf.
        """
        first = self.first_after(time - 1)
        stop = self.back if until is None else self.first_after(until - 1)
        if first >= stop:
            return None
        hand = self._stored(first, stop)
        folds = self._cursor.run(hand)
        self._cursor.place(self.kept_from, self.kept_from)
        if folds is None or hand.times is None:
            raise NotRevisable(f"{self.setting.policy!r} cannot be asked for earlier results")
        outputs = self.monoid.lower_rows(folds)
        return Revised(hand.times, hand.rows, outputs, np.zeros(hand.count, bool))

    def _run(
        self,
        new: Events,
        end: Callable[[], int] | None = None,
        into: tuple[Batch, int] | None = None,
    ) -> tuple[Chunk, Rows, np.ndarray | None] | None:
        """Insert a run; what was looked at, the aggregates as of each, and which are new.

        ``end`` is asked for the position up to which stored events are looked at, if any are
        later than the first. Where all are new, results go ``into`` a batch from a place on, if
        there is one, and no aggregates are told. None, and nothing done, where the cuts cannot be
        known ahead.
        """
        self._make_ready(self._left_behind)
        rows, times, count = new
        assert times is not None
        if self._newest_ever is not None and int(times[0]) < self._newest_ever:
            self._cursor.place(self.kept_from, self.kept_from)  # its results are as of then
        met = self._met_by(int(times[0])) if count == 1 else None
        hand, is_new = self.hand_with(rows, times, count, end)
        folds = None
        if into is None or is_new is not None:
            folds = self._cursor.run(hand)
            if folds is None:
                return None
        elif not self._cursor.run_into(hand, *into):
            return None
        front, more = self._cursor.front, count * (met is None)
        if hand.stop < self.back + more and (newest := self.newest_time()) is not None:

            def after(time: int) -> int:
                among = times.searchsorted(time, side="right") if more else 0
                return self.first_after(time) + int(among)

            front = self._as_of(self._cursor, newest, after)
        if met is None:
            if count > self.tree.room:
                self.tree.unfold()  # results come from the cursor; a query seldom asks for more
            self._insert_run(rows, times, count, hand.stop - hand.count)
        else:
            self._put(met, self.monoid.inputs.at(rows, 0))
        self.front = max(self.front, front)
        with suppress(Exception):  # the next run will try again, and fail before it does anything
            self._settle()
        return hand, folds, is_new

    @property
    def _most(self) -> int:
        """How many events go in at once."""
        return max(RUN, _RUN_LEAVES * self.setting.leaf_arity)

    @property
    def _left_behind(self) -> int:
        most = min(_LEAVES_LEFT_BEHIND * self.setting.leaf_arity, self.tree.size // _LEFT_BEHIND)
        return max(most, _LEAST_LEFT_BEHIND * self.setting.leaf_arity)

    def hand_with(
        self,
        rows: Rows,
        times: np.ndarray | None,
        count: int,
        stop: Callable[[], int] | None = None,
    ) -> tuple[Chunk, np.ndarray | None]:
        """New events in order of time, and the stored ones among them, as one hand.

        Of the stored ones those up to ``stop``, by default those not later than the last new one,
        and without the one that a new one by itself replaces or joins. Beside it, which are new;
        None where all are. A page read a leaf.
        """
        assert times is not None
        met = self._met_by(int(times[0])) if count == 1 else None
        start = self.place_of(int(times[0])) if met is None else met
        if start == self.back:
            return Chunk(self.monoid, start, rows, times, count), None
        end = self.place_of(int(times[-1])) if stop is None else stop()
        end = max(end, start + (met is not None))
        stored = self._stored(start, end)
        schema, size = self.monoid.inputs, stored.count
        together, joined = schema.new(size + count), np.empty(size + count, "<i8")
        schema.put_many(together, 0, stored.rows)
        joined[:size], joined[size:] = stored.times, times
        schema.put_many(together, size, rows)
        order = np.argsort(joined, kind="stable")
        if met is not None:
            row = self._joined(schema.at(together, 0), schema.at(together, size))
            schema.put(together, size, row)
            order = order[order != 0]
        seen = schema.take(together, order)
        return Chunk(self.monoid, start, seen, joined[order], len(order)), order >= size

    def _stored(self, start: int, stop: int) -> Chunk:
        """Stored events as a hand; a page read a leaf, and a store call for all of one parent."""
        schema, at, count = self.monoid.inputs, 0, stop - start
        rows, times = schema.new(count), np.empty(count, "<i8")
        while at < count:
            leaf = self.leaf(start + at, stop)
            assert leaf.times is not None
            first, last = start + at - leaf.first, min(leaf.stop, stop) - leaf.first
            times[at : at + last - first] = leaf.times[first:last]
            schema.put_many(rows, at, schema.cut(leaf.rows, first, last))
            at += last - first
        return Chunk(self.monoid, start, rows, times, count)

    # --- snapshots --------------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        cursor = self._cursor
        self._cursor = copy(cursor)
        try:
            with super().preserving_state():
                yield
        finally:
            self._cursor = cursor

    def restore_state(self, snapshot: Snapshot) -> None:
        super().restore_state(snapshot)
        self._newest_ever = snapshot.last_time
        if self.newest_time() == snapshot.last_time:  # else the newest was retracted
            self._cursor.place(self.front, self.back)
        else:
            self._cursor.place(self.kept_from, self.kept_from)


class KeptTree(FiBA):
    """Events kept by time without a window of their own, for windows that share them.

    What ``LevelLog`` is to level queues: every window has a cursor which reads here.
    """

    name = "Kept events by time"

    @property
    def discards(self) -> bool:
        """Whether events may be let go of at any time, as no snapshot needs them."""
        return self.setting.store is None or not self.paged.retain

    def _evict_before(self, position: int) -> None:
        self.trim()
        self._cut_off(position)
        self.front = position

    def keep(self, hand: Chunk) -> None:
        """Late events may come among those in hand, so it is not kept."""

    def let_go(self) -> None:
        """There is no hand to forget."""
