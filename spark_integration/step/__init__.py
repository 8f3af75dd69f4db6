"""One micro-batch of one bucket of keys, without Spark.

- ``step``: from a bucket's state and rows to its new state and results
- ``rows``, ``columns``: the input, sorted, and its columns as those of the windows
- ``running``: windows since the first row, with one partial per key
- ``windows``, ``states``: the windows of a bucket's keys, and their format in Spark's state
- ``starts``: the windows from which a stream continues
"""
