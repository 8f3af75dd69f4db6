"""Fronts as ranges and as arrays, against plain lists."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mta import Max
from mta.folds.blocks import rows_at
from mta.folds.sliding import EachFront, as_array, count_below, joined, moved

RANGES = st.builds(
    lambda start, size: range(start, start + size), st.integers(-9, 9), st.integers(1, 9)
)
FRONTS = st.one_of(
    RANGES,
    st.lists(st.integers(0, 3), min_size=1, max_size=9).map(
        lambda steps: np.array(list(accumulate(steps)))
    ),
)


@given(fronts=FRONTS, position=st.integers(-10, 30), count=st.integers(0, 12))
def test_fronts_are_counted_cut_and_moved(fronts: EachFront, position: int, count: int) -> None:
    listed = list(fronts)
    assert count_below(fronts, position) == sum(front < position for front in listed)
    assert list(moved(fronts, position)) == [front + position for front in listed]
    assert as_array(fronts, count).tolist() == listed[:count]


@given(whole=RANGES, cuts=st.sets(st.integers(1, 8)))
def test_the_pieces_of_a_range_are_joined(whole: range, cuts: set[int]) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    assert joined([whole[start:stop] for start, stop in pairwise(bounds)]) == whole


@given(pieces=st.lists(RANGES, min_size=2, max_size=3))
def test_ranges_with_a_gap_are_not_joined(pieces: list[range]) -> None:
    follow = all(one.stop == other.start for one, other in pairwise(pieces))
    assert (joined(pieces) is not None) == follow


@given(fronts=FRONTS)
def test_rows_are_taken_at_fronts(fronts: EachFront) -> None:
    rows, origin = np.arange(60.0) * 37 % 11, int(fronts[0])
    found = rows_at(Max(), rows, fronts, origin)
    assert found.tolist() == [rows[front - origin] for front in fronts]
