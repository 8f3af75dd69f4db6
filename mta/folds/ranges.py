"""Folds of many short ranges at once, for windows that are short beside the batch.

The stack serves a run of events until the front has used up the head group; a window of five events
would use it up every five events. Where the whole window and the batch lie in one open group, each
result is instead the fold of a range of rows, put together from blocks of 1, 2, 4, ... rows:

    rows     a b c d e f g h        blocks of 2   ab bc cd de ef fg gh
    [2, 7) = c + de + fg            one block for every bit of the length 5

All ranges take their block of one size in the same whole-group combine, so a batch costs
2 * log2(longest range) of them, whatever the number of ranges.
"""

from __future__ import annotations

import numpy as np

from mta.columns.schemas import Rows
from mta.monoids.base import AbstractMonoid


def fold_ranges(
    monoid: AbstractMonoid, partials: Rows, count: int, starts: np.ndarray, lengths: np.ndarray
) -> Rows:
    """The fold of each range of rows, in order; at most 2 * log2(longest) combines a row.

    >>> from mta import Sum
    >>> fold_ranges(Sum(), np.arange(8.0), 8, np.array([0, 2]), np.array([2, 5])).tolist()
    [1.0, 20.0]
    """
    schema, size = monoid.partials, 1
    if int(lengths.max(initial=1)) == 1:
        return schema.take(partials, starts)
    found = schema.new(len(starts))
    at, left = starts.copy(), lengths.copy()
    while True:
        due = np.flatnonzero(left & 1)
        begun = at[due] > starts[due]
        first, later = due[~begun], due[begun]
        if len(first):
            schema.put_at(found, first, schema.take(partials, starts[first]))
        if len(later):
            block = schema.take(partials, at[later])
            longer = monoid.combine_rows(schema.take(found, later), block, len(later))
            schema.put_at(found, later, longer)
        at[due] += size
        left >>= 1
        if not left.any():
            return found
        count -= size
        partials = monoid.combine_rows(
            schema.cut(partials, 0, count), schema.cut(partials, size, count + size), count
        )
        size *= 2
