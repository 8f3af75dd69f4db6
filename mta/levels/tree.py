"""What Log MTA and Amortized MTA share: the head path, eviction by position, and the search.

The *head path* holds the groups on the way to the oldest event, the root first. Each of its frames
is a group of which some elements are left; an element is opened, its page read, only when the front
reaches into it. From left to right the window is then

    the frames of the head path, leaf first | the tails below the leftmost tree, highest first

and every search walks these *segments*, skips whole elements, and opens one group a level.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.levels import search
from mta.levels import state as level_state
from mta.levels.pages import LevelPages
from mta.levels.queues import Levels
from mta.levels.read_ahead import ReadAhead
from mta.monoids.base import Partial
from mta.pages.handle import Handle
from mta.pages.page import Group
from mta.pages.structure import Lens, Setting

#: Some elements of a group: level, index of the group's first element, group, start, stop.
Segment = tuple[int, int, Group, int, int]

_SWEEP_GROUPS = 32


class Frame:
    """A group on the head path: the elements from ``next`` to ``stop`` are left."""

    __slots__ = ("first", "group", "level", "next", "origin", "stop", "suffixes")

    def __init__(self, level: int, first: int, group: Group, start: int, stop: int) -> None:
        self.level, self.first, self.group = level, first, group
        self.next = self.origin = start
        self.stop = stop
        #: Amortized MTA: the folds from element origin, origin + 1, ... stop to the middle.
        self.suffixes: Rows = None


class MonoidTree(LevelPages):
    """A window over level queues: insertion at the back, eviction at the front, by position."""

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        #: Where the leftmost tree ends and the rest of the forest begins. With trees of more than
        #: leaves it is the end of the top level's tail; among leaves alone it stays where it was
        #: until the front gets there or the group is full, as every event would move it otherwise.
        self.middle = 0
        #: The aggregate of the leftmost tree (the paper's R0).
        self.left: Partial = self.monoid.identity
        #: The folds of the tails after the leftmost tree, from the leaves up; the leaves' own is
        #: only right after a seal. Empty when it was not needed yet.
        self.branch: list[Partial] = []
        #: The head path, root first; empty when it was not needed yet.
        self.path: list[Frame] = []
        #: The time of the event at a position that was the front when it was asked for.
        self._front_time = (-1, 0)
        self._ahead = ReadAhead(levels) if levels.pager.reads_ahead else None

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self.levels.back

    def __len__(self) -> int:
        return self.levels.back - self.front

    # --- what the two algorithms do differently -------------------------------------------------

    @property
    @abstractmethod
    def right(self) -> Partial:
        """The aggregate from the middle to the back (the paper's R1)."""

    @abstractmethod
    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events, for which the leaf tail must have room, without their results."""

    @abstractmethod
    def restore_right(self, right: Partial) -> None:
        """Take up the aggregate from the middle to the back from a handle."""

    @abstractmethod
    def _take_right(self, right: Partial) -> None:
        """The aggregate from the middle to the back has been computed anew."""

    @abstractmethod
    def _scan(self, frame: Frame, right: Partial) -> None:
        """Prepare a new frame of the head path; ``right`` is the aggregate after it."""

    @abstractmethod
    def _after(self, frame: Frame) -> Partial:
        """The aggregate from a frame's ``next`` element to the middle."""

    @abstractmethod
    def _extend(self, aggregate: Partial) -> None:
        """The leftmost tree has got another element on its right: bring the path up to it."""

    @abstractmethod
    def _fold_left(self) -> Partial:
        """The aggregate of the leftmost tree, from the head path."""

    # --- insertion ------------------------------------------------------------------------------

    def room(self) -> int:
        """How many events fit into the leaf tail; a full one is sealed first."""
        leaf = self.levels.tails[0]
        if leaf.count == leaf.capacity:
            self._seal()
            leaf = self.levels.tails[0]
        return leaf.capacity - leaf.count

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add as many events as the leaf tail has room for, without their results."""
        count = min(self.room(), stop - start)
        new = self.monoid.inputs.cut(rows, start, start + count)
        self.append(new, None if times is None else times[start : start + count], count)
        return count

    def _seal(self) -> None:
        """Seal the full tails, and let the leftmost tree grow where its root got an element."""
        levels, front = self.levels, self.front
        if self.discards and front - levels.swept >= _SWEEP_GROUPS * levels.leaf_arity:
            levels.sweep(front)
        top = levels.top(front)
        if top == 0 and front < levels.back:
            self._new_tree(front)
        elif not self.branch:
            self._renew_right()
        grown = levels.seal()
        if 0 < top == levels.top(front):
            self._sealed(top, grown)
        else:
            self._renew_right()

    def _sealed(self, top: int, grown: list[tuple[int, Partial]]) -> None:
        """Bring the branch up to date after a seal: every sealed tail now begins anew."""
        first = self.monoid.identity
        for level, aggregate in grown:
            self.branch[level - 1] = first
            first = aggregate
        level = grown[-1][0]
        if level == top:
            self._grow(level, first)
        else:
            self.branch[level] = self.monoid.combine(self.branch[level], first)
        # Unless the leftmost tree grew, R1 stays what it was but for rounding: to fold it at every
        # seal of a small group would cost O(log n) an event, once in O(log n) events costs O(1).
        leaf = self.levels.tails[0]
        if level == top or leaf.first % len(self.branch) < leaf.capacity:
            self._take_right(self._fold_branch())

    def _renew_right(self) -> None:
        """Fold the trees after the leftmost one from their root groups (Algorithm 5)."""
        levels = self.levels
        top = levels.top(self.front)
        tails = levels.tails[: max(top, 1)]
        start = 0 if top else max(self.middle, self.front) - tails[0].first
        self.branch = [levels.fold(t.level, t, 0 if t.level else start, t.count) for t in tails]
        self._take_right(self._fold_branch())

    def _fold_branch(self) -> Partial:
        right = self.monoid.identity
        for fold in self.branch:
            right = self.monoid.combine(fold, right)
        return right

    def _grow(self, level: int, aggregate: Partial) -> None:
        self.middle += self.levels.span(level)
        self.left = self.monoid.combine(self.left, aggregate)
        if not self.path:
            return
        self._extend(aggregate)
        root, tail = self.path[0], self.levels.tails[level]
        if root.group is not tail:
            root = Frame(level, tail.first, tail, tail.count - 1, tail.count - 1)
            self.path.insert(0, root)
        root.stop += 1
        self._widen(root, aggregate)

    @abstractmethod
    def _widen(self, root: Frame, aggregate: Partial) -> None:
        """The root frame has got one more element, which ends at the middle."""

    # --- eviction -------------------------------------------------------------------------------

    def evict_to(self, position: int) -> None:
        """Remove every event before ``position``; at most one page read a level.

        When the store fails, nothing has changed.
        """
        if position <= self.front:
            return
        self.require_events(position)
        if position >= self.middle:
            self._new_tree(position)
        else:
            self._advance(position, self._path_to(position))

    def _advance(self, position: int, path: list[Frame]) -> None:
        self.front, self.path = position, path
        self.left = self._fold_left()

    def _new_tree(self, front: int) -> None:
        """Move the front on, and take the first tree that ends after it as the leftmost."""
        levels = self.levels
        top = levels.top(front)
        middle = levels.end(top) if top else levels.back
        path = self._new_path(front, middle) if front < middle else []
        self.middle = middle
        self._advance(front, path)
        self._renew_right()

    def _give_back(self) -> None:
        """After ``take_back``: the leftmost tree may have been begun anew with that event in it."""
        if self.middle > self.back:
            self._new_tree(self.front)

    def _path_to(self, position: int) -> list[Frame]:
        """The head path for a front that moves on within the leftmost tree; changes nothing."""
        path = list(self.path)
        while path and self._stop_position(path[-1]) <= position:
            path.pop()
        if not path:
            return self._new_path(position, self.middle)
        frame = path[-1]
        index = position // self.levels.span(frame.level) - frame.first
        path[-1] = _moved_on(frame, index)
        return self._reach(path, position)

    def _new_path(self, position: int, middle: int) -> list[Frame]:
        """A head path down from the root of the leftmost tree, which ends at the middle."""
        levels = self.levels
        tail = levels.tails[levels.top(position)]
        span = levels.span(tail.level)
        frame = Frame(
            tail.level,
            tail.first,
            tail,
            position // span - tail.first,
            middle // span - tail.first,
        )
        self._scan(frame, self.monoid.identity)
        return self._reach([frame], position)

    def _reach(self, path: list[Frame], position: int) -> list[Frame]:
        """Open elements until the path's last frame begins exactly at ``position``."""
        while self._next_position(path[-1]) < position:
            self._open(path, position)
        return path

    def _open(self, path: list[Frame], position: int) -> None:
        """Replace the last frame's next element by the group below it: one page read."""
        frame = path[-1]
        level, index = frame.level - 1, frame.next
        group = self.levels.child(frame.level, frame.first, frame.group, index)
        first = (frame.first + index) * self.levels.arity_of(level)
        start = max(position // self.levels.span(level) - first, 0)
        below = Frame(level, first, group, start, group.count)
        rest = _moved_on(frame, index + 1)
        if level == 0 and self._ahead is not None:
            self._ahead.follow(first // group.count, path)
        self._scan(below, self._after(rest))
        path[-1:] = [below] if rest.next == rest.stop else [rest, below]

    def open_path(self) -> Frame | None:
        """Open the head path down to the oldest event; None when the leftmost tree is empty."""
        if self.front == self.middle:
            if self.front == self.back:
                return None
            self._new_tree(self.front)
        path = list(self.path) or self._new_path(self.front, self.middle)
        while path[-1].level:
            self._open(path, self.front)
        self.path = path
        return path[-1]

    def _next_position(self, frame: Frame) -> int:
        return (frame.first + frame.next) * self.levels.span(frame.level)

    def _stop_position(self, frame: Frame) -> int:
        return (frame.first + frame.stop) * self.levels.span(frame.level)

    # --- looking at it ----------------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        return search.first_after(self, time)

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return search.longest_prefix(self, lens, accepts)

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return search.longest_suffix(self, lens, accepts)

    def write_state(self) -> list[Any]:
        return level_state.write_state(self)

    def take_up_state(self, handle: Handle) -> None:
        level_state.take_up_state(self, handle)

    @property
    def page_count(self) -> int:
        return level_state.pages_of(self)

    @property
    def resident_rows(self) -> int:
        """Tails, stack and result pair."""
        tails = sum(tail.count for tail in self.levels.tails)
        return tails + sum(frame.stop - frame.next for frame in self.path) + 2

    def segments(self) -> Iterator[Segment]:
        """The window from left to right, as coarsely as it is at hand; no reads beyond the path."""
        if not self.path and self.front < self.middle:
            self.path = self._new_path(self.front, self.middle)
        for frame in reversed(self.path):
            yield frame.level, frame.first, frame.group, frame.next, frame.stop
        level = self.levels.top(self.front)
        if level == 0:
            tail = self.levels.tails[0]
            yield 0, tail.first, tail, max(self.middle, self.front) - tail.first, tail.count
        for tail in reversed(self.levels.tails[:level]):
            yield tail.level, tail.first, tail, 0, tail.count

    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window; known without opening the path
        for as long as the front does not move."""
        if self.front == self.back:
            return None
        if self._front_time[0] != self.front:
            leaf = self.levels.tails[0]
            inside = self.front - leaf.first
            times = leaf.times[inside:] if inside >= 0 and leaf.times is not None else None
            self._front_time = (
                self.front,
                int((self.head_times()[1] if times is None else times)[0]),
            )
        return self._front_time[1]

    def restore_front_time(self, time: int | None) -> None:
        """Take up the time of the oldest event from a handle."""
        if time is not None:
            self._front_time = self.front, time

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of the oldest events at hand, and the position of the first of them."""
        frame = self.open_path()
        if frame is None:
            return self.front, np.empty(0, "<i8")
        assert frame.group.times is not None
        return self.front, frame.group.times[frame.next : frame.stop]

    def events(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on; reads every page once."""
        for level, first, group, start, stop in list(self.segments()):
            yield from self._events(level, first, group, start, stop)

    def _events(
        self, level: int, first: int, group: Group, start: int, stop: int
    ) -> Iterator[Partial]:
        if level == 0:
            rows = self.levels.partials(0, group, start, stop)
            for i in range(stop - start):
                yield self.monoid.partials.at(rows, i)
            return
        for index in range(start, stop):
            below = self.levels.child(level, first, group, index)
            lower_first = (first + index) * self.levels.arity_of(level - 1)
            yield from self._events(level - 1, lower_first, below, 0, below.count)


def _moved_on(frame: Frame, index: int) -> Frame:
    """The same frame with its front at another element; the old one stays as it was."""
    moved = Frame(frame.level, frame.first, frame.group, index, frame.stop)
    moved.origin, moved.suffixes = frame.origin, frame.suffixes
    return moved
