"""A window as a row of segments, and the search for a cut: which of its oldest events leave.

Segments are whole elements of the levels, and the search is the MTA paper's Algorithm 2: it goes
through them from the left, skips elements that leave as a whole, and goes down into the one where
the cut lies: one page read a level. Where the paper walks from the root down, this walks up the
head path first, since most cuts are near the front.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mta.levels.pages import LevelPages
from mta.levels.path import Frame, Segment
from mta.levels.queues import Levels
from mta.monoids.base import Partial
from mta.pages.page import Group
from mta.pages.structure import Aggregator, Lens, Setting


class SegmentedWindow(LevelPages, Aggregator):
    """A window over level queues that is read, and searched, from its front on."""

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        #: The time of the event at a position that was the front when it was asked for.
        self._front_time = (-1, 0)

    @abstractmethod
    def open_path(self) -> Frame | None:
        """The leaf group of the oldest event; None in an empty window. A page read a level."""

    @abstractmethod
    def segments(self) -> Iterator[Segment]:
        """The window from left to right, as coarsely as it is at hand."""

    # --- times ----------------------------------------------------------------------------------

    def oldest_time(self) -> int | None:
        """The time of the oldest event, None in an empty window; known without opening the path
        for as long as the front does not move."""
        if self.front == self.levels.back:
            return None
        if self._front_time[0] != self.front:
            leaf = self.levels.tails[0]
            inside = self.front - leaf.first
            times = leaf.times if inside >= 0 else None
            self._front_time = (
                self.front,
                int(self.head_times()[1][0] if times is None else times[inside]),
            )
        return self._front_time[1]

    def restore_front_time(self, time: int | None) -> None:
        """Have the time of the oldest event out of a handle."""
        if time is not None:
            self._front_time = self.front, time

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of the oldest events at hand, and the position of the first of them."""
        frame = self.open_path()
        if frame is None:
            return self.front, np.empty(0, "<i8")
        assert frame.group.times is not None
        return self.front, frame.group.times[frame.next : frame.stop]

    # --- all events -----------------------------------------------------------------------------

    def leaves(self) -> Iterator[tuple[Group, int, int]]:
        """The leaf groups of the window and which of their events are in it; reads every page."""
        for segment in list(self.segments()):
            yield from self._leaves_below(segment)

    def _leaves_below(self, segment: Segment) -> Iterator[tuple[Group, int, int]]:
        level, _, group, start, stop = segment
        if level == 0:
            yield group, start, stop
            return
        for index in range(start, stop):
            yield from self._leaves_below(self._below(segment, index))

    def events(self) -> Iterator[Partial]:
        """Every event of the window, lifted, from the oldest on; reads every page once."""
        at = self.monoid.partials.at
        for group, start, stop in self.leaves():
            rows = self.levels.partials(0, group, start, stop)
            for index in range(stop - start):
                yield at(rows, index)

    def _below(self, segment: Segment, index: int) -> Segment:
        """The group below an element of a segment; one page read."""
        level, first, group, _, _ = segment
        below = self.levels.child(level, first, group, index)
        return level - 1, (first + index) * self.levels.arity_of(level - 1), below, 0, below.count

    # --- searches -------------------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than ``time``; at most one page read a level."""

        def search(segment: Segment) -> int | None:
            _, _, group, start, stop = segment
            assert group.times is not None
            index = int(np.searchsorted(group.times[start:stop], time, side="right")) + start
            return index if index < stop else None

        return self._descend(search)

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Where the longest prefix ends whose result is accepted (Algorithm 2).

        The head events are tried one by one first, as many as there are levels; then the search
        takes O(arity * log n) combines, O(log n) questions and a page read a level.
        """
        monoid, pick = lens
        prefix = monoid.identity
        head = self.open_path()
        position = self.front
        if head is not None:
            tries = min(len(self.levels.tails) + 1, head.stop - head.next)
            rows = pick(self.levels.partials(0, head.group, head.next, head.next + tries))
            for i in range(tries):
                longer = monoid.combine(prefix, monoid.partials.at(rows, i))
                if not accepts(monoid.lower(longer)):
                    return position + i
                prefix = longer
        prefix = monoid.identity

        def search(segment: Segment) -> int | None:
            nonlocal prefix
            level, _, group, start, stop = segment
            rows = pick(self.levels.partials(level, group, start, stop))
            scan = monoid.prefixes(rows, stop - start, prefix)
            at = monoid.partials.at
            index = bisect_left(
                range(stop - start), True, key=lambda i: not accepts(monoid.lower(at(scan, i)))
            )
            if index:
                prefix = at(scan, index - 1)
            return start + index if index < stop - start else None

        return self._descend(search)

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Where the longest suffix begins whose result is accepted; costs as longest_prefix."""
        monoid, pick = lens
        if accepts(monoid.lower(pick(self.query()))):
            return self.front
        self.open_path()
        segments = list(self.segments())
        rights = [monoid.identity]
        for level, _, group, start, stop in reversed(segments):
            fold = monoid.fold(pick(self.levels.partials(level, group, start, stop)), stop - start)
            rights.append(monoid.combine(fold, rights[-1]))
        rights.pop()
        for segment in segments:
            position = self._suffix_within(segment, rights.pop(), lens, accepts)
            if position is not None:
                return position
        return self.back

    def _suffix_within(
        self, segment: Segment, right: Partial, lens: Lens, accepts: Callable[[Any], bool]
    ) -> int | None:
        """Where in a segment the longest accepted suffix begins, ``right`` being what follows."""
        monoid, pick = lens
        while True:
            level, first, group, start, stop = segment
            rows = pick(self.levels.partials(level, group, start, stop))
            scan = monoid.suffixes(rows, stop - start, right)
            at = monoid.partials.at
            index = bisect_left(
                range(stop - start + 1), True, key=lambda i: accepts(monoid.lower(at(scan, i)))
            )
            if index > stop - start:
                return None
            span = self.levels.span(level)
            if level == 0 or index == 0:
                return (first + start + index) * span
            # The suffix may begin inside the element before the first boundary that is accepted.
            segment, right = self._below(segment, start + index - 1), at(scan, index)

    def _descend(self, search: Callable[[Segment], int | None]) -> int:
        """The position that ``search`` finds, going into one element a level; else the back.

        ``search`` answers with the index of the element where the cut lies, None to go on.
        """
        for segment in self.segments():
            index = search(segment)
            while index is not None:
                if segment[0] == 0:
                    return segment[1] + index
                segment = self._below(segment, index)
                index = search(segment)
                if index is None:
                    level, first, _, _, stop = segment
                    return (first + stop) * self.levels.span(level)
        return self.back
