"""Publishing: the newest snapshot of windows under a name in their store, for other processes.

- ``known``: descriptions of aggregations and windows as plain data
- ``records``: the formats of the published records
- ``publisher``: publishes the windows of one process
- ``batches``: publishes the windows of a Spark query, batch by batch
- ``buckets``: the keys of a Spark query, and the bucket of each key

``mta.published`` reads the records.
"""
