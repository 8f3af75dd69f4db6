"""The monoids beyond the usual: in windows, against naive oracles, and as snapshots know them."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mta import (
    AbstractMonoid,
    AmortizedMTA,
    BloomFilter,
    CountMin,
    CountWindow,
    DistinctCount,
    FiBA,
    FrequentItems,
    IncreasingRun,
    KLLQuantiles,
    LogMTA,
    LongestIncreasingRun,
    Max,
    MomentSketch,
    Monoid,
    Product,
    TimeWindow,
    Window,
)
from mta.audit.walk import audit
from mta.errors import InvalidValue
from tests.support.catalogue import NUMBERS, WORDS, batch_of, run_of

pytest.importorskip("datasketches")

BOTH = pytest.mark.parametrize("aggregator", [AmortizedMTA, LogMTA])


def exact_quantile(values: list[float], q: float) -> float:
    """The smallest value that at least the share q of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(q * len(values) - 1e-9) - 1)]


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
    "CountMin": (
        CountMin,
        WORDS,
        lambda found, some: found.estimates(WORDS) == [some.count(word) for word in WORDS],
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


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_windows_on_disk_are_restored_and_equal_the_oracle(
    name: str, aggregator: Any, tmp_path: Path
) -> None:
    make, stream, right = CASES[name]
    for size in (1, 7, 45):
        events = stream[: max(36, 3 * size)]
        store, settings = f"file://{tmp_path}/{size}", {"aggregator": aggregator}
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
                Window.restore(snapshot, make(), CountWindow(size), store, **settings)
                for snapshot in kept
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


MADE: list[Callable[[], AbstractMonoid]] = [make for make, _, _ in CASES.values()]


def test_fingerprints_tell_them_apart_and_last() -> None:
    others = [
        *[make() for make in MADE],
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
    assert {name: make().fingerprint.hex() for name, (make, _, _) in CASES.items()} == FINGERPRINTS


#: Snapshots hold these: a change makes every snapshot of before unreadable.
FINGERPRINTS = {
    "BloomFilter": "a02f594b4d93b1d1782c819f2e142ea6",
    "DistinctCount": "f254d4c041d62a3e249a07b19532744c",
    "KLLQuantiles": "0bf765f59c2748ce7ef528357018bdc6",
    "KLLQuantiles of one": "0e6c815b8f23482f5ee7c5c846bd0b39",
    "FrequentItems": "8e7867805e1ee4062f3a6ed41d557141",
    "CountMin": "715f3ccf72c9e3d6994dd7c4ea56f836",
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
    assert right(window.extend(batch_of(events), emit="last")[0], events[-10:])
