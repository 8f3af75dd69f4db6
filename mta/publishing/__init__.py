"""Publishing: the newest snapshot of windows under a name in their store, for other processes.

- ``known``: aggregations and windows as plain data, and rebuilt from it
- ``records``: the formats of what is published
- ``publisher``: writes a snapshot, then the record that names it, then deletes older ones
- ``buckets``: which bucket of a Spark query has a key

What reads it is ``mta.published``.
"""
