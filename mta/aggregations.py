"""What windows compute: ready-made aggregations, and base classes for your own.

The catalogue (``docs/catalogue.md``) lists them with their names, costs and results. ``mta`` itself
exports the most common ones.
"""

from mta.columns.schemas import Datetimes, Decimals, LongDecimals
from mta.monoids.base import AbstractMonoid, Monoid
from mta.monoids.basic import (
    ArgMax,
    ArgMin,
    CheckedSum,
    Count,
    DecimalMean,
    First,
    GeometricMean,
    Last,
    Max,
    MaxCount,
    Mean,
    Min,
    MinCount,
    Sum,
)
from mta.monoids.bloom import BloomFilter, Members
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.decimals import LongSum
from mta.monoids.deviations import (
    PopulationStdDev,
    PopulationVariance,
    SampleStdDev,
    SampleVariance,
    StandardError,
)
from mta.monoids.distinct import Entropy, ExactDistinctCount, Mode, MostFrequent, SumDistinct
from mta.monoids.increasing_run import IncreasingRun, LongestIncreasingRun
from mta.monoids.logical import AllTrue, AnyTrue, BitAnd, BitOr, BitXor, CountIf, Multiply
from mta.monoids.moments import MomentSketch
from mta.monoids.positional import Concat, Lag, LagText, Largest, NthText, NthValue, Smallest
from mta.monoids.product import Product
from mta.monoids.quantiles import Median, Quantile, Rank
from mta.monoids.regression import Correlation, PopulationCovariance, Regression, SampleCovariance
from mta.monoids.shape import PopulationKurtosis, PopulationSkewness, SampleKurtosis, SampleSkewness
from mta.monoids.sketches import CountMin, DistinctCount, Frequencies, FrequentItems, KLLQuantiles
from mta.monoids.summary import SummaryMonoid
from mta.monoids.text import Collect, CollectDistinct, FirstText, LastText, MaxText, MinText
from mta.monoids.timeseries import (
    DecayedMean,
    DecayedSum,
    Increase,
    IncreaseRate,
    Integral,
    RateOfChange,
    TimeWeightedMean,
)

__all__ = [
    "AbstractMonoid", "AllTrue", "AnyTrue", "ArgMax", "ArgMin", "BitAnd", "BitOr", "BitXor",
    "BloomFilter", "CheckedSum", "Collect", "CollectDistinct", "ColumnarMonoid", "Concat",
    "Correlation", "Count", "CountIf", "CountMin", "Datetimes", "DecayedMean", "DecayedSum",
    "DecimalMean", "Decimals", "DistinctCount", "Entropy", "ExactDistinctCount", "First",
    "FirstText", "Frequencies", "FrequentItems", "GeometricMean", "Increase", "IncreaseRate",
    "IncreasingRun", "Integral", "KLLQuantiles", "Lag", "LagText", "Largest", "Last",
    "LastText", "LongDecimals", "LongSum", "LongestIncreasingRun", "Max", "MaxCount", "MaxText",
    "Mean", "Median", "Members", "Min", "MinCount", "MinText", "Mode", "MomentSketch", "Monoid",
    "MostFrequent", "Multiply", "NthText", "NthValue", "PopulationCovariance",
    "PopulationKurtosis", "PopulationSkewness", "PopulationStdDev", "PopulationVariance",
    "Product", "Quantile", "Rank", "RateOfChange", "Regression", "SampleCovariance",
    "SampleKurtosis", "SampleSkewness", "SampleStdDev", "SampleVariance", "Smallest",
    "StandardError", "Sum", "SumDistinct", "SummaryMonoid", "TimeWeightedMean",
]  # fmt: skip
