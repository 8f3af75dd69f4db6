"""Amortized MTA without its pauses: folds at the border of groups are computed ahead.

Amortized MTA takes a constant number of combines per event on average. But a single call takes
L + a * levels combines, with L and a as the sizes of leaf and inner groups, if the front reaches
another leaf group, or a group is sealed. Steady MTA spreads this work over the events before the
border:

- The suffix folds of the next leaf group, and of the groups above it that start there too, are
  computed while the front moves through the previous one. They end with their group, so they stay
  valid when events arrive. What follows the group is combined on request (``Folds.right``).
- The folds of the tails are updated with every event, so they are complete when a group is sealed.

      [ . . x x ] [ s s s s s ] ... | [ t t t . ] x: the head group's entries <--------- s: computed
                  ahead, from the right, some for each event that leaves

Costs are in combines. A slide of single events with its query takes 5 to 6 (10 with pairs). If
windows have two leaf groups or more, and events leave one by one, a single call takes at most

    2 a + 8 (c + 3) + 6 levels,  with c = 1 + a * levels / L

This is 2 a for a root group that is folded again, and the rest for up to 8 events that
are prefetched together. In shorter windows (choose smaller leaf groups for them), in batches, and
for one leaf group after a restore or a bulk eviction, Steady MTA costs as much as Amortized MTA.
One more leaf group and its folds are in memory.

Steady MTA and Amortized MTA have the same snapshots and pages, and can restore each other's. The
folds that are computed ahead are not stored. Results are the same, except for the rounding of
doubles that are added in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mta.columns.schemas import Row
from mta.evaluators.amortized_mta import AmortizedMTA
from mta.evaluators.cursor import Cursor, Folds
from mta.folds.sliding import Events
from mta.logs.base import Chunk, Leaf, PathGroup, Prefetched, Setting, Undo
from mta.logs.levels.queues import Levels
from mta.monoids.base import Partial

#: The most single events that are prefetched together.
_TOGETHER = 8


class Piece:
    """The suffix folds of a full group, computed step by step from the last element on."""

    def __init__(self, levels: Levels, level: int, group: Any) -> None:
        self._levels, self._level, self._group, self.count = levels, level, group, group.count
        partials = levels.monoid.partials
        #: How many of the first folds still have to be computed.
        self.left: int = self.count
        self.suffixes = partials.new(self.count + 1)
        partials.put(self.suffixes, self.count, levels.monoid.identity)

    def make(self, count: int, down_to: int = 0) -> int:
        """Compute up to ``count`` more folds, one combine each; return how many."""
        stop = self.left
        start = max(stop - count, down_to)
        if start < stop:
            monoid, partials = self._levels.monoid, self._levels.monoid.partials
            rows = self._levels.partials(self._level, self._group, start, stop)
            right = partials.at(self.suffixes, stop)
            partials.put_many(self.suffixes, start, monoid.suffixes(rows, stop - start, right))
            self.left = start
        return max(stop - start, 0)


class SteadyEvaluator(Cursor):
    """A stack whose folds are computed before the front reaches them."""

    events: SteadyMTA

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: The end of the head group, and the groups that start there, the highest first.
        self._border = -1
        self._made: dict[tuple[int, int], Piece] = {}
        #: How many folds of these groups are still missing, including those of unread groups.
        self._due = 0
        #: The front when folds were last computed.
        self._seen = 0

    def step(self, row: Row, time: int | None) -> None:
        self._make_ahead()
        super().step(row, time)
        self._make_ahead()

    def for_singles(
        self, most: int, room: int, timed: bool, newest: Events | None
    ) -> Prefetched | None:
        self._make_ahead()
        self.events.fold_tails()
        return super().for_singles(min(most, _TOGETHER), min(room, _TOGETHER), timed, newest)

    def _make_ahead(self) -> None:
        """Compute folds for the events that have left; leaves any error to a later call."""
        gone, self._seen = self.front - self._seen, self.front
        if gone <= 0 or not self.is_held:
            return
        try:
            border = self.stack[-1].stop
            if border != self._border or not self._made:
                self._border, self._made = border, {}
                arities = self.events.levels.arities
                self._due = sum(arities[level > 0] for level in range(self._above(border)))
            count = min(gone, _TOGETHER) * -(-self._due // (border - self.front))
            while count > 0 and self._due:
                piece = next((one for one in self._made.values() if one.left), None)
                done = (piece or self._read()).make(count)
                self._due, count = self._due - done, count - done
        except Exception:
            # If the store or the monoid fails, the call that reaches the border gets the error.
            return

    def _above(self, border: int) -> int:
        """Return the level whose element at the border is opened next; 0 for an unsealed leaf."""
        for folds in reversed(self.stack[:-1]):
            if border < folds.stop and folds.level is not None:
                return folds.level
        return self.events.levels.top(border)

    def _read(self) -> Piece:
        """Read the highest unread group that starts at the border."""
        levels, border = self.events.levels, self._border
        level = self._above(border) - 1 - len(self._made)
        number = border // levels.spans[level + 1]
        group = self.events.group_at(level, number)
        piece = self._made[level, number] = Piece(levels, level, group)
        return piece

    def _of_leaves(self, leaves: Sequence[Leaf], front: int, right: Partial) -> Folds:
        leaf, levels = leaves[0], self.events.levels
        if len(leaves) > 1 or isinstance(leaf, Chunk) or leaf.count != levels.spans[1]:
            return super()._of_leaves(leaves, front, right)
        number = leaf.first // levels.spans[1]
        piece = self._made.get((0, number)) or Piece(levels, 0, leaf)
        piece.make(leaf.count, front - leaf.first)
        rows = self.monoid.partials.cut(piece.suffixes, front - leaf.first, leaf.count + 1)
        return Folds(front, leaf.stop, rows, right=right)

    def _of_group(self, group: PathGroup, right: Partial) -> Folds:
        levels = self.events.levels
        number = (group.stop - 1) // levels.spans[group.level + 1]
        piece = self._made.get((group.level, number))
        if piece is None or not group.size:
            return super()._of_group(group, right)
        start = piece.count - group.size
        piece.make(piece.count, start)
        rows = self.monoid.partials.cut(piece.suffixes, start, piece.count + 1)
        return Folds(group.start, group.stop, rows, group.starts, group.level, right=right)


class SteadyMTA(AmortizedMTA):
    """Amortized MTA whose worst single event takes O(arity + levels) combines."""

    evaluator = SteadyEvaluator

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.levels.seals_folded = True

    def insert(self, row: Row, time: int | None = None) -> Undo:
        """Add one event; 2 combines, and a few per level if a group is sealed."""
        self.fold_tails()
        undo = super().insert(row, time)
        self.levels.fold_on(self.levels.tails[0], [row])
        return undo

    def take_in(self, new: Events) -> int | None:
        late = super().take_in(new)
        self.levels.fold_on(self.levels.tails[0], self.monoid.inputs.listed(new.rows, new.size))
        return late

    def fold_tails(self) -> None:
        """Complete the folds of the tails after a batch or a restore."""
        for tail in self.levels.tails:
            self.levels.update_fold(tail)
