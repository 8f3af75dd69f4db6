"""Fold a moving frame over an event log.

- ``observed``: what policies see of a window
- ``cursor``: a front over the events of a log, with a stack of suffix folds
- ``ends``: the same for frames that end before the newest event
- ``amortized_mta``, ``log_mta``, ``steady_mta``: the MTA paper's algorithms, cursors over levels
- ``flatfat``, ``reactive``: FlatFAT and the Reactive Aggregator, over blocks
- ``fiba``: FiBA, a cursor over the log of a finger tree
- ``coverage``: what a window misses
"""
