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
from mta.folds.sliding import Events, ShortRun, short_run_of
from mta.levels.path import Frame
from mta.levels.queues import Levels
from mta.levels.tree import MonoidTree
from mta.monoids.base import Partial, Refold, same_value
from mta.pages.page import Group
from mta.pages.structure import Setting
from mta.policies.base import AbstractPolicy


class AmortizedMTA(MonoidTree):
    """A window with O(1) amortised combines an operation and O(log n) bulk eviction."""

    name = "Amortized MTA"

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        self._right: Partial = self.monoid.identity
        self._right_before: Partial = self.monoid.identity
        self._combine = self.monoid.combine
        self._lift = None if self.monoid.lift is same_value else self.monoid.lift
        self._at = self.monoid.partials.at
        #: Rows are plain sequences, one column each, and carry no times.
        self._flat = not levels.timed and not any(
            isinstance(schema, Record) for schema in (self.monoid.inputs, self.monoid.partials)
        )

    @property
    def right(self) -> Partial:
        """R1: the aggregate of the forest but for its leftmost tree."""
        return self._right

    def restore_right(self, right: Partial) -> None:
        self._right = right

    @property
    def stack(self) -> list[Partial]:
        """The paper's stack, its top last: what R0 becomes as elements of the head path leave.

        Opens the head path: at most one page read a level.
        """
        leaf = self.open_path()
        entries: list[Partial] = []
        for frame in self.path:
            at = self.monoid.partials.at
            after_next = frame.next + (frame is leaf) - frame.origin
            entries.extend(
                at(frame.suffixes, i)
                for i in range(frame.stop - frame.origin - 1, after_next - 1, -1)
            )
        return entries

    def query(self) -> Partial:
        """The aggregate of the window; 1 combine."""
        return self._combine(self.left, self._right)

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; 1 combine, and amortised 1 more for the groups it seals."""
        self.room()
        right = self._combine(self._right, self.monoid.lift(row))
        self.levels.append(row, time)
        self._right_before, self._right = self._right, right

    def take_back(self) -> None:
        """Undo the last ``insert``, which nothing has followed."""
        self.levels.take_back()
        self._right = self._right_before
        self._give_back()

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events for which the leaf tail has room; ``count`` combines, no store call."""
        lifted = self.monoid.lift_rows(rows, count)
        self._right = self._combine(self._right, self.monoid.fold(lifted, count))
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
                self._right = self._combine(self._right, row if lift is None else lift(row))
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

    def run(
        self,
        policy: AbstractPolicy,
        rows: Rows,
        times: np.ndarray | None,
        start: int,
        stop: int,
        out: Rows,
    ) -> int:
        """Many events at once, while the head group lasts and the tail group has room.

        The results are combine(suffix after each eviction, prefix after each insertion): about two
        combines an event, all of them whole-group. Where the window is short beside the batch,
        they are folds of ranges instead, which need no stack (``folds.sliding``).
        """
        short = short_run_of(self.monoid, len(self), stop - start)
        if short:
            done = self._run_short(policy, rows, times, start, start + short, out)
            if done:
                return done
        count = min(self.room(), stop - start)
        coming = None if times is None else times[start : start + count]
        ahead = policy.fronts(self, coming, count)
        if ahead is None:
            return 0
        fronts, count = ahead
        monoid = self.monoid
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
        new = monoid.inputs.cut(rows, start, start + count)
        rights = monoid.prefixes(monoid.lift_rows(new, count), count, self._right)
        results = monoid.lower_rows(monoid.combine_rows(lefts, rights, count))
        monoid.outputs.put_many(out, start, results)
        self.levels.append_many(new, None if coming is None else coming[:count], count)
        self._right = monoid.partials.at(rights, count - 1)
        if not isinstance(fronts, int) and not self._pop(int(fronts[-1]) - self.front):
            self.evict_to(int(fronts[-1]))
        return count

    def _held(self) -> list[Events] | None:
        """The window's events, where they lie in the leaf tail and the one group before it."""
        leaf, inputs = self.levels.tails[0], self.monoid.inputs
        parts: list[tuple[Group, int, int]] = [(leaf, max(self.front - leaf.first, 0), leaf.count)]
        if self.front < leaf.first:
            if self.middle != leaf.first or len(self.path) != 1 or self.path[0].level:
                return None
            head = self.path[0]
            parts.insert(0, (head.group, head.next, head.stop))
        return [
            Events(inputs.cut(g.rows, i, j), None if g.times is None else g.times[i:j], j - i)
            for g, i, j in parts
        ]

    def _run_short(
        self,
        policy: AbstractPolicy,
        rows: Rows,
        times: np.ndarray | None,
        start: int,
        stop: int,
        out: Rows,
    ) -> int:
        """A run over a window that is short beside it: each result is the fold of a range."""
        held, monoid = self._held(), self.monoid
        if held is None:
            return 0
        coming = None if times is None else times[start:stop]
        new = Events(monoid.inputs.cut(rows, start, stop), coming, stop - start)
        found = ShortRun(monoid, self.front, held, new).folds(policy)
        if found is None:
            return 0  # where nothing leaves, the stack need not even be looked at
        fronts, folds = found
        monoid.outputs.put_many(out, start, monoid.lower_rows(folds))
        return self._follow(new, fronts, folds)

    def _follow(self, new: Events, fronts: np.ndarray, folds: Rows) -> int:
        """Bring the structure to where the folds of a short run are, group by group.

        Returns how many events are in. When the store fails, they stay in, and their results
        stand; the next run meets the failure again.
        """
        inputs, done = self.monoid.inputs, 0
        while done < len(fronts):
            try:
                end = min(done + self.room(), len(fronts))
            except Exception:
                if done:
                    return done
                raise
            piece, front = inputs.cut(new.rows, done, end), int(fronts[end - 1])
            times = None if new.times is None else new.times[done:end]
            if front < self.levels.tails[0].first:
                self.append(piece, times, end - done)
                self.evict_to(front)
            else:
                self.levels.append_many(piece, times, end - done)
                # As when the front has used up the leftmost tree: all is to the right of it.
                self.middle = self.front = front
                self.path, self.left = [], self.monoid.identity
                self._right = self.monoid.partials.at(folds, end - 1)
            done = end
        return done

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

    def _extend(self, aggregate: Partial) -> None:
        right = self.monoid.partials.one(aggregate)
        for frame in self.path:
            count = frame.stop - frame.origin + 1
            frame.suffixes = self.monoid.combine_rows(frame.suffixes, right, count)

    def _widen(self, root: Frame, aggregate: Partial) -> None:
        monoid = self.monoid
        schema, count = monoid.partials, root.stop - root.origin + 1
        suffixes = schema.new(count)
        if root.suffixes is None:
            schema.put(suffixes, 0, aggregate)
        else:
            schema.put_many(suffixes, 0, root.suffixes)
        schema.put(suffixes, count - 1, monoid.identity)
        root.suffixes = suffixes

    def _take_right(self, right: Partial) -> None:
        self._right = right

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
        if not right.agrees(self._right):
            raise InvariantViolation(f"R1 is {self._right!r} instead of {right!r}")
