"""Exact results of all values: long windows, what partials share, and pages that nobody wrote."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mta import CountWindow, KeyedWindows, Median, Product, Quantile, TimeWindow, Window, rolling
from mta.aggregations import Entropy, ExactDistinctCount, Mode, MostFrequent, SumDistinct
from mta.columns import codec
from mta.errors import CorruptPage, InvalidValue
from mta.frames.base import Frame
from mta.monoids import holistic
from mta.monoids.holistic import SortedRuns
from tests.support.counted import general_inserts

LONG = 3000


def values(count: int, seed: int = 1) -> np.ndarray:
    """Values with ties, and others that are anywhere."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < 0.3, rng.integers(0, 9, count), rng.normal(4, 3, count))


def frames(size: int) -> list[tuple[Frame, int]]:
    """Frames of so many events, one a second, and how many before the newest one they end."""
    return [
        (CountWindow(size), 0),
        (CountWindow(size, exclude_current=True), 1),
        (TimeWindow(size, closed="left"), 1),
        (TimeWindow(size, delay=40), 40),
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("batch", [1, 7, 500, 4 * LONG])
@pytest.mark.parametrize(("frame", "lag"), frames(LONG), ids=repr)
@pytest.mark.parametrize("lateness", [None, 5])
def test_quantiles_of_a_long_window_however_its_events_come(
    batch: int, frame: Frame, lag: int, lateness: int | None
) -> None:
    stream, times = values(5 * LONG), np.arange(5 * LONG)
    late: Any = {} if lateness is None else {"allowed_lateness": lateness}
    window = Window(Quantile([0.0, 0.25, 0.5, 1.0]), frame, leaf_arity=512, **late)
    start = LONG + LONG // 2

    def extend(at: int, stop: int, **emit: Any) -> Any:
        moments = times[at:stop] if frame.needs_times or late else None
        return window.extend(stream[at:stop], moments, **emit)

    extend(0, start, emit="last")
    stop = start + (60 if batch == 1 else 3 * LONG)
    found = [
        result for at in range(start, stop, batch) for result in extend(at, min(at + batch, stop))
    ]
    for at in range(0, len(found), 37):
        last = stream[start + at + 1 - lag - LONG : start + at + 1 - lag]
        np.testing.assert_allclose(found[at], np.quantile(last, [0.0, 0.25, 0.5, 1.0]), rtol=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_frame_that_no_event_comes_into_has_the_same_median(batch: int) -> None:
    """As all events of a batch have the time of the newest one."""
    stream = values(LONG + 500)
    window = Window(Median(), TimeWindow(LONG, closed="left"), leaf_arity=512)
    window.extend(stream[:LONG], np.arange(LONG))
    for at in range(LONG, LONG + 120, batch):
        moments = np.full(batch, at - at % 12)
        found = window.extend(stream[at : at + batch], moments)
        known = at - at % 12
        np.testing.assert_allclose(found, np.median(stream[known - LONG : known]), rtol=1e-12)


def test_a_jump_of_the_median_is_found_as_well() -> None:
    """The values around the answer before are looked at first, and say nothing here."""
    stream = np.concatenate([np.zeros(LONG), np.full(LONG, 1e9), -values(LONG)])
    window = Window(Median(), CountWindow(LONG), leaf_arity=256)
    found = [float(window.extend(part, emit="last")[0]) for part in np.array_split(stream, 40)]
    ends = np.cumsum([len(part) for part in np.array_split(stream, 40)])
    assert found == [float(np.median(stream[max(0, end - LONG) : end])) for end in ends]


def test_with_nan_accepted_it_is_the_largest_value() -> None:
    for monoid, wanted in ((Median(), [2.0, math.nan]), (Quantile(0.0), [2.0, 2.0])):
        window = Window(monoid, CountWindow(3), nulls="accept")
        np.testing.assert_equal(window.extend([2.0, math.nan]).tolist(), wanted)


def test_the_stack_of_a_long_window_shares_its_values() -> None:
    """Each suffix has all the values after it; each value is copied O(log n) times."""
    monoid, count = Median(), 4096
    lifted = monoid.lift_rows(values(count), count)
    right = monoid.fold(monoid.lift_rows(values(10**5, 2), 10**5), 10**5)
    stack = monoid.combine_rows(monoid.suffixes(lifted, count, right), [right], count + 1)
    runs = {id(run): len(run) for entry in stack for run in entry.runs}
    rests = 10**5 + 2 * 10**5  # that of the empty suffix, and that of all others
    assert sum(runs.values()) - rests <= 2 * count * math.log2(count)
    assert len(stack[0]) == count + 2 * 10**5
    assert max(len(entry.runs) for entry in stack) <= 32


def test_a_sum_of_distinct_doubles_is_rounded_once() -> None:
    frame = pd.DataFrame({"x": [1e16, 1.0, -1e16, 1.0, 1e-300, 3.5, 1e16]})
    found = rolling(frame, window=6, aggregations={"s": ("x", SumDistinct())}).s.tolist()
    wanted = [math.fsum(set(frame.x[max(0, at - 5) : at + 1])) for at in range(7)]
    assert found == wanted


def test_a_sum_of_distinct_values_refuses_infinity_after_any_single_event() -> None:
    window = Window(SumDistinct(), CountWindow(5))
    for value in range(100):
        window.insert(float(value))
        with pytest.raises(InvalidValue):
            window.insert(math.inf)
    assert window.query() == sum(range(95, 100))


def test_what_a_sum_or_a_quantile_cannot_take_is_refused() -> None:
    with pytest.raises(InvalidValue, match="a sum needs numbers, not text"):
        SumDistinct(str)
    with pytest.raises(InvalidValue):
        Window(SumDistinct(), CountWindow(2)).insert(math.inf)
    with pytest.raises(ValueError, match="quantiles are numbers from 0 to 1"):
        Quantile(1.5)
    with pytest.raises(ValueError, match="interpolation is one of linear, lower"):
        Quantile(0.5, "cubic")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("monoid", "data"),
    [
        (Median(), b""), (Median(), b"1234567"), (Median(), np.array([2.0, 1.0]).tobytes()),
        (Mode(), codec.pack([])), (Mode(), codec.pack(["b", "a"])), (Mode(), codec.pack({"a": 1})),
        (Mode(), codec.pack([("a", 1), ("a", "b")])),
        (Mode("int64"), np.array([7, 7, -1]).tobytes()),
    ],
)  # fmt: skip
def test_bytes_that_are_no_sorted_values_are_a_corrupt_page(monoid: Any, data: bytes) -> None:
    schema = monoid.partials
    good = schema.dump([SortedRuns([monoid.column([1, 1], in_order=True)])])
    assert len(schema.load(iter(good), 1)[0]) == 2
    with pytest.raises(CorruptPage, match="not a summary of"):
        schema.load(iter([("msgpack", codec.pack([data]))]), 1)


class CountedMedian(Median):
    """A median whose combines are counted."""

    combines = 0

    def _combine(self, left: Any, right: Any) -> Any:
        self.combines += 1
        return super()._combine(left, right)


def long_window(median: Median, frame: Frame | None = None) -> tuple[Window[float], np.ndarray]:
    """A window of 20,000 events, by its frame one a second, and 12,000 values to come."""
    stream = np.random.default_rng(1).normal(size=42_000)
    window = Window(median, frame or CountWindow(20_000))
    timed = window.frame.needs_times
    window.extend(stream[:30_000], np.arange(30_000) if timed else None, emit="last")
    return window, stream[30_000:]


@pytest.mark.parametrize("frame", [frame for frame, _ in frames(20_000)], ids=repr)
def test_single_values_are_taken_without_a_call_of_the_structure(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    median = CountedMedian()
    window, stream = long_window(median, frame)
    slow = general_inserts(monkeypatch)
    median.combines = 0
    for at, value in enumerate(stream[:1000].tolist(), 30_000):
        window.insert(value, at if frame.needs_times else None)
        window.query()
    assert len(slow) <= 5 and median.combines <= 2 * 1010


@pytest.mark.parametrize("frame", [frame for frame, _ in frames(20_000)], ids=repr)
def test_a_small_batch_does_not_sort_the_window(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results look into the runs that there are: few values of the window are merged again."""
    window, stream = long_window(Median(), frame)

    def extend(at: int) -> None:
        moments = np.arange(30_000 + at, 30_050 + at) if frame.needs_times else None
        window.extend(stream[at : at + 50], moments)

    extend(0)
    merge, sizes = holistic.merged, list[int]()

    def counted(runs: Any) -> Any:
        found = merge(runs)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(holistic, "merged", counted)
    for at in range(50, 1000, 50):
        extend(at)
    assert sum(sizes) <= 20 * 950


def test_a_long_batch_is_answered_from_its_events() -> None:
    """Though the window is longer: nothing is combined."""
    median = CountedMedian()
    window, stream = long_window(median)
    median.combines = 0
    found = window.extend(stream[:2000])
    assert median.combines == 0
    again, _ = long_window(CountedMedian())
    pieces = np.concatenate([again.extend(stream[at : at + 200]) for at in range(0, 2000, 200)])
    assert found.tolist() == pieces.tolist()
    assert window.checkpoint() == again.checkpoint()


#: Numbers that Python compares across types, some of them equal; one NaN; and text.
MIXED = [2, 2.0, True, 1, 1.0, 2.5, -6, 0.0, -0.0, math.nan, "b", "2", ""]


def distinct(values: list[Any]) -> list[tuple[Any, int]]:
    """The values of a window and their counts: numbers by size, NaN, then text."""
    nans = [value for value in values if value != value]
    counts = Counter(value for value in values if value == value)
    numbers = sorted(value for value in counts if not isinstance(value, str))
    every = [*numbers, *nans[:1], *sorted(value for value in counts if isinstance(value, str))]
    return [(value, counts[value] if value == value else len(nans)) for value in every]


def number(value: Any) -> Any:
    """A value that equals itself."""
    return "NaN" if value != value else value


def plain_entropy(values: list[Any]) -> float:
    shares = [count / len(values) for _, count in distinct(values)]
    return -sum(share * math.log2(share) for share in shares)


@pytest.mark.parametrize("seed", range(4))
def test_equal_numbers_of_different_types_are_one_value(seed: int) -> None:
    size, stream = 5, random.Random(seed).choices(MIXED, k=60)
    parts = {"n": ExactDistinctCount(), "top": MostFrequent(3), "mode": Mode(), "bits": Entropy()}
    both: Any = Product({name: ("v", monoid) for name, monoid in parts.items()})
    single = Window(both, CountWindow(size), nulls="accept", arity=2, leaf_arity=2)
    batch = Window(both, CountWindow(size), nulls="accept", arity=2, leaf_arity=2)
    keyed = KeyedWindows(both, CountWindow(size), nulls="accept")
    found = batch.extend({"v": stream})
    of_keys = keyed.extend(["k"] * len(stream), {"v": stream})
    for at, value in enumerate(stream):
        single.insert({"v": value})
        result = single.query()
        for name in parts:  # of equal numbers, the same one is returned, whatever the cut
            assert repr(found[name][at]) == repr(of_keys[name][at]), name
            np.testing.assert_equal(result[name], found[name][at])
        wanted = distinct(stream[max(0, at + 1 - size) : at + 1])
        most = sorted(wanted, key=lambda pair: -pair[1])[:3]
        assert result["n"] == len(wanted)
        assert [(number(each), count) for each, count in result["top"]] == [
            (number(each), count) for each, count in most
        ]
        assert number(result["mode"]) == number(most[0][0])
        window = stream[max(0, at + 1 - size) : at + 1]
        assert result["bits"] == pytest.approx(plain_entropy(window))
    single.check()
    batch.check()


@pytest.mark.parametrize("name", ["count_distinct", "mode", "most_frequent(2)", "entropy"])
def test_arrays_of_integers_and_of_doubles_have_equal_values(name: str) -> None:
    window = Window(Product({"it": ("v", name)}), CountWindow(9))
    for part in (np.array([2, 3]), np.array([2.0]), [np.float64(3), np.int8(2)]):
        window.extend({"v": part})
    wanted = {"count_distinct": 2, "mode": 2, "most_frequent(2)": [(2, 3), (3, 2)]}
    assert window.query()["it"] == wanted.get(name, pytest.approx(0.970951))


def test_an_accepted_nan_or_infinity_is_added_to_the_distinct_values() -> None:
    stream = [1.0, 1.0, math.inf, 2.0, -math.inf, math.nan, 4.0, 5.0, 5.0, 6.0, 7.0, 4.0]
    single = Window(SumDistinct(), CountWindow(4), nulls="accept", arity=2)
    batch = Window(SumDistinct(), CountWindow(4), nulls="accept", arity=2).extend(stream)
    for at, value in enumerate(stream):
        single.insert(value)
        window = [value for value, _ in distinct(stream[max(0, at - 3) : at + 1])]
        np.testing.assert_equal([single.query(), batch[at]], [sum(window)] * 2)
    single.check()
