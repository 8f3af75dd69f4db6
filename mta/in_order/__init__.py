"""The papers' aggregators with windows in memory; each module follows the text of its paper.

The papers compare their algorithms with these. Use them for windows that fit into memory and need
no checkpoints; otherwise use the paged aggregators (``mta.AmortizedMTA``). ``ALL`` lists them.

- ``base``: the common data type
- ``recalculate``, ``subtract_on_evict``, ``two_stacks`` (with its Lite variant): the baselines
- ``foa``, ``ioa``, ``daba`` (with its cached and Lite variants): the DABA papers, over a
  ``chunked_queue``
- ``flatfit``, ``slick_deque``, ``slide_side``: other in-order aggregators
- ``base_intervals``: Arasu and Widom's algorithm, compared with the Reactive Aggregator
- ``flat_fat``, ``reactive``: FlatFAT, and the Reactive Aggregator, which evicts any event
- ``slicing``: panes and pairs, over any of these algorithms
- ``boundary``: SBA and PBA

>>> from mta import Mean
>>> [algorithm.__name__ for algorithm in ALL if algorithm.suits(Mean())][:2]
['RecalculateFromScratch', 'SubtractOnEvict']
"""

from mta.in_order.base import InOrderAggregator
from mta.in_order.base_intervals import BaseIntervals
from mta.in_order.boundary import PBA, SBA, BoundaryAggregator, count_chunk_size, time_chunk_size
from mta.in_order.daba import DABA, CachedDABA, DABALite
from mta.in_order.flatfit import FlatFIT
from mta.in_order.foa import FOA
from mta.in_order.ioa import IOA
from mta.in_order.recalculate import RecalculateFromScratch
from mta.in_order.slicing import Sliced, pairs, panes
from mta.in_order.slick_deque import SlickDeque
from mta.in_order.slide_side import SlideSide
from mta.in_order.subtract_on_evict import SubtractOnEvict
from mta.in_order.two_stacks import TwoStacks, TwoStacksLite

#: All algorithms. SBA and PBA evict automatically, and take a range after the monoid.
ALL: tuple[type[InOrderAggregator], ...] = (
    RecalculateFromScratch,
    SubtractOnEvict,
    TwoStacks,
    TwoStacksLite,
    FOA,
    IOA,
    DABA,
    CachedDABA,
    DABALite,
    FlatFIT,
    SlickDeque,
    SlideSide,
    BaseIntervals,
    SBA,
    PBA,
)

__all__ = [
    "ALL",
    "DABA",
    "FOA",
    "IOA",
    "PBA",
    "SBA",
    "BaseIntervals",
    "BoundaryAggregator",
    "CachedDABA",
    "DABALite",
    "FlatFIT",
    "InOrderAggregator",
    "RecalculateFromScratch",
    "Sliced",
    "SlickDeque",
    "SlideSide",
    "SubtractOnEvict",
    "TwoStacks",
    "TwoStacksLite",
    "count_chunk_size",
    "pairs",
    "panes",
    "time_chunk_size",
]
