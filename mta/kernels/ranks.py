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

from mta.kernels import native

#: Keys below which a search is at least as fast, and keys that are searched for to make a guess:
#: at first, and if these agree.
_FEW, _SAMPLES = 128, (2, 16)
#: How far the ranks may drift from the guess.
_DRIFT = 4
#: Keys below which a table is not worth while, and with how many times of its cell, and after it,
#: every key is compared; those keys that are not before the last of these are searched for.
_FEW_FOR_A_TABLE, _COMPARED = 1024, 3


class SortedTimes:
    """Times that never decrease, to be searched for many keys at once, again and again.

    >>> SortedTimes(np.array([0, 10, 20])).ranks(np.array([105, 110, 115]), age=100)
    array([1, 2, 2])
    """

    def __init__(self, times: np.ndarray) -> None:
        self.times = times

    def ranks(
        self, keys: np.ndarray, age: int = 0, room: np.ndarray | None = None
    ) -> range | np.ndarray:
        """As ``times.searchsorted(keys - age, side="right")``, for keys that never decrease.

        In ``room``, if there is any, unless they are a range.
        """
        count = len(keys)
        if room is None and count < _FEW:
            return self.times.searchsorted(keys - age, side="right")
        found = np.empty(count, np.int64) if room is None else room
        steady = native.ranks(self.times, keys, age, found)
        if steady is not None:
            return range(int(found[0]), int(found[0]) + count) if steady and count else found
        if count >= _FEW:
            guessed = self._steady(keys, age, found)
            if guessed is not None:
                return guessed
        if count >= max(_FEW_FOR_A_TABLE, len(self.times) // 2):
            self._look_up(keys, age, found)
        else:
            found[:] = self.times.searchsorted(keys - age, side="right")
        return found

    def guess(self, keys: np.ndarray, age: int) -> tuple[int, int] | None:
        """How far ranks lie from their places, if a few say that they grow by about one a key.

        As two numbers: that of key i is more than i + the first, and at most i + the second.
        """
        count, low, high = len(keys), 0, 0
        for samples in _SAMPLES:
            places = np.arange(0, count, max(1, count // samples))
            offsets = self.times.searchsorted(keys[places] - age, side="right") - places
            low, high = int(offsets.min()) - 1, int(offsets.max())
            if high - low > _DRIFT:
                return None
        return low, high

    def _steady(self, keys: np.ndarray, age: int, found: np.ndarray) -> range | np.ndarray | None:
        """The ranks, if they grow by about one from key to key."""
        guess = self.guess(keys, age)
        if guess is None:
            return None
        (low, high), keys = guess, keys - age
        for wider in (0, 1):
            if high - low + 2 * wider <= _DRIFT:
                steady = _proved(self.times, keys, low - wider, high + wider, found)
                if steady is not None:
                    return steady
        return None

    def _look_up(self, keys: np.ndarray, age: int, found: np.ndarray) -> None:
        """Find the ranks by table; a search for those keys alone whose cells hold many times."""
        times = self.times
        begin, end = keys.searchsorted((times[0] + age, times[-1] + age)).tolist()
        found[:begin], found[end:] = 0, len(times)
        if begin == end:
            return
        shift, since, table = self._table
        ranks, keys = found[begin:end], keys[begin:end] - (times[0] + age)
        near = keys >> shift
        table.take(near, out=ranks, mode="clip")
        later, steps = np.empty(len(keys), bool), np.zeros(len(keys), np.int8)
        for place in range(min(_COMPARED, len(times))):
            since[place:].take(ranks, out=near, mode="clip")
            np.less_equal(near, keys, out=later)
            steps += later.view(np.int8)
        ranks += steps
        left = np.flatnonzero(later)
        left = left[since[ranks[left]] <= keys[left]]
        if len(left):
            ranks[left] = since.searchsorted(keys[left], side="right")

    @cached_property
    def _table(self) -> tuple[int, np.ndarray, np.ndarray]:
        """How wide a cell is (as a shift), the times since the first, how many before each cell."""
        since = self.times - self.times[0]
        shift = max(0, (int(since[-1]) // len(since)).bit_length() - 1)
        cells = since >> shift
        cells += 1  # so that counts begin with a cell 0, and with none before the first
        counts = np.bincount(cells)
        return shift, since, np.cumsum(counts, out=counts)


def _proved(
    times: np.ndarray, keys: np.ndarray, low: int, high: int, found: np.ndarray
) -> range | np.ndarray | None:
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
    found[:] = np.arange(low + 1, low + 1 + count)
    for distance in range(1, high - low):
        found[begin:end] += near[distance : distance + size] <= inner
    found[:begin], found[end:] = ranks[:begin], ranks[begin:]
    return found
