"""Event logs: the events of one key in order, in pages, whatever is computed over them.

- ``leaves``: consecutive events, stored or of the batch under way
- ``base``: the interface of a log
- ``parts``: what keeps snapshots small
- ``ranges``: ranges of retained events, by position and by time
- ``levels``: the level queues of the MTA paper
- ``flatfat``: blocks of FlatFAT, over level queues
- ``finger_tree``: the finger B-tree of the FiBA papers
"""
