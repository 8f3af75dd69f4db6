"""Scans of bare columns against the plain loop."""

from __future__ import annotations

from itertools import accumulate as loop

import numpy as np
import pytest

from mta.kernels.scans import accumulate, accumulate_blocks, combine_blocks, ones, running_count

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
        beside = np.arange(len(blocks)) * 13 % 7
        expected = [int(ufunc(beside[at // size], column[at])) for at in range(count)]
        assert combine_blocks(ufunc, beside, column, size).tolist() == expected


@pytest.mark.parametrize("count", [0, 3, 5000, 70_000])
@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_counts_are_known(count: int, dtype: str) -> None:
    column = ones(np.zeros(count), dtype)
    assert column.dtype == dtype and column.tolist() == [1] * count
    total = running_count(column, 4)
    assert (total is None) == (count > 1 << 16)
    for scan in (accumulate(np.add, column, 4, False), accumulate(np.add, column, 4, True)[::-1]):
        assert scan.tolist() == list(range(4, count + 5))
    assert ones(2.5) == 1
