"""The front of FlatFAT in pages: its path to the root, and what is read from there on.

From left to right a window is parts of blocks: what is left of the blocks on the front pointer's
path, leaf first, then the open blocks from the root down. Every search walks these *segments*, as
in ``tree``, and opens one block a level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mta.levels import search
from mta.levels.pages import LevelPages
from mta.levels.queues import Levels
from mta.levels.read_ahead import ReadAhead
from mta.levels.tree import Frame, Segment
from mta.monoids.base import Partial
from mta.pages.page import Group
from mta.pages.structure import Lens, Setting
from mta.reactive.blocks import Block, Blocks


class FrontPath(LevelPages):
    """A window over blocks, as far as it is read from its front."""

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        self.blocks = Blocks(levels, keeps_old=setting.store is not None)
        levels.pager = self.blocks
        self._ahead = ReadAhead(levels) if self.blocks.reads_ahead else None
        #: The time of the event at a position that was the front when it was asked for.
        self._front_time = (-1, 0)

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self.levels.back

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

    def first_after(self, time: int) -> int:
        return search.first_after(self, time)

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return search.longest_prefix(self, lens, accepts)

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return search.longest_suffix(self, lens, accepts)

    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window; remembered for the front."""
        if not len(self):
            return None
        if self._front_time[0] != self.front:
            self._front_time = self.front, int(self.head_times()[1][0])
        return self._front_time[1]

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of the oldest events at hand, and the position of the first of them."""
        head = self.open_path()
        if head is None:
            return self.front, np.empty(0, "<i8")
        assert head.group.times is not None
        return self.front, head.group.times[head.next : head.stop]

    def leaves(self) -> Iterator[tuple[Group, int, int]]:
        """The leaf groups of the window and which of their events are in it; reads every page."""
        for level, first, group, start, stop in list(self.segments()):
            yield from self._leaves(level, first, group, start, stop)

    def _leaves(
        self, level: int, first: int, group: Group, start: int, stop: int
    ) -> Iterator[tuple[Group, int, int]]:
        if level == 0:
            yield group, start, stop
            return
        for index in range(start, stop):
            below = self.levels.child(level, first, group, index)
            lower_first = (first + index) * self.levels.arity_of(level - 1)
            yield from self._leaves(level - 1, lower_first, below, 0, below.count)

    def events(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on; reads every page once."""
        for group, start, stop in self.leaves():
            rows = self.levels.partials(0, group, start, stop)
            for index in range(stop - start):
                yield self.monoid.partials.at(rows, index)

    def restore_front(self, front: int, time: int | None) -> None:
        """Take up the front, and its event's time, from a handle."""
        self.front = front
        self._front_time = (-1, 0) if time is None else (front, time)
