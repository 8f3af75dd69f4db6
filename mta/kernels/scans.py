"""Scans of columns: folds with a ufunc up to each row, over all rows or within blocks.

    column        1 2 3 | 4 5 6 | 7 8          np.add, blocks of 3
    forwards      1 3 6 | 4 9 15 | 7 15
    backwards     6 5 3 | 15 11 6 | 15 8

In a scan, each row depends on the previous one, so a scan takes much longer than other operations
on a column. Scans of columns of ones are therefore computed as counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.kernels import native
from mta.kernels.native import Kernel


def accumulate(ufunc: np.ufunc, column: np.ndarray, first: Any, backwards: bool) -> np.ndarray:
    """Return the folds of ``first`` and the rows up to each row, from either side; n + 1 rows.

    >>> accumulate(np.add, np.array([1.0, 2.0, 3.0]), 10.0, backwards=True).tolist()
    [16.0, 15.0, 13.0, 10.0]
    """
    if ufunc is np.add:
        count = running_count(column, first, backwards)
        if count is not None:
            return count
    scan = np.empty(len(column) + 1, column.dtype)
    scan[-1 if backwards else 0] = first
    kernel = Kernel.of(ufunc, column.dtype)
    if kernel is not None and native.scan(kernel, column, scan, backwards):
        return scan
    rows, run = (scan[:-1], scan[::-1]) if backwards else (scan[1:], scan)
    rows[...] = column
    ufunc.accumulate(run, out=run)
    return scan


def accumulate_blocks(
    ufunc: np.ufunc, column: np.ndarray, size: int, backwards: bool
) -> np.ndarray:
    """Return the folds within blocks of ``size`` rows, up to each row or from each row on.

    >>> accumulate_blocks(np.add, np.array([1, 2, 3, 4, 5]), 3, backwards=False).tolist()
    [1, 3, 6, 4, 9]
    """
    count, step = len(column), -1 if backwards else 1
    room, whole = np.empty(count, column.dtype), count // size * size
    for start, stop, width in ((0, whole, size), (whole, count, count - whole)):
        if start < stop:
            given, scan = (a[start:stop].reshape(-1, width)[:, ::step] for a in (column, room))
            ufunc.accumulate(given, axis=1, out=scan)
    return room


# --- counts ---------------------------------------------------------------------------------------

#: The bytes of a one for each type.
_ONE = {dtype: np.ones(1, dtype).tobytes() for dtype in ("f8", "i8")}
_ZERO = bytes(8)


def ones(value: Any, dtype: Any = "f8") -> Any:
    """Return a one for every event, to which counts lift. Read-only, as all rows share an item."""
    if not isinstance(value, np.ndarray):
        return 1
    return np.ndarray(len(value), dtype, _ONE[dtype], strides=(0,))


def zeros(count: int, dtype: Any = "f8") -> np.ndarray:
    """Return a column of zeros like that of ``ones``."""
    return np.ndarray(count, dtype, _ZERO, strides=(0,))


def are_ones(column: np.ndarray) -> bool:
    """Return whether a column was made by ``ones``."""
    return column.strides == (0,) and len(column) > 0 and column[0] == 1


def are_zeros(column: np.ndarray) -> bool:
    """Return whether a column was made by ``zeros``."""
    return column.strides == (0,) and len(column) > 0 and column[0] == 0


def running_count(column: np.ndarray, first: Any, backwards: bool = False) -> np.ndarray | None:
    """Return ``first`` plus 0, 1, ... n if the column was made by ``ones``; otherwise None."""
    if not are_ones(column):
        return None
    count = len(column)
    steps = (count, -1, -1) if backwards else (count + 1,)
    counts = np.arange(*steps, dtype=column.dtype)
    return counts + first if first else counts


def reduce(ufunc: np.ufunc, column: np.ndarray) -> Any:
    """Return the fold of a column; the sum of ``ones`` is its length."""
    if ufunc is np.add and are_ones(column):
        return column.dtype.type(len(column))
    return ufunc.reduce(column)
