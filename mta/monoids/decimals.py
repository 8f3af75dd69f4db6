"""Sums of decimals of more than 18 digits.

Decimals of up to 18 digits are 64-bit integers, which ``CheckedSum`` adds. Longer ones are Python
integers that count units of their last place (``LongDecimals``). Under many keys, the sum of a
range of rows is the difference of two running sums: integers are never rounded.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import accumulate
from operator import add, sub

from mta.columns.schemas import LongDecimals, Objects, Rows
from mta.monoids.ranges import RangeFolds, RangeMonoid


class LongSum(RangeMonoid[Decimal]):
    """The exact sum of decimals of up to 76 digits.

    Args:
        kind: The type of the values.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import LongDecimals, LongSum
    >>> window = Window(LongSum(LongDecimals(1)), CountWindow(2), name="LongSum")
    >>> window.extend([10**20, Decimal("0.5")]).tolist()
    [Decimal('100000000000000000000.0'), Decimal('100000000000000000000.5')]
    """

    folds_ranges = False  # one addition per event costs less in a single window

    def __init__(self, kind: LongDecimals) -> None:
        super().__init__(0, add, name="LongSum", commutative=True, inverse=sub)
        self.partials = Objects(int)
        self._read_as(kind)

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        before = list(accumulate(folds.lifted, initial=0))
        pairs = zip(folds.starts.tolist(), folds.stops.tolist(), strict=True)
        return [before[stop] - before[start] for start, stop in pairs]
