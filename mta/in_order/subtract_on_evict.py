"""Subtract-on-Evict (DEBS 2017 paper, Figure 2): one running aggregate, with an inverse.

The paper evicts by ``agg ⊕ inv(v)``. Here, ``inverse(agg, v)`` removes the oldest value from the
left side, so the operation need not be commutative. This concatenates words and removes them again:

>>> from mta import Monoid
>>> joined = Monoid("", lambda a, b: a + b, inverse=lambda whole, first: whole[len(first) :])
>>> window = SubtractOnEvict(joined)
>>> for word in ("to", "be", "or"):
...     window.insert(word)
>>> window.evict()
>>> window.query()
'beor'

A value that cannot be removed again, such as an infinity in a sum, would spoil every later result,
so it is refused. Rounding errors of floating-point sums remain until the window is empty.
"""

from __future__ import annotations

from collections import deque

from mta.errors import InvalidValue
from mta.in_order.base import InOrderAggregator, identical
from mta.monoids.base import AbstractMonoid, Partial


class SubtractOnEvict(InOrderAggregator):
    """A running aggregate. Combines: query 0, insert 1, evict 1 inverse. Space: n + 1 partials.

    An insert also removes its value once, to test that this is possible. Raises UnsuitableMonoid
    for a monoid without ``inverse``, and InvalidValue for a value that cannot be removed again.
    """

    name = "Subtract-on-Evict"
    requires = "invertible"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.vals: deque[Partial] = deque()
        self.agg: Partial = monoid.identity
        assert monoid.inverse is not None
        self._inverse = monoid.inverse
        #: Whether a value was removed since the window was empty, so that its rounding remains.
        self._keeps_rounding = False

    @classmethod
    def suits(cls, monoid: AbstractMonoid) -> bool:
        return monoid.invertible

    def _query(self) -> Partial:
        return self.agg

    def _insert(self, v: Partial) -> None:
        self._require_undone(v)
        self.vals.append(v)
        self.agg = self._combine(self.agg, v)

    def _evict(self) -> None:
        v = self.vals.popleft()
        self.agg = self._inverse(self.agg, v) if self.vals else self.monoid.identity
        self._keeps_rounding = bool(self.vals)

    def _require_undone(self, v: Partial) -> None:
        """Raise InvalidValue if removing a value from itself does not give the identity."""
        try:
            undone = identical(self._inverse(v, v), self.monoid.identity)
        except ArithmeticError:
            undone = False
        if not undone:
            raise InvalidValue(
                f"{v!r} cannot be removed from a {self.monoid.name} again: leave it out, or use "
                "an algorithm that needs no inverse, such as Two-Stacks or DABA"
            )

    def check(self) -> None:
        """Check that agg is the fold of the values, except for floats with remaining rounding."""
        require = self._require_exact if self._keeps_rounding else self._require_same
        require(self.agg, self._fold(self.vals), "agg")
