"""Monoids: what a window computes. The ready-made ones, and the bases for one's own.

- ``base``, ``columnar``, ``summary``: plain functions, numpy columns, heavy partials
- ``basic``, ``deviations``: sums, means, extremes, lists; standard deviations
- ``product``: several aggregations in one structure
- ``begun``: aggregations of columns that were not stored before
- ``moments``, ``increasing_run``, ``bloom``, ``sketches``: beyond the usual
- ``equality``, ``naming``: when partials are the same, and what functions are called
"""

from mta.columns.schemas import Decimals
from mta.monoids.base import AbstractMonoid, Monoid
from mta.monoids.basic import (
    ArgMax,
    ArgMin,
    CheckedSum,
    Collect,
    CollectDistinct,
    Count,
    First,
    FirstText,
    GeometricMean,
    Last,
    LastText,
    Max,
    MaxCount,
    MaxText,
    Mean,
    Min,
    MinCount,
    MinText,
    Sum,
)
from mta.monoids.bloom import BloomFilter, Members
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.deviations import PopulationStdDev, SampleStdDev
from mta.monoids.increasing_run import IncreasingRun, LongestIncreasingRun
from mta.monoids.moments import MomentSketch
from mta.monoids.product import Product
from mta.monoids.sketches import CountMin, DistinctCount, Frequencies, FrequentItems, KLLQuantiles
from mta.monoids.summary import SummaryMonoid

__all__ = [
    "AbstractMonoid",
    "ArgMax",
    "ArgMin",
    "BloomFilter",
    "CheckedSum",
    "Collect",
    "CollectDistinct",
    "ColumnarMonoid",
    "Count",
    "CountMin",
    "Decimals",
    "DistinctCount",
    "First",
    "FirstText",
    "Frequencies",
    "FrequentItems",
    "GeometricMean",
    "IncreasingRun",
    "KLLQuantiles",
    "Last",
    "LastText",
    "LongestIncreasingRun",
    "Max",
    "MaxCount",
    "MaxText",
    "Mean",
    "Members",
    "Min",
    "MinCount",
    "MinText",
    "MomentSketch",
    "Monoid",
    "PopulationStdDev",
    "Product",
    "SampleStdDev",
    "Sum",
    "SummaryMonoid",
]
