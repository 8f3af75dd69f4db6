"""How Spark calls the step, and where its pages are.

- ``packing``: rows to blobs and back
- ``labels``: what Spark groups by, so that its partitions have equally many buckets
- ``bucket``, ``streaming``: the step for a bucket, over a batch and under Spark's state
- ``stateful``, ``state_pages``: pages in that state too, ``spark://state``
- ``metrics``: what passes between the step and its store
- ``workers``: what a Python worker keeps from one task to the next, and knows of its query
"""
