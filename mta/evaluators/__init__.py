"""Aggregates of a moving frame over an event log.

- ``observed``: what frames can observe of a window
- ``cursor``: a window over the events of a log, with a stack of suffix folds
- ``runs``: the results of a window after each event of a chunk
- ``range_fold``: a window that folds its range with each query
- ``amortized_mta``, ``steady_mta``: the MTA paper's algorithms, one cursor over levels
- ``flatfat``, ``reactive``: FlatFAT and the Reactive Aggregator, over blocks
- ``fiba``: FiBA, a cursor over the log of a finger tree
- ``coverage``: which events are missing from a window
"""
