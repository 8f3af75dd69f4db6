"""Fronts as ranges and as arrays, against plain lists."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mta import Max
from mta.folds.sliding import EachFront, as_array, count_below, joined, moved, rows_at

FRONTS = st.one_of(
    st.builds(
        lambda start, size: range(start, start + size), st.integers(-9, 9), st.integers(1, 9)
    ),
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


@given(pieces=st.lists(FRONTS, min_size=1, max_size=3))
def test_pieces_of_fronts_are_joined(pieces: list[EachFront]) -> None:
    assert list(joined(pieces)) == [front for piece in pieces for front in piece]


@given(fronts=FRONTS)
def test_rows_are_taken_at_fronts(fronts: EachFront) -> None:
    rows, origin = np.arange(60.0) * 37 % 11, int(fronts[0])
    found = rows_at(Max(), rows, fronts, origin)
    assert found.tolist() == [rows[front - origin] for front in fronts]
