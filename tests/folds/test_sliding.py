"""Folds of sliding ranges, in every way that they are computed, against the plain fold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mta import Count, Max, Mean, Monoid, Product
from mta.aggregations import ColumnarMonoid
from mta.folds.blocks import Blocks
from mta.folds.sliding import SlidingFolds
from mta.monoids.base import AbstractMonoid
from tests.support.kernels import numpy_alone

KINDS: dict[str, Callable[[np.ndarray], tuple[AbstractMonoid, object]]] = {
    "plain functions": lambda numbers: (
        Monoid(identity="", combine=lambda a, b: a + b, name="joined"),
        [str(number) for number in numbers.tolist()],
    ),
    "twice is once": lambda numbers: (Max(), numbers.astype("f8")),
    "ufuncs": lambda numbers: (Mean(), numbers.astype("f8")),
    "no ufunc": lambda numbers: (
        ColumnarMonoid(
            "first and last",
            partials=("i8", "i8"),
            identity=(-1, -1),
            inputs="i8",
            lift=lambda value: (value, value),
            combine=lambda a, b: (np.where(a[0] < 0, b[0], a[0]), np.where(b[1] < 0, a[1], b[1])),
        ),
        numbers.astype("i8"),
    ),
    "product": lambda numbers: (
        Product({"most": ("x", Max()), "n": Count()}),
        (numbers.astype("f8"),),
    ),
}


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    starts=st.lists(st.integers(0, 12), min_size=1, max_size=70),
    first=st.integers(0, 30),
    bits=st.integers(1, 4),
    steady=st.booleans(),
)
def test_blocks_fold_any_ranges(
    kind: str, starts: list[int], first: int, bits: int, steady: bool
) -> None:
    """Ranges that only move on, from one place to the next or over many."""
    count = first + len(starts)
    monoid, values = KINDS[kind](np.arange(count) * 37 % 11)
    lifted = monoid.lift_rows(values, count)
    ends = np.arange(first, count)
    begins = np.minimum(np.cumsum([start // 4 for start in starts]), ends)
    given: range | np.ndarray = begins
    if steady:
        given = range(first - min(first, starts[0]), count - min(first, starts[0]))
        begins = np.array(given)
    found = Blocks(monoid, lifted, count, bits).folds(
        given, range(first + 1, first + 1 + len(given))
    )
    for at, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        rows = monoid.partials.cut(lifted, begin, end + 1)
        expected = monoid.fold(rows, end + 1 - begin)
        assert monoid.same(monoid.partials.at(found, at), expected), (at, begin, end)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    keys=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=90), min_size=1, max_size=6),
    prepared=st.booleans(),
)
def test_many_keys_side_by_side(kind: str, keys: list[list[int]], prepared: bool) -> None:
    """Each key's fronts move on by themselves; no range reaches into another key's rows."""
    fronts: list[int] = []
    for moves in keys:
        first = len(fronts)
        for at, front in enumerate(np.cumsum(moves) // 2):
            fronts.append(first + min(int(front), at))
    count = len(fronts)
    monoid, values = KINDS[kind](np.arange(count) * 37 % 11)
    rows = SlidingFolds(monoid, monoid.lift_rows(values, count), count)
    if prepared:
        total = monoid.partials.at(rows.prefixes, count - 1)
        assert monoid.same(total, monoid.fold(rows.lifted, count))
    found = rows.between(np.array(fronts), range(1, len(fronts) + 1))
    for at, front in enumerate(fronts):
        piece = monoid.partials.cut(rows.lifted, front, at + 1)
        assert monoid.same(monoid.partials.at(found, at), monoid.fold(piece, at + 1 - front))


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    moves=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=120),
    native=st.booleans(),
)
def test_both_ends_of_a_range_may_move_by_any_number(
    kind: str, moves: list[tuple[int, int]], native: bool
) -> None:
    """Frames that end before their row: several results may have one end, and ends may jump."""
    stops = np.cumsum([move for _, move in moves]) + 1
    fronts = np.minimum(np.cumsum([move for move, _ in moves]), stops - 1)
    count = int(stops[-1])
    monoid, values = KINDS[kind](np.arange(count) * 37 % 11)
    rows = SlidingFolds(monoid, monoid.lift_rows(values, count), count)
    with nullcontext() if native else numpy_alone():
        found = rows.between(fronts, stops)
    for at, (front, stop) in enumerate(zip(fronts.tolist(), stops.tolist(), strict=True)):
        piece = monoid.partials.cut(rows.lifted, front, stop)
        assert monoid.same(monoid.partials.at(found, at), monoid.fold(piece, stop - front))


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("asked_before", [False, True])
def test_prefixes_suffixes_and_the_total_are_the_same_with_blocks_and_without(
    kind: str, asked_before: bool
) -> None:
    count = 300
    monoid, values = KINDS[kind](np.arange(count) * 37 % 11)
    rows = SlidingFolds(monoid, monoid.lift_rows(values, count), count)
    if asked_before:
        rows.between(np.arange(count - 200), range(201, count + 1))
    right = monoid.partials.at(rows.lifted, 7)
    suffixes, at = rows.suffixes(123, right), monoid.partials.at
    for row in (0, 128, 299):
        prefix = monoid.fold(monoid.partials.cut(rows.lifted, 0, row + 1), row + 1)
        assert monoid.same(at(rows.prefixes, row), prefix)
    for row in (123, 250, 299):
        rest = monoid.fold(monoid.partials.cut(rows.lifted, row, count), count - row)
        assert monoid.same(at(suffixes, row - 123), monoid.combine(rest, right))
