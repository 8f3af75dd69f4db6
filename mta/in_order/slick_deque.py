"""SlickDeque.

Shein, Chrysanthis, Labrinidis, "SlickDeque: High Throughput and Low Latency
Incremental Sliding-Window Aggregation", EDBT 2018; implemented from public descriptions, for one
window. (In the paper, one deque also serves several ranges.)

SlickDeque supports two kinds of operations:

- *Invertible* operations have a running aggregate, as in Subtract-on-Evict.
- *Selective* operations, for which a + b is always a or b (the paper's Non-Inv: Max, Min, ArgMax),
  have a deque of the values that can still become the result. A value that loses against a newer
  one never can, because the newer value stays longer. So the oldest value in the deque is the
  result.

A selective operation must be associative, but need not be commutative. This is Max over 2, 6, 3, 5,
3, as in the DEBS 2017 paper:

>>> from mta import Max
>>> window = SlickDeque(Max())
>>> for value in (2, 6, 3, 5, 3):
...     window.insert(value)
>>> [float(v) for v in window.kept()]
[6.0, 5.0, 3.0]
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from mta.in_order.base import InOrderAggregator, identical
from mta.in_order.subtract_on_evict import SubtractOnEvict
from mta.monoids.base import AbstractMonoid, Partial


class SlickDeque(InOrderAggregator):
    """Combines: query 0; insert 2 amortized and n worst (invertible: 1), evict 0 (1 inverse).

    Space: at most n partials, or n + 1 if invertible. Raises UnsuitableMonoid for a monoid that is
    neither ``selective`` nor invertible, and InvalidValue for a value that cannot be removed again.
    """

    name = "SlickDeque"
    requires = "invertible or selective"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        #: SlickDeque (Inv); None for a selective operation, which is SlickDeque (Non-Inv).
        self._running = None if monoid.selective else SubtractOnEvict(monoid)
        #: The position and value of each value that wins against all newer ones.
        self._nodes: deque[tuple[int, Partial]] = deque()
        self._front = self._back = 0

    @classmethod
    def suits(cls, monoid: AbstractMonoid) -> bool:
        return monoid.selective or monoid.invertible

    def _query(self) -> Partial:
        return self._running.agg if self._running is not None else self._nodes[0][1]

    def _insert(self, v: Partial) -> None:
        if self._running is not None:
            self._running._insert(v)
            return
        nodes, combine = self._nodes, self._combine
        while nodes and identical(combine(nodes[-1][1], v), v):
            nodes.pop()
        nodes.append((self._back, v))
        self._back += 1

    def _evict(self) -> None:
        if self._running is not None:
            self._running._evict()
            return
        if self._nodes[0][0] == self._front:
            self._nodes.popleft()
        self._front += 1

    def kept(self) -> list[Partial]:
        """Return the values in the deque, the oldest first."""
        return (
            list(self._running.vals) if self._running is not None else [v for _, v in self._nodes]
        )

    def check(self) -> None:
        """Check that the aggregate is the fold, or that values in the deque beat newer ones."""
        kept = self.kept()
        self._require(bool(kept) == bool(len(self)), "a window with values has a result")
        if self._running is not None:
            self._running.check()
            return
        for one, newer in pairwise(kept):
            self._require(identical(self._combine(one, newer), one), f"{one!r} beats {newer!r}")
            self._require(not identical(one, newer), f"{one!r} is kept once")
