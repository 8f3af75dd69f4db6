"""DABA, the De-Amortized Banker's Aggregator (DEBS 2017 paper, section 4, Figures 8 to 12).

Two queues, ``vals`` and ``aggs``, and pointers that cut them into sublists, F <= L <= R <= A <= B
<= E. The arrows say which way each sublist is aggregated (Figure 8):

    F          L          R          A          B          E
    |  ----->B | ---->R   | R<-----  | ----->B  | B<-----  |
    |                    l_F                    |   l_B    |
                 l_L        l_R        l_A

Each operation ends with one step of ``fixup``, which turns l_B into a part of l_F so early that an
eviction always finds the aggregate it needs (Lemma 4.1, the size invariants; after each operation):

    the window is empty, or  |l_L| + |l_R| + |l_A| + 1 = |l_F| - |l_B|  and  |l_L| = |l_R|

The printed Figure 10 hangs ``if L = R`` (shift, else shrink) behind the flip within the same step:
a flip falls through into a shrink, and is no branch of its own.

Max over 2, 6, 3 in a queue of chunks, then the 2 leaves:

>>> from mta import Monoid
>>> window = DABA(Monoid(float("-inf"), max))
>>> for value in (2, 6, 3):
...     window.insert(value)
>>> window.sizes()
{'F': 2, 'L': 0, 'R': 0, 'A': 0, 'B': 1}
>>> window.evict()
>>> window.query()
6
"""

from __future__ import annotations

from mta.in_order.base import InOrderAggregator
from mta.in_order.chunked_queue import ChunkedQueue, Pointer
from mta.monoids.base import AbstractMonoid, Partial


class DABA(InOrderAggregator):
    """Worst-case O(1). Combines: query 1, insert 4, evict 3; on average 1, 2.5, 1.5. Space: 2n.

    ``chunk_size`` is how many elements a chunk of the queue holds.
    """

    name = "DABA"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid)
        self._queue = ChunkedQueue(columns=2, chunk_size=chunk_size)
        self.vals, self.aggs = self._queue.columns
        self._size = 0
        self.l = self.r = self.a = self.b = self._queue.end

    def __len__(self) -> int:
        return self._size

    # Figure 9. The sums of l_F, l_L and l_R are only asked for where these have elements: a window
    # that is not empty has one in l_F, and a shrink has one in both of the others.

    def _sum_b(self) -> Partial:
        end = self._queue.end
        return self.monoid.identity if self.b == end else self.aggs[self._queue.before(end)]

    def _sum_a(self) -> Partial:
        return self.monoid.identity if self.a == self.b else self.aggs[self.a]

    # Figure 10.

    def _query(self) -> Partial:
        return self._combine(self.aggs[self._queue.begin], self._sum_b())

    def _insert(self, v: Partial) -> None:
        self._queue.push_back(v, self._combine(self._sum_b(), v))
        self._size += 1
        self._fixup()

    def _evict(self) -> None:
        self._queue.pop_front()
        self._size -= 1
        self._fixup()

    def _fixup(self) -> None:
        """One step of turning l_B into l_F; at most 3 combines."""
        first, end = self._queue.begin, self._queue.end
        if first == self.b:  # singleton
            self.b = self.a = self.r = self.l = end
            return
        if self.l == self.b:  # flip
            self.l, self.a, self.b = first, end, end
        if self.l == self.r:  # shift; without an l_R, A is where R is
            self.l = self.r = self.a = self._queue.after(self.a)
        else:
            self._shrink()

    def _shrink(self) -> None:
        """The first of l_L joins the front part of l_F, the last of l_R joins l_A; 3 combines."""
        combine, aggs, sum_a = self._combine, self.aggs, self._sum_a()
        last = self._queue.before(self.a)
        aggs[self.l] = combine(combine(aggs[self.l], aggs[last]), sum_a)
        self.l = self._queue.after(self.l)
        aggs[last] = combine(self.vals[last], sum_a)
        self.a = last

    # --- what holds after each operation --------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """The length of each sublist; O(n)."""
        at = dict(zip("FLRABE", self._places(), strict=True))
        ends = {"F": "B", "L": "R", "R": "A", "A": "B", "B": "E"}
        return {start: at[end] - at[start] for start, end in ends.items()}

    def _places(self) -> list[int]:
        """Where F, L, R, A, B and E are, from F on; -1 for one that is not in the queue."""
        places, queue = self._queue.places(), self._queue
        pointers = (queue.begin, self.l, self.r, self.a, self.b, queue.end)
        return [places.get(pointer, -1) for pointer in pointers]

    def check(self) -> None:
        """The size invariants of Lemma 4.1 and the aggs invariants of section 4.2."""
        places, n = self._places(), self.sizes()
        self._require(places == sorted(places) and places[0] == 0, "F <= L <= R <= A <= B <= E")
        self._require(n["F"] + n["B"] == self._size, "l_F and l_B are the window")
        if self._size:
            ahead = n["L"] + n["R"] + n["A"] + 1
            self._require(ahead == n["F"] - n["B"], "|l_L| + |l_R| + |l_A| + 1 = |l_F| - |l_B|")
            self._require(n["L"] == n["R"], "|l_L| = |l_R|")
        self._check_leftwards(self._queue.begin, self.l, self.b)
        self._check_leftwards(self.l, self.r, self.r)
        self._check_rightwards(self.r, self.a)
        self._check_leftwards(self.a, self.b, self.b)
        self._check_rightwards(self.b, self._queue.end)

    def _check_leftwards(self, start: Pointer, stop: Pointer, reach: Pointer) -> None:
        """aggs[p] = vals[p] + ... + vals[reach - 1] for p from start to stop - 1."""
        folds = self._suffixes([self.vals[p] for p in self._queue.span(start, reach)])
        aggs = [self.aggs[p] for p in self._queue.span(start, stop)]
        self._require_each(aggs, folds, "an aggregate to the left")

    def _check_rightwards(self, start: Pointer, stop: Pointer) -> None:
        """aggs[p] = vals[start] + ... + vals[p] for p from start to stop - 1."""
        pointers = list(self._queue.span(start, stop))
        folds = self._prefixes([self.vals[p] for p in pointers])[1:]
        self._require_each([self.aggs[p] for p in pointers], folds, "an aggregate to the right")
