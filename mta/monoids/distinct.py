"""Exact distinct counts and most frequent values; see ``mta.monoids.holistic``.

Values have the type of their column, or ``dtype``; if neither is known, they are text or other
objects. Where windows compute results from ranges of events (``mta.monoids.ranges``), a result of
ExactDistinctCount, Mode or SumDistinct costs 2 to 4 us, whatever the size of the window. Other
results, and results of a window that gets few events at a time, cost O(n) for a window of n events.
DistinctCount and FrequentItems give approximate results in bounded space.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from heapq import heappop, heappush, nsmallest
from itertools import filterfalse, pairwise
from typing import Any

import numpy as np

from mta.columns.reading import missing, plain
from mta.columns.schemas import DIGITS, Array, Decimals, LongDecimals, Row, Rows
from mta.columns.texts import NULL, TextColumn, Words
from mta.errors import InvalidValue
from mta.kernels.native import spread
from mta.monoids.base import AbstractMonoid, any_of
from mta.monoids.columnar import addable, empty_of, outputs_of
from mta.monoids.holistic import SortedRuns, ValueMonoid
from mta.monoids.ranges import RangeFolds, Tallies, distinct_counts, slide, tallies

#: So few values are sorted faster than the best of them are chosen.
_FEW = 64
#: Every double is a multiple of 2^-1074.
_SMALLEST = 1074


class ExactDistinctCount(ValueMonoid[int]):
    """The exact number of distinct values in the window; 0 for an empty window.

    Args:
        dtype: A numpy type, ``Decimals(places)`` or ``str``. Defaults to the type of the column if
            the window knows it, and otherwise to text or other objects that Python can order.

    >>> from mta import CountWindow, Window
    >>> Window(ExactDistinctCount(), CountWindow(3), name="users").extend("abbac").tolist()
    [1, 2, 2, 2, 3]
    """

    never_null = True

    def __init__(self, dtype: Any = None) -> None:
        super().__init__("ExactDistinctCount", dtype, empty=0, result_type="bigint")
        self.outputs = Array("i8").as_plain()

    def answer(self, summary: SortedRuns) -> int:
        return len(self.counts(summary)[0])

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        _, codes, folds = self.codes(folds)
        return distinct_counts(codes, folds.starts, folds.stops)


class Mode(ValueMonoid[Any]):
    """The most frequent value; the smallest wins a tie. Empty windows return what ``First`` does.

    Args:
        dtype: A numpy type, ``Decimals(places)`` or ``str``. Defaults to the type of the column if
            the window knows it, and otherwise to text or other objects that Python can order.

    >>> from mta import CountWindow, Window
    >>> list(Window(Mode(), CountWindow(4), name="mode").extend("abbaac"))
    ['a', 'a', 'b', 'a', 'a', 'a']
    """

    def __init__(self, dtype: Any = None) -> None:
        super().__init__("Mode", dtype)
        self.follows_column = dtype is None
        if isinstance(self.inputs, Array):
            self.outputs = outputs_of(self.inputs)
            self.empty = empty_of(self.inputs, 0)

    def answer(self, summary: SortedRuns) -> Any:
        values, counts = self.counts(summary)
        return self.shown(values[int(np.argmax(counts))])

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        values, codes, within = self.codes(folds)
        if values is None:
            return super().lower_ranges(folds)
        width = len(values)
        tallied = tallies(codes, width, within)
        if tallied is not None:
            of, codes, counts = tallied
            first = np.flatnonzero(np.diff(of, prepend=-1))
            places = np.full(len(within), width)
            if len(of):  # the largest count wins, then the smallest code
                best = np.maximum.reduceat(counts * width - codes, first)
                places[of[first]] = -best % width
            return self._at(values, places)
        most = _MostFrequentCode(width)
        steps = slide(within, codes.tolist(), most.add, most.take)
        best_codes = [most.code if most.count else width for _ in steps]
        return self._at(values, np.array(best_codes, np.int64))

    def _at(self, values: Any, places: np.ndarray) -> Rows:
        """Return values as results; the place after the last one stands for no value."""
        if isinstance(values, Words) and self.empty is None:
            return TextColumn(np.where(places < len(values), places, NULL), values)
        shown = [*self.all_shown(values), self.empty]
        return list(map(shown.__getitem__, places.tolist()))


class _MostFrequentCode:
    """The smallest of the most frequent codes, while codes are added and removed; O(log n) each."""

    def __init__(self, distinct: int) -> None:
        self._counts = [0] * distinct
        #: For each count, a heap of the codes that have had it, with outdated ones.
        self._codes: list[list[int]] = [[]]
        #: The count of the most frequent code.
        self.count = 0

    def add(self, code: int) -> None:
        self._counts[code] = count = self._counts[code] + 1
        if count == len(self._codes):
            self._codes.append([])
        heappush(self._codes[count], code)
        self.count = max(self.count, count)

    def take(self, code: int) -> None:
        self._counts[code] = count = self._counts[code] - 1
        if count:
            heappush(self._codes[count], code)
        self._drop()

    @property
    def code(self) -> int:
        """The most frequent code; requires a positive ``count``."""
        self._drop()
        return self._codes[self.count][0]

    def _drop(self) -> None:
        """Pop outdated codes off the top of the heaps."""
        while self.count:
            codes = self._codes[self.count]
            while codes and self._counts[codes[0]] != self.count:
                heappop(codes)
            if codes:
                return
            self.count -= 1


class MostFrequent(ValueMonoid[list[tuple[Any, int]]]):
    """The k most frequent values, as a list of (value, count); [] for an empty window.

    The most frequent value comes first; of equally frequent values, the smallest. A result costs
    O(distinct values).

    Args:
        k: The number of values, at least 1.
        dtype: A numpy type, ``Decimals(places)`` or ``str``. Defaults to the type of the column if
            the window knows it, and otherwise to text or other objects that Python can order.

    >>> from mta import CountWindow, Window
    >>> Window(MostFrequent(2), CountWindow(5), name="top").extend("abbca", emit="last")[0]
    [('a', 2), ('b', 2)]
    """

    never_null = True

    def __init__(self, k: int = 1, dtype: Any = None) -> None:
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, not {k!r}")
        self.k = k
        result_type = f"array<struct<value: {_sql_type(dtype)}, count: bigint>>"
        super().__init__(f"MostFrequent({k})", dtype, [], result_type)

    def with_type(self, dtype: Any) -> AbstractMonoid:
        return MostFrequent(self.k, dtype)

    def answer(self, summary: SortedRuns) -> list[tuple[Any, int]]:
        values, counts = self.counts(summary)
        order = np.argsort(-counts, kind="stable")[: self.k].tolist()
        return [(self.shown(values[at]), int(counts[at])) for at in order]

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        values, codes, within = self.codes(folds)
        if values is None:
            return super().lower_ranges(folds)
        shown, width = self.all_shown(values), len(values)
        tallied = tallies(codes, width, within)
        if tallied is not None:
            return self._best(tallied, shown, len(within))
        counts: Counter[int] = Counter()

        def take(code: int) -> None:
            counts[code] -= 1
            if not counts[code]:
                del counts[code]

        def add(code: int) -> None:
            counts[code] += 1

        found = []
        for _ in slide(within, codes.tolist(), add, take):
            # One number per value, in the order of results: the count, then the code.
            ranks = [code - count * width for code, count in counts.items()]
            best = sorted(ranks)[: self.k] if len(ranks) < _FEW else nsmallest(self.k, ranks)
            found.append([(shown[rank % width], -(rank // width)) for rank in best])
        return found

    def _best(self, tallied: Tallies, shown: list[Any], ranges: int) -> Rows:
        """Return the most frequent values of each range."""
        of, codes, counts = tallied
        width, most = len(shown), int(counts.max(initial=0))
        span = (most + 1) * width
        ranks = np.sort(of * span + (most - counts) * width + codes)
        bounds = np.searchsorted(ranks, np.arange(ranges + 1) * span)
        sizes = np.minimum(np.diff(bounds), self.k)
        ranks = ranks[spread(bounds[:-1], sizes)] % span
        values = map(shown.__getitem__, (ranks % width).tolist())
        pairs = list(zip(values, (most - ranks // width).tolist(), strict=True))
        ends = np.cumsum(sizes).tolist()
        return [pairs[start:stop] for start, stop in pairwise([0, *ends])]


class SumDistinct(ValueMonoid[Any]):
    """The sum of the distinct values of the window; infinities are rejected, like NaN.

    The sum of integers or decimals is exact; the sum of doubles is rounded once. With
    ``nulls="accept"``, NaN and infinities are added as in floating-point arithmetic.

    Args:
        dtype: A numpy type such as "int64", or ``Decimals(places)``. Defaults to the column's type
            in ``rolling`` and Spark, and to float64 elsewhere.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import SumDistinct
    >>> Window(SumDistinct(), CountWindow(3)).extend([1.0, 1.0, 2.0, 4.0]).tolist()
    [1.0, 1.0, 3.0, 7.0]
    """

    def __init__(self, dtype: Any = None) -> None:
        if dtype is str:
            raise InvalidValue("a sum needs numbers, not text: convert the column first")
        kind = dtype if isinstance(dtype, LongDecimals) else addable(dtype)
        is_decimal = isinstance(kind, (Decimals, LongDecimals))
        whole = isinstance(kind, LongDecimals) or kind.dtype.kind != "f"
        result_type = None if is_decimal else "bigint" if whole else "double"
        super().__init__("SumDistinct", kind, result_type=result_type)
        self._follows, self._whole = dtype is None, whole
        self.empty = self._result_of(0)

    def with_type(self, dtype: Any) -> AbstractMonoid:
        return SumDistinct("int64" if dtype == "bool" else dtype)

    def is_valid(self, row: Row) -> bool:
        return row is not None if self._whole else bool(np.isfinite(row))

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        if isinstance(rows, list):
            return missing(rows)
        return None if self._whole else any_of([~np.isfinite(rows)])

    def answer(self, summary: SortedRuns) -> Any:
        values = list(map(plain, self.counts(summary)[0]))
        odd = () if self._whole else filterfalse(math.isfinite, values)
        return self._result_of(sum(map(self._exact, values)), odd)

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        values, codes, folds = self.codes(folds)
        values = list(map(plain, values))
        exact, counts, total = [self._exact(value) for value in values], Counter[int](), 0
        odd = {
            code: value for code, value in enumerate(values)
            if not self._whole and not math.isfinite(value)
        }  # fmt: skip

        def add(code: int) -> None:
            nonlocal total
            counts[code] += 1
            if counts[code] == 1:
                total += exact[code]

        def take(code: int) -> None:
            nonlocal total
            counts[code] -= 1
            if not counts[code]:
                total -= exact[code]

        return [
            self._result_of(total, [value for code, value in odd.items() if counts[code]])
            for _ in slide(folds, codes.tolist(), add, take)
        ]

    def _exact(self, value: Any) -> int:
        """Convert a value to an integer; a double to a multiple of the smallest double.

        NaN and infinities count as 0 here.
        """
        if self._whole:
            return int(value)
        if not math.isfinite(value):
            return 0
        numerator, denominator = float(value).as_integer_ratio()
        return numerator << (_SMALLEST - denominator.bit_length() + 1)

    def _result_of(self, total: int, odd: Iterable[float] = ()) -> Any:
        """Convert a sum of ``_exact`` values to a result; ``odd`` values are not finite."""
        if isinstance(self.inputs, (Decimals, LongDecimals)):
            return DIGITS.scaleb(Decimal(total), -self.inputs.places)
        if self._whole:
            return total
        if values := list(odd):
            return sum(values)
        try:
            return total / (1 << _SMALLEST)
        except OverflowError:
            return math.inf if total > 0 else -math.inf


class Entropy(ValueMonoid[float]):
    """The Shannon entropy of the values of the window, in bits; 0.0 for an empty window.

    Args:
        dtype: A numpy type, ``Decimals(places)`` or ``str``. Defaults to the type of the column if
            the window knows it, and otherwise to text or other objects that Python can order.

    >>> from mta import CountWindow, Window
    >>> from mta.aggregations import Entropy
    >>> Window(Entropy(), CountWindow(4), name="entropy").extend("aabb").round(6).tolist()
    [0.0, 0.0, 0.918296, 1.0]
    """

    def __init__(self, dtype: Any = None) -> None:
        super().__init__("Entropy", dtype, 0.0, "double")

    def answer(self, summary: SortedRuns) -> float:
        return self._of_counts(self.counts(summary)[1])

    def lower_ranges(self, folds: RangeFolds) -> Rows:
        _, codes, folds = self.codes(folds)
        counts = np.zeros(int(codes.max(initial=0)) + 1, np.int64)

        def add(code: int) -> None:
            counts[code] += 1

        def take(code: int) -> None:
            counts[code] -= 1

        return [
            self._of_counts(counts[counts > 0]) for _ in slide(folds, codes.tolist(), add, take)
        ]

    def _of_counts(self, counts: np.ndarray) -> float:
        parts = counts / max(int(counts.sum()), 1)
        return float(-(parts * np.log2(parts)).sum()) + 0.0


def _sql_type(dtype: Any) -> str:
    if isinstance(dtype, (Decimals, LongDecimals)):
        return f"decimal(38,{dtype.places})"
    if dtype in (None, str):
        return "string"
    return {"i": "bigint", "u": "bigint", "M": "timestamp"}.get(np.dtype(dtype).kind, "double")
