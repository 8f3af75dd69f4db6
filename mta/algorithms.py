"""The papers' algorithms by name: those in pages, for ``aggregator=``, and those in memory.

``docs/papers.md`` has a table of the papers, the algorithms and the modules. ``IN_ORDER`` lists the
algorithms for events in order, in memory:

>>> from mta import Mean
>>> [algorithm.__name__ for algorithm in IN_ORDER if algorithm.suits(Mean())][:2]
['RecalculateFromScratch', 'SubtractOnEvict']
"""

from mta.evaluators.amortized_mta import AmortizedMTA, LogMTA
from mta.evaluators.fiba import FiBA
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.reactive import PagedReactiveAggregator
from mta.evaluators.steady_mta import SteadyMTA
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

#: All algorithms for events in order, in memory. SBA and PBA evict automatically, and take a range
#: after the monoid.
IN_ORDER: tuple[type[InOrderAggregator], ...] = (
    RecalculateFromScratch, SubtractOnEvict, TwoStacks, TwoStacksLite, FOA, IOA, DABA,
    CachedDABA, DABALite, FlatFIT, SlickDeque, SlideSide, BaseIntervals, SBA, PBA,
)  # fmt: skip

__all__ = [
    "DABA", "FOA", "IN_ORDER", "IOA", "PBA", "SBA", "AmortizedMTA", "BaseIntervals",
    "BoundaryAggregator", "CachedDABA", "DABALite", "FiBA", "FlatFIT", "InOrderAggregator",
    "LogMTA", "PagedFlatFAT", "PagedReactiveAggregator", "RecalculateFromScratch", "Sliced",
    "SlickDeque", "SlideSide", "SteadyMTA", "SubtractOnEvict", "TwoStacks", "TwoStacksLite",
    "count_chunk_size", "pairs", "panes", "time_chunk_size",
]  # fmt: skip
