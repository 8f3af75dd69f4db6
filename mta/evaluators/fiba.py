"""FiBA as a window's structure: events in order of time, in any order of arrival, in pages.

Results are *as of* their events: the result of an event at time t is the aggregate of the window
that, by the frame, ends with the event. So the final result of an event does not depend on the
order and the batches in which events arrive. If no event is late, it is the result after the event
was inserted, as with level queues. The tree retains the events that a late event may need: the
window as of ``lateness`` before the newest event.

A batch is added run by run, in order of time. Each run is merged with the stored events that are
later than its first event (if any event is late), and a cursor (``cursor``) computes the result of
each event. Only then is the run inserted, so nothing has changed if a page is missing.

A window that is restored from a snapshot reads only the part of its tree that the next batch needs.
(Spark restores a window for each batch of a key.) Events that have left are then cut off in whole
leaves, some of them later, so no leaf is read or written only for that purpose.

Costs are in combines. An event in order takes O(1) amortized. An event at distance d takes O(arity
* log d), or O(d) if every result of a batch is requested. A bulk eviction takes O(arity * log n),
and one page per level. Single late events wait with the other new events, unless they are older
than the last leaf. They take one combine each, and one merge into the last leaf for all of them. If
the monoid is not commutative, only late events among the newest ones can wait
(``FingerTreeLog.newest``), and each takes one combine for each newer event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Self

from mta.evaluators.cursor import Cursor, cursor_of
from mta.folds.sliding import Events
from mta.frames.windows import TimeWindow
from mta.logs.base import Aggregator, Lens, Setting
from mta.logs.finger_tree.log import LEFT_BEHIND, FingerTreeLog
from mta.logs.finger_tree.node import Kind
from mta.monoids.base import Partial
from mta.snapshots import Snapshot


class FiBA(FingerTreeLog, Aggregator):
    """The events of one window in order of time; events may arrive late."""

    name = "FiBA"
    ends_anywhere = True

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting, kind)
        self.cursor: Cursor = cursor_of(self, self)
        #: The front at the last removal of unneeded events.
        self._cut_at = 0

    @property
    def front(self) -> int:  # type: ignore[override]
        """Return the position of the oldest event that has not left."""
        return self.cursor.floor

    def _place(self, front: int, is_whole: bool) -> None:
        """Set the front; the next access moves the window to its frame unless it ``is_whole``."""
        cursor, self._front_time = self.cursor, (-1, 0)
        start = self.kept_from if not is_whole else front
        cursor.start_at(start, self.back if is_whole else start)
        cursor.floor = front

    def recede(self) -> None:
        """Start the window with the oldest event that is retained for late events."""
        self._place(self.kept_from, is_whole=False)

    # --- events that have left ------------------------------------------------------------------

    def _make_ready(self, count: int = 0) -> None:
        """Release nodes, and remove events that have left once there are many of them."""
        self.trim()
        self._remove_left(count or self.setting.leaf_arity)

    def _remove_left(self, count: int) -> None:
        """Remove the events that no window may need, if they are at least ``count``."""
        if self.front - max(self.kept_from, self._cut_at) < count:
            return
        kept, self._cut_at = self._kept(self.front), self.front
        if kept - self.kept_from >= count:
            self._cut_off(kept)

    def take_in(self, new: Events) -> int | None:
        if self.tree.last_leaf is self.tree.root:  # so that a short window stays one leaf
            self._remove_left(self.setting.leaf_arity // 4 + 1)
        return super().take_in(new)

    def prepare(self) -> None:
        spare = 0 if self.tree.has_left else min(self.tree.size // LEFT_BEHIND, self._left_behind)
        self._cut_at = 0  # newer events may have made more events unneeded at the same front
        self._remove_left(max(spare, 1))
        super().prepare()

    def _evict_before(self, position: int) -> None:
        """Evict in O(arity * log n) combines; late events cannot use these events again.

        Without late events, this is the eviction of a frame: the tree loses the events later.
        """
        cursor = self.cursor
        if not self.setting.reach and position < cursor.end:
            cursor.move(position)
            cursor.floor = position
            return
        self.tree.load_left()
        super()._evict_before(position)
        self._place(position, is_whole=True)

    def _note_moved(self, position: int, by: int = 0) -> None:
        if position <= self.front:
            self._front_time = (-1, 0)
        super()._note_moved(position, by)

    def _is_gone(self, position: int) -> bool:
        return position < self.front and position < self.needed_from(self.cursor, self.front)

    def _kept(self, front: int) -> int:
        """Return the position from which events may be needed, given the window's front.

        Without a left spine, returns the start of a leaf at or before it, and reads no leaf.
        """
        tree, frame, reach = self.tree, self.setting.frame, self.setting.reach
        if tree.has_left:
            return self.needed_from(self.cursor, front)
        newest = self.newest_time()
        if reach and newest is not None and frame.positional:
            needed = self._as_of(self.cursor, newest - reach, self.leaf_after)
            if needed <= front and type(frame) is TimeWindow:
                return needed
            front = min(front, needed)
        elif frame.merges:
            front = self.needed_from(self.cursor, front)
        cut = tree.at_position(front - self.kept_from)
        return self.kept_from + tree.rank(cut, reads_leaf=False)

    # --- reading --------------------------------------------------------------------------------

    def remembered(self) -> Self:
        if self.tree.has_left:
            self._remove_left(1)
        return self

    def query(self) -> Partial:
        """Return the aggregate of the window; 1 combine, O(arity * log n) after a late event."""
        return self.cursor.query()

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        """Search the leaf at the front with a cursor, then the rest from the top of the tree."""
        front = self.cursor.front
        if front == self.back:
            return front
        stop = self.leaf(front).stop
        found = self._searching(lens, stop).prefix_accepted(lens, accepts)
        if found < stop or stop == self.back:
            return found
        monoid, pick = lens
        return self.kept_from + self.tree.longest_prefix(
            stop - self.kept_from,
            self.fold(front, stop),
            lambda prefix: accepts(monoid.lower(pick(prefix))),
        )

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self._searching(lens, self.back).suffix_accepted(lens, accepts)

    def _searching(self, lens: Lens, back: int) -> Cursor:
        frame = self.setting.frame
        cursor = Cursor(self.monoid, frame, self, {id(frame): lens})
        cursor.place(self.cursor.front, back)
        return cursor

    # --- snapshots --------------------------------------------------------------------------------

    @contextmanager
    def preserving_state(self) -> Iterator[None]:
        cursor = self.cursor
        self.cursor = copy(cursor)
        try:
            with super().preserving_state():
                yield
        finally:
            self.cursor = cursor

    def restore_state(self, snapshot: Snapshot) -> None:
        super().restore_state(snapshot)
        # Otherwise the newest event was retracted.
        self._place(snapshot.front, is_whole=not self.has_lost(snapshot.last_time))
        self.restore_front_time(snapshot.front_time)

    def _checked_result(self) -> Partial:
        return super()._checked_result() if self.setting.frame.lags else self.query()
