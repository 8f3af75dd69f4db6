"""DABA Lite: DABA in one queue of n partials and two more.

Tangwongsan, Hirzel, Schneider: "In-Order Sliding-Window Aggregation in Worst-Case Constant Time",
VLDB Journal 2021; from what is publicly known of it. Two observations spare DABA's second queue:

- l_B and l_R are not asked for the aggregate at each of their elements, only for that of the whole:
  the elements stay the values that came, and the aggregates stand beside the queue;
- between two flips a shrink needs the aggregate of l_R and l_A together, from R to B, and neither
  end moves while there is an l_R. So it is computed once: it is the agg_b before the flip.

    F          L          R          A          B          E
    |  ----->B | ---->R   | values   | ----->B  |  values  |     agg_ra: R to B, while there is an
    |                    l_F                    |   l_B    |     l_R; agg_b: B to E

The size invariants are DABA's. Joining letters:

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

from __future__ import annotations

from mta.in_order.base import InOrderAggregator
from mta.in_order.chunked_queue import ChunkedQueue, Pointer
from mta.monoids.base import AbstractMonoid, Partial


class DABALite(InOrderAggregator):
    """Worst-case O(1). Combines: query 1, insert 3, evict 2. Space: n + 2 partials.

    ``chunk_size`` is how many elements a chunk of the queue holds.
    """

    name = "DABA Lite"

    def __init__(self, monoid: AbstractMonoid, chunk_size: int = 64) -> None:
        super().__init__(monoid)
        self._queue = ChunkedQueue(chunk_size=chunk_size)
        (self._items,) = self._queue.columns
        self._size = 0
        self.l = self.r = self.a = self.b = self._queue.end
        self.agg_ra: Partial = monoid.identity
        self.agg_b: Partial = monoid.identity

    def __len__(self) -> int:
        return self._size

    def _query(self) -> Partial:
        # A window with a value has one in l_F, and the first of them reaches to B.
        return self._combine(self._items[self._queue.begin], self.agg_b)

    def _insert(self, v: Partial) -> None:
        self._queue.push_back(v)
        self._size += 1
        self.agg_b = self._combine(self.agg_b, v)
        self._fixup()

    def _evict(self) -> None:
        self._queue.pop_front()
        self._size -= 1
        self._fixup()

    def _fixup(self) -> None:
        """One step of turning l_B into l_F; at most 2 combines."""
        first, end = self._queue.begin, self._queue.end
        if first == self.b:  # singleton, or empty
            self.b = self.a = self.r = self.l = end
            self.agg_ra = self.agg_b = self.monoid.identity
            return
        if self.l == self.b:  # flip
            self.l, self.a, self.b = first, end, end
            self.agg_ra, self.agg_b = self.agg_b, self.monoid.identity
        if self.l == self.r:  # shift; without an l_R, A is where R is
            self.l = self.r = self.a = self._queue.after(self.a)
        else:
            self._shrink()

    def _shrink(self) -> None:
        """The first of l_L joins the front part of l_F, the last of l_R joins l_A; 2 combines."""
        combine, items = self._combine, self._items
        sum_a = self.monoid.identity if self.a == self.b else items[self.a]
        items[self.l] = combine(items[self.l], self.agg_ra)
        self.l = self._queue.after(self.l)
        self.a = self._queue.before(self.a)
        items[self.a] = combine(items[self.a], sum_a)

    # --- what holds after each operation --------------------------------------------------------

    def items(self) -> list[Partial]:
        """What the queue holds, from F to E."""
        return [self._items[p] for p in self._queue.span(self._queue.begin, self._queue.end)]

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
        """DABA's size invariants, one partial a value, and the two aggregates beside the queue."""
        places, n = self._places(), self.sizes()
        self._require(places == sorted(places) and places[0] == 0, "F <= L <= R <= A <= B <= E")
        self._require(n["F"] + n["B"] == self._size, "l_F and l_B are the window")
        if self._size:
            ahead = n["L"] + n["R"] + n["A"] + 1
            self._require(ahead == n["F"] - n["B"], "|l_L| + |l_R| + |l_A| + 1 = |l_F| - |l_B|")
            self._require(n["L"] == n["R"], "|l_L| = |l_R|")
        self._require_same(self.agg_b, self._fold(self._between(self.b, self._queue.end)), "agg_b")
        if self.l != self.r:
            to_b = self._fold([*self._between(self.r, self.a), *self._between(self.a, self.b)[:1]])
            self._require_exact(self.agg_ra, to_b, "agg_ra")

    def _between(self, start: Pointer, stop: Pointer) -> list[Partial]:
        return [self._items[p] for p in self._queue.span(start, stop)]
