"""The papers' aggregators with windows in memory; each module follows the text of its paper.

The papers compare their algorithms with these. Use them for windows that fit into memory and need
no checkpoints; otherwise use the paged aggregators. ``mta.algorithms`` exports both.

- ``base``: the common data type
- ``recalculate``, ``subtract_on_evict``, ``two_stacks`` (with its Lite variant): the baselines
- ``foa``, ``ioa``, ``daba`` (with its cached and Lite variants): the DABA papers, over a
  ``chunked_queue``
- ``flatfit``, ``slick_deque``, ``slide_side``: other in-order aggregators
- ``base_intervals``: Arasu and Widom's algorithm, compared with the Reactive Aggregator
- ``flat_fat``, ``reactive``: FlatFAT, and the Reactive Aggregator, which evicts any event
- ``slicing``: panes and pairs, over any of these algorithms
- ``boundary``: SBA and PBA
"""
