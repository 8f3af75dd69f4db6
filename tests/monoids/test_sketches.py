"""Sketches: what they promise, how many are made, and pages that hold something else."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from mta import CountWindow, Max, Window, pages
from mta.aggregations import (
    AbstractMonoid,
    BloomFilter,
    CountMin,
    DistinctCount,
    Frequencies,
    FrequentItems,
    KLLQuantiles,
)
from mta.algorithms import LogMTA
from mta.audit.walk import audit
from mta.columns import codec
from mta.columns.schemas import Objects
from mta.errors import CorruptPage, CorruptSnapshot, InvalidValue, MissingDependency
from mta.monoids.summary import SummaryMonoid
from mta.pages import Group, Layout
from mta.snapshots import Snapshot
from stores.errors import pip_install
from tests.support.aggregations import MANY_NUMBERS, MANY_WORDS

pytest.importorskip("datasketches")


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
    window.extend(list(range(64 * 64)), emit="last")
    # Some for every append of 64 events and for every group that is sealed.
    assert monoid.made < 7 * 64


def test_the_stack_of_heavy_partials_is_bounded() -> None:
    for monoid, most in [(DistinctCount(14), 255), (KLLQuantiles(), 776), (BloomFilter(10**6), 64)]:
        assert Window(monoid, CountWindow(10)).structure().setting.leaf_arity <= most
    assert Window(Max(), CountWindow(10)).structure().setting.leaf_arity == 32512


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
    window = Window(DistinctCount(), CountWindow(20), nulls="drop_row")
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
    found = window.extend(data, emit="last")[0]
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


def test_kll_sketches_that_differ_are_distinguished() -> None:
    monoid = KLLQuantiles()
    small = monoid.fold([1.0, 2.0, 3.0], 3)
    large = monoid.fold(np.arange(5000.0), 5000)
    assert monoid.same(small, monoid.fold([3.0, 1.0, 2.0], 3))
    assert monoid.same(large, monoid.fold(np.arange(5000.0)[::-1], 5000))
    for other in (None, 1.0, monoid.fold([1.0, 2.5, 3.0], 3), large):
        assert not monoid.same(small, other)
    assert not monoid.same(large, monoid.fold(np.arange(5000.0) ** 2 / 4999, 5000))


def test_frequent_items_keep_their_guarantee_after_any_merges() -> None:
    """Bounds hold for every item, and no item of the share is missing.

    Also where a sketch has dropped all its items, which the library takes for an empty one.
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
    found = window.extend(values, emit="last")[0]
    true, slack = Counter(values[-20_000:]), window.monoid.error * 20_000  # type: ignore[attr-defined]
    listed = dict(found)
    for item, n in true.items():
        assert n < 0.02 * 20_000 or n <= listed[item] <= n + slack
    assert all(true[item] + slack >= 0.02 * 20_000 for item in listed)
    assert [n for _, n in found] == sorted(listed.values(), reverse=True)
    assert audit(window).damaged == []


def test_frequent_numbers() -> None:
    whole = Window(FrequentItems(0.2, of=int), CountWindow(9), nulls="drop_row")
    whole.extend([3, 3, 2**70, -1, True, 2.5, "3", None])
    assert whole.query() == [(3, 2), (-1, 1), (2**70, 1)]
    floats = Window(FrequentItems(0.2, of=float), CountWindow(9), nulls="drop_row")
    floats.extend([0.0, -0.0, 0.1, 7, math.nan])
    assert floats.query() == [(0.0, 2), (0.1, 1), (7.0, 1)]
    for options in ({"share": 0}, {"of": bytes}, {"lg_size": 2}, {"lg_size": 5}):
        with pytest.raises(ValueError, match=r"share|items|lg_size"):
            FrequentItems(**options)


def test_frequencies_keep_their_bound_and_its_confidence() -> None:
    """Never too low; too high by more than the error for no more items than the confidence says."""
    rng = np.random.default_rng(6)
    values = (rng.pareto(0.5, 40_000) * 3).astype("i8")
    window = Window(CountMin(0.002, 0.9), CountWindow(30_000), leaf_arity=64, arity=4)
    found = window.extend(values.tolist(), emit="last")[0]
    true = Counter(values[-30_000:].tolist())
    assert len(true) > 2000 and found.events == 30_000 and found.error <= 0.002
    off = np.array(found.estimates(true)) - list(true.values())
    assert off.min() >= 0 and off.max() > 0
    assert (off > found.error * found.events).mean() <= 0.1
    strangers = np.array(found.estimates(range(-5000, 0)))
    assert (strangers > found.error * found.events).mean() <= 0.1
    assert audit(window).damaged == []


@pytest.mark.parametrize("n", [1, 5, 300, 4000])
def test_frequencies_depend_on_nothing_but_the_values(n: int) -> None:
    """Whatever the order and the tree: the same bytes in a page, and the same result."""
    monoid, rng, found = CountMin(0.05), random.Random(n), set()
    values = [rng.choice([str, int, float])(rng.randrange(n)) for _ in range(3 * n)]
    for _ in range(5):
        rng.shuffle(values)
        partial = folded(monoid, values, rng)
        found.add((monoid.lower(partial), monoid.partials.dump([partial])[0][1]))
    assert len(found) == 1


def test_what_counts_as_an_item() -> None:
    window = Window(CountMin(), CountWindow(40), nulls="drop_row")
    items = ["", "", "a", "\0", "1", "\0" + "1", 1, 1.0, True, np.int64(1), 0, -0.0, 2.5, -7]
    refused = [None, b"raw", "\ud800", math.nan, (1, 2)]
    window.extend([*items, 2**70, 1e300, math.inf, 10**5000, *refused])
    found = window.query()
    asked = ["", "a", "\0", "1", "\0" + "1", 1, 0, 2.5, -7, 2**70, 1e300, math.inf, 10**5000, -1]
    assert found.estimates(asked) == [2, 1, 1, 1, 1, 4, 2, 1, 1, 1, 1, 1, 1, 0]
    assert found.estimate(np.float64(1)) == 4 and found.events == 18
    assert window.stats().invalid == len(refused)
    for wrong in refused:
        with pytest.raises(InvalidValue):
            found.estimate(wrong)
        with pytest.raises(InvalidValue):
            Window(CountMin(), CountWindow(2)).insert(wrong)


def test_frequencies_come_back_from_their_bytes() -> None:
    window = Window(CountMin(0.1), CountWindow(2))
    empty = Frequencies(bytes(window.query()))
    assert (empty.events, empty.estimates(["a", 1])) == (0, [0, 0])
    for item in ("a", "b", "b"):
        window.insert(item)
    found = window.query()
    again = Frequencies(bytes(found))
    assert again == found and (again.events, again.estimate("b"), again.estimate("a")) == (2, 2, 0)
    assert repr(again) == f"<Frequencies: 2 events in {len(found)} bytes>"
    data = bytes(found)
    nan, huge, part = np.array([math.nan, 2.0**60, 1.5])[:, None].view("u1").reshape(3, 8)
    for wrong in (
        b"", data[:-1], data + b"x", b"\3" + data[1:], data[:16], empty + bytes(8),
        data[:8] + b"\xff" * 4 + data[12:], empty[:8] + b"\xff" * 5 + empty[13:],
        *(data[:16] + bytes(number) + data[24:] for number in (nan, huge, part)),
        data[:16] + np.float64(3).tobytes() + data[24:],
    ):  # fmt: skip
        with pytest.raises(InvalidValue, match="not a count-min sketch: "):
            Frequencies(wrong)


def test_a_count_min_of_other_counters_or_seeds_is_no_summary() -> None:
    datasketches = pytest.importorskip("datasketches")
    monoid = CountMin(0.1, 0.9)
    for other in ((3, 28, 1), (4, 28), (3, 29)):
        sketch = datasketches.count_min_sketch(*other)
        for _ in range(2):  # empty, and not
            with pytest.raises(ValueError, match="or its seed differ"):
                monoid.from_bytes(sketch.serialize())
            sketch.update("a")
    right = datasketches.count_min_sketch(3, 28)
    right.update("a")
    assert monoid.lower(monoid.from_bytes(right.serialize())).estimate("a") == 1


def test_settings_out_of_range() -> None:
    for make in (
        lambda: CountMin(0),
        lambda: CountMin(confidence=1),
        lambda: CountMin(1e-7),
        lambda: DistinctCount(6),
        lambda: KLLQuantiles(k=7),
        lambda: KLLQuantiles(2.0),
        lambda: KLLQuantiles([]),
    ):
        with pytest.raises(ValueError, match=r"number|too large"):
            make()


def test_without_the_library_only_sketches_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    for make in (DistinctCount, KLLQuantiles, FrequentItems, CountMin):
        with pytest.raises(MissingDependency, match=re.escape(pip_install("sketches"))):
            make()
    window = Window(BloomFilter(10), CountWindow(2))
    window.insert("a")
    assert window.query().might_contain("a")


SUMMARIES: dict[str, Callable[[], SummaryMonoid]] = {
    "BloomFilter": lambda: BloomFilter(100),
    "DistinctCount": DistinctCount,
    "KLLQuantiles": lambda: KLLQuantiles([0.5]),
    "FrequentItems": FrequentItems,
    "CountMin": lambda: CountMin(0.1),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_page_of_no_sketches_is_corrupt_and_says_which(name: str) -> None:
    monoid = SUMMARIES[name]()
    for hostile in (b"", b"\0" * 200, b"\xff" * 48, "text", 7, [b"x"]):
        data = pages.encode(
            "w", 1, 4, Group([hostile], None, [], 1), Layout(Objects(), False, False)
        )
        layout = Layout(monoid.partials, False, False)
        with pytest.raises(
            CorruptPage, match=r"page w/1/4/\w+ is damaged: a partial is not a summary"
        ):
            pages.decode(data, "w", 1, 4, pages.name_of(data), layout)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_snapshot_of_no_sketches_is_corrupt(name: str) -> None:
    values = MANY_NUMBERS if name == "KLLQuantiles" else MANY_WORDS
    window = Window(SUMMARIES[name](), CountWindow(30), "memory://", arity=2)
    window.extend(values, emit="last")
    snapshot = Snapshot.decode(window.checkpoint())

    def spoiled(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return [spoiled(part) for part in item]
        if isinstance(item, bytes) and len(item) > 16:
            unpacked = msgpack.unpackb(item) if item[:1] in (b"\x91", b"\x92") else None
            if isinstance(unpacked, list) and all(isinstance(p, bytes) for p in unpacked):
                return codec.pack([b"\x01" + part[:5] for part in unpacked])
        return item

    snapshot.state = spoiled(snapshot.state)
    with pytest.raises(CorruptSnapshot, match="not a summary"):
        restored = window.restore_like(snapshot.encode())
        restored.insert(values[0])
        restored.check()


FUZZ = """
import random, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from mta.aggregations import *
from mta.columns import codec
from mta.errors import CorruptPage
name, seed = sys.argv[1], int(sys.argv[2])
monoid = {"DistinctCount": DistinctCount, "KLLQuantiles": lambda: KLLQuantiles([.5]),
          "FrequentItems": FrequentItems, "CountMin": lambda: CountMin(.1),
          "BloomFilter": lambda: BloomFilter(100)}[name]()
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
