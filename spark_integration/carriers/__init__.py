"""How Spark calls the step, and where its pages are.

- ``packing``: rows to blobs and back
- ``batch``, ``streaming``: the step over a batch, and under Spark's state
- ``state_pages``: pages in that state too, ``spark://state``
- ``workers``: open stores of a Python worker
"""
