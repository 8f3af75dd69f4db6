"""The monoids beyond the usual: in windows, against naive oracles, and as snapshots know them."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mta import ArgMax, CountWindow, Max, Min, Monoid, Product, Sum, Window
from mta.aggregations import (
    AbstractMonoid,
    BloomFilter,
    CountMin,
    DistinctCount,
    FrequentItems,
    IncreasingRun,
    KLLQuantiles,
    LongestIncreasingRun,
    MomentSketch,
)
from mta.audit.walk import audit
from tests.support.aggregations import CASES as MORE
from tests.support.aggregations import MANY_NUMBERS, MANY_WORDS, OWN, batch_of, power
from tests.support.naive import AGGREGATORS

pytest.importorskip("datasketches")

EACH = pytest.mark.parametrize("aggregator", AGGREGATORS)


def exact_quantile(values: list[float], q: float) -> float:
    """The smallest value that at least the share q of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(q * len(values) - 1e-9) - 1)]


def frequent_of(values: list[str]) -> list[tuple[str, int]]:
    often = [(item, n) for item, n in Counter(values).items() if n >= 0.1 * len(values)]
    return sorted(often, key=lambda pair: (-pair[1], pair[0]))


#: A monoid, events, and whether a result is what it should be of a window's events.
CASES: dict[str, tuple[Callable[[], AbstractMonoid], list[Any], Callable[[Any, list[Any]], bool]]]
CASES = {
    "BloomFilter": (lambda: BloomFilter(100, 1e-6), MANY_WORDS,
                    lambda seen, some: set(filter(seen.might_contain, MANY_WORDS)) == set(some)),
    "DistinctCount": (DistinctCount, MANY_WORDS,
                      lambda found, some: round(found, 3) == len(set(some))),
    "KLLQuantiles": (
        lambda: KLLQuantiles([0.0, 0.25, 0.5, 1.0]), MANY_NUMBERS,
        lambda found, some: found == [exact_quantile(some, q) for q in (0.0, 0.25, 0.5, 1.0)]),
    "KLLQuantiles of one": (lambda: KLLQuantiles(0.9), MANY_NUMBERS,
                            lambda found, some: found == exact_quantile(some, 0.9)),
    "FrequentItems": (lambda: FrequentItems(0.1), MANY_WORDS,
                      lambda found, some: found == frequent_of(some)),
    "CountMin": (CountMin, MANY_WORDS, lambda found, some: found.estimates(MANY_WORDS)
                 == [some.count(word) for word in MANY_WORDS]),
    "MomentSketch": (
        lambda: MomentSketch([0.0, 0.5, 1.0]), MANY_NUMBERS[:40],
        lambda found, some: found[0] == min(some) <= found[1] <= max(some) == found[2]),
}  # fmt: skip

CASES |= {name: (case.make, case.events, case.agrees) for name, case in MORE.items()}


@pytest.mark.sample(1)
@EACH
@pytest.mark.parametrize("size", [7, 1, 25])
@pytest.mark.parametrize("name", CASES)
def test_windows_on_disk_are_restored_and_equal_the_oracle(
    name: str, size: int, aggregator: Any, tmp_path: Path
) -> None:
    make, stream, right = CASES[name]
    events = stream[: max(36, 2 * size)]
    store, settings = f"file://{tmp_path}/pages", {"aggregator": aggregator}
    one = Window(make(), CountWindow(size), store, "one", arity=3, **settings)
    many = Window(make(), CountWindow(size), store, "many", arity=2, leaf_arity=5, **settings)
    last = Window(make(), CountWindow(size), arity=4, **settings)
    for start in range(0, len(events), 12):
        batch = events[start : start + 12]
        found = many.extend(batch_of(batch))
        assert len(found) == len(batch)
        newest = last.extend(batch_of(batch), emit="last")
        assert right(newest[0], events[max(0, start + len(batch) - size) : start + len(batch)])
        for i, (event, result) in enumerate(zip(batch, found, strict=True), start + 1):
            one.insert(event)
            window = events[max(0, i - size) : i]
            assert right(one.query(), window), (size, i)
            assert right(result, window), (size, i)
        kept = [window.checkpoint() for window in (one, many)]
        one, many = (
            Window.restore(
                snapshot, store, aggregations=make(), window=CountWindow(size), **settings
            )
            for snapshot in kept
        )
    for window in (one, many):
        window.check()
        assert audit(window).damaged == []


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
    often = Window(CountMin(), CountWindow(2)).query()
    assert (often.events, often.estimate("a")) == (0, 0)


def test_fingerprints_distinguish_them_and_last() -> None:
    others = [
        *[make() for make, _, _ in CASES.values()],
        *[Max("int64"), Max("f4"), Sum("int32"), ArgMax("int64")],
        *[Monoid(0, max, name="m"), Monoid(1, max, name="m"), Monoid(0, max, name="n")],
        *[Product({alias: ("x", Max())}) for alias in "ab"],
        *[Product({"a": pair}) for pair in (("y", Max()), ("x", Min()), ("x", Max("int64")))],
        BloomFilter(200),
        CountMin(0.02),
        CountMin(confidence=0.9),
        DistinctCount(11),
        KLLQuantiles(0.9, k=100),
        FrequentItems(0.1, of=int),
        FrequentItems(0.2),
        MomentSketch(0.5),
        MomentSketch(0.5, k=4),
        LongestIncreasingRun("i8"),
    ]
    assert len({monoid.fingerprint for monoid in others}) == len(others)
    assert all(len(monoid.fingerprint) == 16 for monoid in others)
    assert Max().fingerprint == Max("float64").fingerprint
    pinned = {
        "Sum[int64]": Sum("int64"),
        "Product": power(),
        "user": Monoid((0, "a"), max, name="user"),
    }
    pinned |= {name: make() for name, (make, _, _) in CASES.items() if name not in OWN}
    assert {name: each.fingerprint.hex() for name, each in pinned.items()} == FINGERPRINTS


#: Snapshots hold these: a change makes every earlier snapshot unreadable.
FINGERPRINTS = {
    "Sum[int64]": "20cd4f62779924d090985880f9220f8f",
    "Product": "397a6c46816c2d64291906c8ccd39415",
    "user": "9bcdceb2605b29be8ad417cae21d9fba",
    "Count": "16ff1968497f3a958368b54cc837f3cd", "Sum": "ec6ad0fdf621cfc5b472c4ec9d838861",
    "Min": "84a1de18539404eb9ced2633c3152caa", "Max": "6d16958ef667cf150d2f107ec06b6a94",
    "Mean": "8f8ad6afb48be2e777e6c052269b3510", "GeometricMean": "3b9adc33b2c149a9ff421b352395b865",
    "SampleStdDev": "1b1170497fb606832d77ee36ab10296c",
    "PopulationStdDev": "e4749d7bc025b283a75a58ef1e693fa4",
    "MinCount": "6aa3b884f67b1d3eabfc04ce6d63b8b0", "MaxCount": "82d8a02065387987b929f87e293bed90",
    "First": "63b5b34f7b2002b18a076a7f36b9fce1", "Last": "f9d9ce8358a76de59ce604c40946ad90",
    "ArgMin": "2af1533c67346d72ab6ce2cfe74aae4d", "ArgMax": "ba6e03f06b98fe45e3980f5bd1779131",
    "Collect": "0424657366ecc958731978e2b1a485c9",
    "BloomFilter": "a02f594b4d93b1d1782c819f2e142ea6",
    "DistinctCount": "f254d4c041d62a3e249a07b19532744c",
    "KLLQuantiles": "0bf765f59c2748ce7ef528357018bdc6",
    "KLLQuantiles of one": "0e6c815b8f23482f5ee7c5c846bd0b39",
    "FrequentItems": "8e7867805e1ee4062f3a6ed41d557141",
    "CountMin": "715f3ccf72c9e3d6994dd7c4ea56f836",
    "LongestIncreasingRun": "9920cc43255d376ab8f44c028d1a74b0",
    "MomentSketch": "95d5baa880c492708a4eeaf9171f00b9",
    "SampleVariance": "dc5fc58a0e977b5cab6882a8f718ec7e",
    "PopulationVariance": "3adc5d0f52959f15c88d0b5866b8db77",
    "StandardError": "93fd8c3d2dc3e24734937d1c515615e9",
    "SampleSkewness": "a1d27932ec5b448a525b286845033f0f",
    "PopulationSkewness": "fc1e8f4cdfacf72aaf06bb84551f60f6",
    "SampleKurtosis": "019b2f0a5e8804b3ed426cf693448fd4",
    "PopulationKurtosis": "7f7ddbc5f5f59168083220318fc044d1",
    "SampleCovariance": "a2638ea821ed60e789285f4f9e2047ce",
    "PopulationCovariance": "cfb0fb882d396f5aaa9bc3a5af75e193",
    "Correlation": "fb034ec6d6b9ab61e6c008f7245105a5",
    "Regression": "65976ff5e0b0547097edbdc955f5ae66",
    "Regression intercept": "385c7a490e78a72d7321366c21448f74",
    "Regression r2": "9a2b5123e60c372ccec3ee6cb928bd6a",
    "Regression count": "fcda21a55bc89511b906b1bfa9f037e3",
    "CountIf": "290fa3ed5d1168dc532b30bb8b7fe7cf", "AnyTrue": "21d65f3dac10d27ad1a7936af921fdbe",
    "AllTrue": "fa575046fe8f88da6920357da61c1213", "BitAnd": "8255e0cf860608c3ba7f4c08b4db309e",
    "BitOr": "15f9a806221464fd7ee15dab4d0c23bb", "BitXor": "824b22bee83df0cd77bbd3178e006106",
    "Multiply": "7526fc9f632447a822c04539e46e52eb", "Lag": "fae2914af2b3d6c1e1ca0f770aa38fb7",
    "Lag of integers": "d8522c8f4246493516c1308b8d776e99",
    "LagText": "0779a69be04388d21aa621e84756a725", "NthValue": "bc9563470b8303bbb1bfe09926322dec",
    "NthText": "c0151c3824b1b316456b8d12e7b40f26", "Largest": "1fede0016aee9284e218296e02545465",
    "Smallest": "582d06c6825e381999039816724089d8", "Concat": "bbf228d430a2a7d0fc3c9021739b3aaf",
    "Concat distinct": "2c2ef6f2a6b5ad305f7d8207178d0203",
    "Median": "5b68a3145bf31038b06ce319cca2e33f", "Quantile": "51e6be0b051cb1ab43b966070c6a1a76",
    "Rank": "41cdc4e576dee63387e8640cd13bb152",
    "ExactDistinctCount": "4480733396b26ec237a09305ea8b1e69",
    "ExactDistinctCount of doubles": "dbe8d6dd549c7f9e33b0f969f4352853",
    "Mode": "b452c7b1270e6fb2db1299fab4c07bfe",
    "Mode of integers": "619f16647d798a638b3d01eca7f05539",
    "MostFrequent": "7f111534fb99204b0fa05561b57b3355",
    "SumDistinct": "f31bb4863e6861183d5657e0f06caeb4",
    "SumDistinct of integers": "b74ca90ddfbadf1001550eba5b291697",
    "Entropy": "1b4b8ca2c92843824226bdbc73ae1322", "DecayedSum": "8034c9a6d0c48cb3f6d1f808bcc638bd",
    "DecayedMean": "0b6c8180b213fbd2d84ac67dd6873f8c",
    "TimeWeightedMean": "6b8d6ce2e1cfd550ce73e957103a05ad",
    "TimeWeightedMean linear": "63e1f841d75aa0ea8b946d7efdf71ded",
    "Integral": "0f2f138fff5b325023ad0f86536af794",
    "RateOfChange": "73716cdf5bce1f0fca14b70709175d15",
    "Increase": "341d7e48bb93325d2fce1326ee1a524b",
    "IncreaseRate": "a3835429c3a439d1a32bf5b032e797e9",
    "Max of long decimals": "3561d3998af6dcb304f1f5612f67f93c",
    "Min of long decimals": "f763a6f00f517c3a26e7a9a90d101a25",
    "First of long decimals": "bacc99da91e7ec73aaf7c82b4c7d5d75",
    "Last of long decimals": "22e1266213ca504267718c25fd8cc8e0",
    "Sum of long decimals": "7d18f4a0348e7ad6ea733fa964ff1114",
    "Lag of long decimals": "d481e67e8de0c80547f45b2049a8beb9",
    "NthValue of long decimals": "e88a07361f25db1d181360b933d2f1ec",
    "Mode of long decimals": "a6d03a08eb2e5021cf8efd96c17eea4a",
    "ExactDistinctCount of long decimals": "2cafbdc4506def090a1ea168123ea170",
    "SumDistinct of long decimals": "f2a5687d4bef1184a73198233658014b",
    "Collect of long decimals": "39302310761b773ceccc6d615ada50a4",
    "DecimalMean": "82b3fe5e3477ddaf9a9e81bb0be4a2cf",
    "DecimalMean of 18 digits": "b7afbd819ad1680bd40ec9edfad0e206",
    "CheckedSum of decimals": "a31b772d81115799345e90569a355395",
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_spark_can_ship_them(name: str) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    make, events, right = CASES[name]
    there = pickle.loads(cloudpickle.dumps(make()))
    assert there.fingerprint == make().fingerprint
    window = Window(there, CountWindow(10))
    assert right(window.extend(batch_of(events), emit="last")[0], events[-10:])
