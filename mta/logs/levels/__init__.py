"""The level queues of the MTA paper, in pages.

- ``queues``: levels of groups, with a tail each
- ``pages``: pages and snapshots
- ``log``: the events by position and by time, for windows that share them
- ``search``: the path to the oldest event, and where a policy cuts
- ``rebuilding``, ``read_ahead``: repairs, and reads in time
"""
