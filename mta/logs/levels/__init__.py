"""The level queues of the MTA paper, in pages.

- ``queues``: levels of groups, with a tail each
- ``log``: their pages and snapshots, and their events by position and by time
- ``search``: the path to the oldest event, and where a policy cuts
- ``rebuilding``, ``read_ahead``: repairs, and prefetching
"""
