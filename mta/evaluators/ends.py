"""Frames that end before the newest event.

    log        ... a b c d e f g h i j | k l m ...       k: the first event of a chunk
    frames         [a       g]
                     [b       h]
                         [d     i]

    result  =  a..d from its start on  (x)  d..g  (x)  h..i up to its end

Both bounds only move forward. In contrast to other windows, the events that enter the frame are not
those that arrive. The cursor's stack has the folds of events that leave. Events that enter are read
from the log, leaf by leaf, up to the chunk. Events of the chunk need not be in the log yet. For a
frame without events, the cursor folds the newest event before its end, and drops the result.
"""

from __future__ import annotations

import numpy as np

from mta.evaluators.cursor import ANSWERED, Cursor, Entering
from mta.evaluators.observed import lenses_of_frame
from mta.folds.sliding import (
    EachFront,
    Events,
    Fronts,
    SlidingFolds,
    as_array,
    count_below,
    moved,
    not_before,
)
from mta.frames.base import NEWEST, Frame
from mta.logs.base import Batch, Chunk, Lag, OrderedEvents, Prefetched, Remembered, Setting
from mta.logs.ranges import Positions, events_in, leaves_from
from mta.monoids.base import Partial, empties

#: A frame that has moved further than this many events is folded from the log.
_NEAR = 1024
#: If more events than this enter in one run, its results are computed in halves.
_MOST = 1 << 18
#: Stands for more waiting events than there can be: the cursor's position is unknown.
_BEHIND = -(1 << 62)


def stop_of(frame: Frame, events: Remembered, back: int, time: int | None) -> int:
    """Return where the frame ends at a time, at most ``back``; at most one page read per level."""
    end, stop = frame.end, back
    if end.delay and time is not None:
        stop = min(back, events.first_after(time - end.delay))
    return max(events.kept_from, stop - end.rows)


class EarlyCursor(Cursor):
    """A cursor of a frame that ends before the newest event.

    It processes events only when the frame is requested, and after they were added to the log.
    """

    ends_early = True
    #: The number of events before the back of the log that the cursor has yet to reach.
    waiting = 0

    @property
    def taken(self) -> int:
        return self.back + self.waiting

    def place(self, front: int, back: int) -> None:
        super().place(front, back)
        self.waiting = 0

    def settle(self, time: int | None) -> None:
        """Move to the frame at a time; at most one page read per level.

        If the bounds have moved by a few events, the folds stay, at one combine per event.
        """
        events = self.events
        if events.kept_from == events.back:
            self.place(events.back, events.back)
            return
        view = Positions(lambda: events.back, events.first_after)
        front = max(self.frame.cut(view, time), self._start)
        back = max(stop_of(self.frame, events, events.back, time), front)
        self._fresh()
        self._move_to(front, back)
        self.waiting, self.floor = events.back - back, self.front

    def _move_to(self, front: int, back: int) -> None:
        self.waiting = _BEHIND  # until the caller knows the number
        is_near = self.front <= front < self.back <= back <= self.back + _NEAR
        if not (self._stack and is_near):
            if (front, back) != (self.front, self.back):
                self.place(front, back)
            return
        while self.back < back:
            leaf = self.events.leaf(self.back)
            stop = min(leaf.stop, back)
            rows = leaf.partials(self.back, stop, self.monoid)
            self._grow(self.monoid.fold(rows, stop - self.back))
            self.back = stop
        self.move(front)

    # --- batches --------------------------------------------------------------------------------

    def _run(self, chunk: Chunk, batch: Batch, start: int) -> None:
        starts, stops = self._bounds(chunk)
        count, empty = chunk.count, np.zeros(0, "i8")
        are_steady = isinstance(starts, range) and isinstance(stops, range)
        if starts[0 if are_steady else -1] >= stops[0]:
            empty = np.flatnonzero(as_array(starts, count) >= as_array(stops, count))
        if len(empty):
            starts = np.minimum(as_array(starts, count), as_array(stops, count) - 1)
        # Before the first retained event, no event can stand for an empty frame.
        done = count_below(stops, self.events.kept_from - chunk.first + 1)
        if done < count:
            self._run_frames(chunk, starts[done:], stops[done:], batch, start + done)
        if len(empty):
            outputs, back = self.monoid.outputs, chunk.first + int(stops[-1])
            outputs.put_at(batch.results, empty + start, empties(self.monoid, len(empty)))
            if empty[-1] == count - 1:
                self.place(back, back)
        self.waiting = chunk.stop - self.back

    def _bounds(self, chunk: Chunk) -> tuple[EachFront, EachFront]:
        """Return where the frame of each event of a chunk starts, and where it stops.

        Positions count from the chunk's first event. An empty frame may stop before its start.
        """
        events, frame, times, count = self.events, self.frame, chunk.times, chunk.count
        front, oldest, lifetime = events.kept_from, events.kept_from - chunk.first, frame.lifetime
        if times is not None and lifetime is not None:
            front = events.first_after(int(times[0]) - lifetime)
        search = self._search(min(front, chunk.first), chunk)
        cuts = frame.cuts(search, 0, times, count)
        starts = not_before(self._oldest - chunk.first, cuts, count)
        stops: Fronts = range(1 - frame.end.rows, count + 1 - frame.end.rows)
        if frame.end.delay:
            assert times is not None
            stops = search.first_after_each(times, frame.end.delay)
        return starts, not_before(oldest, stops, count)

    def _run_frames(
        self, chunk: Chunk, starts: EachFront, stops: EachFront, batch: Batch, start: int
    ) -> None:
        count, half = len(stops), len(stops) // 2
        first, stop, last = int(starts[0]), int(stops[0]), int(stops[-1])
        if half and last - stop > max(_MOST, 4 * count):
            self._run_frames(chunk, starts[:half], stops[:half], batch, start)
            self._run_frames(chunk, starts[half:], stops[half:], batch, start + half)
            return
        if self.monoid.folds_ranges and stop - first <= count * ANSWERED:
            self._run_ranges(chunk, starts, stops, batch, start)
            return
        begin, end = chunk.first + min(stop, 0), chunk.first + last
        self._move_to(min(chunk.first + first, begin), begin)
        self.waiting = _BEHIND  # until the run is finished
        if begin == chunk.first:
            sliding = chunk.sliding
        else:
            lifted = chunk.lifted(begin, end, self.events.leaf)
            sliding = SlidingFolds(self.monoid, lifted, end - begin)
        starts, stops = (moved(bounds, chunk.first - begin) for bounds in (starts, stops))
        self._run_over(Entering(begin, sliding, iter([starts]), stops), batch, start)

    # --- single events --------------------------------------------------------------------------

    def for_singles(
        self, most: int, room: int, timed: bool, newest: Events | None
    ) -> Prefetched | None:
        return self.frame_ahead(most, room, timed) if len(self) else None

    def frame_ahead(self, most: int, room: int, timed: bool) -> Prefetched:
        """Return the data for single events of a non-empty frame, and the events it reaches next.

        For at most ``most`` events, including the waiting ones, and at most ``room`` new ones. At
        most one page read per level, and one for each leaf of waiting events.
        """
        events, monoid, end = self.events, self.monoid, self.frame.end
        stop = min(events.back, self.back + max(most // 2, 1))
        leaves = leaves_from(events, self.back, monoid.inputs, stop)
        waiting = events_in(leaves, monoid.inputs, timed)
        self.compute_folds()
        found = self.prefetched(most)
        if timed:
            if not len(found.leaving):
                self.look_at_leaf()
                found = self.prefetched(most)
            found = found.cut(len(found.leaving), monoid)
        lag = Lag(end.delay, end.rows, waiting, self.back + waiting.size == events.back)
        found = found.beside(monoid.identity, min(room, most - waiting.size))
        return found._replace(lag=lag, turns=False)

    def sync(self, count: int, gone: int, grown: Partial | None, late: int | None = None) -> None:
        """Process the ``count`` events that the frame has reached; see ``Cursor.sync``.

        Without G, or if positions have changed, the cursor must be placed again.
        """
        if grown is None or late is not None:
            self.place(self.front, self.front)
            return
        super().sync(count, gone, grown)
        self.waiting = self.events.back - self.back


def cursor_of(setting: Setting, events: OrderedEvents, kind: type[Cursor] = Cursor) -> Cursor:
    """Return the cursor of a single window, of this kind if it ends with the newest event."""
    frame = setting.frame
    lenses = lenses_of_frame(setting.monoid, frame)
    kind = kind if frame.end == NEWEST else EarlyCursor
    return kind(setting.monoid, frame, events, lenses)
