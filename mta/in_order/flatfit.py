"""FlatFIT.

Shein, Chrysanthis, Labrinidis, "FlatFIT: Accelerated Incremental Sliding-Window
Aggregation For Real-Time Analytics", SSDBM 2017; implemented from public descriptions.

FlatFIT has two circular arrays: ``partials[i]`` is the aggregate from position i to before
``pointers[i]``. A query hops along the pointers from the oldest value to the end, and pushes the
positions on a stack. On the way back, it extends the aggregate of each position to the end. So the
next query reaches the end in one hop, and no aggregate is computed twice:

    after a query         a b c d |        abcd bcd cd d: each extends to the end
    two more arrive       a b c d e f |    abcd bcd cd d e f
    the a leaves            b c d e f |    b hops to e, e to f: bcd + (e + f)
    and after the query     b c d e f |    bcdef cd d ef f: b and e extend to the new end

The arrays double when they are full. In the paper, they have the size of a fixed window.

>>> from mta import Monoid
>>> window = FlatFIT(Monoid("", lambda a, b: a + b))
>>> for letter in "abcd":
...     window.insert(letter)
>>> window.query(), window.hops()
('abcd', [(0, 'abcd')])
>>> window.insert("e")
>>> window.evict()
>>> window.hops()
[(1, 'bcd'), (4, 'e')]
"""

from __future__ import annotations

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial

_SMALLEST = 8


class FlatFIT(InOrderAggregator):
    """Amortized O(1). Combines: query n - 1 worst, insert 0, evict 0; together under 3 amortized.

    Space: partials and pointers, each up to twice the largest window so far.
    """

    name = "FlatFIT"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self._partials: list[Partial] = [None] * _SMALLEST
        self._pointers = [0] * _SMALLEST
        self._mask = _SMALLEST - 1
        #: Absolute positions; indices in the arrays are positions modulo the size of the arrays.
        self._front = self._back = 0

    def _insert(self, v: Partial) -> None:
        if self._back - self._front > self._mask:
            self._grow()
        place = self._back & self._mask
        self._back += 1
        self._partials[place], self._pointers[place] = v, self._back

    def _evict(self) -> None:
        self._partials[self._front & self._mask] = None
        self._front += 1

    def _query(self) -> Partial:
        partials, pointers, mask, end = self._partials, self._pointers, self._mask, self._back
        positions = []
        place = self._front & mask
        while pointers[place] != end:
            positions.append(place)
            place = pointers[place] & mask
        answer, combine = partials[place], self._combine
        while positions:
            place = positions.pop()
            answer = partials[place] = combine(partials[place], answer)
            pointers[place] = end
        return answer

    def _grow(self) -> None:
        """Double the arrays; amortized O(1) per insert, no combine."""
        size, old = 2 * (self._mask + 1), self._mask
        partials: list[Partial] = [None] * size
        pointers = [0] * size
        for at in range(self._front, self._back):
            place = at & (size - 1)
            partials[place], pointers[place] = self._partials[at & old], self._pointers[at & old]
        self._partials, self._pointers, self._mask = partials, pointers, size - 1

    def hops(self) -> list[tuple[int, Partial]]:
        """Return the positions that the next query visits, and the aggregate at each."""
        found, at = [], self._front
        while at < self._back:
            found.append((at, self._partials[at & self._mask]))
            at = self._pointers[at & self._mask]
        return found

    def check(self) -> None:
        """Check that pointers go forwards and are nested, and that hops from any position agree."""
        self._require(self._back - self._front == self._size, "positions count the values")
        ends: list[int] = []
        for at in range(self._front, self._back):
            while ends and ends[-1] <= at:
                ends.pop()
            end = self._pointers[at & self._mask]
            self._require(at < end <= self._back, "a pointer leads forwards and into the window")
            self._require(not ends or end <= ends[-1], "no pointer leads over another's end")
            ends.append(end)
        if len(self):
            last = self._pointers[(self._back - 1) & self._mask]
            self._require(last == self._back, "the newest value reaches to the end")
