"""One micro-batch of one bucket of keys, without Spark.

- ``step``: a bucket's state and rows in, its state and results out
- ``rows``, ``results``, over ``columns``: what comes in, and what goes out
- ``windows``, ``states``: the windows of a bucket's keys, and how Spark's state keeps them
- ``starts``: what a stream goes on from
"""
