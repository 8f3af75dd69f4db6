"""Order statistics of many ranges of a column together, by a wavelet matrix.

(Claude, Navarro and Ordóñez, The Wavelet Matrix, 2015.) The column has small integers, the ranks of
values. From the highest bit to the lowest, its rows are stably sorted by that bit. So a range of
rows becomes two ranges, whose bounds follow from a running count of zeros:

    codes    5 2 7 1 4       bit 2: 1 0 1 0 1       sorted: 2 1 | 5 7 4
    [1, 5)     2 7 1 4       two zeros before it ends, none before it begins
                             zeros are [0, 2), the ones [3, 5)

The k-th smallest code of the range is among the zeros if there are more than k of them. All ranges
take each step together, by a few operations on whole columns, and only one level is in memory. So
the memory is about ten numbers per row and range, and the time is log2(distinct) passes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def _levels(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray, int]]:
    """Yield each bit, the highest first, the zeros before each of n + 1 rows, and all zeros."""
    for bit in reversed(range(int(codes.max(initial=0)).bit_length())):
        ones = (codes >> bit & 1).astype(bool)
        before = np.zeros(len(codes) + 1, np.int64)
        np.cumsum(~ones, out=before[1:])
        yield bit, before, int(before[-1])
        codes = np.concatenate((codes[~ones], codes[ones]))


def select(
    codes: np.ndarray, starts: np.ndarray, stops: np.ndarray, ranks: np.ndarray
) -> np.ndarray:
    """Return the ``ranks[i]``-th smallest code, from 0 on, of rows ``starts[i]`` to ``stops[i]``.

    >>> codes = np.array([5, 2, 7, 1, 4])
    >>> select(codes, np.array([1, 1]), np.array([5, 5]), np.array([0, 2])).tolist()
    [1, 4]
    """
    starts, stops, ranks = starts.copy(), stops.copy(), ranks.copy()
    found = np.zeros(len(starts), np.int64)
    for bit, before, zeros in _levels(codes):
        first, last = before[starts], before[stops]
        count = last - first
        ones = ranks >= count
        ranks -= np.where(ones, count, 0)
        found |= ones.astype(np.int64) << bit
        starts = np.where(ones, starts - first + zeros, first)
        stops = np.where(ones, stops - last + zeros, last)
    return found


def count_below(
    codes: np.ndarray, starts: np.ndarray, stops: np.ndarray, bounds: np.ndarray
) -> np.ndarray:
    """Return how many codes of each range are less than ``bounds[i]``, which is not negative.

    >>> codes = np.array([5, 2, 7, 1, 4])
    >>> count_below(codes, np.array([1, 0]), np.array([5, 5]), np.array([4, 8])).tolist()
    [2, 5]
    """
    starts, stops = starts.copy(), stops.copy()
    beyond = bounds > codes.max(initial=0)
    found = np.where(beyond, stops - starts, 0)
    for bit, before, zeros in _levels(codes):
        first, last = before[starts], before[stops]
        ones = (bounds >> bit & 1).astype(bool)
        found += np.where(ones & ~beyond, last - first, 0)
        starts = np.where(ones, starts - first + zeros, first)
        stops = np.where(ones, stops - last + zeros, last)
    return found
