"""Keys and their events as columns: the content of batches, pages and merges.

    keys      a       b     d
    marks     MORE    ALL   MORE        whether older tables have other events of the key
    left      0       3     0           how many earlier events of the key have left
    bounds    0       2     3     7
    times     1   5   4     1 2 3 4     microseconds; only if windows need times
    rows      the values of events, as the input columns of the monoid

Tables of different ages have different events of a key. To read a key, look it up in all tables and
concatenate its events, the oldest table first (``join``). A mark other than MORE hides everything
that older tables have of the key: ALL its events are in this table, the snapshot of its standalone
window is in this table (STANDALONE), or the key was EXPIRED.

The events of all keys are concatenated, key by key, and in order for each key: these are *lanes*.
The start of a window depends on positions and times alone (``CountWindow``, ``TimeWindow``,
``CalendarWindow``, ``SessionWindow``, and combinations with ``|`` and ``&``), or on a column
(``attributes``), so a few passes over whole columns find the start for every event of every key. No
range crosses from one lane into another, so the folds of all ranges are computed together.

Folds are computed in the cheapest of these ways:

- results of ranges, such as distinct counts and texts (``mta.monoids.ranges``);
- plain Python functions: all events in turn by Two-Stacks, in one loop over all keys;
- all events in turn, like one long sliding window (``SlidingFolds``);
- each range separately, in one pass, for few events of long lanes and numpy operations
  (``ufunc.reduceat``);
- otherwise, ranges composed of blocks of 1, 2, 4, ... events (``fold_ranges``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mta.columns.codec import pack
from mta.columns.schemas import Record, Rows, Schema
from mta.columns.texts import TextColumn, listed_text
from mta.errors import NotPageable
from mta.folds.blocks import fold_ranges
from mta.folds.sliding import Events, SlidingFolds, has_kernel, two_stacks
from mta.frames.base import Frame
from mta.frames.named import DeltaWindow, SessionWindow, session_starts
from mta.frames.windows import TimeFrame
from mta.kernels.native import bounds_of, first_later, rows_of, sort_within
from mta.keyed.attributes import first_within, follows_columns, tops_of
from mta.keyed.keys import Keys, merged, range_of
from mta.monoids.base import AbstractMonoid
from mta.monoids.columnar import ColumnarMonoid
from mta.monoids.nulls import Samples
from mta.monoids.parts import Parts, units_of
from mta.monoids.ranges import RangeFolds, RangeMonoid
from mta.monoids.summary import SummaryMonoid

MORE, ALL, STANDALONE, EXPIRED = range(4)
#: Before all times: represents the time of an event that does not exist.
NO_TIME = int(np.iinfo("i8").min)


@dataclass
class Table:
    """Keys in order, and the events of each in order of time or arrival."""

    schema: Schema
    keys: Keys
    marks: np.ndarray
    left: np.ndarray
    bounds: np.ndarray
    times: np.ndarray | None
    rows: Rows
    #: The snapshots of standalone keys, in the order of the keys.
    snapshots: list[bytes] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        schema: Schema,
        keys: Keys,
        bounds: np.ndarray,
        times: np.ndarray | None,
        rows: Rows,
        mark: int = MORE,
    ) -> Table:
        """Return a table of keys with events, none of which has left."""
        count = len(keys)
        marks = np.full(count, mark, "u1")
        return cls(schema, keys, marks, np.zeros(count, "<i8"), bounds, times, rows)

    @classmethod
    def bare(cls, schema: Schema, keys: Keys, timed: bool, mark: int) -> Table:
        """Return a table of keys without events."""
        times = np.zeros(0, "<i8") if timed else None
        bounds = np.zeros(len(keys) + 1, np.int64)
        return cls.of(schema, keys, bounds, times, schema.new(0), mark)

    @classmethod
    def entries(
        cls, schema: Schema, keys: Keys, left: np.ndarray, newest: np.ndarray | None,
        snapshots: list[bytes],
    ) -> Table:  # fmt: skip
        """Return the entries of standalone keys, with the times of their newest events."""
        found = cls.of(schema, keys, np.arange(len(keys) + 1), newest, schema.blank(len(keys)))
        found.marks[:], found.left, found.snapshots = STANDALONE, left, snapshots
        return found

    def __len__(self) -> int:
        return len(self.left)

    @cached_property
    def counts(self) -> np.ndarray:
        """Return the number of events of each key in this table."""
        counts: np.ndarray = self.bounds[1:] - self.bounds[:-1]
        return counts

    @cached_property
    def events(self) -> int:
        """Return the number of events in this table."""
        return int(self.bounds[-1])

    def events_between(self, start: int, stop: int) -> Events:
        """Return the events in some rows, as views."""
        return Events(self.rows, self.times, self.events).cut(self.schema, start, stop)

    @cached_property
    def weights(self) -> np.ndarray:
        """Return the approximate size of each key in bytes."""
        weights: np.ndarray = self.keys.bounds[1:] - self.keys.bounds[:-1] + 24
        if self.times is not None:
            weights += 8 * self.counts
        rows = _row_weights(self.schema, self.rows)
        if isinstance(rows, int):
            weights += rows * self.counts
        else:
            weights += np.diff(bounds_of(rows)[self.bounds])
        if self.snapshots:
            weights[self.standalone] += np.fromiter(map(len, self.snapshots), np.int64)
        return weights

    @cached_property
    def weight(self) -> int:
        """Return the approximate size of all keys in bytes."""
        return int(self.weights.sum())

    @cached_property
    def standalone(self) -> np.ndarray:
        """Return the places of keys with a standalone window, in the order of their snapshots."""
        return np.flatnonzero(self.marks == STANDALONE)

    @property
    def lanes(self) -> Lanes:
        """Return the events without their values."""
        return Lanes(self.bounds, self.times)

    def snapshot_of(self, place: int) -> bytes:
        """Return the snapshot of a key's standalone window."""
        return self.snapshots[int(self.standalone.searchsorted(place))]

    def newest(self) -> np.ndarray:
        """Return the time of each key's newest event here; ``NO_TIME`` without one."""
        found = np.full(len(self), NO_TIME)
        if self.times is not None:
            some = np.flatnonzero(self.counts)
            found[some] = self.times[self.bounds[some + 1] - 1]
        return found

    def take(self, places: np.ndarray) -> Table:
        """Return the entries of the keys at some places, which must increase."""
        marks, snapshots = self.marks[places], self.snapshots
        if snapshots:
            numbers = self.standalone.searchsorted(places[marks == STANDALONE])
            snapshots = [snapshots[at] for at in numbers.tolist()]
        starts, counts, left = self.bounds[places], self.counts[places], self.left[places]
        return self._of_ranges(self.keys.take(places), marks, snapshots, starts, counts, left)

    def among(self, keys: Keys) -> Table | None:
        """Return the entries of some keys; None if there are none."""
        places = self.keys.find(keys)
        places = places[places >= 0]
        if not len(places):
            return None
        places.sort()
        return self if len(places) == len(self) else self.take(places)

    def without(self, keys: Keys) -> Table:
        """Return the entries of all other keys."""
        places = self.keys.find(keys)
        gone = places[places >= 0]
        return self.take(np.delete(np.arange(len(self)), gone)) if len(gone) else self

    def cut(self, start: int, stop: int) -> Table:
        """Return the entries of the keys from ``start`` to ``stop``, as views."""
        first, last = self.bounds[start], self.bounds[stop]
        snapshots = self.snapshots
        if snapshots:
            begin, end = self.standalone.searchsorted([start, stop]).tolist()
            snapshots = snapshots[begin:end]
        return Table(
            self.schema,
            self.keys.cut(start, stop),
            self.marks[start:stop],
            self.left[start:stop],
            self.bounds[start : stop + 1] - first,
            None if self.times is None else self.times[first:last],
            self.schema.cut(self.rows, first, last),
            snapshots,
        )

    def between(self, low: int, high: int | None) -> Table:
        """Return the entries of keys with hashes from ``low`` on, and before ``high`` if given."""
        start, stop = range_of(self.keys.hashes, low, high)
        return self if (start, stop) == (0, len(self)) else self.cut(start, stop)

    def without_oldest(self, starts: np.ndarray) -> Table:
        """Return the table with each key's events from a row on; earlier events have left."""
        gone = starts - self.bounds[:-1]
        if not gone.any():
            return self
        counts, left = self.bounds[1:] - starts, self.left + gone
        return self._of_ranges(self.keys, self.marks, self.snapshots, starts, counts, left)

    def without_newest(self, counts: np.ndarray) -> Table:
        """Return the table without some of the newest events of each key."""
        starts, left = self.bounds[:-1], self.left
        return self._of_ranges(
            self.keys, self.marks, self.snapshots, starts, self.counts - counts, left
        )

    def _of_ranges(
        self, keys: Keys, marks: np.ndarray, snapshots: list[bytes],
        starts: np.ndarray, counts: np.ndarray, left: np.ndarray,
    ) -> Table:  # fmt: skip
        """Return a table of keys with the events in some ranges of this table."""
        which, times = np.zeros(len(starts), np.int64), None
        if self.times is not None:
            times = rows_of([self.times], which, starts, counts)
        rows = self.schema.ranges([self.rows], which, starts, counts)
        return Table(self.schema, keys, marks, left, bounds_of(counts), times, rows, snapshots)


def _row_weights(schema: Schema, rows: Rows) -> int | np.ndarray:
    """Return how many bytes each row takes, or one number if all are equal."""
    if schema.row_bytes is not None:
        return schema.row_bytes
    if isinstance(rows, TextColumn):
        return rows.sizes() + 6
    if isinstance(schema, Record):
        pairs = zip(schema.schemas, rows, strict=True)
        parts = [_row_weights(part, column) for part, column in pairs]
        return sum(parts[1:], start=parts[0])
    kinds = set(map(type, rows))
    if kinds <= _SMALL:
        return 9
    measure = len if kinds == {bytes} else _packed_bytes
    return np.fromiter(map(measure, rows), np.int64, len(rows)) + 5


_SMALL = frozenset({int, float, bool, type(None)})


def _packed_bytes(value: Any) -> int:
    """Return the size of a value in a page in bytes; 64 for a value that pages cannot store."""
    try:
        return len(pack([value]))
    except NotPageable:
        return 64


def take_or(column: np.ndarray, places: np.ndarray, default: int = 0) -> np.ndarray:
    """Return the items of a column at some places, and a default for each place -1."""
    if not len(column):
        return np.full(len(places), default, column.dtype)
    found: np.ndarray = column[places]
    found[places < 0] = default
    return found


def visible(
    marks: np.ndarray, numbers: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | slice]:
    """Return each key's mark, the entry with its snapshot if it is standalone, and visible entries.

    The entries are by key and age; ``numbers`` are their keys. A mark hides all older entries.
    """
    found, marked = np.zeros(count, "u1"), np.flatnonzero(marks)
    if not len(marked):
        return found, marked, slice(None)
    newest = np.full(count, -1)
    newest[numbers[marked]] = marked  # the last one wins
    found[newest >= 0] = marks[newest[newest >= 0]]
    return found, newest[found == STANDALONE], np.arange(len(numbers)) >= newest[numbers]


def join(tables: Sequence[Table], late: bool) -> Table:
    """Join tables, the oldest first, into one with all their keys.

    ``late`` says that events may be late: they are sorted by time, and ties keep their order. Costs
    about 100 ns per key and table, and 30 ns per event.
    """
    if len(tables) == 1:
        return tables[0]
    schema, timed = tables[0].schema, tables[0].times is not None
    keys, order, place = merged([table.keys for table in tables])
    marks = np.concatenate([table.marks for table in tables])
    snapshots = [snapshot for table in tables for snapshot in table.snapshots]
    found, held, shown = visible(marks[order], place, len(keys))
    if snapshots:
        numbers = np.cumsum(marks == STANDALONE) - 1
        snapshots = [snapshots[at] for at in numbers[order[held]].tolist()]
    order, place = order[shown], place[shown]
    left = np.concatenate([table.left for table in tables])[order]
    counts = np.concatenate([table.counts for table in tables])[order]
    starts = np.concatenate([table.bounds[:-1] for table in tables])[order]
    which = np.repeat(np.arange(len(tables)), [len(table) for table in tables])[order]
    of_key = np.bincount(place, counts, len(keys)).astype(np.int64)
    total = np.zeros(len(keys), "<i8")
    np.add.at(total, place, left)
    rows, times = schema.ranges([table.rows for table in tables], which, starts, counts), None
    if timed:
        columns = [table.times for table in tables if table.times is not None]
        times = rows_of(columns, which, starts, counts)
        if late:
            sorting = sort_within(times, np.repeat(np.arange(len(keys)), of_key))
            if sorting is not None:
                rows, times = schema.take(rows, sorting), times[sorting]
    return Table(schema, keys, found, total, bounds_of(of_key), times, rows, snapshots)


# --- windows of all keys together ---------------------------------------------------------------

#: Ranges are folded separately if they have at most this many rows in total per existing row.
_ONE_BY_ONE = 4
#: All rows are processed in turn if there are at most this many rows per range. With a compiled
#: kernel, no way is faster, so this is also done for longer ranges than ``_ONE_BY_ONE`` allows.
_IN_TURN = 2


def is_vectorized(monoid: AbstractMonoid, frames: Iterable[Frame], in_order: bool = False) -> bool:
    """Return whether windows with these frames are vectorized.

    If events come ``in_order``, frames may also depend on columns (``attributes``).
    """
    if not all(map(_answers_lanes, units_of(monoid))):
        return False
    return all(follows_columns(each) if in_order else each.predictable for each in frames)


def _answers_lanes(monoid: AbstractMonoid) -> bool:
    """Return whether folding the events of a key again with each batch costs little.

    Combining sketches costs much more than one event, so a window combines whole pages instead.
    """
    return isinstance(monoid, RangeMonoid) or not isinstance(monoid, SummaryMonoid)


@dataclass
class Lanes:
    """The events of many keys, concatenated; key i has rows ``bounds[i]`` to ``bounds[i + 1]``."""

    bounds: np.ndarray
    times: np.ndarray | None
    #: Returns the column that a delta window reads.
    attribute: Callable[[DeltaWindow], np.ndarray] | None = None
    #: The first row of the session of each row, by gap.
    sessions: dict[int, np.ndarray] = field(default_factory=dict)
    #: The running maximum of what a delta window reads, by its ``id``.
    tops: dict[int, np.ndarray] = field(default_factory=dict)

    def frame_at(
        self, frame: Frame, keys: np.ndarray, rows: np.ndarray, times: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row of frames as of ``times``, and the row after their last one.

        ``rows`` are the newest rows at these times, and ``keys``, which never decrease, are the
        keys of the frames. A frame without rows starts where it stops. One search per bound by
        time.
        """
        end, stops = frame.end, rows + 1
        starts = self.starts(frame, keys, rows, times)
        if end.delay:
            assert times is not None and self.times is not None
            found = first_later(self.times, self.bounds, keys, times - end.delay)
            stops = np.minimum(stops, found)
        elif end.rows:
            stops = np.maximum(stops - end.rows, self.bounds[keys])
        return np.minimum(starts, stops, out=starts), stops

    def starts(
        self, frame: Frame, keys: np.ndarray, rows: np.ndarray, times: np.ndarray | None,
        exact: bool = False,
    ) -> np.ndarray:  # fmt: skip
        """Return a new array of where frames start, at or after the first row of the key.

        If ``exact``, a frame that may contain earlier events starts before that row.
        """
        found: np.ndarray = frame.joined(
            lambda side: self._starts(side, keys, rows, times, exact), np.maximum, np.minimum
        )
        return found

    def _starts(
        self, frame: Frame, keys: np.ndarray, rows: np.ndarray, times: np.ndarray | None,
        exact: bool,
    ) -> np.ndarray:  # fmt: skip
        starts: np.ndarray | None = frame.start_by_count(rows + 1)
        if starts is not None:
            return starts if exact else np.maximum(starts, self.bounds[keys], out=starts)
        if isinstance(frame, DeltaWindow):
            return self._delta_at(frame, keys, rows)
        assert times is not None
        if isinstance(frame, SessionWindow):
            found = self._session_at(frame.gap, keys, rows, times)
        else:
            assert isinstance(frame, TimeFrame) and self.times is not None
            found = first_later(self.times, self.bounds, keys, frame.starts(times))
        return found - (found == self.bounds[keys]) if exact else found

    def _delta_at(self, frame: DeltaWindow, keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the first rows of delta windows that end with some rows."""
        assert self.attribute is not None
        firsts = self.bounds[keys]
        if id(frame) not in self.tops:
            self.tops[id(frame)] = tops_of(self.attribute(frame), self.bounds)
        tops = self.tops[id(frame)]
        last = np.minimum(np.maximum(rows, firsts), len(tops) - 1)
        return first_within(tops, frame.size, firsts, last) if len(tops) else firsts

    def _session_at(
        self, gap: int, keys: np.ndarray, rows: np.ndarray, times: np.ndarray
    ) -> np.ndarray:
        """Return the first row of sessions as of ``times``; after a row, if its session has ended.

        ``rows`` may be the first row after these times, or no row of the key.
        """
        assert self.times is not None
        if gap not in self.sessions:
            firsts = self.bounds[:-1][self.bounds[:-1] < self.bounds[1:]]
            self.sessions[gap] = session_starts(self.times, gap, firsts)
        if not len(self.times):
            return rows + 1
        newest = self.times[np.minimum(rows, len(self.times) - 1)]
        ahead = (rows >= self.bounds[keys + 1]) | ((newest > times) & (rows >= self.bounds[keys]))
        if ahead.any():
            rows = rows - ahead
            newest = self.times[rows]
        has_ended = (rows < self.bounds[keys]) | (times - newest >= gap)
        return np.where(has_ended, rows + 1, self.sessions[gap][rows])


def folds(
    monoid: AbstractMonoid, lifted: Rows, count: int, starts: np.ndarray, stops: np.ndarray
) -> Rows:
    """Return the fold of each range of rows, none of which is empty; bounds never decrease.

    Costs at most about 2 log2(longest) combines per row, fewer if many ranges are requested.
    """
    return _folds(monoid, lifted, count, Ranges(starts, stops))


@dataclass
class Ranges:
    """Ranges of rows, which all parts of a monoid share."""

    starts: np.ndarray
    stops: np.ndarray
    samples: dict[int, np.ndarray] = field(default_factory=dict)
    """The number of values in each range, by the identity of the column that marks values."""

    @cached_property
    def lengths(self) -> np.ndarray:
        """Return the number of rows in each range."""
        lengths: np.ndarray = self.stops - self.starts
        return lengths

    @cached_property
    def rows(self) -> int:
        """Return the number of rows in all ranges."""
        return int(self.lengths.sum())

    @cached_property
    def ends(self) -> np.ndarray:
        """Return the start and the stop of each range, in turn."""
        return np.stack((self.starts, self.stops), axis=1).reshape(-1)

    @cached_property
    def once(self) -> bool:
        """Return whether no two ranges end at the same row."""
        return bool((self.stops[1:] > self.stops[:-1]).all())

    @cached_property
    def in_turn(self) -> bool:
        """Return whether each range ends one row after the previous range."""
        return self.once and bool(self.stops[-1] - self.stops[0] == len(self.stops) - 1)


def _folds(monoid: AbstractMonoid, lifted: Rows, count: int, ranges: Ranges) -> Rows:
    starts, stops = ranges.starts, ranges.stops
    if isinstance(monoid, Parts):
        parts = zip(monoid.monoids, lifted, strict=True)
        return tuple([_folds(part, column, count, ranges) for part, column in parts])
    if isinstance(monoid, Samples):
        if id(lifted) not in ranges.samples:
            ranges.samples[id(lifted)] = _samples(lifted, ranges)
        return ranges.samples[id(lifted)]
    if isinstance(monoid, RangeMonoid):
        return RangeFolds(monoid, lifted, starts, stops)
    if not monoid.is_columnar:
        return two_stacks(monoid, listed_text(lifted), starts, stops)
    if len(stops) * _IN_TURN >= count:
        in_order = True
    else:
        in_order = ranges.rows > _ONE_BY_ONE * count and has_kernel(monoid)
    if in_order:
        ends = range(1, count + 1) if len(stops) == count and ranges.in_turn else stops
        return SlidingFolds(monoid, lifted, count).between(starts, ends)
    dense = ranges.rows > _ONE_BY_ONE * count
    if not dense and isinstance(monoid, ColumnarMonoid) and monoid.ufuncs and ranges.once:
        return _reduced(monoid, lifted, ranges.ends, count)
    return fold_ranges(monoid, lifted, count, starts, ranges.lengths)


def _samples(marks: np.ndarray, ranges: Ranges) -> np.ndarray:
    """Return the number of values in each range: its rows, or a difference of running sums."""
    starts, stops = ranges.starts, ranges.stops
    if marks.all():
        return ranges.lengths
    before = bounds_of(marks)
    last = before[stops[0] : stops[0] + len(stops)] if ranges.in_turn else before.take(stops)
    found: np.ndarray = last - before.take(starts)
    return found


def _reduced(monoid: AbstractMonoid, lifted: Rows, ends: np.ndarray, count: int) -> Rows:
    """Return the folds of ranges, each as two ends; the folds between ranges are discarded."""
    assert isinstance(monoid, ColumnarMonoid) and monoid.ufuncs
    last = len(ends) - 1 if ends[-1] == count else len(ends)  # no index may be after the last row
    if isinstance(lifted, tuple):
        columns: list[Any] = [
            ufunc.reduceat(column, ends[:last])[::2]
            for ufunc, column in zip(monoid.ufuncs, lifted, strict=True)
        ]
        return tuple(columns)
    return monoid.ufuncs[0].reduceat(lifted, ends[:last])[::2]
