"""Events in levels by position: leaves, folds of ranges, and times, whatever the front is.

Where Amortized MTA keeps the one path to its front, a ``LeafReader`` finds any leaf from the tails
down, and keeps what it has read for whoever comes next:

- *recent* leaves, those sealed last, so that a window of a few leaves reads no page at all;
- *fetched* ones, read back for a front or a range, and the inner groups above them;
- while a batch is under way its last *chunks* (``logs.leaves``), with what was computed of them.

The first two are bounded in bytes, whatever the arity. A range is whole elements in the middle and,
at either end, one element a level to go down into:

    level 1      [ a b c d e ]            fold(3, 18), pairs of leaves of 4:
    level 0   [0 1 2 3] ... [16 17 18 19]       {3} + b c d + {16 17}

``LevelLog`` are level queues without a front of their own, for windows that share them: nothing
is aggregated beyond what is sealed, since every window has a cursor (``cursors``) which reads here.
Eviction only moves the position before which pages may be deleted: no read, no combine.

In a snapshot, beside the common fields:

    state    = [swept, kept, tails], each as in ``pages``
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.folds.sliding import Events
from mta.frames.base import AbstractPolicy, View
from mta.logs.base import PathGroup, Setting
from mta.logs.leaves import Chunk, Leaf
from mta.logs.levels.pages import LevelPages
from mta.logs.levels.queues import BEFORE_ALL
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.product import Columns
from mta.pages.page import OBJECT_BYTES, Group
from mta.pages.snapshot import Snapshot, corrupt

_RECENT_BYTES, _FETCHED_BYTES, _INNER_GROUPS = 2 << 20, 1 << 20, 16
_READ_AHEAD = 8
#: So many chunks stay in memory while a batch is under way.
_CHUNKS = 2

Observers = tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]


class KeepAll(AbstractPolicy):
    """Evicts nothing by itself. It stands for the policies of all windows over the events."""

    positional = True

    def __init__(self, timed: bool, observers: Observers = ()) -> None:
        self.needs_times, self._observers = timed, observers

    @property
    def observers(self) -> Observers:
        return self._observers

    def cut(self, view: View, time: int | None) -> int:
        return 0

    def describe(self) -> str:
        return "KeepAll()"


class LeafReader:
    """The events of level queues in order (``ordered.OrderedEvents``), from the front on."""

    #: Events never change positions here.
    stamp, by_time = 0, False

    def __init__(self, pages: LevelPages) -> None:
        self._pages, self.levels, self.monoid = pages, pages.levels, pages.monoid
        weight = self.monoid.inputs.row_bytes
        row = (OBJECT_BYTES if weight is None else weight) + 8 * self.levels.timed
        leaf = max(row, 1) * self.levels.leaf_arity
        self._most_recent = max(2, _RECENT_BYTES // leaf)
        self._most_fetched = max(4, _FETCHED_BYTES // leaf)
        self._recent: OrderedDict[int, Leaf] = OrderedDict()
        self._fetched: OrderedDict[int, Leaf] = OrderedDict()
        self._inner: OrderedDict[tuple[int, int], Group] = OrderedDict()
        self._open: Leaf | None = None
        #: Chunks of the batch under way that have been stored, the newest first.
        self._chunks: list[Chunk] = []

    @property
    def kept_from(self) -> int:
        """The position of the oldest event that is kept."""
        return self._pages.front

    @property
    def back(self) -> int:
        """The position after the newest event."""
        return self.levels.back

    # --- leaves and inner groups ----------------------------------------------------------------

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """The chunk that holds a position, if it is in memory, else the leaf group.

        Each by itself; at most one page read a level.
        """
        for chunk in self._chunks:
            if chunk.first <= position < chunk.stop:
                return chunk
        return self._leaf(position // self.levels.leaf_arity)

    def group_at(self, level: int, number: int) -> Leaf | Group:
        """A group of any level; at most one page read per level."""
        return self._group(level, number) if level else self._leaf(number)

    def _leaf(self, number: int) -> Leaf:
        """A leaf group; at most one page read a level."""
        levels = self.levels
        tail = levels.tails[0]
        if number == tail.number:
            leaf = self._open
            if leaf is None or (leaf.first, leaf.count) != (tail.first, tail.count):
                rows = self.monoid.inputs.cut(tail.rows, 0, tail.count)
                times = None if tail.times is None else tail.times[: tail.count]
                leaf = self._open = Leaf(tail.first, rows, times, tail.count)
            return leaf
        leaf = self._recent.get(number)
        if leaf is not None:
            return leaf
        leaf = self._fetched.get(number)
        if leaf is not None:
            self._fetched.move_to_end(number)
            return leaf
        above, index = divmod(number, levels.arity)
        parent = self._group(1, above)
        self._read_ahead(number, parent.names[index + 1 : index + _READ_AHEAD])
        group = levels.pager.read(0, number, parent.names[index])
        self._follow_ahead(number)
        leaf = Leaf(number * levels.leaf_arity, group.rows, group.times, group.count)
        self._fetched[number] = leaf
        if len(self._fetched) > self._most_fetched:
            self._fetched.popitem(last=False)
        return leaf

    def store(self, new: Events, front: int) -> None:
        """Have events in the log, of which those before a front are not needed any more.

        One store call for each ``TOGETHER`` pages of a level. When that fails, nothing has changed.
        """
        levels = self.levels
        if levels.fits(new.size):
            levels.append_many(*new)
            return
        self._pages.discard()
        unneeded = front if self._pages.discards else 0
        self.have_read(levels.extend(*new, unneeded=unneeded), front)
        self._open = None

    def have_read(self, groups: Mapping[tuple[int, int], Group], position: int) -> None:
        """Have groups in memory that were just written, those on the path to a position."""
        levels = self.levels
        for (level, number), group in groups.items():
            if number * levels.span(level + 1) <= position < (number + 1) * levels.span(level + 1):
                if level:
                    self._inner[level, number] = group
                else:
                    first = number * levels.leaf_arity
                    self._fetched[number] = Leaf(first, group.rows, group.times, group.count)

    def release_fetched(self, most: int) -> None:
        """Keep no more leaf groups in memory that were read than so many."""
        while len(self._fetched) > most:
            self._fetched.popitem(last=False)

    def _read_ahead(self, number: int, following: list[bytes]) -> None:
        """A leaf group is about to be read; the names are those of the groups that follow it."""

    def _follow_ahead(self, number: int) -> None:
        """A leaf group was read."""

    def _group(self, level: int, number: int) -> Group:
        """A group above the leaves."""
        tail = self.levels.tails[level]
        if tail.number == number:
            return tail
        group = self._inner.get((level, number))
        if group is None:
            above, index = divmod(number, self.levels.arity)
            name = self._group(level + 1, above).names[index]
            group = self._inner[level, number] = self.levels.pager.read(level, number, name)
            if len(self._inner) > _INNER_GROUPS + 2 * len(self.levels.tails):
                self._inner.popitem(last=False)
        else:
            self._inner.move_to_end((level, number))
        return group

    # --- ranges -----------------------------------------------------------------------------------

    def fold(self, start: int, stop: int) -> Partial:
        """The aggregate of a range of positions, the identity if it is empty.

        At most 2 * arity combines and two page reads per level.
        """
        return self.levels.fold_range(start, stop, self._within)

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        """The groups above a leaf group that begins at a position, from the root down.

        At most a page read per level.
        """
        levels, groups = self.levels, list[PathGroup]()
        if position % levels.leaf_arity:
            return groups
        level = levels.top(position) if below is None else below - 1
        while level > 0:
            span = levels.span(level)
            index, inside = divmod(position, span)
            number, start = divmod(index, levels.arity)
            group = self._group(level, number)
            start += inside > 0
            first, count = (number * levels.arity + start) * span, group.count - start
            starts = range(first, first + count * span + 1, span)
            rows = levels.partials(level, group, start, group.count)
            groups.append(PathGroup(level, starts, rows, count))
            if not inside:
                break
            level -= 1
        return groups

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        return np.array([position]), self.monoid.partials.one(self.fold(position, back))

    def _within(self, level: int, number: int, start: int, stop: int) -> Partial:
        """The aggregate of some elements of a group."""
        tail = self.levels.tails[level]
        if number == tail.number and not start and stop == tail.count:
            return self.levels.fold_tail(tail)
        if level:
            return self.levels.fold(level, self._group(level, number), start, stop)
        leaf = self._leaf(number)
        rows = leaf.partials(leaf.first + start, leaf.first + stop, self.monoid)
        return self.monoid.fold(rows, stop - start)

    # --- times ------------------------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than a time; at most one page read a level."""
        levels = self.levels
        for tail in reversed(levels.tails):
            assert tail.times is not None
            # A level may have elements before the front alone.
            is_live = tail.count and levels.end(tail.level) > self.kept_from
            if is_live and tail.times[tail.count - 1] > time:
                return max(self.kept_from, self._first_within(tail.level, tail.number, time))
        return self.back

    def _first_within(self, level: int, number: int, time: int) -> int:
        levels = self.levels
        while level:
            times, span = self._group(level, number).times, levels.span(level)
            assert times is not None
            count = levels.tails[level].count if number == levels.tails[level].number else None
            # Elements before the front may be of pages that are gone.
            start = max(self.kept_from // span - number * levels.arity, 0)
            inside = int(times[start:count].searchsorted(time, side="right"))
            number, level = number * levels.arity + start + inside, level - 1
        leaf = self._leaf(number)
        assert leaf.times is not None
        start = max(self.kept_from - leaf.first, 0)
        return leaf.first + start + int(leaf.times[start:].searchsorted(time, side="right"))

    def time_before(self, position: int) -> int | None:
        """The time of the event just before a position, though its page may be gone.

        None where nothing is known of it any more. At most one page read a level.
        """
        levels = self.levels
        if position == 0:
            return None
        if position % levels.leaf_arity or position > levels.tails[0].first:
            leaf = self._leaf((position - 1) // levels.leaf_arity)
            assert leaf.times is not None
            return int(leaf.times[position - 1 - leaf.first])
        for tail in levels.tails[1:]:
            span = levels.span(tail.level)  # the position is a multiple of it, or we have returned
            number, index = divmod(position // span - 1, levels.arity)
            if number == tail.number or (number + 1) * levels.arity * span > position:
                times = self._group(tail.level, number).times
                assert times is not None
                return None if times[index] == BEFORE_ALL else int(times[index])
        return None


class LevelLog(LevelPages, LeafReader):
    """Events in levels, read by position. Inserting takes amortized 1 combine per event."""

    name = "Level log"

    def __init__(self, setting: Setting) -> None:
        LevelPages.__init__(self, setting)
        LeafReader.__init__(self, self)

    # --- events in and out ----------------------------------------------------------------------

    def insert(self, row: Row, time: int | None = None) -> None:
        self.room()
        self.levels.append(row, time)

    @property
    def spare(self) -> int:
        """How many events may come without a store call."""
        leaf = self.levels.tails[0]
        return leaf.capacity - leaf.count if leaf.is_loaded else 0

    def take_in(self, new: Events) -> None:
        """Have the events that came by themselves, no more than there was room for."""
        self.levels.append_many(*new)

    def take_back(self) -> None:
        self.levels.take_back()
        self._open = None  # another event may come in its place

    def have_read(self, groups: Mapping[tuple[int, int], Group], position: int) -> None:
        super().have_read(groups, position)
        for (level, number), group in groups.items():
            if not level and number != position // self.levels.leaf_arity:
                first = number * self.levels.leaf_arity
                self._note_recent(number, Leaf(first, group.rows, group.times, group.count))

    def _note_recent(self, number: int, leaf: Leaf) -> None:
        self._recent[number] = leaf
        if len(self._recent) > self._most_recent:
            self._recent.popitem(last=False)

    def _seal(self) -> None:
        """As in the base class; a leaf that has just been sealed stays in memory for a while."""
        tail = self.levels.tails[0]
        self.levels.seal()
        self._note_recent(tail.number, Leaf(tail.first, tail.rows, tail.times, tail.count))

    def _evict_before(self, position: int) -> None:
        self.front = position

    def chunk_with(
        self, rows: Rows, times: np.ndarray | None, count: int
    ) -> tuple[Chunk, np.ndarray | None]:
        """New events as a chunk; None, as all in it are new."""
        return Chunk(self.monoid, self.back, rows, times, count), None

    def keep(self, chunk: Chunk) -> None:
        """Have a chunk in memory that was just stored, for windows that come to it in time."""
        self._chunks = [chunk, *self._chunks[: _CHUNKS - 1]]

    def release(self) -> None:
        """Release the chunks of a batch, at its end."""
        self._chunks = []

    def needed_from(self, window: Any, front: int) -> int:
        """From where on events of a window with a front are needed."""
        del window
        return front

    # --- reading --------------------------------------------------------------------------------

    def _read_ahead(self, number: int, following: list[bytes]) -> None:
        if number - 1 not in self._fetched or number % (_READ_AHEAD // 2) == 0:
            places = [(0, number + 1 + i, name) for i, name in enumerate(following)]
            self.levels.pager.prefetch(places)

    def remembered(self) -> LevelLog:
        return self

    def oldest_time(self) -> int | None:
        if self.front == self.back:
            return None
        leaf = self.leaf(self.front)
        assert leaf.times is not None
        return int(leaf.times[self.front - leaf.first])

    # --- snapshots --------------------------------------------------------------------------------

    def write_state(self) -> list[Any]:
        return [self.levels.swept, self.kept, self.tail_states()]

    def restore_state(self, snapshot: Snapshot) -> None:
        if list(map(type, snapshot.state)) != [int, list, list]:
            raise corrupt("its state is not one of shared level queues")
        self.restore_tails(snapshot, snapshot.front, *snapshot.state)

    @property
    def resident_rows(self) -> int:
        return sum(tail.count for tail in self.levels.tails)

    def check(self) -> None:
        self.check_levels()
