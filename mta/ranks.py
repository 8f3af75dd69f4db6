"""How many sorted times are not later than each of some sorted keys: a search for many keys.

Where events come at a steady pace, the answer grows by about one from key to key. That is guessed
from a few keys and then proved, for all keys together, by comparing each with the few times around
its guess; where the proof fails, every key is searched for.

    times   0 10 20 30 40 50      keys 12 21 33 40      found 2 3 4 5 = range(2, 6)
"""

from __future__ import annotations

import numpy as np

#: Keys below which a search is at least as fast, and keys that are searched for to make a guess.
_FEW, _SAMPLES = 128, 16
#: How far the found ones may drift from the guess.
_DRIFT = 4


def ranks(times: np.ndarray, keys: np.ndarray) -> range | np.ndarray:
    """As ``np.searchsorted(times, keys, side="right")`` for keys that never decrease.

    >>> ranks(np.array([0, 10, 20]), np.array([5, 10, 15]))
    array([1, 2, 2])
    """
    count = len(keys)
    if count >= _FEW:
        places = np.arange(0, count, count // _SAMPLES)
        offsets = np.searchsorted(times, keys[places], side="right") - places
        low, high = int(offsets.min()) - 1, int(offsets.max())
        for wider in (0, 1):
            if high - low + 2 * wider <= _DRIFT:
                steady = _proved(times, keys, low - wider, high + wider)
                if steady is not None:
                    return steady
    return np.searchsorted(times, keys, side="right")


def _proved(times: np.ndarray, keys: np.ndarray, low: int, high: int) -> range | np.ndarray | None:
    """The ranks, if that of key i is more than i + low and at most i + high."""
    count = len(keys)
    # The rank of key i is i + low + how many of the times from place i + low to i + high are not
    # later; it is proved where the first of these is not later and the last one is.
    start, stop = max(low, 0), min(high + count, len(times))
    before = np.full(start - low, np.iinfo(np.int64).min)
    after = np.full(high + count - stop, np.iinfo(np.int64).max)
    around = np.concatenate((before, times[start:stop], after))
    if not ((around[:count] <= keys).all() and (around[high - low :] > keys).all()):
        return None
    if high - low == 1:
        return range(high, high + count)
    found = np.arange(low + 1, low + 1 + count)
    for distance in range(1, high - low):
        found += around[distance : distance + count] <= keys
    return found
