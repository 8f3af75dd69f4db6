"""DABA, the De-Amortized Banker's Aggregator (DEBS 2017 paper, section 4, Figures 8 to 12).

At the end: Cached DABA, which makes one combine less where it makes three, and DABA Lite, which has
one queue of n partials and two more.

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

from abc import abstractmethod
from typing import Any

from mta.in_order.base import InOrderAggregator
from mta.in_order.chunked_queue import ChunkedQueue, Pointer
from mta.monoids.base import AbstractMonoid, Partial


class _Sublists(InOrderAggregator):
    """The queue, the pointers that cut it into sublists, and when they move.

    ``chunk_size`` is how many elements a chunk of the queue holds.
    """

    def __init__(self, monoid: AbstractMonoid, columns: int, chunk_size: int) -> None:
        super().__init__(monoid)
        self._queue = ChunkedQueue(columns, chunk_size)
        self.l = self.r = self.a = self.b = self._queue.end

    def _evict(self) -> None:
        self._queue.pop_front()
        self._fixup()

    def _fixup(self) -> None:
        """Figure 10: one step of turning l_B into l_F; no combine but those of a shrink."""
        first, end = self._queue.begin, self._queue.end
        if first == self.b:  # singleton, or empty
            self.b = self.a = self.r = self.l = end
            self._turn()
            return
        if self.l == self.b:  # flip
            self.l, self.a, self.b = first, end, end
            self._turn()
        if self.l == self.r:  # shift; without an l_R, A is where R is
            self.l = self.r = self.a = self._queue.after(self.a)
        else:
            self._shrink()

    def _turn(self) -> None:
        """What was l_B is l_F from here on, and there is no l_B."""

    @abstractmethod
    def _shrink(self) -> None:
        """The first of l_L joins the front part of l_F, the last of l_R joins l_A."""

    # --- what holds after each operation --------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """The length of each sublist; O(n)."""
        at = dict(zip("FLRABE", self._places(), strict=True))
        ends = {"F": "B", "L": "R", "R": "A", "A": "B", "B": "E"}
        return {start: at[end] - at[start] for start, end in ends.items()}

    def _places(self) -> list[int]:
        """Where F, L, R, A, B and E are, from F on; -1 for one that is not in the queue."""
        queue = self._queue
        pointers = (queue.begin, self.l, self.r, self.a, self.b, queue.end)
        order = [*queue.span(queue.begin, queue.end), queue.end]
        return [order.index(pointer) if pointer in order else -1 for pointer in pointers]

    def check(self) -> None:
        """The size invariants of Lemma 4.1."""
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
        self._fixup()

    def _shrink(self) -> None:
        """3 combines."""
        combine, aggs, sum_a = self._combine, self.aggs, self._sum_a()
        last = self._queue.before(self.a)
        aggs[self.l] = combine(combine(aggs[self.l], aggs[last]), sum_a)
        self.l = self._queue.after(self.l)
        aggs[last] = combine(self.vals[last], sum_a)
        self.a = last

    def check(self) -> None:
        """The size invariants, and the aggs invariants of section 4.2."""
        super().check()
        self._check_leftwards(self._queue.begin, self.l, self.b)
        self._check_leftwards(self.l, self.r, self.r)
        self._check_rightwards(self.r, self.a)
        self._check_leftwards(self.a, self.b, self.b)
        self._check_rightwards(self.b, self._queue.end)

    def _check_leftwards(self, start: Pointer, stop: Pointer, reach: Pointer) -> None:
        """aggs[p] = vals[p] + ... + vals[reach - 1] for p from start to stop - 1."""
        aggs, vals = self._between(self.aggs, start, stop), self._between(self.vals, start, reach)
        self._require_suffixes(aggs, vals, "an aggregate to the left")

    def _check_rightwards(self, start: Pointer, stop: Pointer) -> None:
        """aggs[p] = vals[start] + ... + vals[p] for p from start to stop - 1."""
        aggs, vals = self._between(self.aggs, start, stop), self._between(self.vals, start, stop)
        self._require_prefixes(aggs, vals, "an aggregate to the right")


class CachedDABA(DABA):
    """Worst-case O(1). Combines: query 1, insert 3, evict 2. Space: 2n + 1.

    DABA with the caching that section 4.4 of its paper mentions, as the MTA paper's experiments
    have it: between two flips a shrink needs the aggregate of l_R and l_A together, whose ends do
    not move. It is what l_B had before the flip.

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
        if self.l == self.b != self._queue.begin:  # a flip comes
            self.agg_ra = self._sum_b()
        super()._fixup()

    def _shrink(self) -> None:
        """2 combines."""
        combine, aggs, sum_a = self._combine, self.aggs, self._sum_a()
        last = self._queue.before(self.a)
        aggs[self.l] = combine(aggs[self.l], self.agg_ra)
        self.l = self._queue.after(self.l)
        aggs[last] = combine(self.vals[last], sum_a)
        self.a = last

    def check(self) -> None:
        """DABA's invariants, and the aggregate beside the queue."""
        super().check()
        if self.l != self.r:
            values = self._between(self.vals, self.r, self.b)
            self._require_same(self.agg_ra, self._fold(values), "agg_ra")


class DABALite(_Sublists):
    """Worst-case O(1). Combines: query 1, insert 3, evict 2. Space: n + 2 partials.

    Tangwongsan, Hirzel, Schneider: "In-Order Sliding-Window Aggregation in Worst-Case Constant
    Time", VLDB Journal 2021; from what is publicly known of it. Two observations spare DABA's
    second queue:

    - l_B and l_R are not asked for the aggregate at each of their elements, only for that of the
      whole: the elements stay the values that came, and the aggregates stand beside the queue;
    - between two flips a shrink needs the aggregate of l_R and l_A together, from R to B, and
      neither end moves while there is an l_R. So it is computed once: it is the agg_b before the
      flip.

        F          L          R          A          B          E
        |  ----->B | ---->R   | values   | ----->B  |  values  |     agg_ra: R to B, while there is
        |                    l_F                    |   l_B    |     an l_R; agg_b: B to E

    Joining letters:

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
        # A window with a value has one in l_F, and the first of them reaches to B.
        return self._combine(self._items[self._queue.begin], self.agg_b)

    def _insert(self, v: Partial) -> None:
        self._queue.push_back(v)
        self.agg_b = self._combine(self.agg_b, v)
        self._fixup()

    def _turn(self) -> None:
        self.agg_ra, self.agg_b = self.agg_b, self.monoid.identity

    def _shrink(self) -> None:
        """2 combines."""
        combine, items = self._combine, self._items
        sum_a = self.monoid.identity if self.a == self.b else items[self.a]
        items[self.l] = combine(items[self.l], self.agg_ra)
        self.l = self._queue.after(self.l)
        self.a = self._queue.before(self.a)
        items[self.a] = combine(items[self.a], sum_a)

    def items(self) -> list[Partial]:
        """What the queue holds, from F to E."""
        return self._between(self._items, self._queue.begin, self._queue.end)

    def check(self) -> None:
        """DABA's size invariants, and the two aggregates beside the queue."""
        super().check()
        l_b = self._between(self._items, self.b, self._queue.end)
        self._require_same(self.agg_b, self._fold(l_b), "agg_b")
        if self.l != self.r:
            l_r = self._between(self._items, self.r, self.a)
            l_a = self._between(self._items, self.a, self.b)[:1]
            self._require_exact(self.agg_ra, self._fold([*l_r, *l_a]), "agg_ra")
