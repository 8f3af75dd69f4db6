"""One micro-batch of one bucket of keys, without Spark.

- ``step``: handles and rows in, handles and results out
- ``rows``, ``results``, over ``columns``: what comes in, and what goes out
- ``windows``, ``states``: the windows of keys, and how Spark's state keeps them
- ``lateness``, ``silence``: rows that are late, and keys that are forgotten
"""
