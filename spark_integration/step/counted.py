"""Every k-th event of a key: how a key's events are counted, and which rows they are.

A key's events have numbers in the order in which micro-batches bring them, those of one micro-batch
by time: so many as its window has taken in, which the window's handle knows. The k-th, 2k-th, ...
event gives its row, just as it would without ``every``.

Where silent keys are forgotten, a key that is counts anew. So that it makes no difference when the
watermark comes by, numbers begin at 1 again also for a key that is still there, with the first
event after time has emptied its window (``Saved.begun``). Where events may come late, no such gap
is certain, and only a key that was forgotten counts anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mta import EveryCount
from spark_integration.step.rows import Ints
from spark_integration.step.windows import AnyWindow


def places_due(
    every: EveryCount, before: int, count: int, begun: int = 0, gaps: Sequence[int] = ()
) -> Ints:
    """Which of the next ``count`` events of a key are due, after ``before`` of them; linear.

    Counting began after ``begun`` of them, and begins anew at each of the ``gaps``.

    >>> places_due(EveryCount(3), 4, 7).tolist()
    [1, 4]
    >>> places_due(EveryCount(3), 4, 7, begun=2, gaps=[2]).tolist()
    [0, 4]
    """
    starts = np.full(count, begun)
    starts[list(gaps)] = before + np.array(gaps, np.int64)
    numbers = np.arange(before + 1, before + count + 1) - np.maximum.accumulate(starts)
    return np.flatnonzero(numbers % every.count == 0)


def places_of(nth: Ints, window: AnyWindow) -> Ints:
    """Which rows of its last batch the n-th accepted ones are."""
    accepted = window.last_accepted
    return nth if accepted is None else np.flatnonzero(accepted)[nth]
