"""Folds of ranges of rows, many at once, of any length: prefix and suffix folds within blocks.

    rows          a b c | d e f | g h i | j k         blocks of 3
    prefixes      a ab abc | d de def | g gh ghi | j jk
    suffixes      abc bc c | def ef f | ghi hi i | jk k
    [1, 8)        bc . def . gh                       suffix, whole blocks between, prefix

The ranges of a sliding window only move to the right, and so do the pairs of blocks in which they
begin and end: the folds of what lies between are few, at most two a block. So a range costs two
combines, whatever its length; one that lies within a block is put together from pairs (``ranges``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from mta.columnar import ColumnarMonoid
from mta.columns import Rows
from mta.monoid import AbstractMonoid
from mta.product import _Parts
from mta.ranges import fold_ranges

#: A block has 2^6 rows.
_BITS = 6


class Blocks:
    """Rows, and the folds within their blocks as far as they have been asked for."""

    def __init__(
        self, monoid: AbstractMonoid, partials: Rows, count: int, bits: int = _BITS
    ) -> None:
        self.monoid, self.partials, self.count, self._bits = monoid, partials, count, bits

    @cached_property
    def prefixes(self) -> Rows:
        """The fold of each block up to each of its rows; one combine a row."""
        return _scan(self.monoid, self.partials, self.count, 1 << self._bits, backwards=False)

    @cached_property
    def suffixes(self) -> Rows:
        """The fold of each block from each of its rows on; one combine a row."""
        return _scan(self.monoid, self.partials, self.count, 1 << self._bits, backwards=True)

    def prefixes_of_all(self) -> Rows:
        """The folds of the first 1, 2, ... rows, out of those within blocks; one combine a row."""
        monoid, schema, size = self.monoid, self.monoid.partials, 1 << self._bits
        blocks = self.count // size
        wholes = schema.take(self.prefixes, np.arange(size - 1, self.count, size))
        before = schema.new(blocks + 1)
        schema.put(before, 0, monoid.identity)
        schema.put_many(before, 1, monoid.prefixes(wholes, blocks, monoid.identity))
        return _joined(monoid, before, self.prefixes, self.count, size)

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The block that each row is in."""
        return np.arange(self.count) >> self._bits

    def folds(self, starts: range | np.ndarray, first: int) -> Rows:
        """The folds from each start, which never decrease, to the rows from the ``first`` on.

        About two combines a range, and two a row once.

        >>> from mta import Sum
        >>> blocks = Blocks(Sum(), np.arange(8.0), 8, bits=1)
        >>> blocks.folds(np.array([0, 1, 6]), first=5).tolist()
        [15.0, 21.0, 13.0]
        """
        schema, stop = self.monoid.partials, first + len(starts)
        ended = self._numbers[first:stop]
        if isinstance(starts, range):
            begun = self._numbers[starts.start : starts.stop]
        else:
            begun = starts >> self._bits
        across = begun < ended
        if across.all():
            if isinstance(starts, range):
                lefts = schema.cut(self.suffixes, starts.start, starts.stop)
            else:
                lefts = schema.take(self.suffixes, starts)
            return self._across(lefts, schema.cut(self.prefixes, first, stop), begun, ended)
        starts, known = np.asarray(starts), (self.monoid, self.partials, self.count)
        lengths = np.arange(first + 1, stop + 1) - starts
        if int(lengths.max()) <= 1 << self._bits - 1:
            return fold_ranges(*known, starts, lengths)
        within, some = np.flatnonzero(~across), np.flatnonzero(across)
        found = schema.new(len(starts))
        schema.put_at(found, within, fold_ranges(*known, starts[within], lengths[within]))
        if len(some):
            lefts = schema.take(self.suffixes, starts[some])
            rights = schema.take(self.prefixes, some + first)
            schema.put_at(found, some, self._across(lefts, rights, begun[some], ended[some]))
        return found

    def _across(self, lefts: Rows, rights: Rows, begun: np.ndarray, ended: np.ndarray) -> Rows:
        """The folds of ranges that end in a later block than they begin in."""
        monoid, count = self.monoid, len(begun)
        if (ended - begun).max() > 1:
            lefts = monoid.combine_rows(lefts, self._between(begun, ended), count)
        return monoid.combine_rows(lefts, rights, count)

    def _between(self, begun: np.ndarray, ended: np.ndarray) -> Rows:
        """The folds of the whole blocks between two, once for all ranges with the same two.

        As neither number ever decreases, their sum tells the pairs apart.
        """
        monoid, schema = self.monoid, self.monoid.partials
        pairs = begun + ended
        pairs -= pairs[0]
        some = np.searchsorted(pairs, np.arange(int(pairs[-1]) + 1))
        starts = begun[some] + 1
        lengths = ended[some] - starts
        firsts = np.arange(0, self.count, 1 << self._bits)
        wholes, least = schema.take(self.suffixes, firsts), int(lengths.min())
        if least:
            folds = schema.take(_runs(monoid, wholes, len(firsts), least), starts)
        else:
            folds = schema.take(schema.one(monoid.identity), np.zeros(len(some), np.intp))
        longer = np.flatnonzero(lengths > least)
        if len(longer):
            rest = starts[longer] + least, lengths[longer] - least
            found = fold_ranges(monoid, wholes, len(firsts), *rest)
            found = monoid.combine_rows(schema.take(folds, longer), found, len(longer))
            schema.put_at(folds, longer, found)
        return schema.take(folds, pairs)


def fold_sliding(
    monoid: AbstractMonoid, partials: Rows, count: int, starts: range | np.ndarray, first: int
) -> Rows:
    """As ``Blocks.folds``, row by row: Two-Stacks, for monoids of plain functions.

    Three combines a range. The rows before a cut are in a stack of suffix folds, those from there
    on in one aggregate; when a range begins beyond the cut, all rows so far become the stack.
    """
    schema, combine = monoid.partials, monoid.combine
    found = schema.new(len(starts))
    origin = cut = first
    stack, right = schema.one(monoid.identity), monoid.identity
    for at, start in enumerate(starts.tolist() if isinstance(starts, np.ndarray) else starts):
        last = first + at
        if start > cut or last == first:
            origin, cut, right = start, last, monoid.identity
            rows = schema.cut(partials, origin, cut)
            stack = monoid.suffixes(rows, cut - origin, monoid.identity)
        right = combine(right, schema.at(partials, last))
        schema.put(found, at, combine(schema.at(stack, start - origin), right))
    return found


def _runs(monoid: AbstractMonoid, rows: Rows, count: int, length: int) -> Rows:
    """The fold of ``length`` rows from each row on that has as many."""
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


def _scan(monoid: AbstractMonoid, rows: Rows, count: int, size: int, backwards: bool) -> Rows:
    """The folds within blocks of ``size`` rows, from their beginning or from their end."""
    if isinstance(monoid, _Parts):
        parts = zip(monoid.monoids, rows, strict=True)
        return tuple([_scan(part, column, count, size, backwards) for part, column in parts])
    if isinstance(monoid, ColumnarMonoid) and monoid.ufuncs:
        columns = rows if isinstance(rows, tuple) else (rows,)
        pairs = zip(monoid.ufuncs, columns, strict=True)
        scans = [_accumulate(ufunc, column, size, backwards) for ufunc, column in pairs]
        return tuple(scans) if isinstance(rows, tuple) else scans[0]
    return _in_step(monoid, rows, count, size, backwards)


def _accumulate(ufunc: np.ufunc, column: np.ndarray, size: int, backwards: bool) -> np.ndarray:
    count, step = len(column), -1 if backwards else 1
    room, whole = np.empty(count, column.dtype), count // size * size
    counting = ufunc is np.add and (column == 1).all()  # a mean has a column of ones
    for start, stop, width in ((0, whole, size), (whole, count, count - whole)):
        if start < stop:
            given, scan = (a[start:stop].reshape(-1, width)[:, ::step] for a in (column, room))
            if counting:
                scan[:] = np.arange(1, width + 1)
            else:
                ufunc.accumulate(given, axis=1, out=scan)
    return room


def _joined(monoid: AbstractMonoid, before: Rows, rows: Rows, count: int, size: int) -> Rows:
    """Every row of a block with what comes before the block."""
    if isinstance(monoid, _Parts):
        parts = zip(monoid.monoids, before, rows, strict=True)
        return tuple([_joined(part, first, rest, count, size) for part, first, rest in parts])
    if not (isinstance(monoid, ColumnarMonoid) and monoid.ufuncs):
        numbers = np.arange(count) // size
        return monoid.combine_rows(monoid.partials.take(before, numbers), rows, count)
    if isinstance(rows, tuple):
        columns = zip(monoid.ufuncs, before, rows, strict=True)
        return tuple([_broadcast(ufunc, first, rest, size) for ufunc, first, rest in columns])
    return _broadcast(monoid.ufuncs[0], before, rows, size)


def _broadcast(ufunc: np.ufunc, before: np.ndarray, column: np.ndarray, size: int) -> np.ndarray:
    whole = len(column) // size * size
    room = np.empty_like(column)
    blocks = [a[:whole].reshape(-1, size) for a in (column, room)]
    ufunc(before[:-1, None], blocks[0], out=blocks[1])
    ufunc(before[-1], column[whole:], out=room[whole:])
    return room


def _in_step(monoid: AbstractMonoid, rows: Rows, count: int, size: int, backwards: bool) -> Rows:
    """As ``_scan``, for any monoid: all blocks advance together, one whole-group combine a row."""
    schema: Any = monoid.partials
    room, folds, known = schema.new(count), None, 0
    steps = range(min(size, count))
    for row in reversed(steps) if backwards else steps:
        places = np.arange(row, count, size)
        new, there = schema.take(rows, places), min(known, len(places))
        if there:
            old, now = schema.cut(folds, 0, there), schema.cut(new, 0, there)
            pair = (now, old) if backwards else (old, now)
            longer = monoid.combine_rows(*pair, there)
            if there < len(places):  # here the last block ends, which is shorter
                schema.put_many(new, 0, longer)
            else:
                new = longer
        schema.put_at(room, places, new)
        folds, known = new, len(places)
    return room
