"""How many of some sorted times are not later than each of many sorted keys.

``np.searchsorted`` takes a dozen steps a key, hardly one of which a processor can foresee. Two
shorter ways, both of which compare every key with the times beside its rank in the end:

- Where events come at a steady pace, ranks grow by about one from key to key. That is guessed from
  a few keys, and proved for all of them at once:

      times   0 10 20 30 40 50      keys 12 21 33 40      ranks 2 3 4 5 = range(2, 6)

- Else time is cut into as many cells as there are times, and a table says how many times lie
  before each cell. A key's rank is that of its cell, plus the few times in the cell itself.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

#: Keys below which a search is at least as fast, and keys that are searched for to make a guess.
_FEW, _SAMPLES = 128, 16
#: How far the ranks may drift from the guess.
_DRIFT = 4
#: Keys below which a table is not worth while, and how often ranks are moved on within a cell, all
#: of them and then those left, before those left are searched for.
_FEW_FOR_A_TABLE, _MOVES = 1024, 2


class SortedTimes:
    """Times that never decrease, to be searched for many keys at once, again and again.

    >>> SortedTimes(np.array([0, 10, 20])).ranks(np.array([5, 10, 15]))
    array([1, 2, 2])
    """

    def __init__(self, times: np.ndarray) -> None:
        self.times = times

    def ranks(self, keys: np.ndarray) -> range | np.ndarray:
        """As ``times.searchsorted(keys, side="right")``, for keys that never decrease."""
        times, count = self.times, len(keys)
        if count >= _FEW:
            places = np.arange(0, count, count // _SAMPLES)
            offsets = times.searchsorted(keys[places], side="right") - places
            low, high = int(offsets.min()) - 1, int(offsets.max())
            for wider in (0, 1):
                if high - low + 2 * wider <= _DRIFT:
                    steady = _proved(times, keys, low - wider, high + wider)
                    if steady is not None:
                        return steady
        if count >= max(_FEW_FOR_A_TABLE, len(times) // 2):
            return self._looked_up(keys)
        return times.searchsorted(keys, side="right")

    def _looked_up(self, keys: np.ndarray) -> np.ndarray:
        """The ranks by table; a search for those keys alone whose cells hold many times."""
        times, (shift, table) = self.times, self._table
        found = np.empty(len(keys), np.int64)
        begin, end = keys.searchsorted((times[0], times[-1])).tolist()
        found[:begin], found[end:] = 0, len(times)
        keys, ranks = keys[begin:end], found[begin:end]
        near = keys - times[0]
        near >>= shift
        table.take(near, out=ranks, mode="clip")
        for _ in range(_MOVES):  # of all keys, as most cells hold a time or two
            later = times.take(ranks, out=near, mode="clip") <= keys
            ranks += later
        left = np.flatnonzero(later)
        for _ in range(_MOVES):
            left = left[times[ranks[left]] <= keys[left]]
            ranks[left] += 1
        left = left[times[ranks[left]] <= keys[left]]
        if len(left):
            ranks[left] = times.searchsorted(keys[left], side="right")
        return found

    @cached_property
    def _table(self) -> tuple[int, np.ndarray]:
        """How wide a cell is (as a shift), and how many times lie before each."""
        times = self.times
        width = (int(times[-1]) - int(times[0])) // len(times)
        shift = max(0, width.bit_length() - 1)
        counts = np.bincount((times - times[0]) >> shift)
        return shift, np.cumsum(counts) - counts


def _proved(times: np.ndarray, keys: np.ndarray, low: int, high: int) -> range | np.ndarray | None:
    """The ranks, if that of key i is more than i + low and at most i + high.

    That is so where time i + low is not later than the key, and time i + high is. Keys for which
    there are no such times, at both ends, are searched for.
    """
    count = len(keys)
    begin, end = max(0, -low), min(count, len(times) - high)
    if begin >= end:
        return None
    inner, near = keys[begin:end], times[begin + low : end + high]
    size = end - begin
    if not ((near[:size] <= inner).all() and (near[high - low :] > inner).all()):
        return None
    edges = np.concatenate((keys[:begin], keys[end:]))
    ranks = times.searchsorted(edges, side="right")
    if high - low == 1:
        places = np.concatenate((np.arange(begin), np.arange(end, count)))
        if (ranks == places + high).all():
            return range(high, high + count)
    found = np.arange(low + 1, low + 1 + count)
    for distance in range(1, high - low):
        found[begin:end] += near[distance : distance + size] <= inner
    found[:begin], found[end:] = ranks[:begin], ranks[begin:]
    return found
