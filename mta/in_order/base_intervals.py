"""B-Int, base intervals.

Arasu, Widom, "Resource Sharing in Continuous Sliding-Window Aggregates", VLDB 2004. The Reactive
Aggregator paper compares itself with this algorithm (section 6.2, Figure 11 and Table 4: "AW").

Level l is an array with the aggregates of 2^l values each, which start at multiples of 2^l. A
window is decomposed into as few of these *base intervals* as possible, first of increasing, then of
decreasing length:

    positions      1 2 3 4 5 6 7 8          the window [1, 9):
    level 0        b c d e f g h i          b
    level 1          cd  ef  gh                cd
    level 2              efgh                     efgh  i

An interval is computed when its last value arrives, and dropped when its first value leaves.

>>> from mta import Monoid
>>> window = BaseIntervals(Monoid("", lambda a, b: a + b))
>>> for letter in "abcdefghi":
...     window.insert(letter)
>>> window.evict()
>>> window.decomposed()
['b', 'cd', 'efgh', 'i']
"""

from __future__ import annotations

from collections import deque

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial


class BaseIntervals(InOrderAggregator):
    """Worst-case O(log n). Combines: query 2 log2 n, insert log2 n (1 amortized), evict 0.

    Space: 2n partials.
    """

    name = "Base intervals"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        #: The positions of the oldest value, and of the next value to arrive.
        self._front = self._back = 0
        #: For each level, the aggregates, and the position where the first of them starts.
        self._levels: list[deque[Partial]] = [deque()]
        self._starts = [0]

    def _insert(self, v: Partial) -> None:
        self._back += 1
        self._add(0, v)
        level, span = 0, 2
        while not self._back % span and self._back - span >= self._front:
            *_, left, right = self._last_two(level)
            level, span = level + 1, 2 * span
            self._add(level, self._combine(left, right))

    def _last_two(self, level: int) -> tuple[Partial, Partial]:
        return self._levels[level][-2], self._levels[level][-1]

    def _add(self, level: int, agg: Partial) -> None:
        """Add the interval of a level that ends with the newest value."""
        if level == len(self._levels):
            self._levels.append(deque())
            self._starts.append(0)
        if not self._levels[level]:
            self._starts[level] = self._back - (1 << level)
        self._levels[level].append(agg)

    def _evict(self) -> None:
        self._front += 1
        for level, aggs in enumerate(self._levels):
            if not aggs or self._starts[level] >= self._front:
                break  # no longer interval starts here
            aggs.popleft()
            self._starts[level] += 1 << level
        while len(self._levels) > 1 and not self._levels[-1]:
            self._levels.pop()
            self._starts.pop()

    def _query(self) -> Partial:
        first, *others = self.decomposed()
        for agg in others:
            first = self._combine(first, agg)
        return first

    def decomposed(self) -> list[Partial]:
        """Return the window's base intervals; at most two per level."""
        found, at, level = [], self._front, 0
        while at < self._back:
            while not at % (2 << level) and at + (2 << level) <= self._back:
                level += 1
            while at + (1 << level) > self._back:
                level -= 1
            found.append(self._levels[level][(at - self._starts[level]) >> level])
            at += 1 << level
        return found

    def check(self) -> None:
        """Check that levels have all intervals in the window, and that each is the fold of two."""
        self._require(self._back - self._front == self._size, "positions count the values")
        values = self._levels[0]
        for level, aggs in enumerate(self._levels):
            span = 1 << level
            start = -(-self._front // span) * span
            count = max(self._back // span - start // span, 0)
            self._require(len(aggs) == count, "a level has the intervals within the window")
            self._require(not aggs or self._starts[level] == start, "a level begins at the front")
            for number, agg in enumerate(aggs):
                at = start + number * span - self._front
                fold = self._fold([values[at + i] for i in range(span)])
                self._require_same(agg, fold, "an interval")
