"""Estimates of the pages, bytes, store calls and cores of keyed windows, before they run.

- ``expected``: a workload, and the pages, bytes and store calls of a bucket
- ``plan``: the whole estimate, with the number of buckets, partitions and cores
"""
