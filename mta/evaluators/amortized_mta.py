"""Amortized MTA and Log MTA: any associative operation at O(1) or O(log n) combines per event.

Amortized MTA is section 4.2 of the MTA paper. A stack (``cursor``) evaluates level queues
(``logs.levels``). The parts of the paper are implemented as follows:

- The *stack* has the suffix folds of the groups on the path to the front (Algorithms 4 to 7). Its
  last entry has the folds S from each event of the leaf at the front. An eviction uses the next
  fold of S.
- In the *result pair*, R0 is the fold in S at the front, and R1 is the aggregate G of the events
  added since S was folded. The result is ``combine(R0, R1)`` (Algorithm 3).

This is the paper's Figure 4, a sum over 1, 2, 1, 2, 1, 2, 1, 2 with pairs, followed by 1:

    level 2   [6 .]                           path: the root, whose element is open
    level 1   [3 3] [3 .]                     stack: 3 + 6 = 9 from the second pair on
    level 0   [1 2] [1 2] [1 2] [1 2] [1 .]   S: 1 + 11 = 12, 2 + 9 = 11; R1 = 1

This deviates from the printed algorithms. The folds of a group on the path extend to the
newest event at the time of their computation, not to the end of the leftmost tree. Later events are
combined once, into one aggregate per entry of the stack. So a growing leftmost tree needs no work,
and the left branch has no stale values. The stack is built again from the queues only when the
front leaves the root group that it was built from.

Costs are in combines, with L = leaf_arity and a = arity. A query takes 1. The other costs are
amortized:

    insert   1               onto R1
             1               groups are folded when they are sealed
    evict    1 + 1/(a-1)     S and the stack are filled with every group that the front reaches
             2/L + ...       a new leaf passes R1 on, and combines the next fold

So a slide with its query takes at most 7 combines with pairs, and little more than 3 with large
leaf groups. A single call takes at most 2 (L + a * levels) combines.

Log MTA (section 4.1) evaluates level queues by range folds. The paper keeps both side branches up
to date. An insertion propagates along the right branch (Algorithm 1), and an eviction prunes and
recomputes the left branch (Algorithm 2). The result is at the root. Here, the left branch is folded
when the front reaches a leaf, by one range fold of the levels (``LeafReader.fold``) and the suffix
folds of the leaf's events. While the front is in that leaf, the right branch is one running fold.
Nothing else is remembered.

The printed Algorithm 1 overflows the root and loses an aggregate there. Instead, sealed groups move
up as in ``logs.levels.queues``. Figure 2 shows a bulk eviction: a maximum over times with a window
of four units, when 8 arrives after 1 to 4:

    [1 2] [3 4] [8 .]   with 4 evicted at the top   ->   [8 .]

An insert takes 1 combine, and one per level if a group is sealed. A query takes 1. If the front has
reached another leaf, after one or many evictions, a query takes at most 2 * arity * levels, and one
page read per level.

In a snapshot, after the common fields (``logs.levels.log`` describes swept, kept and tails):

state    = [swept, kept, folds, tails]
folds    = columns of two partials: the aggregate of the window, or the identity if the window ends
           before the newest event; and the aggregate of the open leaf group, if the window begins
           before that group
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from itertools import takewhile
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvariantViolation
from mta.evaluators.cursor import Cursor
from mta.evaluators.ends import EarlyCursor, cursor_of
from mta.folds.sliding import Events, has_kernel
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import Batch, Chunk, OrderedEvents, Prefetched, Setting
from mta.logs.levels.log import LeafReader
from mta.logs.levels.queues import ReadAhead
from mta.logs.levels.search import Segment, SegmentedWindow
from mta.monoids.base import Partial, Refold
from mta.snapshots import Snapshot

#: A chunk of a batch has at most this many bytes of values, or this many events if that is more.
_BYTES, _EVENTS = 1 << 21, 1 << 16
#: The number of read leaf groups that stay in memory between calls.
_FETCHED = 2


class AmortizedMTA(LeafReader, SegmentedWindow):
    """A window with O(1) amortized combines per operation and O(log n) bulk eviction."""

    name = "Amortized MTA"
    ends_anywhere = True
    #: The class that folds a window that ends with the newest event.
    evaluator: type[Cursor] = Cursor

    def __init__(self, setting: Setting) -> None:
        SegmentedWindow.__init__(self, setting)
        LeafReader.__init__(self, self)
        self.cursor = cursor_of(setting, self, self.evaluator)
        #: The cursor before the last single event, until that event cannot be taken back any more.
        self._before = self.cursor
        self._ahead = ReadAhead(self.levels) if self.levels.pager.reads_ahead else None

    # --- events in and out ----------------------------------------------------------------------

    def query(self) -> Partial:
        """Return the aggregate of the window; 1 combine, and more if the front is in a new leaf."""
        return self._placed().query()

    def _placed(self) -> Cursor:
        """Return the cursor; move it to the current window unless it ends early (``end_at``)."""
        cursor = self.cursor
        if cursor.ends_early:
            return cursor
        if cursor.back != self.back or cursor.front > self.front:
            cursor.place(self.front, self.back)
        cursor.move(self.front)
        return cursor

    def end_at(self, time: int | None) -> int:
        return self.cursor.follow(self.front, time)

    def recede(self) -> None:
        self.cursor.place(self.front, self.back)  # a snapshot has the aggregate of another frame

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; 1 combine, and amortized 1 for the groups that are sealed."""
        self.room()
        lifted = self.monoid.lift(row)  # must fail before the event is added
        grown = self._placed().grown_by(lifted)
        self._before = copy(self.cursor)
        self.levels.append(row, time)
        self.cursor.accept(1, grown)

    def take_back(self) -> None:
        self.levels.take_back()
        self._open = None
        self.cursor = self._before

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        cursor, monoid, grown = self._placed(), self.monoid, None
        if not cursor.ends_early and (cursor.is_held or not len(self)):
            grown = cursor.grown_by(monoid.fold(monoid.lift_rows(rows, count), count))
        self.levels.append_many(rows, times, count)  # first: it may read the parts of a tail
        cursor.accept(count, grown)

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events, all together if many of them leave before the last one arrives.

        Events that arrive and leave in one call are neither written nor folded, unless a snapshot
        was taken.
        """
        coming = None if times is None else times[start:stop]
        front = self._front_after(coming, stop - start)
        least = self.back + self.levels.leaf_arity
        if front < least or not (self.discards and self.monoid.is_columnar):
            return super().extend(rows, times, start, stop)
        new = Events(self.monoid.inputs.cut(rows, start, stop), coming, stop - start)
        self.store(new, front)
        self._evict_before(front)
        return new.size

    def _front_after(self, times: np.ndarray | None, count: int) -> int:
        """Return the front after ``count`` more events if it is one of these; otherwise 0."""
        frame = self.setting.frame
        if type(frame) is CountWindow:
            return max(0, self.back + count - frame.end.rows - frame.size)
        if type(frame) is TimeWindow and times is not None:
            last = int(times[-1])
            return self.back + int(times.searchsorted(frame.start(last), side="right"))
        return 0

    def _seal(self) -> None:
        full = takewhile(lambda tail: tail.is_full, self.levels.tails)
        sealed = {(tail.level, tail.number): tail for tail in full}
        self.levels.seal()
        self.have_read(sealed, self.front)

    def _evict_before(self, position: int) -> None:
        if not self.cursor.ends_early:
            self.cursor = self._placed().moved_on(position)
        self.front = position

    # --- batches --------------------------------------------------------------------------------

    def run(self, batch: Batch, start: int) -> int:
        """Insert, evict and query for the next chunk of a batch; about two combines per event.

        Returns how many events were added; 0 if the cuts are not predictable. If the store fails,
        no event of the chunk was added.
        """
        left = batch.count - start
        part = batch.part(start, start + min(left, self._most_events(left)))
        chunk = Chunk(self.monoid, self.back, *part)
        cursor = self._placed()
        before = copy(cursor)
        try:
            if not cursor.run_into(chunk, batch, start):
                return 0
            self.store(Events(chunk.rows, chunk.times, chunk.count), cursor.front)
        except Exception:
            self._chunks, self.cursor = [], before
            raise
        self.front, self._before = cursor.front, cursor
        self._chunks = [chunk, *self._chunks[:1]]
        if chunk.count == left:
            self._chunks = []
            cursor.shrink(self.levels.leaf_arity)
            self.release_fetched(_FETCHED)
        return chunk.count

    def _most_events(self, left: int) -> int:
        """Return how many events to add together: all if the window has at most half as many."""
        frame, monoid = self.setting.frame, self.monoid
        values, partials, results = (
            schema.row_bytes for schema in (monoid.inputs, monoid.partials, monoid.outputs)
        )
        most = max(_EVENTS, _BYTES // values) if values else _EVENTS
        size = frame.size if isinstance(frame, CountWindow) else len(self)
        stack = size if has_kernel(monoid) else left
        all_at_once = (
            self.discards
            and type(frame) in (CountWindow, TimeWindow)
            and size <= left // 2
            and partials is not None
            and partials * stack <= left * ((values or 0) + (results or 0))
        )
        return left if all_at_once else most

    # --- single events --------------------------------------------------------------------------

    def prefetched(self, most: int) -> Prefetched | None:
        room, cursor = self.spare, self._placed()
        if not len(cursor) or not room:
            return None
        if isinstance(cursor, EarlyCursor):
            return cursor.frame_ahead(most, room, self.setting.timed)
        cursor.compute_folds()
        found = cursor.prefetched(most)
        if self.setting.timed and not len(found.leaving):
            if found.size == 1:
                found = found._replace(leaving=np.array([self.oldest_time()], "<i8"))
            else:
                cursor.look_at_leaf()
                found = cursor.prefetched(most)
            found = found.cut(len(found.leaving), self.monoid)
        return found.beside(self.monoid.identity, room)

    def sync(self, came: int, gone: int, right: Partial, late: int | None) -> None:
        self._before = self.cursor
        self.cursor.sync(came, gone, right)
        self.front += gone

    # --- reading ----------------------------------------------------------------------------------

    def remembered(self) -> OrderedEvents:
        return self

    def _follow_ahead(self, number: int) -> None:
        if self._ahead is not None:
            self._ahead.follow(number, self._inner)

    def open_path(self) -> Segment | None:
        if self.front == self.back:
            return None
        leaf = self._leaf(self.front // self.levels.leaf_arity)
        return Segment(0, leaf.first, leaf, self.front - leaf.first, leaf.count)

    # --- looking at it ----------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        cursor, fetched, inner = self.cursor, self._fetched, self._inner
        self.cursor, self._fetched, self._inner = copy(cursor), fetched.copy(), inner.copy()
        try:
            yield
        finally:
            self.cursor, self._fetched, self._inner = cursor, fetched, inner

    def check(self) -> None:
        """Check the structure like the base class, without changing the state in memory."""
        with self.preserving_state():
            self._check_folds(self.checked_events()[: self.end_at(None) - self.front])

    def _check_folds(self, events: list[Partial]) -> None:
        monoid = self.monoid
        entries = [(self.front, self.query()), *self.cursor.entries()]
        folds, fold, end = dict[int, Refold](), Refold(monoid), len(events)
        for at in sorted({position - self.front for position, _ in entries}, reverse=True):
            folds[at] = fold = Refold(monoid, events[at:end]) + fold
            end = at
        for position, entry in entries:
            if not folds[position - self.front].agrees(entry):
                raise InvariantViolation(
                    f"the aggregate from position {position} on is {entry!r} instead of "
                    f"{folds[position - self.front]!r}"
                )

    @property
    def resident_rows(self) -> int:
        """Return the number of rows in tails, the stack and the result pair."""
        return sum(tail.count for tail in self.levels.tails) + self.cursor.resident_rows + 2

    # --- snapshots --------------------------------------------------------------------------------

    def write_state(self) -> list[Any]:
        partials, leaf = self.monoid.partials, self.levels.tails[0]
        folds = partials.new(2)
        is_early = self.cursor.ends_early  # a restored cursor folds its frame again
        partials.put(folds, 0, self.monoid.identity if is_early else self.query())
        is_behind = self.front < leaf.first
        partials.put(folds, 1, self.levels.fold_tail(leaf) if is_behind else self.monoid.identity)
        return self.state_with(folds)

    def restore_state(self, snapshot: Snapshot) -> None:
        folds = self.restore_with(snapshot, 2)
        partials, leaf = self.monoid.partials, self.levels.tails[0]
        if self.front < leaf.first and leaf.count:
            leaf.folded = leaf.count, partials.at(folds, 1)
        if not self.cursor.ends_early:
            self.cursor.place(self.front, self.back)
            self.cursor.have(partials.cut(folds, 0, 1))


# --- Log MTA --------------------------------------------------------------------------------------


class RangeEvaluator(Cursor):
    """A window that folds a range of the log at each leaf, in O(log n), without a stack."""

    def _behind(self, position: int, back: int) -> Partial:
        self._stack.clear()
        return self.events.fold(position, back)


class LogMTA(AmortizedMTA):
    """A window with O(log n) insertion, eviction and bulk eviction."""

    name = "Log MTA"
    evaluator = RangeEvaluator
