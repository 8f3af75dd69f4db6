"""FlatFAT in pages, for windows whose oldest events leave first (Reactive Aggregator, 4 and 5).

The tree is built on level queues (``levels``). Each group is a *block* of consecutive levels of the
tree (see ``blocks``). The two hot paths to the root are in memory: from the leaf of the front
pointer, and from the leaf of the back pointer. Everything else is in pages.

    level 2    [ p p . . ]                            the root, an open block
    level 1    [ p p p p ]  [ p p . . ]               front path: 0/1 and 1/0; open: one per level
    level 0    [ . . . . ]  [ . . v v ] ... [ v v . ]
                                  F             B

    result = suffix(F) in 0/1, in 1/0, in the root  (x)  prefix(B) in the open blocks below the root

Deviations from the paper, and their reasons:

- The buffer always has the necessary size, and is never copied. Blocks have absolute numbers, so
  the contents of a page never change under its key. Only the blocks in use have slots. A full root
  becomes an element of a new root above it, and a root that the front has left is released. So
  ``resize`` costs O(1), while the paper copies the buffer. A window over two blocks of the root's
  level is the paper's *inverted* buffer, and is folded in the same way.
- In FIFO windows (section 5.2), a slot that the front has left is not cleared, because folds only
  read the slots between the two pointers. So an eviction moves a pointer and takes no combines, and
  no page is ever rewritten. (``reactive`` evicts events from the middle.)
- A cursor (``range_fold``) computes the results of a batch. Its scans of leaf blocks give the
  suffixes from all slots at one combine each, while ``suffix`` would walk the levels of a block for
  each slot.

Costs are in combines, for leaf blocks of a slots. An insert takes none (only a ``lift``), and an
evict takes none. A query takes 2 log2(a) + 1, and m (1 + ceil(log2(a/m))) for m new events in a
leaf block. The first query after the front has entered a leaf block also takes a + O(arity), and
the first one after a leaf block was sealed O(log n). So an event takes 3 log2(a) + O(1), amortized.

In a snapshot, after the common fields (``levels.log`` describes swept, kept and tails):

    state    = [swept, kept, left, tails]
    left     = columns of one partial, the aggregate from the front to the first event of tails
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from mta.columns.schemas import Rows
from mta.errors import InvariantViolation
from mta.evaluators.cursor import cursor_of
from mta.evaluators.range_fold import RangeFold
from mta.folds.sliding import Events
from mta.in_order.flat_fat import join
from mta.logs.base import Chunk, Setting
from mta.logs.flatfat import Block, BlockPager, BlockReader
from mta.logs.levels.queues import TOGETHER, ReadAhead
from mta.logs.levels.search import Segment, SegmentedWindow
from mta.monoids.base import Partial, Refold
from mta.pages import Group, Named
from mta.snapshots import Snapshot

#: The most changed blocks of a level that may wait to be written.
_MOST_DIRTY = 4


class PagedFlatFAT(SegmentedWindow):
    """A FIFO window whose result costs O(log n), as does the fold of any of its ranges."""

    name = "FlatFAT"
    has_parts = False  # removing an event rewrites its block

    def __init__(self, setting: Setting, has_window: bool = True) -> None:
        super().__init__(setting)
        self.blocks = BlockPager(self.levels, self.retired, keeps_old=setting.store is not None)
        self.levels.pager = self.blocks
        self._ahead = ReadAhead(self.levels) if self.blocks.reads_ahead else None
        #: The aggregate from the front to the open leaf block, and the front for which it is valid.
        self.left: Partial = self.monoid.identity
        self.left_at = 0
        #: The same from the end of the front's leaf block, and the number of that block.
        self._rest: Partial = self.monoid.identity
        self._rest_at = -1
        if has_window:
            self.cursor = cursor_of(self, self.reader(), RangeFold)

    # --- events in and out ----------------------------------------------------------------------

    def _seal(self) -> None:
        """Seal the full blocks; those on the front path stay in memory. One store call."""
        levels, front = self.levels, self.front
        full = list(takewhile(lambda tail: tail.count == tail.capacity, levels.tails))
        if len(full) > 1:
            self._write_dirty()  # a sealed block contains the names of the blocks below it
        sealed = [
            self.blocks.tail(tail.level)
            for tail in full
            if front // levels.spans[tail.level + 1] == tail.number
        ]
        first, left_at = levels.tails[0].first, self.left_at
        levels.seal()
        self.blocks.retain_sealed(sealed)
        self.left_at = self._rest_at = -1
        if left_at == front < first:  # so that the next query reads no page
            above = levels.tails[1]
            newest = self.monoid.partials.at(above.rows, above.count - 1)
            self.left, self.left_at = self.monoid.combine(self.left, newest), front

    def drop_folds(self) -> None:
        """Discard the remembered folds after a change of events."""
        self.left_at = self._rest_at = -1

    def _evict_before(self, position: int) -> None:
        """Evict without a combine; at most one page read per level."""
        if position < self.levels.tails[0].first and self.blocks.is_on_path(position):
            self._move(position)
        else:
            self.move_front(position, self.path_to(position))

    # --- the front and its path to the root -----------------------------------------------------

    def path_to(self, position: int) -> list[Block]:
        """Return the path from a front's leaf block to the root; one page read per level."""
        if position >= self.levels.tails[0].first:
            return []
        opens = not self.blocks.is_on_path(position)
        path = self.blocks.path_to(position)
        if opens and self._ahead is not None:
            above = {(block.level, block.number): block.group for block in path[1:]}
            self._ahead.follow(path[0].number, above.get)
        return path

    def move_front(self, position: int, path: list[Block]) -> None:
        self._move(position)
        self.blocks.retain(path)

    def _move(self, position: int) -> None:
        self.front = position
        if self.cursor is not None:
            self.cursor.move(position)

    def front_block(self) -> Block:
        """Return the leaf block with the front, and retain its path in memory."""
        if self.front >= self.levels.tails[0].first:
            return self.blocks.tail(0)
        if not self.blocks.is_on_path(self.front):
            self.blocks.retain(self.path_to(self.front))
        block = self.blocks.at(0, self.front // self.levels.spans[1])
        assert block is not None
        return block

    def open_path(self) -> Segment | None:
        if len(self):
            self.front_block()
        return super().open_path()

    def group_at(self, level: int, number: int) -> Group:
        block = self.blocks.at(level, number)
        assert block is not None  # on the front path, or open
        return block.group

    # --- changes in the middle ------------------------------------------------------------------

    def replace(self, number: int, indices: Sequence[int], rows: Rows) -> None:
        """Replace m events of a leaf block (Algorithm 2); at most m (1 + ceil(log2(n/m))) combines.

        At most one page read per level. The blocks on the path to the root are written before the
        next snapshot, or when several wait. If anything fails, nothing has changed.
        """
        self.front_block()  # so that the next query has its path in memory
        self._write_dirty(_MOST_DIRTY)
        block, *above = self.blocks.mark_dirty(number)
        undo = [(block, indices, block.put(indices, rows))]
        try:
            for parent in above:
                index = [block.number - parent.first]
                aggregate = self.monoid.partials.one(block.aggregate())
                undo.append((parent, index, parent.put(index, aggregate)))
                block = parent
        except Exception:
            for changed, where, before in undo:
                changed.undo_put(where, before)
            raise
        self.drop_folds()

    def _write_dirty(self, most: int = 0) -> None:
        self.blocks.write_dirty(most)
        if self.discards:
            self.retired.delete(0)

    def begin_tree(self) -> None:
        """Keep the events so far out of later folds, before they are added once more at the back.

        Fills the open leaf block with blank rows. At most one store call per level.
        """
        levels, leaf = self.levels, self.levels.tails[0]
        if leaf.count:
            room = leaf.capacity - leaf.count
            times = None if leaf.times is None else leaf.times[[leaf.count - 1] * room]
            self.append(self.monoid.inputs.blank(room), times, room)
            self.room()
        self._write_dirty()  # the copies of the tails would miss the names of pages written later
        levels.tails = levels.with_neutral()
        self.drop_folds()

    @contextmanager
    def undone_on_failure(self) -> Iterator[None]:
        """Remove the events that were added in this context if it raises an exception."""
        levels, front = self.levels, self.front
        path = self.path_to(front) if len(self) else []
        tails, back = [(tail, tail.count) for tail in levels.tails], self.back
        try:
            yield
        except Exception:
            for tail, count in tails:
                tail.count = count
                del tail.names[count:]
            levels.tails, self.back = [tail for tail, _ in tails], back
            self.blocks.drop_tails()
            self.blocks.retain(path)
            self.drop_folds()
            raise

    # --- folds ----------------------------------------------------------------------------------

    def query(self) -> Partial:
        """Return the aggregate of the window; the module docstring describes the costs.

        No store call, except after a restore if the front has not moved yet.
        """
        leaf = self.blocks.tail(0)
        start, count = self.front - leaf.first, leaf.group.count
        if start >= 0:
            return leaf.between(start, count)
        return join(self.monoid, self.before_leaf(), leaf.aggregate())

    def before_leaf(self) -> Partial:
        """Return the aggregate from the front to the open leaf block."""
        if self.left_at != self.front:
            block = self.front_block()
            inside = block.between(self.front - block.first, block.group.count)
            self.left = join(self.monoid, inside, self.after_block(block))
            self.left_at = self.front
        return self.left

    def after_block(self, block: Block) -> Partial:
        """Return the aggregate from the end of the front's leaf block to the open one."""
        if self._rest_at != block.number:
            end = block.first + block.group.count
            self._rest = self.fold(end, self.levels.tails[0].first)
            self._rest_at = block.number
        return self._rest

    def fold(self, start: int, stop: int) -> Partial:
        """Return the aggregate of any range of the window; see ``BlockReader.fold`` for costs."""
        return self.remembered().fold(start, stop)

    def remembered(self) -> BlockReader:
        return BlockReader(self, self.blocks)

    def reader(self) -> BlockReader:
        return BlockReader(self, self.blocks, holds=False)

    # --- runs -----------------------------------------------------------------------------------

    def most_together(self, left: int, each: bool) -> int:
        return TOGETHER * self.levels.spans[1] if each else left

    def store_chunk(self, new: Events, chunk: Chunk, front: int) -> None:
        """Add the events of a few leaf blocks, whose results are known, and move the front.

        If the store fails, nothing has changed.
        """
        path = self.path_to(front)
        sealed = self._store(new, front)
        self.front = front  # the window is there already
        self.blocks.retain(path)
        self.blocks.retain_sealed(sealed)

    def _store(self, new: Events, front: int) -> list[Block]:
        """Add at most ``TOGETHER`` leaf blocks; return the blocks sealed on a front's path."""
        levels = self.levels
        if levels.fits(new.size):
            self.append(*new)
            return []
        self._write_dirty()  # a sealed block contains the names of the blocks below it
        self.discard()
        written = levels.extend(*new, unneeded=front if self.discards else 0)
        self.back += new.size
        self.left_at = self._rest_at = -1
        return [
            Block(levels, level, number, group)
            for level, number, group in written
            if front // levels.spans[level + 1] == number
        ]

    # --- pages and snapshots ----------------------------------------------------------------------

    def prepare(self) -> None:
        self.blocks.write_dirty()
        super().prepare()

    def write_state(self) -> list[Any]:
        """Return the state, once all blocks are written; at most one page read per level."""
        inside = self.front >= self.levels.tails[0].first
        left = self.monoid.identity if inside else self.before_leaf()
        return self.state_with(self.monoid.partials.one(left))

    def restore_state(self, snapshot: Snapshot) -> None:
        row = self.restore_with(snapshot, 1)
        self.left, self.left_at = self.monoid.partials.at(row, 0), snapshot.front
        if self.cursor is not None:
            self.cursor.place(self.front, self.back)

    @property
    def resident_rows(self) -> int:
        """Return the number of rows in the blocks in memory, and in their trees."""
        return sum(block.resident_rows for block in self.blocks.resident) + 2

    # --- verifying ------------------------------------------------------------------------------

    def is_past(self, level: int, number: int) -> bool:
        # Blocks are written again when an event in them is removed.
        return False

    def pages(self) -> Iterator[Named]:
        self.blocks.write_dirty()
        yield from super().pages()

    def ordered_from(self, named: Named) -> int:
        # Before the front, there may be events that were moved to the back, after newer ones that
        # had already left.
        return max(0, self.front - named.first) // self.levels.spans[named.level]

    def check(self) -> None:
        with self.preserving_state():
            monoid, fold = self.monoid, Refold(self.monoid, self.checked_events())
            for block in self.blocks.resident:
                block.check()
            middle = (self.front + self.back) // 2
            left, right = self.fold(self.front, middle), self.fold(middle, self.back)
            for found in (self.query(), monoid.combine(left, right)):
                if not fold.agrees(found):
                    raise InvariantViolation(f"the result is {found!r} instead of {fold!r}")

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """Restore the blocks and folds in memory when this context ends."""
        known = self.left, self.left_at, self._rest, self._rest_at
        try:
            with self.blocks.preserving_state():
                yield
        finally:
            self.left, self.left_at, self._rest, self._rest_at = known
