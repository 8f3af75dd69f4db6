"""Window slide policies: which of the oldest events leave.

- ``base``: the contracts, cuts of a whole run at once, and how policies join by ``|`` and ``&``
- ``windows``: counts and times
- ``calendar``: days, months and years by the clock of a time zone
- ``bounds``: what looks at aggregates
- ``known``: counts and times out of descriptions, and which window holds more
- ``named``: deltas, punctuation, sessions
- ``adwin``: as long as the mean does not change
"""

from mta.frames.adwin import ADWIN
from mta.frames.base import AbstractPolicy
from mta.frames.bounds import BoundWindow, Policy, SinceLongestRun, SinceMax
from mta.frames.calendar import CalendarWindow
from mta.frames.named import DeltaWindow, PunctuationWindow, SessionWindow
from mta.frames.windows import CountWindow, TimeWindow

__all__ = [
    "ADWIN",
    "AbstractPolicy",
    "BoundWindow",
    "CalendarWindow",
    "CountWindow",
    "DeltaWindow",
    "Policy",
    "PunctuationWindow",
    "SessionWindow",
    "SinceLongestRun",
    "SinceMax",
    "TimeWindow",
]
