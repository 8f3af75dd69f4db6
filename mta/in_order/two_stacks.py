"""Two-Stacks (DEBS 2017 paper, Figure 1): a queue of two stacks, each entry with an aggregate.

An entry of either stack carries the aggregate of itself and everything below it:

    front F, its top the oldest value        back B, its top the newest value
    agg reaches from the value to the        agg reaches from the bottom of B to
    bottom of F                              the value

With Max over 2, 6, 3, 5, 3 (the running example of Figure 4), all inserted, then one evicted:

>>> from mta import Monoid
>>> window = TwoStacks(Monoid(float("-inf"), max))
>>> for value in (2, 6, 3, 5, 3):
...     window.insert(value)
>>> [agg for _, agg in window.back]
[2, 6, 6, 6, 6]
>>> window.evict()  # flips B onto F, then pops the 2
>>> window.front
[(3, 3), (5, 5), (3, 5), (6, 6)]
"""

from __future__ import annotations

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial

#: A value and the aggregate of it and all below it.
Entry = tuple[Partial, Partial]


class TwoStacks(InOrderAggregator):
    """Amortised O(1). Combines: query 1, insert 1, evict 1 amortised, n worst. Space: 2n."""

    name = "Two-Stacks"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.front: list[Entry] = []
        self.back: list[Entry] = []

    def __len__(self) -> int:
        return len(self.front) + len(self.back)

    def _sum(self, stack: list[Entry]) -> Partial:
        return stack[-1][1] if stack else self.monoid.identity

    def _query(self) -> Partial:
        return self._combine(self._sum(self.front), self._sum(self.back))

    def _insert(self, v: Partial) -> None:
        self.back.append((v, self._combine(self._sum(self.back), v)))

    def _evict(self) -> None:
        if not self.front:
            self._flip()
        self.front.pop()

    def _flip(self) -> None:
        """Move B onto F entry by entry, which turns its order and its aggregates round."""
        agg, combine = self.monoid.identity, self._combine
        for v, _ in reversed(self.back):
            agg = combine(v, agg)
            self.front.append((v, agg))
        self.back.clear()

    def check(self) -> None:
        """Every entry's aggregate is the fold of the values from it to the bottom of its stack."""
        oldest_first = self.front[::-1]
        folds = self._suffixes([v for v, _ in oldest_first])
        self._require_each([agg for _, agg in oldest_first], folds, "an aggregate of F")
        folds = self._prefixes([v for v, _ in self.back])[1:]
        self._require_each([agg for _, agg in self.back], folds, "an aggregate of B")
