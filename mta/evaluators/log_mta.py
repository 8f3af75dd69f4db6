"""Log MTA (MTA paper, section 4.1): every operation walks one branch of the tree.

Both side branches are kept up to date: an insertion propagates from the leaf to the root along the
right branch (Algorithm 1), an eviction prunes from the root to the leaves and recomputes the left
branch bottom-up (Algorithm 2). The result stands at the root.

In place of the printed Algorithm 1, which overflows the root and loses an aggregate there, sealed
groups move up as in ``queues``; the element above an open group, whose value would change with
every event, is the running fold of that group in ``branch``, here kept up with every event. Figure
2's bulk eviction, a maximum over times with a window of four units, when 8 arrives after 1 to 4:

    [1 2] [3 4] [8 .]   with 4 evicted at the top   ->   [8 .]

Costs, in combines: insert 2, and levels where a group is sealed; evict, one event or many, at most
2 * arity * levels, and a page read a level; query 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvariantViolation
from mta.evaluators.tree import MonoidTree
from mta.folds.sliding import Events
from mta.logs.base import AtHand, Setting
from mta.logs.levels.search import Frame
from mta.monoids.base import Partial, Refold
from mta.pages.snapshot import Snapshot


class LogMTA(MonoidTree):
    """A window with O(log n) insertion, eviction and bulk eviction, and the result at hand."""

    name = "Log MTA"
    has_parts = False  # out of a snapshot, its branch is folded of all events of the open group

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.branch = [self.monoid.identity]
        self.result = self._before = self.monoid.identity
        #: The aggregates of all tails above the leaves' that come after the leftmost tree, and of
        #: all before the leaf tail.
        self._upper = self._older = self.monoid.identity

    def query(self) -> Partial:
        """The aggregate of the window; no combine."""
        return self.result

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event and propagate it to the root; 2 combines, and levels at a seal."""
        self.room()
        fold = self.monoid.combine(self.branch[0], self.monoid.lift(row))
        self.levels.append(row, time)
        self._before = self.branch[0]
        self._add(fold)

    def take_back(self) -> None:
        self.levels.take_back()
        self._add(self._before)
        self._give_back()

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events for which the leaf tail has room; ``count`` combines, no store call."""
        fold = self.monoid.fold(self.monoid.lift_rows(rows, count), count)
        fold = self.monoid.combine(self.branch[0], fold)
        self.levels.append_many(rows, times, count)
        self._add(fold)

    def _add(self, fold: Partial) -> None:
        """The leaf tail has another aggregate."""
        self.branch[0] = fold
        self.result = self.monoid.combine(self._older, fold)

    def _sealed(self, top: int, grown: list[tuple[int, Partial]]) -> None:
        super()._sealed(top, grown)
        self._fold_right()

    def _fold_right(self) -> None:
        self._upper = self.monoid.identity
        for fold in self.branch[1:]:
            self._upper = self.monoid.combine(fold, self._upper)
        self._moved()

    def _moved(self) -> None:
        self._older = self.monoid.combine(self.left, self._upper)
        self._add(self.branch[0])

    def _scan(self, frame: Frame, right: Partial) -> None:
        """Fold a leaf group of the head path once, for all of its events that leave."""
        if frame.level == 0:
            rows = self.levels.partials(0, frame.group, frame.next, frame.stop)
            count = frame.stop - frame.next
            frame.suffixes = self.monoid.suffixes(rows, count, self.monoid.identity)

    def _fold_left(self) -> Partial:
        """Recompute the left branch, from the root frame down to the leaves."""
        left, partials = self.monoid.identity, self.monoid.partials
        for frame in self.path:
            if frame.level:
                fold = self.levels.fold(frame.level, frame.group, frame.next, frame.stop)
            else:
                fold = partials.at(frame.suffixes, frame.next - frame.origin)
            left = self.monoid.combine(fold, left)
        return left

    # --- single events --------------------------------------------------------------------------

    def at_hand(self, most: int) -> AtHand | None:
        found = super().at_hand(most)
        return found and found._replace(left=self._older, right=self.branch[0])

    def _lefts(self, frame: Frame, start: int, stop: int) -> Rows:
        monoid, rows = self.monoid, super()._lefts(frame, start, stop)
        above = monoid.identity
        for higher in self.path[:-1]:
            fold = self.levels.fold(higher.level, higher.group, higher.next, higher.stop)
            above = monoid.combine(fold, above)
        for right in (above, self._upper):
            rows = monoid.combine_rows(rows, monoid.partials.one(right), stop - start)
        return rows

    def catch_up(self, new: Events, gone: int, left: Partial, right: Partial) -> None:
        super().catch_up(new, gone, left, right)
        if gone:
            self.left = self._fold_left()
        self._older = left
        self._add(right)

    def write_state(self) -> list[Any]:
        self.right = self.monoid.combine(self._upper, self.branch[0])
        return super().write_state()

    def restore_state(self, snapshot: Snapshot) -> None:
        super().restore_state(snapshot)
        self._renew_right()  # the branch is in the tails

    def _check_folds(self, events: list[Partial]) -> None:
        fold = Refold(self.monoid, events)
        if len(events) != len(self) or not fold.agrees(self.result):
            raise InvariantViolation(f"the root holds {self.result!r} instead of {fold!r}")
