"""What windows of many keys will take, before they run: pages, bytes, store calls, cores.

- ``workload``: what is asked for, and what follows from it for one bucket
- ``expected``: pages, bytes and store calls of a bucket, by the rules of ``mta.keyed``
- ``costs``: processor time by constants that were measured, and how they are measured
- ``plan``: all of it together, with the number of buckets, partitions and cores
"""
