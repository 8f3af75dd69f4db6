"""Publishing: the newest snapshot of windows under a name in their store, for other processes.

- ``records``: the formats of the published records
- ``publisher``: publishes the windows of one process
- ``batches``: publishes the windows of a Spark query, batch by batch
- ``buckets``: the keys of a Spark query, and the bucket of each key

``mta.published`` reads the records.
"""
