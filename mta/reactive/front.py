"""The front of FlatFAT in pages: its path to the root, and what is read from there on.

From left to right a window is parts of blocks: what is left of the blocks on the front pointer's
path, leaf first, then the open blocks from the root down. Every search walks these *segments*, as
in ``levels.tree``, and opens one block a level.
"""

from __future__ import annotations

from collections.abc import Iterator

from mta.levels.path import Frame, Segment
from mta.levels.queues import Levels
from mta.levels.read_ahead import ReadAhead
from mta.levels.search import SegmentedWindow
from mta.pages.structure import Setting
from mta.reactive.blocks import Block, Blocks


class FrontPath(SegmentedWindow):
    """A window over blocks, as far as it is read from its front."""

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        self.blocks = Blocks(levels, keeps_old=setting.store is not None)
        levels.pager = self.blocks
        self._ahead = ReadAhead(levels) if self.blocks.reads_ahead else None

    def is_past(self, level: int, number: int) -> bool:
        del level, number  # blocks are written anew when something in them leaves
        return False

    def path_to(self, position: int) -> list[Block]:
        """The blocks to hold for a front; at most one page read a level."""
        if position >= self.levels.tails[0].first:
            return []
        opens = not self.blocks.is_on_path(position)
        path = self.blocks.path_to(position)
        if opens and self._ahead is not None:
            above = [Frame(b.level, b.first, b.group, 0, b.group.count) for b in path[1:]]
            self._ahead.follow(path[0].number, above)
        return path

    def move_front(self, position: int, path: list[Block]) -> None:
        """Move the front on, with its path at hand."""
        self.front = position
        self.blocks.hold(path)

    def front_block(self) -> Block:
        """The leaf block that the front is in; its path is held from now on."""
        if self.front >= self.levels.tails[0].first:
            return self.blocks.tail(0)
        if not self.blocks.is_on_path(self.front):
            self.blocks.hold(self.path_to(self.front))
        block = self.blocks.at(0, self.front // self.levels.leaf_arity)
        assert block is not None
        return block

    def open_path(self) -> Frame | None:
        """The leaf block of the oldest event; None in an empty window."""
        if not len(self):
            return None
        block = self.front_block()
        start = self.front - block.first
        return Frame(0, block.first, block.group, start, block.group.count)

    def segments(self) -> Iterator[Segment]:
        """The window from left to right, in parts of blocks in memory."""
        if not len(self):
            return
        self.front_block()
        levels, level, start = self.levels, 0, self.front
        number = start // levels.leaf_arity
        while True:
            block = self.blocks.at(level, number)
            assert block is not None  # on the front path, or open
            inside, count = start - block.first, block.group.count
            if inside < count:
                yield level, block.first, block.group, inside, count
            if number == levels.tails[level].number:
                break
            start, level = number + 1, level + 1
            number //= levels.arity_of(level)
        for tail in reversed(levels.tails[:level]):
            if tail.count:
                yield tail.level, tail.first, tail, 0, tail.count
