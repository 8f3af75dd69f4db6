"""Frames that end before the newest event: range folds of the log, for one or for many at once.

    log        ... a b c d e f g h i j | k l m ...       k: the first event of a chunk
    frames         [a       g]
                     [b       h]
                         [d     i]

    result  =  a..d from its start on  (x)  d..g  (x)  h..i up to its end

Both bounds only move on. So what frames have in common is one range fold (O(log n) combines), and
beside it are the suffix folds of what leaves and the prefix folds of what comes: two whole-group
combines per event that passes a bound, and two per result, whatever the length of the frames.
Events that lie before a chunk are read from the log, leaf by leaf; those of the chunk need not be
in the log yet.
"""

from __future__ import annotations

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.fronts import Fronts, as_array
from mta.folds.sliding import SlidingFolds
from mta.frames.base import AbstractPolicy
from mta.logs.base import OrderedEvents, Remembered
from mta.logs.leaves import Chunk
from mta.monoids.base import AbstractMonoid, empties

#: Where bounds pass over more events than this at once, results are computed in halves.
_MOST = 1 << 18


def stop_of(policy: AbstractPolicy, events: Remembered, back: int, time: int | None) -> int:
    """The position after the last event of the frame at a time, with all events before a back.

    At most a page read a level.
    """
    end, stop = policy.end, back
    if end.delay and time is not None:
        stop = min(back, events.first_after(time - end.delay))
    return max(events.kept_from, stop - end.rows)


def frame_results(
    monoid: AbstractMonoid, policy: AbstractPolicy, events: OrderedEvents, chunk: Chunk
) -> tuple[Rows, int]:
    """The result of the frame of each event of a chunk, and where the last frame starts.

    Of a policy that is ``predictable``. Events before the chunk must be in the log. About four
    whole-group combines per event, O(log n) combines, and a page read per leaf that a bound passes.
    """
    seen = _Seen(monoid, events, chunk)
    starts, stops = seen.bounds(policy)
    out = empties(monoid, chunk.count)
    some = np.flatnonzero(starts < stops)
    if len(some):
        seen.put(out, some, starts[some], stops[some])
    return out, int(starts[-1])


class _Seen:
    """Stored events up to a chunk, and those of the chunk; what a policy may search there."""

    def __init__(self, monoid: AbstractMonoid, events: OrderedEvents, chunk: Chunk) -> None:
        self.monoid, self.events, self.chunk = monoid, events, chunk

    def bounds(self, policy: AbstractPolicy) -> tuple[np.ndarray, np.ndarray]:
        """Where the frame of each event of the chunk starts, and the position after its last."""
        chunk, end, kept = self.chunk, policy.end, self.events.kept_from
        cuts = policy.cuts(self, chunk.first, chunk.times, chunk.count)
        if end.delay:
            assert chunk.times is not None
            stops = self._after(chunk.times - end.delay)
        else:
            stops = np.arange(chunk.first + 1, chunk.stop + 1) - end.rows
        stops = np.maximum(stops, kept)
        return np.minimum(np.maximum(as_array(cuts, chunk.count), kept), stops), stops

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts:
        """The position of the oldest event that is less than ``age`` old at each of some times."""
        return self._after(times - age)

    def _after(self, times: np.ndarray) -> np.ndarray:
        """The position of the oldest event later than each of some times, which never decrease."""
        chunk, events, done = self.chunk, self.events, 0
        assert chunk.times is not None
        found = chunk.first + chunk.times.searchsorted(times, side="right")
        stored = int(times.searchsorted(chunk.times[0]))  # the others are later than what is stored
        while done < stored:
            position = found[done] = min(events.first_after(int(times[done])), chunk.first)
            if position == chunk.first:
                found[done:stored] = position
                break
            leaf = events.leaf(int(position))
            assert leaf.times is not None
            end = min(max(done + 1, int(times.searchsorted(leaf.times[-1]))), stored)
            some = leaf.first + leaf.times.searchsorted(times[done + 1 : end], side="right")
            found[done + 1 : end] = np.minimum(some, chunk.first)
            done = end
        return found

    def put(self, out: Rows, places: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> None:
        """Write the results of frames, none of them empty, at some places of outputs."""
        monoid, first, last = self.monoid, int(starts[0]), int(stops[-1])
        low, high = int(starts[-1]), min(int(stops[0]), self.chunk.first)
        size, half = len(starts), len(starts) // 2
        if half and low - first + last - max(low, high) > max(_MOST, 4 * size):
            self.put(out, places[:half], starts[:half], stops[:half])
            self.put(out, places[half:], starts[half:], stops[half:])
            return
        if low >= high or monoid.folds_ranges:
            rows = SlidingFolds(monoid, self._lifted(first, last), last - first)
            folds = rows.between(starts - first, stops - first)
        else:
            shared, schema = self.events.fold(low, high), monoid.partials
            lefts = monoid.suffixes(self._lifted(first, low), low - first, shared)
            folds = schema.take(lefts, starts - first)
            if last > high:
                new = self._lifted(high, last)
                rights = schema.new(last - high + 1)
                schema.put(rights, 0, monoid.identity)
                schema.put_many(rights, 1, monoid.prefixes(new, last - high, monoid.identity))
                folds = monoid.combine_rows(folds, schema.take(rights, stops - high), size)
        monoid.outputs.put_at(out, places, monoid.lower_rows(folds))

    def _lifted(self, start: int, stop: int) -> Rows:
        """The events of some positions as partials; a page read a leaf."""
        monoid, chunk, at = self.monoid, self.chunk, start
        rows = monoid.partials.new(stop - start)
        while at < stop:
            leaf = chunk if at >= chunk.first else self.events.leaf(at).before(chunk.first, monoid)
            end = min(stop, leaf.stop)
            monoid.partials.put_many(rows, at - start, leaf.partials(at, end, monoid))
            at = end
        return rows
