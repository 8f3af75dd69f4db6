"""One micro-batch of one bucket of keys, without Spark.

- ``step``: a bucket's state and rows in, its state and results out
- ``sweep``: the same by whole columns, for all keys at once
- ``rows``, ``results``, over ``columns``: what comes in, and what goes out
- ``windows``, ``states``: the windows of keys, and how Spark's state keeps them
- ``lateness``, ``silence``: rows that are late, and keys that are forgotten
"""
