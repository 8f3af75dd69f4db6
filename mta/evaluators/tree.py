"""What Log MTA and Amortized MTA share: the head path, and eviction by position.

Each frame of the head path (``search``) is a group of which some elements are left; an element is
opened, its page read, only when the front reaches into it.

In a snapshot, beside the common fields (for swept, kept and tails see ``pages``):

state    = [middle, swept, kept, pair, tails]
middle   = position where the leftmost tree ends
pair     = columns of two partials, the result pair R0 and R1
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.errors import CorruptPage
from mta.folds.sliding import Events
from mta.logs.base import AtHand, Setting
from mta.logs.levels.log import LeafReader
from mta.logs.levels.read_ahead import ReadAhead
from mta.logs.levels.search import Frame, Segment, SegmentedWindow
from mta.monoids.base import Partial
from mta.pages.page import Group, Layout, read_columns
from mta.pages.snapshot import Snapshot, corrupt


class MonoidTree(SegmentedWindow):
    """A window over level queues: insertion at the back, eviction at the front, by position."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        #: Where the leftmost tree ends and the rest of the forest begins. With trees of more than
        #: leaves it is the end of the top level's tail; among leaves alone it stays where it was
        #: until the front gets there or the group is full, as every event would move it otherwise.
        self.middle = 0
        #: The aggregate of the leftmost tree (the paper's R0).
        self.left: Partial = self.monoid.identity
        #: The aggregate from the middle to the back (the paper's R1).
        self.right: Partial = self.monoid.identity
        #: The folds of the tails after the leftmost tree, from the leaves up; the leaves' own is
        #: only right after a seal. Empty when it was not needed yet.
        self.branch: list[Partial] = []
        #: The head path, root first; empty when it was not needed yet.
        self.path: list[Frame] = []
        self._ahead = ReadAhead(self.levels) if self.levels.pager.reads_ahead else None

    # --- what the two algorithms do differently -------------------------------------------------

    @abstractmethod
    def _fold_left(self) -> Partial:
        """The aggregate of the leftmost tree, from the head path."""

    def _moved(self) -> None:
        """The left or the right aggregate is another."""

    def _scan(self, frame: Frame, right: Partial) -> None:
        """Prepare a new frame of the head path; ``right`` is the aggregate after it."""

    def _after(self, frame: Frame) -> Partial:
        """The aggregate from a frame's ``next`` element to the middle, where it is remembered."""
        return self.monoid.identity

    def _extend(self, root: Frame, aggregate: Partial) -> None:
        """The root is about to get another element, on the right of all: fold it into the path."""

    # --- insertion ------------------------------------------------------------------------------

    def _seal(self) -> None:
        """Seal the full tails, and let the leftmost tree grow where its root got an element."""
        levels, front = self.levels, self.front
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
            self._fold_right()

    def _renew_right(self) -> None:
        """Fold the trees after the leftmost one from their root groups (Algorithm 5)."""
        self.branch = self._new_branch(self.front, self.middle)
        self._fold_right()

    def _new_branch(self, front: int, middle: int) -> list[Partial]:
        """The folds of the tails after the leftmost tree; reads the parts of one."""
        levels = self.levels
        top = levels.top(front)
        tails = levels.tails[: max(top, 1)]
        start = 0 if top else max(middle, front) - tails[0].first
        return [levels.fold_tail(t, 0 if t.level else start) for t in tails]

    def _fold_right(self) -> None:
        right = self.monoid.identity
        for fold in self.branch:
            right = self.monoid.combine(fold, right)
        self.right = right
        self._moved()

    def _grow(self, level: int, aggregate: Partial) -> None:
        self.middle += self.levels.span(level)
        self.left = self.monoid.combine(self.left, aggregate)
        if not self.path:
            return
        root, tail = self.path[0], self.levels.tails[level]
        if root.group is not tail:
            root = Frame(level, tail.first, tail, tail.count - 1, tail.count - 1)
        self._extend(root, aggregate)
        if root is not self.path[0]:
            self.path.insert(0, root)
        root.stop += 1

    # --- single events --------------------------------------------------------------------------

    def at_hand(self, most: int) -> AtHand | None:
        leaf, frame = self.levels.tails[0], self.path[-1] if self.path else None
        if self.front == self.back or leaf.is_full or not leaf.is_at_hand:
            return None
        lefts, evictions = self.monoid.partials.new(0), 0
        leaving = np.array([self._front_time[1]] * (self._front_time[0] == self.front), "<i8")
        if frame is not None and frame.level == 0:
            first, stop = frame.next, min(frame.next + most, frame.stop - 1)
            lefts, evictions = self._lefts(frame, first + 1, stop + 1), stop - first
            if frame.group.times is not None:
                leaving = frame.group.times[first : stop + 1]
        room = leaf.capacity - leaf.count
        return AtHand(self.left, self.right, lefts, evictions, leaving, room)

    def _lefts(self, frame: Frame, start: int, stop: int) -> Rows:
        """The aggregate of the leftmost tree from each of some elements of its leaf group on."""
        return self.monoid.partials.cut(frame.suffixes, start - frame.origin, stop - frame.origin)

    def catch_up(self, new: Events, gone: int, left: Partial, right: Partial) -> None:
        self.levels.append_many(*new)
        if gone:
            self.front += gone
            self.path[-1].next += gone

    # --- eviction -------------------------------------------------------------------------------

    def _evict_before(self, position: int) -> None:
        """At most one page read a level."""
        if position >= self.middle:
            self._new_tree(position)
        else:
            self._advance(position, self._path_from(self.path, position))
            self._moved()

    def _advance(self, position: int, path: list[Frame]) -> None:
        self.front, self.path = position, path
        self.left = self._fold_left()

    def _new_tree(self, front: int) -> None:
        """Move the front on, and take the first tree that ends after it as the leftmost."""
        levels = self.levels
        top = levels.top(front)
        middle = levels.end(top) if top else levels.back
        path = self._new_path(front, middle) if front < middle else []
        branch = self._new_branch(front, middle)  # before anything changes, as it may read
        self.middle, self.branch = middle, branch
        self._advance(front, path)
        self._fold_right()

    def _give_back(self) -> None:
        """After ``take_back``: the leftmost tree may have been begun anew with that event in it."""
        if self.middle > self.back:
            self._new_tree(self.front)

    def _path_from(self, path: list[Frame], position: int) -> list[Frame]:
        """The head path for a front that moves on within the leftmost tree; changes nothing."""
        path = list(path)
        while path and self._position(path[-1], path[-1].stop) <= position:
            path.pop()
        if not path:
            return self._new_path(position, self.middle)
        frame = path[-1]
        index = position // self.levels.span(frame.level) - frame.first
        path[-1] = frame.moved_on(index)
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
        while self._position(path[-1], path[-1].next) < position:
            self._open(path, position)
        return path

    def _open(self, path: list[Frame], position: int) -> None:
        """Replace the last frame's next element by the group below it: one page read."""
        frame = path[-1]
        level, index = frame.level - 1, frame.next
        group = self._child(frame, index)
        first = (frame.first + index) * self.levels.arity_of(level)
        start = max(position // self.levels.span(level) - first, 0)
        below = Frame(level, first, group, start, group.count)
        rest = frame.moved_on(index + 1)
        if level == 0 and self._ahead is not None:
            self._ahead.follow(first // group.count, path)
        self._scan(below, self._after(rest))
        path[-1:] = [below] if rest.next == rest.stop else [rest, below]

    def _child(self, frame: Frame, index: int) -> Group:
        """The group below an element of a frame: one page read."""
        return self.levels.child(frame.level, frame.first, frame.group, index)

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

    def _position(self, frame: Frame, index: int) -> int:
        return (frame.first + index) * self.levels.span(frame.level)

    # --- looking at it ----------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        path = self.path
        try:
            yield
        finally:
            self.path = path

    def check(self) -> None:
        """As ever; the head path stays as it was, so that no later result tells of this."""
        with self.preserving_state():
            self.check_levels()
            self._check_folds(list(self.events()))

    @abstractmethod
    def _check_folds(self, events: list[Partial]) -> None:
        """Assert that the aggregates are those of the events. Raises InvariantViolation."""

    def segments(self) -> Iterator[Segment]:
        """The window from left to right, as coarsely as it is at hand; no reads beyond the path."""
        if not self.path and self.front < self.middle:
            self.path = self._new_path(self.front, self.middle)
        for frame in reversed(self.path):
            yield frame.segment
        level = self.levels.top(self.front)
        if level == 0:
            tail = self.levels.tails[0]
            yield 0, tail.first, tail, max(self.middle, self.front) - tail.first, tail.count
        for tail in reversed(self.levels.tails[:level]):
            yield tail.level, tail.first, tail, 0, tail.count

    def remembered(self) -> LeafReader:
        return LeafReader(self)

    @property
    def resident_rows(self) -> int:
        """Tails, stack and result pair."""
        tails = sum(tail.count for tail in self.levels.tails)
        return tails + sum(frame.stop - frame.next for frame in self.path) + 2

    # --- snapshots
    # ----------------------------------------------------------------------------------

    def write_state(self) -> list[Any]:
        partials = self.monoid.partials
        pair = partials.new(2)
        partials.put(pair, 0, self.left)
        partials.put(pair, 1, self.right)
        return [self.middle, self.levels.swept, self.kept, partials.dump(pair), self.tail_states()]

    def restore_state(self, snapshot: Snapshot) -> None:
        if list(map(type, snapshot.state)) != [int, int, list, list, list]:
            raise corrupt("its state is not one of level queues")
        middle, swept, kept, pair, tails = snapshot.state
        self.restore_tails(snapshot, middle, swept, kept, tails)
        self.middle, top = middle, self.levels.top(self.front)
        if top and middle != self.levels.end(top):
            raise CorruptPage("its middle is not where the leftmost tree ends")
        partials = self.monoid.partials
        rows = read_columns(2, pair, Layout(partials, timed=False, named=False)).rows
        self.left = partials.at(rows, 0)
        self.right = partials.at(rows, 1)
        self.restore_front_time(snapshot.front_time)
