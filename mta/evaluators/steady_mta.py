"""Amortized MTA without its pauses: what a border of groups takes is made ahead, a few an event.

Amortized MTA takes a constant number of combines an event on average, and leaf_arity + arity *
levels of them at once where the front comes to another leaf group, where the leftmost tree grows,
and where a group is sealed. Here none of these waits for its border:

- The suffix folds of the next leaf group, and of the groups above it that begin there too, are made
  while the front goes through the one before. They reach to the end of their group alone, so they
  stay right whatever comes; what follows, up to the middle, is combined to one when it is asked
  for (``Frame.right``).
- So a leftmost tree that grows changes the entries of its root, and what follows the others.
- The folds of the tails are kept up with every event, so a seal has them at hand.

      [ . . x x ] [ s s s s s ] ... | [ t t t . ]        x: the head group's entries
                  <---------                              s: made ahead, from the right, some for
                                                             each event that leaves

Costs, in combines: 5 to 6 a slide of single events, its query among them (9 at pairs), and at once
at most

    2 arity + 8 (c + 3) + 6 levels,  with c = 1 + arity * levels / leaf_arity

where windows are of two leaf groups or more, and events leave one by one: twice ``arity`` for the
root of a tree that grows as another one is taken up, the rest for up to 8 events that are taken up
together. In shorter windows (choose smaller leaf groups for them), in batches, and for one leaf
group after a restore or a bulk eviction, it takes what Amortized MTA does. One more leaf group and
its folds are in memory.

Snapshots and pages are those of Amortized MTA: each goes on from the other's. What is made ahead is
in none. Results are the same, but for the rounding of doubles added in another order.
"""

from __future__ import annotations

from mta.columns.schemas import Row, Rows
from mta.evaluators.amortized_mta import AmortizedMTA
from mta.folds.sliding import Events
from mta.logs.base import AtHand, Setting
from mta.logs.levels.queues import Levels
from mta.logs.levels.search import Frame
from mta.monoids.base import Partial
from mta.pages.page import Group

#: The most single events that are taken up together.
_TOGETHER = 8


class Piece:
    """The suffix folds of a full group, from the last element on as far as they are made."""

    def __init__(self, levels: Levels, level: int, number: int, group: Group, stop: int) -> None:
        self._levels, self.level, self.number, self.group = levels, level, number, group
        partials = levels.monoid.partials
        #: So many folds, the first ones, are still to be made.
        self.left, self.suffixes = stop, partials.new(stop + 1)
        partials.put(self.suffixes, stop, levels.monoid.identity)

    def make(self, count: int, down_to: int = 0) -> int:
        """Make some more folds; how many. A combine each."""
        stop = self.left
        start = max(stop - count, down_to)
        if start < stop:
            monoid, partials = self._levels.monoid, self._levels.monoid.partials
            rows = self._levels.partials(self.level, self.group, start, stop)
            right = partials.at(self.suffixes, stop)
            partials.put_many(self.suffixes, start, monoid.suffixes(rows, stop - start, right))
            self.left = start
        return max(stop - start, 0)


class SteadyMTA(AmortizedMTA):
    """Amortized MTA whose worst single event takes O(arity + levels) combines."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.levels.keeps_folds = True
        #: Where the head group ends, and the groups that begin there, from the highest on.
        self._border = -1
        self._made: dict[tuple[int, int], Piece] = {}
        #: How many folds of these groups are still to be made, groups to be read among them.
        self._due = 0
        #: The front when some were made last.
        self._seen = 0

    # --- single events --------------------------------------------------------------------------

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; 2 combines, and at a seal a few for each level."""
        self._make_ahead()
        levels = self.levels
        levels.fold_tail(levels.tails[0])
        super().insert(row, time)
        levels.fold_on(levels.tails[0], [row])

    def at_hand(self, most: int) -> AtHand | None:
        self._make_ahead()
        self.levels.fold_tail(self.levels.tails[0])
        found = super().at_hand(min(most, _TOGETHER))
        return found and found._replace(room=min(found.room, _TOGETHER))

    def catch_up(self, new: Events, gone: int, left: Partial, right: Partial) -> None:
        super().catch_up(new, gone, left, right)
        self.levels.fold_on(self.levels.tails[0], self.monoid.inputs.listed(new.rows))

    def _evict_before(self, position: int) -> None:
        self._make_ahead()
        super()._evict_before(position)

    # --- the stack ------------------------------------------------------------------------------

    def _scan(self, frame: Frame, right: Partial) -> None:
        number = frame.first // self.levels.arity_of(frame.level)
        piece = self._made.get((frame.level, number))
        if piece is None or frame.stop != self.levels.arity_of(frame.level):
            piece = Piece(self.levels, frame.level, number, frame.group, frame.stop)
        piece.make(frame.stop, frame.next)
        # From the first element on, as though the front had gone through all of them.
        frame.origin, frame.suffixes, frame.right = 0, piece.suffixes, right

    def _child(self, frame: Frame, index: int) -> Group:
        piece = self._made.get((frame.level - 1, frame.first + index))
        return super()._child(frame, index) if piece is None else piece.group

    def _after(self, frame: Frame) -> Partial:
        return self.monoid.combine(super()._after(frame), frame.right)

    def _lefts(self, frame: Frame, start: int, stop: int) -> Rows:
        right = self.monoid.partials.one(frame.right)
        return self.monoid.combine_rows(super()._lefts(frame, start, stop), right, stop - start)

    def _extend(self, root: Frame, aggregate: Partial) -> None:
        """The root's own entries grow; of the frames below it, what follows them."""
        monoid, schema = self.monoid, self.monoid.partials
        for frame in self.path:
            if frame is not root:
                frame.right = monoid.combine(frame.right, aggregate)
        right, count = schema.one(aggregate), root.stop - root.next + 1
        suffixes = schema.new(count + 1)
        if root.suffixes is not None:
            old = super()._lefts(root, root.next, root.stop + 1)
            right = monoid.combine_rows(old, right, count)
        schema.put_many(suffixes, 0, right)
        schema.put(suffixes, count, monoid.identity)
        root.origin, root.suffixes, root.right = root.next, suffixes, monoid.identity

    # --- ahead of the front ---------------------------------------------------------------------

    def _make_ahead(self) -> None:
        """Make folds for the events that have left; never fails, as whoever needs them asks."""
        gone, self._seen = self.front - self._seen, self.front
        head = self.path[-1] if self.path else None
        if gone <= 0 or head is None or head.level or head.next == head.stop:
            return
        try:
            border = self._position(head, head.stop)
            if border != self._border or not self._made:
                self._border, self._made = border, {}
                self._due = sum(map(self.levels.arity_of, range(self._above(border))))
            share = -(-self._due // (head.stop - head.next))
            self._make(min(gone, _TOGETHER) * share)
        except Exception:
            # The store, or the monoid, fails: whoever comes to the border is told.
            return

    def _above(self, border: int) -> int:
        """The level whose element begins at the border and is to be opened; 0 where there is none.

        Then the next leaf group is not sealed yet.
        """
        return self.path[-2].level if len(self.path) > 1 else self.levels.top(border)

    def _make(self, count: int) -> None:
        """Make so many folds of what begins at the border; a page read for each group of it."""
        while count > 0 and self._due:
            piece = next((one for one in self._made.values() if one.left), None) or self._read()
            done = piece.make(count)
            self._due, count = self._due - done, count - done

    def _read(self) -> Piece:
        """The highest group of what begins at the border that is not at hand yet."""
        levels, border = self.levels, self._border
        if self._made:
            above = next(reversed(self._made.values()))
            parent = Frame(above.level, above.number * levels.arity, above.group, 0, 0)
        elif len(self.path) > 1:
            parent = self.path[-2]
        else:
            tail = levels.tails[levels.top(border)]
            parent = Frame(tail.level, tail.first, tail, 0, 0)
        level, number = parent.level - 1, border // levels.span(parent.level)
        group = super()._child(parent, number - parent.first)
        piece = self._made[level, number] = Piece(levels, level, number, group, group.count)
        return piece
