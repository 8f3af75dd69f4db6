"""The level queues of the MTA paper, in pages.

- ``queues``: levels of groups, each with a tail
- ``log``: the pages and snapshots of the levels, and their events by position and by time
- ``search``: the path to the oldest event, and the search for a policy's cut
- ``rebuilding``, ``read_ahead``: repair of pages, and prefetching
"""
