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

from mta.columns.schemas import Rows
from mta.errors import InvariantViolation
from mta.logs.base import Aggregator, Leaf, Lens
from mta.logs.levels.log import LevelPages
from mta.monoids.base import Partial
from mta.pages import Group, Layout, corrupt, read_columns
from mta.snapshots import Snapshot


class Segment(NamedTuple):
    """Consecutive elements of a group."""

    level: int
    first: int
    """The index of the group's first element in its level."""
    group: Any
    """A ``Group``, or the ``Leaf`` of one."""
    start: int
    stop: int


class SegmentedWindow(LevelPages, Aggregator):
    """A window over level queues that is read and searched from its front."""

    def open_path(self) -> Segment | None:
        """Return the leaf group of the oldest event, if any. One page read per level."""
        if self.front == self.back:
            return None
        number = self.front // self.levels.spans[1]
        first, leaf = number * self.levels.spans[1], self.group_at(0, number)
        return Segment(0, first, leaf, self.front - first, leaf.count)

    @abstractmethod
    def group_at(self, level: int, number: int) -> Leaf | Group:
        """Return a group of the head path. At most one page read per level."""

    def segments(self) -> Iterator[Segment]:
        """Yield the segments of the window from left to right, as large as memory allows."""
        leaf = self.open_path()
        if leaf is None:
            return
        yield leaf
        levels, level, number = self.levels, 0, self.front // self.levels.spans[1]
        while number < levels.tails[level].number:
            start, level, number = number + 1, level + 1, number // levels.arity
            first = number * levels.arity
            if start < first + levels.arity:
                group = self.group_at(level, number)
                yield Segment(level, first, group, start - first, group.count)
        for tail in reversed(levels.tails[:level]):
            yield Segment(tail.level, tail.first, tail, 0, tail.count)

    # --- snapshots ------------------------------------------------------------------------------

    def state_with(self, folds: Rows) -> list[Any]:
        """Return the state for a snapshot, with some partials."""
        return [self.levels.swept, self.kept, self.monoid.partials.dump(folds), self.tail_states()]

    def restore_with(self, snapshot: Snapshot, count: int) -> Rows:
        """Load a state, and return its partials. Raises CorruptSnapshot."""
        if list(map(type, snapshot.state)) != [int, list, list, list]:
            raise corrupt(f"its state is not that of {self.name}")
        swept, kept, columns, tails = snapshot.state
        self.restore_tails(snapshot, swept, kept, tails)
        self.restore_front_time(snapshot.front_time)
        layout = Layout(self.monoid.partials, timed=False, named=False)
        return read_columns(count, columns, layout).rows

    # --- verifying ------------------------------------------------------------------------------

    def checked_events(self) -> list[Partial]:
        """Check the levels and the number of events; return the lifted events."""
        self.check_levels()
        events = list(self.events())
        if len(events) != len(self):
            raise InvariantViolation(f"{len(events)} events in a window of {len(self)}")
        return events

    # --- searches -------------------------------------------------------------------------------

    def _below(self, segment: Segment, index: int) -> Segment:
        """Return the group below an element of a segment. One page read."""
        level, first, group, _, _ = segment
        below = self.levels.pager.read(level - 1, first + index, group.names[index])
        begin = (first + index) * self.levels.arities[level > 1]
        return Segment(level - 1, begin, below, 0, below.count)

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Return the end of the longest prefix whose result is accepted (Algorithm 2).

        First tries about as many of the oldest events as there are levels, one at a time. Then the
        search takes O(arity * log n) combines, O(log n) calls of ``accepts`` and one page read per
        level.
        """
        monoid, pick = lens
        prefix, at = monoid.identity, monoid.partials.at
        head = self.open_path()
        if head is not None:
            tries = min(len(self.levels.tails) + 1, head.stop - head.start)
            rows = pick(self.levels.partials(0, head.group, head.start, head.start + tries))
            for i in range(tries):
                prefix = monoid.combine(prefix, at(rows, i))
                if not accepts(monoid.lower(prefix)):
                    return self.front + i
        prefix = monoid.identity
        for top in self.segments():
            segment = top
            while True:
                level, first, group, start, stop = segment
                rows = pick(self.levels.partials(level, group, start, stop))
                scan = monoid.prefixes(rows, stop - start, prefix)
                index = bisect_left(
                    range(stop - start), True, key=lambda i: not accepts(monoid.lower(at(scan, i)))
                )
                prefix = at(scan, index - 1) if index else prefix
                if index == stop - start and segment is top:
                    break
                if index == stop - start or not level:
                    return (first + start + index) * self.levels.spans[level]
                segment = self._below(segment, start + index)
        return self.back

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
                    return (first + start + index) * self.levels.spans[level]
                # The suffix may start inside the element before the first accepted boundary.
                segment, right = self._below(segment, start + index - 1), at(scan, index)
        return self.back
