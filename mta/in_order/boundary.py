"""SBA and PBA, with their common slices, chunks, and csa and lcs buffers.

KDD 2021 paper ("Efficient Incremental Computation of Aggregations over Sliding Windows", Zhang,
Akbarinia, Toumani), section 4. A stream is cut into *slices* that are as long as the slide of the
window. ``chunk_size`` slices are a *chunk*, which starts at a *boundary*. The result of a window of
any size that starts with slice j of its first chunk is

    lcs[j] of the first chunk  +  ca of those between  +  csa of the current chunk

- ``saa``: the aggregates of the slices of a chunk;
- ``csa``: the aggregate since the last boundary; as in the paper, only the newest entry is stored;
- ``ca``: the aggregate of a whole chunk, which is its last csa;
- ``lcs``: the aggregates of a finished chunk from each slice to the chunk's end.

Figure 2 shows Max over the last 10 values with a slide of 2 and five slices per chunk, at the
boundary b1:

    values   5 4 6 3 0 0 1 0 2 3 | 1 2 ...       w0 = ca of chunk 0          = 6
    saa      5   6   0   1   3   | 2             w1 = max(lcs[1], csa = 2)   = 6
    lcs      6   6   3   3   3   |               (its entry 0 is the ca)

With the chunk size of theorems 1 and 2, a slide takes 3 merges: 1 to add the slide's values to csa,
and 2 to combine at most three parts. Folding the s values of a slide before that takes s - 1
combines, and 1 more if windows end within slices. An lcs takes chunk_size - 2.

This differs from the paper in three ways. A query is possible before the window is full and between
window ends, over the values so far. Slices may be evicted early, which starts a new chunk early if
the window would be within one chunk. Slices without values take no combine.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from fractions import Fraction
from functools import cache, partial
from itertools import accumulate, islice, repeat
from typing import Any, Self

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EmptyWindow, InvalidTime, LateEvent
from mta.in_order.base import _UNKNOWN, InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial
from mta.times import MICROSECONDS, Duration, to_duration, to_time

#: Stands for the aggregate of no values, which is never combined.
_NOTHING: Any = object()


class RangeChunk:
    """A finished chunk: its first slice, the slice after its last, its aggregate ca, and its lcs.

    Entry j of lcs is the aggregate of its slices j, j + 1, ...; entry 0 is the ca.
    """

    def __init__(
        self, monoid: AbstractMonoid, start: int, stop: int, ca: Partial, saa: Rows
    ) -> None:
        self.start, self.stop, self.ca = start, stop, ca
        self._monoid, self._saa = monoid, saa
        self._lcs: Rows = None

    def compute(self) -> None:
        """Fold the slices from the last to the second; chunk_size - 2 combines."""
        last = self.stop - self.start - 1
        if last:
            monoid, schema = self._monoid, self._monoid.partials
            inner = schema.cut(self._saa, 1, last)
            self._lcs = monoid.suffixes(inner, last - 1, schema.at(self._saa, last))
        self._saa = None

    def wait(self) -> None:
        """Return once lcs is computed."""

    def lcs(self, slot: int) -> Partial:
        """Return the aggregate from a slice to the chunk's end."""
        if not slot:
            return self.ca
        self.wait()
        return self._monoid.partials.at(self._lcs, slot - 1)

    def cut(self, slot: int, count: int) -> Rows:
        """Return ``count`` entries of lcs from ``slot`` on, where ``slot`` > 0."""
        self.wait()
        return self._monoid.partials.cut(self._lcs, slot - 1, slot - 1 + count)


class Sizes:
    """The number of values in each slice, the oldest first; a run of equal sizes is one entry.

    >>> sizes = Sizes()
    >>> sizes.push(2, times=1000)
    >>> sizes.push(0)
    >>> sizes.pop(), len(sizes), sizes.runs()
    (2, 1000, [(2, 999), (0, 1)])
    """

    def __init__(self) -> None:
        self._runs: deque[list[int]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, size: int, times: int = 1) -> None:
        self._count += times
        if self._runs and self._runs[-1][0] == size:
            self._runs[-1][1] += times
        else:
            self._runs.append([size, times])

    def pop(self, times: int = 1) -> int:
        """Remove the first ``times`` slices, which must exist; return the sum of their sizes."""
        self._count -= times
        total = 0
        while times:
            run = self._runs[0]
            taken = min(times, run[1])
            total += taken * run[0]
            times -= taken
            run[1] -= taken
            if not run[1]:
                self._runs.popleft()
        return total

    def runs(self) -> list[tuple[int, int]]:
        """Return each size, and the number of consecutive slices with it."""
        return [(size, times) for size, times in self._runs]


class BoundaryAggregator(InOrderAggregator):
    """A window of the last ``range`` values that slides by ``slide`` values at a time.

    When a value arrives at a full window, the ``slide`` oldest values leave. ``timed`` creates a
    window over time. ``chunk_size`` is in slices, and optimal by default. Raises ValueError.
    """

    def __init__(
        self, monoid: AbstractMonoid, range: int, slide: int = 1, *, chunk_size: int | None = None
    ) -> None:
        super().__init__(monoid)
        if not 1 <= slide <= range:
            raise ValueError(f"a slide must be from 1 to the range {range}, not {slide}")
        best = count_chunk_size(range, slide)
        self._begin(range, slide, best if chunk_size is None else chunk_size, timed=False)

    @classmethod
    def timed(
        cls,
        monoid: AbstractMonoid,
        range: float | Duration,
        slide: float | Duration,
        *,
        combine_time: float = 1e-6,
        chunk_size: int | None = None,
    ) -> Self:
        """Return a window over time with slides aligned to 1970; durations as in ``TimeWindow``.

        ``combine_time`` is the approximate time of a combine in seconds, on which the optimal chunk
        size depends. Values are inserted with their times.
        """
        length, step = to_duration(range), to_duration(slide)
        if step > length:
            raise ValueError(f"a slide must not be longer than the range {range!r}, not {slide!r}")
        best = time_chunk_size(length, step, combine_time * MICROSECONDS)
        window = cls(monoid, max(length // step, 1))
        window._begin(length, step, best if chunk_size is None else chunk_size, timed=True)
        return window

    def _begin(self, range: int, slide: int, chunk_size: int, *, timed: bool) -> None:
        """Start with an empty window; range and slide are in values or microseconds."""
        if not 1 <= chunk_size <= range // slide:
            raise ValueError(
                f"a chunk has from 1 to the {range // slide} slices of a window, not {chunk_size}"
            )
        self.range, self.slide, self.chunk_size, self.is_timed = range, slide, chunk_size, timed
        #: The position of the newest value: its number, or its time.
        self._now: int | None = None
        self._restart(0)

    def _restart(self, index: int) -> None:
        """Discard all values; slice number ``index`` is the next to fill."""
        #: The oldest slice of the window, and the slice that is being filled.
        self._front = self._current = index
        self._chunks: deque[RangeChunk] = deque()
        #: The number of values in each finished slice, in the current one, and in the window.
        self._sizes = Sizes()
        self._filled = self._size = 0
        #: The aggregates of the values since the last query or end of a slice; of the earlier
        #: values of the current slice; and of those of the current chunk that are not in csa yet.
        self._newest = self._slice = self._waiting = _NOTHING
        self._csa = _NOTHING
        self._start_chunk()

    def _start_chunk(self) -> None:
        self._start, self._saa = self._current, self.monoid.partials.new(self.chunk_size)

    # --- the interface --------------------------------------------------------------------------

    @property
    def ends(self) -> bool:
        """Return whether a window ends with the newest value, or at the last given time."""
        return self._now is not None and self._next_end(self._now) == self._now + 1

    def insert(self, value: Any, time: Any = None) -> None:
        """Add a value, and evict slices that leave; amortized 1 combine, and 1 for lcs.

        Raises InvalidValue, and for a window over time also InvalidTime and LateEvent.
        """
        with self._quietly():
            v = self.monoid.lift(self.monoid.row(value))
            self._advance(self._position(time))
            self._insert(v)

    def advance(self, time: Any) -> None:
        """Advance the time without a value; a window [a, a + range) ends before a + range."""
        if not self.is_timed:
            raise InvalidTime("a window over a count of values has no time")
        with self._quietly():
            self._advance(self._position(time))

    def evict(self) -> None:
        """Remove the oldest slice with values. Raises EmptyWindow."""
        if not self._size:
            raise EmptyWindow("cannot evict from a window without values")
        with self._quietly():
            self._evict()

    def instances(
        self, values: Iterable[Any], times: Iterable[Any] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Insert values; yield the end and the result of each window that ends.

        The end is the number of values so far, or a time in microseconds; the paper's window w_i is
        [end - range, end). Over time, windows without values are omitted, and the result of a
        window is yielded when the first value after its end arrives.
        """
        given = zip(values, repeat(None) if times is None else times, strict=times is not None)
        for value, time in given:
            if self.is_timed and self._now is not None:
                end, stop = self._next_end(self._now), self._position(time)
                while self._size and end <= stop:
                    with self._quietly():
                        self._advance(end - 1)
                    if self._size:
                        yield end, self.query()
                    end += self.slide
            self.insert(value, time)
            if not self.is_timed and self.ends:
                assert self._now is not None
                yield self._now + 1, self.query()

    def extend(self, values: Any) -> Any:
        """Insert a batch of values; return the results of the windows that end, as a column.

        With a slide of 1, this takes about three vector expressions per chunk.
        """
        if self.is_timed:
            raise InvalidTime("a window over time needs the time of each value; use instances")
        monoid, filled = self.monoid, []
        rows, count = monoid.rows(values)
        with np.errstate(all="ignore"):
            at = 0
            while at < count:
                run = min(self._run_length(), count - at)
                if run:
                    found = self._run(monoid.inputs.cut(rows, at, at + run), run)
                else:
                    found, run = self._step(monoid.inputs.at(rows, at)), 1
                at += run
                filled += found
            sizes = [size for _, size in filled]
            results = monoid.outputs.new(sum(sizes))
            for (partials, size), end in zip(filled, accumulate(sizes), strict=True):
                monoid.outputs.put_many(results, end - size, monoid.lower_rows(partials))
        return monoid.results(results)

    # --- whole runs of values -------------------------------------------------------------------

    def _step(self, row: Row) -> list[tuple[Rows, int]]:
        """Insert one value; return the partial of the window that ends with it, if any."""
        self._advance(self._position(None))
        self._insert(self.monoid.lift(row))
        return [(self.monoid.partials.one(self._query()), 1)] if self.ends else []

    def _run_length(self) -> int:
        """Return how many values fit into the first and current chunk; 0 to insert one alone."""
        if self.slide != 1 or self._now is None or not self._filled:
            return 0
        room = self._start + self.chunk_size - 1 - self._current
        if self._now + 1 < self.range:
            return min(room, self.range - self._now - 2)  # up to the value that fills the window
        if self._size < self.range or not self._chunks:
            return 0
        return min(room, self._chunks[0].stop - 1 - self._front)

    def _run(self, rows: Rows, count: int) -> list[tuple[Rows, int]]:
        """Insert values with a slide of 1; return the partials of the windows that end."""
        monoid, schema = self.monoid, self.monoid.partials
        assert self._now is not None
        self._known = _UNKNOWN
        lifted = monoid.lift_rows(rows, count)
        self._bring_to_csa()
        slot = self._current - self._start
        schema.put(self._saa, slot, self._slice)
        schema.put_many(self._saa, slot + 1, lifted)
        csa = monoid.prefixes(lifted, count, self._csa)
        self._csa, self._slice = schema.at(csa, count - 1), schema.at(lifted, count - 1)
        self._now += count
        self._current += count
        self._sizes.push(1, count)
        if self._now + 1 < self.range:
            self._size += count
            return []
        first, *between = self._chunks
        lcs = first.cut(self._front + 1 - first.start, count)
        for chunk in between:
            lcs = monoid.combine_rows(lcs, schema.one(chunk.ca), count)
        self._front += count
        self._sizes.pop(count)
        return [(monoid.combine_rows(lcs, csa, count), count)]

    # --- the stream -----------------------------------------------------------------------------

    def _position(self, time: Any) -> int:
        if not self.is_timed:
            if time is not None:
                raise InvalidTime("a window over a count of values takes no times")
            return 0 if self._now is None else self._now + 1
        if time is None:
            raise InvalidTime("a window over time needs the time of each value")
        position = to_time(time)
        if self._now is not None and position < self._now:
            raise LateEvent(f"{time!r} is before the window's newest value; sort the values")
        return position

    def _next_end(self, now: int) -> int:
        """Return the first end of a window after ``now``."""
        first = now + 1 if self.is_timed else max(now + 1, self.range)
        return first + (self.range - first) % self.slide

    def _advance(self, position: int) -> None:
        """Finish the slices before a position, and drop those before the window that ends there."""
        self._known = _UNKNOWN
        current = position // self.slide
        front = (position - self.range) // self.slide + 1
        if self._now is None or front > self._current:
            self._restart(current)
        self._now = position
        while self._current < current:
            self._end_slice()
        while self._front < front:
            self._drop_slice()

    def _insert(self, v: Partial) -> None:
        self._newest = self._join(self._newest, v)
        self._filled += 1
        self._size += 1

    def _evict(self) -> None:
        self._known, size = _UNKNOWN, self._size
        while self._size == size:
            if self._sizes:
                self._drop_slice()
            else:
                self._restart(self._current)

    def _end_slice(self) -> None:
        """Add the current slice to saa, and end a full chunk; a combine only after a query."""
        self._settle()
        done = self.monoid.identity if self._slice is _NOTHING else self._slice
        self.monoid.partials.put(self._saa, self._current - self._start, done)
        self._sizes.push(self._filled)
        self._filled, self._slice = 0, _NOTHING
        self._current += 1
        if self._current - self._start == self.chunk_size:
            ca = self._join(self._csa, self._waiting)
            self._end_chunk(self.monoid.identity if ca is _NOTHING else ca)
            self._csa = self._waiting = _NOTHING

    def _settle(self) -> None:
        """Add the newest values to the current slice, and to the values that wait for csa."""
        if self._newest is not _NOTHING:
            self._slice = self._join(self._slice, self._newest)
            self._waiting = self._join(self._waiting, self._newest)
            self._newest = _NOTHING

    def _end_chunk(self, ca: Partial) -> None:
        """Create a boundary: the slices so far become a chunk, whose lcs is computed."""
        chunk = self._chunk(self.monoid, self._start, self._current, ca, self._saa)
        self._chunks.append(chunk)
        self._start_chunk()

    @abstractmethod
    def _chunk(self, *of: Any) -> RangeChunk:
        """Return a finished ``RangeChunk`` whose lcs is computed, now or by another thread."""

    def _drop_slice(self) -> None:
        self._front += 1
        self._size -= self._sizes.pop()
        if not self._chunks:
            self._draw_boundary()
        if self._chunks and self._front == self._chunks[0].stop:
            self._chunks.popleft()

    def _draw_boundary(self) -> None:
        """Create a boundary before the current slice, as the window is within one chunk."""
        self._settle()
        self._end_chunk(None)  # its first slice has left, so its aggregate is not needed
        self._csa, self._waiting = self._slice, _NOTHING

    # --- the result -----------------------------------------------------------------------------

    def _query(self) -> Partial:
        """Return lcs + ca + csa; at most 3 merges with the optimal chunk size, 1 per cut slice."""
        self._bring_to_csa()
        agg = _NOTHING
        if self._chunks:
            first = self._chunks[0]
            agg = first.lcs(self._front - first.start)
            for chunk in islice(self._chunks, 1, None):
                agg = self._join(agg, chunk.ca)
        return self._join(agg, self._csa)

    def _bring_to_csa(self) -> None:
        self._settle()
        self._csa = self._join(self._csa, self._waiting)
        self._waiting = _NOTHING

    def _join(self, left: Partial, right: Partial) -> Partial:
        if left is _NOTHING:
            return right
        return left if right is _NOTHING else self._combine(left, right)

    def check(self) -> None:
        """Check slices, chunks and sizes, and that csa is the fold of saa and newer values."""
        at = self._front
        for chunk in self._chunks:
            self._require(chunk.start <= at < chunk.stop, "chunks follow one another")
            self._require(chunk.stop - chunk.start <= self.chunk_size, "no chunk is too large")
            at = chunk.stop
        self._require(not self._chunks or at == self._start, "the current chunk is the last")
        self._require(self._start <= self._current < self._start + self.chunk_size, "it has room")
        values = sum(size * times for size, times in self._sizes.runs())
        self._require(len(self._sizes) == self._current - self._front, "a size for each slice")
        self._require(values + self._filled == self._size, "the sizes are the window's")
        row = self.monoid.partials.at
        slices = [row(self._saa, slot) for slot in range(self._current - self._start)]
        current = [p for p in (self._slice, self._newest) if p is not _NOTHING]
        parts = [p for p in (self._csa, self._waiting, self._newest) if p is not _NOTHING]
        self._require_exact(self._fold(parts).partial, self._fold([*slices, *current]), "csa")


class SBA(BoundaryAggregator):
    """The Sequential Boundary Aggregator (section 5.1): PBA in one thread; amortized O(1).

    At each boundary, the stream waits until lcs is computed. Combines per slide: 3 merges, and
    chunk_size - 2 at a boundary. Space: 3 * chunk_size + 2 partials, which is 3n/2 + 5 with a slide
    of 1; while lcs is computed, one more chunk. This is the example of Figure 2:

    >>> from mta import Monoid
    >>> window = SBA(Monoid(float("-inf"), max), 10, 2, chunk_size=5)
    >>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
    >>> list(window.instances(stream))
    [(10, 6), (12, 6), (14, 7), (16, 7), (18, 9), (20, 9)]
    """

    name = "Sequential Boundary Aggregator"

    def _chunk(self, *of: Any) -> RangeChunk:
        chunk = RangeChunk(*of)
        chunk.compute()
        return chunk


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the thread pool of a process (not of its parent), with up to one thread per core."""
    del process
    quietly = partial(np.seterr, all="ignore")  # numpy has a setting for warnings per thread
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="lcs", initializer=quietly)


class ParallelChunk(RangeChunk):
    """A chunk whose lcs is computed by another thread; reading lcs waits for it."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._process = os.getpid()
        self._computed = _threads(self._process).submit(self.compute)

    def wait(self) -> None:
        if self._lcs is None and self._process == os.getpid():
            wait([self._computed])
        if self._lcs is None:  # it failed, or this process was forked before
            self.compute()


class PBA(BoundaryAggregator):
    """The Parallel Boundary Aggregator (section 4); worst-case O(1) in the stream's thread.

    At a boundary, a thread starts to compute lcs of the finished chunk, while the stream continues
    with csa of the next chunk; the two are independent. With the optimal chunk size, lcs is ready
    when the first window needs it. Combines per slide: 3 merges in the stream's thread. Combines
    per chunk in the other thread: chunk_size - 2.

    Space: 3 * chunk_size + 2 partials, which is 3n/2 + 5 with a slide of 1; while lcs is computed,
    one more chunk. All windows share a pool of at most one thread per core, which starts at the
    first boundary and ends with the process.

    Threads run in parallel only inside numpy, which releases the interpreter's lock. So PBA is
    faster than SBA only for columnar monoids, and slower for a ``Monoid`` of Python functions.
    Chunks must be so large that folding takes longer than passing them to a thread: use ranges of
    at least about 2^12.

    >>> from mta import Max
    >>> window = PBA(Max(), 10, 2, chunk_size=5)
    >>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
    >>> [(end, float(result)) for end, result in window.instances(stream)][-3:]
    [(16, 7.0), (18, 9.0), (20, 9.0)]
    """

    name = "Parallel Boundary Aggregator"

    def _chunk(self, *of: Any) -> RangeChunk:
        return ParallelChunk(*of)


# --- the optimal chunk size (section 4.3) ---------------------------------------------------------

# Let q = ⌊r/s⌋ be the number of whole slices in a window. At a boundary, two tasks start: one folds
# the slices of the finished chunk from the last to the second (b - 2 combines until lcs[1] is
# ready), and the other continues with the stream until the end of the first window that needs
# lcs[1]. Until then, q + 1 - b more whole slices arrive, and the r mod s of another. The chunk is
# the largest for which the second task does not wait for the first. It is never larger than q,
# because a window must not be within one chunk:
#
# - by count, in units of combines: b - 2 <= (q + 1 - b) s - 1 + (r mod s). The first slice takes
#   s - 1 combines, and each later slice one more, to combine it with the csa;
# - by time, with T_u per combine: (b - 2) T_u <= (q + 1 - b) s + (q - b) T_u + C. For a slice that
#   the window's end cuts, C is (r mod s) + T_u. The printed C = "s(r mod s) + 1 T_u" has an extra
#   factor s, so it would not be a time.


def count_chunk_size(range: int, slide: int) -> int:
    """Return the slices per chunk for a window of values that slides by ``slide`` (theorem 1).

    >>> count_chunk_size(10, 2), count_chunk_size(16, 1), count_chunk_size(32, 1)
    (4, 9, 17)
    """
    q, rest = divmod(range, slide)
    if q <= slide + rest + 1:
        return q
    return (slide * (q + 1) + rest + 1) // (slide + 1)


def time_chunk_size(range: int, slide: int, combine_time: float | Fraction) -> int:
    """Return the slices per chunk for a window over time (theorem 2).

    ``combine_time`` is T_u, the time of a combine. All arguments have the same unit.
    """
    q, rest = divmod(range, slide)
    unit = Fraction(combine_time)
    cut = rest + unit if rest else Fraction(0)
    if unit == 0 or q <= (slide + 2 * unit + cut) / unit:
        return q
    return int((q * (slide + unit) + slide + 2 * unit + cut) // (slide + 2 * unit))
