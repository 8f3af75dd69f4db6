"""Two-Stacks Lite: Two-Stacks in one queue, with half of its space.

Tangwongsan, Hirzel, Schneider: "In-Order Sliding-Window Aggregation in Worst-Case Constant Time",
VLDB Journal 2021; from what is publicly known of it. No entry needs both a value and an aggregate:
the front only ever answers with aggregates, and the back with the aggregate of all of it. So

    F                    B                   E
    | aggregate of each  | values as they    |      and beside the queue
    | up to B            | came              |      agg_b, the fold of B to E

and a flip overwrites the values of the back by their aggregates, from the end to the front.

>>> from mta import Monoid
>>> window = TwoStacksLite(Monoid("", lambda a, b: a + b))
>>> for letter in "abcd":
...     window.insert(letter)
>>> window.evict()
>>> window.insert("e")
>>> window.entries(), window.agg_b
((['bcd', 'cd', 'd'], ['e']), 'e')
"""

from __future__ import annotations

from mta.in_order.base import InOrderAggregator
from mta.in_order.chunked_queue import ChunkedQueue, Pointer
from mta.monoids.base import AbstractMonoid, Partial


class TwoStacksLite(InOrderAggregator):
    """Amortised O(1). Combines: query 1, insert 1, evict 1 amortised, n - 1 worst. Space: n + 1."""

    name = "Two-Stacks Lite"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid)
        self._queue = ChunkedQueue(chunk_size=chunk_size)
        (self._items,) = self._queue.columns
        self._size = 0
        #: Where the front ends and the back begins.
        self.b: Pointer = self._queue.end
        self.agg_b: Partial = monoid.identity

    def __len__(self) -> int:
        return self._size

    def _query(self) -> Partial:
        front = self._queue.begin
        agg_f = self.monoid.identity if front == self.b else self._items[front]
        return self._combine(agg_f, self.agg_b)

    def _insert(self, v: Partial) -> None:
        self._queue.push_back(v)
        self._size += 1
        self.agg_b = self._combine(self.agg_b, v)

    def _evict(self) -> None:
        if self._queue.begin == self.b:
            self._flip()
        self._queue.pop_front()
        self._size -= 1

    def _flip(self) -> None:
        """Overwrite each value by its aggregate up to the end; n - 1 combines."""
        items, before, combine = self._items, self._queue.before, self._combine
        p = before(self._queue.end)
        agg = items[p]
        while p != self._queue.begin:
            p = before(p)
            agg = items[p] = combine(items[p], agg)
        self.b = self._queue.end
        self.agg_b = self.monoid.identity

    def entries(self) -> tuple[list[Partial], list[Partial]]:
        """The aggregates of the front and the values of the back."""
        front = self._queue.span(self._queue.begin, self.b)
        back = self._queue.span(self.b, self._queue.end)
        return [self._items[p] for p in front], [self._items[p] for p in back]

    def check(self) -> None:
        """The queue holds one partial a value, and agg_b is the fold of the back."""
        front, back = self.entries()
        self._require(len(front) + len(back) == self._size, "one entry a value")
        self._require_same(self.agg_b, self._fold(back), "agg_b")
