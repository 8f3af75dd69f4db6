"""Cursors: multiple windows over one log, each with a front that reads shared events.

A cursor is the stack of Amortized MTA over stored events. It has the *suffix folds* S of the leaf
with its front. Each extends to the event that was the newest when the fold was computed, and one
aggregate G has the events since then:

    positions   ... [ . . f . . . . . ) . . . . . . . ) . . . . )
                    front |             G             | end     | back
                          S[f]: from f to where it was folded

    result  =  S[f] (x) G

The window ends with the newest event that was processed, ``end = back``, unless the frame *lags*.
Then the next access moves the window: an event enters it when the frame has reached the event.
``runs`` computes the results of a window after each event of a chunk.

S is the top of a *stack* (MTA paper, 4.2; Algorithms 4 to 7). Below S are the suffix folds of the
groups on the path from the root of the log to that leaf. Each entry extends to the back at the time
of its computation. It also has the aggregate of the events between that back and the entry above:

    level 2   [ a b c d ]        path: b is open       folds from c, d, and the end of the group
    level 1   [ p q r s ]        below b: q is open    folds from r, s, and the end of the group
    level 0   [ . . f . ]        below q: the leaf     S

When the front leaves the leaf, the cursor reads the next leaf, or as many as a run passes through.
The aggregate after that leaf is the next fold of the entry below. A group of the path is folded
once, and a used-up entry passes its later events on to the entry below. This takes O(1) combines
per event amortized, for any arity. So a window of any length costs about two whole-group combines
per event, and the scan of each leaf.

When late events arrive, a cursor goes back to a *mark*, a position before them for which G is known
(``Cursor.recede``). S stays, and one fold of the log extends G from the mark.

A cursor writes nothing. Everything in it except the front can be computed again from the log. If a
call fails, the front has not moved, or the cursor is behind and moves later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from sys import maxsize

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.evaluators.observed import ObservedEvents, lenses_of_frame
from mta.folds.sliding import EachFront, Events, count_below
from mta.frames.base import Frame
from mta.logs.base import (
    Aggregator,
    Chunk,
    Lag,
    Leaf,
    Lens,
    OrderedEvents,
    PathGroup,
    Prefetched,
    Recent,
    join_leaves,
)
from mta.logs.ranges import Positions, events_in, leaves_from
from mta.monoids.base import AbstractMonoid, Partial


@dataclass(eq=False)
class Folds:
    """An entry of the stack: folds from some positions to the back at the time of computation."""

    start: int
    stop: int
    rows: Rows
    starts: np.ndarray | range | None = None
    """The starts of the folds; None if there is a fold from each event before ``stop``."""
    level: int | None = None
    """The level of the group whose elements are folded."""
    reach: int = maxsize
    """The position where the folds end; ``maxsize`` if unknown."""
    right: Partial | None = None
    """The aggregate that follows the folds if they do not extend to the back; otherwise None."""
    since: Partial | None = None
    """The events between these folds and the entry above, or the back; None without events."""
    mark: int = maxsize
    """A position after these folds; ``maxsize`` if none is known."""
    before: Partial | None = None
    """The events between these folds and the mark."""

    def __copy__(self) -> Folds:  # for every batch; the library's copy takes four times as long
        other = object.__new__(Folds)
        vars(other).update(vars(self))
        return other

    def index(self, position: int) -> int:
        if self.starts is None:
            return position - self.start
        if isinstance(self.starts, range):
            return self.starts.index(position)
        return int(self.starts.searchsorted(position))

    def knows(self, position: int) -> bool:
        """Return whether a fold of an entry of the path starts at a position."""
        return self.starts is not None and position in self.starts


class Cursor(ObservedEvents):
    """One window over shared events: its frame and its front.

    ``lenses`` extract from a partial the aggregates that frames observe, by the frame's ``id``.
    The frame observes the window through the cursor (``frame.View``).
    """

    #: Whether events that have left may return, while they are retained for late events.
    returns_left = False
    #: Whether the window has a stack that may always have its folds, and whether it has them.
    has_stack = True
    _holds = False

    def __init__(
        self, monoid: AbstractMonoid, frame: Frame, events: OrderedEvents,
        lenses: Mapping[int, Lens] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(monoid, frame, events, lenses)
        self.front = self.end = self.back = events.kept_from
        #: Events before this position have left, and do not return; the log moves it with them.
        self.floor = events.kept_from
        self._stamp = events.stamp
        #: Whether ``recede`` has moved the front back to the start of the folds S.
        self.has_receded = False
        #: Whether the next single events need other folds S, as the window has left these.
        self.is_used_up = False
        #: The last leaf that was read.
        self._leaf: Leaf | None = None
        #: The folds along the path to the front, the outermost first; S is the last one.
        self.stack: list[Folds] = []
        #: Whether the next query is one for the end of a batch, which does not need the folds S.
        self.is_batch_end = False
        #: The window for which the aggregate was last requested, and that aggregate.
        self._asked = (-1, -1, -1)  # no window yet
        self._result: Partial = None

    def __len__(self) -> int:
        return self.end - self.front

    @property
    def is_behind(self) -> bool:
        return self.back != self.events.back

    def place(self, front: int, end: int) -> None:
        """Set the window to ``front`` and ``end``; no store call until a query."""
        self._reset()
        self.front, self.end, self.back = front, end, end

    def start_at(self, front: int, back: int) -> None:
        """Set the front of the window that includes the newest event, at ``back``, if it may.

        If the frame lags, the next access finds where the window ends.
        """
        self.place(front, front if self.frame.lags else back)

    def fall_behind(self) -> None:
        """Have the next access place the window."""
        self.place(self.events.kept_from, self.events.kept_from)

    def recede(self, position: int) -> None:
        """Go back to before a position from which events have changed or will be read again.

        The folds S stay if they end before it; ``reach`` or a run continues from there.
        """
        events, stack, is_next = self.events, self.stack, self.events.stamp - self._stamp <= 1
        oldest = events.kept_from
        is_known = stack and stack[-1].starts is None and stack[-1].mark <= position
        is_searched = self.frame.lags or self.monoid.folds_ranges  # may have no folds S
        if not (is_known and is_next and stack[-1].mark < events.back) or is_searched:
            self.place(oldest, oldest)
            return
        top = stack[-1]
        self.front, top.since = max(oldest, top.start), top.before
        self.end = self.back = top.mark
        self.has_receded = True
        self._stamp, self._asked = events.stamp, (-1, -1, -1)
        self._leaf = None  # a retraction may have moved events of earlier leaves in place

    def stay(self, position: int) -> None:
        """Keep everything, although the caller has moved events from a position on."""
        self._stamp, self._asked = self.events.stamp, (-1, -1, -1)
        if self._leaf is not None and self._leaf.stop > position:
            self._leaf = None

    def reach(self, front: int, end: int) -> None:
        """Set the window like ``place``; continue with the folds S if possible."""
        self.refresh()
        if self._is_known and self.front <= front < self.end <= end:
            self.advance(end)
            self.move(front)
        elif self.has_receded or (front, end) != (self.front, self.end):
            self.place(front, end)

    @property
    def _is_known(self) -> bool:
        """Whether the folds S stay valid if the events since then are added to G."""
        is_lasting = self.frame.lags or not self.events.by_time
        return self.has_receded or (is_lasting and bool(self.stack))

    def advance(self, end: int) -> None:
        """Process stored events; O(log n) combines, and at most two pages per level."""
        if self.end < end:
            self.grow(self.events.fold(self.end, end))
        self.end, self.back, self.has_receded = end, end, False

    def settle(self, time: int | None) -> None:
        """Move to the frame's front after the newest event; what has left does not return."""
        self._move_to_frame(time)
        self.floor = self.front
        self._hold()

    def remember(self) -> None:
        """Record which events have left, after a batch that the log has stored."""
        if self.is_behind:
            return
        if self._returns:
            self.floor = self.front
            return
        self.move(min(self.floor, self.end))
        self.floor = max(self.floor, self.front)

    @property
    def _rejoins(self) -> bool:
        """Whether a late event may bring earlier ones back, as it extends a session."""
        return self.frame.merges and self.events.looks_back

    @property
    def _returns(self) -> bool:
        """Whether events that have left may return."""
        return self.returns_left or self._rejoins

    @property
    def _start(self) -> int:
        """The position from which on events may be in the window."""
        kept = self.events.kept_from
        return kept if self._returns else max(kept, self.floor)

    @property
    def oldest(self) -> int:
        """The position from which on events may be in the window of a late event."""
        kept = self.events.kept_from
        return kept if self.events.looks_back else max(kept, self.floor)

    def evict_to(self, front: int) -> None:
        """Move the front of an only window; if the store fails, nothing changes."""
        if not self._holds or self._is_held(front) or front >= self.end:
            self.move(front)
            return
        moved = copy(self)
        moved.move(front)
        moved._hold()
        self._become(moved)

    def _become(self, other: Cursor) -> None:
        """Take the state of a copy."""
        vars(self).update(vars(other))

    def end_batch(self) -> None:
        """Prepare the query of the result after a batch, which belongs to adding the events."""
        self.is_batch_end = self.own_log is not None and self.events.by_time
        self._hold()

    def _hold(self) -> None:
        """Compute missing folds of an only window, so that they do not depend on its queries."""
        if self._holds and self.front < self.end and not self._is_held(self.front):
            self._asked, self._result = (self.front, self.end, self._stamp), self._find()

    def _move_to_frame(self, time: int | None) -> None:
        events, frame = self.events, self.frame
        self.refresh()
        if not (self.is_behind or self._rejoins or frame.lags):
            if self.front < self.end:
                self.move(frame.cut(self, time))
            return
        by_position = frame.predictable and not frame.merges
        is_found = by_position and (self._is_known or frame.lags)
        if is_found and events.kept_from < events.back:
            self._reach_frame(time)
            return
        previous = self.front, self.end
        self.place(self._start, events.back)
        try:
            if self.front < self.end:
                self.move(frame.cut(self, time))
        except Exception:
            self.place(*previous)
            raise

    def _reach_frame(self, time: int | None) -> None:
        """Move to a frame on positions and times; at most one page read per level."""
        events, frame = self.events, self.frame
        view = Positions(lambda: events.back, events.first_after)
        self.back = -1  # unknown until the window has been found
        front = max(frame.cut(view, time), self._start)
        self.reach(front, max(frame.stop(view, time), front))
        self.back = events.back

    def query(self) -> Partial:
        """Return the aggregate of the window; 1 combine, and more if the front is in a new leaf.

        No combine if nothing has changed since the last call.
        """
        if self.front == self.end:
            return self.monoid.identity
        self.refresh()
        now = self.front, self.end, self._stamp
        if self._asked != now:
            reader = copy(self) if self._holds and not self._is_held(self.front) else self
            self._asked, self._result = now, reader._find()
        return self._result

    def _find(self) -> Partial:
        front, stack = self.front, self.stack
        if not self._is_held(front):
            while stack and stack[-1].stop < front + (stack[-1].starts is None):
                self._pop()
            if stack[-1].knows(front) if stack else self.events.path(front):
                self.is_used_up = True
                return self._behind(front, self.end)  # a leaf starts here: it need not be read
            if self.is_batch_end:
                self.is_batch_end = False
                return self.events.fold(front, self.end)
            self._compute_folds()
        return self._at(self.stack[-1], front)

    def _at(self, folds: Folds, position: int) -> Partial:
        """Return the aggregate from a position of the top entry of the stack to the back."""
        fold = self.monoid.partials.at(folds.rows, folds.index(position))
        for behind in (folds.right, folds.since):
            fold = fold if behind is None else self.monoid.combine(fold, behind)
        return fold

    def step(self, row: Row, time: int | None) -> None:
        """Process the next event, which is already stored; amortized O(1) combines.

        The next access moves a window whose frame lags.
        """
        if self.frame.lags:
            return
        self.refresh()
        before = copy(self) if self._holds else None
        front, end = self.front, self.end
        self._take(row)
        self.end = self.back = end + 1
        try:
            if front == end and self._rejoins:
                self.place(self._start, end + 1)
            cut = self.frame.cut(self, time)
            if before is None:
                self.evict_to(cut)
            else:
                self.move(cut)
                self._hold()
        except Exception:
            if before is None:
                self.place(front, end)
            else:
                self._become(before)
            raise
        self.floor = self.front

    def _take(self, row: Row) -> None:
        """Add an event to the folds, if any.

        If events are in order of time, an error is raised later, if the result is still needed.
        """
        try:
            if self.stack:
                self.grow(self.monoid.lift(row))
        except Exception:
            if not self.events.by_time:
                raise
            self._reset()

    # --- leaves at the front --------------------------------------------------------------------

    def _reset(self) -> None:
        self._leaf, self.has_receded = None, False
        self.stack.clear()
        self._asked = (-1, -1, -1)

    def __copy__(self) -> Cursor:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.stack = list(map(copy, self.stack))
        return other

    def begin_run(self) -> None:
        """Prepare for the results of a chunk (``runs``)."""
        self.refresh()

    def refresh(self) -> None:
        """Discard everything if the positions of events have changed."""
        if self._stamp != self.events.stamp:
            self._stamp = self.events.stamp
            self._reset()

    def grow(self, newer: Partial) -> None:
        top = self.stack[-1]
        top.since = self.joined(top.since, newer)

    def _pop(self) -> None:
        """Drop the used-up top entry of the stack; at most 1 combine."""
        if len(self.stack) > 1:
            below = self.stack[-2]
            below.since = self.joined(below.since, self.stack[-1].since)
        self.stack.pop()

    def joined(self, older: Partial | None, newer: Partial | None) -> Partial | None:
        """Combine two aggregates; None stands for no events."""
        if older is None or newer is None:
            return newer if older is None else older
        return self.monoid.combine(older, newer)

    def move(self, front: int) -> None:
        """Move the front, and release the leaf that it has left."""
        if front > self.front:
            self.front = front
        if self._leaf is not None and self.front >= self._leaf.stop:
            self._leaf = None

    def leaf(self, position: int, back: int, upto: int = 0, until: int | None = None) -> Leaf:
        """Return the leaf with a position, without events from ``back`` on."""
        leaf = self._leaf
        if leaf is None or not leaf.first <= position < leaf.stop:
            leaf = self.events.leaf(position, upto, until)
        return leaf if leaf.stop <= back else leaf.before(back, self.monoid)

    def _look_at(self, leaf: Leaf) -> Leaf:
        """Remember a leaf, but not a chunk, which stays in memory only as long as its batch."""
        self._leaf = None if isinstance(leaf, Chunk) else leaf
        return leaf

    def compute_folds_at(self, fronts: EachFront, start: int, stop: int, back: int) -> int:
        """Compute S to ``back`` for as many fronts from ``start`` on as are in consecutive leaves.

        The fronts count from the back. Returns the index of the first front without S.
        """
        front, stack = back + int(fronts[start]), self.stack
        if stack and stack[-1].starts is None and front >= stack[-1].stop:
            self._pop()
        if not self._is_held(front):
            room, last = 2 * (stop - start), back + int(fronts[stop - 1])
            upto = last + 1 if last - front < room else 0  # 0 because fronts may skip leaves
            leaves = [self.leaf(front, back, upto)]
            room = 0 if isinstance(leaves[0], Chunk) else room - leaves[0].count
            while room > 0 and leaves[-1].stop <= last:
                following = int(fronts[count_below(fronts, leaves[-1].stop - back)])
                leaf = self.leaf(back + following, back, upto)
                if leaf.first != leaves[-1].stop or isinstance(leaf, Chunk):
                    break
                leaves.append(leaf)
                room -= leaf.count
            stack.append(self._of_leaves(leaves, front, self._behind(leaves[-1].stop, back)))
            stack[-1].reach = stack[-1].mark = back
            self._look_at(leaves[-1])
        return min(stop, count_below(fronts, stack[-1].stop - back))

    def _of_leaves(self, leaves: Sequence[Leaf], front: int, right: Partial) -> Folds:
        """Return S over consecutive leaves, from a front on; one combine per event."""
        leaf = leaves[0] if len(leaves) == 1 else join_leaves(leaves, self.monoid.inputs)
        folds = leaf.suffixes(front, right, self.monoid)
        return Folds(front, leaves[-1].stop, folds)

    def _of_group(self, group: PathGroup, right: Partial) -> Folds:
        """Return the folds from each element of a group of the path; one combine per element."""
        rows = self.monoid.suffixes(group.rows, group.size, right)
        starts = group.starts
        return Folds(starts[0], starts[-1], rows, starts, group.level)

    def _is_held(self, position: int) -> bool:
        """Return whether the folds S of the leaf with a position exist."""
        top = self.stack[-1] if self.stack else None
        return top is not None and top.starts is None and top.start <= position < top.stop

    def _behind(self, position: int, back: int) -> Partial:
        """Return the aggregate from a leaf's end to the back; folds its path, O(1) amortized."""
        events, stack, partials = self.events, self.stack, self.monoid.partials
        while stack and stack[-1].stop < position:
            self._pop()
        if stack and stack[-1].knows(position):
            return self._at(stack[-1], position)
        groups = events.path(position, stack[-1].level if stack else None)
        if back < events.back:
            cut = [group.before(back, self.monoid) for group in groups]
            groups = [group for group in cut if group.size]
            if not groups:
                stack.clear()
                return events.fold(position, back)
        if not groups:
            starts, rows = events.folds_behind(position, back)
            stack[:] = [Folds(position, int(starts[-1]), rows, starts)] * (len(starts) > 1)
            return partials.at(rows, 0)
        end = groups[0].starts[-1]
        right = self._at(stack[-1], end) if stack else events.fold(end, back)
        for group in groups:
            if not group.size:
                continue
            stack.append(self._of_group(group, right))
            right = self._at(stack[-1], stack[-1].start)
        return right

    # --- single events --------------------------------------------------------------------------

    def compute_folds(self) -> None:
        """Compute the folds S from the front on; one page read per level for another leaf.

        S extends only over settled events. The events that late ones may precede are part of G.
        """
        self.is_used_up = False
        if not self._is_held(self.front):
            self._compute_folds()

    def _compute_folds(self) -> None:
        front, back, self.is_used_up = self.front, self.end, False
        reach = self.events.settled(front, back)
        if reach < back:
            self.place(front, reach)
        try:
            self.compute_folds_at(range(front - reach, front - reach + 1), 0, 1, reach)
            since = self.events.fold(reach, back) if reach < back else None
        except Exception:
            self.place(front, back)
            raise
        if reach < back:
            self.sync(back - reach, 0, since)

    def prepare_ahead(self) -> None:
        """Compute S, as far as late events allow, and read its leaf; one page read per level."""
        self.refresh()
        settled = self.events.settled(self.front, self.events.back)
        if not self.is_held or self.stack[-1].reach > settled:
            self.place(self.front, self.end)
            self.compute_folds()
        self.look_at_leaf()

    def look_at_leaf(self) -> Leaf:
        return self._look_at(self.leaf(self.front, self.end))

    @property
    def is_held(self) -> bool:
        return self._is_held(self.front)

    def have(self, fold: Rows) -> None:
        """Set the aggregate of the current window, given as one row."""
        if self.front < self.end:
            self.stack = [Folds(self.front, self.front + 1, fold)]

    def shrink(self, most: int) -> None:
        """Discard folds beyond ``most`` events at the end of a batch, and longer leaves."""
        if self._leaf is not None and self._leaf.count > most:
            self._leaf = None
        if self.stack and (top := self.stack[-1]).starts is None:
            start, size = max(self.front, top.start), top.stop - top.start
            if start >= top.stop or self.monoid.partials.row_bytes is None:
                return
            stop = min(top.stop, start + most)
            if stop - start < size:
                rows = self.monoid.partials.new(stop - start)
                cut = self.monoid.partials.cut(top.rows, start - top.start, stop - top.start)
                self.monoid.partials.put_many(rows, 0, cut)
                top.start, top.stop, top.rows = start, stop, rows

    def entries(self) -> Iterator[tuple[int, Partial]]:
        """Yield each position whose aggregate to the back is known, and that aggregate."""
        since: Partial | None = None
        at = self.monoid.partials.at
        for folds in reversed(self.stack):
            since = self.joined(folds.since, since)
            stop = folds.stop
            starts = range(folds.start, stop) if folds.starts is None else folds.starts
            for position in map(int, starts):
                if self.front <= position < self.end:
                    behind = self.joined(folds.right, since)
                    fold = self.joined(at(folds.rows, folds.index(position)), behind)
                    yield position, fold

    @property
    def resident_rows(self) -> int:
        return sum(f.stop - f.start if f.starts is None else len(f.starts) for f in self.stack)

    def prefetched(self, most: int) -> Prefetched:
        """Return S, G and the times from the front on, for up to ``most`` evictions; see ``sync``.

        No store call. S is empty before the first query.
        """
        self.refresh()
        self._fold_whole(most)
        times, front, schema = np.empty(0, "<i8"), self.front, self.monoid.partials
        folds, size, grown = schema.new(0), 0, None
        if self._is_held(front):
            top = self.stack[-1]
            grown = top.since
            stop = min(front + most + 1, top.stop)
            folds, size = schema.cut(top.rows, front - top.start, stop - top.start), stop - front
            if top.right is not None:
                folds = self.monoid.combine_rows(folds, schema.one(top.right), size)
        leaf = self._leaf
        if leaf is not None and leaf.times is not None and leaf.first <= front < leaf.stop:
            times = leaf.times[front - leaf.first : front - leaf.first + most + 1]
        turns = 0 < size == len(self) and not self.events.by_time
        return Prefetched(folds, size, grown, times[: size or None], most, turns=turns)

    def _fold_whole(self, most: int) -> None:
        """Compute S again for a short window in the open leaf, once half of S has left.

        S then covers the whole window, and new events can follow it as folds. Amortized, two
        combines for each event that leaves.
        """
        size, events = len(self), self.events
        if events.by_time or not self.is_held or size > most or self.front < events.open_from:
            return
        start, stop = self.stack[-1].start, self.stack[-1].stop
        if stop < self.end and stop - self.front <= self.front - start:
            self.place(self.front, self.end)
            self.compute_folds()

    def for_singles(
        self, most: int, room: int, timed: bool, newest: Events | None
    ) -> Prefetched | None:
        """Return what at most ``room`` single events need, for a window that is up to date.

        ``newest`` as for ``ahead``. At most one page read per level if S is used up, or if this is
        the only window. None if that has no events, or the window of a frame that lags.
        """
        own, frame, gone = self.own_log, self.frame, room
        if frame.lags:
            return self._behind_newest(most, room, timed) if len(self) else None
        if own is not None:  # only the frame may evict, unless that depends on positions alone
            gone = most if frame.positional else 0
            if not len(self):
                return None
        if own is not None or self.is_used_up:
            self.compute_folds()
        found = self.ahead(gone, newest)
        if own is not None and frame.needs_times and not len(found.leaving):
            if found.size == 1:
                found = found._replace(leaving=np.array([own.oldest_time()], "<i8"))
            else:
                self.look_at_leaf()
                found = self.ahead(gone, newest)
        if found.size and frame.needs_times and newest is None:
            found = found.cut(len(found.leaving), self.monoid)
        found = found._replace(turns=found.turns and frame.positional)
        return found.beside(self.monoid.identity, room)

    def _behind_newest(self, most: int, room: int, timed: bool) -> Prefetched:
        """Return the data for single events of a non-empty frame that lags.

        Includes the events that it reaches next. For at most ``most`` events, including these, and
        at most ``room`` new ones. At most one page read per level, and one for each leaf of events
        that it reaches next.
        """
        events, monoid, end = self.events, self.monoid, self.frame.end
        stop = min(events.back, self.end + max(most // 2, 1))
        leaves = leaves_from(events, self.end, monoid.inputs, stop)
        waiting = events_in(leaves, monoid.inputs, timed)
        self.compute_folds()
        found = self.prefetched(most)
        if timed:
            if not len(found.leaving):
                self.look_at_leaf()
                found = self.prefetched(most)
            found = found.cut(len(found.leaving), monoid)
        lag = Lag(end.delay, end.rows, waiting, self.end + waiting.size == events.back)
        found = found.beside(monoid.identity, min(room, most - waiting.size))
        return found._replace(lag=lag, turns=False)

    def ahead(self, most: int, newest: Events | None = None) -> Prefetched:
        """Return what ``prefetched`` returns, with additional data for late events.

        ``newest`` are the newest events of the log, if late ones may be inserted among them.
        """
        found = self.prefetched(most)
        leaving = found.leaving
        if newest is None or newest.times is None or not newest.size:
            return found
        if found.size and not len(leaving):
            return found
        if found.size:  # late events must be later than all events that may leave
            found = found.cut(len(leaving), self.monoid)
        late_from = float(max([newest.times[0], *leaving[-1:]]))
        reach = self.stack[-1].reach if found.size else self.end
        recent = Recent(newest, partial(self.events.fold, reach, self.end - newest.size))
        return found._replace(late_from=late_from, recent=recent)

    def sync(self, count: int, gone: int, grown: Partial | None, late: int | None = None) -> None:
        """Process ``count`` events that the frame has reached, drop the oldest ``gone``, and set G.

        At most as many evictions as were prefetched, or more if all of those were. ``late`` is the
        position of the first event that was inserted before stored ones. If the frame lags, the
        next access places the window again after a late event, and without G.
        """
        if self.frame.lags and (grown is None or late is not None):
            self.place(self.front, self.front)
            return
        self.is_used_up = self.is_held and gone >= len(self) and late is None
        if gone > len(self) or (late is not None and not self._come_late(late)):
            self.place(self.front + gone, self.end + count)
        else:
            self.end += count
            if self._is_held(self.front):
                self.stack[-1].since = grown
            elif count:
                self.stack.clear()
            self.move(self.front + gone)
        self.back, self.floor = self.events.back, self.front

    def _come_late(self, position: int) -> bool:
        """Keep S although events from a position on have moved; return whether that is possible."""
        if not self._is_held(self.front) or self.stack[-1].stop > position:
            return False
        if self.stack[-1].mark > position:
            self.stack[-1].mark = maxsize
        del self.stack[:-1]  # folds of later leaves, which may have changed
        self.stay(position)
        return True


def cursor_of(log: Aggregator, events: OrderedEvents, kind: type[Cursor] = Cursor) -> Cursor:
    """Return the cursor of a log's window, of this kind if it includes the newest event."""
    monoid, frame = log.monoid, log.setting.frame
    cursor = (Cursor if frame.lags else kind)(monoid, frame, events, lenses_of_frame(monoid, frame))
    cursor.own_log = log
    cursor._holds = cursor.has_stack and not (events.by_time or frame.lags)
    return cursor
