"""The Reactive Aggregator paper: FlatFAT and the Reactive Aggregator, in memory and in pages."""

from mta.reactive.flat_fat import FlatFAT
from mta.reactive.in_memory import ReactiveAggregator
from mta.reactive.paged import PagedReactiveAggregator
from mta.reactive.paged_flat_fat import PagedFlatFAT

__all__ = ["FlatFAT", "PagedFlatFAT", "PagedReactiveAggregator", "ReactiveAggregator"]
