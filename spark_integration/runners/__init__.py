"""How Spark calls the step, and where the pages are.

- ``packing``: rows to blobs and back
- ``labels``: the values that Spark groups by, so that its partitions have equally many buckets
- ``bucket``, ``streaming``: the step for a bucket, in a batch and with Spark's state
- ``stateful``, ``state_pages``: pages in that state too, ``spark://state``
- ``metrics``: counts of the calls between the step and its store
- ``workers``: what a Python worker keeps between tasks, and knows about its query
"""
