"""How a moving frame over an event log is folded.

- ``cursor``: a front over the events of a log, with the suffix folds of the leaf that it is in
- ``tree``, ``runs``: a head path over level queues, and batches that slide along it
- ``log_mta``, ``amortized_mta``, ``steady_mta``: the MTA paper's algorithms over that path
- ``ranges``, ``coverage``: ranges of retained events, and what a window misses
"""
