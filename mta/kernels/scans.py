"""Scans of bare columns: a ufunc folded up to each row, over all rows or within blocks.

    column        1 2 3 | 4 5 6 | 7 8          np.add, blocks of 3
    forwards      1 3 6 | 4 9 15 | 7 15
    backwards     6 5 3 | 15 11 6 | 15 8

A scan goes row by row, so that a processor takes much longer for it than for a whole-column
operation. Hence no time is spent on scans of which the result is known: counts are sums of ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.kernels import native
from mta.kernels.native import Kernel

#: How many ones are kept at first, and at most.
_ONES, _MOST_ONES = 1 << 12, 1 << 16


def accumulate(ufunc: np.ufunc, column: np.ndarray, first: Any, backwards: bool) -> np.ndarray:
    """``first`` and the rows, folded up to each: n + 1 rows, from whichever side.

    >>> accumulate(np.add, np.array([1.0, 2.0, 3.0]), 10.0, backwards=True).tolist()
    [16.0, 15.0, 13.0, 10.0]
    """
    if ufunc is np.add:
        count = running_count(column, first)
        if count is not None:
            return count[::-1] if backwards else count
    scan = np.empty(len(column) + 1, column.dtype)
    scan[-1 if backwards else 0] = first
    kernel = Kernel.of(ufunc, column.dtype)
    if kernel is not None and native.scan(kernel, column, scan, backwards):
        return scan
    run = scan[::-1] if backwards else scan
    run[1:] = column[::-1] if backwards else column
    ufunc.accumulate(run, out=run)
    return scan


def accumulate_blocks(
    ufunc: np.ufunc, column: np.ndarray, size: int, backwards: bool
) -> np.ndarray:
    """The folds within blocks of ``size`` rows, up to each row, or from each row on.

    >>> accumulate_blocks(np.add, np.array([1, 2, 3, 4, 5]), 3, backwards=False).tolist()
    [1, 3, 6, 4, 9]
    """
    kernel = Kernel.of(ufunc, column.dtype)
    found = None if kernel is None else native.blocks(kernel, column, size, backwards)
    if found is not None:
        return found  # type: ignore[no-any-return]
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


def combine_blocks(
    ufunc: np.ufunc, beside: np.ndarray, column: np.ndarray, size: int
) -> np.ndarray:
    """Every row with the one of ``beside`` that belongs to its block.

    >>> combine_blocks(np.add, np.array([0, 10]), np.array([1, 2, 3]), 2).tolist()
    [1, 2, 13]
    """
    blocks = len(column) // size
    room, whole = np.empty_like(column), blocks * size
    given, joined = (a[:whole].reshape(-1, size) for a in (column, room))
    ufunc(beside[:blocks, None], given, out=joined)
    if whole < len(column):
        ufunc(beside[blocks], column[whole:], out=room[whole:])
    return room


# --- counts ---------------------------------------------------------------------------------------


def _counting(count: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    known, ramp = np.ones(count, dtype), np.arange(count + 1, dtype=dtype)
    known.flags.writeable = ramp.flags.writeable = False
    return known, ramp


_COUNTING = {dtype: _counting(_ONES, dtype) for dtype in ("f8", "i8")}


def ones(value: Any, dtype: Any = "f8") -> Any:
    """A one for every event: what counts lift to. Read-only, and not computed anew each time."""
    if not isinstance(value, np.ndarray):
        return 1
    count = len(value)
    if count > _MOST_ONES:
        return np.ones(count, dtype)
    while count > len(_COUNTING[dtype][0]):
        _COUNTING[dtype] = _counting(2 * len(_COUNTING[dtype][0]), dtype)
    return _COUNTING[dtype][0][:count]


def running_count(column: np.ndarray, first: Any) -> np.ndarray | None:
    """``first`` plus 0, 1, ... n if the column is one of ``ones``, without adding up; else None."""
    for known, ramp in _COUNTING.values():
        if column.base is known:
            total: np.ndarray = ramp[: len(column) + 1] + first
            return total
    return None
