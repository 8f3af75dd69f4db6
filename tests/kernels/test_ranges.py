"""Ranges out of many buffers: both kernels give the same, and refuse what no buffer holds."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest

from mta.kernels.native import (
    Buffer,
    items_of,
    numbers_of,
    rows_of,
    shortened,
)
from tests.support.kernels import numpy_alone

KERNELS = [nullcontext, numpy_alone]
BUFFERS: list[Buffer] = [b"hello", memoryview(b"-world-")[1:6], b""]
I8 = np.iinfo("i8")


def columns(*given: list[int]) -> list[np.ndarray]:
    return [np.array(each, np.int64) for each in given]


@pytest.mark.parametrize("kernel", KERNELS)
def test_bytes(kernel: type[AbstractContextManager[None]]) -> None:
    with kernel():
        assert items_of(BUFFERS, 1, *columns([1, 0, 2, 1], [0, 2, 0, 5], [3, 2, 0, 0])) == b"worll"
        assert items_of([], 1, *columns([], [], [])) == b""


@pytest.mark.parametrize("kernel", KERNELS)
def test_numbers_of_every_width_come_back(kernel: type[AbstractContextManager[None]]) -> None:
    random = np.random.default_rng(3)
    lots = [
        np.full(4, -7),
        random.integers(-5, 200, 50),
        random.integers(0, 40_000, 50) - I8.max,
        random.integers(-(2**31), 2**31, 50),
        random.integers(I8.min, I8.max, 50),
        np.array([I8.min, I8.max, 0, -1]),
        random.integers(-(2**40), 2**40, 50) * 1_000_000,
        random.integers(-(2**40), 2**40, 50) * 1_000,
        np.zeros(0, np.int64),
    ]
    heads = [shortened(lot) for lot in lots]
    buffers: list[Buffer] = [data for _, _, data in heads]
    assert [len(data) // max(len(lot), 1) for lot, data in zip(lots, buffers, strict=True)] == [
        0, 1, 2, 4, 8, 8, 8, 8, 0,
    ]  # fmt: skip
    assert [unit for _, unit, _ in heads][-3:] == [1_000_000, 1_000, 1]
    # Any ranges of them, in any order.
    which = random.integers(0, len(lots), 300)
    sizes = np.array([len(lot) for lot in lots])[which]
    firsts = random.integers(0, sizes + 1)
    counts = random.integers(0, sizes - firsts + 1)
    lengths = [len(lot) for lot in lots]
    widths = [len(each) // max(length, 1) for each, length in zip(buffers, lengths, strict=True)]
    bases, units = ([head[at] for head in heads] for at in (0, 1))
    # In each buffer the column comes after something else.
    column = np.array([range(len(lots)), lengths, widths, bases, units])
    buffers = [b"x" * at + bytes(buffer) + b"y" for at, buffer in enumerate(buffers)]
    with kernel():
        found = numbers_of(buffers, column, which, firsts, counts)
    ranges = zip(which, firsts, counts, strict=True)
    wanted = [lots[at][first : first + count] for at, first, count in ranges]
    assert found.tolist() == np.concatenate(wanted).tolist()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("dtype", ["<f8", "<i8", "u1", "?", "<M8[us]"])
def test_rows_of_columns_of_one_type(
    kernel: type[AbstractContextManager[None]], dtype: str, shape: tuple[int, ...]
) -> None:
    random = np.random.default_rng(4)
    parts = [
        random.integers(0, 2, (size, *shape)).astype(dtype) if size != 30
        else random.integers(0, 2, (2 * size, *shape)).astype(dtype)[::2]
        for size in (20, 0, 30)
    ]  # fmt: skip
    which = random.integers(0, 3, 100)
    sizes = np.array([len(part) for part in parts])[which]
    starts = random.integers(0, sizes + 1)
    lengths = random.integers(0, sizes - starts + 1)
    with kernel():
        found = rows_of(parts, which, starts, lengths)
        none = rows_of(parts, *columns([], [], []))
    ranges = zip(which, starts, lengths, strict=True)
    wanted = np.concatenate([parts[at][first : first + count] for at, first, count in ranges])
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert found.tolist() == wanted.tolist()
    assert none.shape == (0, *shape)


def test_at_least_so_many_bytes() -> None:
    assert shortened(np.array([5, 5]), 1) == (5, 1, b"\0\0")
    assert shortened(np.zeros(0, np.int64), 1) == (0, 1, b"")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "ranges",
    [
        ([3], [0], [1]), ([-1], [0], [1]), ([0], [-1], [1]), ([0], [0], [-1]), ([0], [4], [2]),
        ([2], [0], [1]), ([0], [I8.max], [1]), ([0, 1], [0, 0], [5, 6]),
    ],
)  # fmt: skip
def test_what_a_buffer_does_not_hold_is_refused(
    kernel: type[AbstractContextManager[None]], ranges: tuple[list[int], ...]
) -> None:
    with kernel():
        with pytest.raises(ValueError, match="extends beyond"):
            items_of(BUFFERS, 1, *columns(*ranges))
        with pytest.raises(ValueError, match="extends beyond"):
            items_of(BUFFERS, 1, *columns([0], [1], [I8.max]))
        with pytest.raises(ValueError, match="extends beyond"):
            rows_of([np.zeros(5), np.zeros(5), np.zeros(0)], *columns(*ranges))
        whole = np.array([[0, 0, 0], [5, 5, 0], [1, 1, 1], [0, 0, 0], [1, 1, 1]])
        with pytest.raises(ValueError, match="extends beyond"):
            numbers_of(BUFFERS, whole, *columns(*ranges))
        with pytest.raises(ValueError, match="extends beyond"):
            items_of(BUFFERS, whole, *columns(*ranges))
        with pytest.raises(ValueError, match=r"extends beyond|numbers have"):
            whole[2, 0] = 3
            numbers_of(BUFFERS, whole, *columns([0], [0], [1]))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("row", "value"), [(0, -1), (0, 1), (0, I8.max), (1, 6), (1, -1), (1, I8.max), (2, -1)]
)
def test_a_column_that_a_buffer_does_not_hold_is_refused(
    kernel: type[AbstractContextManager[None]], row: int, value: int
) -> None:
    column = np.array([[0, 0, 0], [5, 5, 0], [1, 1, 1], [0, 0, 0], [1, 1, 1]])
    ranges = columns([1, 0], [0, 4], [5, 1])
    with kernel():
        assert items_of(BUFFERS, column, *ranges) == b"worldo"
        assert numbers_of(BUFFERS, column, *ranges).tolist() == list(b"worldo")
        column[row, 1] = value
        with pytest.raises(ValueError, match="extends beyond"):
            items_of(BUFFERS, column, *ranges)
        with pytest.raises(ValueError, match="extends beyond"):
            numbers_of(BUFFERS, column, *ranges)


@pytest.mark.parametrize("kernel", KERNELS)
def test_items_of_any_size(kernel: type[AbstractContextManager[None]]) -> None:
    column = np.array([[1, 0], [1, 1], [3, 2], [0, 0], [0, 0]])
    with kernel():
        ranges = columns([1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0])
        found = items_of([b"-abc", b"de"], column, *ranges)
    assert found == b"deabc"
