"""Concatenated ranges of many buffers; nothing else in the buffers is read.

    buffers   b"hello", b"world"
    which     1 0         the buffer of each range
    firsts    0 2         the first item of each range
    counts    3 2         b"worll"

A *column* describes items in each buffer by five rows: where they start, their number, the bytes of
each item, and for integers a base and a unit. Integers are shortened to offsets of 0, 1, 2, 4 or 8
bytes; their values are ``base + unit * offset``. A range outside its column, or a column outside
its buffer, raises ValueError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from mta.kernels import native

Buffer = bytes | memoryview
_WIDTHS = (0, 1, 2, 4, 8)


def bytes_of(
    buffers: Sequence[Buffer], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> Buffer:
    """Return the bytes of some ranges.

    >>> bytes(bytes_of([b"hello", b"world"], np.array([1, 0]), np.array([0, 2]), np.array([3, 2])))
    b'worll'
    """
    return items_of(buffers, _whole(buffers), which, starts, lengths)


def items_of(
    buffers: Sequence[Buffer],
    column: np.ndarray,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> Buffer:
    """Return the bytes of ranges of a column's items."""
    held = list(buffers)
    if native.compiled is not None:
        return native.gathered(held, column, which, firsts, counts, False).data
    return b"".join(_ranges(held, column, which, firsts, counts))


def rows_of(
    columns: Sequence[np.ndarray], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Return ranges of rows of arrays with one type; may be read-only.

    >>> one, other = np.array([1, 2]), np.array([7, 8, 9])
    >>> rows_of([one, other], np.array([1, 0]), np.array([1, 0]), np.array([2, 1])).tolist()
    [8, 9, 1]
    """
    first = columns[0]
    width = first.dtype.itemsize * prod(first.shape[1:])
    flat = [np.ascontiguousarray(each, first.dtype).reshape(-1) for each in columns]
    held = [each.view("u1").data for each in flat]
    raw = items_of(held, _whole(columns, width), which, starts, lengths)
    return np.frombuffer(raw, first.dtype).reshape(-1, *first.shape[1:])


def numbers_of(
    buffers: Sequence[Buffer],
    column: np.ndarray,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Return ranges of a column's integers; may be read-only.

    >>> column, one = np.array([[1], [2], [1], [100], [2]]), np.array([1])
    >>> numbers_of([bytes([9, 3, 5])], column, one - 1, one - 1, one + 1).tolist()
    [106, 110]
    """
    held = list(buffers)
    if native.compiled is not None:
        return native.gathered(held, column, which, firsts, counts, True).view(np.int64)
    found = [np.zeros(0, np.int64)]
    pieces = zip(_ranges(held, column, which, firsts, counts), which, counts, strict=True)
    for piece, at, count in pieces:
        width, base, unit = column[2:, at]
        if width not in _WIDTHS:
            raise ValueError("numbers have 0, 1, 2, 4 or 8 bytes")
        offsets = np.frombuffer(piece, f"<u{width}") if width else np.zeros(count, np.int64)
        found.append(base + unit * offsets.astype(np.int64))
    return np.concatenate(found)


def _whole(buffers: Sequence[Buffer | np.ndarray], width: int = 1) -> np.ndarray:
    """Return a column of all items of ``width`` bytes in the buffers."""
    column = np.zeros((5, len(buffers)), np.int64)
    column[1] = np.fromiter(map(len, buffers), np.int64, len(buffers))
    column[2] = width
    return column


def _ranges(
    buffers: Sequence[Buffer],
    column: np.ndarray,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> Iterator[Buffer]:
    """Yield the bytes of each range of a column's items. Raises ValueError like a kernel."""
    columns = column[:3].T.tolist()
    for buffer, (start, count, width) in zip(buffers, columns, strict=True):
        if (
            min(start, count, width) < 0
            or start + count * width > len(buffer)
            or start > len(buffer)
        ):
            raise ValueError("a column that its buffer does not hold")
    for at, first, count in zip(which.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        if not (0 <= at < len(buffers) and 0 <= first <= first + count <= columns[at][1]):
            raise ValueError("a range that its column does not hold")
        start, _, width = columns[at]
        yield buffers[at][start + first * width : start + (first + count) * width]


def shortened(numbers: np.ndarray, least: int = 0) -> tuple[int, int, bytes]:
    r"""Return integers as base, unit and offsets of at least ``least`` bytes each.

    The unit is 1,000,000 or 1,000 if all offsets are multiples: seconds and milliseconds in times.

    >>> shortened(np.array([7_000_000, 9_000_000]), 1)
    (7000000, 1000000, b'\x00\x02')
    """
    if not len(numbers):
        return 0, 1, b""
    base = int(numbers.min())
    offsets = (numbers - base).astype("<i8", copy=False).view("<u8")
    most, unit = int(offsets.max()), 1
    if most > 0xFFFF:
        for unit in (1_000_000, 1_000):
            if not (offsets[:8] % unit).any():
                units = offsets // np.uint64(unit)  # far faster than a remainder
                if (units * np.uint64(unit) == offsets).all():
                    offsets, most = units, most // unit
                    break
        else:
            unit = 1
    width = next(w for w in _WIDTHS if w >= least and most < 1 << 8 * w)
    return base, unit, offsets.astype(f"<u{width}").tobytes() if width else b""
