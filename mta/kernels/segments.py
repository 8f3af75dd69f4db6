"""Operations on all segments of a column together; each key has a segment.

    bounds    0 3 5 9            segment 0 has the rows 0 to 3, segment 1 the rows 3 to 5, ...

The result of a segment does not depend on the rows of other segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from mta.kernels import native

_DIGIT = 16
#: If runs of rows with one code are at least this long on average, runs are sorted, not rows.
_LONG_RUN = 4
#: Integers and their differences must stay below this, so that sums of two do not overflow.
_ROOM = 1 << 62


def inverse(order: np.ndarray) -> np.ndarray:
    """Return the inverse of a permutation.

    >>> inverse(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def bounds_of(counts: np.ndarray) -> np.ndarray:
    """Return where segments of these lengths start, and where the last one ends.

    >>> bounds_of(np.array([3, 2, 4])).tolist()
    [0, 3, 5, 9]
    """
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


def spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the row numbers of some ranges, concatenated; 10 ns per row.

    >>> spread(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    rows = np.arange(total)
    rows += np.repeat(starts - (ends - lengths), lengths)
    return rows


def group(codes: np.ndarray, most: int) -> np.ndarray:
    """Return the stable order of rows by code, a number from 0 to below ``most``.

    This is a linear radix sort of rows, or of runs with one code, by 16 bits at a time.

    >>> group(np.array([1, 0, 1, 0]), 2).tolist()
    [1, 3, 0, 2]
    """
    if (codes[1:] >= codes[:-1]).all():
        return np.arange(len(codes))
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    if _LONG_RUN * len(starts) <= len(codes):  # such as a table ordered by keys
        order = group(codes[starts], most)
        return spread(starts[order], np.diff(starts, append=len(codes))[order])
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    shift = _DIGIT
    while most >> shift:
        digit = (codes[order] >> shift & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
        shift += _DIGIT
    return order


def order_by(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the stable order of integers by code (>= 0), then by value.

    Joins both into one integer. numpy's stable sort is fast for rows that are mostly in order: 2 to
    15 ns per row, a tenth of two sorts.

    >>> order_by(np.array([1, 0, 1, 0]), np.array([5, 9, 2, 9])).tolist()
    [1, 3, 2, 0]
    """
    if not len(codes):
        return np.zeros(0, np.int64)
    least, most = int(values.min()), int(values.max())
    span = most - least + 1
    if span * (int(codes.max()) + 1) >= _ROOM:
        return np.lexsort((values, codes))
    joined = codes * span
    joined += values - least
    return np.argsort(joined, kind="stable")


def sort_within(values: np.ndarray, codes: np.ndarray) -> np.ndarray | None:
    """Return ``order_by`` for codes that never decrease; None if all rows are in order."""
    later = values[1:] >= values[:-1]
    later |= codes[1:] != codes[:-1]
    return None if later.all() else order_by(codes, values)


def running_max(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the maximum of each segment up to each row.

    >>> running_max(np.array([5, 7, 6, 1, 3, 2]), np.array([0, 3, 6])).tolist()
    [5, 7, 7, 1, 3, 3]
    """
    if not len(values):
        return values.copy()
    least, most = int(values.min()), int(values.max())
    span, count = most - least + 1, len(bounds) - 1
    if span * count < _ROOM:
        lift = np.repeat(np.arange(count) * span - least, np.diff(bounds))
        found: np.ndarray = np.maximum.accumulate(values + lift) - lift
        return found
    pieces = [np.maximum.accumulate(values[a:b]) for a, b in pairwise(bounds.tolist())]
    return np.concatenate(pieces)


def first_later(
    times: np.ndarray, bounds: np.ndarray, segments: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """Return the first row of each segment with a time later than ``asked``, or the segment's end.

    ``times`` never decrease within a segment, and ``segments`` never decrease. One search each.

    >>> first_later(np.array([1, 5, 9, 2, 4]), np.array([0, 3, 5]),
    ...     np.array([0, 1, 1]), np.array([5, 0, 4])).tolist()
    [2, 3, 5]
    """
    if native.compiled is not None and len(times):
        return native.first_later(times, bounds, segments, asked)
    found = np.empty(len(asked), np.int64)
    for segment, start, stop in _runs(segments):
        first, last = bounds[segment : segment + 2].tolist()
        found[start:stop] = times[first:last].searchsorted(asked[start:stop], side="right") + first
    return found


def _runs(codes: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield each code with its first row and the row after its last."""
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1)).tolist()
    for start, stop in pairwise([*starts, len(codes)]):
        yield int(codes[start]), start, stop
