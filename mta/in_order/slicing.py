"""Panes and pairs: windows that slide by more than one value, over aggregates of slices.

- *Panes*: Li, Maier, Tufte, Papadimos, Tucker, SIGMOD Record 2005. The length of all
  slices is the greatest common divisor of range and slide.
- *Pairs*: Krishnamurthy, Wu, Franklin, SIGMOD 2006. Slices end only where a window starts or ends:
  two per slide, of r mod s and s - r mod s values, or one if s divides r.

The PBA paper (section 2) describes both, with algorithms that combine the slices. In this module,
any in-order aggregator combines them. This is a range of 10 and a slide of 4, over letters:

    panes of 2      ab cd ef gh ij kl mn        pairs of 2 and 2      ab cd ef gh ij kl mn
    range 10, slide 7:   panes of 1             pairs of 3 and 4      abc defg hij klmn opq

>>> from mta import Monoid
>>> joined = Monoid("", lambda a, b: a + b)
>>> list(Sliced(joined, 10, 7).instances("abcdefghijklmnopq"))
[(10, 'abcdefghij'), (17, 'hijklmnopq')]
>>> panes(10, 7), pairs(10, 7), pairs(10, 5)
((1,), (3, 4), (5,))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from math import gcd
from typing import Any

from mta.columns.reading import plain
from mta.in_order.base import InOrderAggregator
from mta.in_order.two_stacks import TwoStacks
from mta.monoids.base import AbstractMonoid, Partial


def panes(range: int, slide: int) -> tuple[int, ...]:
    """Return the repeating lengths of slices for panes."""
    return (gcd(range, slide),)


def pairs(range: int, slide: int) -> tuple[int, ...]:
    """Return the repeating lengths of slices for pairs."""
    rest = range % slide
    return (rest, slide - rest) if rest else (slide,)


class Sliced:
    """Windows of the last ``range`` values over slices; one ends every ``slide`` values.

    ``cut`` is ``pairs`` or ``panes``, and ``over`` is the aggregator of slices. A value takes 1
    combine, and a slice takes an insert and an evict of ``over``. A window takes a query of
    ``over`` with range / gcd panes, or at most 2 ceil(range / slide) pairs. Raises ValueError.
    """

    def __init__(
        self,
        monoid: AbstractMonoid,
        range: int,
        slide: int,
        cut: Callable[[int, int], tuple[int, ...]] = pairs,
        over: Callable[[AbstractMonoid], InOrderAggregator] = TwoStacks,
    ) -> None:
        if not 1 <= slide <= range:
            raise ValueError(f"a slide must be from 1 to the range {range}, not {slide}")
        self.monoid, self.range, self.slide = monoid, range, slide
        self.slices = over(monoid)
        lengths = cut(range, slide)
        #: The lengths of the next slices to end, and of the next to leave.
        self._ends, self._leaves = cycle(lengths), cycle(lengths)
        self._room = next(self._ends)
        self._open: Partial = None
        self._filled = self._count = self._held = 0

    def insert(self, value: Any) -> bool:
        """Add a value; return whether a window ends with it."""
        v = self.monoid.lift(self.monoid.row(value))
        self._open = self.monoid.combine(self._open, v) if self._filled else v
        self._count, self._filled = self._count + 1, self._filled + 1
        if self._filled == self._room:
            self._end_slice()
        return self._count >= self.range and not (self._count - self.range) % self.slide

    def _end_slice(self) -> None:
        """Add the open slice to the window; remove slices that no later window contains."""
        self.slices.insert_partial(self._open)
        self._held += self._filled
        self._filled, self._room = 0, next(self._ends)
        while self._held > self.range:
            self._held -= next(self._leaves)
            self.slices.evict()

    def query(self) -> Any:
        """Return the result of the window that has just ended."""
        return self.slices.query()

    def instances(self, values: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Insert values; yield the number of values and the result at the end of each window."""
        for value in values:
            if self.insert(value):
                yield self._count, plain(self.query())
