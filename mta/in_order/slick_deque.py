"""SlickDeque: Shein, Chrysanthis, Labrinidis, "SlickDeque: High Throughput and Low Latency
Incremental Sliding-Window Aggregation", EDBT 2018; from what is publicly known of it, for one
window (the paper also answers several ranges from one deque).

It treats two kinds of operation apart, and no others:

- *invertible* ones keep a running aggregate, as Subtract-on-Evict does;
- *selective* ones, where a + b is always a or b (the paper's Non-Inv: Max, Min, ArgMax), keep a
  deque of the values that can still become the result. A value that loses against a newer one
  never can, as the newer one also stays longer; so the oldest one kept is the result.

This holds for every selective operation that is associative; it need not be commutative. Max over
2, 6, 3, 5, 3 of the DEBS 2017 paper:

>>> from mta import Max
>>> window = SlickDeque(Max())
>>> for value in (2, 6, 3, 5, 3):
...     window.insert(value)
>>> [float(v) for v in window.kept()]
[6.0, 5.0, 3.0]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import pairwise

from mta.in_order.base import InOrderAggregator, identical
from mta.in_order.subtract_on_evict import Undo
from mta.monoids.base import AbstractMonoid, Partial


class SlickDeque(InOrderAggregator):
    """Combines: query 0; insert 2 amortised and n worst (invertible: 1), evict 0 (1 inverse).

    Space: at most n partials, and n + 1 if invertible. Raises UnsuitableMonoid for a monoid that is
    neither ``selective`` nor invertible, InvalidValue for a value that cannot be taken out again.
    """

    name = "SlickDeque"
    requires = "invertible or selective"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self._half: _Half = _Selective(monoid) if monoid.selective else _Invertible(monoid)

    @classmethod
    def suits(cls, monoid: AbstractMonoid) -> bool:
        return monoid.selective or monoid.invertible

    def __len__(self) -> int:
        return len(self._half)

    def _query(self) -> Partial:
        return self._half.query()

    def _insert(self, v: Partial) -> None:
        self._half.insert(v)

    def _evict(self) -> None:
        self._half.evict()

    def kept(self) -> list[Partial]:
        """The values in the deque, the oldest first."""
        return self._half.kept()

    def check(self) -> None:
        """Invertible: the aggregate is the fold. Selective: each value kept beats all after it."""
        kept = self._half.kept()
        if isinstance(self._half, _Invertible):
            require = self._require_exact if self._half.undo.has_left else self._require_same
            require(self._half.query(), self._fold(kept), "the aggregate")
            return
        self._require(bool(kept) == bool(len(self)), "a window with values has a result")
        for one, newer in pairwise(kept):
            self._require(identical(self._combine(one, newer), one), f"{one!r} beats {newer!r}")
            self._require(not identical(one, newer), f"{one!r} is kept once")


class _Half(ABC):
    """One of the two algorithms."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def insert(self, v: Partial) -> None: ...

    @abstractmethod
    def evict(self) -> None: ...

    @abstractmethod
    def query(self) -> Partial: ...

    @abstractmethod
    def kept(self) -> list[Partial]: ...


class _Invertible(_Half):
    """SlickDeque (Inv)."""

    def __init__(self, monoid: AbstractMonoid) -> None:
        self._combine, self.undo, self._identity = monoid.combine, Undo(monoid), monoid.identity
        self._vals: deque[Partial] = deque()
        self._answer = monoid.identity

    def __len__(self) -> int:
        return len(self._vals)

    def insert(self, v: Partial) -> None:
        self.undo.require(v)
        self._vals.append(v)
        self._answer = self._combine(self._answer, v)

    def evict(self) -> None:
        v = self._vals.popleft()
        self._answer = self.undo(self._answer, v) if self._vals else self._identity
        self.undo.has_left = bool(self._vals)

    def query(self) -> Partial:
        return self._answer

    def kept(self) -> list[Partial]:
        return list(self._vals)


class _Selective(_Half):
    """SlickDeque (Non-Inv)."""

    def __init__(self, monoid: AbstractMonoid) -> None:
        self._combine = monoid.combine
        #: Position and value of each that no newer one beats.
        self._nodes: deque[tuple[int, Partial]] = deque()
        self._front = self._back = 0

    def __len__(self) -> int:
        return self._back - self._front

    def insert(self, v: Partial) -> None:
        nodes, combine = self._nodes, self._combine
        while nodes and identical(combine(nodes[-1][1], v), v):
            nodes.pop()
        nodes.append((self._back, v))
        self._back += 1

    def evict(self) -> None:
        if self._nodes[0][0] == self._front:
            self._nodes.popleft()
        self._front += 1

    def query(self) -> Partial:
        return self._nodes[0][1]

    def kept(self) -> list[Partial]:
        return [v for _, v in self._nodes]
