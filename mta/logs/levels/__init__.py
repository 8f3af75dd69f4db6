"""The level queues of the MTA paper, in pages.

- ``queues``: levels of groups, each with a tail, and prefetching of their groups
- ``log``: pages and snapshots of the levels, events by position and by time
- ``search``: the path to the oldest event, and the search for a frame's cut
"""
