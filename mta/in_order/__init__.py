"""The papers' aggregators that hold their window in memory, each a module that reads as its paper.

Beside the paged aggregators of this project (``mta.AmortizedMTA``) they are what the papers compare
with: take them for windows that fit into memory and need no checkpoint. ``ALL`` lists them.

- ``base``: the data type that all share
- ``recalculate``, ``subtract_on_evict``, ``two_stacks`` (and its Lite): the baselines
- ``foa``, ``ioa``, ``daba`` (cached, and its Lite): the DABA papers, over the ``chunked_queue``
- ``flatfit``, ``slick_deque``, ``slide_side``: three more
- ``base_intervals``: Arasu and Widom's, the Reactive Aggregator's peer
- ``flat_fat``, ``reactive``: FlatFAT, and the Reactive Aggregator, out of which any event may go
- ``slicing``: panes and pairs, under any of them
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

#: Every algorithm; those that slide by themselves (SBA, PBA) take a range beside the monoid.
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
