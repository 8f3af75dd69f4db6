"""Where a window begins that ends at any moment, of the events that a key retains.

A window at a moment is complete if no event that has left would be in it. The publisher retains
what the windows hold at the key's newest event, so from there on every window is complete. It also
retains what the window of a late event would hold, as far back as it accepts one (the *cutoff*,
``mta.keyed.kind``): from there on windows by time are complete. Else a window by time is
complete where a retained event lies before it, and one by count where enough events are retained.

``UNKNOWN`` stands for a position before all that is retained.
"""

from __future__ import annotations

import numpy as np

from mta.frames.base import AbstractPolicy, Both
from mta.frames.windows import CountWindow, TimeFrame
from mta.kernels.segments import first_later
from mta.keyed.table import Lanes
from mta.logs.base import Remembered

UNKNOWN = -1


def first_rows(
    policy: AbstractPolicy,
    lanes: Lanes,
    of: np.ndarray,
    rows: np.ndarray,
    moments: np.ndarray,
    accepted: np.ndarray,
) -> np.ndarray:
    """The first row of windows that end with some rows, as far as the rows tell.

    ``of`` is the lane of each, and never decreases; ``accepted`` whether its moment is at the
    cutoff of the key or later. ``UNKNOWN`` where earlier events may have been in the window.
    """
    if isinstance(policy, Both):
        if policy.any_of:  # of each side alone less is retained
            accepted = np.zeros_like(accepted)
        sides = policy.one, policy.other
        found = [first_rows(side, lanes, of, rows, moments, accepted) for side in sides]
        joined: np.ndarray = (np.maximum if policy.any_of else np.minimum)(*found)
        return joined
    starts = lanes.bounds[of]
    if isinstance(policy, CountWindow):
        places = rows + 1 - policy.end.rows - policy.size
        return np.where(places >= starts, places, UNKNOWN)
    assert isinstance(policy, TimeFrame) and lanes.times is not None
    places = first_later(lanes.times, lanes.bounds, of, policy.starts(moments))
    return np.where(accepted | (places > starts), places, UNKNOWN)


def first_position(
    policy: AbstractPolicy, events: Remembered, stop: int, moment: int, accepted: bool
) -> int:
    """As ``first_rows``, of one window with pages of its own that ends before a position."""
    front = events.kept_from
    if isinstance(policy, Both):
        accepted &= not policy.any_of
        sides = policy.one, policy.other
        found = [first_position(side, events, stop, moment, accepted) for side in sides]
        return max(found) if policy.any_of else min(found)
    if isinstance(policy, CountWindow):
        place = stop - policy.end.rows - policy.size
        return place if place >= front else UNKNOWN
    assert isinstance(policy, TimeFrame)
    place = events.first_after(policy.start(moment))
    return place if accepted or place > front else UNKNOWN
