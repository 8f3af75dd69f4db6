"""Aggregations with an oracle in plain Python: what each answers for the events of a window."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mta import (
    ArgMax,
    ArgMin,
    Collect,
    Count,
    First,
    Last,
    Max,
    Mean,
    Median,
    Min,
    Product,
    Quantile,
    SampleStdDev,
    Sum,
)
from mta.aggregations import (
    AbstractMonoid,
    AllTrue,
    AnyTrue,
    BitAnd,
    BitOr,
    BitXor,
    CheckedSum,
    ColumnarMonoid,
    Concat,
    Correlation,
    CountIf,
    DecayedMean,
    DecayedSum,
    DecimalMean,
    Decimals,
    Entropy,
    ExactDistinctCount,
    GeometricMean,
    Increase,
    IncreaseRate,
    IncreasingRun,
    Integral,
    Lag,
    LagText,
    Largest,
    LongDecimals,
    LongestIncreasingRun,
    MaxCount,
    MinCount,
    Mode,
    MostFrequent,
    Multiply,
    NthText,
    NthValue,
    PopulationCovariance,
    PopulationKurtosis,
    PopulationSkewness,
    PopulationStdDev,
    PopulationVariance,
    Rank,
    RateOfChange,
    Regression,
    SampleCovariance,
    SampleKurtosis,
    SampleSkewness,
    SampleVariance,
    Smallest,
    StandardError,
    SumDistinct,
    TimeWeightedMean,
)

_DRAWN = np.random.default_rng(11)
#: Few distinct values, with ties and signs; exact as doubles.
NUMBERS: list[float] = _DRAWN.choice([-4.0, -0.5, 0.0, 1.0, 2.5, 3.0, 64.0], 60).tolist()
WHOLE: list[int] = _DRAWN.choice([-3, 0, 1, 6, 7, 2**62], 60).tolist()
WORDS: list[str] = _DRAWN.choice(["", "a", "b", "é", "cc"], 60).tolist()
PAIRS = list(zip(NUMBERS, _DRAWN.choice([-1.0, 0.0, 2.0, 5.0], 60).tolist(), strict=True))
#: Times in seconds, some of them equal, and values.
TIMED = list(zip(np.cumsum(_DRAWN.integers(0, 4, 60)).astype(float).tolist(), NUMBERS, strict=True))
POSITIVE = [abs(value) + 0.25 for value in NUMBERS]
#: More events: numbers, and words of which some are frequent.
_LONG = random.Random(5)
MANY_WORDS = [f"w{int(_LONG.paretovariate(0.8)) % 40}" for _ in range(120)]
MANY_NUMBERS = [float(_LONG.randrange(30)) for _ in range(120)]
RUNS = list(zip(MANY_NUMBERS, map(float, range(120)), strict=True))
NAN = math.nan
LONG, EXACT = LongDecimals(2), Context(prec=60)
#: Decimals of 31 digits, and of 18 digits whose sums have more.
MONEY: list[Decimal] = [
    Decimal(f"{each}E+20").quantize(Decimal("0.01"), context=EXACT) + 1
    for each in _DRAWN.choice([-99999999, -1, 0, 3, 71234567], 60).tolist()
]
CENTS: list[Decimal] = [Decimal(each).scaleb(-2) for each in _DRAWN.choice(
    [-(10**18) + 1, -1, 0, 1, 10**18 - 1], 60).tolist()]  # fmt: skip
WHOLE_PAIRS = list(zip(_DRAWN.integers(-2, 3, 60).tolist(), _DRAWN.integers(0, 5, 60).tolist(),
                       strict=True))  # fmt: skip


def total_of(values: list[Decimal]) -> Decimal:
    return reduce(EXACT.add, values, Decimal("0.00"))


def mean_of_money(values: list[Decimal]) -> Decimal:
    half_up = Context(prec=60, rounding=ROUND_HALF_UP)
    mean = Fraction(total_of(values)) / len(values) * 10**6
    whole = half_up.to_integral_value(half_up.divide(mean.numerator, mean.denominator))
    return whole.scaleb(-6, EXACT)


def batch_of(events: list[Any]) -> Any:
    """Events as ``extend`` takes them."""
    if isinstance(events[0], tuple):
        return tuple(list(column) for column in zip(*events, strict=True))
    return events


class Case(NamedTuple):
    """An aggregation, events, and what it answers for some of them."""

    make: Callable[[], AbstractMonoid]
    events: list[Any]
    oracle: Callable[[list[Any]], Any]

    def agrees(self, found: Any, events: list[Any]) -> bool:
        """Whether a result is the oracle's, up to a rounding."""
        return alike(None if found is np.ma.masked else found, self.oracle(events))


def alike(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(alike, found, wanted))
    if not isinstance(wanted, float):
        return bool(found == wanted)
    if math.isnan(wanted):
        return found is None or bool(np.isnan(found))
    return bool(np.isclose(found, wanted, rtol=1e-9, atol=1e-9))


def moment(values: Sequence[float], power: int) -> float:
    """The mean of (x - mean)^power, exact but for the last rounding."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** power for value in exact) / len(exact))


def variance(values: Sequence[float], lost: int) -> float:
    count = len(values)
    return moment(values, 2) * count / (count - lost) if count > lost else NAN


def skewness(values: Sequence[float]) -> float:
    spread = moment(values, 2)
    return moment(values, 3) / spread**1.5 if spread else NAN


def kurtosis(values: Sequence[float]) -> float:
    spread = moment(values, 2)
    return moment(values, 4) / spread**2 - 3 if spread else NAN


def sample_skewness(values: Sequence[float]) -> float:
    n = len(values)
    return skewness(values) * math.sqrt(n * (n - 1)) / (n - 2) if n > 2 else NAN


def sample_kurtosis(values: Sequence[float]) -> float:
    n = len(values)
    return ((n + 1) * kurtosis(values) + 6) * (n - 1) / ((n - 2) * (n - 3)) if n > 3 else NAN


def products(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Sums of squared distances: of y, of both, of x."""
    exact = [(Fraction(y), Fraction(x)) for y, x in pairs]
    mean_y, mean_x = (sum(column) / len(exact) for column in zip(*exact, strict=True))
    return (
        float(sum((y - mean_y) ** 2 for y, _ in exact)),
        float(sum((y - mean_y) * (x - mean_x) for y, x in exact)),
        float(sum((x - mean_x) ** 2 for _, x in exact)),
    )


def covariance(pairs: Sequence[tuple[float, float]], lost: int) -> float:
    return products(pairs)[1] / (len(pairs) - lost) if len(pairs) > lost else NAN


def correlation(pairs: Sequence[tuple[float, float]]) -> float:
    yy, xy, xx = products(pairs)
    return xy / math.sqrt(yy * xx) if yy * xx else NAN


def slope(pairs: Sequence[tuple[float, float]]) -> float:
    _, xy, xx = products(pairs)
    return xy / xx if xx else NAN


def intercept(pairs: Sequence[tuple[float, float]]) -> float:
    ys, xs = (math.fsum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return ys - slope(pairs) * xs


def determination(pairs: Sequence[tuple[float, float]]) -> float:
    yy, _, xx = products(pairs)
    return 1.0 if xx and not yy else correlation(pairs) ** 2


def by_frequency(values: Sequence[Any]) -> list[tuple[Any, int]]:
    return sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0]))


def rank(values: Sequence[float]) -> float:
    below = sum(value < values[-1] for value in values)
    return below + (values.count(values[-1]) + 1) / 2


def decayed(events: Sequence[tuple[float, float]], mean: bool) -> float:
    weights = [0.5 ** ((events[-1][0] - time) / 5) for time, _ in events]
    total = math.fsum(w * value for w, (_, value) in zip(weights, events, strict=True))
    return total / math.fsum(weights) if mean else total


def area(events: Sequence[tuple[float, float]], linear: bool) -> float:
    steps = pairwise(events)
    return math.fsum(
        (until - since) * ((before + after) / 2 if linear else before)
        for (since, before), (until, after) in steps
    )


def over_time(events: Sequence[tuple[float, float]], linear: bool) -> float:
    span = events[-1][0] - events[0][0]
    return area(events, linear) / span if span else events[-1][1]


def increase(values: Sequence[float]) -> float:
    steps = pairwise(values)
    return math.fsum(new - old if new >= old else new for old, new in steps)


def per_second(change: float, events: Sequence[tuple[float, float]]) -> float:
    span = events[-1][0] - events[0][0]
    return change / span if span else NAN


def of_bits(function: Callable[[int, int], int]) -> Callable[[list[int]], int]:
    def folded(values: list[int]) -> int:
        found = values[0]
        for value in values[1:]:
            found = function(found, value)
        return found

    return folded


def run_of(pairs: list[tuple[float, float]]) -> IncreasingRun:
    best, at, length = 0, 0, 0
    for i, (value, _) in enumerate(pairs):
        length = length + 1 if i and pairs[i - 1][0] < value else 1
        if length > best:
            best, at = length, i - length + 1
    start, end = pairs[at][1], pairs[at + best - 1][1]
    return IncreasingRun(start, end, end - start, best, at, len(pairs))


def applied(pairs: list[tuple[int, int]]) -> int:
    """The compositions of x -> a x + b, older first, of 3."""
    return reduce(lambda x, pair: pair[0] * x + pair[1], pairs, 3)


def span(name: str, **combining: Any) -> ColumnarMonoid:
    """A user's own: the largest value less the least."""
    return ColumnarMonoid(
        name, partials=("f8", "f8"), identity=(np.inf, -np.inf), **combining,
        lift=lambda value: (value, value), lower=lambda partial: partial[1] - partial[0],
    )  # fmt: skip


def affine() -> ColumnarMonoid:
    """A user's own whose order matters."""
    return ColumnarMonoid(
        "Affine", inputs=("i8", "i8"), partials=("i8", "i8"), output="i8", identity=(1, 0),
        combine=lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), lower=lambda f: f[0] * 3 + f[1],
        empty=3,
    )  # fmt: skip


def power() -> Product:
    """Several columns, one of which two aggregations read."""
    return Product(
        {
            "peak": ("watts", Max()), "when": (("watts", "at"), ArgMax("int64")),
            "mean": ("watts", Mean()), "calls": ("calls", Sum("int64")), "n": Count(),
        }
    )  # fmt: skip


#: The aggregations of every library.
BASIC: dict[str, Case] = {
    "Count": Case(Count, NUMBERS, len),
    "Sum": Case(Sum, NUMBERS, math.fsum),
    "Min": Case(Min, NUMBERS, min),
    "Max": Case(Max, NUMBERS, max),
    "Mean": Case(Mean, NUMBERS, lambda v: math.fsum(v) / len(v)),
    "GeometricMean": Case(
        GeometricMean, POSITIVE, lambda v: math.exp(math.fsum(map(math.log, v)) / len(v))
    ),
    "SampleStdDev": Case(SampleStdDev, NUMBERS, lambda v: math.sqrt(variance(v, 1))),
    "PopulationStdDev": Case(PopulationStdDev, NUMBERS, lambda v: math.sqrt(variance(v, 0))),
    "MinCount": Case(MinCount, NUMBERS, lambda v: v.count(min(v))),
    "MaxCount": Case(MaxCount, NUMBERS, lambda v: v.count(max(v))),
    "First": Case(First, NUMBERS, lambda v: v[0]),
    "Last": Case(Last, NUMBERS, lambda v: v[-1]),
    "ArgMin": Case(ArgMin, PAIRS, lambda p: min(p, key=lambda pair: pair[0])[1]),
    "ArgMax": Case(ArgMax, PAIRS, lambda p: max(p, key=lambda pair: pair[0])[1]),
    "Collect": Case(Collect, NUMBERS, list),
}
#: Those of users, which no list of ours has.
OWN: dict[str, Case] = {
    "own span of ufuncs": Case(
        lambda: span("Span", ufuncs=(np.minimum, np.maximum)), NUMBERS, lambda v: max(v) - min(v)
    ),
    "own span by a function": Case(
        lambda: span(
            "Spread", combine=lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1]))
        ),
        NUMBERS,
        lambda v: max(v) - min(v),
    ),
    "own affine": Case(affine, WHOLE_PAIRS, applied),
}
CASES: dict[str, Case] = {
    **BASIC,
    **OWN,
    "LongestIncreasingRun": Case(LongestIncreasingRun, RUNS, run_of),
    "SampleVariance": Case(SampleVariance, NUMBERS, lambda v: variance(v, 1)),
    "PopulationVariance": Case(PopulationVariance, NUMBERS, lambda v: variance(v, 0)),
    "StandardError": Case(StandardError, NUMBERS, lambda v: math.sqrt(variance(v, 1) / len(v))),
    "SampleSkewness": Case(SampleSkewness, NUMBERS, sample_skewness),
    "PopulationSkewness": Case(PopulationSkewness, NUMBERS, skewness),
    "SampleKurtosis": Case(SampleKurtosis, NUMBERS, sample_kurtosis),
    "PopulationKurtosis": Case(PopulationKurtosis, NUMBERS, kurtosis),
    "SampleCovariance": Case(SampleCovariance, PAIRS, lambda p: covariance(p, 1)),
    "PopulationCovariance": Case(PopulationCovariance, PAIRS, lambda p: covariance(p, 0)),
    "Correlation": Case(Correlation, PAIRS, correlation),
    "Regression": Case(Regression, PAIRS, slope),
    "Regression intercept": Case(lambda: Regression("intercept"), PAIRS, intercept),
    "Regression r2": Case(lambda: Regression("r2"), PAIRS, determination),
    "Regression count": Case(lambda: Regression("count"), PAIRS, len),
    "CountIf": Case(CountIf, NUMBERS, lambda v: sum(value != 0 for value in v)),
    "AnyTrue": Case(AnyTrue, NUMBERS, any),
    "AllTrue": Case(AllTrue, NUMBERS, all),
    "BitAnd": Case(BitAnd, WHOLE, of_bits(lambda a, b: a & b)),
    "BitOr": Case(BitOr, WHOLE, of_bits(lambda a, b: a | b)),
    "BitXor": Case(BitXor, WHOLE, of_bits(lambda a, b: a ^ b)),
    "Multiply": Case(Multiply, NUMBERS, math.prod),
    "Lag": Case(lambda: Lag(2), NUMBERS, lambda v: v[-3] if len(v) > 2 else None),
    "Lag of integers": Case(
        lambda: Lag(1, "int64"), WHOLE, lambda v: v[-2] if len(v) > 1 else None
    ),
    **{
        f"{name} of long decimals": Case(partial(made.of_types, LONG), MONEY, oracle)
        for name, made, oracle in (
            ("Max", Max(), max), ("Min", Min(), min), ("First", First(), lambda v: v[0]),
            ("Last", Last(), lambda v: v[-1]), ("Sum", Sum(), total_of),
            ("Lag", Lag(1), lambda v: v[-2] if len(v) > 1 else None),
            ("NthValue", NthValue(2), lambda v: v[1] if len(v) > 1 else None),
            ("Mode", Mode(), lambda v: min(set(v), key=lambda each: (-v.count(each), each))),
            ("ExactDistinctCount", ExactDistinctCount(), lambda v: len(set(v))),
            ("SumDistinct", SumDistinct(), lambda v: total_of([*set(v)])),
            ("Collect", Collect(), list),
        )
    },
    "DecimalMean": Case(lambda: DecimalMean(LONG), MONEY, mean_of_money),
    "DecimalMean of 18 digits": Case(lambda: DecimalMean(Decimals(2)), CENTS, mean_of_money),
    "CheckedSum of decimals": Case(lambda: CheckedSum(Decimals(2)), CENTS, total_of),
    "LagText": Case(lambda: LagText(1), WORDS, lambda v: v[-2] if len(v) > 1 else None),
    "NthValue": Case(lambda: NthValue(3), NUMBERS, lambda v: v[2] if len(v) > 2 else None),
    "NthText": Case(lambda: NthText(2), WORDS, lambda v: v[1] if len(v) > 1 else None),
    "Largest": Case(lambda: Largest(3), NUMBERS, lambda v: sorted(v, reverse=True)[:3]),
    "Smallest": Case(lambda: Smallest(2), NUMBERS, lambda v: sorted(v)[:2]),
    "Concat": Case(lambda: Concat("-"), WORDS, "-".join),
    "Concat distinct": Case(
        lambda: Concat(distinct=True), WORDS, lambda v: "".join(dict.fromkeys(v))
    ),
    "Median": Case(Median, NUMBERS, lambda v: float(np.median(v))),
    "Quantile": Case(
        lambda: Quantile([0.1, 0.75]), NUMBERS, lambda v: np.quantile(v, [0.1, 0.75]).tolist()
    ),
    "Rank": Case(Rank, NUMBERS, rank),
    "ExactDistinctCount": Case(ExactDistinctCount, WORDS, lambda v: len(set(v))),
    "ExactDistinctCount of doubles": Case(
        lambda: ExactDistinctCount("f8"), NUMBERS, lambda v: len(set(v))
    ),
    "Mode": Case(Mode, WORDS, lambda v: by_frequency(v)[0][0]),
    "Mode of integers": Case(lambda: Mode("int64"), WHOLE, lambda v: by_frequency(v)[0][0]),
    "MostFrequent": Case(lambda: MostFrequent(2), WORDS, lambda v: by_frequency(v)[:2]),
    "SumDistinct": Case(SumDistinct, NUMBERS, lambda v: math.fsum(set(v))),
    "SumDistinct of integers": Case(
        lambda: SumDistinct("int64"), WHOLE, lambda v: sum(set(v))
    ),
    "Entropy": Case(
        Entropy,
        WORDS,
        lambda v: -sum(n / len(v) * math.log2(n / len(v)) for n in Counter(v).values()) + 0.0,
    ),
    "DecayedSum": Case(lambda: DecayedSum("5 seconds"), TIMED, lambda e: decayed(e, False)),
    "DecayedMean": Case(lambda: DecayedMean("5 seconds"), TIMED, lambda e: decayed(e, True)),
    "TimeWeightedMean": Case(TimeWeightedMean, TIMED, lambda e: over_time(e, False)),
    "TimeWeightedMean linear": Case(
        lambda: TimeWeightedMean("linear"), TIMED, lambda e: over_time(e, True)
    ),
    "Integral": Case(lambda: Integral("linear"), TIMED, lambda e: area(e, True)),
    "RateOfChange": Case(RateOfChange, TIMED, lambda e: per_second(e[-1][1] - e[0][1], e)),
    "Increase": Case(Increase, NUMBERS, increase),
    "IncreaseRate": Case(
        IncreaseRate, TIMED, lambda e: per_second(increase([value for _, value in e]), e)
    ),
}  # fmt: skip
