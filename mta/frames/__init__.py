"""Frames: which events a window covers; the MTA paper's window slide policies (WSP).

- ``base``: the interfaces, the cuts of a run of events, and combination with ``|`` and ``&``
- ``windows``: counts and times
- ``calendar``: days, months and years by the clock of a time zone
- ``bounds``: frames on aggregates
- ``shorthand``: frames as users write them, such as "24 hours" and 100
- ``known``: frames on counts and times from their descriptions, and which of them retains more
- ``named``: deltas, punctuation, sessions
- ``adwin``: a window that lasts as long as its mean does not change
"""

from mta.frames.adwin import ADWIN
from mta.frames.base import Frame
from mta.frames.bounds import BoundWindow, CustomFrame, SinceLongestRun, SinceMax
from mta.frames.calendar import CalendarWindow
from mta.frames.named import DeltaWindow, PunctuationWindow, SessionWindow
from mta.frames.windows import CountWindow, TimeWindow

__all__ = [
    "ADWIN", "BoundWindow", "CalendarWindow", "CountWindow", "CustomFrame", "DeltaWindow",
    "Frame", "PunctuationWindow", "SessionWindow", "SinceLongestRun", "SinceMax", "TimeWindow",
]  # fmt: skip
