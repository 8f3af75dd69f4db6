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

Costs, in combines: insert 1, plus 1 + 1/(arity - 1) amortised for sealing and for growing; evict 1
amortised, at most 2 * arity * levels at once; query 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.schemas import Record, Row, Rows
from mta.errors import InvariantViolation
from mta.folds.fronts import fronts_upto, rows_at
from mta.folds.sliding import Events
from mta.levels.search import Frame
from mta.levels.tree import MonoidTree
from mta.monoids.base import Partial, Refold, same_value
from mta.pages.page import Group
from mta.pages.structure import Batch, Setting


class AmortizedMTA(MonoidTree):
    """A window with O(1) amortised combines an operation and O(log n) bulk eviction."""

    name = "Amortized MTA"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._right_before: Partial = self.monoid.identity
        self._combine = self.monoid.combine
        self._lift = None if self.monoid.lift is same_value else self.monoid.lift
        self._at = self.monoid.partials.at
        #: Rows are plain sequences, one column each, and carry no times.
        self._flat = not setting.timed and not any(
            isinstance(schema, Record) for schema in (self.monoid.inputs, self.monoid.partials)
        )

    def query(self) -> Partial:
        """The aggregate of the window; 1 combine."""
        return self._combine(self.left, self.right)

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; 1 combine, and amortised 1 more for the groups it seals."""
        self.room()
        right = self._combine(self.right, self.monoid.lift(row))
        self.levels.append(row, time)
        self._right_before, self.right = self.right, right

    def take_back(self) -> None:
        self.levels.take_back()
        self.right = self._right_before
        self._give_back()

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events for which the leaf tail has room; ``count`` combines, no store call."""
        lifted = self.monoid.lift_rows(rows, count)
        self.right = self._combine(self.right, self.monoid.fold(lifted, count))
        self.levels.append_many(rows, times, count)

    def slide(self, row: Row, time: int | None, size: int) -> None:
        """Add one event and keep the last ``size``; amortised 4 combines.

        Nearly always that is one combine on the right and one look at the stack. This is the path
        of every single event, so these steps of ``insert`` and ``evict_to`` stand here in line.
        """
        levels, path = self.levels, self.path
        leaf = levels.tails[0]
        at = leaf.count
        if path and at < leaf.capacity and self._flat and levels.back - self.front == size:
            frame = path[-1]
            index = frame.next + 1
            if index < frame.stop and not frame.level:
                lift = self._lift
                self.right = self._combine(self.right, row if lift is None else lift(row))
                self.left = frame.suffixes[index - frame.origin]
                leaf.rows[at] = row
                leaf.count = at + 1
                levels.back += 1
                frame.next = index
                self.front += 1
                return
        super().slide(row, time, size)

    def _pop(self, count: int) -> bool:
        """Pop the stack ``count`` times, if its open leaf group lasts that long."""
        if not self.path:
            return False
        frame = self.path[-1]
        index = frame.next + count
        if frame.level or index >= frame.stop:
            return False
        self.left = self._at(frame.suffixes, index - frame.origin)
        frame.next = index
        self.front += count
        return True

    def _run_long(self, batch: Batch, start: int) -> int:
        """Many events at once, while the head group lasts and the tail group has room.

        The results are combine(suffix after each eviction, prefix after each insertion): about two
        combines an event, all of them whole-group.
        """
        monoid = self.monoid
        new = batch.part(start, start + min(self.room(), batch.count - start))
        ahead = self.setting.policy.fronts(self, new.times, new.size)
        if ahead is None:
            return 0
        fronts, count = ahead
        lefts: Any = monoid.partials.one(self.left)
        if not isinstance(fronts, int):
            frame = self.open_path()
            if frame is None:
                return 0
            fronts = fronts_upto(fronts, self.front + frame.stop - frame.next, count)
            count = len(fronts)
            if count == 0:
                return 0
            lefts = rows_at(monoid, frame.suffixes, fronts, self.front - frame.next + frame.origin)
        if count < new.size:
            new = batch.part(start, start + count)
        rights = monoid.prefixes(monoid.lift_rows(new.rows, count), count, self.right)
        batch.put(start, monoid.combine_rows(lefts, rights, count))
        self.levels.append_many(*new)
        self.right = monoid.partials.at(rights, count - 1)
        if not isinstance(fronts, int) and not self._pop(int(fronts[-1]) - self.front):
            self.evict_to(int(fronts[-1]))
        return count

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

    def check(self) -> None:
        """Assert the paper's invariants, reading every page. Raises InvariantViolation.

        The level invariants, the stack against recomputed suffix folds, the result pair against a
        fold of all events.
        """
        self.levels.check(self.front)
        monoid, events = self.monoid, list(self.events())
        if len(events) != len(self):
            raise InvariantViolation(f"{len(events)} events in a window of {len(self)}")
        folds = [Refold(monoid)]
        for event in reversed(events[: self.middle - self.front]):
            folds.append(Refold(monoid, [event]) + folds[-1])
        folds.reverse()
        if not folds[0].agrees(self.left):
            raise InvariantViolation(f"R0 is {self.left!r} instead of {folds[0]!r}")
        for frame in self.path:
            for i in range(frame.next, frame.stop + 1):
                at = (frame.first + i) * self.levels.span(frame.level) - self.front
                entry = monoid.partials.at(frame.suffixes, i - frame.origin)
                if not folds[at].agrees(entry):
                    raise InvariantViolation(f"stack entry {entry!r} instead of {folds[at]!r}")
        right = Refold(monoid, events[self.middle - self.front :])
        if not right.agrees(self.right):
            raise InvariantViolation(f"R1 is {self.right!r} instead of {right!r}")
