"""Event logs: the events of one key, in order and in pages, for any aggregation.

- ``leaves``: consecutive events, from storage or the current batch, and searches in their times
- ``base``: the interface of a log
- ``parts``: parts of the open leaf, which keep snapshots small
- ``ranges``: ranges of retained events, by position and by time
- ``levels``: the level queues of the MTA paper
- ``flatfat``: blocks of a FlatFAT, stored in level queues
- ``finger_tree``: the finger B-tree of the FiBA papers
"""
