"""SlideSide.

Theodorakis, Pietzuch, Pirk, "SlideSide: A Fast Incremental Stream Processing
Algorithm for Multiple Queries", EDBT 2020; implemented from public descriptions (such as the PBA
paper's section 2), for one window, and for operations without an inverse.

SlideSide stores the values once, in a queue. (Two-Stacks moves them from one stack to the other.)
It also stores aggregates on both sides of a boundary:

    a b c | d e f        suffixes  abc bc c      from each earlier value to the boundary
                         prefixes  d de def      from the boundary to each later value

A result combines one suffix and one prefix. When all values before the boundary have left, the
boundary moves to the end, and the suffixes are computed again from the values. This is Two-Stacks'
flip, without moving values.

>>> from mta import Monoid
>>> window = SlideSide(Monoid("", lambda a, b: a + b))
>>> for letter in "abcd":
...     window.insert(letter)
>>> window.evict()
>>> window.insert("e")
>>> list(window.suffixes), window.prefixes, window.query()
(['bcd', 'cd', 'd'], ['e'], 'bcde')
"""

from __future__ import annotations

from collections import deque

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial


class SlideSide(InOrderAggregator):
    """Amortized O(1). Combines: query 1, insert 1, evict 1 amortized, n - 1 worst. Space: 2n."""

    name = "SlideSide"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.values: deque[Partial] = deque()
        self.suffixes: deque[Partial] = deque()
        self.prefixes: list[Partial] = []

    def _query(self) -> Partial:
        if not self.suffixes:
            return self.prefixes[-1]
        if not self.prefixes:
            return self.suffixes[0]
        return self._combine(self.suffixes[0], self.prefixes[-1])

    def _insert(self, v: Partial) -> None:
        self.prefixes.append(self._combine(self.prefixes[-1], v) if self.prefixes else v)
        self.values.append(v)

    def _evict(self) -> None:
        if not self.suffixes:
            self._move_boundary()
        self.suffixes.popleft()
        self.values.popleft()

    def _move_boundary(self) -> None:
        """Move the boundary to the end; n - 1 combines."""
        self.prefixes.clear()
        combine, suffixes = self._combine, self.suffixes
        for v in reversed(self.values):
            suffixes.appendleft(combine(v, suffixes[0]) if suffixes else v)

    def check(self) -> None:
        """Check that suffixes extend to the boundary, and that prefixes start there."""
        values, cut = list(self.values), len(self.suffixes)
        self._require(len(values) == self._size, "the values are the window")
        self._require(cut + len(self.prefixes) == self._size, "an aggregate a value")
        self._require_suffixes(self.suffixes, values[:cut], "a suffix")
        self._require_prefixes(self.prefixes, values[cut:], "a prefix")
