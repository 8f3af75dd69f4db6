"""Where policies cut, for a whole run of events at once.

Policies on positions and times alone can be told ahead of the events' aggregates. Where a window
slides by itself (``Policy.fronts``), a run ends with the head group; a cursor goes on to the next
leaf instead, so here a policy is asked for the cuts of the whole run.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Protocol

import numpy as np

from mta.policy import AbstractPolicy, CountWindow, Fronts, TimeWindow, _Both, as_array


class TimeSearch(Protocol):
    """What a policy on times asks for."""

    def first_after_each(self, times: np.ndarray) -> Fronts:
        """The position of the oldest event later than each of some times, which never decrease.

        Positions before the window's front may be answered with that front.
        """


@singledispatch
def cuts(
    policy: AbstractPolicy, search: TimeSearch, start: int, times: np.ndarray | None, count: int
) -> Fronts | None:
    """The cut after each of ``count`` events that follow position ``start``.

    None where the policy must be asked after every single event. Not yet held to what is there: a
    cut may lie before the first event.
    """
    del policy, search, start, times, count
    return None


@cuts.register
def _(
    policy: CountWindow, search: TimeSearch, start: int, times: np.ndarray | None, count: int
) -> Fronts | None:
    first = start + 1 - policy.size
    return range(first, first + count)


@cuts.register
def _(
    policy: TimeWindow, search: TimeSearch, start: int, times: np.ndarray | None, count: int
) -> Fronts | None:
    assert times is not None
    return search.first_after_each(times[:count] - policy.size)


@cuts.register
def _(
    policy: _Both, search: TimeSearch, start: int, times: np.ndarray | None, count: int
) -> Fronts | None:
    one = cuts(policy.one, search, start, times, count)
    other = cuts(policy.other, search, start, times, count)
    if one is None or other is None:
        return None
    choose = np.maximum if policy.any_of else np.minimum
    chosen: np.ndarray = choose(as_array(one, count), as_array(other, count))
    return chosen
