"""Aggregations by name: ``"max"`` for ``Max()``, ``"quantile(0.9)"`` for ``Quantile(0.9)``.

The names are those of pandas, polars, Spark and DuckDB. If libraries use different names for one
aggregation, all of them work; ``docs/catalogue.md`` lists them. Some names mean different
aggregations in different libraries. Here:

- ``skew`` and ``kurt``: the estimates for a sample, as in pandas; ``skewness`` and ``kurtosis``:
  those of the events themselves, as in Spark
- ``max_by`` and ``arg_max``: columns in SQL's order (argument, value), where the class ``ArgMax``
  reads (value, argument)

>>> named("stddev"), named("quantile(0.9)"), named("string_agg('-')")
(SampleStdDev, Quantile(0.9, linear), Concat('-', distinct=False))
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any, get_args

from mta.monoids import (
    basic,
    bloom,
    deviations,
    distinct,
    increasing_run,
    logical,
    moments,
    positional,
    quantiles,
    regression,
    shape,
    sketches,
    text,
    timeseries,
)
from mta.monoids.base import AbstractMonoid

Factory = Callable[..., AbstractMonoid]

#: All names of each aggregation.
AGGREGATIONS: list[tuple[Factory, str]] = [
    (basic.Count, "count len size"),
    (basic.Sum, "sum"),
    (basic.Mean, "mean avg average"),
    (basic.GeometricMean, "geomean geometric_mean"),
    (basic.Min, "min minimum"),
    (basic.Max, "max maximum"),
    (basic.MinCount, "min_count"),
    (basic.MaxCount, "max_count"),
    (basic.ArgMin, "min_by arg_min argmin"),
    (basic.ArgMax, "max_by arg_max argmax"),
    (basic.First, "first first_value any_value arbitrary"),
    (basic.Last, "last last_value"),
    (text.Collect, "collect_list array_agg list collect implode"),
    (text.CollectDistinct, "collect_set unique"),
    (deviations.SampleStdDev, "std stddev stddev_samp"),
    (deviations.PopulationStdDev, "stddev_pop std_pop"),
    (deviations.SampleVariance, "var variance var_samp"),
    (deviations.PopulationVariance, "var_pop"),
    (deviations.StandardError, "sem"),
    (shape.SampleSkewness, "skew skew_samp"),
    (shape.PopulationSkewness, "skewness skew_pop"),
    (shape.SampleKurtosis, "kurt kurt_samp"),
    (shape.PopulationKurtosis, "kurtosis kurtosis_pop"),
    (regression.SampleCovariance, "cov covar_samp"),
    (regression.PopulationCovariance, "covar_pop"),
    (regression.Correlation, "corr"),
    *[
        (partial(regression.Regression, each), f"regr_{each}")
        for each in get_args(regression.Statistic)
    ],
    (quantiles.Median, "median"),
    (quantiles.Quantile, "quantile percentile quantile_cont percentile_cont"),
    (partial(quantiles.Quantile, interpolation="discrete"), "quantile_disc percentile_disc"),
    (quantiles.Rank, "rank"),
    (distinct.ExactDistinctCount, "count_distinct nunique n_unique"),
    (distinct.Mode, "mode"),
    (distinct.MostFrequent, "most_frequent"),
    (distinct.SumDistinct, "sum_distinct"),
    (distinct.Entropy, "entropy"),
    (logical.CountIf, "count_if countif"),
    (logical.AnyTrue, "any bool_or some"),
    (logical.AllTrue, "all bool_and every"),
    (logical.BitAnd, "bit_and bitwise_and"),
    (logical.BitOr, "bit_or bitwise_or"),
    (logical.BitXor, "bit_xor bitwise_xor"),
    (logical.Multiply, "product prod"),
    (positional.Lag, "lag"),
    (positional.NthValue, "nth_value nth"),
    (positional.Largest, "top_k largest nlargest"),
    (positional.Smallest, "bottom_k smallest nsmallest"),
    (positional.Concat, "string_agg listagg group_concat"),
    (partial(positional.Concat, distinct=True), "string_agg_distinct listagg_distinct"),
    (timeseries.DecayedSum, "decayed_sum"),
    (timeseries.DecayedMean, "decayed_mean"),
    (timeseries.TimeWeightedMean, "time_weighted_mean"),
    (timeseries.Integral, "integral"),
    (timeseries.RateOfChange, "rate_of_change"),
    (timeseries.Increase, "increase"),
    (timeseries.IncreaseRate, "increase_rate"),
    (sketches.DistinctCount, "approx_count_distinct approx_n_unique"),
    (sketches.KLLQuantiles, "approx_quantile approx_percentile percentile_approx"),
    (sketches.FrequentItems, "frequent_items"),
    (sketches.CountMin, "count_min_sketch"),
    (bloom.BloomFilter, "bloom_filter"),
    (moments.MomentSketch, "moment_sketch"),
    (increasing_run.LongestIncreasingRun, "longest_increasing_run"),
]
#: The aggregation of each name.
NAMES: dict[str, Factory] = {
    name: factory for factory, names in AGGREGATIONS for name in names.split()
}
#: Aggregations whose named columns are in the reverse order of what the class reads.
_REVERSED = {basic.ArgMin, basic.ArgMax}


def named(text: str) -> AbstractMonoid:
    """Create an aggregation from its name, with arguments in parentheses if it takes any.

    Raises ValueError for an unknown name, with similar names, and for wrong arguments.
    """
    name, arguments, keywords = _read(text)
    factory = factory_of(name)
    try:
        return factory(*arguments, **keywords)
    except (TypeError, ValueError) as error:
        raise ValueError(f"aggregation {text!r}: {error}") from error


def named_pair(columns: Any, text: str) -> tuple[Any, AbstractMonoid]:
    """Return the named aggregation, and its columns in the order in which the monoid reads them."""
    monoid = named(text)
    if type(monoid) in _REVERSED and not isinstance(columns, str) and columns is not None:
        return tuple(reversed(columns)), monoid
    return columns, monoid


def factory_of(name: str) -> Factory:
    """Return the factory of an aggregation. Raises ValueError for an unknown name."""
    if name in NAMES:
        return NAMES[name]
    close = get_close_matches(name, NAMES, n=3, cutoff=0.6)
    usual = "try 'max', 'mean', 'std', 'median', 'quantile(0.9)'"
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else usual
    raise ValueError(f"there is no aggregation {name!r}; {hint}")


def _read(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Parse a text into the name, in lower case, and its arguments."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        if not isinstance(call.func, ast.Name) or any(each.arg is None for each in call.keywords):
            raise ValueError("it is not a name")
        keywords = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        arguments = [ast.literal_eval(each) for each in call.args]
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"aggregation {text!r} is neither a name, such as 'max', nor a name with arguments, "
            "such as 'quantile(0.9)'"
        ) from error
    return call.func.id.lower(), arguments, keywords
