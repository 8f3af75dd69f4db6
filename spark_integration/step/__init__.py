"""One micro-batch of one bucket of keys, without Spark.

- ``step``: from a bucket's state and rows to its new state and results
- ``rows``, ``results``, based on ``columns``: the input and the output
- ``windows``, ``states``: the windows of a bucket's keys, and their format in Spark's state
- ``starts``: the windows from which a stream continues
"""
