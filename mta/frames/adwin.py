"""ADWIN: a window that lasts as long as its mean does not change (Bifet and Gavalda 2007).

The MTA paper (section 2) calls ADWIN "an adapted MTA WSP that compares the average value between
subwindows, and the monoid aggregator as the guest algorithm". When an older and a newer part of the
window have very different means, the older part is evicted in bulk.

    0.1 0.1 0.2 0.1 0.1 ... | 0.8 0.9 0.8 0.9 ...      means 0.1 and 0.85: evicts the left part
       older: n0, mean0         newer: n1, mean1

    |mean0 - mean1| >= sqrt(2/m variance ln(2/d)) + 2/(3m) ln(2/d),   1/m = 1/n0 + 1/n1

Here, d = confidence / ln n, as in the second algorithm of the authors. Like theirs, this algorithm
tries O(log n) ways to split the window. They split at the ends of an exponential histogram's
buckets. This module tries newer parts of 8, 12, 16, 24, 32, ... events, whose aggregates are exact,
so windows do not depend on the aggregator, on batches or on restores.
"""

from __future__ import annotations

import math
from typing import Any

from mta.frames.base import Frame, View
from mta.monoids.base import AbstractMonoid
from mta.monoids.deviations import Moments
from mta.monoids.product import Columns
from mta.times import to_count

#: Parts with fewer events are not compared.
_LEAST = 8
#: The number of events, their mean, and the sum of squared distances from the mean.
_Moments = tuple[float, float, float]


class ADWIN(Frame):
    """The newest events, back to the last change of their mean.

    After the mean changes by e, ADWIN evicts the older events within O(ln(1/confidence) / e^2)
    events.

    Args:
        confidence: The probability of detecting a change if there is none.
        column: The column to test, if events have several columns.
        span: The maximum difference between two values.
        clock: The number of events from one test for a change to the next. A test costs O(log n)
            searches for the end of a prefix.

    >>> from mta import Mean, Window
    >>> window = Window(Mean(), ADWIN(clock=1), name="drift")
    >>> means = window.extend([0.1, 0.3] * 100 + [0.7, 0.9] * 20)
    >>> round(float(means[199]), 3), round(float(means[-1]), 3), len(window)
    (0.2, 0.8, 40)
    """

    def __init__(
        self,
        confidence: float = 0.002,
        column: str | None = None,
        span: float = 1.0,
        clock: int = 32,
    ) -> None:
        if not 0 < confidence < 1:
            raise ValueError(f"a confidence is between 0 and 1, not {confidence!r}")
        if not 0 < span < math.inf:
            raise ValueError(f"a span is a positive number, not {span!r}")
        self.confidence, self.span = float(confidence), float(span)
        self.clock = to_count(clock, "a clock", 1)
        self._on: tuple[Columns, AbstractMonoid] = column, Moments()

    @property
    def observers(self) -> tuple[tuple[Frame, Columns, AbstractMonoid], ...]:
        return ((self, *self._on),)

    def cut(self, view: View, time: int | None) -> int:
        if view.back % self.clock:
            return 0
        whole, cut = _floats(view.total(self)), 0
        for size in _sizes(int(whole[0])):
            if whole[0] - size < _LEAST:
                continue
            newer, position = self._newest(view, size)
            if self._differ(whole, newer):
                whole, cut = newer, position
        return cut

    def _newest(self, view: View, size: int) -> tuple[_Moments, int]:
        """Return the moments of the ``size`` newest events, and the position where they start."""
        found = 0.0, 0.0, 0.0

        def accepts(part: Any) -> bool:
            nonlocal found
            if found[0] < part[0] <= size:
                found = _floats(part)
            return bool(part[0] <= size)

        position = view.longest_suffix(self, accepts)
        return found, position

    def _differ(self, whole: _Moments, newer: _Moments) -> bool:
        """Return whether the older and the newer part of the window have different means."""
        count, mean, squares = whole
        older = count - newer[0]
        distance = abs((count * mean - newer[0] * newer[1]) / older - newer[1])
        doubt = math.log(2 * math.log(count) / self.confidence)
        parts = 1 / older + 1 / newer[0]
        least = math.sqrt(2 * parts * max(squares, 0.0) / count * doubt)
        return distance >= least + 2 / 3 * parts * doubt * self.span

    def describe(self) -> str:
        column, values = self._on[0], (self.confidence, self.span, self.clock)
        return f"ADWIN({', '.join(f'{value:g}' for value in values)}, {column or 'the value'})"


def _floats(moments: Any) -> _Moments:
    count, mean, squares = map(float, moments)
    return count, mean, squares


def _sizes(count: int) -> list[int]:
    """Return the sizes of the newer parts to compare, the largest first.

    >>> _sizes(40)
    [32, 24, 16, 12, 8]
    """
    sizes = [_LEAST]
    while sizes[0] <= count - _LEAST:
        sizes.insert(0, sizes[0] // 2 * 3 if sizes[0] & (sizes[0] - 1) == 0 else sizes[0] // 3 * 4)
    return sizes[1:]
