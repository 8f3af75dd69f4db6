"""What built-ins do with infinities, overflow, zeros and the ends of int64, on every way alike.

The statement is in docs/numbers.md. Special values are compared to the bit, finite results up to
the bound that is given there; the oracle is plain Python in exact arithmetic.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import pytest

from mta import (
    ArgMax,
    ArgMin,
    Count,
    CountWindow,
    First,
    Last,
    Max,
    Mean,
    Min,
    SampleStdDev,
    Sum,
    Window,
)
from mta.aggregations import AbstractMonoid, GeometricMean, MaxCount, MinCount, PopulationStdDev
from mta.algorithms import IN_ORDER, BoundaryAggregator, SlickDeque, SubtractOnEvict
from tests.support.naive import AGGREGATORS

INF, NAN, LARGEST = math.inf, math.nan, 1.7976931348623157e308
Oracle = Callable[[list[float]], float]


def exact_sum(values: list[float]) -> float:
    infinite = {value for value in values if math.isinf(value)}
    if infinite:
        return infinite.pop() if len(infinite) == 1 else NAN
    return float(sum(map(Fraction, values)))


def mean(values: list[float]) -> float:
    total = exact_sum(values)
    return (
        total / len(values)
        if math.isinf(total) or total != total
        else float(sum(map(Fraction, values)) / len(values))
    )


def deviation(lost: int) -> Oracle:
    def oracle(values: list[float]) -> float:
        count = len(values)
        if any(map(math.isinf, values)) or count == lost:
            return NAN
        center = sum(map(Fraction, values)) / count
        squares = sum((Fraction(value) - center) ** 2 for value in values)
        return INF if squares > Fraction(LARGEST) else math.sqrt(squares / (count - lost))

    return oracle


def geometric(values: list[float]) -> float:
    if 0.0 in values:
        return NAN if INF in values else 0.0
    return INF if INF in values else math.exp(math.fsum(map(math.log, values)) / len(values))


def extreme(best: Callable[[list[float]], float]) -> Oracle:
    return lambda values: best(values) + 0.0


def bound(monoid: AbstractMonoid, values: list[float]) -> float:
    """By how much a finite result may differ from the exact one."""
    count, sizes = len(values), [abs(v) for v in values if math.isfinite(v)]
    if isinstance(monoid, Sum):
        return count * 2**-52 * math.fsum(sizes)
    if isinstance(monoid, Mean):
        return 2**-51 * math.fsum(sizes)
    if isinstance(monoid, (SampleStdDev, PopulationStdDev)):
        return count * 2**-48 * max(sizes, default=0.0) + 1e-160
    return 1e-11 * max(sizes, default=0.0) if isinstance(monoid, GeometricMean) else 0.0


BUILT_INS: dict[str, tuple[Callable[[], AbstractMonoid], Oracle]] = {
    "Count": (Count, lambda values: len(values)), "Sum": (Sum, exact_sum), "Mean": (Mean, mean),
    "Min": (Min, extreme(min)), "Max": (Max, extreme(max)),
    "MinCount": (MinCount, lambda values: values.count(min(values))),
    "MaxCount": (MaxCount, lambda values: values.count(max(values))),
    "First": (First, lambda values: values[0]), "Last": (Last, lambda values: values[-1]),
    "SampleStdDev": (SampleStdDev, deviation(1)),
    "PopulationStdDev": (PopulationStdDev, deviation(0)),
    "GeometricMean": (GeometricMean, geometric),
    "ArgMin": (ArgMin, lambda values: float(values.index(min(values)))),
    "ArgMax": (ArgMax, lambda values: float(values.index(max(values)))),
}  # fmt: skip
#: Of none do the magnitudes of as many as a window holds add up to more than the largest double.
HOSTILE = [
    0.0, -0.0, INF, -INF, 1e300, -1e300, 1e154, -1e154, 1e17, -1e17, 5e-324, -5e-324, 1e-170,
    2.0**53 + 2, 1.0, -1.0, 3.5, LARGEST / 64, -LARGEST / 64,
]  # fmt: skip
SIZE = 7


def streams(name: str) -> Iterator[list[float]]:
    """Values with special ones from time to time, so that windows hold none, one or several."""
    random = Random(name)
    for pool in (HOSTILE, [0.0, -0.0, 1.0], [1e300, -1e300, 1.0], [INF, 1.0, 2.0, 4.0, 8.0],
                 [1e17, -1e17, 1.0], [1e9 + i for i in range(5)]):  # fmt: skip
        values = [random.choice([*pool, random.uniform(-9, 9)]) for _ in range(40)]
        yield [abs(value) for value in values] if name == "GeometricMean" else values


def events(name: str, values: list[float], first: int = 0) -> Any:
    """A batch; for the arguments of extremes, the number of each value."""
    if name.startswith("Arg"):
        return values, [float(i) for i in range(first, first + len(values))]
    return values


def bits(value: Any) -> bytes:
    value = float(value)
    return struct.pack("<d", NAN if value != value else value)


#: The values that a window holds after an event, their exact result, and by how much it may differ.
Held = tuple[list[float], float, float]


def held_after(name: str, values: list[float]) -> list[Held]:
    """What a window holds after each of some values."""
    make, oracle = BUILT_INS[name]
    parts = [values[max(0, stop - SIZE) : stop] for stop in range(1, len(values) + 1)]
    return [(part, oracle(part), bound(make(), part)) for part in parts]


@cache
def scenarios(name: str) -> list[tuple[list[float], list[Held]]]:
    """Each stream, and what is known after each of its events: the same on every way."""
    return [(values, held_after(name, values)) for values in streams(name)]


def require(name: str, held: Held, found: Any, way: str) -> None:
    values, wanted, slack = held
    special = not (math.isfinite(wanted) and math.isfinite(float(found)))
    if special or not slack:
        assert bits(found) == bits(wanted), (name, way, values, found, wanted)
    else:
        assert abs(float(found) - wanted) <= slack, (name, way, values, found, wanted)
        assert bits(found) != bits(-0.0)


@pytest.fixture(autouse=True)
def _nothing_warns() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.sample(1)
@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("name", BUILT_INS)
def test_every_way_through_a_window(name: str, aggregator: type) -> None:
    """Single events, batches of any cut, restored in between."""
    make, _ = BUILT_INS[name]
    for values, known in scenarios(name):
        for step in (1, 3, 40):
            window = Window(make(), CountWindow(SIZE), arity=2, leaf_arity=3, aggregator=aggregator)
            at = 0
            while at < len(values):
                part = values[at : at + step]
                given = events(name, part, at)
                if step == 1:
                    window.insert((part[0], float(at)) if name.startswith("Arg") else part[0])
                    results = [window.query()]
                else:
                    results = list(window.extend(given))
                for i, found in enumerate(results):
                    offset = max(0, at + i + 1 - SIZE) if name.startswith("Arg") else 0
                    way = f"{aggregator.__name__} by {step}"
                    require(name, known[at + i], float(found) - offset, way)
                at += step
                if at in (10, 20):
                    window = window.restore_like(window.checkpoint())


@pytest.mark.parametrize("name", BUILT_INS)
def test_every_way_in_memory(name: str) -> None:
    make, _ = BUILT_INS[name]
    for algorithm in IN_ORDER:
        by_inverse = (SubtractOnEvict,) if make().selective else (SubtractOnEvict, SlickDeque)
        if issubclass(algorithm, (BoundaryAggregator, *by_inverse)) or not algorithm.suits(make()):
            continue  # what takes values out again refuses infinities, and keeps its rounding
        for values, known in scenarios(name):
            window = algorithm(make())
            for i, value in enumerate(values):
                window.insert((value, float(i)) if name.startswith("Arg") else value)
                if len(window) > SIZE:
                    window.evict()
                offset = max(0, i + 1 - SIZE) if name.startswith("Arg") else 0
                require(name, known[i], float(window.query()) - offset, algorithm.__name__)


@pytest.mark.parametrize("make", [Sum, Mean])
def test_beyond_the_largest_double_a_sum_hangs_on_the_order_and_nothing_else(make: Any) -> None:
    """What the page says of it: the exact sum rounded, an infinity or a NaN; then all is well."""
    for aggregator in AGGREGATORS:
        for step in (1, 3):
            window = Window(make(), CountWindow(3), arity=2, aggregator=aggregator)
            values = [LARGEST, LARGEST, -LARGEST, 1.0, 2.0, 3.0]
            for at in range(0, 6, step):
                found = window.extend(values[at : at + step])
            assert found[-1] == (6.0 if make is Sum else 2.0)


def test_deviations_do_not_warn_or_differ_near_the_ends() -> None:
    for lost, make in ((1, SampleStdDev), (0, PopulationStdDev)):
        for value in (0.0, 1e300, -LARGEST, 5e-324):
            window = Window(make(), CountWindow(3))
            assert bits(window.extend([value] * 3)[-1]) == bits(0.0)
            assert bits(Window(make(), CountWindow(3)).extend([value])[0]) == bits(
                NAN if lost else 0.0
            )
        for pair in ([1e300, -1e300], [LARGEST, -LARGEST], [LARGEST, 0.0]):
            assert Window(make(), CountWindow(2)).extend(pair)[-1] == INF
            assert math.isnan(Window(make(), CountWindow(3)).extend([*pair, INF])[-1])


def test_the_ends_of_int64() -> None:
    """Integers are exact; a sum beyond 64 bits wraps round, in whatever order it is added."""
    ends = [2**63 - 1, -(2**63), 2**63 - 1, 1, -1, 2**62]
    for aggregator in AGGREGATORS:
        for step in (1, 2, 6):
            for make, fold in ((Sum, sum), (Min, min), (Max, max)):
                window = Window(make("int64"), CountWindow(3), arity=2, aggregator=aggregator)
                found: list[int] = []
                for at in range(0, 6, step):
                    found += window.extend(ends[at : at + step]).tolist()
                held = [ends[max(0, i - 2) : i + 1] for i in range(6)]
                wanted = [(fold(part) + 2**63) % 2**64 - 2**63 for part in held]
                assert found == wanted, (make, aggregator, step)
