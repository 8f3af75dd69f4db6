"""Sliding windows whose pages live in a key-value store.

Start with ``Window``; the monoids are in ``monoids``, the policies in ``policy``.
"""

from mta.amortized_mta import AmortizedMTA
from mta.bloom import BloomFilter, Members
from mta.columnar import ColumnarMonoid
from mta.description import HandleSummary, SubWindow, describe_handle
from mta.fiba import FiBA
from mta.flat_fat_pages import PagedFlatFAT
from mta.log_mta import LogMTA
from mta.moments import MomentSketch
from mta.monoid import AbstractMonoid, Monoid
from mta.monoids import (
    ArgMax,
    ArgMin,
    Collect,
    CollectDistinct,
    Count,
    First,
    GeometricMean,
    Last,
    Max,
    MaxCount,
    Mean,
    Min,
    MinCount,
    PopulationStdDev,
    SampleStdDev,
    Sum,
)
from mta.policy import AbstractPolicy, BoundWindow, CountWindow, Policy, TimeWindow
from mta.product import Product
from mta.reach import Reach
from mta.reactive_pages import PagedReactiveAggregator
from mta.shared import SharedStats, SharedWindows
from mta.sketches import DistinctCount, FrequentItems, KLLQuantiles
from mta.slicing import SlicedWindow
from mta.subsequence import IncreasingRun, LongestIncreasingRun, SinceLongestRun, SinceMax
from mta.triggered import Due, TriggeredWindow
from mta.triggers import EveryCount, EveryEvent, EveryPeriod, OnDemand, Trigger
from mta.window import Stats, Window

__all__ = [
    "AbstractMonoid",
    "AbstractPolicy",
    "AmortizedMTA",
    "ArgMax",
    "ArgMin",
    "BloomFilter",
    "BoundWindow",
    "Collect",
    "CollectDistinct",
    "ColumnarMonoid",
    "Count",
    "CountWindow",
    "DistinctCount",
    "Due",
    "EveryCount",
    "EveryEvent",
    "EveryPeriod",
    "FiBA",
    "First",
    "FrequentItems",
    "GeometricMean",
    "HandleSummary",
    "IncreasingRun",
    "KLLQuantiles",
    "Last",
    "LogMTA",
    "LongestIncreasingRun",
    "Max",
    "MaxCount",
    "Mean",
    "Members",
    "Min",
    "MinCount",
    "MomentSketch",
    "Monoid",
    "OnDemand",
    "PagedFlatFAT",
    "PagedReactiveAggregator",
    "Policy",
    "PopulationStdDev",
    "Product",
    "Reach",
    "SampleStdDev",
    "SharedStats",
    "SharedWindows",
    "SinceLongestRun",
    "SinceMax",
    "SlicedWindow",
    "Stats",
    "SubWindow",
    "Sum",
    "TimeWindow",
    "Trigger",
    "TriggeredWindow",
    "Window",
    "describe_handle",
]
