"""Runs: the results of a window after each event of a chunk, as one vector expression.

    positions   ... [ . . f . . ) . . . . . . . . ) . . . . [ e0 e1 e2 ...
                      S[f]: from f to where it was folded     P: the chunk
                                                    G: events stored since then

    result after e_i  =  S[f_i] (x) G (x) P_i           where f_i is the front after e_i

``cursor`` has S and G. All windows share the prefix folds P of a chunk, which need not be stored
yet. If the front reaches the chunk (short windows), the chunk's events become the stack
(``folds.sliding``).

If a frame lags, the events that enter it are not those that arrive:

    log        ... a b c d e f g h i j | k l m ...       k: the first event of a chunk
    frames         [a       g]
                     [b       h]
                         [d     i]

    result  =  a..d from its start on  (x)  d..g  (x)  h..i up to its end

The stack has the folds of events that leave. Events that enter are read from the log, leaf by leaf,
up to the chunk. For a frame without events, a run folds the newest event before its end, and drops
the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from mta.columns.schemas import Rows
from mta.evaluators.cursor import Cursor
from mta.evaluators.observed import total_before
from mta.folds.blocks import rows_at
from mta.folds.sliding import (
    EachFront,
    Fronts,
    SlidingFolds,
    as_array,
    count_below,
    has_kernel,
    moved,
    not_before,
    sweep_into,
)
from mta.frames.base import Frame
from mta.kernels.native import Sweep
from mta.logs.base import Batch, Chunk, SearchedTimes
from mta.logs.ranges import Positions
from mta.monoids.base import Partial, empties

#: How many results are computed together, so that their fronts and folds fit the processor's cache.
_PIECE = 1 << 16
#: Late events are expected among this many newest events; a mark further back is replaced.
_RECENT, _FAR = 256, 1024
#: If the window has at most this many events per new event, range folds over all of them cost less
#: than suffix folds.
_ANSWERED = 24
#: If more events than this enter a frame that lags in one run, its results are computed in halves.
_MOST = 1 << 18


def results_of(cursor: Cursor, chunk: Chunk) -> Rows | None:
    """Return the result after each event of a chunk; None if the cuts are not predictable."""
    out = cursor.monoid.outputs.new(chunk.count)
    batch = Batch(cursor.monoid, chunk.rows, chunk.times, chunk.count, out)
    return out if run_into(cursor, chunk, batch, 0) else None


def run_into(cursor: Cursor, chunk: Chunk, batch: Batch, start: int) -> bool:
    """Write the results into a batch from ``start`` on; False if cuts are not predictable.

    Events before the chunk must be in the log. If the chunk does not follow the newest event
    that the cursor has processed, the frame determines the first window. If the run fails, the
    window is where it was, or behind.
    """
    if not cursor.frame.predictable:
        return False
    cursor.begin_run()
    previous = cursor.front, cursor.end
    if cursor.has_receded or chunk.first != cursor.back:
        previous = cursor.oldest, cursor.oldest
    run = LaggingChunkRun if cursor.frame.lags else ChunkRun
    try:
        run(cursor, chunk, batch).write(start)
    except Exception:
        cursor.place(*previous)  # the folds may be those of a later front
        raise
    return True


@dataclass(slots=True)
class Entering:
    """The events that enter a window during a run, and the bounds after each event of the run.

    Positions are counted from ``first``, the position of the oldest of these events.
    """

    first: int
    sliding: SlidingFolds
    fronts: Iterator[EachFront]
    """Consecutive pieces."""
    stops: EachFront
    turning: Sweep | None = None
    """The sweep of a kernel in progress, if its fronts are among these events."""
    total: Partial | None = None
    """The aggregate of the events before the last stop, if a kernel has computed it."""

    def upto(self, stop: int) -> Partial | None:
        """Return the aggregate of the first events; None without any."""
        if not stop:
            return None
        return self.sliding.monoid.partials.at(self.sliding.prefixes, stop - 1)


class ChunkRun:
    """The run of one window over a chunk, whose results go to a batch."""

    def __init__(self, cursor: Cursor, chunk: Chunk, batch: Batch) -> None:
        self.cursor, self.chunk, self.batch = cursor, chunk, batch
        self.monoid, self.has_kernel = cursor.monoid, has_kernel(cursor.monoid)

    def write(self, start: int) -> None:
        """Write the results into the batch from ``start`` on, and move the window."""
        count = self.chunk.count
        answers_ranges = self.monoid.folds_ranges and len(self.cursor) <= count * _ANSWERED
        entering = self._entering(_PIECE if self.has_kernel and not answers_ranges else count)
        if answers_ranges:
            self._write_ranges(next(entering.fronts), entering.stops, start)
        else:
            self._write_over(entering, start)

    def _write_ranges(self, fronts: EachFront, stops: EachFront, start: int) -> None:
        """Write the results as range folds over all events of the windows."""
        chunk, origin = self.chunk, self.chunk.first
        first, last = origin + int(fronts[0]), origin + int(stops[-1])
        lifted = chunk.lifted(first, last, self.cursor.events.leaf)
        sliding = SlidingFolds(self.monoid, lifted, last - first)
        fronts, stops = (moved(bounds, origin - first) for bounds in (fronts, stops))
        self.batch.put(start, sliding.between(fronts, stops))
        self.cursor.place(first + int(fronts[-1]), last)

    def _write_over(self, entering: Entering, start: int) -> None:
        """Write the results by the folds of the stack and of the events that enter."""
        monoid, right = self.monoid, None
        if self.has_kernel:
            right = monoid.identity_row
        for done, fronts, is_stored in self._stretches(entering):
            at, end, found = start + done, done + len(fronts), None
            if self.has_kernel and (right is not None or not is_stored):
                found = self._sweep(entering, done, fronts, right if is_stored else None, at)
            if is_stored:
                right = None if found is None else found.right
            else:
                entering.turning = found
            if found is None:
                self.batch.put(at, self._folds(entering, done, fronts, is_stored))
            elif end == len(entering.stops) and is_stored:
                entering.total = monoid.partials.at(found.right, 0)

    # --- what enters, and the bounds ------------------------------------------------------------

    def _entering(self, most: int) -> Entering:
        """Return the events of the chunk as they enter a window that includes the newest event."""
        cursor, chunk = self.cursor, self.chunk
        oldest = cursor.oldest
        has_receded = cursor.has_receded and oldest < cursor.end and not cursor.frame.merges
        if has_receded:
            cursor.advance(chunk.first)
        elif cursor.has_receded or chunk.first != cursor.end:
            self._place_before()
        cursor.front = max(cursor.front, oldest)  # events may have expired by time alone
        fronts = self._fronts(most)
        if has_receded and oldest < cursor.front:
            first = next(fronts)
            fronts = chain([first], fronts)
            if cursor.front >= chunk.first + int(first[0]):
                self._place_before()  # the first window may start before the folds S
                fronts = self._fronts(most)
        return Entering(chunk.first, chunk.sliding, fronts, range(1, chunk.count + 1))

    def _place_before(self) -> None:
        """Place the window before the chunk, with the first event's front or an earlier one."""
        cursor, chunk = self.cursor, self.chunk
        total = total_before(cursor.events, chunk.first, cursor.lens)
        view = Positions(lambda: chunk.first, cursor.events.first_after, total)
        front = cursor.frame.cut(view, None if chunk.times is None else int(chunk.times[0]))
        cursor.place(max(cursor.oldest, min(front, chunk.first)), chunk.first)

    def _fronts(self, most: int) -> Iterator[EachFront]:
        """Yield the front after each event, counted from the chunk's first; ``most`` together."""
        chunk = self.chunk
        search = self._search(self.cursor.front)
        for at in range(0, chunk.count, most):
            times = None if chunk.times is None else chunk.times[at : at + most]
            count = min(most, chunk.count - at)
            cuts = self.cursor.frame.cuts(search, at, times, count)
            fronts = not_before(search.front - chunk.first, cuts, count)
            yield fronts
            search.front = chunk.first + int(fronts[-1])

    def _search(self, front: int) -> SearchedTimes:
        cursor, chunk, back = self.cursor, self.chunk, self.chunk.first
        own, leaf = cursor.frame, cursor.leaf

        def session(frame: Frame) -> int:
            """Return the start of the session; the window's front, unless the window is longer."""
            if frame is own:
                return front
            total = total_before(cursor.events, back, cursor.lens)
            return frame.cut(Positions(lambda: back, cursor.events.first_after, total), None)

        return SearchedTimes(
            front, chunk, lambda at, until: leaf(at, back, until=until), cursor.events, session
        )

    # --- pieces of a run ------------------------------------------------------------------------

    def _stretches(self, entering: Entering) -> Iterator[tuple[int, EachFront, bool]]:
        """Yield each piece's start, its fronts, and whether these are in the log and have S."""
        back, at, last = entering.first, 0, 0
        for fronts in entering.fronts:
            stored, done = count_below(fronts, 0), 0
            while done < stored:
                end = self.cursor.compute_folds_at(fronts, done, stored, back)
                yield at + done, fronts[done:end], True
                done = end
            if stored < len(fronts):
                yield at + stored, fronts[stored:], False
            at, last = at + len(fronts), int(fronts[-1])
        self.cursor.move(back + last)
        self._have(entering)

    def _have(self, entering: Entering) -> None:
        """Add the events that have entered to the stack, once the front has moved."""
        cursor, previous, count = self.cursor, entering.first, int(entering.stops[-1])
        cursor.end = cursor.back = previous + count
        if cursor.front >= previous:
            cursor.stack.clear()
        elif cursor.stack:
            top = cursor.stack[-1]
            at = max(0, count - _RECENT) if entering.total is None else 0
            if count - at >= _RECENT or previous + at - top.mark > _FAR:
                top.mark, top.before = previous + at, cursor.joined(top.since, entering.upto(at))
            cursor.grow(entering.upto(count) if entering.total is None else entering.total)

    def _folds(self, entering: Entering, done: int, fronts: EachFront, is_stored: bool) -> Rows:
        """Return the aggregates after the events of a piece of a run."""
        sliding, stops = entering.sliding, entering.stops[done : done + len(fronts)]
        if not is_stored:
            return sliding.between(fronts, stops)
        monoid, top, count = self.monoid, self.cursor.stack[-1], len(fronts)
        folds = rows_at(monoid, top.rows, fronts, top.start - entering.first)
        if (behind := self.cursor.joined(top.right, top.since)) is not None:
            folds = monoid.combine_rows(folds, monoid.partials.one(behind), count)
        return monoid.combine_rows(folds, sliding.upto(stops), count)

    def _sweep(
        self, entering: Entering, done: int, fronts: EachFront, right: Rows | None, at: int
    ) -> Sweep | None:
        """Write the results of a piece with a kernel; return its progress, None without a kernel.

        If the fronts are in the log, ``right`` is the fold of the earlier entering events.
        Otherwise the fronts are among these events, which become the stack.
        """
        monoid, schema, count = self.monoid, self.monoid.partials, len(fronts)
        first, last, lifted = int(fronts[0]), int(fronts[-1]), entering.sliding.lifted
        stops = entering.stops[done : done + count]
        entered = int(entering.stops[done - 1]) if done else 0
        if entering.turning is not None:
            sweep = entering.turning._replace(first=entered, fronts=fronts, stops=stops)
        elif right is None:
            one = monoid.identity_row
            sweep = Sweep(lifted, one, 0, 0, int(stops[0]) - 1, fronts, stops, one, turns=True)
        else:
            top = self.cursor.stack[-1]
            origin = top.start - entering.first
            stack = schema.cut(top.rows, first - origin, last + 1 - origin)
            if (behind := self.cursor.joined(top.right, top.since)) is not None:
                stack = monoid.combine_rows(stack, schema.one(behind), last + 1 - first)
            if stops[0] == entered:  # the first frame has no new event
                stops = as_array(stops, count)
            sweep = Sweep(lifted, stack, first, last, entered, fronts, stops, right)
        if monoid.kernel_lowers:
            out = monoid.outputs.cut(self.batch.results, at, at + count)
            return sweep_into(sweep, monoid, out, lowered=True)
        out = schema.new(count)
        found = sweep_into(sweep, monoid, out, lowered=False)
        if found is not None:
            self.batch.put(at, out)
        return found


class LaggingChunkRun(ChunkRun):
    """The run of a window whose frame lags: both of its bounds move over stored events."""

    def write(self, start: int) -> None:
        cursor, chunk, monoid = self.cursor, self.chunk, self.monoid
        starts, stops = self._bounds()
        count, empty = chunk.count, np.zeros(0, "i8")
        are_steady = isinstance(starts, range) and isinstance(stops, range)
        if starts[0 if are_steady else -1] >= stops[0]:
            empty = np.flatnonzero(as_array(starts, count) >= as_array(stops, count))
        if len(empty):
            starts = np.minimum(as_array(starts, count), as_array(stops, count) - 1)
        # Before the first retained event, no event can stand for an empty frame.
        done = count_below(stops, cursor.events.kept_from - chunk.first + 1)
        if done < count:
            self._write_frames(starts[done:], stops[done:], start + done)
        if len(empty):
            end = chunk.first + int(stops[-1])
            monoid.outputs.put_at(self.batch.results, empty + start, empties(monoid, len(empty)))
            if empty[-1] == count - 1:
                cursor.place(end, end)
        cursor.back = chunk.stop

    def _bounds(self) -> tuple[EachFront, EachFront]:
        """Return where the frame of each event of the chunk starts, and where it stops.

        Positions count from the chunk's first event. An empty frame may stop before its start.
        """
        cursor, chunk, frame = self.cursor, self.chunk, self.cursor.frame
        times, count, lifetime = chunk.times, chunk.count, frame.lifetime
        front, oldest = cursor.events.kept_from, cursor.events.kept_from - chunk.first
        if times is not None and lifetime is not None:
            front = cursor.events.first_after(int(times[0]) - lifetime)
        search = self._search(min(front, chunk.first))
        cuts = frame.cuts(search, 0, times, count)
        starts = not_before(cursor.oldest - chunk.first, cuts, count)
        stops: Fronts = range(1 - frame.end.rows, count + 1 - frame.end.rows)
        if frame.end.delay:
            assert times is not None
            stops = search.first_after_each(times, frame.end.delay)
        return starts, not_before(oldest, stops, count)

    def _write_frames(self, starts: EachFront, stops: EachFront, start: int) -> None:
        """Write the results of frames with these bounds, of which none is empty."""
        cursor, chunk = self.cursor, self.chunk
        count, half = len(stops), len(stops) // 2
        first, stop, last = int(starts[0]), int(stops[0]), int(stops[-1])
        if half and last - stop > max(_MOST, 4 * count):
            self._write_frames(starts[:half], stops[:half], start)
            self._write_frames(starts[half:], stops[half:], start + half)
            return
        if self.monoid.folds_ranges and stop - first <= count * _ANSWERED:
            self._write_ranges(starts, stops, start)
            return
        begin, end = chunk.first + min(stop, 0), chunk.first + last
        cursor.reach(min(chunk.first + first, begin), begin)
        cursor.back = -1  # unknown until the run is finished
        if begin == chunk.first:
            sliding = chunk.sliding
        else:
            lifted = chunk.lifted(begin, end, cursor.events.leaf)
            sliding = SlidingFolds(self.monoid, lifted, end - begin)
        starts, stops = (moved(bounds, chunk.first - begin) for bounds in (starts, stops))
        self._write_over(Entering(begin, sliding, iter([starts]), stops), start)
