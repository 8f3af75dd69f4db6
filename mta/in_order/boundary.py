"""SBA and PBA, and what they share: slices, chunks, and the csa and lcs buffers.

KDD 2021 paper ("Efficient Incremental Computation of Aggregations over Sliding Windows", Zhang,
Akbarinia, Toumani), section 4. A stream is cut into *slices* as long as the window slides, and
``chunk_size`` slices are a *chunk*, which begins at a *boundary*. A window that begins with slice j
of its first chunk is then, whatever its size,

    lcs[j] of the first chunk  +  ca of those between  +  csa of the current chunk

- ``saa``: the slice aggregations of a chunk;
- ``csa``: the aggregate from the last boundary on; the paper, too, keeps only the newest entry;
- ``ca``: the aggregate of a whole chunk, its last csa;
- ``lcs``: of a finished chunk, the aggregate from each slice to the chunk's end.

Figure 2, Max over the last 10 values by 2, five slices a chunk; at the boundary b1:

    values   5 4 6 3 0 0 1 0 2 3 | 1 2 ...       w0 = ca of chunk 0          = 6
    saa      5   6   0   1   3   | 2             w1 = max(lcs[1], csa = 2)   = 6
    lcs      6   6   3   3   3   |               (its entry 0 is the ca)

Merges a slide, with the chunk size of theorems 1 and 2: 1 to bring the slide's values into csa, and
2 to join at most three parts. To fold the s values of a slide takes s - 1 combines before that, and
1 more where windows end within slices. An lcs takes chunk_size - 2.

Where this departs from the paper: a window may also be asked before it is full and between window
ends, its result being that of the values so far; slices may be evicted early, which draws a
boundary early where the window would lie within one chunk; slices without values cost no combine.
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

#: The aggregate of no values, with which nothing needs to be combined.
_NOTHING: Any = object()


class Chunk:
    """A finished chunk: where it begins and ends in slices, its aggregate ca, and its lcs.

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
        """Return when lcs is there."""

    def lcs(self, slot: int) -> Partial:
        """The aggregate from a slice to the chunk's end."""
        if not slot:
            return self.ca
        self.wait()
        return self._monoid.partials.at(self._lcs, slot - 1)

    def cut(self, slot: int, count: int) -> Rows:
        """So many entries of lcs from ``slot`` on, which is not the first."""
        self.wait()
        return self._monoid.partials.cut(self._lcs, slot - 1, slot - 1 + count)


class Sizes:
    """How many values each slice has, the oldest first; a run of equal sizes is one entry.

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
        """Add slices of one size at the end."""
        self._count += times
        if self._runs and self._runs[-1][0] == size:
            self._runs[-1][1] += times
        else:
            self._runs.append([size, times])

    def pop(self, times: int = 1) -> int:
        """Remove the first slices, of which there must be so many; answer their sizes' sum."""
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
        """Each size, and how many slices in a row have it."""
        return [(size, times) for size, times in self._runs]


class BoundaryAggregator(InOrderAggregator):
    """A window of the last ``range`` values that slides by ``slide`` values at a time.

    When a value arrives at a full window, the ``slide`` oldest values leave. ``timed`` makes one
    over time. ``chunk_size``, in slices, is by default the optimal one. Raises ValueError.
    """

    def __init__(
        self, monoid: AbstractMonoid, range: int, slide: int = 1, *, chunk_size: int | None = None
    ) -> None:
        super().__init__(monoid)
        if not 1 <= slide <= range:
            raise ValueError(f"a slide is from 1 to the range {range}, not {slide}")
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
        """A window over time, its slides aligned to the epoch; durations as in ``TimeWindow``.

        ``combine_time`` is about what a combine takes, in seconds: the optimal chunk size depends
        on it. Values are inserted with their times.
        """
        length, step = to_duration(range), to_duration(slide)
        if step > length:
            raise ValueError(f"a slide is no longer than the range {range!r}, not {slide!r}")
        best = time_chunk_size(length, step, combine_time * MICROSECONDS)
        window = cls(monoid, max(length // step, 1))
        window._begin(length, step, best if chunk_size is None else chunk_size, timed=True)
        return window

    def _begin(self, range: int, slide: int, chunk_size: int, *, timed: bool) -> None:
        """Be an empty window; range and slide are values, or microseconds."""
        if not 1 <= chunk_size <= range // slide:
            raise ValueError(
                f"a chunk is from 1 to the {range // slide} slices of a window, not {chunk_size}"
            )
        self.range, self.slide, self.chunk_size, self.is_timed = range, slide, chunk_size, timed
        #: The position of the newest value: its number, or its time.
        self._now: int | None = None
        self._restart(0)

    def _restart(self, index: int) -> None:
        """Forget all values; slice number ``index`` is the next one to be filled."""
        #: The oldest slice of the window, and the one that is being filled.
        self._front = self._current = index
        self._chunks: deque[Chunk] = deque()
        #: How many values each finished slice has, and the current one; and all together.
        self._sizes = Sizes()
        self._filled = self._size = 0
        #: The values since the last query or end of a slice; before these, the values of the
        #: current slice, and those of the current chunk which are not in csa yet.
        self._newest = self._slice = self._waiting = _NOTHING
        self._csa = _NOTHING
        self._start_chunk()

    def _start_chunk(self) -> None:
        self._start, self._saa = self._current, self.monoid.partials.new(self.chunk_size)

    # --- the interface --------------------------------------------------------------------------

    @property
    def ends(self) -> bool:
        """Whether a window ends with the newest value, or with the time given last."""
        return self._now is not None and self._next_end(self._now) == self._now + 1

    def insert(self, value: Any, time: Any = None) -> None:
        """Add a value, and evict what the slide says; amortised 1 combine, and 1 for lcs.

        Raises InvalidValue, and for a window over time InvalidTime and LateEvent.
        """
        with self._quietly():
            v = self.monoid.lift(self.monoid.row(value))
            self._advance(self._position(time))
            self._insert(v)

    def advance(self, time: Any) -> None:
        """Let time pass without a value; a window [a, a + range) ends just before a + range."""
        if not self.is_timed:
            raise InvalidTime("a window that counts its values knows no time")
        with self._quietly():
            self._advance(self._position(time))

    def evict(self) -> None:
        """Remove the oldest slice that has values. Raises EmptyWindow."""
        if not self._size:
            raise EmptyWindow("cannot evict from a window without values")
        with self._quietly():
            self._evict()

    def instances(
        self, values: Iterable[Any], times: Iterable[Any] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Insert values; answer, as each window ends, where it ends and its result.

        The end is how many values there have been, or a time in microseconds; the paper's window
        w_i is [end - range, end). Over time, windows without values are left out, and a window is
        answered when the first value after its end arrives.
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
        """Insert a batch of values; the results of the windows that they fill, as a column.

        A window that slides by 1 is advanced by vector expressions, a chunk in about three.
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
        """One value; the partial of the window that it fills, if it does."""
        self._advance(self._position(None))
        self._insert(self.monoid.lift(row))
        return [(self.monoid.partials.one(self._query()), 1)] if self.ends else []

    def _run_length(self) -> int:
        """How many values may come at once, with the current chunk and the first one as they are.

        0 where the next one must go by itself, as a boundary or a first slice comes.
        """
        if self.slide != 1 or self._now is None or not self._filled:
            return 0
        room = self._start + self.chunk_size - 1 - self._current
        if self._now + 1 < self.range:
            return min(room, self.range - self._now - 2)  # up to the one that fills the window
        if self._size < self.range or not self._chunks:
            return 0
        return min(room, self._chunks[0].stop - 1 - self._front)

    def _run(self, rows: Rows, count: int) -> list[tuple[Rows, int]]:
        """As many values at a slide of 1; the partials of the windows that they fill."""
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
                raise InvalidTime("a window that counts its values takes no times")
            return 0 if self._now is None else self._now + 1
        if time is None:
            raise InvalidTime("a window over time needs the time of each value")
        position = to_time(time)
        if self._now is not None and position < self._now:
            raise LateEvent(f"{time!r} is before the window's newest value; sort the values")
        return position

    def _next_end(self, now: int) -> int:
        """Where the first window ends that ends after ``now``."""
        first = now + 1 if self.is_timed else max(now + 1, self.range)
        return first + (self.range - first) % self.slide

    def _advance(self, position: int) -> None:
        """Finish the slices before a position, and drop those that its window does not reach."""
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
        """The current slice becomes an entry of saa, and the last one of a chunk makes a boundary.

        No combine but for a slice that a query has cut.
        """
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
        """The newest values go where all values go: to the slice, and to what waits for csa."""
        if self._newest is not _NOTHING:
            self._slice = self._join(self._slice, self._newest)
            self._waiting = self._join(self._waiting, self._newest)
            self._newest = _NOTHING

    def _end_chunk(self, ca: Partial) -> None:
        """A boundary: the slices so far are a chunk, of which lcs is to be computed."""
        chunk = self._chunk(self.monoid, self._start, self._current, ca, self._saa)
        self._chunks.append(chunk)
        self._start_chunk()

    @abstractmethod
    def _chunk(self, *of: Any) -> Chunk:
        """A finished chunk, its lcs computed or begun; arguments as ``Chunk``."""

    def _drop_slice(self) -> None:
        """The oldest slice leaves."""
        self._front += 1
        self._size -= self._sizes.pop()
        if not self._chunks:
            self._draw_boundary()
        if self._chunks and self._front == self._chunks[0].stop:
            self._chunks.popleft()

    def _draw_boundary(self) -> None:
        """A boundary before the current slice, as the window lies within the current chunk."""
        self._settle()
        self._end_chunk(None)  # its first slice has left, so nobody asks for its aggregate
        self._csa, self._waiting = self._slice, _NOTHING

    # --- the result -----------------------------------------------------------------------------

    def _query(self) -> Partial:
        """lcs + ca + csa; at most 3 merges with the optimal chunk size, and 1 for a cut slice."""
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
        """Slices, chunks and sizes fit together, and csa is the fold of saa and of what follows."""
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
    """The Sequential Boundary Aggregator (section 5.1): PBA in one thread; amortised O(1).

    At each boundary the stream waits until lcs is computed. Combines a slide: 3 merges, and
    chunk_size - 2 at a boundary. Space: 3 * chunk_size + 2 partials, that is 3n/2 + 5 at a slide of
    1; and while an lcs is computed a chunk more. The example of Figure 2:

    >>> from mta import Monoid
    >>> window = SBA(Monoid(float("-inf"), max), 10, 2, chunk_size=5)
    >>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
    >>> list(window.instances(stream))
    [(10, 6), (12, 6), (14, 7), (16, 7), (18, 9), (20, 9)]
    """

    name = "Sequential Boundary Aggregator"

    def _chunk(self, *of: Any) -> Chunk:
        chunk = Chunk(*of)
        chunk.compute()
        return chunk


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """The threads of a process (a forked one has its own), which all windows share.

    As many as the machine has cores, begun as they are needed: the paper's pool of a slot.
    """
    del process
    quietly = partial(np.seterr, all="ignore")  # numpy's warnings are off thread by thread
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="lcs", initializer=quietly)


class ParallelChunk(Chunk):
    """A chunk whose lcs another thread computes, for which one waits when it is asked."""

    def __init__(self, *of: Any) -> None:
        super().__init__(*of)
        self._process = os.getpid()
        self._computed = _threads(self._process).submit(self.compute)

    def wait(self) -> None:
        if self._lcs is None and self._process == os.getpid():
            wait([self._computed])
        if self._lcs is None:  # it failed, or this process was forked before it was there
            self.compute()


class PBA(BoundaryAggregator):
    """The Parallel Boundary Aggregator (section 4); worst-case O(1) in the stream's thread.

    At a boundary a thread begins to compute lcs of the chunk before it, while the stream goes on
    into csa of the one after it: the two need nothing of each other. With the optimal chunk size
    lcs is there when the first window needs it. Combines a slide: 3 merges in the stream's thread,
    and beside it chunk_size - 2 for each chunk.

    Space: 3 * chunk_size + 2 partials, that is 3n/2 + 5 at a slide of 1; and while an lcs is
    computed a chunk more. All windows share one pool of threads, no more than there are cores; they
    begin with the first boundary, and end with the process.

    When this pays in Python: a thread runs beside another only while it is inside numpy, which
    releases the interpreter's lock. So the monoid must be columnar (a ``Monoid`` of Python
    functions is correct here, and slower than with SBA), and chunks must be so large that folding
    one takes longer than handing it over: from a range of about 2^12 on.

    >>> from mta import Max
    >>> window = PBA(Max(), 10, 2, chunk_size=5)
    >>> stream = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
    >>> [(end, float(result)) for end, result in window.instances(stream)][-3:]
    [(16, 7.0), (18, 9.0), (20, 9.0)]
    """

    name = "Parallel Boundary Aggregator"

    def _chunk(self, *of: Any) -> Chunk:
        return ParallelChunk(*of)


# --- the optimal chunk size (section 4.3) ---------------------------------------------------------

# Write q for the slices that fit into a window whole, ⌊r/s⌋. At a boundary two tasks begin at once:
# one folds the slices of the finished chunk from its end to its second one (b - 2 combines until
# lcs[1] is there), the other goes on with the stream until the first window ends that needs it.
# Until then q + 1 - b more slices arrive whole, and the r mod s of another. The chunk is as large
# as it can be without the second task waiting for the first, and never larger than q, as a window
# must not lie within one chunk:
#
# - by count, time being the combine of a value: b - 2 <= (q + 1 - b) s - 1 + (r mod s). The first
#   slice takes s - 1 combines, each later one another to join it to the csa;
# - by time, a combine taking T_u: (b - 2) T_u <= (q + 1 - b) s + (q - b) T_u + C, where C, of a
#   slice cut by the window's end, is (r mod s) + T_u. The printed C = "s(r mod s) + 1 T_u" has a
#   factor s too many, with which it would not be a time.


def count_chunk_size(range: int, slide: int) -> int:
    """Theorem 1: slices a chunk for a window of ``range`` values that slides by ``slide``.

    >>> count_chunk_size(10, 2), count_chunk_size(16, 1), count_chunk_size(32, 1)
    (4, 9, 17)
    """
    q, rest = divmod(range, slide)
    if q <= slide + rest + 1:
        return q
    return (slide * (q + 1) + rest + 1) // (slide + 1)


def time_chunk_size(range: int, slide: int, combine_time: float | Fraction) -> int:
    """Theorem 2: slices a chunk for a window of time; all three in the same unit.

    ``combine_time`` is T_u, what one combine takes.
    """
    q, rest = divmod(range, slide)
    unit = Fraction(combine_time)
    cut = rest + unit if rest else Fraction(0)
    if unit == 0 or q <= (slide + 2 * unit + cut) / unit:
        return q
    return int((q * (slide + unit) + slide + 2 * unit + cut) // (slide + 2 * unit))
