"""The parts of SBA and PBA: finished chunks, their lcs buffers, sizes of slices and of chunks.

The optimal chunk size (KDD 2021 paper, section 4.3, theorems 1 and 2):

Write q for the slices that fit into a window whole, ⌊r/s⌋. At a boundary two tasks begin at once:
one folds the slices of the finished chunk from its end to its second one (b - 2 combines until
lcs[1] is there), the other goes on with the stream until the first window ends that needs lcs[1].
Until then q + 1 - b more slices arrive whole, and the r mod s of another. The chunk is as large as
it can be without the second task waiting for the first, and never larger than q, as a window must
not lie within one chunk:

- by count, time being the combine of a value: b - 2 <= (q + 1 - b) s - 1 + (r mod s). The first
  slice takes s - 1 combines, each later one another to join it to the csa;
- by time, a combine taking T_u: (b - 2) T_u <= (q + 1 - b) s + (q - b) T_u + C, where C, of a slice
  cut by the window's end, is (r mod s) + T_u. The printed C = "s(r mod s) + 1 T_u" has a factor s
  too many, with which it would not be a time.

>>> count_chunk_size(10, 2), count_chunk_size(16, 1), count_chunk_size(32, 1)
(4, 9, 17)
"""

from __future__ import annotations

from collections import deque
from fractions import Fraction

from mta.columns.schemas import Rows
from mta.monoids.base import AbstractMonoid, Partial


class LeftCumulative:
    """The lcs buffer of a finished chunk: its entry j is the aggregate of slices j, j + 1, ...

    Entry 0 is not needed, since that is the chunk's ca.
    """

    def __init__(self, monoid: AbstractMonoid, saa: Rows, count: int) -> None:
        self._monoid, self._saa, self._count = monoid, saa, count
        self._rows: Rows = None

    def compute(self) -> None:
        """Fold the slices from the last to the second; count - 2 combines."""
        if self._count > 1:
            monoid, schema, last = self._monoid, self._monoid.partials, self._count - 1
            inner = schema.cut(self._saa, 1, last)
            self._rows = monoid.suffixes(inner, last - 1, schema.at(self._saa, last))
        self._saa = None

    def wait(self) -> None:
        """Return when the buffer is there."""

    def at(self, slot: int) -> Partial:
        """The aggregate from a slice, not the first, to the chunk's end."""
        self.wait()
        return self._monoid.partials.at(self._rows, slot - 1)

    def cut(self, slot: int, count: int) -> Rows:
        """So many entries from ``slot`` on, which is not the first."""
        self.wait()
        return self._monoid.partials.cut(self._rows, slot - 1, slot - 1 + count)


class Chunk:
    """A finished chunk: where it begins and ends in slices, its aggregate and its lcs."""

    __slots__ = ("ca", "lcs", "start", "stop")

    def __init__(self, start: int, stop: int, ca: Partial, lcs: LeftCumulative) -> None:
        self.start, self.stop, self.ca, self.lcs = start, stop, ca, lcs


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


def count_chunk_size(range: int, slide: int) -> int:
    """Theorem 1: slices a chunk for a window of ``range`` values that slides by ``slide``."""
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
