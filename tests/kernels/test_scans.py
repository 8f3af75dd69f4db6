"""Scans of bare columns against the plain loop."""

from __future__ import annotations

from itertools import accumulate as loop

import numpy as np
import pytest

from mta import SampleStdDev
from mta.kernels.native import (
    accumulate,
    accumulate_blocks,
    ones,
    repeats,
    running_count,
    zeros,
)
from tests.support.bits import HARD, bits

UFUNCS = [np.add, np.maximum, np.bitwise_or]


@pytest.mark.parametrize("ufunc", UFUNCS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("equal", [False, True])
def test_scans(ufunc: np.ufunc, count: int, backwards: bool, equal: bool) -> None:
    column = np.ones(count, "i8") if equal else np.arange(count) * 37 % 11
    step = -1 if backwards else 1

    def folded(part: list[int], first: int | None = None) -> list[int]:
        return list(loop(part[::step], lambda a, b: int(ufunc(a, b)), initial=first))[::step]

    found = accumulate(ufunc, column, 5, backwards)
    assert found.tolist() == folded(column.tolist(), 5)
    for size in (1, 3, 8):
        blocks = [column[at : at + size].tolist() for at in range(0, count, size)]
        found = accumulate_blocks(ufunc, column, size, backwards)
        assert found.tolist() == [row for block in blocks for row in folded(block)]


@pytest.mark.parametrize("count", [0, 3, 5000, 70_000])
@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_counts_are_known(count: int, dtype: str) -> None:
    column = ones(np.zeros(count), dtype)
    assert column.dtype == dtype and column.tolist() == [1] * count
    for scan in (accumulate(np.add, column, 4, False), accumulate(np.add, column, 4, True)[::-1]):
        assert scan.tolist() == list(range(4, count + 5))
    assert ones(2.5) == 1


def test_a_column_that_only_looks_like_ones_is_summed_up() -> None:
    ones_of_its_own = np.ones(9)
    assert running_count(ones_of_its_own, 0.0) is None
    assert not repeats(ones(ones_of_its_own) + 0, 1) and repeats(ones(ones_of_its_own)[2:5], 1)
    assert repeats(zeros(9), 0) and not repeats(np.zeros(9), 0) and zeros(9).tolist() == [0.0] * 9


@pytest.mark.parametrize("start", range(len(HARD)))
def test_single_events_have_the_deviation_that_groups_have(start: int) -> None:
    """What is known of the counts and squares of single events changes no bit of their fold."""
    values = np.array([*HARD[start:], *np.linspace(3, 4, 300)])
    if start % 2:
        values = values[np.abs(values) < 1e300]  # as infinite values have squares that are none
    monoid = SampleStdDev()
    with np.errstate(all="ignore"):
        lifted = monoid.lift_rows(values, len(values))
        own = tuple(column.copy() for column in lifted)
        assert bits(own[2]) == bits(values - values)
        assert bits(monoid.fold(lifted, len(values))) == bits(monoid.fold(own, len(values)))
