"""Window slide policies: which of the oldest events leave.

- ``base``: the contracts, cuts of a whole run at once, and how policies join by ``|`` and ``&``
- ``windows``: counts and times
- ``bounds``: what looks at aggregates
"""

from mta.policies.base import AbstractPolicy
from mta.policies.bounds import BoundWindow, Policy, SinceLongestRun, SinceMax
from mta.policies.windows import CountWindow, TimeWindow

__all__ = [
    "AbstractPolicy",
    "BoundWindow",
    "CountWindow",
    "Policy",
    "SinceLongestRun",
    "SinceMax",
    "TimeWindow",
]
