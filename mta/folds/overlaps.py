"""Folds of ranges of rows where a row may be folded in twice: maximum, minimum, and, or.

With such operations any range is two blocks of one size, which may overlap (a *sparse table*, as
for range minimum queries: Bender and Farach-Colton, The LCA Problem Revisited, LATIN 2000):

    rows     a b c d e f g        blocks of 4   abcd bcde cdef defg
    [1, 7)   bcde . defg          d and e are folded in twice, which changes nothing

So a range takes one combine, whatever its length, and blocks of 2^k rows take k whole-group
combines of all rows at once. ``Blocks`` does the same for any operation, at a scan in each
direction, which a processor takes ten times as long for as for such a combine.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.fronts import EachFront, TimeFronts, rows_at
from mta.folds.scans import join_blocks
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.parts import Parts

#: f(a, a) is a.
_IDEMPOTENT = {
    np.maximum, np.minimum, np.fmax, np.fmin,
    np.bitwise_and, np.bitwise_or, np.logical_and, np.logical_or,
}  # fmt: skip
#: Of prefixes and suffixes, blocks have at least 2^7 rows.
_LEAST_BITS = 7
#: Of ranges that are not searched for yet, so many in the length of one tell those of the others,
#: unless that is more than one of so many.
_SAMPLED, _LEAST_STEP = 16, 4


def may_overlap(monoid: AbstractMonoid) -> bool:
    """Whether the ufuncs of a monoid take a row twice as they take it once."""
    if isinstance(monoid, Parts):
        return all(map(may_overlap, monoid.monoids))
    ufuncs = monoid.ufuncs if isinstance(monoid, ColumnarMonoid) else None
    return ufuncs is not None and _IDEMPOTENT.issuperset(ufuncs)


class Overlaps:
    """Rows, and the folds of as many rows from each one on as have been asked for."""

    def __init__(self, monoid: AbstractMonoid, partials: Rows, count: int) -> None:
        self.monoid, self.count = monoid, count
        #: The folds of 2^k rows from each row on, by k.
        self._levels: dict[int, Rows] = {0: partials}

    @cached_property
    def _ends(self) -> np.ndarray:
        """Where ranges that end with each row stop."""
        return np.arange(1, self.count + 1)

    def folds(self, starts: EachFront, first: int) -> Rows:
        """The folds from each start, which never decrease, to the rows from the ``first`` on.

        One combine a range; blocks of the longest range's size, one a row for each doubling, once.

        >>> from mta import Max
        >>> rows = Overlaps(Max(), np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]), 7)
        >>> rows.folds(np.array([0, 1, 3, 6]), first=3).tolist()
        [4.0, 5.0, 9.0, 2.0]
        """
        if isinstance(starts, range):
            return self._of_length(starts, first, first + 1 - starts.start)
        if isinstance(starts, TimeFronts):
            least, most = self._lengths_within(starts, first)
            if most <= 2 * least:
                return self._of_length(starts, first, most)
            return self.folds(starts.known(), first)
        ends = self._ends[first : first + len(starts)]
        lengths = ends - starts
        least, most = int(lengths.min()), int(lengths.max())
        if most <= 2 * least:
            return self._of_length(starts, first, most)
        schema, found = self.monoid.partials, self.monoid.partials.new(len(starts))
        for bits in range(least.bit_length() - 1, most.bit_length()):
            some = np.flatnonzero(lengths >> bits == 1)
            rows = self._level(bits)
            lefts = schema.take(rows, starts[some])
            rights = schema.take(rows, ends[some] - (1 << bits))
            schema.put_at(found, some, self.monoid.combine_rows(lefts, rights, len(some)))
        return found

    def _lengths_within(self, starts: TimeFronts, first: int) -> tuple[int, int]:
        """Between which lengths all ranges are, as some tell; a search for each of these."""
        last = len(starts) - 1
        step = (first + 1 - starts[0] + first + 1 + last - starts[last]) // (2 * _SAMPLED)
        if step < _LEAST_STEP:
            return 0, len(starts)
        places = np.append(np.arange(0, last, step), last)
        known, ends = starts.some(places), places + first + 1
        least = min(int((ends[:-1] - known[1:]).min(initial=ends[0])), int(ends[-1] - known[-1]))
        most = max(int((ends[1:] - known[:-1]).max(initial=0)), int(ends[0] - known[0]))
        return least, most

    def _of_length(self, starts: EachFront, first: int, most: int) -> Rows:
        """As ``folds``, for ranges of at most so many rows, and none half as long."""
        schema, count, size = self.monoid.partials, len(starts), (most + 1) // 2
        rows = self._folds_of(size)
        rights = schema.cut(rows, first + 1 - size, first + 1 - size + count)
        return self.monoid.combine_rows(rows_at(self.monoid, rows, starts, 0), rights, count)

    def _folds_of(self, size: int) -> Rows:
        """The folds of so many rows from each row on that has as many."""
        bits = size.bit_length() - 1
        rows, more = self._level(bits), size - (1 << bits)
        return self._paired(rows, more, self.count + 1 - size) if more else rows

    def _level(self, bits: int) -> Rows:
        """The folds of 2^bits rows from each row on that has as many; a combine a row for each."""
        rows = self._levels.get(bits)
        if rows is None:
            below, half = self._level(bits - 1), 1 << bits - 1
            rows = self._levels[bits] = self._paired(below, half, self.count + 1 - 2 * half)
        return rows

    def _paired(self, rows: Rows, apart: int, count: int) -> Rows:
        """Every row with the one so far behind it."""
        schema = self.monoid.partials
        pair = schema.cut(rows, 0, count), schema.cut(rows, apart, apart + count)
        return self.monoid.combine_rows(*pair, count)

    # --- from the beginning, and to the end -------------------------------------------------------

    def _largest(self) -> int:
        """The largest blocks there are, or that are worth while, as a power of two."""
        return min(max(*self._levels, _LEAST_BITS), self.count.bit_length() - 1)

    def prefixes_of_all(self) -> Rows:
        """The folds of the first 1, 2, ... rows; one combine a row.

        Of a block that ends at the row, and of the whole blocks from the beginning to it.
        """
        monoid, schema, bits = self.monoid, self.monoid.partials, self._largest()
        rows, size, count = self._level(bits), 1 << bits, self.count + 1 - (1 << bits)
        wholes = schema.take(rows, np.arange(0, count, size))
        before = monoid.prefixes(wholes, -(-count // size), monoid.identity)
        found, few = schema.new(self.count), schema.cut(self._levels[0], 0, size - 1)
        schema.put_many(found, 0, monoid.prefixes(few, size - 1, monoid.identity))
        joined = join_blocks(monoid, before, rows, count, size, backwards=False)
        schema.put_many(found, size - 1, joined)
        return found

    def suffixes_of_all(self, start: int, right: Partial) -> Rows:
        """The folds of the rows from ``start`` on, and from each one after it, with ``right``.

        One combine a row: of a block that begins at the row, and of the whole blocks after it.
        """
        monoid, schema, bits = self.monoid, self.monoid.partials, self._largest()
        rows, size, last = self._level(bits), 1 << bits, self.count + 1 - (1 << bits)
        tail = max(start, last)
        few = schema.cut(self._levels[0], tail, self.count)
        ending = monoid.suffixes(few, self.count - tail, right)
        if start >= last:
            return ending
        first, multiple = start >> bits << bits, self.count >> bits << bits
        wholes = np.arange(first + size, last, size)
        base = schema.at(ending, multiple - tail)
        after = monoid.suffixes(schema.take(rows, wholes), len(wholes), base)
        beginning = schema.cut(rows, first, last)
        joined = join_blocks(monoid, after, beginning, last - first, size, backwards=True)
        found = schema.new(self.count - start)
        schema.put_many(found, 0, schema.cut(joined, start - first, last - first))
        schema.put_many(found, last - start, schema.cut(ending, 0, self.count - last))
        return found
