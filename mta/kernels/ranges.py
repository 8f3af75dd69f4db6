"""Ranges out of many buffers, one after the other: of what they hold, only these are looked at.

    buffers   b"hello", b"world"
    which     1 0         whose the range is
    starts    0 2         its first byte
    lengths   3 2         b"worll"

Whole numbers are kept short: as offsets of 0, 1, 2, 4 or 8 bytes, each ``base + unit * offset``.
A range that its buffer does not hold is a ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mta.kernels import native
from mta.kernels.segments import bounds_of, spread

Buffer = bytes | memoryview
_WIDTHS = (0, 1, 2, 4, 8)


def bytes_of(
    buffers: Sequence[Buffer], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> bytes:
    """Ranges of bytes.

    >>> bytes_of([b"hello", b"world"], np.array([1, 0]), np.array([0, 2]), np.array([3, 2]))
    b'worll'
    """
    held = list(buffers)
    known = native.bytes_of(held, which, starts, lengths)
    if known is not None:
        return known
    _require(held, which, starts, lengths)
    ends = (starts + lengths).tolist()
    return b"".join(
        [held[at][a:b] for at, a, b in zip(which.tolist(), starts.tolist(), ends, strict=True)]
    )


def rows_of(
    columns: Sequence[np.ndarray], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Ranges of rows out of columns of one type; read-only where a kernel took them out.

    >>> one, other = np.array([1, 2]), np.array([7, 8, 9])
    >>> rows_of([one, other], np.array([1, 0]), np.array([1, 0]), np.array([2, 1])).tolist()
    [8, 9, 1]
    """
    first = columns[0]
    width = first.dtype.itemsize * prod(first.shape[1:])
    held = [np.ascontiguousarray(column, first.dtype).view("u1") for column in columns]
    raw = native.bytes_of(held, which, starts * width, lengths * width)
    if raw is not None:
        return np.frombuffer(raw, first.dtype).reshape(-1, *first.shape[1:])
    _require(columns, which, starts, lengths)
    if len(columns) > 1:
        starts = starts + bounds_of(np.fromiter(map(len, columns), np.int64))[which]
        first = np.concatenate(columns)
    found: np.ndarray = first[spread(starts, lengths)]
    return found


def numbers_of(
    buffers: Sequence[Buffer],
    which: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    widths: np.ndarray,
    bases: np.ndarray,
    units: np.ndarray,
) -> np.ndarray:
    """Ranges of numbers, for each so many of a width.

    >>> one = np.array([1])
    >>> numbers_of([bytes([9, 3, 5])], one - 1, one, one + 1, one, one * 100, one * 2).tolist()
    [106, 110]
    """
    held = list(buffers)
    known = native.numbers_of(held, which, starts, counts, widths, bases, units)
    if known is not None:
        return known
    if not np.isin(widths, _WIDTHS).all():
        raise ValueError("numbers have 0, 1, 2, 4 or 8 bytes")
    ends = bounds_of(counts)
    found = np.repeat(bases, counts)
    for width in _WIDTHS[1:]:
        of = np.flatnonzero(widths == width)
        if not len(of):
            continue
        raw = bytes_of(held, which[of], starts[of], counts[of] * width)
        offsets = np.frombuffer(raw, f"<u{width}").astype("<u8").view("<i8")
        places = np.repeat(ends[:-1][of] - bounds_of(counts[of])[:-1], counts[of])
        places += np.arange(len(places))
        found[places] += np.repeat(units[of], counts[of]) * offsets
    return found


def _require(
    buffers: Sequence[Buffer | np.ndarray],
    which: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
) -> None:
    sizes = np.fromiter(map(len, buffers), np.int64, len(buffers))
    known = (which >= 0) & (which < len(sizes)) & (starts >= 0) & (lengths >= 0)
    if not known.all() or (lengths > sizes[which] - starts).any():
        raise ValueError("a range that its buffer does not hold")


def shortened(numbers: np.ndarray, least: int = 0) -> tuple[int, int, bytes]:
    """Whole numbers as base, unit and offsets, of at least so many bytes each.

    Seconds and milliseconds among microseconds are units.

    >>> shortened(np.array([7_000_000, 9_000_000]), 1)
    (7000000, 1000000, b'\\x00\\x02')
    """
    if not len(numbers):
        return 0, 1, b""
    base = int(numbers.min())
    offsets = (numbers - base).astype("<i8", copy=False).view("<u8")
    most, unit = int(offsets.max()), 1
    if most > 0xFFFF:
        for unit in (1_000_000, 1_000, 1):
            if unit == 1 or (not (offsets[:8] % unit).any() and not (offsets % unit).any()):
                break
        offsets, most = offsets // np.uint64(unit), most // unit
    width = next(w for w in _WIDTHS if w >= least and most < 1 << 8 * w)
    return base, unit, offsets.astype(f"<u{width}").tobytes() if width else b""
