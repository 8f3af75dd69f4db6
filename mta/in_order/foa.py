"""The Functional Okasaki Aggregator (DEBS 2017 paper, section 3.1, Figure 5).

Two-Stacks made incremental with the means of functional programming alone: lists that are never
changed, and one lazy argument. A window is a triple of lists <F, N, B>:

- F, the front: the oldest value first, each cell with the aggregate from it to the end of F;
- B, the back: the newest value first, each cell with the aggregate from the bottom of B to it;
- N, next: the part of F that is still to be looked at. When an operation finds it used up, F and B
  become ``rot(F, B, [])``: F followed by B turned round. Each step of that ``rot`` makes one cell,
  whose tail is the rest of it, suspended; looking at N's tail forces one step an operation.

Since lists are never changed, every ``Version`` of a window stays usable, at the same cost:

>>> from mta import Monoid
>>> window = FOA(Monoid("", lambda a, b: a + b))
>>> for letter in "abc":
...     window.insert(letter)
>>> before = window.version
>>> window.evict()
>>> window.insert("d")
>>> window.query(), before.query(), before.evict().query()
('bcd', 'abc', 'bc')

Invariants (Okasaki's |S| = |F| - |R| in this paper's letters; the printed line is damaged):
|F| >= |B| and |N| = |F| - |B|; at most one ``rot`` is suspended, at the end of F, and the lists it
refers to have none (Lemma 3.1). So to ask a cell for its aggregate never forces anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial


class Cell:
    """``cons(value, agg, tail)``; lazy in its tail, which is evaluated once, when it is looked at.

    The empty list is None.
    """

    __slots__ = ("_tail", "agg", "value")

    def __init__(self, value: Partial, agg: Partial, tail: List | Callable[[], List]) -> None:
        self.value, self.agg, self._tail = value, agg, tail

    @property
    def is_suspended(self) -> bool:
        """Whether the tail was not looked at yet."""
        return callable(self._tail)

    @property
    def tail(self) -> List:
        """The rest of the list; forces it."""
        if callable(self._tail):
            self._tail = self._tail()
        return self._tail

    def peek(self) -> List:
        """The rest of the list, without forcing it: for checks alone."""
        return self._tail() if callable(self._tail) else self._tail


List = Cell | None


class Version(NamedTuple):
    """A window that never changes: each operation answers a new one, and shares what it can.

    Values and results are partials here: lifted, and not lowered.
    """

    monoid: AbstractMonoid
    front: List = None
    next: List = None
    back: List = None
    size: int = 0

    def query(self) -> Partial:
        """agg(F) + agg(B); 1 combine."""
        return self.monoid.combine(self._agg(self.front), self._agg(self.back))

    def insert(self, v: Partial) -> Version:
        """The window with one more value; at most 4 combines."""
        back = Cell(v, self.monoid.combine(self._agg(self.back), v), self.back)
        return self._makeq(self.front, back, self.size + 1)

    def evict(self) -> Version:
        """The window, which must not be empty, without its oldest value; at most 3 combines."""
        assert self.front is not None, "|F| >= |B|"
        return self._makeq(self.front.tail, self.back, self.size - 1)

    def _makeq(self, front: List, back: List, size: int) -> Version:
        """One step of the rotation, or the begin of the next one."""
        if self.next is not None:
            return Version(self.monoid, front, self.next.tail, back, size)
        front = _rot(self.monoid, front, back, None)
        return Version(self.monoid, front, front, None, size)

    def _agg(self, cells: List) -> Partial:
        return self.monoid.identity if cells is None else cells.agg


def _rot(monoid: AbstractMonoid, left: List, right: List, rest: List) -> List:
    """left, then right turned round, then rest; |right| = |left| + 1. At most 3 combines."""
    assert right is not None, "|R| = |L| + 1"
    combine = monoid.combine
    agg = monoid.identity if rest is None else rest.agg
    longer = Cell(right.value, combine(right.value, agg), rest)
    if left is None:
        return longer
    whole = combine(combine(left.agg, right.agg), agg)
    return Cell(left.value, whole, lambda: _rot(monoid, left.tail, right.tail, longer))


class FOA(InOrderAggregator):
    """Worst-case O(1), persistent. Combines: query 1, insert 4, evict 3. Space: O(n) cells.

    ``version`` is the window as it is now; keep it, and it stays as it is.
    """

    name = "Functional Okasaki Aggregator"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.version = Version(monoid)

    def _query(self) -> Partial:
        return self.version.query()

    def _insert(self, v: Partial) -> None:
        self.version = self.version.insert(v)

    def _evict(self) -> None:
        self.version = self.version.evict()

    def check(self) -> None:
        """Okasaki's size invariants, and the aggregate in every cell; forces nothing."""
        now = self.version
        front, back = list(walk(now.front)), list(walk(now.back))
        following = list(walk(now.next))
        self._require(len(front) + len(back) == now.size == len(self), "F and B are the window")
        self._require(len(front) >= len(back), "|F| >= |B|")
        self._require(len(following) == len(front) - len(back), "|N| = |F| - |B|")
        self._require(not any(cell.is_suspended for cell in back), "no rot is suspended in B")
        values = [cell.value for cell in front]
        last = values[len(front) - len(following) :]
        self._require_suffixes([cell.agg for cell in following], last, "N in F")
        self._require_suffixes([cell.agg for cell in front], values, "an aggregate of F")
        back.reverse()
        values = [cell.value for cell in back]
        self._require_prefixes([cell.agg for cell in back], values, "an aggregate of B")


def walk(cells: List) -> Iterator[Cell]:
    """The cells of a list, as they are or as they would be; forces nothing."""
    while cells is not None:
        yield cells
        cells = cells.peek()
