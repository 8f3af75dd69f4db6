"""How Spark calls the step, and where the pages are.

- ``packing``: rows to blobs and back; the labels by which Spark groups them, so that its partitions
  have equally many buckets
- ``bucket``: the step for a bucket, in a batch and with Spark's state
- ``state_pages``: pages in that state too, ``spark://state``
- ``workers``: what a Python worker keeps between tasks, counts, and knows about its query
"""
