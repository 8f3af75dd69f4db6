"""When partials are the same: as far as the numbers that went in are known, and no further."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from mta import (
    CountWindow,
    Mean,
    Monoid,
    Product,
    SampleStdDev,
    SharedWindows,
    Sum,
    TimeWindow,
    Window,
)
from mta.aggregations import (
    AbstractMonoid,
    ColumnarMonoid,
    GeometricMean,
    MomentSketch,
    PopulationStdDev,
)
from mta.algorithms import IN_ORDER, BoundaryAggregator, FiBA, LogMTA
from mta.errors import InvariantViolation
from mta.frames import Frame
from mta.logs.base import Aggregator
from mta.monoids.base import Refold
from mta.monoids.equality import Scale, same
from mta.testing import check_monoid
from tests.support.naive import AGGREGATORS
from tests.support.sampling import REST


def profit_and_loss(random: Random, count: int) -> list[float]:
    """A series of gains and losses of mixed sizes, which nearly cancel."""
    sizes = (random.choice([0.01, 1.0, 1e4, 1e9, 1e13]) for _ in range(count))
    return [random.gauss(0, 1) * size for size in sizes]


def cancelling(size: float) -> Callable[[Random, int], list[float]]:
    """Large values that cancel, with small ones between them."""

    def series(random: Random, count: int) -> list[float]:
        values: list[float] = []
        while len(values) < count:
            large = random.uniform(0.5, 1) * size
            values += [large, random.uniform(-5, 5), -large]
        return values[:count]

    return series


SERIES = {
    "profit and loss": profit_and_loss,
    "1e17": cancelling(1e17),
    "1e100": cancelling(1e100),
    "1e300": cancelling(1e300),
    "one far away": lambda random, count: [1e17, *(random.random() for _ in range(count - 1))],
    "nearly alike": lambda random, count: [1e9 + random.random() for _ in range(count)],
    "near 0": lambda random, count: random.choices([5e-324, -5e-324, 1e-310, 1e-320, 0.0], k=count),
    "squares near 0": lambda random, count: random.choices([1e-162, -1.1e-162, 1e-170], k=count),
}
PLAIN_SUM = Monoid(identity=0.0, combine=lambda a, b: a + b, name="plain sum")
MONOIDS: dict[str, Callable[[], AbstractMonoid]] = {
    "Sum": Sum,
    "Mean": Mean,
    "SampleStdDev": SampleStdDev,
    "PopulationStdDev": PopulationStdDev,
    "MomentSketch": lambda: MomentSketch(0.5, k=4),
    "plain": lambda: PLAIN_SUM,
    "Product": lambda: Product(
        {"sum": ("x", Sum()), "deviation": ("x", SampleStdDev()), "plain": ("x", PLAIN_SUM)}
    ),
}


def batch_of(monoid: AbstractMonoid, values: list[float]) -> Any:
    return {"x": values} if isinstance(monoid, Product) else values


def event_of(monoid: AbstractMonoid, value: float) -> Any:
    return {"x": value} if isinstance(monoid, Product) else value


#: Of every monoid and series two structures in turn; by default one, of every other series: any
#: structure meets any monoid and any series.
SCENARIOS = [
    pytest.param(
        make,
        series,
        kind,
        id=f"{name}-{series}-{kind.__name__}",
        marks=[REST] if turn or (one + other) % 2 else [],
    )
    for one, (name, make) in enumerate(MONOIDS.items())
    for other, series in enumerate(SERIES)
    for turn in (0, 2)
    for kind in [AGGREGATORS[(one + other + turn) % len(AGGREGATORS)]]
]


@pytest.mark.parametrize(("make", "series", "aggregator"), SCENARIOS)
def test_sound_windows_are_sound(
    make: Callable[[], AbstractMonoid], series: str, aggregator: type[Aggregator]
) -> None:
    """In batches and one by one, sliding, restored: what was folded otherwise is the same."""
    random = Random(f"{series} {aggregator.__name__}")
    monoid = make()
    window = Window(monoid, CountWindow(23), arity=2, leaf_arity=3, aggregator=aggregator)
    values = SERIES[series](random, 44)
    while values:
        count = random.choice([1, 1, 2, 5, 12])
        if count == 1:
            window.insert(event_of(monoid, values[0]))
        else:
            window.extend(batch_of(monoid, values[:count]))
        del values[:count]
        window.check()
    window = window.restore_like(window.checkpoint())
    window.check()


@pytest.mark.sample(1)
@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("make", [Sum, Mean, SampleStdDev])
def test_sound_windows_in_memory_are_sound(make: Callable[[], Any], series: str) -> None:
    for algorithm in IN_ORDER:
        random, monoid = Random(series), make()
        if not algorithm.suits(monoid):
            continue
        slides = issubclass(algorithm, BoundaryAggregator)
        window: Any = algorithm(monoid, 12, 3) if slides else algorithm(monoid)
        with np.errstate(all="ignore"):
            for step, value in enumerate(SERIES[series](random, 60)):
                window.insert(value)
                if step > 12 and not slides:
                    window.evict()
                window.check()


@pytest.mark.parametrize("series", SERIES)
def test_sound_shared_windows_are_sound(series: str) -> None:
    sizes: dict[str, Frame] = {"short": CountWindow(4), "long": CountWindow(30)}
    for monoid in (Sum(), SampleStdDev()):
        windows = SharedWindows(monoid, sizes, arity=2, name="w")
        for value in SERIES[series](Random(series), 40):
            windows.extend([value])
            windows.check()


@pytest.mark.parametrize("aggregator", [LogMTA, FiBA])
@pytest.mark.parametrize(
    ("make", "values"),
    [
        (Sum, [1.0, 2.0, 3.0] * 9),
        (Sum, [1e17, 20.0, -1e17] * 9),
        (Mean, [0.5] * 27),
        (SampleStdDev, [1000.0, 1001.0, 1002.0] * 9),
        (SampleStdDev, [1e-3, 2e-3, 4e-3] * 9),
        (GeometricMean, [2.0, 1e300, 1e-300] * 9),
    ],
)
def test_real_damage_is_found(
    make: Callable[[], Any], values: list[float], aggregator: type[Aggregator]
) -> None:
    """An event that is counted twice, or not at all, among numbers that do not hide it."""
    monoid = make()
    with np.errstate(all="ignore"):
        lifted = [monoid.lift(monoid.row(value)) for value in values]
        fold = Refold(monoid, lifted)
        assert fold.agrees(monoid.fold(monoid.lift_rows(np.array(values), 27), 27))
        kept = 1e17 not in values
        assert fold.agrees(Refold(monoid, lifted[1:]).partial) is False or not kept
        assert not fold.agrees(Refold(monoid, [*lifted, lifted[0]]).partial)
        window = Window(monoid, CountWindow(27), store=None, arity=2, aggregator=aggregator)
        for value in values:
            window.insert(value)
        window.check()
        structure: Any = window.structure()
        if isinstance(structure, LogMTA):
            structure.cursor.have(monoid.partials.one(Refold(monoid, lifted[1:]).partial))
            with pytest.raises(InvariantViolation):
                window.check()


def test_the_tolerance_follows_what_went_in() -> None:
    large = Scale.of(1e17) + Scale.of(3.0) + Scale.of(-1e17)
    assert large.total == [2e17 + 3] and large.count == 3
    assert same(0.0, 3.0, large)
    assert not same(0.0, 3.0, Scale.of(3.0))
    assert not Sum().same(0.0, 1e4, large)  # a rounding of 1e17 is 16
    assert Sum().same(0.0, 16.0, large)
    assert not Sum().same(10.0, 10.0 + 1e-6, Scale.of(10.0)), "ten numbers are known to the last"
    assert not same((1, 2.0), (1.0000001, 2.0)) or same(1, 1.0)


def test_infinities_and_overflow() -> None:
    inf, nan = float("inf"), float("nan")
    finite = Scale.of(1.0) + Scale.of(inf) + Scale.of(nan)
    assert finite.total == [1.0]
    assert same(inf, inf, finite) and same(nan, nan, finite)
    assert not same(inf, 5.0, finite) and not same(nan, 5.0, finite) and not same(inf, -inf, finite)
    beyond = Scale.of(1.7e308) + Scale.of(-1.7e308)
    assert same(inf, 0.0, beyond), "where the magnitudes overflow, so may one way alone"


def test_scales_of_rows_are_those_of_each() -> None:
    values = np.array([1.0, -4.0, np.inf])
    columns = values, np.array([3, -1, 2]), [(1.0, "a"), (-2.0, ""), (0.0, "b")]
    at_once = Scale.of_rows(columns, 3)
    one_by_one = sum(map(Scale.of, zip(*columns, strict=True)), start=Scale())
    assert at_once.count == one_by_one.count == 3
    assert list(map(float, at_once.total)) == list(map(float, one_by_one.total)) == [5.0, 6.0, 3.0]
    table = np.array([[1.0, -2.0], [3.0, 4.0]])
    assert Scale.of_rows(table, 2).total[0].tolist() == [4.0, 6.0]
    assert sum(map(Scale.of, table), start=Scale()).total[0].tolist() == [4.0, 6.0]


def test_partials_that_grow_and_differ_in_form() -> None:
    lists = Monoid(identity=(), combine=lambda a, b: a + b, lift=lambda v: (v,), name="list")
    fold = Refold(lists, [(1.0,), (2.0,), (3.0,)])
    assert fold.agrees((1.0, 2.0, 3.0))
    assert not fold.agrees((1.0, 2.0)) and not fold.agrees((1.0, 2.0, 4.0))
    assert same({"a": 1.0, "b": [2]}, {"b": [2], "a": 1.0})
    assert not same({"a": 1.0}, {"b": 1.0}) and not same([1.0], 1.0) and not same(1.0, [1.0])
    assert not same(np.ones(2), np.ones(3)) and not same(1.0, "a") and not same("a", 1.0)
    assert same(np.array(["NaT"], "M8[s]"), np.array(["NaT"], "M8[s]"))


@pytest.mark.parametrize("seed", range(20))
def test_lists_of_any_length_beside_arrays_are_sound(seed: int) -> None:
    """The numbers of such a partial may be as many as those of its scale, and of other shapes."""
    random = Random(seed)
    lists = {"u": ("a", "collect_set"), "s": ("a", "bottom_k(2)"), "q": ("b", "quantile(0.9)")}
    window = Window(Product(lists), TimeWindow(12), arity=2, leaf_arity=3)
    count = random.randint(3, 30)
    columns = {name: [float(random.randint(-4, 4)) for _ in range(count)] for name in "ab"}
    window.extend(columns, list(range(count)))
    window.check()


def test_a_merged_deviation_of_ones_own() -> None:
    """What is known of one number of a partial may hang on another one."""

    def merge(a: Any, b: Any) -> Any:
        count, delta = a[0] + b[0], b[1] - a[1]
        if not count:
            return a
        mean = a[1] + delta * b[0] / count
        return count, mean, a[2] + b[2] + delta * delta * a[0] * b[0] / count

    own = Monoid(identity=(0, 0.0, 0.0), combine=merge, lift=lambda v: (1, v, 0.0), name="own")
    for values in ([0.1] * 40, [1e9 + i % 3 for i in range(40)], [1e17] * 40):
        window = Window(own, CountWindow(11), arity=2)
        window.extend(values)
        window.check()
    check_monoid(own, [0.1, 0.1, 0.3, 1e9, 1e9 + 1, -4.0])


def test_laws_look_at_what_was_combined() -> None:
    check_monoid(Sum(), [1e17, 3.0, -1e17, 1e300, -1e300, 0.0])
    check_monoid(PLAIN_SUM, [1e17, 3.0, -1e17, 1e300, -1e300, 0.0])
    off = ColumnarMonoid(
        "off", partials="f8", identity=0.0, combine=lambda a, b: a + b + 1e-4 * (a * b * b)
    )
    with pytest.raises(AssertionError, match="associativity"):
        check_monoid(off, [3.0, 4.0, 5.0, 100.0, -2.5])
