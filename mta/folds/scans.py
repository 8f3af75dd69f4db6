"""Folds within blocks of rows, drawn in ``blocks``, and of blocks with what is beside them.

Where a monoid has ufuncs, a scan is one a column (``kernels.scans``); else all blocks advance
together, a whole-group combine for each row of a block. Parts of products go each its own way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.kernels import native
from mta.kernels.scans import accumulate_blocks, combine_blocks
from mta.monoids.base import AbstractMonoid
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.parts import Parts


def scan_blocks(monoid: AbstractMonoid, rows: Rows, count: int, size: int, backwards: bool) -> Rows:
    """The folds within blocks of ``size`` rows, up to each row, or from each row on.

    At most one combine a row.
    """
    if isinstance(monoid, Parts):
        parts = zip(monoid.monoids, rows, strict=True)
        return tuple([scan_blocks(part, column, count, size, backwards) for part, column in parts])
    if isinstance(monoid, ColumnarMonoid) and monoid.ufuncs:
        columns = rows if isinstance(rows, tuple) else (rows,)
        pairs = zip(monoid.ufuncs, columns, strict=True)
        scans = [accumulate_blocks(ufunc, column, size, backwards) for ufunc, column in pairs]
        return tuple(scans) if isinstance(rows, tuple) else scans[0]
    if isinstance(monoid, ColumnarMonoid) and monoid.kernel is not None:
        found = native.blocks(monoid.kernel, rows, size, backwards)
        if found is not None:
            return found
    return _in_step(monoid, rows, count, size, backwards)


def scan_each(monoid: AbstractMonoid, rows: Rows, size: int, backwards: bool) -> Rows | None:
    """Blocks of ``size`` rows, each folded from the identity on as a scan of it alone would be.

    As columns of two dimensions, with a block in each row, one longer than it; two operations a
    row. None for monoids that have no such scan.

    >>> from mta import Sum
    >>> scan_each(Sum(), np.array([1.0, 2.0, 3.0, 4.0]), 2, backwards=False).tolist()
    [[0.0, 1.0, 3.0], [0.0, 3.0, 7.0]]
    """
    if isinstance(monoid, Parts):
        parts = zip(monoid.monoids, rows, strict=True)
        scans = [scan_each(part, column, size, backwards) for part, column in parts]
        return None if any(scan is None for scan in scans) else tuple(scans)
    return monoid.scan_each(rows, size, backwards) if isinstance(monoid, ColumnarMonoid) else None


def flattened(rows: Rows, size: int) -> Rows:
    """The first ``size`` of each row of columns of two dimensions, one row after the other."""
    if isinstance(rows, tuple):
        return tuple([flattened(column, size) for column in rows])
    return np.ascontiguousarray(rows[:, :size]).reshape(-1)


def join_blocks(
    monoid: AbstractMonoid, beside: Rows, rows: Rows, count: int, size: int, backwards: bool
) -> Rows:
    """Every row combined with what is before its block, or after it; one combine a row.

    >>> from mta import Sum
    >>> join_blocks(Sum(), np.array([0.0, 10.0]), np.array([1.0, 2.0, 3.0]), 3, 2, False).tolist()
    [1.0, 2.0, 13.0]
    """
    if isinstance(monoid, Parts):
        parts = zip(monoid.monoids, beside, rows, strict=True)
        return tuple(
            [join_blocks(part, one, other, count, size, backwards) for part, one, other in parts]
        )
    if not (isinstance(monoid, ColumnarMonoid) and monoid.ufuncs):
        others = monoid.partials.take(beside, np.arange(count) // size)
        pair = (rows, others) if backwards else (others, rows)
        return monoid.combine_rows(*pair, count)
    # A ufunc is commutative.
    if isinstance(rows, tuple):
        columns = zip(monoid.ufuncs, beside, rows, strict=True)
        return tuple([combine_blocks(ufunc, one, other, size) for ufunc, one, other in columns])
    return combine_blocks(monoid.ufuncs[0], beside, rows, size)


def repeat_rows(rows: Rows, counts: np.ndarray) -> Rows:
    """Each row so many times, one after the other."""
    if isinstance(rows, tuple):
        return tuple([repeat_rows(column, counts) for column in rows])
    if isinstance(rows, np.ndarray):
        return np.repeat(rows, counts, axis=0)
    return [row for row, count in zip(rows, counts.tolist(), strict=True) for _ in range(count)]


def _in_step(monoid: AbstractMonoid, rows: Rows, count: int, size: int, backwards: bool) -> Rows:
    """As ``scan_blocks``, for any monoid: all blocks advance together."""
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
