"""Where windows begin after each event of a batch, and what is in rows at these places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mta.columns.schemas import Rows
from mta.monoids.base import AbstractMonoid

#: Front positions after each event of a run: one more each time, or any that never decrease.
EachFront = range | np.ndarray
#: The same, or one for all.
Fronts = int | EachFront


def as_array(fronts: Fronts, count: int) -> np.ndarray:
    """The front after each of ``count`` events."""
    if isinstance(fronts, range):
        return np.arange(fronts.start, fronts.stop)[:count]
    return np.full(count, fronts) if isinstance(fronts, int) else np.asarray(fronts)[:count]


def count_below(fronts: EachFront, position: int) -> int:
    """How many of the fronts, which never decrease, lie before a position."""
    if isinstance(fronts, range):
        return min(max(position - fronts.start, 0), len(fronts))
    return int(fronts.searchsorted(position))


def moved(fronts: EachFront, distance: int) -> EachFront:
    """Fronts so much further on."""
    if isinstance(fronts, range):
        return range(fronts.start + distance, fronts.stop + distance)
    return fronts + distance if distance else fronts


def joined(pieces: Sequence[EachFront]) -> EachFront:
    """Pieces of fronts, one after the other.

    >>> joined([range(3, 5), range(5, 6)])
    range(3, 6)
    """
    ranges = [piece for piece in pieces if isinstance(piece, range)]
    if len(ranges) == len(pieces) and all(a.stop == b.start for a, b in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop)
    return np.concatenate([as_array(piece, len(piece)) for piece in pieces])


def rows_at(monoid: AbstractMonoid, rows: Rows, fronts: EachFront, origin: int) -> Rows:
    """The rows at some fronts, the first row being at ``origin``; as a view where there can be one.

    >>> from mta import Max
    >>> rows_at(Max(), np.array([9.0, 7, 5]), np.array([10, 10, 12]), 10).tolist()
    [9.0, 9.0, 5.0]
    """
    schema = monoid.partials
    if isinstance(fronts, range):
        return schema.cut(rows, fronts.start - origin, fronts.stop - origin)
    return schema.take(rows, fronts - origin if origin else fronts)
