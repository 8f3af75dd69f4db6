"""Recalculate-from-Scratch (DEBS 2017 paper, Figure 3): each query folds all values.

>>> from mta import Collect
>>> window = RecalculateFromScratch(Collect())
>>> for value in "abc":
...     window.insert(value)
>>> window.evict()
>>> window.query()
['b', 'c']
"""

from __future__ import annotations

from collections import deque

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial


class RecalculateFromScratch(InOrderAggregator):
    """The baseline. Combines: query n, insert 0, evict 0. Space: n partials."""

    name = "Recalculate-from-Scratch"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.vals: deque[Partial] = deque()

    def _query(self) -> Partial:
        agg, combine = self.monoid.identity, self._combine
        for v in self.vals:
            agg = combine(agg, v)
        return agg

    def _insert(self, v: Partial) -> None:
        self.vals.append(v)

    def _evict(self) -> None:
        self.vals.popleft()

    def check(self) -> None:
        """Do nothing, as only values are stored."""
        self._require(len(self.vals) == self._size, "the values are the window")
