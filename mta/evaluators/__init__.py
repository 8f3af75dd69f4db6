"""How a moving frame over an event log is folded.

- ``observed``: what policies see of a window
- ``cursor``: a front over the events of a log, with a stack of suffix folds
- ``amortized_mta``, ``log_mta``, ``steady_mta``: the MTA paper's algorithms, cursors over levels
- ``ranges``, ``coverage``: ranges of retained events, and what a window misses
"""
