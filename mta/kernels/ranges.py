"""Ranges out of many buffers, one after the other: of what they hold, only these are looked at.

    buffers   b"hello", b"world"
    which     1 0         whose the range is
    firsts    0 2         its first item
    counts    3 2         b"worll"

A *column* of the buffers says for each where its items begin, how many there are, how many bytes
each has, and of numbers base and unit: five rows. Whole numbers are kept short: as offsets of 0,
1, 2, 4 or 8 bytes, each ``base + unit * offset``. What lies outside its column, or a column outside
its buffer, is a ValueError.
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
    return items_of(buffers, _whole(buffers), which, starts, lengths)


def items_of(
    buffers: Sequence[Buffer],
    column: np.ndarray,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> bytes:
    """The bytes of ranges of a column's items."""
    held = list(buffers)
    known = native.gathered(held, column, which, firsts, counts, False)
    if known is not None:
        return known
    _require_column(held, column)
    starts, widths = _require(column, which, firsts, counts)
    ends = (starts + counts * widths).tolist()
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
    given = (_whole(columns, width), which, starts, lengths)
    raw = native.gathered(held, *given, False)
    if raw is not None:
        return np.frombuffer(raw, first.dtype).reshape(-1, *first.shape[1:])
    _require(*given)
    if len(columns) > 1:
        starts = starts + bounds_of(np.fromiter(map(len, columns), np.int64))[which]
        first = np.concatenate(columns)
    found: np.ndarray = first[spread(starts, lengths)]
    return found


def numbers_of(
    buffers: Sequence[Buffer],
    column: np.ndarray,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Ranges of a column's numbers; read-only where a kernel took them out.

    >>> column, one = np.array([[1], [2], [1], [100], [2]]), np.array([1])
    >>> numbers_of([bytes([9, 3, 5])], column, one - 1, one - 1, one + 1).tolist()
    [106, 110]
    """
    held = list(buffers)
    raw = native.gathered(held, column, which, firsts, counts, True)
    if raw is not None:
        return np.frombuffer(raw, np.int64)
    _require_column(held, column)
    starts, widths = _require(column, which, firsts, counts)
    if not np.isin(widths, _WIDTHS).all():
        raise ValueError("numbers have 0, 1, 2, 4 or 8 bytes")
    bases, units = column[3:, which]
    ends = bounds_of(counts)
    found: np.ndarray = np.repeat(bases, counts)
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


def _whole(buffers: Sequence[Buffer | np.ndarray], width: int = 1) -> np.ndarray:
    """All there is in buffers, or arrays of rows of so many bytes, as a column."""
    column = np.zeros((5, len(buffers)), np.int64)
    column[1] = np.fromiter(map(len, buffers), np.int64, len(buffers))
    column[2] = width
    return column


def _require_column(buffers: Sequence[Buffer], column: np.ndarray) -> None:
    lengths = np.fromiter(map(len, buffers), np.int64, len(buffers))
    starts, counts, widths = column[:3]
    most = (lengths - starts) // np.maximum(widths, 1)
    if (column[:3] < 0).any() or (starts > lengths).any() or (counts > most)[widths > 0].any():
        raise ValueError("a column that its buffer does not hold")


def _require(
    column: np.ndarray, which: np.ndarray, firsts: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where each range begins, and how many bytes each of its items has, if its column holds it."""
    known = (which >= 0) & (which < column.shape[1]) & (firsts >= 0) & (counts >= 0)
    if known.all():
        starts, most, widths = column[:3, which]
        if ((firsts <= most) & (counts <= most - firsts)).all():
            return starts + firsts * widths, widths
    raise ValueError("a range that its column does not hold")


def shortened(numbers: np.ndarray, least: int = 0) -> tuple[int, int, bytes]:
    r"""Whole numbers as base, unit and offsets, of at least so many bytes each.

    Seconds and milliseconds among microseconds are units.

    >>> shortened(np.array([7_000_000, 9_000_000]), 1)
    (7000000, 1000000, b'\x00\x02')
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
