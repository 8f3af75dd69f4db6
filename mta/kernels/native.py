"""The compiled kernels, where they were built: loops in C for what numpy takes several passes for.

They serve the monoids whose partials are one or a few numbers (``Kernel``). A fold here returns
None, or False, where the caller must combine by the monoid itself: without the extension, for other
columns, and where squares overflow. Of the others callers have the simplest code of numpy's in
their place (``segments``, ``ranges``), which gives the same.

The environment variable ``MTA_KERNELS`` chooses: ``numpy`` leaves the extension alone, ``native``
requires it; unless it is set, they are used if they are there.

``Kernel`` says which kind of loop a monoid takes; rows are an array, or a tuple of them. Types and
contiguity are seen to here, lengths in C (``module.c``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

Rows = Any

_VARIABLE, _CHOICES = "MTA_KERNELS", ("numpy", "native")
_F8, _I8, _BOOL = np.dtype("f8"), np.dtype("i8"), np.dtype("?")
#: The types of a kind's columns; None is any number of 8 bytes.
_TYPES: dict[str, tuple[np.dtype | None, ...]] = {
    "sum_f8": (_F8,), "max_f8": (_F8,), "min_f8": (_F8,),
    "sum_i8": (_I8,), "max_i8": (_I8,), "min_i8": (_I8,),
    "mean": (_F8, _F8), "moments": (_F8, _F8, _F8),
    "arg_max": (_F8, None, _BOOL), "arg_min": (_F8, None, _BOOL),
    "first": (None, _BOOL), "last": (None, _BOOL),
}  # fmt: skip
_OF_UFUNCS: dict[np.ufunc, str] = {np.add: "sum", np.maximum: "max", np.minimum: "min"}
#: That of the C sources that belong to this module; a checkout may hold an older extension.
REVISION = 13
#: Makes room for so many bytes. For large arrays numpy asks the system for huge pages: otherwise
#: the page faults of new memory take longer than the copy.
ROOM = partial(np.empty, dtype=np.uint8)
#: The longest range of ``ranges``, as in ``folds.h``.
LONGEST = 64


def load() -> Any:
    """The extension, or None. Raises ImportError if it is required and is not there."""
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
                f"{_VARIABLE}=native, but the compiled kernels are not there ({error}): install "
                "the package where there is a C compiler, or leave the variable unset"
            ) from error
        return None


def _fits(extension: Any) -> bool:
    if getattr(extension, "REVISION", 0) != REVISION:
        return False
    return tuple(extension.KINDS) == tuple(_TYPES)


#: The extension; None where numpy's way goes.
compiled: Any = load()


def in_use() -> str:
    """The kernels in use, for people: native or numpy, and why."""
    if compiled is not None:
        return "native"
    if os.environ.get(_VARIABLE) == "numpy":
        return f"numpy ({_VARIABLE}=numpy)"
    found = sys.modules.get("mta.kernels.compiled")
    if found is not None and not _fits(found):
        return "numpy (the compiled ones are of other sources: install the package again)"
    return "numpy (the compiled ones are not built)"


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Leave the compiled kernels alone for a while, to compare; not while others use windows."""
    global compiled
    before, compiled = compiled, None
    try:
        yield
    finally:
        compiled = before


class Kernel(NamedTuple):
    """Which loop a monoid takes, and how it lowers."""

    kind: str
    lost: float | None = None
    """Degrees of freedom that a deviation loses, else 0; None where C does not know the result."""

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, ufunc: np.ufunc, dtype: Any, lost: float | None = None) -> Kernel | None:
        """That of a single column and a ufunc; None where there is none."""
        kind = f"{_OF_UFUNCS.get(ufunc)}_{np.dtype(dtype).str[1:]}"
        return cls(kind, lost) if kind in _TYPES else None

    @property
    def number(self) -> int:
        """As C knows it."""
        return _NUMBERS[self.kind]


_NUMBERS = {kind: number for number, kind in enumerate(_TYPES)}


def scan(kernel: Kernel, rows: Rows, room: Rows, backwards: bool) -> bool:
    """``rows`` folded up to each, into ``room``, whose first row (or last) is there to begin with.

    False where numpy's way must go.
    """
    given, out = _rows(kernel, rows), _columns(kernel, room, writable=True)
    if given is None or out is None:
        return False
    done: bool = compiled.scan(kernel.number, given, out, backwards)
    return done


def join(kernel: Kernel, left: Rows, right: Rows) -> Rows | None:
    """Each row combined with another, or all with one on the right; None where numpy must do it."""
    lefts, rights = _columns(kernel, left), _columns(kernel, right)
    if lefts is None or rights is None or len(rights[0]) not in (1, len(lefts[0])):
        return None
    out = _new(lefts, len(lefts[0]))
    compiled.join(kernel.number, lefts, rights, out)
    return _like(left, out)


def ranges(kernel: Kernel, rows: Rows, starts: np.ndarray, lengths: np.ndarray) -> Rows | None:
    """The fold of each range of at most ``LONGEST`` rows."""
    given = _rows(kernel, rows)
    if given is None:
        return None
    out = _new(given, len(starts))
    compiled.ranges(kernel.number, given, _whole(starts), _whole(lengths), out)
    return _like(rows, out)


class Sweep(NamedTuple):
    """What *Two-Stacks* goes over: rows, and between which of them each result is."""

    rows: Rows
    stack: Rows
    """The folds from each position, ``stack_at`` being the first, to the middle."""
    stack_at: int
    middle: int
    first: int
    fronts: range | np.ndarray
    stops: range | np.ndarray
    """Behind the last row of each result; as fronts they never decrease."""
    right: Rows
    """The fold from the middle to the first row, as one row."""
    turns: bool = False
    """Positions are places in ``rows``, and where the front reaches the middle, the rows from it on
    become the stack; else no front may be beyond the middle."""


def sweep(kernel: Kernel, over: Sweep, out: Rows, lowered: bool) -> Sweep | None:
    """Two-Stacks: the fold of rows from each front to its stop, into ``out``.

    ``lowered``: results and not partials are wanted. Returns what goes on from the last stop: its
    ``right`` is the fold from the middle to there. None where numpy's way must go.
    """
    given, stack = _rows(kernel, over.rows), _columns(kernel, over.stack)
    aside = _columns(kernel, over.right)
    into = (out,) if lowered else _columns(kernel, out, writable=True)
    if given is None or stack is None or aside is None or into is None:
        return None
    aside = tuple([column.copy() for column in aside])
    size = max(map(len, given))
    if over.turns and len(stack[0]) <= size:  # a stack touches no more of it than it has entries
        known, stack = stack, _new(stack, size + 1)
        for column, few in zip(stack, known, strict=True):
            column[: len(few)] = few
    places = np.array([over.stack_at, over.middle])
    lost = -1.0 if not lowered or kernel.lost is None else kernel.lost
    done: bool = compiled.sweep(
        kernel.number, given, stack, places, over.first, _positions(over.fronts),
        _positions(over.stops), aside, over.turns, lost, into,
    )  # fmt: skip
    if not done:
        return None
    stack_at, middle = places.tolist()
    return over._replace(
        stack=_like(over.stack, stack), stack_at=stack_at, middle=middle,
        right=_like(over.right, aside),
    )  # fmt: skip


def ranks(
    times: np.ndarray, keys: np.ndarray, age: int = 0, room: np.ndarray | None = None
) -> range | np.ndarray:
    """As ``times.searchsorted(keys - age, side="right")``, for keys that never decrease.

    A range where a kernel finds that they grow by one. Also written to ``room``, if given.

    >>> ranks(np.array([0, 10, 20]), np.array([105, 110, 115]), age=100).tolist()
    [1, 2, 2]
    """
    found = np.empty(len(keys), np.int64) if room is None else room
    if compiled is None:
        found[:] = times.searchsorted(keys - age, side="right")
    elif compiled.ranks(_whole(times), _whole(keys), found, age) and len(keys):
        return range(int(found[0]), int(found[0]) + len(keys))
    return found


def first_later(
    times: np.ndarray, bounds: np.ndarray, segments: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """As ``segments.first_later``."""
    found = np.empty(len(asked), np.int64)
    compiled.first_later(*map(_whole, (times, bounds, segments, asked)), found)
    return found


def gathered(
    buffers: list[Any],
    column: np.ndarray,
    which: np.ndarray,
    firsts: np.ndarray,
    counts: np.ndarray,
    numbers: bool,
) -> np.ndarray:
    """As ``ranges.items_of``, or numbers of 8 bytes each, as ``ranges.numbers_of``; as bytes."""
    given = map(_whole, (column, which, firsts, counts))
    found: np.ndarray = compiled.gathered(buffers, *given, numbers, ROOM)
    return found


def match(
    buffers: list[Any],
    columns: np.ndarray,
    runs: np.ndarray,
    hashes: np.ndarray,
    bounds: np.ndarray,
    keys: np.ndarray,
) -> tuple[bool, np.ndarray] | None:
    """Where wanted keys are in each run, by their hashes and bytes, if these are as they should be.

    A row for each of them, and in it for each run ``page << 32 | place``, or -1. A run has the
    first page and the one after its last; both sides are in order of hashes. ``columns`` has those
    of hashes, of where keys begin, and of their bytes; wanted keys that are their hashes have no
    ``bounds``. Of no meaning where the first is False: then hashes are out of order, or another key
    has that of a wanted one.
    """
    if compiled is None:
        return None
    slots = np.full((len(hashes), len(runs)), -1)
    given = map(_whole, (columns, runs, hashes.view("<i8"), bounds))
    return compiled.match(buffers, *given, slots, np.ascontiguousarray(keys)), slots


# --- columns --------------------------------------------------------------------------------------


def _columns(kernel: Kernel, rows: Rows, writable: bool = False) -> tuple[np.ndarray, ...] | None:
    """Rows as contiguous columns of a kind; None where they are others, or nothing is compiled."""
    if compiled is None:
        return None
    columns = rows if type(rows) is tuple else (rows,)
    types = _TYPES[kernel.kind]
    if len(columns) != len(types):
        return None
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


def _rows(kernel: Kernel, rows: Rows) -> tuple[np.ndarray, ...] | None:
    """As ``_columns``; those that repeat one number beside others have it alone."""
    if type(rows) is tuple and any(column.flags.c_contiguous for column in rows):
        rows = tuple([c if c.flags.c_contiguous or c.strides[0] else c[:1] for c in rows])
    return _columns(kernel, rows)


def _new(columns: tuple[np.ndarray, ...], count: int) -> tuple[np.ndarray, ...]:
    return tuple([np.empty(count, column.dtype) for column in columns])


def _like(rows: Rows, columns: tuple[np.ndarray, ...]) -> Rows:
    return columns if type(rows) is tuple else columns[0]


def _whole(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers as C takes them."""
    return np.ascontiguousarray(numbers, np.int64)


def _positions(positions: range | np.ndarray) -> int | np.ndarray:
    return positions.start if isinstance(positions, range) else _whole(positions)
