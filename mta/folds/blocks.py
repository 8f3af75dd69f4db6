"""Folds of many ranges of rows, of any length, by prefix and suffix folds within blocks.

    rows          a b c | d e f | g h i | j k         blocks of 3
    prefixes      a ab abc | d de def | g gh ghi | j jk
    suffixes      abc bc c | def ef f | ghi hi i | jk k
    [1, 8)        bc . def . gh                       suffix, whole blocks between, prefix

The ranges of a sliding window only move to the right, and so do the pairs of blocks in which they
start and end. The folds of the whole blocks between are therefore few, at most two per block. A
range across blocks costs two combines, whatever its length. ``fold_ranges`` folds those within one
block.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mta.columns.schemas import Rows
from mta.kernels import native
from mta.kernels.native import accumulate_blocks
from mta.monoids.base import AbstractMonoid
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.parts import Parts

#: The logarithms of block sizes: if one call scans a column, or advances all blocks by a row.
_SCANNED, _IN_STEP = 7, 3


class Blocks:
    """Rows, and the folds within their blocks, computed on first use."""

    def __init__(
        self, monoid: AbstractMonoid, partials: Rows, count: int, bits: int | None = None
    ) -> None:
        self.monoid, self.partials, self.count = monoid, partials, count
        usual = _SCANNED if ufuncs_of(monoid) else _IN_STEP
        self._bits = usual if bits is None else bits
        self.size = 1 << self._bits

    @cached_property
    def prefixes(self) -> Rows:
        """Fold each block up to each of its rows; one combine per row."""
        return scan_blocks(self.monoid, self.partials, self.count, self.size, backwards=False)

    @cached_property
    def suffixes(self) -> Rows:
        """Fold each block from each of its rows to its end; one combine per row."""
        return scan_blocks(self.monoid, self.partials, self.count, self.size, backwards=True)

    @cached_property
    def _wholes(self) -> Rows:
        """Fold each block; the last one may have fewer rows."""
        ends = np.arange(self.size, self.count + self.size, self.size)
        return self.monoid.partials.take(self.prefixes, np.minimum(ends, self.count) - 1)

    @property
    def _blocks(self) -> int:
        return -(-self.count // self.size)

    def folds(self, starts: range | np.ndarray, stops: range | np.ndarray) -> Rows:
        """Fold from each start to the row before its stop; starts and stops never decrease.

        About two combines per range, and two per row for the blocks.

        >>> from mta import Sum
        >>> blocks = Blocks(Sum(), np.arange(8.0), 8, bits=1)
        >>> blocks.folds(np.array([0, 1, 6]), range(6, 9)).tolist()
        [15.0, 21.0, 13.0]
        """
        schema, pairs = self.monoid.partials, self._pairs(starts, stops)
        across = pairs.lows < pairs.highs
        if across.all():
            lefts = rows_at(self.monoid, self.suffixes, starts, 0)
            return self._across(lefts, rows_at(self.monoid, self.prefixes, stops, 1), pairs)
        starts, stops = np.asarray(starts), np.asarray(stops)
        lengths = stops - starts
        if int(lengths.max()) <= 1 << self._bits - 1:
            return fold_ranges(self.monoid, self.partials, self.count, starts, lengths)
        each = np.repeat(across, pairs.counts)
        within, some = np.flatnonzero(~each), np.flatnonzero(each)
        found = schema.new(len(starts))
        low, high = int(starts[within[0]]), int(stops[within[-1]])
        rows = schema.cut(self.partials, low, high)
        short = fold_ranges(self.monoid, rows, high - low, starts[within] - low, lengths[within])
        schema.put_at(found, within, short)
        if len(some):
            lefts = schema.take(self.suffixes, starts[some])
            rights = schema.take(self.prefixes, stops[some] - 1)
            pairs = pairs.those(across)
            joined = self._across(lefts, rights, pairs)
            schema.put_at(found, some, joined)
        return found

    def _pairs(self, starts: range | np.ndarray, stops: range | np.ndarray) -> _BlockPairs:
        """Return the pairs of blocks in which ranges start and end, in order."""
        bits = self._bits
        first, last = stops[0] - 1, stops[-1] - 1
        lows = np.arange((starts[0] >> bits) + 1, (starts[-1] >> bits) + 1) << bits
        highs = np.arange((first >> bits) + 1, (last >> bits) + 1) << bits
        at = _merged(_places(starts, lows), _places(stops, highs + 1))
        begins, ends = _numbers_at(starts, at), _numbers_at(stops, at)
        return _BlockPairs(begins >> bits, ends - 1 >> bits, np.diff(at, append=len(starts)))

    def _across(self, lefts: Rows, rights: Rows, pairs: _BlockPairs) -> Rows:
        """Fold ranges that start and end in different blocks."""
        monoid, count, between = self.monoid, int(pairs.counts.sum()), self._between(pairs)
        if between is not None:
            lefts = monoid.combine_rows(lefts, _repeated(between, pairs.counts), count)
        return monoid.combine_rows(lefts, rights, count)

    def _between(self, pairs: _BlockPairs) -> Rows | None:
        """Fold the whole blocks between each pair; None if there are none."""
        if (pairs.highs - pairs.lows).max() <= 1:
            return None
        monoid, schema = self.monoid, self.monoid.partials
        starts, size = pairs.lows + 1, len(pairs.lows)
        lengths = pairs.highs - starts
        wholes, least = self._wholes, int(lengths.min())
        if least:
            folds = schema.take(_runs(monoid, wholes, self._blocks, least), starts)
        else:
            folds = monoid.identities(size)
        longer = np.flatnonzero(lengths > least)
        if len(longer):
            rest = starts[longer] + least, lengths[longer] - least
            found = fold_ranges(monoid, wholes, self._blocks, *rest)
            found = monoid.combine_rows(schema.take(folds, longer), found, len(longer))
            schema.put_at(folds, longer, found)
        return folds


class _BlockPairs(NamedTuple):
    """Pairs of blocks, and the number of consecutive ranges that start and end in each pair."""

    lows: np.ndarray
    highs: np.ndarray
    counts: np.ndarray

    def those(self, chosen: np.ndarray) -> _BlockPairs:
        return _BlockPairs(*(column[chosen] for column in self))


def rows_at(monoid: AbstractMonoid, rows: Rows, places: range | np.ndarray, origin: int) -> Rows:
    """Return the rows at some places, where the first row is at ``origin``; a view if possible.

    >>> from mta import Max
    >>> rows_at(Max(), np.array([9.0, 7, 5]), np.array([10, 10, 12]), 10).tolist()
    [9.0, 9.0, 5.0]
    """
    schema = monoid.partials
    if isinstance(places, range):
        return schema.cut(rows, places.start - origin, places.stop - origin)
    return schema.take(rows, places - origin if origin else places)


def _numbers_at(numbers: range | np.ndarray, places: np.ndarray) -> np.ndarray:
    return places + numbers.start if isinstance(numbers, range) else numbers[places]


def _places(numbers: range | np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return where to insert the wanted numbers before numbers that never decrease."""
    if isinstance(numbers, range):
        return wanted - numbers.start
    return numbers.searchsorted(wanted)


def _merged(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Merge 0 and two sorted arrays; a number in both appears twice."""
    both = np.concatenate(([0], one, other))
    both.sort(kind="stable")  # merges sorted runs
    return both


def _runs(monoid: AbstractMonoid, rows: Rows, count: int, length: int) -> Rows:
    """Fold every run of ``length`` rows."""
    schema, runs, covered = monoid.partials, None, 0
    size, room = 1, count - length + 1
    while True:
        if length & size:
            block = schema.cut(rows, covered, covered + room)
            runs = block if runs is None else monoid.combine_rows(runs, block, room)
            covered += size
        if covered == length:
            return runs
        count -= size
        pair = schema.cut(rows, 0, count), schema.cut(rows, size, size + count)
        rows, size = monoid.combine_rows(*pair, count), 2 * size


def fold_ranges(
    monoid: AbstractMonoid, partials: Rows, count: int, starts: np.ndarray, lengths: np.ndarray
) -> Rows:
    """Fold each range of rows; at most 2 * log2(longest) combines per row.

    A range is combined from blocks of 1, 2, 4, ... rows, one for every bit of its length. One
    whole-group combine adds the blocks of one size to all ranges:

        rows     a b c d e f g h        blocks of 2   ab bc cd de ef fg gh
        [2, 7) = c + de + fg            the length 5 is 4 + 1

    >>> from mta import Sum
    >>> fold_ranges(Sum(), np.arange(8.0), 8, np.array([0, 2]), np.array([2, 5])).tolist()
    [1.0, 20.0]
    """
    schema, size = monoid.partials, 1
    longest = int(lengths.max(initial=1))
    if longest == 1:
        return schema.take(partials, starts)
    if longest <= native.LONGEST:
        folds = _short_ranges(monoid, partials, starts, lengths)
        if folds is not None:
            return folds
    found = schema.new(len(starts))
    at, left = starts.copy(), lengths.copy()
    while True:
        due = np.flatnonzero(left & 1)
        lows = at[due] > starts[due]
        first, later = due[~lows], due[lows]
        if len(first):
            schema.put_at(found, first, schema.take(partials, starts[first]))
        if len(later):
            block = schema.take(partials, at[later])
            longer = monoid.combine_rows(schema.take(found, later), block, len(later))
            schema.put_at(found, later, longer)
        at[due] += size
        left >>= 1
        if not left.any():
            return found
        count -= size
        partials = monoid.combine_rows(
            schema.cut(partials, 0, count), schema.cut(partials, size, count + size), count
        )
        size *= 2


def _short_ranges(
    monoid: AbstractMonoid, partials: Rows, starts: np.ndarray, lengths: np.ndarray
) -> Rows | None:
    """Like ``fold_ranges``, by a kernel; None if there is none."""
    if isinstance(monoid, Parts):
        parts = zip(monoid.monoids, partials, strict=True)
        found = [_short_ranges(part, rows, starts, lengths) for part, rows in parts]
        return None if any(folds is None for folds in found) else tuple(found)
    if not isinstance(monoid, ColumnarMonoid) or monoid.kernel is None:
        return None
    return native.ranges(monoid.kernel, partials, starts, lengths)


# --- folds within blocks --------------------------------------------------------------------------


def scan_blocks(monoid: AbstractMonoid, rows: Rows, count: int, size: int, backwards: bool) -> Rows:
    """Fold within blocks of ``size`` rows, up to each row or, ``backwards``, from each row.

    At most one combine per row. With ufuncs, one scan per column; otherwise, each combine advances
    all blocks by a row.
    """
    if ufuncs := ufuncs_of(monoid):
        columns = rows if isinstance(rows, tuple) else (rows,)
        pairs = zip(ufuncs, columns, strict=True)
        scans = [accumulate_blocks(ufunc, column, size, backwards) for ufunc, column in pairs]
        return tuple(scans) if isinstance(rows, tuple) else scans[0]
    schema: Any = monoid.partials
    room, folds, known = schema.new(count), None, 0
    steps = range(min(size, count))
    for row in reversed(steps) if backwards else steps:
        places = np.arange(row, count, size)
        new, there = schema.take(rows, places), min(known, len(places))
        if there:
            old, now = schema.cut(folds, 0, there), schema.cut(new, 0, there)
            pair = (now, old) if backwards else (old, now)
            schema.put_many(new, 0, monoid.combine_rows(*pair, there))
        schema.put_at(room, places, new)
        folds, known = new, len(places)
    return room


def ufuncs_of(monoid: AbstractMonoid) -> tuple[np.ufunc, ...]:
    """Return one ufunc per column of partials; empty if the monoid has none."""
    return (isinstance(monoid, ColumnarMonoid) and monoid.ufuncs) or ()


def _repeated(rows: Rows, counts: np.ndarray) -> Rows:
    if isinstance(rows, tuple):
        return tuple([_repeated(column, counts) for column in rows])
    if isinstance(rows, np.ndarray):
        return np.repeat(rows, counts, axis=0)
    return [row for row, count in zip(rows, counts.tolist(), strict=True) for _ in range(count)]
