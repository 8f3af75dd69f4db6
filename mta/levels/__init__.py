"""The MTA paper: level queues, Log MTA and Amortized MTA, in pages.

- ``queues``: levels of groups, with a tail each
- ``search``: the path to the oldest event, and where a policy cuts
- ``tree``: what both algorithms share
- ``runs``: batches that slide over many groups at once
- ``log_mta``, ``amortized_mta``: the paper's two algorithms
- ``steady_mta``: the latter without its pauses
- ``pages``, ``parts``: pages and snapshots, and what keeps these small
- ``rebuilding``, ``read_ahead``: repairs, and reads in time
- ``kept``: events by position, and events that several windows share
"""
