"""The Functional Okasaki Aggregator (DEBS 2017 paper, section 3.1, Figure 5).

FOA makes Two-Stacks incremental by purely functional means: immutable lists, and one lazy argument.
A window is a triple of lists <F, N, B>:

- F, the front: the oldest value first, each cell with the aggregate from its value to the end of F;
- B, the back: the newest value first, each cell with the aggregate from the bottom of B to its
  value;
- N, next: the part of F that is not forced yet. When N is empty, F and B become ``rot(F, B, [])``:
  F, followed by B in reverse order. Each step of ``rot`` creates one cell, whose tail is the
  suspended rest. Each operation forces one step by reading the tail of N.

Lists never change, so every ``Version`` of a window stays usable at the same cost:

>>> from mta import Monoid
>>> window = FOA(Monoid("", lambda a, b: a + b))
>>> for letter in "abc":
...     window.insert(letter)
>>> before = window.version
>>> window.evict()
>>> window.insert("d")
>>> window.query(), before.query(), before.evict().query()
('bcd', 'abc', 'bc')

Invariants: |F| >= |B| and |N| = |F| - |B| (Okasaki's |S| = |F| - |R| in this paper's letters; the
printed line is damaged). At most one ``rot`` is suspended, at the end of F, and the lists that it
refers to have none (Lemma 3.1). So reading the aggregate of a cell never forces a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mta.in_order.base import InOrderAggregator
from mta.monoids.base import AbstractMonoid, Partial


class Cell:
    """``cons(value, agg, tail)`` with a lazy tail, evaluated once; the empty list is None."""

    __slots__ = ("_tail", "agg", "value")

    def __init__(self, value: Partial, agg: Partial, tail: List | Callable[[], List]) -> None:
        self.value, self.agg, self._tail = value, agg, tail

    @property
    def is_suspended(self) -> bool:
        """Return whether the tail was not read yet."""
        return callable(self._tail)

    @property
    def tail(self) -> List:
        """Return the rest of the list; forces it."""
        if callable(self._tail):
            self._tail = self._tail()
        return self._tail

    def peek(self) -> List:
        """Return the rest of the list without forcing it; only for checks."""
        return self._tail() if callable(self._tail) else self._tail


List = Cell | None


class Version(NamedTuple):
    """An immutable window of partials; operations return new windows that share most cells."""

    monoid: AbstractMonoid
    front: List = None
    next: List = None
    back: List = None
    size: int = 0

    def query(self) -> Partial:
        """Return agg(F) + agg(B); 1 combine."""
        return self.monoid.combine(self._agg(self.front), self._agg(self.back))

    def insert(self, v: Partial) -> Version:
        """Return the window with one more value; at most 4 combines."""
        back = Cell(v, self.monoid.combine(self._agg(self.back), v), self.back)
        return self._makeq(self.front, back, self.size + 1)

    def evict(self) -> Version:
        """Return the window without its oldest value, which must exist; at most 3 combines."""
        assert self.front is not None, "|F| >= |B|"
        return self._makeq(self.front.tail, self.back, self.size - 1)

    def _makeq(self, front: List, back: List, size: int) -> Version:
        """Make one step of the rotation, or start the next rotation."""
        if self.next is not None:
            return Version(self.monoid, front, self.next.tail, back, size)
        front = _rot(self.monoid, front, back, None)
        return Version(self.monoid, front, front, None, size)

    def _agg(self, cells: List) -> Partial:
        return self.monoid.identity if cells is None else cells.agg


def _rot(monoid: AbstractMonoid, left: List, right: List, rest: List) -> List:
    """Return left, reversed right, then rest; |right| = |left| + 1. At most 3 combines."""
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

    ``version`` is the current window, which never changes.
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
        """Check Okasaki's size invariants, and the aggregate in every cell; forces no step."""
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
    """Yield the cells of a list, with those that are not forced yet; forces no step."""
    while cells is not None:
        yield cells
        cells = cells.peek()
