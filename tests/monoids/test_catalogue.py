"""Bloom filters, MomentSketch, increasing runs and sketches: what they answer, in windows on disk,
against naive oracles; what they promise; and pages that hold something else.
"""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from mta import (
    AbstractMonoid,
    AmortizedMTA,
    BloomFilter,
    CountWindow,
    DistinctCount,
    FiBA,
    FrequentItems,
    IncreasingRun,
    KLLQuantiles,
    LogMTA,
    LongestIncreasingRun,
    Max,
    Members,
    MomentSketch,
    Monoid,
    Product,
    SinceLongestRun,
    SinceMax,
    TimeWindow,
    Window,
)
from mta.audit.walk import audit
from mta.columns import codec
from mta.columns.schemas import Objects
from mta.errors import CorruptHandle, CorruptPage, InvalidValue, MissingDependency
from mta.monoids.summary import SummaryMonoid
from mta.pages import page
from mta.pages.handle import Handle
from mta.pages.page import Group, Layout

pytest.importorskip("datasketches")

BOTH = pytest.mark.parametrize("aggregator", [AmortizedMTA, LogMTA])
DRAWN = random.Random(5)
WORDS = [f"w{int(DRAWN.paretovariate(0.8)) % 40}" for _ in range(120)]
NUMBERS = [float(DRAWN.randrange(30)) for _ in range(120)]


def exact_quantile(values: list[float], q: float) -> float:
    """The smallest value that at least the share q of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(q * len(values) - 1e-9) - 1)]


def run_of(pairs: list[tuple[float, float]]) -> IncreasingRun:
    best, at, length = 0, 0, 0
    for i, (value, _) in enumerate(pairs):
        length = length + 1 if i and pairs[i - 1][0] < value else 1
        if length > best:
            best, at = length, i - length + 1
    start, end = pairs[at][1], pairs[at + best - 1][1]
    return IncreasingRun(start, end, end - start, best, at, len(pairs))


def frequent_of(values: list[str]) -> list[tuple[str, int]]:
    often = [(item, n) for item, n in Counter(values).items() if n >= 0.1 * len(values)]
    return sorted(often, key=lambda pair: (-pair[1], pair[0]))


#: A monoid, events, and whether a result is what it should be of a window's events.
CASES: dict[str, tuple[Callable[[], AbstractMonoid], list[Any], Callable[[Any, list[Any]], bool]]]
CASES = {
    "BloomFilter": (
        lambda: BloomFilter(100, 1e-6),
        WORDS,
        lambda seen, some: {w for w in set(WORDS) if seen.might_contain(w)} == set(some),
    ),
    "DistinctCount": (
        DistinctCount,
        WORDS,
        lambda found, some: round(found, 3) == len(set(some)),
    ),
    "KLLQuantiles": (
        lambda: KLLQuantiles([0.0, 0.25, 0.5, 1.0]),
        NUMBERS,
        lambda found, some: found == [exact_quantile(some, q) for q in (0.0, 0.25, 0.5, 1.0)],
    ),
    "KLLQuantiles of one": (
        lambda: KLLQuantiles(0.9),
        NUMBERS,
        lambda found, some: found == exact_quantile(some, 0.9),
    ),
    "FrequentItems": (
        lambda: FrequentItems(0.1),
        WORDS,
        lambda found, some: found == frequent_of(some),
    ),
    "LongestIncreasingRun": (
        LongestIncreasingRun,
        list(zip(NUMBERS, map(float, range(120)), strict=True)),
        lambda found, some: found == run_of(some),
    ),
    "MomentSketch": (
        lambda: MomentSketch([0.0, 0.5, 1.0]),
        NUMBERS[:40],
        lambda found, some: (
            (found[0], found[2]) == (min(some), max(some)) and min(some) <= found[1] <= max(some)
        ),
    ),
}


def batch_of(events: list[Any]) -> Any:
    if isinstance(events[0], tuple):
        return tuple(list(column) for column in zip(*events, strict=True))
    return events


# --- in windows on disk -------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_windows_on_disk_are_restored_and_equal_the_oracle(
    name: str, aggregator: Any, tmp_path: Path
) -> None:
    make, events, right = CASES[name]
    for size in (1, 7, 45):
        store, settings = f"file://{tmp_path}/{size}", {"aggregator": aggregator}
        one = Window(make(), CountWindow(size), store, "one", arity=3, **settings)
        many = Window(make(), CountWindow(size), store, "many", arity=2, leaf_arity=5, **settings)
        for start in range(0, len(events), 12):
            batch = events[start : start + 12]
            found = many.extend(batch_of(batch))
            assert len(found) == len(batch)
            for i, (event, result) in enumerate(zip(batch, found, strict=True), start + 1):
                one.insert(event)
                window = events[max(0, i - size) : i]
                assert right(one.query(), window), (size, i)
                assert right(result, window), (size, i)
            kept = [window.checkpoint() for window in (one, many)]
            one, many = (
                Window.restore(handle, make(), CountWindow(size), store, **settings)
                for handle in kept
            )
        for window in (one, many):
            window.check()
            assert audit(window).damaged == []


@pytest.mark.parametrize("name", CASES)
def test_windows_over_fiba(name: str) -> None:
    make, events, right = CASES[name]
    window = Window(make(), TimeWindow(9), arity=4, aggregator=FiBA)
    for i, event in enumerate(events[:40]):
        window.insert(event, float(i))
        assert right(window.query(), events[max(0, i - 8) : i + 1])
    window = Window.restore(
        window.checkpoint(), make(), TimeWindow(9), window.store or "", aggregator=FiBA
    )
    assert right(window.query(), events[31:40])
    window.check()
    assert audit(window).damaged == []


@pytest.mark.parametrize("name", CASES)
def test_only_the_last_result(name: str) -> None:
    make, events, right = CASES[name]
    window = Window(make(), CountWindow(30), arity=4)
    for start in range(0, len(events), 17):
        found = window.extend(batch_of(events[start : start + 17]), results="last")
        end = min(start + 17, len(events))
        assert right(found[0], events[max(0, end - 30) : end])


@pytest.mark.parametrize("name", CASES)
def test_beside_others_in_a_product(name: str, tmp_path: Path) -> None:
    make, events, right = CASES[name]
    paired = isinstance(events[0], tuple)
    monoid = Product({"it": (("x", "t") if paired else "x", make()), "n": ("i", Max())})
    window = Window(monoid, CountWindow(9), f"file://{tmp_path}", arity=3)
    for i, event in enumerate(events[:50]):
        values = dict(zip(("x", "t"), event if paired else (event,), strict=False))
        window.insert({**values, "i": float(i)})
        found = window.query()
        assert found["n"] == i and right(found["it"], events[max(0, i - 8) : i + 1])
    window.check()


@pytest.mark.parametrize(
    ("monoid", "empty"),
    [
        (DistinctCount(), 0.0),
        (FrequentItems(), []),
        (LongestIncreasingRun("i8"), IncreasingRun(0, 0, 0, 0, 0, 0)),
        (LongestIncreasingRun("M8[us]"), IncreasingRun(None, None, None, 0, 0, 0)),
    ],
)
def test_empty_windows(monoid: AbstractMonoid, empty: Any) -> None:
    assert Window(monoid, CountWindow(2)).query() == empty


def test_empty_windows_without_a_number() -> None:
    for monoid in (KLLQuantiles(), MomentSketch()):
        window = Window(monoid, CountWindow(2))
        for _ in range(2):
            assert math.isnan(window.query())
            window.insert(3.0)
            assert window.query() == 3.0
            window.evict()
    for several in (KLLQuantiles([0.1, 0.2]), MomentSketch([0.1, 0.2])):
        found = Window(several, CountWindow(2)).query()
        assert len(found) == 2 and all(map(math.isnan, found))
    seen = Window(BloomFilter(10), CountWindow(2)).query()
    assert seen.distinct == 0 and not seen.might_contain("a")


# --- heavy partials -----------------------------------------------------------------------------


class CountedDistinct(DistinctCount):
    """Counts the sketches that are made, and merges."""

    made = merges = 0

    def new(self) -> Any:
        self.made += 1
        return super().new()

    def merge(self, summary: Any, other: Any) -> Any:
        self.merges += 1
        return super().merge(summary, other)


def test_a_group_of_values_goes_into_one_sketch() -> None:
    monoid = CountedDistinct()
    rows, n = monoid.rows([str(i % 700) for i in range(5000)])
    fold = monoid.fold(monoid.lift_rows(rows, n), n)
    assert (monoid.made, monoid.merges) == (1, 0)
    assert abs(monoid.lower(fold) - 700) < 5 * 0.0163 * 700


def test_a_window_makes_a_sketch_a_group_and_not_one_an_event() -> None:
    monoid = CountedDistinct()
    window = Window(monoid, CountWindow(1 << 30), leaf_arity=64, arity=8, aggregator=LogMTA)
    window.extend(list(range(64 * 64)), results="last")
    # Some for every append of 64 events and for every group that is sealed.
    assert monoid.made < 7 * 64


def test_the_stack_of_heavy_partials_is_bounded() -> None:
    for monoid, most in [(DistinctCount(14), 255), (KLLQuantiles(), 776), (BloomFilter(10**6), 64)]:
        assert Window(monoid, CountWindow(10)).structure.setting.leaf_arity <= most
    assert Window(Max(), CountWindow(10)).structure.setting.leaf_arity == 8128


def test_a_monoids_own_checks_are_asked_on_every_way_in() -> None:
    class Even(Monoid):
        def is_valid(self, row: Any) -> bool:
            return row % 2 == 0

    window = Window(Even(0, lambda a, b: a + b, name="even"), CountWindow(3))
    window.insert(2)
    for wrong in (lambda: window.insert(3), lambda: window.extend([4, 3])):
        with pytest.raises(InvalidValue):
            wrong()
    assert window.query() == 2


# --- Bloom filters ------------------------------------------------------------------------------


def test_a_bloom_filter_misses_nothing_and_errs_as_promised() -> None:
    monoid = BloomFilter(2000, 0.02)
    inside = [f"in {i}" for i in range(2000)]
    seen = monoid.lower(monoid.fold(inside, 2000))
    assert all(map(seen.might_contain, inside))
    wrong = sum(seen.might_contain(f"out {i}") for i in range(20_000))
    assert 0.01 < wrong / 20_000 < 0.03
    assert abs(seen.error - 0.02) < 0.004 and abs(seen.distinct - 2000) < 60
    assert len(seen) == 16 + monoid.bits // 8 and monoid.bits <= 8.2 * 2000


def test_members_go_anywhere_as_bytes() -> None:
    window = Window(BloomFilter(50), CountWindow(5))
    window.extend(["a", "b", 7, 2.5, b"raw", ("a", 1)])
    seen = window.query()
    again = Members(bytes(seen))
    assert again == seen and pickle.loads(pickle.dumps(seen)) == seen
    for value in ("b", 7, 7.0, np.int64(7), 2.5, b"raw", ("a", 1)):
        assert again.might_contain(value)
    assert not again.might_contain("a") and not again.might_contain("7")
    assert "about 5" in repr(again)
    for wrong in (b"", b"abc", seen[:-1], seen + b"x", b"B" + seen[1:], seen[:8] + bytes(8)):
        with pytest.raises(InvalidValue, match="no Bloom filter"):
            Members(wrong)
    with pytest.raises(InvalidValue):
        Members(seen[:6] + bytes(2) + seen[8:])  # no digest at all
    assert Members(seen[:16] + b"\xff" * (len(seen) - 16)).distinct == math.inf


def test_the_places_of_a_value_never_change() -> None:
    """Pages and results of before hold them."""
    seen = BloomFilter(10).lower(BloomFilter(10).fold(["a", 1], 2))
    assert seen.hex() == PINNED_MEMBERS


PINNED_MEMBERS = "626c6f6f6d310900800000000000000010460840008000000900100020092186"


@pytest.mark.parametrize(("capacity", "error"), [(0, 0.1), (10, 0), (10, 1), (10**12, 0.01)])
def test_bloom_filters_that_make_no_sense(capacity: int, error: float) -> None:
    with pytest.raises(ValueError, match="Bloom filter"):
        BloomFilter(capacity, error)


# --- moments ------------------------------------------------------------------------------------

QUANTILES = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]
SMOOTH: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.normal(0, 1, 20_000),
    "normal near 1e9": lambda rng: rng.normal(1e9, 1, 20_000),
    "normal, tiny": lambda rng: rng.normal(3e-12, 1e-12, 20_000),
    "uniform": lambda rng: rng.uniform(-3, 5, 20_000),
    "exponential": lambda rng: rng.exponential(1, 20_000),
    "lognormal": lambda rng: rng.lognormal(0, 2, 20_000),
    "lognormal, huge": lambda rng: rng.lognormal(600, 20, 20_000),
    "pareto": lambda rng: rng.pareto(1.2, 20_000) + 1,
    "gamma": lambda rng: rng.gamma(0.1, 1, 20_000),
    "two modes": lambda rng: rng.permutation(
        np.concatenate([rng.normal(-5, 1, 10_000), rng.normal(5, 0.5, 10_000)])
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_quantiles_of_smooth_data_within_a_hundredth_of_rank(name: str) -> None:
    data = SMOOTH[name](np.random.default_rng(11))
    window = Window(MomentSketch(QUANTILES), CountWindow(15_000), leaf_arity=64, arity=8)
    for part in np.array_split(data, 7):
        found = window.extend(part, results="last")[0]
    kept = np.sort(data[-15_000:])
    ranks = np.searchsorted(kept, found) / len(kept)
    assert np.abs(ranks - QUANTILES).max() < 0.01


def test_moments_are_the_papers_sums_of_powers() -> None:
    """Scaled back, they are the sums of x^i and of (log x)^i over all events."""
    data = np.random.default_rng(2).uniform(1, 3, 500)
    monoid = MomentSketch(k=5)
    halves = [monoid.fold(monoid.lift(part), len(part)) for part in np.array_split(data, [123])]
    partial = monoid.combine(*halves)
    assert partial[:3].tolist() == [500, data.min(), data.max()]
    for sums, x in ((partial[3:8], data), (partial[8:], np.log(data))):
        c, h = (x.min() + x.max()) / 2, (x.max() - x.min()) / 2
        scaled = np.concatenate(([500.0], sums))
        for i in range(1, 6):
            raw = sum(math.comb(i, j) * h**j * c ** (i - j) * scaled[j] for j in range(i + 1))
            np.testing.assert_allclose(raw, (x**i).sum(), rtol=1e-12)


def test_moments_do_not_wear_out_in_a_deep_tree() -> None:
    """Brought from range to range at every level, they are what all values at once give."""
    data = np.random.default_rng(3).normal(1e6, 10, 4096)
    monoid = MomentSketch()
    rows = monoid.lift(data)
    level = list(rows)
    while len(level) > 1:
        level = [monoid.combine(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    chain = monoid.identity
    for row in rows[:500]:
        chain = monoid.combine(chain, row)
    at_once = monoid.fold(rows, len(rows))
    np.testing.assert_allclose(level[0], at_once, rtol=1e-12, atol=1e-8)
    np.testing.assert_allclose(chain, monoid.fold(rows[:500], 500), rtol=1e-12, atol=1e-9)


def test_moments_of_few_values() -> None:
    window = Window(MomentSketch([0.0, 0.5, 1.0]), CountWindow(50), arity=4)
    assert window.extend([5.0, 5.0, 5.0])[-1] == [5.0, 5.0, 5.0]
    window.insert(6.0)
    low, middle, high = window.query()
    assert low == 5.0 <= middle <= high == 6.0
    coins = Window(MomentSketch([0.25, 0.75]), CountWindow(1000))
    found = coins.extend([float(i % 2) for i in range(1000)], results="last")[0]
    assert found[0] < 0.01 and found[1] > 0.99  # only the ends have any mass


def test_what_moments_cannot_take() -> None:
    window = Window(MomentSketch(), CountWindow(5), invalid="drop")
    window.extend([1.0, math.inf, -math.inf, math.nan, 3.0])
    window.insert(math.inf)
    assert len(window) == 2 and window.stats().invalid == 4
    extremes = Window(MomentSketch([0.0, 1.0]), CountWindow(5))
    assert extremes.extend([-1e308, 1e308, 0.0])[-1] == [-1e308, 1e308]
    with pytest.raises(ValueError, match="moments"):
        MomentSketch(k=1)
    for wrong in ([], [1.5], -0.1):
        with pytest.raises(ValueError, match="from 0 to 1"):
            MomentSketch(wrong)


# --- increasing runs and the policies of Experiment 3 -------------------------------------------


def test_the_runs_of_the_modules_example() -> None:
    values = [2, 3, 1, 4, 5, 9, 10, 4, 6]
    window = Window(LongestIncreasingRun("i8"), CountWindow(4), arity=2)
    found = window.extend((values, list(range(9))))
    expected = [
        run_of(list(zip(values, range(9), strict=True))[max(0, i - 3) : i + 1]) for i in range(9)
    ]
    assert list(found) == expected
    assert type(found[0].start) is int


def test_equal_neighbours_and_nan_end_a_run() -> None:
    window = Window(LongestIncreasingRun(), CountWindow(9), invalid="accept")
    values = [1.0, 2.0, 2.0, 3.0, math.nan, 4.0, 5.0]
    found = [run.length for run in window.extend((values, [0.0] * 7))]
    assert found == [1, 2, 2, 2, 2, 2, 2]
    assert window.query().before == 0  # the oldest of equal ones


def test_runs_with_timestamps() -> None:
    days = np.arange("2024-01-01", "2024-01-05", dtype="M8[D]")
    window = Window(LongestIncreasingRun("M8[us]"), TimeWindow("3 days"))
    window.extend(([5.0, 1.0, 2.0, 3.0], days), days.astype("M8[us]"))
    start = datetime(2024, 1, 2)
    assert window.query() == IncreasingRun(start, start + timedelta(2), timedelta(2), 3, 0, 3)
    with pytest.raises(ValueError, match="M8"):
        LongestIncreasingRun("M8[ns]")


@BOTH
@pytest.mark.parametrize("size", [3, 20, 1000])
def test_since_the_maximum(aggregator: Any, size: int, tmp_path: Path) -> None:
    """The window begins at the oldest maximum; results are those of the count window alone."""
    policy, store = CountWindow(size) | SinceMax(), f"file://{tmp_path}"
    window = Window(Max(), policy, store, arity=3, aggregator=aggregator)
    kept: list[float] = []
    plain = Window(Max(), CountWindow(size)).extend(NUMBERS)
    for value, expected in zip(NUMBERS, plain, strict=True):
        window.insert(value)
        kept = [*kept, value]
        # Both policies are asked of the window before either has evicted anything.
        kept = kept[max(len(kept) - size, kept.index(max(kept))) :]
        assert (len(window), window.query()) == (len(kept), expected)
        window = Window.restore(window.checkpoint(), Max(), policy, store, aggregator=aggregator)
    window.check()


@BOTH
@pytest.mark.parametrize("size", [3, 20, 1000])
def test_since_the_longest_run(aggregator: Any, size: int) -> None:
    pairs = list(zip(NUMBERS, map(float, range(120)), strict=True))
    window = Window(
        LongestIncreasingRun(),
        CountWindow(size) | SinceLongestRun(),
        arity=3,
        aggregator=aggregator,
    )
    plain = Window(LongestIncreasingRun(), CountWindow(size)).extend(batch_of(pairs))
    kept: list[tuple[float, float]] = []
    for pair, expected in zip(pairs, plain, strict=True):
        window.insert(pair)
        kept = [*kept, pair]
        kept = kept[max(len(kept) - size, run_of(kept).before) :]
        assert len(window) == len(kept)
        assert window.query() == run_of(kept)
        assert window.query()[:4] == expected[:4]  # what left could not have come back
    window.check()


# --- sketches -----------------------------------------------------------------------------------


def test_distinct_counts_are_within_their_error() -> None:
    monoid = DistinctCount(12)
    for n in (100, 3000, 200_000):
        found = monoid.lower(monoid.fold(list(range(n)), n))
        assert abs(found - n) < 4 * 0.0163 * n


def folded(monoid: AbstractMonoid, values: list[Any], rng: random.Random) -> Any:
    """The fold along a random tree of random parts."""
    parts, at = [], 0
    while at < len(values):
        step = rng.randrange(1, 2 + len(values) // 3)
        part = values[at : at + step]
        parts.append(monoid.fold(part, len(part)))
        at += step
    while len(parts) > 1:
        i = rng.randrange(len(parts) - 1)
        parts[i : i + 2] = [monoid.combine(parts[i], parts[i + 1])]
    return parts[0]


@pytest.mark.parametrize("n", [3, 8, 40, 380, 390, 3000])
def test_distinct_counts_depend_on_nothing_but_the_values(n: int) -> None:
    """Whatever the order and the tree: the same estimate, and the same bytes in a page."""
    monoid, rng, found = DistinctCount(), random.Random(n), set()
    for _ in range(6):
        values = [rng.randrange(n) for _ in range(3 * n)] + list(range(n))
        rng.shuffle(values)
        partial = folded(monoid, values, rng)
        found.add((monoid.lower(partial), monoid.partials.dump([partial])[0][1]))
    assert len(found) == 1


def test_what_counts_as_a_value() -> None:
    window = Window(DistinctCount(), CountWindow(20), invalid="drop")
    window.extend(["", "a", "a", 1, 1.0, True, -(2**63), 2**63, None, b"raw", "\ud800", math.nan])
    assert round(window.query()) == 5  # "", "a", 1 (and True), 1.0, -2^63
    assert window.stats().invalid == 5
    for wrong in (2**63, b"raw", "\ud800", (1, 2)):
        with pytest.raises(InvalidValue):
            Window(DistinctCount(), CountWindow(2)).insert(wrong)
    window.insert(np.int64(1))
    assert round(window.query()) == 5


def test_kll_keeps_its_guarantee_after_merges() -> None:
    rng = np.random.default_rng(4)
    data = rng.lognormal(0, 1, 60_000)
    qs = [0.01, 0.1, 0.5, 0.9, 0.99]
    window = Window(KLLQuantiles(qs), CountWindow(50_000), leaf_arity=256, arity=4)
    found = window.extend(data, results="last")[0]
    ranks = np.searchsorted(np.sort(data[-50_000:]), found) / 50_000
    # The guarantee is 1.33%, in 99 of 100 cases.
    assert np.abs(ranks - qs).max() < 2 * 0.0133
    window.check()
    assert audit(window).damaged == []


def test_kll_is_the_same_in_any_order_up_to_k_values() -> None:
    monoid, rng = KLLQuantiles(), random.Random(1)
    values, found = [rng.random() for _ in range(200)], set()
    for _ in range(5):
        rng.shuffle(values)
        partial = folded(monoid, values, rng)
        monoid.lower(partial)  # to ask changes nothing
        found.add(monoid.partials.dump([partial])[0][1])
    assert len(found) == 1


def test_kll_sketches_that_differ_are_told_apart() -> None:
    monoid = KLLQuantiles()
    small = monoid.fold([1.0, 2.0, 3.0], 3)
    large = monoid.fold(np.arange(5000.0), 5000)
    assert monoid.same(small, monoid.fold([3.0, 1.0, 2.0], 3))
    assert monoid.same(large, monoid.fold(np.arange(5000.0)[::-1], 5000))
    for other in (None, 1.0, monoid.fold([1.0, 2.5, 3.0], 3), large):
        assert not monoid.same(small, other)
    assert not monoid.same(large, monoid.fold(np.arange(5000.0) ** 2 / 4999, 5000))


def test_frequent_items_keep_their_guarantee_after_any_merges() -> None:
    """Bounds hold for every item, and no item of the share is missing; also where a sketch has
    dropped all its items, which the library takes for an empty one.
    """
    monoid = FrequentItems(0.5, lg_size=3)
    for seed in range(300):
        rng = random.Random(seed)
        kinds = rng.choice([6, 12, 100])
        values = [str(rng.randrange(kinds)) for _ in range(rng.randrange(1, 80))]
        partial = monoid.summary(folded(monoid, values, rng))
        again = monoid.from_bytes(monoid.to_bytes(partial))
        found = dict(monoid.lower(partial))
        assert found == dict(monoid.lower(again))
        for item, n in Counter(values).items():
            bounds = again.get_lower_bound(item), again.get_upper_bound(item)
            assert bounds[0] <= n <= bounds[1] <= n + monoid.error * len(values)
            assert n < 0.5 * len(values) or found[item] >= n


def test_frequent_items_of_a_large_stream() -> None:
    rng = random.Random(8)
    values = [str(int(rng.paretovariate(1))) for _ in range(30_000)]
    window = Window(FrequentItems(0.02), CountWindow(20_000), leaf_arity=128, arity=8)
    found = window.extend(values, results="last")[0]
    true, slack = Counter(values[-20_000:]), window.monoid.error * 20_000  # type: ignore[attr-defined]
    listed = dict(found)
    for item, n in true.items():
        assert n < 0.02 * 20_000 or n <= listed[item] <= n + slack
    assert all(true[item] + slack >= 0.02 * 20_000 for item in listed)
    assert [n for _, n in found] == sorted(listed.values(), reverse=True)
    assert audit(window).damaged == []


def test_frequent_numbers() -> None:
    whole = Window(FrequentItems(0.2, of=int), CountWindow(9), invalid="drop")
    whole.extend([3, 3, 2**70, -1, True, 2.5, "3", None])
    assert whole.query() == [(3, 2), (-1, 1), (2**70, 1)]
    floats = Window(FrequentItems(0.2, of=float), CountWindow(9), invalid="drop")
    floats.extend([0.0, -0.0, 0.1, 7, math.nan])
    assert floats.query() == [(0.0, 2), (0.1, 1), (7.0, 1)]
    for options in ({"share": 0}, {"of": bytes}, {"lg_size": 2}, {"lg_size": 5}):
        with pytest.raises(ValueError, match=r"share|items|lg_size"):
            FrequentItems(**options)


def test_settings_out_of_range() -> None:
    for make in (
        lambda: DistinctCount(6),
        lambda: KLLQuantiles(k=7),
        lambda: KLLQuantiles(2.0),
        lambda: KLLQuantiles([]),
    ):
        with pytest.raises(ValueError, match="number"):
            make()


# --- fingerprints, pickles, and the missing library ----------------------------------------------

MADE: list[Callable[[], AbstractMonoid]] = [make for make, _, _ in CASES.values()]


def test_fingerprints_tell_them_apart_and_last() -> None:
    others = [
        *[make() for make in MADE],
        BloomFilter(200),
        DistinctCount(11),
        KLLQuantiles(0.9, k=100),
        FrequentItems(0.1, of=int),
        FrequentItems(0.2),
        MomentSketch(0.5),
        MomentSketch(0.5, k=4),
        LongestIncreasingRun("i8"),
    ]
    assert len({monoid.fingerprint for monoid in others}) == len(others)
    assert {name: make().fingerprint.hex() for name, (make, _, _) in CASES.items()} == FINGERPRINTS


#: Handles hold these: a change makes every handle of before unreadable.
FINGERPRINTS = {
    "BloomFilter": "a02f594b4d93b1d1782c819f2e142ea6",
    "DistinctCount": "f254d4c041d62a3e249a07b19532744c",
    "KLLQuantiles": "0bf765f59c2748ce7ef528357018bdc6",
    "KLLQuantiles of one": "0e6c815b8f23482f5ee7c5c846bd0b39",
    "FrequentItems": "8e7867805e1ee4062f3a6ed41d557141",
    "LongestIncreasingRun": "9920cc43255d376ab8f44c028d1a74b0",
    "MomentSketch": "95d5baa880c492708a4eeaf9171f00b9",
}


@pytest.mark.parametrize("name", CASES)
def test_spark_can_ship_them(name: str) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    make, events, right = CASES[name]
    there = pickle.loads(cloudpickle.dumps(make()))
    assert there.fingerprint == make().fingerprint
    window = Window(there, CountWindow(10))
    assert right(window.extend(batch_of(events), results="last")[0], events[-10:])


def test_without_the_library_only_sketches_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    for make in (DistinctCount, KLLQuantiles, FrequentItems):
        with pytest.raises(MissingDependency, match=r"mta-windows\[sketches\]"):
            make()
    window = Window(BloomFilter(10), CountWindow(2))
    window.insert("a")
    assert window.query().might_contain("a")


def test_mta_does_not_load_the_library() -> None:
    script = "import sys, mta; print('datasketches' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


# --- pages that hold something else --------------------------------------------------------------

SUMMARIES: dict[str, Callable[[], SummaryMonoid]] = {
    "BloomFilter": lambda: BloomFilter(100),
    "DistinctCount": DistinctCount,
    "KLLQuantiles": lambda: KLLQuantiles([0.5]),
    "FrequentItems": FrequentItems,
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_page_of_no_sketches_is_corrupt_and_says_which(name: str) -> None:
    monoid = SUMMARIES[name]()
    for hostile in (b"", b"\0" * 200, b"\xff" * 48, "text", 7, [b"x"]):
        data = page.encode(
            "w", 1, 4, Group([hostile], None, [], 1), Layout(Objects(), False, False)
        )
        layout = Layout(monoid.partials, False, False)
        with pytest.raises(
            CorruptPage, match=r"page w/1/4/\w+ is damaged: a partial is no summary"
        ):
            page.decode(data, "w", 1, 4, page.name_of(data), layout)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_handle_of_no_sketches_is_corrupt(name: str) -> None:
    values = NUMBERS if name == "KLLQuantiles" else WORDS
    window = Window(SUMMARIES[name](), CountWindow(30), "memory://", arity=2)
    window.extend(values, results="last")
    handle = Handle.decode(window.checkpoint())

    def spoiled(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return [spoiled(part) for part in item]
        if isinstance(item, bytes) and len(item) > 16:
            unpacked = msgpack.unpackb(item) if item[:1] in (b"\x91", b"\x92") else None
            if isinstance(unpacked, list) and all(isinstance(p, bytes) for p in unpacked):
                return codec.pack([b"\x01" + part[:5] for part in unpacked])
        return item

    handle.state = spoiled(handle.state)
    with pytest.raises(CorruptHandle, match="no summary"):
        restored = Window.restore(
            handle.encode(), SUMMARIES[name](), CountWindow(30), window.store or ""
        )
        restored.insert(values[0])
        restored.check()


FUZZ = """
import random, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from mta import *
from mta.columns import codec
from mta.errors import CorruptPage
name, seed = sys.argv[1], int(sys.argv[2])
monoid = {"DistinctCount": DistinctCount, "KLLQuantiles": lambda: KLLQuantiles([.5]),
          "FrequentItems": FrequentItems, "BloomFilter": lambda: BloomFilter(100)}[name]()
rng, tried, read = random.Random(seed), 0, 0
def attempt(data):
    global tried, read
    tried += 1
    try:
        (summary,) = monoid.partials.load(iter([("msgpack", codec.pack([data]))]), 1)
    except CorruptPage:
        return
    read += 1
    value = .5 if name == "KLLQuantiles" else "a"
    more = monoid.combine(monoid.fold([summary, summary], 2), value)
    monoid.lower(more), monoid.lower(summary), monoid.partials.dump([more, summary])
for n in (1, 3, 60, 5000):
    values = [rng.random() if name == "KLLQuantiles" else str(rng.randrange(n)) for _ in range(n)]
    whole = monoid.to_bytes(monoid.summary(monoid.fold(values, n)))
    attempt(whole)
    assert read, "what it wrote itself"
    head = min(len(whole), 48)
    for length in range(head):
        attempt(whole[:length])
    attempt(whole[:-1]), attempt(whole + b"x")
    for at in range(head):
        for byte in (0, 1, 2, 4, 8, 16, 32, 64, 128, 255):
            attempt(whole[:at] + bytes([whole[at] ^ byte]) + whole[at + 1:])
    for _ in range(300):
        spoiled = bytearray(whole)
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(head if rng.random() < .7 else len(whole))
            spoiled[at] = rng.choice([0, 1, 255, rng.randrange(256)])
        attempt(bytes(spoiled))
print("tried", tried, "read", read)
"""


@pytest.mark.parametrize("name", SUMMARIES)
def test_no_bytes_crash_the_process_or_ask_for_much_memory(name: str) -> None:
    """In a process of its own, with a gigabyte of addresses: a crash would end it."""
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, name, "1"],
        env={"PYTHONPATH": ":".join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    tried, read = map(int, done.stdout.split()[1::2])
    assert tried > 1500 and 0 < read < tried
