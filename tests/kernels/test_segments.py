"""Columns cut into segments, against loops over plain lists."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from contextlib import nullcontext
from itertools import accumulate, pairwise

import numpy as np
import pytest

from mta.kernels import native
from mta.kernels.native import (
    bounds_of,
    first_later,
    group,
    order_by,
    running_max,
    sort_within,
    spread,
)
from tests.support.kernels import numpy_alone
from tests.support.sampling import some

#: Values near each other, far apart, and so far that lanes of them do not fit 64 bits.
SPANS = [(0, 3), (-50, 50), (-(2**40), 2**40), (-(2**61), 2**61), (-(2**63), 2**63 - 1)]


def drawn(seed: int) -> tuple[random.Random, list[int], np.ndarray]:
    """Counts of some segments, some of them empty, and their bounds."""
    rng = random.Random(seed)
    counts = [rng.choice([0, 0, 1, 2, 9]) for _ in range(rng.choice([1, 2, 7, 30]))]
    return rng, counts, bounds_of(np.array(counts))


def numbers(rng: random.Random, count: int) -> list[int]:
    least, most = rng.choice(SPANS)
    return [rng.choice([least, most, rng.randint(least, most)]) for _ in range(count)]


@pytest.mark.parametrize("seed", some(range(60), by_default=20))
def test_bounds_and_spread(seed: int) -> None:
    rng, counts, bounds = drawn(seed)
    assert bounds.tolist() == [0, *accumulate(counts)]
    starts = [rng.randrange(1000) for _ in counts]
    pairs = zip(starts, counts, strict=True)
    expected = [start + n for start, count in pairs for n in range(count)]
    assert spread(np.array(starts), np.array(counts)).tolist() == expected
    assert spread(np.zeros(0, int), np.zeros(0, int)).tolist() == []


@pytest.mark.parametrize("most", [1, 2, 300, 65_535, 65_536, 65_537, 1 << 20, (1 << 32) + 5])
def test_group(most: int) -> None:
    rng = random.Random(most)
    for count, run in itertools.product((0, 1, 2, 500), (1, 9)):
        some = [rng.choice([0, most - 1, rng.randrange(most)]) for _ in range(count)]
        codes = [code for code in some for _ in range(rng.randint(1, run))]
        count = len(codes)
        expected = sorted(range(count), key=lambda row: codes[row])  # in their order
        for dtype in ("i8", "i4") if most < 1 << 31 else ("i8",):
            assert group(np.array(codes, dtype), most).tolist() == expected
    assert group(np.array([0, 0, most - 1]), most).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", some(range(60), by_default=20))
def test_sort_within(seed: int) -> None:
    rng, counts, _ = drawn(seed)
    codes = [code for code, count in enumerate(counts) for _ in range(count)]
    values = numbers(rng, len(codes))
    expected = sorted(range(len(codes)), key=lambda row: (codes[row], values[row]))
    found = sort_within(np.array(values, "i8"), np.array(codes, "i8"))
    assert expected == (list(range(len(codes))) if found is None else found.tolist())
    ordered = np.array(values, "i8")[expected]
    assert sort_within(ordered, np.array(codes, "i8")) is None


@pytest.mark.parametrize("seed", some(range(60), by_default=20))
def test_order_by(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([0, 1, 2, 50, 500])
    codes, values = [rng.randrange(9) for _ in range(count)], numbers(rng, count)
    expected = sorted(range(count), key=lambda row: (codes[row], values[row]))
    assert order_by(np.array(codes, "i8"), np.array(values, "i8")).tolist() == expected


@pytest.mark.parametrize("seed", some(range(120), by_default=30))
def test_running_max(seed: int) -> None:
    rng, _, bounds = drawn(seed)
    values = numbers(rng, int(bounds[-1]))
    expected = [m for a, b in pairwise(bounds.tolist()) for m in accumulate(values[a:b], max)]
    given = np.array(values, "i8")
    assert running_max(given, bounds).tolist() == expected
    assert given.tolist() == values


@pytest.mark.parametrize("seed", some(range(120), by_default=30))
def test_first_later(seed: int) -> None:
    rng, counts, bounds = drawn(seed)
    times: list[int] = []
    for count in counts:
        times += sorted(numbers(rng, count))
    asked = [rng.choice([*times, *numbers(rng, 1)]) for _ in range(40)]
    asked = [min(max(moment, -(2**63)), 2**63 - 1) for moment in asked]
    segment = sorted(rng.randrange(len(counts)) for _ in asked)
    expected = []
    for at, moment in zip(segment, asked, strict=True):
        first, last = int(bounds[at]), int(bounds[at + 1])
        expected.append(first + bisect_right(times[first:last], moment))
    columns = np.array(times, "i8"), bounds, np.array(segment), np.array(asked, "i8")
    for kernel in (nullcontext, numpy_alone):
        with kernel():
            assert first_later(*columns).tolist() == expected


def test_segments_that_do_not_fit_64_bits_are_taken_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    bounds = bounds_of(rng.integers(0, 5, 50))
    count = int(bounds[-1])
    values = rng.integers(-1000, 1000, count)
    largest = running_max(values, bounds).tolist()
    monkeypatch.setattr(native, "_ROOM", 1)
    assert running_max(values, bounds).tolist() == largest
