"""The Imperative Okasaki Aggregator (DEBS 2017 paper, section 3.2).

IOA is FOA without lazy evaluation by the language. A list cell is either *forced* (a value, an
aggregate and a tail) or *delayed* (the arguments L, R and A of ``rot``, the only suspended
function), and is forced in place. F, N and B are overwritten, so there are no old versions. Cells
form no cycles, so CPython's reference counts release their memory.

This is state c of the paper's Figure 6. The window 6, 3, 5, 3 is F = [6, 3], B = [3, 5], and a 1
is inserted:

>>> from mta import Monoid
>>> window = IOA(Monoid(float("-inf"), max))
>>> for value in (2, 6, 3):
...     window.insert(value)
>>> window.evict()
>>> for value in (5, 3, 1):
...     window.insert(value)
>>> cells(window.front), window.back
([(6, 6), 'rot'], None)
>>> window.evict()
>>> cells(window.front), window.query()
([(3, 5), 'rot'], 5)
"""

from __future__ import annotations

from collections.abc import Iterator

from mta.in_order.base import InOrderAggregator, identical
from mta.monoids.base import AbstractMonoid, Partial


class SuspendedCell:
    """A list cell, forced or delayed. A delayed list is not empty, as rot never returns one."""

    __slots__ = ("agg", "rotating", "tail", "value")

    def __init__(
        self,
        value: Partial = None,
        agg: Partial = None,
        tail: SuspendedCell | None = None,
        rotating: tuple[SuspendedCell | None, SuspendedCell | None, SuspendedCell | None]
        | None = None,
    ) -> None:
        self.value, self.agg, self.tail = value, agg, tail
        #: L, R and A of the suspended rot that fills this cell; None in a forced cell.
        self.rotating = rotating


class IOA(InOrderAggregator):
    """Worst-case O(1). Combines: query 1, insert 4, evict 3. Space: O(n) cells."""

    name = "Imperative Okasaki Aggregator"

    def __init__(self, monoid: AbstractMonoid) -> None:
        super().__init__(monoid)
        self.front: SuspendedCell | None = None
        self.next: SuspendedCell | None = None
        self.back: SuspendedCell | None = None

    def _agg(self, cells: SuspendedCell | None) -> Partial:
        return self.monoid.identity if cells is None else cells.agg

    def _query(self) -> Partial:
        return self._combine(self._agg(self.front), self._agg(self.back))

    def _insert(self, v: Partial) -> None:
        self.back = SuspendedCell(v, self._combine(self._agg(self.back), v), self.back)
        self._makeq()

    def _evict(self) -> None:
        assert self.front is not None, "|F| >= |B|"
        self.front = self._tail(self.front)
        self._makeq()

    def _makeq(self) -> None:
        """Make one step of the rotation, or start the next one; at most 3 combines."""
        if self.next is not None:
            self.next = self._tail(self.next)
            return
        rotated = SuspendedCell(rotating=(self.front, self.back, None))
        self._force(rotated)
        self.front = self.next = rotated
        self.back = None

    def _tail(self, cell: SuspendedCell) -> SuspendedCell | None:
        """Return the list after a cell, with its first cell forced."""
        if cell.tail is not None and cell.tail.rotating is not None:
            self._force(cell.tail)
        return cell.tail

    def _force(self, cell: SuspendedCell) -> None:
        """Force a delayed cell by one step of rot."""
        assert cell.rotating is not None
        left, right, rest = cell.rotating
        assert right is not None, "|R| = |L| + 1"
        cell.rotating = None
        agg = self._combine(right.value, self._agg(rest))
        if left is None:
            cell.value, cell.agg, cell.tail = right.value, agg, rest
            return
        longer = SuspendedCell(right.value, agg, rest)
        cell.value = left.value
        cell.agg = self._combine(self._combine(left.agg, right.agg), self._agg(rest))
        cell.tail = SuspendedCell(rotating=(left.tail, right.tail, longer))

    def check(self) -> None:
        """Check Okasaki's size invariants, and the aggregate in every cell; forces no step."""
        front, back, following = map(_values, (self.front, self.back, self.next))
        self._require(len(front) + len(back) == self._size, "F and B are the window")
        self._require(len(front) >= len(back), "|F| >= |B|")
        self._require(len(following) == len(front) - len(back), "|N| = |F| - |B|")
        last = map(identical, following, front[len(front) - len(following) :])
        self._require(all(last), "the values of N are the last of F")
        aggs = [cell.agg for cell in _forced(self.front)]
        self._require_suffixes(aggs, front, "an aggregate of F")
        aggs = [cell.agg for cell in _forced(self.back)]
        self._require(len(aggs) == len(back), "no rot is suspended in B")
        self._require_prefixes(aggs[::-1], back[::-1], "an aggregate of B")


def _forced(cell: SuspendedCell | None) -> Iterator[SuspendedCell]:
    """Yield the cells of a list before the delayed cell."""
    while cell is not None and cell.rotating is None:
        yield cell
        cell = cell.tail


def _values(cells: SuspendedCell | None) -> list[Partial]:
    """Return the values of a list, including those of a suspended rot."""
    values: list[Partial] = []
    while cells is not None:
        if cells.rotating is not None:
            left, right, rest = map(_values, cells.rotating)
            return [*values, *left, *reversed(right), *rest]
        values.append(cells.value)
        cells = cells.tail
    return values


def cells(first: SuspendedCell | None) -> list[tuple[Partial, Partial] | str]:
    """Return a list: (value, aggregate) of each forced cell, 'rot' for the delayed one."""
    shown: list[tuple[Partial, Partial] | str] = [(c.value, c.agg) for c in _forced(first)]
    return shown if len(shown) == len(_values(first)) else [*shown, "rot"]
