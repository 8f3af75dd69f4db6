"""The parts of SBA and PBA: finished chunks, their lcs buffers, and the sizes of slices."""

from __future__ import annotations

from collections import deque

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
