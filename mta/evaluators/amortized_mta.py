"""Amortized MTA (MTA paper, section 4.2): any associative operation at O(1) combines an event.

Three parts are kept beside the level queues:

- the *result pair* R: ``left`` (R0) is the aggregate of the leftmost tree, ``right`` (R1) that of
  the rest of the forest, and ``combine(left, right)`` is the result (Algorithm 3);
- the *stack*: for every group on the head path, the suffix folds of its elements, each reaching to
  the middle. With pairs that is one entry a level, as in Algorithm 4; its top is the next R0, so a
  single eviction is a look at the next entry (Algorithm 6, and R0 it is: section 4.2.1 says R1).

The paper's Figure 4, a sum over 1, 2, 1, 2, 1, 2, 1, 2 with pairs:

    level 2   [6 .]                                leftmost tree: 1 2 1 2, R0 = 6
    level 1   [3 3] [3 .]                          the rest: R1 = 3 + 3 = 6
    level 0   [1 2] [1 2] [1 2] [1 2]              stack: 2 + 3 = 5 on top of 3

Where this departs from the printed algorithms: stale values on the left branch cannot arise,
because dead elements are never looked at again; the stack is rebuilt from the queues only when the
front leaves the leftmost tree, and when the tree's root gets an element, every entry is combined
with it instead (the same number of combines, without reading a page).

Costs, in combines, with L = leaf_arity and a = arity; amortised but for the query, which takes 1:

    insert   1               onto R1
             1               groups are folded when they are sealed
             1/L             the fold of the tail above, which a sealed leaf group joins
             at most 1       R1 is folded anew now and then; levels/L where L is more than levels
             (L + a * levels)/span  where the leftmost tree's root gets an element, every span
                             events, the stack is combined with it: up to 1 + a/L in windows of two
                             levels, next to nothing in longer ones
    evict    1 + 1/(L(a-1))  the stack is filled with every group that the front comes to

So a slide, without its query, takes 5 at pairs (an insertion alone 3.5), and little more than 3
where leaf groups are large. At once it is at most 2 (L + a * levels): a leaf group is sealed by the
same event for which another one is opened.
"""

from __future__ import annotations

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvariantViolation
from mta.evaluators.runs import RunningTree
from mta.folds.sliding import Events
from mta.logs.base import Setting
from mta.logs.levels.search import Frame
from mta.monoids.base import Partial, Refold
from mta.pages.page import Group


class AmortizedMTA(RunningTree):
    """A window with O(1) amortised combines an operation and O(log n) bulk eviction."""

    name = "Amortized MTA"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._right_before: Partial = self.monoid.identity

    def query(self) -> Partial:
        """The aggregate of the window; 1 combine."""
        return self.monoid.combine(self.left, self.right)

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; 1 combine, and for the groups it seals amortised 1 to 2.5 (see above)."""
        self.room()
        right = self.monoid.combine(self.right, self.monoid.lift(row))
        self.levels.append(row, time)
        self._right_before, self.right = self.right, right

    def take_back(self) -> None:
        self.levels.take_back()
        self.right = self._right_before
        self._give_back()

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events for which the leaf tail has room; ``count`` combines, no store call."""
        lifted = self.monoid.lift_rows(rows, count)
        right = self.monoid.combine(self.right, self.monoid.fold(lifted, count))
        self.levels.append_many(rows, times, count)  # first, as it may read the parts of a tail
        self.right = right

    def catch_up(self, new: Events, gone: int, left: Partial, right: Partial) -> None:
        super().catch_up(new, gone, left, right)
        self.left, self.right = left, right

    def _head_part(self) -> tuple[Group, int, int] | None:
        if self.middle != self.levels.tails[0].first or len(self.path) != 1 or self.path[0].level:
            return None
        head = self.path[0]
        return head.group, head.next, head.stop

    def _take_in(self, new: Events, front: int, fold: Partial) -> None:
        if front < self.levels.tails[0].first:
            super()._take_in(new, front, fold)
            return
        self.levels.append_many(*new)
        # As when the front has used up the leftmost tree: all is to the right of it.
        self.middle = self.front = front
        self.path, self.left, self.right = [], self.monoid.identity, fold

    # --- the stack and the result pair ----------------------------------------------------------

    def _scan(self, frame: Frame, right: Partial) -> None:
        """Fill the stack from a group of the head path (Algorithms 4 and 7)."""
        count = frame.stop - frame.next
        rows = self.levels.partials(frame.level, frame.group, frame.next, frame.stop)
        frame.suffixes = self.monoid.suffixes(rows, count, right)

    def _after(self, frame: Frame) -> Partial:
        return self.monoid.partials.at(frame.suffixes, frame.next - frame.origin)

    def _fold_left(self) -> Partial:
        return self._after(self.path[-1]) if self.path else self.monoid.identity

    def _extend(self, root: Frame, aggregate: Partial) -> None:
        monoid, schema = self.monoid, self.monoid.partials
        right = schema.one(aggregate)
        for frame in self.path:
            count = frame.stop - frame.origin + 1
            frame.suffixes = monoid.combine_rows(frame.suffixes, right, count)
        count = root.stop - root.origin + 1
        suffixes = schema.new(count + 1)
        schema.put_many(suffixes, 0, right if root.suffixes is None else root.suffixes)
        schema.put(suffixes, count, monoid.identity)
        root.suffixes = suffixes

    def _check_folds(self, events: list[Partial]) -> None:
        """The stack against suffix folds that are made anew, the result pair against all events."""
        monoid = self.monoid
        if len(events) != len(self):
            raise InvariantViolation(f"{len(events)} events in a window of {len(self)}")
        stack = [
            (
                (frame.first + i) * self.levels.span(frame.level) - self.front,
                self._after(frame.moved_on(i)),
            )
            for frame in self.path
            for i in range(frame.next, frame.stop + 1)
        ]
        folds, fold, end = dict[int, Refold](), Refold(monoid), self.middle - self.front
        for at in sorted({0, *(at for at, _ in stack)}, reverse=True):
            folds[at] = fold = Refold(monoid, events[at:end]) + fold
            end = at
        if not folds[0].agrees(self.left):
            raise InvariantViolation(f"R0 is {self.left!r} instead of {folds[0]!r}")
        for at, entry in stack:
            if not folds[at].agrees(entry):
                raise InvariantViolation(f"stack entry {entry!r} instead of {folds[at]!r}")
        right = Refold(monoid, events[self.middle - self.front :])
        if not right.agrees(self.right):
            raise InvariantViolation(f"R1 is {self.right!r} instead of {right!r}")
