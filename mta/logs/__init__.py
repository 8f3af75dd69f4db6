"""Event logs: the events of one key in order, in pages, for any aggregation.

- ``leaves``: consecutive events, stored or of the current batch, and searches in their times
- ``base``: the interface of a log
- ``parts``: parts of the open leaf, which keep snapshots small
- ``ranges``: ranges of retained events, by position and by time
- ``levels``: the level queues of the MTA paper
- ``flatfat``: blocks of FlatFAT, over level queues
- ``finger_tree``: the finger B-tree of the FiBA papers
"""
