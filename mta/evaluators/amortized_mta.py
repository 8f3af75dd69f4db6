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

Costs are in combines, with L and a as the sizes of leaf and inner groups. A query takes 1. The
other costs are amortized:

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
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import InvariantViolation
from mta.evaluators.cursor import Cursor, cursor_of
from mta.folds.sliding import Events, has_kernel
from mta.frames.windows import CountWindow, TimeWindow
from mta.logs.base import Setting
from mta.logs.levels.log import LeafReader, LevelLog
from mta.logs.levels.queues import ReadAhead
from mta.logs.levels.search import SegmentedWindow
from mta.monoids.base import Partial, Refold
from mta.snapshots import Snapshot

#: A chunk of a batch has at most this many bytes of values, or this many events if that is more.
_BYTES, _EVENTS = 1 << 21, 1 << 16
#: The number of read leaf groups that stay in memory between calls.
_FETCHED = 2


class AmortizedMTA(LevelLog, SegmentedWindow):
    """A window with O(1) amortized combines per operation and O(log n) bulk eviction."""

    name = "Amortized MTA"
    ends_anywhere = True
    #: Of the sealed groups, only those on the path to the front stay in memory.
    keeps_recent = False
    #: The class that folds a window that ends with the newest event.
    evaluator: type[Cursor] = Cursor

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.cursor = cursor_of(self, self, self.evaluator)
        self._ahead = ReadAhead(self.levels)

    @property
    def front(self) -> int:
        """Return the position of the oldest event, which is that of the window."""
        front: int = 0 if self.cursor is None else self.cursor.front
        return front

    @front.setter
    def front(self, position: int) -> None:
        if self.cursor is not None and position < self.cursor.end:
            self.cursor.move(position)
        elif self.cursor is not None:
            self.cursor.start_at(position, self.back)

    def recede(self) -> None:
        self.cursor.start_at(self.front, self.back)  # a snapshot has another frame's aggregate

    # --- events in ------------------------------------------------------------------------------

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add events, all together if many of them leave before the last one arrives.

        Events that arrive and leave in one call are neither written nor folded, unless a snapshot
        was taken.
        """
        coming = None if times is None else times[start:stop]
        front = self._front_after(coming, stop - start)
        least = self.back + self.levels.spans[1]
        if front < least or not (self.discards and self.monoid.is_columnar):
            return super().extend(rows, times, start, stop)
        self.store(Events(rows, times, stop).cut(self.monoid.inputs, start, stop), front)
        self.cursor.start_at(front, self.back)
        return stop - start

    def _front_after(self, times: np.ndarray | None, count: int) -> int:
        """Return the front after ``count`` more events if it is one of these; otherwise 0."""
        frame = self.setting.frame
        if type(frame) is CountWindow:
            return max(0, self.back + count - frame.end.rows - frame.size)
        if type(frame) is TimeWindow and times is not None:
            last = int(times[-1])
            return self.back + int(times.searchsorted(frame.start(last), side="right"))
        return 0

    def most_together(self, left: int, each: bool) -> int:
        """Return how many events to add together: all if the window has at most half as many."""
        if not each:
            return left
        frame, monoid = self.setting.frame, self.monoid
        values, partials = monoid.inputs.row_bytes, monoid.partials.row_bytes
        columns = (values or 0) + (monoid.outputs.row_bytes or 0)
        most = max(_EVENTS, _BYTES // values) if values else _EVENTS
        size = frame.size if isinstance(frame, CountWindow) else len(self)
        all_at_once = (
            self.discards
            and type(frame) in (CountWindow, TimeWindow)
            and size <= left // 2
            and partials is not None
            and partials * (size if has_kernel(monoid) else left) <= left * columns
        )
        return left if all_at_once else most

    def release(self) -> None:
        super().release()
        self.cursor.shrink(self.levels.spans[1])
        self._fetched.shrink(_FETCHED)

    def _evict_before(self, position: int) -> None:
        if position < self.cursor.end:
            self.cursor.evict_to(position)
        else:
            self.front = position

    # --- reading --------------------------------------------------------------------------------

    _read_ahead = LeafReader._read_ahead

    def _follow_ahead(self, number: int) -> None:
        self._ahead.follow(number, self._inner.get)

    def query(self) -> Partial:
        return self.cursor.query()

    # --- looking at it ----------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        cursor, fetched, inner = self.cursor, self._fetched, self._inner
        self.cursor, self._fetched, self._inner = copy(cursor), copy(fetched), copy(inner)
        try:
            yield
        finally:
            self.cursor, self._fetched, self._inner = cursor, fetched, inner

    def check(self) -> None:
        """Check the structure like the base class, without changing the state in memory."""
        with self.preserving_state():
            self._check_folds(self.checked_events()[: len(self.cursor)])

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
        stack: int = self.cursor.resident_rows
        return super().resident_rows + stack + 2

    # --- snapshots --------------------------------------------------------------------------------

    def write_state(self) -> list[Any]:
        partials, leaf = self.monoid.partials, self.levels.tails[0]
        folds = partials.new(2)
        lags = self.setting.frame.lags  # a restored cursor folds its frame again
        partials.put(folds, 0, self.monoid.identity if lags else self.query())
        is_behind = self.front < leaf.first
        partials.put(folds, 1, self.levels.update_fold(leaf) if is_behind else self.monoid.identity)
        return self.state_with(folds)

    def restore_state(self, snapshot: Snapshot) -> None:
        folds = self.restore_with(snapshot, 2)
        partials, leaf = self.monoid.partials, self.levels.tails[0]
        if self.front < leaf.first and leaf.count:
            leaf.folded = leaf.count, partials.at(folds, 1)
        self.cursor.start_at(self.front, self.back)
        self.cursor.have(partials.cut(folds, 0, 1))


# --- Log MTA --------------------------------------------------------------------------------------


class RangeEvaluator(Cursor):
    """A window that folds a range of the log at each leaf, in O(log n), without a stack."""

    def _behind(self, position: int, back: int) -> Partial:
        self.stack.clear()
        return self.events.fold(position, back)


class LogMTA(AmortizedMTA):
    """A window with O(log n) insertion, eviction and bulk eviction."""

    name = "Log MTA"
    evaluator = RangeEvaluator
