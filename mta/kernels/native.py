"""Numeric operations on whole columns: in C loops if the extension is installed, otherwise numpy.

The environment variable ``MTA_KERNELS`` chooses the kernels: ``numpy`` ignores the extension, and
``native`` requires it. By default, the extension is used if it is installed. This module checks
types and contiguity; C code checks lengths (``module.c``).

*Folds* support monoids whose partials are one or a few numbers; ``Kernel`` names the loop of a
monoid. Rows are an array, or a tuple of arrays. They return None or False if the caller must use
the monoid's methods: without the extension, for other types of columns, and if squares overflow.

*Scans* fold a column with a ufunc up to each row, over all rows or within blocks. Each row depends
on the previous one, so a scan takes much longer than other operations on a column. Scans of columns
of ones are therefore computed as counts.

*Ranges* of many buffers are concatenated; nothing else in the buffers is read. A *column* describes
items in each buffer by five rows: where they start, their number, the bytes of each item, and for
integers a base and a unit. Integers are shortened to offsets of 0, 1, 2, 4 or 8 bytes; their values
are ``base + unit * offset``. A range outside its column, or a column outside its buffer, raises
ValueError.

*Segments* of a column, one per key, are processed together. The result of a segment does not depend
on the rows of other segments.

    bounds    0 3 5 9            segment 0 has the rows 0 to 3, segment 1 the rows 3 to 5, ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from importlib import import_module
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

Rows = Any

_VARIABLE, _CHOICES = "MTA_KERNELS", ("numpy", "native")
_F8, _I8, _BOOL = np.dtype("f8"), np.dtype("i8"), np.dtype("?")
#: The types of a kind's columns; None is any numeric type of 8 bytes.
_TYPES: dict[str, tuple[np.dtype | None, ...]] = {
    "sum_f8": (_F8,), "max_f8": (_F8,), "min_f8": (_F8,),
    "sum_i8": (_I8,), "max_i8": (_I8,), "min_i8": (_I8,),
    "mean": (_F8, _F8), "moments": (_F8, _F8, _F8),
    "arg_max": (_F8, None, _BOOL), "arg_min": (_F8, None, _BOOL),
    "first": (None, _BOOL), "last": (None, _BOOL),
}  # fmt: skip
_OF_UFUNCS: dict[np.ufunc, str] = {np.add: "sum", np.maximum: "max", np.minimum: "min"}
#: The revision of the C sources of this module; a checkout may contain an older extension.
REVISION = 16
#: Allocates so many bytes. For large arrays, numpy asks the system for huge pages: otherwise the
#: page faults of new memory take longer than the copy.
ROOM = partial(np.empty, dtype=np.uint8)
#: Returns integers as contiguous int64, which C requires.
_int64 = partial(np.ascontiguousarray, dtype=np.int64)
#: The longest range of ``ranges``, as in ``folds.h``.
LONGEST = 64


def load() -> Any:
    """Return the extension, or None. Raises ImportError if it is required but not available."""
    asked = os.environ.get(_VARIABLE, "")
    if asked and asked not in _CHOICES:
        raise ImportError(f"{_VARIABLE} is one of {_CHOICES}, not {asked!r}")
    if asked == "numpy":
        return None
    try:
        found = import_module("mta.kernels.compiled")
        if not _fits(found):
            raise ImportError("they were built from other sources")
        return found
    except ImportError as error:
        if asked == "native":
            raise ImportError(
                f"{_VARIABLE}=native, but the compiled kernels are missing ({error}): install "
                "the package with a C compiler, or leave the variable unset"
            ) from error
        return None


def _fits(extension: Any) -> bool:
    known = getattr(extension, "REVISION", 0) == REVISION
    return known and tuple(extension.KINDS) == tuple(_TYPES)


#: The extension; None to use numpy.
compiled: Any = load()


def in_use() -> str:
    """Return the kernels in use as text: native or numpy, and why."""
    if compiled is not None:
        return "native"
    if os.environ.get(_VARIABLE) == "numpy":
        return f"numpy ({_VARIABLE}=numpy)"
    found = sys.modules.get("mta.kernels.compiled")
    if found is not None and not _fits(found):
        return "numpy (the compiled ones are of other sources: install the package again)"
    return "numpy (the compiled ones are not built)"


class Kernel(NamedTuple):
    """The loop for a monoid, and how it lowers."""

    kind: str
    lost: float | None = None
    """The lost degrees of freedom of a deviation, otherwise 0; None if C cannot lower."""

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, ufunc: np.ufunc, dtype: Any, lost: float | None = None) -> Kernel | None:
        """Return the kernel of a ufunc on a single column, or None."""
        kind, own = f"{_OF_UFUNCS.get(ufunc)}_{np.dtype(dtype).str[1:]}", np.dtype(dtype)
        return cls(kind, lost) if _TYPES.get(kind) == (own,) else None


_NUMBERS = {kind: number for number, kind in enumerate(_TYPES)}


def scan(kernel: Kernel, rows: Rows, room: Rows, backwards: bool) -> bool:
    """Write folds after the first (or before the last) row of ``room``; False to use numpy."""
    given, out = _columns(kernel, rows, once=True), _columns(kernel, room, writable=True)
    if given is None or out is None:
        return False
    done: bool = compiled.scan(_NUMBERS[kernel.kind], given, out, backwards)
    return done


def join(kernel: Kernel, left: Rows, right: Rows) -> Rows | None:
    """Combine rows in pairs, or all with one row on the right; None if the caller must do it."""
    lefts, rights = _columns(kernel, left), _columns(kernel, right)
    if lefts is None or rights is None or len(rights[0]) not in (1, len(lefts[0])):
        return None
    out = _new(lefts, len(lefts[0]))
    compiled.join(_NUMBERS[kernel.kind], lefts, rights, out)
    return _like(left, out)


def ranges(kernel: Kernel, rows: Rows, starts: np.ndarray, lengths: np.ndarray) -> Rows | None:
    """Fold ranges of at most ``LONGEST`` rows each; None if the caller must do it."""
    given = _columns(kernel, rows, once=True)
    if given is None:
        return None
    out = _new(given, len(starts))
    compiled.ranges(_NUMBERS[kernel.kind], given, _int64(starts), _int64(lengths), out)
    return _like(rows, out)


class Sweep(NamedTuple):
    """The input of *Two-Stacks*: rows, and the bounds of each result."""

    rows: Rows
    stack: Rows
    """The folds from each position to the middle; ``stack_at`` is the first position."""
    stack_at: int
    middle: int
    first: int
    fronts: range | np.ndarray
    stops: range | np.ndarray
    """The position after the last row of each result. Stops and fronts never decrease."""
    right: Rows
    """The fold from the middle to the first row, as one row."""
    turns: bool = False
    """Whether rows become the stack when the front reaches the middle.

    If True, positions are indices of ``rows``. Otherwise, no front may be beyond the middle.
    """


def sweep(kernel: Kernel, over: Sweep, out: Rows, lowered: bool) -> Sweep | None:
    """Write the fold of the rows from each front to its stop into ``out``, by Two-Stacks.

    With ``lowered``, writes results instead of partials. Returns a sweep to continue from the last
    stop; its ``right`` is the fold from the middle to that stop. None if the caller must use numpy.
    """
    given, stack = _columns(kernel, over.rows, once=True), _columns(kernel, over.stack)
    aside = _columns(kernel, over.right)
    into = (out,) if lowered else _columns(kernel, out, writable=True)
    if given is None or stack is None or aside is None or into is None:
        return None
    aside = tuple(map(np.ndarray.copy, aside))
    size = max(map(len, given))
    if over.turns and len(stack[0]) <= size:  # only entries that are written take memory
        known, stack = stack, _new(stack, size + 1)
        for column, few in zip(stack, known, strict=True):
            column[: len(few)] = few
    places = np.array([over.stack_at, over.middle])
    lost = -1.0 if not lowered or kernel.lost is None else kernel.lost
    bounds = [p.start if isinstance(p, range) else _int64(p) for p in (over.fronts, over.stops)]
    done: bool = compiled.sweep(
        _NUMBERS[kernel.kind], given, stack, places, over.first, *bounds, aside, over.turns, lost,
        into,
    )  # fmt: skip
    if not done:
        return None
    stack_at, middle = places.tolist()
    found = (stack, aside) if type(over.rows) is tuple else (stack[0], aside[0])
    return over._replace(stack=found[0], stack_at=stack_at, middle=middle, right=found[1])


def ranks(
    times: np.ndarray, keys: np.ndarray, age: int = 0, room: np.ndarray | None = None
) -> range | np.ndarray:
    """Return ``times.searchsorted(keys - age, side="right")``, for keys that never decrease.

    A kernel returns a range if the result grows by one per key. The result is also written to
    ``room``, if given.

    >>> ranks(np.array([0, 10, 20]), np.array([105, 110, 115]), age=100).tolist()
    [1, 2, 2]
    """
    found = np.empty(len(keys), np.int64) if room is None else room
    if compiled is None:
        found[:] = times.searchsorted(keys - age, side="right")
    elif compiled.ranks(_int64(times), _int64(keys), found, age) and len(keys):
        return range(int(found[0]), int(found[0]) + len(keys))
    return found


def match(
    buffers: list[Any],
    columns: np.ndarray,
    runs: np.ndarray,
    hashes: np.ndarray,
    bounds: np.ndarray,
    keys: np.ndarray,
) -> tuple[bool, np.ndarray] | None:
    """Find keys by hash and bytes in each run; None without a kernel.

    Returns a row per key with ``page << 32 | place``, or -1, for each run. ``runs`` has the first
    page of each run and the page after its last. Keys and pages are in order of hashes. ``columns``
    are the columns of hashes, of bounds of keys, and of their bytes. Keys that are their own hashes
    have no ``bounds``. If the returned flag is False, hashes are out of order, or another key has
    the hash of a given one; the rows are then meaningless.
    """
    if compiled is None:
        return None
    slots = np.full((len(hashes), len(runs)), -1)
    given = map(_int64, (columns, runs, hashes.view("<i8"), bounds))
    return compiled.match(buffers, *given, slots, np.ascontiguousarray(keys)), slots


# --- columns of a kernel --------------------------------------------------------------------------


def _columns(
    kernel: Kernel, rows: Rows, writable: bool = False, once: bool = False
) -> tuple[np.ndarray, ...] | None:
    """Return rows as contiguous columns of a kind; None for other types, or without kernels.

    With ``once``, a column that repeats one item, beside others, becomes a single item.
    """
    columns = rows if type(rows) is tuple else (rows,)
    types = _TYPES[kernel.kind]
    if compiled is None or len(columns) != len(types):
        return None
    if once and len(columns) > 1 and any(c.flags.c_contiguous for c in columns):
        columns = tuple([c if c.flags.c_contiguous or c.strides[0] else c[:1] for c in columns])
    found = []
    for column, dtype in zip(columns, types, strict=True):
        own = column.dtype
        if own != dtype and (dtype is not None or own.kind not in "iuf" or own.itemsize != 8):
            return None
        if not column.flags.c_contiguous:
            if writable:
                return None
            column = np.ascontiguousarray(column)
        found.append(column)
    return tuple(found)


def _new(columns: tuple[np.ndarray, ...], count: int) -> tuple[np.ndarray, ...]:
    return tuple([np.empty(count, column.dtype) for column in columns])


def _like(rows: Rows, columns: tuple[np.ndarray, ...]) -> Rows:
    return columns if type(rows) is tuple else columns[0]


# --- scans ----------------------------------------------------------------------------------------


def accumulate(ufunc: np.ufunc, column: np.ndarray, first: Any, backwards: bool) -> np.ndarray:
    """Return the folds of ``first`` and the rows up to each row, from either side; n + 1 rows.

    >>> accumulate(np.add, np.array([1.0, 2.0, 3.0]), 10.0, backwards=True).tolist()
    [16.0, 15.0, 13.0, 10.0]
    """
    if ufunc is np.add:
        count = running_count(column, first, backwards)
        if count is not None:
            return count
    folds = np.empty(len(column) + 1, column.dtype)
    folds[-1 if backwards else 0] = first
    kernel = Kernel.of(ufunc, column.dtype)
    if kernel is not None and compiled is not None:
        rows = np.ascontiguousarray(column)
        compiled.scan(_NUMBERS[kernel.kind], (rows,), (folds,), backwards)
        return folds
    rows, run = (folds[:-1], folds[::-1]) if backwards else (folds[1:], folds)
    rows[...] = column
    ufunc.accumulate(run, out=run)
    return folds


def accumulate_blocks(
    ufunc: np.ufunc, column: np.ndarray, size: int, backwards: bool
) -> np.ndarray:
    """Return the folds within blocks of ``size`` rows, up to each row or from each row on.

    >>> accumulate_blocks(np.add, np.array([1, 2, 3, 4, 5]), 3, backwards=False).tolist()
    [1, 3, 6, 4, 9]
    """
    count, step = len(column), -1 if backwards else 1
    room, whole = np.empty(count, column.dtype), count // size * size
    for start, stop, width in ((0, whole, size), (whole, count, count - whole)):
        if start < stop:
            given, out = (a[start:stop].reshape(-1, width)[:, ::step] for a in (column, room))
            ufunc.accumulate(given, axis=1, out=out)
    return room


# --- counts ---------------------------------------------------------------------------------------

#: The bytes of a one for each type.
_ONE = {dtype: np.ones(1, dtype).tobytes() for dtype in ("f8", "i8")}
_ZERO = bytes(8)


def ones(value: Any, dtype: Any = "f8") -> Any:
    """Return a one for every event, to which counts lift. Read-only, as all rows share an item."""
    if not isinstance(value, np.ndarray):
        return 1
    return np.ndarray(len(value), dtype, _ONE[dtype], strides=(0,))


def zeros(count: int, dtype: Any = "f8") -> np.ndarray:
    """Return a column of zeros like that of ``ones``."""
    return np.ndarray(count, dtype, _ZERO, strides=(0,))


def repeats(column: np.ndarray, item: int) -> bool:
    """Return whether a column was made by ``ones`` (``item`` 1) or ``zeros`` (``item`` 0)."""
    return column.strides == (0,) and len(column) > 0 and column[0] == item


def running_count(column: np.ndarray, first: Any, backwards: bool = False) -> np.ndarray | None:
    """Return ``first`` plus 0, 1, ... n if the column was made by ``ones``; otherwise None."""
    if not repeats(column, 1):
        return None
    count = len(column)
    steps = (count, -1, -1) if backwards else (count + 1,)
    counts = np.arange(*steps, dtype=column.dtype)
    return counts + first if first else counts


# --- ranges of buffers ----------------------------------------------------------------------------


Buffer = bytes | memoryview
_WIDTHS = (0, 1, 2, 4, 8)


def items_of(
    buffers: Sequence[Buffer],
    column: np.ndarray | int,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
) -> Buffer:
    """Return the bytes of ranges of a column's items, or of all items of so many bytes.

    >>> held, which = [b"hello", b"world"], np.array([1, 0])
    >>> bytes(items_of(held, 1, which, np.array([0, 2]), np.array([3, 2])))
    b'worll'
    """
    held = list(buffers)
    if isinstance(column, int):
        width, column = column, np.zeros((5, len(held)), np.int64)
        column[1] = np.fromiter(map(len, held), np.int64, len(held)) // max(width, 1)
        column[2] = width
    if compiled is not None:
        given = map(_int64, (column, which, firsts, counts))
        found: np.ndarray = compiled.gathered(held, *given, False, ROOM)
        return found.data
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
    flat = [np.ascontiguousarray(c, first.dtype).reshape(-1).view("u1").data for c in columns]
    raw = items_of(flat, width, which, starts, lengths)
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
    if compiled is not None:
        given = map(_int64, (column, which, firsts, counts))
        numbers: np.ndarray = compiled.gathered(held, *given, True, ROOM)
        return numbers.view(np.int64)
    found = [np.zeros(0, np.int64)]
    pieces = zip(_ranges(held, column, which, firsts, counts), which, counts, strict=True)
    for piece, at, count in pieces:
        width, base, unit = column[2:, at]
        if width not in _WIDTHS:
            raise ValueError("numbers have 0, 1, 2, 4 or 8 bytes")
        offsets = np.frombuffer(piece, f"<u{width}") if width else np.zeros(count, np.int64)
        found.append(base + unit * offsets.astype(np.int64))
    return np.concatenate(found)


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
        if min(start, count, width) < 0 or max(start, start + count * width) > len(buffer):
            raise ValueError("a column extends beyond its buffer")
    for at, first, count in zip(which.tolist(), firsts.tolist(), counts.tolist(), strict=True):
        if not (0 <= at < len(buffers) and 0 <= first <= first + count <= columns[at][1]):
            raise ValueError("a range extends beyond its column")
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


# --- segments -------------------------------------------------------------------------------------


_DIGIT = 16
#: If runs of rows with one code are at least this long on average, runs are sorted, not rows.
_LONG_RUN = 4
#: Integers and their differences must stay below this, so that sums of two do not overflow.
_ROOM = 1 << 62


def inverse(order: np.ndarray) -> np.ndarray:
    """Return the inverse of a permutation.

    >>> inverse(np.array([2, 0, 1]))
    array([1, 2, 0])
    """
    found = np.empty(len(order), np.int64)
    found[order] = np.arange(len(order))
    return found


def bounds_of(counts: np.ndarray) -> np.ndarray:
    """Return where segments of these lengths start, and where the last one ends.

    >>> bounds_of(np.array([3, 2, 4])).tolist()
    [0, 3, 5, 9]
    """
    bounds = np.zeros(len(counts) + 1, np.int64)
    counts.cumsum(out=bounds[1:])
    return bounds


def spread(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the row numbers of some ranges, concatenated; 10 ns per row.

    >>> spread(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    rows = np.arange(total)
    rows += np.repeat(starts - (ends - lengths), lengths)
    return rows


def group(codes: np.ndarray, most: int) -> np.ndarray:
    """Return the stable order of rows by code, a number from 0 to below ``most``.

    This is a linear radix sort of rows, or of runs with one code, by 16 bits at a time.

    >>> group(np.array([1, 0, 1, 0]), 2).tolist()
    [1, 3, 0, 2]
    """
    if (codes[1:] >= codes[:-1]).all():
        return np.arange(len(codes))
    starts = np.append(0, np.flatnonzero(codes[1:] != codes[:-1]) + 1)
    if _LONG_RUN * len(starts) <= len(codes):  # such as a table ordered by keys
        order = group(codes[starts], most)
        return spread(starts[order], np.diff(starts, append=len(codes))[order])
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    shift = _DIGIT
    while most >> shift:
        digit = (codes[order] >> shift & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
        shift += _DIGIT
    return order


def order_by(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the stable order of integers by code (>= 0), then by value.

    Joins both into one integer. numpy's stable sort is fast for rows that are mostly in order: 2 to
    15 ns per row, a tenth of two sorts.

    >>> order_by(np.array([1, 0, 1, 0]), np.array([5, 9, 2, 9])).tolist()
    [1, 3, 2, 0]
    """
    if not len(codes):
        return np.zeros(0, np.int64)
    least, most = int(values.min()), int(values.max())
    span = most - least + 1
    if span * (int(codes.max()) + 1) >= _ROOM:
        return np.lexsort((values, codes))
    joined = codes * span
    joined += values - least
    return np.argsort(joined, kind="stable")


def sort_within(values: np.ndarray, codes: np.ndarray) -> np.ndarray | None:
    """Return ``order_by`` for codes that never decrease; None if all rows are in order."""
    later = values[1:] >= values[:-1]
    later |= codes[1:] != codes[:-1]
    return None if later.all() else order_by(codes, values)


def running_max(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the maximum of each segment up to each row.

    >>> running_max(np.array([5, 7, 6, 1, 3, 2]), np.array([0, 3, 6])).tolist()
    [5, 7, 7, 1, 3, 3]
    """
    if not len(values):
        return values.copy()
    least, most = int(values.min()), int(values.max())
    span, count = most - least + 1, len(bounds) - 1
    if span * count < _ROOM:
        lift = np.repeat(np.arange(count) * span - least, np.diff(bounds))
        found: np.ndarray = np.maximum.accumulate(values + lift) - lift
        return found
    pieces = [np.maximum.accumulate(values[a:b]) for a, b in pairwise(bounds.tolist())]
    return np.concatenate(pieces)


def first_later(
    times: np.ndarray, bounds: np.ndarray, segments: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """Return the first row of each segment with a time later than ``asked``, or the segment's end.

    ``times`` never decrease within a segment, and ``segments`` never decrease. One search each.

    >>> first_later(np.array([1, 5, 9, 2, 4]), np.array([0, 3, 5]),
    ...     np.array([0, 1, 1]), np.array([5, 0, 4])).tolist()
    [2, 3, 5]
    """
    found = np.empty(len(asked), np.int64)
    if compiled is not None and len(times):
        compiled.first_later(*map(_int64, (times, bounds, segments, asked)), found)
        return found
    for segment, start, stop in _runs(segments):
        first, last = bounds[segment : segment + 2].tolist()
        found[start:stop] = times[first:last].searchsorted(asked[start:stop], side="right") + first
    return found


def _runs(codes: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield each code with its first row and the row after its last."""
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1)).tolist()
    for start, stop in pairwise([*starts, len(codes)]):
        yield int(codes[start]), start, stop
