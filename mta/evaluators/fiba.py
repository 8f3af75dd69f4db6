"""FiBA as a window's structure: events in order of time, in any order of arrival, in pages.

Results are *as of* their events: the result of an event at time t is the aggregate of the window
that, by the frame, ends with the event. So the final result of an event does not depend on the
order and the batches in which events arrive. If no event is late, it is the result after the event
was inserted, as with level queues. The tree retains the events that a late event may need: the
window as of ``lateness`` before the newest event.

A batch is added run by run, in order of time. Each run is merged with the stored events that are
later than its first event (if any event is late), and a cursor (``cursor``) computes the result of
each event. Only then is the run inserted, so nothing has changed if a page is missing.

A window that is restored from a snapshot reads only the part of its tree that the next batch needs.
(Spark restores a window for each batch of a key.) Events that have left are then cut off in whole
leaves, some of them later, so no leaf is read or written only for that purpose.

Costs are in combines. An event in order takes O(1) amortized. An event at distance d takes O(arity
* log d), or O(d) if every result of a batch is requested. A bulk eviction takes O(arity * log n),
and one page per level. Single late events wait with the other new events, unless they are older
than the last leaf. They take one combine each, and one merge into the last leaf for all of them. If
the monoid is not commutative, only late events among the newest ones can wait
(``FingerTreeLog.newest``), and each takes one combine for each newer event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import NotRevisable
from mta.evaluators.cursor import Cursor
from mta.evaluators.ends import EarlyCursor, cursor_of
from mta.folds.sliding import Events
from mta.frames.base import Frame
from mta.frames.windows import TimeWindow
from mta.logs.base import Batch, Chunk, FoldingLog, Lens, Prefetched, Setting
from mta.logs.finger_tree.log import LEFT_BEHIND, FingerTreeLog
from mta.logs.finger_tree.node import Kind
from mta.monoids.base import Partial
from mta.snapshots import Snapshot


class Revised(NamedTuple):
    """Events with new or changed results, in order of time."""

    times: np.ndarray
    rows: Rows
    """The values of the events."""
    outputs: Rows
    """The results of the events."""
    is_new: np.ndarray
    """Whether each event is in this batch."""


class FiBA(FingerTreeLog, FoldingLog):
    """A window of events in order of time; events may arrive late."""

    name = "FiBA"
    ends_anywhere = True

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting, kind)
        self._cursor = cursor_of(setting, self)
        #: The front before the last single event, if that event has moved it back.
        self._receded: int | None = None
        #: Whether the events being inserted are those that the cursor has processed.
        self._has_run = False
        #: The front at the last removal of unneeded events.
        self._cut_at = 0

    # --- events in and out ----------------------------------------------------------------------

    def _make_ready(self, count: int = 1) -> None:
        """Release nodes, and remove the events that have left if they are at least ``count``."""
        self.trim()
        if self.front - max(self.kept_from, self._cut_at) < count:
            return
        kept = self._kept(self.front)
        if kept - self.kept_from >= count:
            self._cut_off(kept)

    def prepare(self) -> None:
        spare = 0 if self.tree.has_left else min(self.tree.size // LEFT_BEHIND, self._left_behind)
        self._cut_at = 0  # newer events may have made more events unneeded at the same front
        self._make_ready(max(spare, 1))
        super().prepare()

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; O(1) combines amortized in order, O(arity * log d) at distance d."""
        self._receded = None
        back, is_empty = self.back, self.front == self.back
        position = self._insert(row, time)
        if position is None:
            return
        if position == back == self._cursor.back and not self._cursor.ends_early:
            self._cursor.take_in(row)
        is_late = position < back
        if (is_late or is_empty) and self.setting.reach and self.setting.frame.merges:
            self._receded, self.front = self.front, self.kept_from
            self._front_time = (-1, 0)

    def take_back(self) -> None:
        if self._receded is not None:
            self.front, self._receded = self._receded, None
        super().take_back()

    def _note_late(self, position: int, before: int) -> None:
        if position <= self.front:
            self._front_time = (-1, 0)
        if position < self.front:
            self._cut_at += before
        super()._note_late(position, before)
        if self._has_run and position >= 0 and self._cursor.back == self.back:
            self._cursor.stay(position)
        else:
            self._cursor.recede(position)

    def slide_to(self, position: int) -> None:
        """Move the front to the frame's position; late events may still need earlier events.

        Removes unneeded events from the tree, so that a query reads no page. Without a left spine,
        the next insertion or snapshot removes them, as a query must search for the front anyway. A
        few events of the first leaf take one combine each, amortized.
        """
        position = max(self.front, position)
        if not self.setting.reach and position > self.kept_from:
            self.tree.load_left()
        if position > self._cut_at and (self.tree.has_left or not self.setting.reach):
            self._cut_off(self._kept(position))
            self._cut_at = position
        if self._cursor.back == self.back:
            self._cursor.move(position)
        self.front = position

    def recede(self) -> None:
        """Start the window with the oldest event that is retained for late events."""
        self.front = self.kept_from
        self._front_time = (-1, 0)
        self._cursor.place(self.front, self.back)

    def _evict_before(self, position: int) -> None:
        """Evict in O(arity * log n) combines; late events cannot use these events again."""
        self.tree.load_left()
        self.trim()
        self._cut_off(position)
        self.front = position
        self._cursor.place(position, self.back)

    def _is_gone(self, position: int) -> bool:
        return position < self.front and position < self.needed_from(self._cursor, self.front)

    # --- what late events may need --------------------------------------------------------------

    def _kept(self, front: int) -> int:
        """Return the position from which events may be needed, given the window's front.

        Without a left spine, returns the start of a leaf at or before it, and reads no leaf.
        """
        tree, frame, reach = self.tree, self.setting.frame, self.setting.reach
        if tree.has_left:
            return self.needed_from(self._cursor, front)
        newest = self.newest_time()
        if reach and newest is not None and frame.positional:
            needed = self._as_of(self._cursor, newest - reach, self.leaf_after)
            if needed <= front and type(frame) is TimeWindow:
                return needed
            front = min(front, needed)
        elif frame.merges:
            front = self.needed_from(self._cursor, front)
        cut = tree.at_position(front - self.kept_from)
        return self.kept_from + tree.rank(cut, reads_leaf=False)

    def query(self) -> Partial:
        """Return the aggregate of the window; 2 combines, O(arity * log n) after a late event.

        The result is bit-identical to that after single events.
        """
        if self._cursor.ends_early:
            return self._cursor.query()
        if self.setting.reach or self.front != self.kept_from:
            return self._placed().query()
        return self.tree.query()

    def _placed(self) -> Cursor:
        self._cursor.reach(self.front, self.back)
        return self._cursor

    def end_at(self, time: int | None) -> int:
        return self._cursor.follow(self.front, time)

    # --- single events --------------------------------------------------------------------------

    def prefetched(self, most: int) -> Prefetched | None:
        """Return the data that single events in order need.

        If no event may be late, the data are in the first leaf of the tree. Otherwise a cursor has
        them, as the first leaf is retained for late events. This takes 1 combine per event
        amortized, O(arity * log n) at a new leaf and after a late event, and at most one page read
        per level.
        """
        if self.setting.on_duplicate != "append":
            return None
        room, cursor = self.tree.room, self._cursor
        if isinstance(cursor, EarlyCursor):
            can_come = room and len(cursor)
            return cursor.frame_ahead(most, room, timed=True) if can_come else None
        if not self.setting.reach:
            return self.tree.prefetched(most) if self.front == self.kept_from else None
        if not room or len(self) < 2:
            return None
        cursor = self._placed()
        cursor.prepare_ahead()
        return cursor.ahead(most, self.newest(len(self))).beside(self.monoid.identity, room)

    def take_in(self, new: Events, right: Partial = None) -> int | None:
        if self.setting.reach or self._cursor.ends_early:
            return super().take_in(new)
        assert new.times is not None
        self.tree.append_folded(new.times, new.rows, new.size, right)
        return None

    def sync(self, came: int, gone: int, right: Partial, late: int | None) -> None:
        if self.setting.reach or self._cursor.ends_early:
            self.front += gone  # late events may still need events that have left
            self._cursor.sync(came, gone, right, late)
        elif gone:
            self._note_left(self.tree.evict_oldest(gone), self.kept_from + gone)
            self.front = self.kept_from

    # --- runs -----------------------------------------------------------------------------------

    def run(self, batch: Batch, start: int) -> int:
        """Add a run of a batch in order of time; return the result as of each event."""
        assert batch.times is not None
        if self._has_left(int(batch.times[start])):
            return 0  # the event leaves on arrival; its result is that of the window
        most = min(start + self._most, batch.count)
        new = batch.part(start, self.run_end(batch.times, start, most))
        found = self._run(new, into=(batch, start))
        if found is None:
            return 0
        chunk, outputs, is_new = found
        if is_new is not None:
            batch.put_new(start, outputs, chunk.count, is_new)
        return new.size

    def revise(self, rows: Rows, times: np.ndarray, count: int) -> Iterator[Revised]:
        """Add a batch in order of time; yield every new or changed result, run by run.

        These are the results of the oldest new event and all later events. Raises NotRevisable if
        the cuts of the frame are not predictable.
        """
        start = 0
        while start < count:
            stop = self.run_end(times, start, min(start + self._most, count))
            new = Events(self.monoid.inputs.cut(rows, start, stop), times[start:stop], stop - start)
            # Later stored events belong to the run that precedes them.
            following = int(times[stop]) if stop < count else None

            def end(time: int | None = following) -> int:
                if time is None:
                    return self.back
                met = self._met_by(time)
                return self.place_of(time) if met is None else met

            found = self._run(new, end)
            if found is None:
                raise NotRevisable(f"{self.setting.frame!r} cannot return earlier results")
            chunk, outputs, is_new = found
            assert chunk.times is not None
            mask = np.ones(chunk.count, bool)
            if is_new is not None:
                mask[: len(is_new)] = is_new
            yield Revised(chunk.times, chunk.rows, outputs, mask)
            start = stop

    def again(self, time: int, until: int | None = None) -> Revised | None:
        """Return the current results of the events from ``time`` to before ``until``.

        For frames on positions. O(1) whole-group combines per event, and one page per leaf.
        """
        first = self.first_after(time - 1)
        stop = self.back if until is None else self.first_after(until - 1)
        if first >= stop:
            return None
        chunk = self._stored(first, stop)
        outputs = self._cursor.results(chunk)
        self._cursor.place(self.kept_from, self.kept_from)
        if outputs is None or chunk.times is None:
            raise NotRevisable(f"{self.setting.frame!r} cannot return earlier results")
        return Revised(chunk.times, chunk.rows, outputs, np.zeros(chunk.count, bool))

    def _run(
        self,
        new: Events,
        end: Callable[[], int] | None = None,
        into: tuple[Batch, int] | None = None,
    ) -> tuple[Chunk, Rows, np.ndarray | None] | None:
        """Insert a run; return its chunk, the results, and which events are new (``chunk_with``).

        The chunk includes the stored events from the first new event up to ``end()``. If all events
        are new and ``into`` is given, the results are written there instead. Returns None, without
        any change, if the cuts are not predictable.
        """
        self._make_ready(self._left_behind)
        rows, times, count = new
        assert times is not None
        met = self._met_by(int(times[0])) if count == 1 else None
        chunk, is_new = self.chunk_with(rows, times, count, end)
        newest = self._newest_ever
        if chunk.first < self.back or (newest is not None and times[0] < newest):
            self._cursor.recede(chunk.first)  # results are as of their events
        outputs, cursor = None, self._cursor
        if into is None or is_new is not None:
            outputs = cursor.results(chunk)
            if outputs is None:
                return None
        elif not cursor.run_into(chunk, *into):
            return None
        front, more = cursor.front, count * (met is None)
        if chunk.stop < self.back + more and (newest := self.newest_time()) is not None:

            def after(time: int) -> int:
                among = times.searchsorted(time, side="right") if more else 0
                return self.first_after(time) + int(among)

            front = self._as_of(self._cursor, newest, after, self._total_with(chunk, more))
        if met is None:
            self._insert_chunk(new, chunk)
        else:
            self._put(met, self.monoid.inputs.at(rows, 0))
        self.front = front if self.setting.frame.merges else max(self.front, front)
        with suppress(Exception):  # the next run tries again, and fails before any change
            self._settle()
        return chunk, outputs, is_new

    def _total_with(self, chunk: Chunk, more: int) -> Callable[[Frame], Any]:
        """Return what frames observe in all retained events and ``more`` of a chunk, together."""

        def total(frame: Frame) -> Any:
            monoid, pick = self._cursor.lens(frame)
            assert chunk.times is not None
            among = monoid.fold(monoid.lift_rows(chunk.times, chunk.count), chunk.count)
            before = pick(self.fold(self.kept_from, chunk.first))
            after = pick(self.fold(chunk.stop - more, self.back))
            return monoid.lower(monoid.combine(monoid.combine(before, among), after))

        return total

    def _insert_chunk(self, new: Events, chunk: Chunk) -> None:
        """Insert events whose chunk the cursor has processed."""
        rows, times, count = new
        assert times is not None
        if count > self.tree.room or self.setting.reach:
            self.tree.unfold()  # results come from the cursor, so queries rarely need these folds
        self._has_run = True
        try:
            self._insert_run(rows, times, count, chunk.first, chunk)
        except Exception:
            self._cursor.place(self.kept_from, self.kept_from)
            raise
        finally:
            self._has_run = False

    # --- what frames request --------------------------------------------------------------------

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Search the leaf at the front with a cursor, then the rest from the top of the tree."""
        if self.front == self.back:
            return self.front
        stop = self.leaf(self.front).stop
        found = self._searching(lens, stop).prefix_accepted(lens, accepts)
        if found < stop or stop == self.back:
            return found
        monoid, pick = lens
        return self.kept_from + self.tree.longest_prefix(
            stop - self.kept_from,
            self.fold(self.front, stop),
            lambda prefix: accepts(monoid.lower(pick(prefix))),
        )

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self._searching(lens, self.back).suffix_accepted(lens, accepts)

    def _searching(self, lens: Lens, back: int) -> Cursor:
        frame = self.setting.frame
        cursor = Cursor(self.monoid, frame, self, {id(frame): lens})
        cursor.place(self.front, back)
        return cursor

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
        self.restore_front_time(snapshot.front_time)
        if self.newest_time() == snapshot.last_time:  # otherwise the newest event was retracted
            self._cursor.place(self.front, self.back)
        else:
            self._cursor.place(self.kept_from, self.kept_from)

    def _checked_result(self) -> Partial:
        # A query of all retained events would fold deferred aggregates.
        is_asked = self.tree.is_folded or self.front > self.kept_from
        ends_early = self._cursor.ends_early
        return self.query() if is_asked and not ends_early else super()._checked_result()
