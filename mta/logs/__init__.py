"""Event logs: the events of one key in order, in pages, whatever is computed over them.

- ``leaves``: consecutive events, stored or of the batch under way
- ``base``: the interface of a log
- ``levels``: the level queues of the MTA paper
"""
