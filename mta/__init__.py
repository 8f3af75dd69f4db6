"""Sliding windows whose pages live in a key-value store.

Start with ``Window`` and a monoid and a policy from here. The wings, each importing only those
before it:

- ``errors``, ``times``: what goes wrong, and times as whole microseconds
- ``kernels``, ``columns``: numbers without a monoid; values and partials as columns
- ``monoids``: what a window computes
- ``in_order``: the papers' algorithms in memory
- ``folds``: many ranges at once
- ``policies``: which of the oldest events leave
- ``pages``: the formats of pages and handles
- ``cursors``: fronts over events that others keep
- ``levels``, ``reactive``, ``fiba``: the papers' structures in pages
- ``windows``, ``keyed``, ``triggers``: what users hold
- ``audit``, ``laws``: checks of what is stored, and of what users write
- ``cli``, ``bench``: the commands without Spark, and the experiments
"""

from mta.audit.description import HandleSummary, SubWindow, describe_handle
from mta.cursors.reach import Reach
from mta.fiba import FiBA
from mta.keyed.rolling import rolling
from mta.keyed.windows import KeyedStats, KeyedWindows, Latest
from mta.levels.amortized_mta import AmortizedMTA
from mta.levels.log_mta import LogMTA
from mta.monoids.base import AbstractMonoid, Monoid
from mta.monoids.basic import (
    ArgMax,
    ArgMin,
    CheckedSum,
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
from mta.monoids.bloom import BloomFilter, Members
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.increasing_run import IncreasingRun, LongestIncreasingRun
from mta.monoids.moments import MomentSketch
from mta.monoids.product import Product
from mta.monoids.sketches import DistinctCount, FrequentItems, KLLQuantiles
from mta.policies import (
    AbstractPolicy,
    BoundWindow,
    CountWindow,
    Policy,
    SinceLongestRun,
    SinceMax,
    TimeWindow,
)
from mta.reactive.paged import PagedReactiveAggregator
from mta.reactive.paged_flat_fat import PagedFlatFAT
from mta.triggers.rules import EveryCount, EveryPeriod, OnDemand, Trigger
from mta.triggers.sliced import SlicedWindow
from mta.triggers.triggered import Due, TriggeredWindow
from mta.windows.shared import SharedStats, SharedWindows
from mta.windows.window import Stats, Window

__all__ = [
    "AbstractMonoid",
    "AbstractPolicy",
    "AmortizedMTA",
    "ArgMax",
    "ArgMin",
    "BloomFilter",
    "BoundWindow",
    "CheckedSum",
    "Collect",
    "CollectDistinct",
    "ColumnarMonoid",
    "Count",
    "CountWindow",
    "DistinctCount",
    "Due",
    "EveryCount",
    "EveryPeriod",
    "FiBA",
    "First",
    "FrequentItems",
    "GeometricMean",
    "HandleSummary",
    "IncreasingRun",
    "KLLQuantiles",
    "KeyedStats",
    "KeyedWindows",
    "Last",
    "Latest",
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
    "rolling",
]
