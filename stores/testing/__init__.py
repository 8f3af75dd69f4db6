"""For tests of stores: a conformance suite, and wrappers that count, delay and fail.

- ``conformance``: what every store must do, as a class of tests to subclass
- ``counting``, ``faults``: the wrappers that count, and those that delay and fail
"""

from .counting import CountingStore
from .faults import Constant, FaultyStore, Jittered, LatencyStore, OneSlow

__all__ = ["Constant", "CountingStore", "FaultyStore", "Jittered", "LatencyStore", "OneSlow"]
