"""Two-Stacks (DEBS 2017 paper, Figure 1): a queue of two stacks, each entry with an aggregate.

This module also has Two-Stacks Lite, which takes half the space.

An entry of either stack has the aggregate of its value and all values below it:

    front F, its top the oldest value        back B, its top the newest value
    agg extends from the value to the        agg extends from the bottom of B to
    bottom of F                              the value

This is Max over 2, 6, 3, 5, 3 (the running example of Figure 4), before and after an eviction:

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
from mta.in_order.chunked_queue import ChunkedQueue, Pointer
from mta.monoids.base import AbstractMonoid, Partial

#: A value, and the aggregate of it and all values below it.
Entry = tuple[Partial, Partial]


class TwoStacks(InOrderAggregator):
    """Amortized O(1). Combines: query 1, insert 1, evict 1 amortized, n worst. Space: 2n."""

    name = "Two-Stacks"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.front: list[Entry] = []
        self.back: list[Entry] = []

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
        """Move B onto F entry by entry, which reverses its order and its aggregates."""
        agg, combine = self.monoid.identity, self._combine
        for v, _ in reversed(self.back):
            agg = combine(v, agg)
            self.front.append((v, agg))
        self.back.clear()

    def check(self) -> None:
        """Check that each aggregate is the fold from its value to the bottom of the stack."""
        self._require(len(self.front) + len(self.back) == self._size, "F and B are the window")
        vals, aggs = ([entry[i] for entry in reversed(self.front)] for i in (0, 1))
        self._require_suffixes(aggs, vals, "an aggregate of F")
        vals, aggs = ([entry[i] for entry in self.back] for i in (0, 1))
        self._require_prefixes(aggs, vals, "an aggregate of B")


class TwoStacksLite(InOrderAggregator):
    """Amortized O(1). Combines: query 1, insert 1, evict 1 amortized, n - 1 worst. Space: n + 1.

    Tangwongsan, Hirzel, Schneider: "In-Order Sliding-Window Aggregation in Worst-Case Constant
    Time", VLDB Journal 2021; implemented from public descriptions. No entry needs both a value and
    an aggregate: results use the aggregates of the front, and the aggregate of the whole back. So
    the queue is

        F                    B                   E
        | aggregate of each  | values            |      and outside the queue
        | up to B            |                   |      agg_b, the fold of B to E

    A flip overwrites the values of the back with their aggregates, from the end to the front.

    >>> from mta import Monoid
    >>> window = TwoStacksLite(Monoid("", lambda a, b: a + b))
    >>> for letter in "abcd":
    ...     window.insert(letter)
    >>> window.evict()
    >>> window.insert("e")
    >>> window.entries(), window.agg_b
    ((['bcd', 'cd', 'd'], ['e']), 'e')
    """

    name = "Two-Stacks Lite"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid)
        self._queue = ChunkedQueue(chunk_size=chunk_size)
        (self._items,) = self._queue.columns
        #: Where the front ends and the back starts.
        self.b: Pointer = self._queue.end
        self.agg_b: Partial = monoid.identity

    def _query(self) -> Partial:
        front = self._queue.begin
        agg_f = self.monoid.identity if front == self.b else self._items[front]
        return self._combine(agg_f, self.agg_b)

    def _insert(self, v: Partial) -> None:
        self._queue.push_back(v)
        self.agg_b = self._combine(self.agg_b, v)

    def _evict(self) -> None:
        if self._queue.begin == self.b:
            self._flip()
        self._queue.pop_front()

    def _flip(self) -> None:
        """Overwrite each value with its aggregate up to the end; n - 1 combines."""
        items, before, combine = self._items, self._queue.before, self._combine
        p = before(self._queue.end)
        agg = items[p]
        while p != self._queue.begin:
            p = before(p)
            agg = items[p] = combine(items[p], agg)
        self.b = self._queue.end
        self.agg_b = self.monoid.identity

    def entries(self) -> tuple[list[Partial], list[Partial]]:
        """Return the aggregates of the front and the values of the back."""
        front = self._queue.span(self._queue.begin, self.b)
        back = self._queue.span(self.b, self._queue.end)
        return [self._items[p] for p in front], [self._items[p] for p in back]

    def check(self) -> None:
        """Check that the queue has a partial per value, and that agg_b is the fold of the back."""
        front, back = self.entries()
        self._require(len(front) + len(back) == self._size, "one entry a value")
        self._require_same(self.agg_b, self._fold(back), "agg_b")
