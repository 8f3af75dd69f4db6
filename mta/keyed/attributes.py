"""Delta windows of many keys: their starts follow from the running maximum of a column.

    attribute   1  3  2  9  14      of one key
    top         1  3  3  9  14      its running maximum
    start       0  0  0  1  3       ``DeltaWindow(7)``: the first row whose top is less than 7 below

The maximum of a window is that of all events of its key, because only tops that are far below it
have left. So one search in the tops of a key finds each start, exactly, with the subtraction that a
single window uses. This holds even if the attribute falls, unless another frame can evict the
maximum: under ``|``, starts follow from tops only while the attribute never falls. Keys with other
attributes, and those with a NaN, are standalone (``unsteady``).
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import add
from typing import Any

import numpy as np

from mta.columns.schemas import NullableColumn, Rows
from mta.frames.base import Frame
from mta.frames.named import DeltaWindow
from mta.kernels.native import bounds_of
from mta.monoids.base import AbstractMonoid
from mta.monoids.parts import Pick
from mta.monoids.product import Observed

Deltas = list[tuple[DeltaWindow, bool]]


def deltas(frame: Frame) -> Deltas:
    """Return the delta windows in a frame, and whether other frames can evict their maximum."""

    def alone(frame: Frame) -> Deltas:
        return [(frame, False)] if isinstance(frame, DeltaWindow) else []

    def first_of(one: Deltas, other: Deltas) -> Deltas:
        return [(delta, True) for delta, _ in one + other]

    found: Deltas = frame.joined(alone, first_of, add)
    return found


def follows_columns(frame: Frame) -> bool:
    """Return whether starts of a frame follow from counts, times and delta windows' columns."""

    def follows(frame: Frame) -> bool:
        if type(frame) is DeltaWindow:
            return frame.is_searched and frame.kind.kind in "biuf"
        return frame.predictable

    return bool(frame.joined(follows, min, min))


class Attributes:
    """The columns that the delta windows among some frames read."""

    def __init__(
        self, monoid: AbstractMonoid, reader: AbstractMonoid, frames: Mapping[str, Frame]
    ) -> None:
        found = [each for frame in frames.values() for each in deltas(frame)]
        #: Delta windows and whether others can evict their maximum.
        self._deltas = found
        self._picks: dict[int, Pick] = {}
        #: Whether the stored columns of events are those that standalone windows read.
        self.readable = True
        if not found:
            return
        observed = Observed(monoid, [frame.observers[0][1:] for frame, _ in found])
        self.readable = repr(observed.inputs) == repr(reader.inputs)
        for (frame, _), pick in zip(found, observed.picks[1:], strict=True):
            self._picks[id(frame)] = pick

    @property
    def depend_on_past(self) -> bool:
        """Return whether starts of frames may follow from attributes that have left."""
        return any(joined for _, joined in self._deltas)

    def __bool__(self) -> bool:
        return bool(self._deltas)

    def column(self, frame: DeltaWindow, rows: Rows) -> np.ndarray:
        """Return the attribute of each row, as numbers whose differences are exact or doubles."""
        return _wide(self._picks[id(frame)](rows))

    def unsteady(self, rows: Rows, bounds: np.ndarray) -> np.ndarray:
        """Return which keys have attributes from whose tops the starts of frames do not follow."""
        found, count = np.zeros(len(bounds) - 1, bool), int(bounds[-1])
        for frame, joined in self._deltas:
            values = self.column(frame, rows)
            bad = values != values
            if joined and count:
                falls = np.zeros(count, bool)
                falls[1:] = values[1:] < values[:-1]
                falls[bounds[:-1][bounds[:-1] < count]] = False
                bad |= falls
            if bad.any():
                found |= np.diff(bounds_of(bad)[bounds]) > 0
        return found


def tops_of(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the maximum of each key's values up to each row.

    >>> tops_of(np.array([5.0, 7.0, 6.0, 1.0, 3.0, 2.0]), np.array([0, 3, 6])).tolist()
    [5.0, 7.0, 7.0, 1.0, 3.0, 3.0]
    """
    rising = np.ones(len(values), bool)
    rising[1:] = values[1:] >= values[:-1]
    rising[bounds[:-1][bounds[:-1] < len(values)]] = True
    if rising.all():
        return values
    # The ranks of values take the place of values: those of a key follow those of the key before.
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values))
    lift = np.repeat(np.arange(len(bounds) - 1) * len(values), np.diff(bounds))
    tops: np.ndarray = values[order[np.maximum.accumulate(ranks + lift) - lift]]
    return tops


def first_within(tops: np.ndarray, size: float, firsts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return, for each row, the first row from ``firsts`` on whose top is less than ``size`` below.

    log2(longest) steps, each for all rows.

    >>> tops = np.array([1.0, 3.0, 3.0, 9.0, 14.0])
    >>> first_within(tops, 7, np.zeros(5, np.int64), np.arange(5)).tolist()
    [0, 0, 0, 1, 3]
    """
    low, high, total = firsts.copy(), rows.copy(), tops[rows]
    whole = tops.dtype.kind in "iu"
    least: Any = -int(-size // 1) if whole else size  # differences of integers are integers
    if whole and least >= 1 << 64:
        return low
    while (open_ := low < high).any():
        middle = (low + high) >> 1
        older = tops[middle]
        distance = total.view("u8") - older.view("u8") if whole else total - older
        leaves = distance >= (np.uint64(least) if whole else least)
        low = np.where(open_ & leaves, middle + 1, low)
        high = np.where(open_ & ~leaves, middle, high)
    return low


def _wide(values: Any) -> np.ndarray:
    """Return a column of numbers as doubles, or as integers of 64 bits."""
    if isinstance(values, NullableColumn):
        nulls = values.nulls()
        column = np.asarray(values.values)
        return column if nulls is None else np.where(nulls, np.nan, column)
    column = np.asarray(values)
    if column.dtype.kind in "bi":
        return column.astype("i8", copy=False)
    return column.astype("u8" if column.dtype.kind == "u" else "f8", copy=False)
