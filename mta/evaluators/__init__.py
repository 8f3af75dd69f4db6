"""How a moving frame over an event log is folded.

- ``cursor``: a front over the events of a log, with the suffix folds of the leaf that it is in
- ``tree``, ``runs``: a head path over level queues, and batches that slide along it
- ``log_mta``, ``amortized_mta``, ``steady_mta``: the MTA paper's algorithms over that path
- ``flatfat``, ``reactive``: FlatFAT and the Reactive Aggregator, over blocks
- ``fiba``: FiBA, a cursor over the log of a finger tree
- ``coverage``: what a window misses
"""
