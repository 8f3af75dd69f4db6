"""Estimates of the pages, bytes, store calls and cores of keyed windows, before they run.

- ``workload``: the workload to plan for, and its share of one bucket
- ``expected``: the pages, bytes and store calls of a bucket, by the rules of ``mta.keyed``
- ``costs``: processor time by measured constants, and the measurement
- ``plan``: the whole estimate, with the number of buckets, partitions and cores
"""
