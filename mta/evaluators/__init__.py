"""Fold a moving frame over an event log.

- ``observed``: what policies see of a window
- ``stack``, ``searched``: a cursor's folds, and the times that its policy searches
- ``cursor``: a front over the events of a log, with a stack of suffix folds
- ``amortized_mta``, ``log_mta``, ``steady_mta``: the MTA paper's algorithms, cursors over levels
- ``flatfat``, ``reactive``: FlatFAT and the Reactive Aggregator, over blocks
- ``fiba``: FiBA, a cursor over the log of a finger tree
- ``ends``, ``lagging``: frames that end before the newest event, in batches and one event at a time
- ``coverage``: what a window misses
"""
