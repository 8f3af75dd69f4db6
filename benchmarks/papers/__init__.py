"""The papers' experiments, one folder per paper.

- ``operators``: the aggregations of the DABA paper, which all papers' experiments use
- ``break_even``: from which window on an algorithm is faster than recalculating
- ``server``: a Redis server for the duration of a measurement
- ``mta``, ``reactive``, ``daba``, ``pba``, ``fiba``: the papers
"""
