"""Checks of serialised sketches, before the library reads them.

DataSketches checks lengths, but follows some fields without a look: a KLL sketch whose levels lie
outside its items crashes the process, an HLL set or a map of items of size 2^31 is allocated. So
these fields are compared here with what a sketch of the same settings can be. The formats are
Apache DataSketches' own, the same in all its languages; all numbers are little-endian.
"""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np

_HLL_LIST, _HLL_SET, _HLL = range(3)
#: Where the coupons of an HLL list and set begin.
_COUPONS = {_HLL_LIST: 8, _HLL_SET: 12}
_HLL_REGISTERS, _HLL_8, _LARGEST_REGISTER = 40, 2, 63
_KLL_FULL, _KLL_MIN_WIDTH, _KLL_MOST_LEVELS = 20, 8, 61


def check_hll(data: bytes, lg_k: int) -> None:
    """Raises ValueError for what is no HLL_8 sketch of this lg_k."""
    _require(len(data) >= 8, "it is too short")
    _require(data[3] == lg_k, f"its lg_k is {data[3]} in place of {lg_k}")
    mode, kind = data[7] & 3, data[7] >> 2 & 3
    _require(kind == _HLL_8 and mode <= _HLL, f"its mode is {data[7]}")
    if mode == _HLL:
        _require(len(data) == _HLL_REGISTERS + (1 << lg_k), "its registers are of the wrong length")
        _require(max(data[_HLL_REGISTERS:]) <= _LARGEST_REGISTER, "a register is out of range")
        return
    count = (len(data) - _COUPONS[mode]) // 4
    if mode == _HLL_LIST:
        said = data[6]
    else:
        _require(len(data) >= 12, "it is too short")
        said = int.from_bytes(data[8:12], "little")
    _require(len(data) == _COUPONS[mode] + 4 * count and said == count, "its count is wrong")
    _require((data[4] <= lg_k and count < 1 << data[4]) or not count, "its table is too small")


def sorted_coupons(data: bytes) -> bytes:
    """A compact HLL sketch with its coupons in order, so that it does not depend on its history."""
    mode = data[7] & 3
    if mode == _HLL:
        return data
    start = _COUPONS[mode]
    return data[:start] + np.sort(np.frombuffer(data, "<u4", offset=start)).tobytes()


def check_kll(data: bytes, k: int) -> None:
    """Raises ValueError for what is no KLL sketch of doubles of this k, or holds a NaN."""
    _require(len(data) >= 8, "it is too short")
    preamble, version, _, flags, found, width, _ = struct.unpack_from("<BBBBHBB", data)
    _require((found, width) == (k, _KLL_MIN_WIDTH), f"its k and m are {found} and {width}")
    if flags & 1:
        _require(len(data) == 8 and preamble == 2, "it is empty, but not short")
    elif flags & 4:
        _require(len(data) == 16 and (preamble, version) == (2, 2), "it is no single item")
        _check_values(np.frombuffer(data, "<f8", offset=8))
    else:
        _require(len(data) >= _KLL_FULL and (preamble, version) == (5, 1), "its preamble is wrong")
        _check_levels(data, k, bool(flags & 2))


def _check_levels(data: bytes, k: int, sorted_too: bool) -> None:
    """Levels must lie side by side, each sorted, and weigh n together."""
    n, least_k, levels = struct.unpack_from("<QHB", data, 8)
    _require(0 < levels <= _KLL_MOST_LEVELS and least_k == k, "its levels are out of range")
    start = _KLL_FULL + 4 * levels
    capacity = sum(_capacity(k, levels - height - 1) for height in range(levels))
    _require(len(data) >= start + 16, "it is too short")
    bounds = [*struct.unpack_from(f"<{levels}I", data, _KLL_FULL), capacity]
    sizes = [after - before for before, after in pairwise(bounds)]
    _require(min(sizes) >= 0, "its levels overlap")
    _require(len(data) == start + 16 + 8 * sum(sizes), "its items are of the wrong length")
    _require(sum(size << height for height, size in enumerate(sizes)) == n, "its count is wrong")
    values = np.frombuffer(data, "<f8", offset=start)
    least, most, items = values[0], values[1], values[2:]
    _check_values(values)
    _require(bool(((items >= least) & (items <= most)).all()), "an item is out of range")
    for height in range(0 if sorted_too else 1, levels):
        level = items[bounds[height] - bounds[0] : bounds[height + 1] - bounds[0]]
        _require(bool((level[1:] >= level[:-1]).all()), f"level {height} is not sorted")


def _capacity(k: int, depth: int) -> int:
    """How many items the level at a depth below the top holds: about k (2/3)^depth."""
    if depth > 30:
        half = depth // 2
        return max(_KLL_MIN_WIDTH, _scaled(_scaled(k, half), depth - half))
    return max(_KLL_MIN_WIDTH, _scaled(k, depth))


def _scaled(k: int, depth: int) -> int:
    """k (2/3)^depth, rounded to the nearest whole number."""
    return ((2 * k << depth) // int(3**depth) + 1) // 2


def _check_values(values: np.ndarray) -> None:
    _require(not bool(np.isnan(values).any()), "it holds a NaN")


def check_items(data: bytes, lg_size: int) -> None:
    """Raises ValueError for what is no sketch of frequent items of this size."""
    _require(len(data) >= 8, "it is too short")
    _require(data[3] == lg_size, f"its lg_size is {data[3]} in place of {lg_size}")
    _require(3 <= data[4] <= lg_size, f"its map has a size of 2^{data[4]}")
    if len(data) > 8:
        count = int.from_bytes(data[8:12], "little")
        _require(4 * count <= 3 << data[4], f"it has {count} items, more than its map holds")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
