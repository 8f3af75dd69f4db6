"""FlatFAT in pages, for windows whose oldest events leave first (Reactive Aggregator paper, 4, 5).

The tree stands over level queues (``levels``): each group is a *block* of consecutive levels (see
``flat_fat_blocks``). In memory are the two hot paths, from the front pointer's leaf and from the
back pointer's leaf up to the root; everything else is in pages.

    level 2    [ p p . . ]                            the root, an open block
    level 1    [ p p p p ]  [ p p . . ]               front path: 0/1 and 1/0; open: one a level
    level 0    [ . . . . ]  [ . . v v ] ... [ v v . ]
                                  F             B

    result = suffix(F) in 0/1, in 1/0, in the root  (x)  prefix(B) in the open blocks below the root

Where this departs from the paper, and why:

- The buffer is as large as it must be, and never copied. Blocks have absolute numbers, so that a
  page's key never comes back with other content; the slots are those of the blocks in use. A root
  that is full becomes an element of a new root above it, and a root that the front has left is let
  go of: ``resize`` costs O(1), where the paper copies the buffer. A window that goes over from one
  block of the root's level to the next is the paper's *inverted* buffer, and is answered like it.
- Section 5.2, FIFO windows: a slot that was left is not cleared, since folds go from one pointer to
  the other and see nothing outside. So an eviction moves a pointer, costs no combine, and no page
  is ever written again. (``reactive_pages`` takes events out of the middle.)
- All results of a batch come from scans of the two leaf blocks.

Costs, in combines: insert none (a ``lift``) until the next query, which for the m new events of a
leaf block of a takes m (1 + ceil(log2(a/m))); evict none; query 2 log2(a) + 1 more, and once in a
leaf block that the front has just come to, a + O(arity). So 3 log2(a) + O(1) an event, amortised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import InvariantViolation
from mta.levels.queues import Levels
from mta.monoids.base import Partial, Refold
from mta.pages.handle import Handle
from mta.pages.page import Group
from mta.pages.structure import Named, Setting
from mta.policies.base import AbstractPolicy
from mta.reactive import state as flat_fat_state
from mta.reactive.blocks import Block, Where
from mta.reactive.flat_fat import join
from mta.reactive.front import FrontPath
from mta.reactive.run import Runner

#: So many changed blocks of a level wait to be written.
_MOST_SOILED = 4


class PagedFlatFAT(FrontPath):
    """A FIFO window whose result, like the fold of any range of it, costs O(log n)."""

    name = "FlatFAT"

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        #: The aggregate from the front to the open leaf block, and which front it is right for.
        self.left: Partial = self.monoid.identity
        self.left_at = 0
        #: The same from the end of the front's leaf block on, and that block's number.
        self._rest: Partial = self.monoid.identity
        self._rest_at = -1
        self._runner = Runner(self)

    # --- events in and out ----------------------------------------------------------------------

    def insert(self, row: Row, time: int | None = None) -> None:
        """Add one event; no combine until the next query, but 1 amortised for sealing."""
        self.room()
        leaf = self.blocks.tail(0)
        leaf.stow(row)
        try:
            self.levels.append(row, time)
        except Exception:
            leaf.take_back()
            raise

    def take_back(self) -> None:
        """Undo the last ``insert``, which nothing has followed."""
        self.levels.take_back()
        self.blocks.tail(0).take_back()

    def _seal(self) -> None:
        """Seal the full blocks; those on the front path stay in memory. One store call.

        When the store or a function of the monoid fails, nothing has changed.
        """
        levels, front = self.levels, self.front
        full = list(takewhile(lambda tail: tail.is_full, levels.tails))
        if len(full) > 1:
            self._write_soiled()  # a block is sealed with the names of those below it
        leaf = self.blocks.tail(0)
        sealed = [
            self.blocks.tail(tail.level)
            for tail in full
            if front // levels.span(tail.level + 1) == tail.number
        ]
        inside = None
        if front >= leaf.first:
            inside = leaf.between(front - leaf.first, leaf.group.count)
        aggregate = levels.seal()[0][1]
        self.blocks.hold_sealed(sealed)
        if inside is not None:
            self.left, self.left_at = inside, front
            self._rest, self._rest_at = self.monoid.identity, leaf.number
        else:
            self._lengthen(aggregate)

    def _lengthen(self, aggregate: Partial) -> None:
        """The open leaf block begins later: what lies before it has got longer."""
        combine, left_at, rest_at = self.monoid.combine, self.left_at, self._rest_at
        self.left_at = self._rest_at = -1  # unless all goes well
        if rest_at == self.front // self.levels.leaf_arity:
            self._rest, self._rest_at = combine(self._rest, aggregate), rest_at
        if left_at == self.front:
            self.left, self.left_at = combine(self.left, aggregate), left_at

    def forget_folds(self) -> None:
        """Forget what is remembered of folds, as events have changed."""
        self.left_at = self._rest_at = -1
        self._runner.forget()

    def evict_to(self, position: int) -> None:
        """Remove every event before ``position``; no combine, at most one page read a level.

        When the store fails, nothing has changed.
        """
        if position <= self.front:
            return
        self.require_events(position)
        if position < self.levels.tails[0].first and self.blocks.is_on_path(position):
            self.front = position
        else:
            self.move_front(position, self.path_to(position))

    # --- changes in the middle ------------------------------------------------------------------

    def replace(self, number: int, indices: Sequence[int], rows: Rows) -> None:
        """Replace m events of a leaf block (Algorithm 2); at most m (1 + ceil(log2(n/m))) combines.

        At most one page read a level; the blocks on the way to the root are written later, before
        the next handle, or when several wait. When anything fails, nothing has changed.
        """
        self.front_block()  # so that the next query has its path at hand
        self._write_soiled(_MOST_SOILED)
        block, *above = self.blocks.soil(number)
        undo = [(block, indices, block.put(indices, rows))]
        try:
            for parent in above:
                index = [block.number - parent.first]
                aggregate = self.monoid.partials.one(block.aggregate())
                undo.append((parent, index, parent.put(index, aggregate)))
                block = parent
        except Exception:
            for changed, where, before in undo:
                changed.put_back(where, before)
            raise
        self.forget_folds()

    def _write_soiled(self, most: int = 0) -> None:
        self.blocks.write_soiled(most)
        if self.discards:
            self.blocks.delete_retired(0)

    @contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Events that are added meanwhile are taken out again if an exception comes."""
        levels, front = self.levels, self.front
        path = self.path_to(front) if len(self) else []
        tails, back = [(tail, tail.count) for tail in levels.tails], levels.back
        try:
            yield
        except Exception:
            for tail, count in tails:
                tail.count = count
                del tail.names[count:]
            levels.tails, levels.back = [tail for tail, _ in tails], back
            self.blocks.forget_tails()
            self.blocks.hold(path)
            self.forget_folds()
            raise

    # --- folds ----------------------------------------------------------------------------------

    def query(self) -> Partial:
        """The aggregate of the window; costs stand with the module.

        No store call, but after a restore where the front has not moved yet.
        """
        leaf = self.blocks.tail(0)
        start, count = self.front - leaf.first, leaf.group.count
        if start >= 0:
            return leaf.between(start, count)
        return join(self.monoid, self.before_leaf(), leaf.aggregate())

    def before_leaf(self) -> Partial:
        """The aggregate from the front to the open leaf block."""
        if self.left_at != self.front:
            block = self.front_block()
            inside = block.between(self.front - block.first, block.group.count)
            self.left = join(self.monoid, inside, self.after_block(block))
            self.left_at = self.front
        return self.left

    def after_block(self, block: Block) -> Partial:
        """The aggregate from the end of the front's leaf block to the open one."""
        if self._rest_at != block.number:
            end = block.first + block.group.count
            self._rest = self.fold(end, self.levels.tails[0].first)
            self._rest_at = block.number
        return self._rest

    def prefix(self, position: int) -> Partial:
        """The aggregate of the window's events before a position; costs as ``fold``."""
        return self.fold(self.front, position)

    def suffix(self, position: int) -> Partial:
        """The aggregate of the events from a position on; costs as ``fold``."""
        return self.fold(position, self.back)

    def fold_from(self, position: int) -> Partial:
        """The aggregate from the end of the front's leaf block on, or from within the open one."""
        leaf = self.blocks.tail(0)
        if position >= leaf.first:
            return leaf.between(position - leaf.first, leaf.group.count)
        return join(self.monoid, self.after_block(self.front_block()), leaf.aggregate())

    def fold(self, start: int, stop: int) -> Partial:
        """The aggregate of any range of the window.

        At most 2 log2(arity) + 2 combines a level in blocks in memory, arity in others; at most two
        page reads a level.
        """
        levels, monoid, between = self.levels, self.monoid, self.blocks.between
        left = right = monoid.identity
        level, found = 0, dict[Where, Group]()
        while start < stop:
            arity, tail = levels.arity_of(level), levels.tails[level]
            first, last = start // arity, (stop - 1) // arity
            begins, ends = start % arity != 0, stop % arity != 0 or last == tail.number
            if first == last and (begins or ends):
                inside = between(level, first, start - first * arity, stop - first * arity, found)
                left = join(monoid, left, inside)
                break
            if begins:
                left = join(monoid, left, between(level, first, start % arity, arity, found))
                first += 1
            if ends:
                right = join(monoid, between(level, last, 0, stop - last * arity, found), right)
                last -= 1
            start, stop, level = first, last + 1, level + 1
        return join(monoid, left, right)

    def run(
        self,
        policy: AbstractPolicy,
        rows: Rows,
        times: np.ndarray | None,
        start: int,
        stop: int,
        out: Rows,
    ) -> int:
        return self._runner.run(policy, rows, times, start, stop, out)

    # --- pages and handles ----------------------------------------------------------------------

    def tidy(self) -> None:
        self.blocks.write_soiled()
        self.blocks.delete_retired(len(self.kept))
        super().tidy()

    def hold(self, retain: int) -> None:
        super().hold(retain)
        self.blocks.handle_taken()

    def delete_pages(self) -> None:
        super().delete_pages()
        self.blocks.delete_retired(0)

    def write_state(self) -> list[Any]:
        return flat_fat_state.write_state(self)

    def take_up_state(self, handle: Handle) -> None:
        flat_fat_state.take_up_state(self, handle)

    @property
    def page_count(self) -> int:
        return super().page_count + sum(map(len, self.blocks.retired))

    @property
    def resident_rows(self) -> int:
        """The blocks in memory, and the levels of the tree within them."""
        return sum(block.resident_rows for block in self.blocks.resident) + 2

    # --- verifying ------------------------------------------------------------------------------

    def pages(self) -> Iterator[Named]:
        self.blocks.write_soiled()
        yield from super().pages()
        levels = self.levels
        for level, number, name in [place for places in self.blocks.retired for place in places]:
            span = levels.span(level + 1)
            yield Named(level, number, name, None, None, number * span, (number + 1) * span, False)

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        if named.fold is not None:  # of a retired page, those below are retired or its successor's
            yield from super().pages_below(named, group)

    def difference(self, named: Named, group: Group) -> str | None:
        if named.fold is not None:
            return super().difference(named, group)
        return None

    def ordered_from(self, named: Named) -> int:
        # Before the front may be events that were moved from there to the back, behind younger ones
        # that had left.
        return max(0, self.front - named.first) // self.levels.span(named.level)

    def check(self) -> None:
        """Assert all invariants, reading every page. Raises InvariantViolation."""
        self.levels.check(self.front)
        monoid, events = self.monoid, list(self.events())
        if len(events) != len(self):
            raise InvariantViolation(f"{len(events)} events in a window of {len(self)}")
        fold = Refold(monoid, events)
        for block in self.blocks.resident:
            block.check()
        middle = (self.front + self.back) // 2
        halves = monoid.combine(self.prefix(middle), self.suffix(middle))
        for found in (self.query(), halves):
            if not fold.agrees(found):
                raise InvariantViolation(f"the result is {found!r} instead of {fold!r}")
