"""Frames that end before the newest event: range folds of the log, for one or for many at once.

    log        ... a b c d e f g h i j | k l m ...       k: the first event of a chunk
    frames         [a       g]
                     [b       h]
                         [d     i]

    result  =  a..d from its start on  (x)  d..g  (x)  h..i up to its end

Both bounds only move forward. So the common part of frames is one range fold (O(log n) combines),
with the suffix folds of leaving events and the prefix folds of entering ones: two whole-group
combines per event that passes a bound, and two per result, for frames of any length. Events before
a chunk are read from the log, leaf by leaf; those of the chunk need not be in the log yet.

``cursor`` has the folds of events that a frame keeps from batch to batch, and needs this for the
others: where a batch is late, frames are empty, or a bound passes many events at once.
"""

from __future__ import annotations

import numpy as np

from mta.columns.schemas import Rows
from mta.evaluators.searched import SearchedTimes
from mta.folds.sliding import (
    EachFront,
    Fronts,
    SlidingFolds,
    as_array,
    has_kernel,
    kernel_lowers,
    not_before,
    sweep_into,
)
from mta.frames.base import AbstractPolicy
from mta.kernels.native import Sweep
from mta.logs.base import OrderedEvents, Remembered
from mta.logs.leaves import Chunk, Leaf
from mta.monoids.base import AbstractMonoid, empties

#: Frames of so many events are folded at once, so that the data stays in the processor's caches.
_PIECE = 1 << 15
#: If bounds pass more events than this at once, results are computed in halves.
MOST = 1 << 18


def stop_of(policy: AbstractPolicy, events: Remembered, back: int, time: int | None) -> int:
    """Return the position after the last event of the frame at a time, with events before a back.

    At most one page read per level.
    """
    end, stop = policy.end, back
    if end.delay and time is not None:
        stop = min(back, events.first_after(time - end.delay))
    return max(events.kept_from, stop - end.rows)


class Frames:
    """Stored events up to a chunk, and those of the chunk, as a policy searches them.

    ``near`` is a leaf in memory in which frames may start.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        events: OrderedEvents,
        chunk: Chunk,
        near: Leaf | None = None,
    ) -> None:
        self.monoid, self.events, self.chunk = monoid, events, chunk
        self.near = near if near is not None and near.stop <= chunk.first else None

    def bounds(self, policy: AbstractPolicy, kept: int) -> tuple[EachFront, EachFront]:
        """Return where the frame of each event of the chunk starts, and where it stops.

        Counted from the first event of the chunk. None starts before the position ``kept``. A frame
        without events may end before its start. The policy must be ``predictable``.
        """
        end, times, count = policy.end, self.chunk.times, self.chunk.count
        oldest = kept - self.chunk.first
        starts = not_before(oldest, policy.cuts(self, 0, times, count), count)
        if not end.delay:
            return starts, not_before(oldest, range(1 - end.rows, count + 1 - end.rows), count)
        assert times is not None
        return starts, not_before(oldest, self.first_after_each(times, end.delay), count)

    def results(self, starts: EachFront, stops: EachFront) -> Rows:
        """Return the result of each frame.

        Events before the chunk must be in the log. About four whole-group combines per event,
        O(log n) combines, and a page read per leaf that a bound passes.
        """
        monoid, chunk = self.monoid, self.chunk
        out = monoid.outputs.new(chunk.count)
        size = chunk.count if monoid.folds_ranges else _PIECE
        for done in range(0, chunk.count, size):
            end = min(done + size, chunk.count)
            firsts, lasts = (
                as_array(bounds[done:end], end - done) + chunk.first for bounds in (starts, stops)
            )
            has_events = firsts < lasts
            if has_events.all():
                self.put(out, range(done, end), firsts, lasts)
                continue
            monoid.outputs.put_many(out, done, empties(monoid, end - done))
            some = np.flatnonzero(has_events)
            if len(some):
                self.put(out, some + done, firsts[some], lasts[some])
        return out

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """Return the position of the oldest event less than ``age`` old at each of some times.

        The times never decrease. Positions are counted from the first event of the chunk.
        """
        events, chunk, monoid, near = self.events, self.chunk, self.monoid, self.near

        def leaf(position: int, until: int | None) -> Leaf:
            if near is not None and near.first <= position < near.stop:
                return near
            return events.leaf(position, until=until).before(chunk.first, monoid)

        oldest = int(times[0]) - age
        if near is not None and near.times is not None and near.times[0] <= oldest < near.times[-1]:
            front = near.first
        else:
            front = min(events.first_after(oldest), chunk.first)
        return SearchedTimes(front, events, chunk, leaf).first_after_each(times, age)

    def put(
        self, out: Rows, places: range | np.ndarray, starts: np.ndarray, stops: np.ndarray
    ) -> None:
        """Write the results of frames, none of them empty, to some places of outputs."""
        monoid, first, last = self.monoid, int(starts[0]), int(stops[-1])
        low, high = int(starts[-1]), min(int(stops[0]), self.chunk.first)
        size, half = len(starts), len(starts) // 2
        if half and low - first + last - max(low, high) > max(MOST, 4 * size):
            self.put(out, places[:half], starts[:half], stops[:half])
            self.put(out, places[half:], starts[half:], stops[half:])
            return
        if low >= high or monoid.folds_ranges:
            rows, one = self.lifted(first, last), monoid.partials.one(monoid.identity)
            starts, stops = starts - first, stops - first
            sweep = Sweep(rows, one, 0, 0, int(stops[0]) - 1, starts, stops, one, turns=True)
            results = self._swept(sweep, size)
            if results is None:
                folds = SlidingFolds(monoid, rows, last - first).between(starts, stops)
                results = monoid.lower_rows(folds)
        else:
            results = self._beside(starts, stops, low, high)
        if isinstance(places, range):
            monoid.outputs.put_many(out, places.start, results)
        else:
            monoid.outputs.put_at(out, places, results)

    def _beside(self, starts: np.ndarray, stops: np.ndarray, low: int, high: int) -> Rows:
        """Return the results of frames that share the events from ``low`` to ``high``."""
        monoid, schema, first, last = (
            self.monoid,
            self.monoid.partials,
            int(starts[0]),
            int(stops[-1]),
        )
        shared, new = self.events.fold(low, high), self.lifted(high, last)
        lefts = monoid.suffixes(self.lifted(first, low), low - first, shared)
        one, places = schema.one(monoid.identity), (starts - high, stops - high)
        results = self._swept(
            Sweep(new, lefts, first - high, low - high, 0, *places, one), len(stops)
        )
        if results is not None:
            return results
        rights = schema.new(last - high + 1)
        schema.put(rights, 0, monoid.identity)
        schema.put_many(rights, 1, monoid.prefixes(new, last - high, monoid.identity))
        folds = schema.take(lefts, starts - first)
        folds = monoid.combine_rows(folds, schema.take(rights, stops - high), len(stops))
        return monoid.lower_rows(folds)

    def _swept(self, sweep: Sweep, count: int) -> Rows | None:
        """Return results from a kernel, if there is one."""
        monoid = self.monoid
        if not has_kernel(monoid):
            return None
        lowers = kernel_lowers(monoid)
        out = (monoid.outputs if lowers else monoid.partials).new(count)
        if sweep_into(sweep, monoid, out, lowers) is None:
            return None
        return out if lowers else monoid.lower_rows(out)

    def lifted(self, start: int, stop: int) -> Rows:
        """Return the events of some positions as partials; one page read per leaf."""
        monoid, chunk, at = self.monoid, self.chunk, start
        if start >= chunk.first:
            return chunk.partials(start, stop, monoid)
        rows = monoid.partials.new(stop - start)
        while at < stop:
            leaf = chunk if at >= chunk.first else self.events.leaf(at).before(chunk.first, monoid)
            end = min(stop, leaf.stop)
            monoid.partials.put_many(rows, at - start, leaf.partials(at, end, monoid))
            at = end
        return rows
