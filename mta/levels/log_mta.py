"""Log MTA (MTA paper, section 4.1): every operation walks one branch of the tree.

Both side branches are kept up to date: an insertion propagates from the leaf to the root along the
right branch (Algorithm 1), an eviction prunes from the root to the leaves and recomputes the left
branch bottom-up (Algorithm 2). The result stands at the root.

In place of the printed Algorithm 1, which overflows the root and loses an aggregate there, sealed
groups move up as in ``queues``; the element above an open group, whose value would change with
every event, is the running fold of that group in ``branch``, here kept up with every event. Figure
2's bulk eviction, a maximum over times with a window of four units, when 8 arrives after 1 to 4:

    [1 2] [3 4] [8 .]   with 4 evicted at the top   ->   [8 .]

Costs, in combines: insert 2 + levels; evict, one event or many, at most 2 * arity * levels, and a
page read a level; query 0.
"""

from __future__ import annotations

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvariantViolation
from mta.levels.tree import MonoidTree
from mta.monoids.base import Partial, Refold
from mta.pages.handle import Handle
from mta.pages.structure import Setting


class LogMTA(MonoidTree):
    """A window with O(log n) insertion, eviction and bulk eviction, and the result at hand."""

    name = "Log MTA"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.branch = [self.monoid.identity]
        self.result: Partial = self.monoid.identity
        self._before: Partial = self.monoid.identity

    def query(self) -> Partial:
        """The aggregate of the window; no combine."""
        return self.result

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event and propagate it to the root; 2 + levels combines."""
        self.room()
        fold = self.monoid.combine(self.branch[0], self.monoid.lift(row))
        self.levels.append(row, time)
        self._before = self.branch[0]
        self.branch[0] = fold
        self._fold_right()

    def take_back(self) -> None:
        self.levels.take_back()
        self.branch[0] = self._before
        self._fold_right()
        self._give_back()

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events for which the leaf tail has room; ``count`` combines, no store call."""
        fold = self.monoid.fold(self.monoid.lift_rows(rows, count), count)
        self.branch[0] = self.monoid.combine(self.branch[0], fold)
        self.levels.append_many(rows, times, count)
        self._fold_right()

    def _moved(self) -> None:
        self.result = self.monoid.combine(self.left, self.right)

    def _fold_left(self) -> Partial:
        """Recompute the left branch, from the root frame down to the leaves."""
        left = self.monoid.identity
        for frame in self.path:
            fold = self.levels.fold(frame.level, frame.group, frame.next, frame.stop)
            left = self.monoid.combine(fold, left)
        return left

    def restore_state(self, handle: Handle) -> None:
        super().restore_state(handle)
        self._renew_right()  # the branch is in the tails

    def check(self) -> None:
        self.levels.check(self.front)
        events = list(self.events())
        fold = Refold(self.monoid, events)
        if len(events) != len(self) or not fold.agrees(self.result):
            raise InvariantViolation(f"the root holds {self.result!r} instead of {fold!r}")
