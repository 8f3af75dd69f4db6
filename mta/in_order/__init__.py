"""In-order aggregators that hold their window in memory, each a module that reads as its paper.

Beside the paged aggregators of this project (``mta.AmortizedMTA``) they are what the papers compare
with: take them for windows that fit into memory and need no checkpoint. ``ALL`` lists them.

- ``base``: the data type that all share
- ``recalculate``, ``subtract_on_evict``, ``two_stacks`` (and its Lite): the baselines
- ``foa``, ``ioa``, ``daba`` (and its Lite): the DABA papers, over the ``chunked_queue``
- ``flatfit``, ``slick_deque``: two more
- ``boundary``: SBA and PBA

>>> from mta import Mean
>>> [algorithm.__name__ for algorithm in ALL if algorithm.suits(Mean())][:2]
['RecalculateFromScratch', 'SubtractOnEvict']
"""

from mta.in_order.base import InOrderAggregator
from mta.in_order.boundary import PBA, SBA, BoundaryAggregator, count_chunk_size, time_chunk_size
from mta.in_order.daba import DABA, DABALite
from mta.in_order.flatfit import FlatFIT
from mta.in_order.foa import FOA
from mta.in_order.ioa import IOA
from mta.in_order.recalculate import RecalculateFromScratch
from mta.in_order.slick_deque import SlickDeque
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
    DABALite,
    FlatFIT,
    SlickDeque,
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
    "BoundaryAggregator",
    "DABALite",
    "FlatFIT",
    "InOrderAggregator",
    "RecalculateFromScratch",
    "SlickDeque",
    "SubtractOnEvict",
    "TwoStacks",
    "TwoStacksLite",
    "count_chunk_size",
    "time_chunk_size",
]
