"""DABA, the De-Amortized Banker's Aggregator (DEBS 2017 paper, section 4, Figures 8 to 12).

This module also has Cached DABA, which saves one combine of three, and DABA Lite, which stores one
queue of n partials and two more.

DABA has two queues, ``vals`` and ``aggs``, and pointers that divide them into sublists, F <= L <= R
<= A <= B <= E. Arrows show the direction in which each sublist is aggregated (Figure 8):

    F          L          R          A          B          E
    |  ----->B | ---->R   | R<-----  | ----->B  | B<-----  |
    |                    l_F                    |   l_B    |
                 l_L        l_R        l_A

Each operation ends with one step of ``fixup``, which gradually makes l_B a part of l_F, early
enough that an eviction always finds the aggregate that it needs. These size invariants hold after
each operation (Lemma 4.1):

    the window is empty, or  |l_L| + |l_R| + |l_A| + 1 = |l_F| - |l_B|  and  |l_L| = |l_R|

In the printed Figure 10, ``if L = R`` (shift, else shrink) follows the flip in the same step: a
flip is not a separate branch, but continues with a shrink.

This is Max over 2, 6, 3 in a queue of chunks, before and after the 2 leaves:

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

from abc import abstractmethod
from typing import Any

from mta.in_order.base import InOrderAggregator
from mta.in_order.chunked_queue import ChunkedQueue, Pointer
from mta.monoids.base import AbstractMonoid, Partial


class _Sublists(InOrderAggregator):
    """The queue, with ``chunk_size`` elements per chunk, and the pointers between sublists."""

    def __init__(self, monoid: AbstractMonoid, columns: int, chunk_size: int) -> None:
        super().__init__(monoid)
        self._queue = ChunkedQueue(columns, chunk_size)
        self.l = self.r = self.a = self.b = self._queue.end

    def _evict(self) -> None:
        self._queue.pop_front()
        self._fixup()

    def _fixup(self) -> None:
        """Make one step of turning l_B into l_F (Figure 10); only a shrink takes combines."""
        first, end = self._queue.begin, self._queue.end
        if first == self.b:  # one value or none
            self.b = self.a = self.r = self.l = end
            self._turn()
            return
        if self.l == self.b:  # flip
            self.l, self.a, self.b = first, end, end
            self._turn()
        if self.l == self.r:  # shift; without an l_R, A equals R
            self.l = self.r = self.a = self._queue.after(self.a)
        else:
            self._shrink()

    def _turn(self) -> None:
        """Turn l_B into l_F; l_B is then empty."""

    @abstractmethod
    def _shrink(self) -> None:
        """Move the first element of l_L to the front part of l_F, and the last of l_R to l_A."""

    # --- invariants -----------------------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """Return the length of each sublist; O(n)."""
        at = dict(zip("FLRABE", self._places(), strict=True))
        ends = {"F": "B", "L": "R", "R": "A", "A": "B", "B": "E"}
        return {start: at[end] - at[start] for start, end in ends.items()}

    def _places(self) -> list[int]:
        """Return the positions of F, L, R, A, B and E; -1 for a pointer outside the queue."""
        queue = self._queue
        pointers = (queue.begin, self.l, self.r, self.a, self.b, queue.end)
        order = [*queue.span(queue.begin, queue.end), queue.end]
        return [order.index(pointer) if pointer in order else -1 for pointer in pointers]

    def check(self) -> None:
        """Check the size invariants of Lemma 4.1."""
        places, n = self._places(), self.sizes()
        self._require(places == sorted(places) and places[0] == 0, "F <= L <= R <= A <= B <= E")
        self._require(n["F"] + n["B"] == self._size, "l_F and l_B are the window")
        if self._size:
            ahead = n["L"] + n["R"] + n["A"] + 1
            self._require(ahead == n["F"] - n["B"], "|l_L| + |l_R| + |l_A| + 1 = |l_F| - |l_B|")
            self._require(n["L"] == n["R"], "|l_L| = |l_R|")

    def _between(self, column: Any, start: Pointer, stop: Pointer) -> list[Partial]:
        return [column[p] for p in self._queue.span(start, stop)]


class DABA(_Sublists):
    """Worst-case O(1). Combines: query 1, insert 4, evict 3; on average 1, 2.5, 1.5. Space: 2n."""

    name = "DABA"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid, 2, chunk_size)
        self.vals, self.aggs = self._queue.columns

    # Figure 9. The sums of l_F, l_L and l_R are only used if these have elements: l_F in a window
    # that is not empty, and all three in a shrink.

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
        self._fixup()

    def _shrink(self) -> None:
        """See the base class; 3 combines."""
        combine, aggs, sum_a = self._combine, self.aggs, self._sum_a()
        last = self._queue.before(self.a)
        aggs[self.l] = combine(combine(aggs[self.l], aggs[last]), sum_a)
        self.l = self._queue.after(self.l)
        aggs[last] = combine(self.vals[last], sum_a)
        self.a = last

    def check(self) -> None:
        """Check the size invariants, and the aggs invariants of section 4.2."""
        super().check()
        self._check_leftwards(self._queue.begin, self.l, self.b)
        self._check_leftwards(self.l, self.r, self.r)
        self._check_rightwards(self.r, self.a)
        self._check_leftwards(self.a, self.b, self.b)
        self._check_rightwards(self.b, self._queue.end)

    def _check_leftwards(self, start: Pointer, stop: Pointer, reach: Pointer) -> None:
        """Check aggs[p] = vals[p] + ... + vals[reach - 1] for p from start to stop - 1."""
        aggs, vals = self._between(self.aggs, start, stop), self._between(self.vals, start, reach)
        self._require_suffixes(aggs, vals, "an aggregate to the left")

    def _check_rightwards(self, start: Pointer, stop: Pointer) -> None:
        """Check aggs[p] = vals[start] + ... + vals[p] for p from start to stop - 1."""
        aggs, vals = self._between(self.aggs, start, stop), self._between(self.vals, start, stop)
        self._require_prefixes(aggs, vals, "an aggregate to the right")


class CachedDABA(DABA):
    """Worst-case O(1). Combines: query 1, insert 3, evict 2. Space: 2n + 1.

    This is DABA with the caching that section 4.4 of its paper mentions, as in the MTA paper's
    experiments. Between two flips, a shrink needs the aggregate of l_R and l_A together, whose ends
    do not move. This is the aggregate that l_B had before the flip.

    >>> from mta import Monoid
    >>> window = CachedDABA(Monoid("", lambda a, b: a + b))
    >>> for letter in "abcd":
    ...     window.insert(letter)
    >>> window.evict()
    >>> window.query()
    'bcd'
    """

    name = "Cached DABA"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid, chunk_size)
        self.agg_ra: Partial = monoid.identity

    def _fixup(self) -> None:
        if self.l == self.b != self._queue.begin:  # the next step is a flip
            self.agg_ra = self._sum_b()
        super()._fixup()

    def _shrink(self) -> None:
        """See the base class; 2 combines."""
        combine, aggs, sum_a = self._combine, self.aggs, self._sum_a()
        last = self._queue.before(self.a)
        aggs[self.l] = combine(aggs[self.l], self.agg_ra)
        self.l = self._queue.after(self.l)
        aggs[last] = combine(self.vals[last], sum_a)
        self.a = last

    def check(self) -> None:
        """Check DABA's invariants, and the cached aggregate."""
        super().check()
        if self.l != self.r:
            values = self._between(self.vals, self.r, self.b)
            self._require_same(self.agg_ra, self._fold(values), "agg_ra")


class DABALite(_Sublists):
    """Worst-case O(1). Combines: query 1, insert 3, evict 2. Space: n + 2 partials.

    Tangwongsan, Hirzel, Schneider: "In-Order Sliding-Window Aggregation in Worst-Case Constant
    Time", VLDB Journal 2021; implemented from public descriptions. DABA Lite needs no second queue,
    for two reasons:

    - Of l_B and l_R, only the aggregates of the whole sublists are needed. So their elements remain
      values, and the two aggregates are stored outside the queue.
    - Between two flips, a shrink needs the aggregate of l_R and l_A together, from R to B. Neither
      end moves while l_R has elements, so this is the agg_b before the flip.

        F          L          R          A          B          E
        |  ----->B | ---->R   | values   | ----->B  |  values  |     agg_ra: R to B, while l_R has
        |                    l_F                    |   l_B    |     elements; agg_b: B to E

    This concatenates letters:

    >>> from mta import Monoid
    >>> window = DABALite(Monoid("", lambda a, b: a + b))
    >>> for letter in "abcd":
    ...     window.insert(letter)
    >>> window.items()
    ['abcd', 'b', 'c', 'd']
    >>> window.evict()
    >>> window.items(), window.query()
    (['bcd', 'cd', 'd'], 'bcd')
    """

    name = "DABA Lite"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid, 1, chunk_size)
        (self._items,) = self._queue.columns
        self.agg_ra: Partial = monoid.identity
        self.agg_b: Partial = monoid.identity

    def _query(self) -> Partial:
        # A window with a value has one in l_F; the first aggregate of l_F extends to B.
        return self._combine(self._items[self._queue.begin], self.agg_b)

    def _insert(self, v: Partial) -> None:
        self._queue.push_back(v)
        self.agg_b = self._combine(self.agg_b, v)
        self._fixup()

    def _turn(self) -> None:
        self.agg_ra, self.agg_b = self.agg_b, self.monoid.identity

    def _shrink(self) -> None:
        """See the base class; 2 combines."""
        combine, items = self._combine, self._items
        sum_a = self.monoid.identity if self.a == self.b else items[self.a]
        items[self.l] = combine(items[self.l], self.agg_ra)
        self.l = self._queue.after(self.l)
        self.a = self._queue.before(self.a)
        items[self.a] = combine(items[self.a], sum_a)

    def items(self) -> list[Partial]:
        """Return the contents of the queue, from F to E."""
        return self._between(self._items, self._queue.begin, self._queue.end)

    def check(self) -> None:
        """Check DABA's size invariants, and the two aggregates outside the queue."""
        super().check()
        l_b = self._between(self._items, self.b, self._queue.end)
        self._require_same(self.agg_b, self._fold(l_b), "agg_b")
        if self.l != self.r:
            l_r = self._between(self._items, self.r, self.a)
            l_a = self._between(self._items, self.a, self.b)[:1]
            self._require_exact(self.agg_ra, self._fold([*l_r, *l_a]), "agg_ra")
