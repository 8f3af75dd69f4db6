"""Blocks: groups of level queues as parts of one large FlatFAT, some in memory, most in pages.

A group of 2^k elements is a block of the tree: k consecutive levels of a complete binary tree, with
the elements as its lowest row. The page contains only that row. The rows above it are a
``FlatFAT``, computed level by level when a fold of the block is first requested. (A group of
another size is the left part of the next larger block.)

                     o                       a block of level 1: its elements are the aggregates
               o           o                 of the blocks below, with the names of their pages
            p     p     p     p
            |     |     |     |
          page  page  page  page             blocks of level 0: events

``BlockPager`` is a layer between level queues and their pager. It keeps these blocks in memory: the
open blocks at the back; the blocks on the path from the front pointer to the root; the *dirty*
blocks, which have changed since they were written; and the *ends*, the blocks that were read for
the last range. A range that starts and ends near the previous one therefore reads no page, and
reuses the levels within those blocks. When a block is written again, its page gets another name, so
all ancestors of a dirty block are dirty too. The previous page is *retired*: it is deleted once no
snapshot that may still be restored needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from mta.columns.schemas import Rows
from mta.in_order.flat_fat import FlatFAT
from mta.logs.base import Leaf
from mta.logs.levels.log import LeafReader, LevelPages
from mta.logs.levels.queues import Levels
from mta.monoids.base import Partial
from mta.pages import NO_NAME, Group, Numbered, Pager, Place, RetiredPages

#: The level and number of a block.
Where = tuple[int, int]

#: A block with fewer elements gets a tree of this size.
_SMALL = 64


class Block:
    """A group in memory, and after the first fold, the levels of the tree within the block."""

    __slots__ = ("_clean", "_fat", "_levels", "dirty", "group", "level", "number")

    def __init__(self, levels: Levels, level: int, number: int, group: Group) -> None:
        self._levels = levels
        self.level, self.number, self.group = level, number, group
        #: Whether the block differs from its page.
        self.dirty = False
        self._fat: FlatFAT | None = None
        #: How many elements the rows of the tree cover.
        self._clean = 0

    @property
    def first(self) -> int:
        """The index of the first element in its level."""
        return self.number * self._levels.arities[self.level > 0]

    @property
    def resident_rows(self) -> int:
        """The number of elements, plus the rows of the tree."""
        return self.group.count + (2 * self._fat.capacity if self._fat else 0)

    def between(self, start: int, stop: int) -> Partial:
        """Return the aggregate of some elements. At most 2 log2(arity) combines.

        First updates the tree with new elements: m of them take at most m (1 + ceil(log2(arity/m)))
        combines.
        """
        tree = self._tree()
        return tree.suffix(start) if stop == self.group.count else tree.between(start, stop)

    def aggregate(self) -> Partial:
        """Return the aggregate of all elements: ``between`` without the descents."""
        return self._tree().aggregate()

    def put(self, indices: Sequence[int], rows: Rows) -> Rows:
        """Replace elements and return the previous ones. If the monoid raises, nothing changes."""
        tree, schema = self._tree(), self._levels.layouts[self.level].schema
        at = np.asarray(indices, "i8")
        before = schema.take(self.group.rows, at)
        partials = rows if self.level else self._levels.monoid.lift_rows(rows, len(at))
        schema.put_at(self.group.rows, at, rows)
        try:
            tree.update(at, partials)
        except Exception:
            self.undo_put(indices, before)
            raise
        return before

    def undo_put(self, indices: Sequence[int], rows: Rows) -> None:
        """Undo a ``put``; the next fold computes the levels within the block again."""
        schema = self._levels.layouts[self.level].schema
        schema.put_at(self.group.rows, np.asarray(indices, "i8"), rows)
        self._fat = None

    def _tree(self) -> FlatFAT:
        """Return the up-to-date levels within the block."""
        count = self.group.count
        fat = self._fat
        if fat is None or fat.capacity < count:
            most = self._levels.arities[self.level > 0]
            room = most if count > _SMALL else min(most, _SMALL)
            fat = FlatFAT(self._levels.monoid, 1 << (room - 1).bit_length())
            self._clean = 0
        if self._clean < count:
            self._fat = None  # until everything has succeeded
            new = range(self._clean, count)
            fat.write(new, self._levels.partials(self.level, self.group, new.start, count))
            fat.propagate(new)
            self._clean = count
        self._fat = fat
        return fat

    def check(self) -> None:
        """Assert equation 4.1 within the block. Raises InvariantViolation."""
        self._tree().check()


class BlockPager(Pager):
    """A pager for level queues that keeps blocks in memory."""

    def __init__(self, levels: Levels, retired: RetiredPages, keeps_old: bool) -> None:
        self._pager, self._levels = levels.pager, levels
        self.reads_ahead = levels.pager.reads_ahead
        #: Whether the old page of a rewritten block stays in the store.
        self._keeps_old = keeps_old
        self._tails: list[Block] = []
        self._held: dict[Where, Block] = {}
        self._ends: dict[Where, Block] = {}
        self._path: frozenset[Where] = frozenset()
        #: Pages that blocks no longer reference.
        self.retired = retired

    # --- as a pager -----------------------------------------------------------------------------

    def write(self, groups: Sequence[Numbered]) -> list[bytes]:
        return self._pager.write(groups)

    def read(self, level: int, number: int, name: bytes) -> Group:
        block = self._sealed(level, number)
        if block is not None:
            return block.group
        group = self._pager.read(level, number, name)
        self.waited, self.read_ahead = self._pager.waited, self._pager.read_ahead
        return group

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        block = self._sealed(level, number)
        return self._pager.read_again(level, number, name) if block is None else block.group

    def delete(self, places: Sequence[Place]) -> None:
        self._pager.delete(places)
        for level, number, _ in places:
            self._held.pop((level, number), None)
            self._ends.pop((level, number), None)

    def prefetch(self, places: Sequence[Place]) -> None:
        self._pager.prefetch(places)  # includes blocks in memory, as a deletion reads their pages

    def peek(self, level: int, number: int, name: bytes) -> Group | None:
        block = self._sealed(level, number)
        return self._pager.peek(level, number, name) if block is None else block.group

    # --- blocks in memory -----------------------------------------------------------------------

    def tail(self, level: int) -> Block:
        """The open block of a level."""
        tails, tail = self._tails, self._levels.tails[level]
        if level >= len(tails) or tails[level].group is not tail:
            fresh = [Block(self._levels, t.level, t.number, t) for t in self._levels.tails]
            for old in tails[: len(fresh)]:
                if fresh[old.level].group is old.group:
                    fresh[old.level] = old
            self._tails = tails = fresh
        return tails[level]

    def drop_tails(self) -> None:
        """Discard the levels within open blocks, because these have lost elements."""
        self._tails = []

    def at(self, level: int, number: int) -> Block | None:
        """Return a block if it is in memory."""
        if self._levels.tails[level].number == number:
            return self.tail(level)
        return self._sealed(level, number)

    def _sealed(self, level: int, number: int) -> Block | None:
        """Return a sealed block if it is in memory."""
        return self._held.get((level, number)) or self._ends.get((level, number))

    def is_on_path(self, position: int) -> bool:
        """Return whether an event is below the front path."""
        return (0, position // self._levels.spans[1]) in self._path

    def path_to(self, position: int) -> list[Block]:
        """Return the sealed blocks from an event up to the open block above it, the leaf first.

        At most one page read per level. Call ``retain`` to retain the blocks.
        """
        levels, found, path = self._levels, dict[Where, Block](), list[Block]()
        level, number = 0, position // levels.spans[1]
        while number != levels.tails[level].number:
            path.append(self.find(level, number, found))
            level, number = level + 1, number // levels.arity
        return path

    def retain(self, path: Iterable[Block]) -> None:
        """Retain the blocks of the front path, and release all others that are not dirty."""
        keep = {(block.level, block.number): block for block in path}
        self._path = frozenset(keep)
        dirty = {where: block for where, block in self._held.items() if block.dirty}
        self._held = {**dirty, **keep}

    def retain_sealed(self, blocks: Iterable[Block]) -> None:
        """Retain blocks of the front path that were open and have just been sealed."""
        for block in blocks:
            self._held[block.level, block.number] = block
            self._path |= {(block.level, block.number)}

    def find(self, level: int, number: int, found: dict[Where, Block]) -> Block:
        """Return any block. One page read for it and for each ancestor that is not in memory.

        ``found`` collects the blocks that were read, including the ends of the last range.
        """
        where = level, number
        block = found.get(where) or self.at(level, number)
        if block is None:
            above, index = divmod(number, self._levels.arity)
            name = self.find(level + 1, above, found).group.names[index]
            block = Block(self._levels, level, number, self.read(level, number, name))
        elif where not in self._ends:
            return block
        found[where] = block
        return block

    def retain_ends(self, found: dict[Where, Block]) -> None:
        """Retain the blocks found for a range, if any, instead of the previous ones."""
        self._ends = found or self._ends

    @property
    def resident(self) -> list[Block]:
        """All blocks in memory."""
        opened = [self.tail(level) for level in range(len(self._levels.tails))]
        return opened + list((self._ends | self._held).values())

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        """At the end of the context, restore the retained blocks as they were at its start."""
        held, ends = self._held.copy(), self._ends
        path, tails = self._path, self._tails
        try:
            yield
        finally:
            self._held, self._ends = held, ends
            self._path, self._tails = path, tails

    # --- changed blocks -------------------------------------------------------------------------

    def mark_dirty(self, number: int) -> list[Block]:
        """Mark a leaf block and its sealed ancestors dirty; return them and the open block above.

        The leaf is first. At most one page read per level. If a read fails, nothing changes.
        """
        levels = self._levels
        path = self.path_to(number * levels.spans[1])
        for block in path:
            if not block.dirty:  # copies the group, because the page it came from may be cached
                group, schema = block.group, levels.layouts[block.level].schema
                rows = schema.joined([group.rows], [group.count])
                block.group = Group(rows, group.times, list(group.names), group.count)
                block.dirty = True
            self._held[block.level, block.number] = block
        levels.tails[len(path)].about_to_change()
        return [*path, self.tail(len(path))]

    def write_dirty(self, most: int = 0) -> None:
        """Write the dirty blocks, children first, if a level has more than ``most`` of them.

        One store call per level. If the store fails, the unwritten blocks stay dirty.
        """
        waiting: dict[int, list[Block]] = {}
        for block in self._held.values():
            if block.dirty:
                waiting.setdefault(block.level, []).append(block)
        full = [level for level, blocks in waiting.items() if len(blocks) > most]
        for level in range(max(full, default=-1) + 1):
            blocks = waiting.get(level, [])
            places = [(level, block.number, block.group) for block in blocks]
            names = self._pager.write(places) if places else []
            for block, name in zip(blocks, names, strict=True):
                number, index = divmod(block.number, self._levels.arity)
                above = self.at(level + 1, number)
                assert above is not None  # it became dirty together with this block
                old, above.group.names[index] = above.group.names[index], name
                block.dirty = False
                if self._keeps_old and old not in (name, NO_NAME):
                    self.retired.add([(level, block.number, old)])
        self.retain([self._held[where] for where in self._path if where in self._held])


class BlockReader(LeafReader):
    """The events of blocks in order, for one range: the paper's range query.

    Each page is read once, at most two per level. The blocks stay in memory until the next range,
    unless ``holds`` is false.
    """

    def __init__(self, pages: LevelPages, blocks: BlockPager, holds: bool = True) -> None:
        super().__init__(pages)
        self._blocks, self._holds = blocks, holds
        self._found: dict[Where, Block] = {}

    def fold(self, start: int, stop: int) -> Partial:
        """Return the aggregate of a range of positions, the identity if it is empty.

        At most log2(arity) + 2 combines for each of two blocks per level, plus ``arity`` for each
        block that is read. At most two page reads per level.
        """
        fold = super().fold(start, stop)
        self.retain()
        return fold

    def retain(self) -> None:
        """Keep the blocks that were read in memory until the next range."""
        if self._holds:
            self._blocks.retain_ends(self._found)

    def _within(self, level: int, number: int, start: int, stop: int) -> Partial:
        return self._blocks.find(level, number, self._found).between(start, stop)

    def _leaves(self, number: int, last: int) -> list[Leaf]:
        if number == self.levels.tails[0].number:
            return super()._leaves(number, last)
        group = self._group(0, number)
        return [Leaf(number * self.levels.spans[1], group.rows, group.times, group.count)]

    def _group(self, level: int, number: int) -> Group:
        """Return the group of a block. One page read for it and for each missing ancestor."""
        return self._blocks.find(level, number, self._found).group
