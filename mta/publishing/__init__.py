"""Publishing: the newest snapshot of windows under a name in their store, for other processes.

- ``known``: aggregations and windows as plain data, and rebuilt from it
- ``records``: the formats of what is published
- ``publisher``: what windows in one process publish
- ``batches``: what the tasks of a query publish, batch by batch
- ``buckets``: the keys of a Spark query, and which bucket has each

What reads it is ``mta.published``.
"""
