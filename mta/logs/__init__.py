"""Event logs: the events of one key, in order and in pages, for any aggregation.

- ``base``: the interface of a log; consecutive events, and searches in their times
- ``ranges``: ranges of retained events, by position and by time
- ``levels``: the level queues of the MTA paper
- ``flatfat``: blocks of a FlatFAT, stored in level queues
- ``finger_tree``: the finger B-tree of the FiBA papers
"""
