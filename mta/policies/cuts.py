"""Where policies cut, for a whole run of events at once.

Policies on positions and times alone can be told ahead of all aggregates. Where a window slides by
itself (``Policy.fronts``), a run ends with the group its front is in; a cursor goes on to the next
leaf instead, so here a policy is asked for the cuts of the whole run.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mta.folds.fronts import Fronts, TimeFronts, as_array, known
from mta.policies.base import AbstractPolicy, Both
from mta.policies.windows import CountWindow, TimeWindow


class TimeSearch(Protocol):
    """What a policy on times asks for."""

    def first_after_each(self, times: np.ndarray, age: int) -> Fronts | TimeFronts:
        """The position of the oldest event that is less than ``age`` old at each of some times.

        These never decrease. Positions before the window's front may be answered with that front.
        """


def tells(policy: AbstractPolicy) -> bool:
    """Whether ``cuts`` can tell where a policy cuts."""
    if isinstance(policy, Both):
        return tells(policy.one) and tells(policy.other)
    return type(policy) in (CountWindow, TimeWindow)


def cuts(
    policy: AbstractPolicy, search: TimeSearch, start: int, times: np.ndarray | None, count: int
) -> Fronts | TimeFronts:
    """The cut after each of ``count`` events from position ``start`` on.

    Not held to what is there yet: a cut may lie before the first event. TypeError for a policy that
    must be asked after every single event.
    """
    if isinstance(policy, Both):
        one = cuts(policy.one, search, start, times, count)
        other = cuts(policy.other, search, start, times, count)
        choose = np.maximum if policy.any_of else np.minimum
        chosen: np.ndarray = choose(as_array(known(one), count), as_array(known(other), count))
        return chosen
    if type(policy) is CountWindow:
        first = start + 1 - policy.size
        return range(first, first + count)
    if type(policy) is TimeWindow and times is not None:
        return search.first_after_each(times[:count], policy.size)
    raise TypeError(f"{policy!r} must be asked after every event")
