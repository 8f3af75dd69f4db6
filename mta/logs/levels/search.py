"""A window as a sequence of segments, and the search for a cut: how many oldest events to evict.

Segments are whole elements of the levels. The search is the MTA paper's Algorithm 2: it visits the
segments from the left, skips elements that are evicted completely, and descends into the element
with the cut. It reads one page per level. The paper walks down from the root; this search first
walks up the head path, because most cuts are near the front.

The *head path* consists of the groups on the path from the leftmost tree's root to the oldest
event:

    level 2   [ . . g g ]            root: the elements from ``start`` on remain
    level 1   [ . p p p ]
    level 0   [ . . . v ]            leaf: the oldest event

From left to right, a window consists of the segments of its head path, leaf first, and then the
tails below the leftmost tree, highest first.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mta.logs.base import Aggregator, Lens
from mta.logs.levels.log import LevelPages
from mta.monoids.base import Partial
from mta.pages import Group


class Segment(NamedTuple):
    """Consecutive elements of a group."""

    level: int
    first: int
    """The index of the group's first element in its level."""
    group: Group
    start: int
    stop: int


class SegmentedWindow(LevelPages, Aggregator):
    """A window over level queues that is read and searched from its front."""

    @abstractmethod
    def open_path(self) -> Segment | None:
        """Return the leaf group of the oldest event, if any. One page read per level."""

    @abstractmethod
    def segments(self) -> Iterator[Segment]:
        """Yield the segments of the window from left to right, as large as memory allows."""

    # --- all events -----------------------------------------------------------------------------

    def leaves(self) -> Iterator[tuple[Group, int, int]]:
        """Yield each leaf group of the window, and where its events start and end in it."""
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
        at = self.monoid.partials.at
        for group, start, stop in self.leaves():
            rows = self.levels.partials(0, group, start, stop)
            for index in range(stop - start):
                yield at(rows, index)

    def _below(self, segment: Segment, index: int) -> Segment:
        """Return the group below an element of a segment. One page read."""
        level, first, group, _, _ = segment
        below = self.levels.child(level, first, group, index)
        begin = (first + index) * self.levels.arity_of(level - 1)
        return Segment(level - 1, begin, below, 0, below.count)

    # --- searches -------------------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        def search(segment: Segment) -> int | None:
            _, _, group, start, stop = segment
            assert group.times is not None
            index = int(np.searchsorted(group.times[start:stop], time, side="right")) + start
            return index if index < stop else None

        return self.descend(search)

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Return the end of the longest prefix whose result is accepted (Algorithm 2).

        First tries about as many of the oldest events as there are levels, one at a time. Then the
        search takes O(arity * log n) combines, O(log n) calls of ``accepts`` and one page read per
        level.
        """
        monoid, pick = lens
        prefix = monoid.identity
        head = self.open_path()
        position = self.front
        if head is not None:
            tries = min(len(self.levels.tails) + 1, head.stop - head.start)
            rows = pick(self.levels.partials(0, head.group, head.start, head.start + tries))
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

        return self.descend(search)

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        monoid, pick = lens
        if accepts(monoid.lower(pick(self.query()))):
            return self.front
        self.open_path()
        segments, rights = list(self.segments()), [monoid.identity]
        for level, _, group, start, stop in reversed(segments):
            fold = monoid.fold(pick(self.levels.partials(level, group, start, stop)), stop - start)
            rights.append(monoid.combine(fold, rights[-1]))
        at = monoid.partials.at
        for segment, right in zip(segments, rights[-2::-1], strict=True):
            while True:
                level, first, group, start, stop = segment
                rows = pick(self.levels.partials(level, group, start, stop))
                scan = monoid.suffixes(rows, stop - start, right)
                index = bisect_left(
                    range(stop - start + 1), True, key=lambda i: accepts(monoid.lower(at(scan, i)))
                )
                if index > stop - start:
                    break
                if level == 0 or index == 0:
                    return (first + start + index) * self.levels.span(level)
                # The suffix may start inside the element before the first accepted boundary.
                segment, right = self._below(segment, start + index - 1), at(scan, index)
        return self.back

    def descend(self, search: Callable[[Segment], int | None]) -> int:
        """Return the position of the cut, or the back if there is none.

        ``search`` returns the index of the element with the cut, or None to continue. It is called
        for each segment, and then once per level below.
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
