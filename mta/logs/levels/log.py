"""Events in levels, by position: pages and snapshots, leaves, folds of ranges, and times.

``LevelPages`` stores the events of level queues in pages, which the tails name, for any
aggregation. Amortized MTA keeps only the path to its front. A ``LeafReader`` finds any leaf by
descending from the tails, and caches:

- *recent* leaves, which were sealed last, so that a window of a few leaves reads no pages;
- *fetched* leaves, which were read for a front or a range, and the inner groups above them;
- the last *chunks* of the current batch (``logs.base``), with the values computed from them.

The size of the first two is limited in bytes, independent of the arity. A range consists of whole
elements in the middle and, at each end, of at most one partly covered group per level, which is
read:

    level 1      [ a b c d e ]            fold(3, 18), pairs of leaves of 4:
    level 0   [0 1 2 3] ... [16 17 18 19]       {3} + b c d + {16 17}

A ``LevelLog`` has level queues without a front, for windows that share them. It aggregates only
sealed groups, because each window reads from the log through a cursor (``evaluators.cursor``). An
eviction only moves the position before which pages may be deleted. It reads and combines nothing.

In a snapshot, after the common fields (other structures over level queues add fields in between):

    state    = [swept, kept, tails]
    swept    = position before which pages have been deleted
    kept     = fronts of the earlier snapshots that may still be restored
    tails    = from level 0 up, [group, count, columns], columns as in a page; the tail of the
               leaves also has ``parts`` and ``retired`` if either is not empty, and its columns
               leave out the events in ``parts`` (see ``mta.pages``)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.folds.sliding import Events
from mta.frames.base import Frame, View
from mta.logs.base import Chunk, EventLog, Leaf, PathGroup, Setting, Undo, join_leaves
from mta.logs.levels.queues import BEFORE_ALL, Levels, RestoredTail
from mta.logs.ranges import leaves_from
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.product import Columns
from mta.pages import (
    MAX_LEVELS,
    OBJECT_BYTES,
    Group,
    LeafParts,
    Named,
    Numbered,
    Part,
    Place,
    RetiredPages,
    corrupt,
)
from mta.snapshots import Snapshot
from mta.times import are_in_order
from stores.lru import LRU

#: After how many evicted leaf groups their pages are deleted, if no snapshot needs them.
_SWEEP_GROUPS = 32

#: An open group in a snapshot: group, count, columns, and parts and retired pages, if any.
TailState = list[Any]
_RECENT_BYTES, _FETCHED_BYTES, _INNER_GROUPS = 2 << 20, 1 << 20, 16
_READ_AHEAD = 8
#: How many chunks stay in memory during a batch.
_CHUNKS = 2

Observers = tuple[tuple[Frame, Columns, AbstractMonoid], ...]


class KeepAll(Frame):
    """A frame that evicts nothing. It replaces the frames of windows that share the events."""

    positional = True

    def __init__(self, timed: bool, observers: Observers = ()) -> None:
        self.needs_times, self._observers = timed, observers

    def __repr__(self) -> str:
        return "a set of windows with times" if self.needs_times else "a set of windows"

    @property
    def observers(self) -> Observers:
        return self._observers

    def cut(self, view: View, time: int | None) -> int:
        return 0

    def describe(self) -> str:
        return "KeepAll()"


class LevelPages(EventLog):
    """The events of level queues, in pages that the tails name."""

    #: False if events in the open leaf group change, or if restoring a snapshot needs them.
    has_parts = True
    back = 0

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.levels = levels = Levels(setting)
        self.layouts = levels.layouts
        self.retired = RetiredPages(levels.pager)
        most = levels.spans[1] if self.has_parts else 0
        self.parts = LeafParts(levels.pager, levels.layouts[0], most, self.retired)
        self.front = 0
        #: Fronts of the last snapshots, which stay restorable until the next snapshot is saved.
        self.kept: list[int] = []
        #: Whether the pages of evicted events are deleted periodically, as no snapshot needs them.
        self.discards = True

    # --- insertion ------------------------------------------------------------------------------

    def room(self) -> int:
        """Return how many events fit in the leaf tail. Seals a full one in one store call."""
        levels = self.levels
        leaf = levels.tails[0]
        if leaf.count == leaf.capacity:
            self.discard()
            self._seal()
            leaf = levels.tails[0]
        return leaf.capacity - leaf.count

    @property
    def spare(self) -> int:
        """How many events can be added without a store call."""
        leaf = self.levels.tails[0]
        return leaf.capacity - leaf.count if leaf.is_loaded else 0

    def discard(self) -> None:
        """Delete the pages of evicted events, if there are many and no snapshot needs them."""
        levels = self.levels
        if self.discards and self.front - levels.swept >= _SWEEP_GROUPS * levels.spans[1]:
            levels.sweep(self.front)

    @abstractmethod
    def _seal(self) -> None:
        """Seal the full tails, including the leaf tail. If the store fails, nothing changes."""

    def insert(self, row: Row, time: int | None = None) -> Undo:
        """Add one event; 1 combine amortized for sealing."""
        self.room()
        self.monoid.lift(row)  # must fail before the event is added
        self.levels.append(row, time)
        self.back += 1
        return self.take_back

    def take_back(self) -> None:
        """Undo the last ``insert``, if nothing else has happened since."""
        longer = self.levels.tails[0]
        self.levels.take_back()
        self.back -= 1
        self.parts.replace(longer, self.levels.tails[0])

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events without results. The leaf tail must have room for them."""
        self.levels.append_many(rows, times, count)
        self.back += count

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        stop = min(stop, start + self.room())
        coming = None if times is None else times[start:stop]
        self.append(self.monoid.inputs.cut(rows, start, stop), coming, stop - start)
        return stop - start

    def take_in(self, new: Events) -> int | None:
        self.append(*new)
        return None  # no event was late

    def leaves(self) -> Iterator[Leaf]:
        reader = LeafReader(self)  # leaves the groups that this log has cached
        return leaves_from(reader, self.front, self.monoid.inputs, self.back)

    # --- snapshots --------------------------------------------------------------------------------

    def prepare(self) -> None:
        leaf = self.levels.tails[0]
        self.parts.write(leaf, repeat(leaf.number))
        self.retired.delete(len(self.kept))
        self.levels.sweep(self.kept[0] if self.kept else self.front)

    def retain_snapshot(self, retain: int) -> None:
        self.kept = [*self.kept, self.front][-retain:]
        self.retired.retain_snapshot()
        self.discards = False

    def delete_pages(self) -> None:
        self.parts.retire_all()
        self.retired.delete(0)
        self.levels.sweep(self.back)

    @property
    def height(self) -> int:
        return len(self.levels.tails)

    @property
    def page_count(self) -> int:
        """The number of pages that a snapshot names, including those of earlier snapshots."""
        swept, span, count = self.levels.swept, 1, 0
        for tail in self.levels.tails:
            span *= tail.capacity
            count += max(0, tail.number - swept // span)
        return count + len(self.parts) + len(self.retired)

    def tail_states(self) -> list[TailState]:
        """Return the tails in the format of a snapshot."""
        leaf, *above = self.levels.tails
        states: list[TailState] = [[leaf.number, leaf.count, leaf.columns(self.parts.held(leaf))]]
        parts, retired = self.parts.state(leaf), self.retired.state()
        if parts or any(retired):
            states[0] += [parts, retired]
        return states + [[tail.number, tail.count, tail.columns()] for tail in above]

    def restore_tails(
        self, snapshot: Snapshot, swept: int, kept: list[int], tails: list[TailState]
    ) -> None:
        """Set the levels and positions from a snapshot.

        Raises CorruptSnapshot unless the tails are connected and end at the back, and the positions
        are in order.
        """
        check_tails(snapshot, swept, tails)
        fronts = [swept, *kept, snapshot.front]
        if {type(number) for number in kept} - {int}:
            raise corrupt("its positions have the wrong types")
        if not 0 <= swept <= snapshot.front <= snapshot.back:
            raise corrupt("its positions are out of order")
        if fronts != sorted(fronts):
            raise corrupt("the positions to keep are out of order")
        levels = self.levels
        levels.swept, self.back = swept, snapshot.back
        (number, count, columns, *saved), *above = tails
        parts, retired = saved or ([], [[]])
        start, gone = self.parts.restore(parts, number + 1)
        if start > count or gone:
            raise corrupt("it has more parts than its open leaf group has events")
        self.retired.restore(retired, len(kept))
        if any(level > MAX_LEVELS for level, *_ in self.retired):
            raise corrupt("its retired pages are not those of level queues")
        if self.has_parts and any(level or group >= number for level, group, *_ in self.retired):
            raise corrupt("its retired parts belong to no sealed leaf group")
        leaf = RestoredTail(levels, 0, number, count, columns, self.parts.read, start)
        self.parts.belong(leaf, 0)
        restored = (RestoredTail(levels, level, *tail) for level, tail in enumerate(above, 1))
        levels.tails = [leaf, *restored]
        self.front, self.kept = snapshot.front, kept

    # --- verifying ------------------------------------------------------------------------------

    def check_levels(self) -> None:
        """Assert the invariants of the levels and the parts, reading every page."""
        self.levels.check(self.front, self.back)
        self.parts.check(self.levels.tails[0])

    def pages(self) -> Iterator[Named]:
        leaf, levels = self.levels.tails[0], self.levels
        yield from self.parts.pages(leaf, leaf.first)
        for level, number, name, _ in self.retired:
            span = levels.spans[level + 1]
            yield Named(level, number, name, None, None, number * span, (number + 1) * span, False)
        for tail in reversed(self.levels.tails[1:]):
            yield from self._named(tail.level, tail.first, tail)

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        if named.fold is not None and named.level:  # other pages name the pages below a retired one
            yield from self._named(named.level, named.number * self.levels.arity, group)

    def _named(self, level: int, first: int, group: Group) -> Iterator[Named]:
        """Yield the pages that the elements of a group name, from ``swept`` on."""
        levels = self.levels
        span, at = levels.spans[level], self.monoid.partials.at
        for index in range(max(levels.swept // span - first, 0), group.count):
            last = None if group.times is None else int(group.times[index])
            number, fold = first + index, at(group.rows, index)
            begin, end, name = number * span, (number + 1) * span, group.names[index]
            yield Named(level - 1, number, name, fold, last, begin, end, end > self.front)

    def read(self, named: Named) -> Group:
        return self.levels.pager.read_again(named.level, named.number, named.name)

    def difference(self, named: Named, group: Group) -> str | None:
        if named.fold is None and not isinstance(named, Part):
            return None  # a retired page
        times = group.times
        if times is not None and not are_in_order(times[self.ordered_from(named) :]):
            return "its times decrease"
        if isinstance(named, Part):
            return self.parts.difference(group)
        arity = self.levels.arities[named.level > 0]
        if group.count != arity:
            return f"it has {group.count} elements instead of {arity}"
        if times is not None and int(times[-1]) != named.last_time:
            return f"its last time is {times[-1]}, but its parent says {named.last_time}"
        if not named.needed:
            return None  # its element may have become neutral
        try:
            agrees = self.levels.refold(named.level, group).agrees(named.fold)
        except Exception as error:  # a user's combine may raise anything for unexpected values
            return f"its elements cannot be folded ({type(error).__name__}: {error})"
        return None if agrees else "its fold is not the aggregate that its parent has"

    def is_past(self, level: int, number: int) -> bool:
        tails = self.levels.tails
        return level < len(tails) and number < tails[level].number

    def ordered_from(self, named: Named) -> int:
        """Return the index in a page from which on times must not decrease."""
        return 0


def check_tails(snapshot: Snapshot, swept: int, tails: list[TailState]) -> None:
    """Raise CorruptSnapshot unless the tails are connected and end at the back."""
    if not 0 < len(tails) <= MAX_LEVELS or any(
        len(tail) != 3 and (level or len(tail) != 5) for level, tail in enumerate(tails)
    ):
        raise corrupt("its tails do not form a window")
    span, begin = 1, snapshot.back
    for level, (number, count, columns, *_) in enumerate(tails):
        if type(number) is not int or type(count) is not int or type(columns) is not list:
            raise corrupt(f"the tail of level {level} has the wrong types")
        arity = snapshot.sizes[level > 0]
        end = (number * arity + count) * span
        if number < 0 or not (level > 0) <= count <= arity:
            raise corrupt(f"the tail of level {level} is invalid")
        if begin != end:
            raise corrupt(f"the tail of level {level} does not end where level {level - 1} begins")
        begin = number * arity * span
        span *= arity
    if begin > swept:
        raise corrupt("its highest level does not begin where its pages do")


class LeafReader:
    """The events of level queues in order (``base.OrderedEvents``), from the front."""

    #: Events never change positions here.
    stamp, by_time, looks_back = 0, False, False
    #: Whether sealed leaf groups stay in memory for a while.
    keeps_recent = False

    def __init__(self, pages: LevelPages) -> None:
        self._pages, self.levels, self.monoid = pages, pages.levels, pages.monoid
        weight = self.monoid.inputs.row_bytes
        row = (OBJECT_BYTES if weight is None else weight) + 8 * self.levels.timed
        leaf = max(row, 1) * self.levels.spans[1]
        #: Leaf groups that were sealed or read, and inner groups that were read.
        self._recent, self._most_recent = dict[int, Leaf](), max(2, _RECENT_BYTES // leaf)
        self._fetched = LRU[int, Leaf].of(max(4, _FETCHED_BYTES // leaf))
        self._inner = LRU[tuple[int, int], Group].of(_INNER_GROUPS)
        #: The stored chunks of the current batch, the newest first.
        self._chunks: list[Chunk] = []

    @property
    def kept_from(self) -> int:
        return self._pages.front

    @property
    def back(self) -> int:
        return self._pages.back

    @property
    def open_from(self) -> int:
        return self.levels.tails[0].first

    def settled(self, front: int, end: int) -> int:
        """Return the end, because events arrive in order here."""
        return end

    # --- leaves and inner groups ----------------------------------------------------------------

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        """Return the chunk at a position, if in memory, or else leaf groups."""
        for chunk in self._chunks:
            if chunk.first <= position < chunk.stop:
                return chunk
        number, last = position // self.levels.spans[1], (upto - 1) // self.levels.spans[1]
        leaves = self._leaves(number, max(number, last))
        return leaves[0] if len(leaves) == 1 else join_leaves(leaves, self.monoid.inputs)

    def group_at(self, level: int, number: int) -> Leaf | Group:
        """Return a group of any level. At most one page read per level."""
        return self._group(level, number) if level else self._leaf(number)

    def _leaf(self, number: int) -> Leaf:
        """Return a leaf group. At most one page read per level."""
        return self._leaves(number, number)[0]

    def _leaves(self, number: int, last: int) -> list[Leaf]:
        """Return a leaf group, and those up to ``last`` if they are cached or have one parent.

        One page read for each leaf group, in one store call, and at most one per level above.
        """
        arity, end, fetched = self.levels.arity, self.levels.tails[0].number, self._fetched
        stop = min(last + 1, number + fetched.capacity, end)
        found, places, names = dict[int, Leaf | None](), list[Place](), list[bytes]()
        # A window reads the leaves once and in order, so the last ones sealed are needed longest.
        while number < stop:
            found[number] = leaf = self._recent.get(number) or fetched.get(number)
            if leaf is None:
                above, index = divmod(number, arity)
                if not places:
                    names, stop = self._group(1, above).names, min(stop, (above + 1) * arity)
                places.append((0, number, names[index]))
            number += 1
        if places:
            self._read_leaves(found, places, names)
        if stop == end <= last:
            found[end] = self._open_leaf()
        return list(filter(None, found.values()))

    def _open_leaf(self) -> Leaf:
        tail = self.levels.tails[0]
        group = tail.group(0, tail.count)
        return Leaf(tail.first, group.rows, group.times, tail.count)

    def _read_leaves(
        self, leaves: dict[int, Leaf | None], places: Sequence[Place], names: list[bytes]
    ) -> None:
        """Read sealed leaf groups with one parent, which has these ``names``, and cache them."""
        pager, size = self.levels.pager, self.levels.spans[1]
        if pager.reads_ahead:
            self._read_ahead(places[0][1], names)
        groups = pager.read_many(places) if len(places) > 1 else [pager.read(*places[0])]
        for (_, number, _), group in zip(places, groups, strict=True):
            if pager.reads_ahead:
                self._follow_ahead(number)
            leaves[number] = leaf = Leaf(number * size, group.rows, group.times, group.count)
            self._fetched.put(number, leaf)

    def store(self, new: Events, front: int) -> None:
        """Add events to the log; those before ``front`` are no longer needed.

        One store call for each ``TOGETHER`` pages of a level. If one fails, nothing changes.
        """
        levels, pages = self.levels, self._pages
        if levels.fits(new.size):
            pages.append(*new)
            return
        pages.discard()
        written = levels.extend(*new, unneeded=front if pages.discards else 0)
        pages.back += new.size
        self.have_read(written, front)

    def have_read(self, groups: Sequence[Numbered], position: int) -> None:
        """Cache those of the groups just written that are on the path to a position, or recent."""
        are_views = len(groups) > 1 and groups[1][0] == 0  # of a copy of several leaf groups
        for level, number, group in groups:
            is_on_path = position // self.levels.spans[level + 1] == number
            if level and is_on_path:
                self._inner.put((level, number), group)
            elif not level and (is_on_path or self.keeps_recent):
                first, rows, times = number * self.levels.spans[1], group.rows, group.times
                if is_on_path and are_views:  # a view would keep all of them in memory
                    rows = self.monoid.inputs.joined([rows], [group.count])
                    times = None if times is None else times.copy()
                leaf = Leaf(first, rows, times, group.count)
                if is_on_path:
                    self._fetched.put(number, leaf)
                else:
                    self._recent[number] = leaf
                if len(self._recent) > self._most_recent:
                    del self._recent[next(iter(self._recent))]

    def _read_ahead(self, number: int, names: list[bytes]) -> None:
        """Prepare to read a leaf group; ``names`` are those of its parent's groups."""

    def _follow_ahead(self, number: int) -> None:
        """Record that a leaf group was read."""

    def _group(self, level: int, number: int) -> Group:
        """Return a group above the leaves."""
        tail = self.levels.tails[level]
        if tail.number == number:
            return tail
        group = self._inner.get((level, number))
        if group is None:
            above, index = divmod(number, self.levels.arity)
            name = self._group(level + 1, above).names[index]
            group = self.levels.pager.read(level, number, name)
            self._inner.capacity = _INNER_GROUPS + 2 * len(self.levels.tails)
            self._inner.put((level, number), group)
        return group

    # --- ranges -----------------------------------------------------------------------------------

    def fold(self, start: int, stop: int) -> Partial:
        lefts, rights, level, levels = list[Partial](), list[Partial](), 0, self.levels
        while start < stop:  # at most two groups per level, from the leaves up
            arity, open_group = levels.arities[level > 0], levels.tails[level].number
            first, last = start // arity, (stop - 1) // arity
            begins, ends = start % arity != 0, stop % arity != 0 or last == open_group
            if first == last and (begins or ends):
                lefts.append(self._within(level, first, start % arity, stop - first * arity))
                break
            if begins:
                lefts.append(self._within(level, first, start % arity, arity))
                first += 1
            if ends:
                rights.append(self._within(level, last, 0, stop - last * arity))
                last -= 1
            start, stop, level = first, last + 1, level + 1
        pieces = lefts + rights[::-1]
        return reduce(self.monoid.combine, pieces) if pieces else self.monoid.identity

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        levels, groups = self.levels, list[PathGroup]()
        if position % levels.spans[1]:
            return groups
        level = levels.top(position) if below is None else below - 1
        while level > 0:
            span = levels.spans[level]
            index, inside = divmod(position, span)
            number, start = divmod(index, levels.arity)
            group = self._group(level, number)
            start += inside > 0
            first, count = (number * levels.arity + start) * span, group.count - start
            starts = range(first, first + count * span + 1, span)
            rows = self.monoid.partials.cut(group.rows, start, group.count)
            groups.append(PathGroup(level, starts, rows, count))
            if not inside:
                break
            level -= 1
        return groups

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        return np.array([position]), self.monoid.partials.one(self.fold(position, back))

    def _within(self, level: int, number: int, start: int, stop: int) -> Partial:
        """Return the aggregate of some elements of a group."""
        tail = self.levels.tails[level]
        if number == tail.number and not start and stop == tail.count:
            return self.levels.fold_tail(tail)
        group = tail if number == tail.number else self.group_at(level, number)
        return self.monoid.fold(self.levels.partials(level, group, start, stop), stop - start)

    # --- times ------------------------------------------------------------------------------------

    def first_after(self, time: int) -> int:
        levels = self.levels
        for tail in reversed(levels.tails):
            assert tail.times is not None
            # All elements of a level may be before the front.
            is_live = tail.count and levels.end(tail.level) > self.kept_from
            if is_live and tail.times[tail.count - 1] > time:
                return max(self.kept_from, self._first_within(tail.level, tail.number, time))
        return self.back

    def _first_within(self, level: int, number: int, time: int) -> int:
        levels = self.levels
        while level:
            times, span = self._group(level, number).times, levels.spans[level]
            assert times is not None
            count = levels.tails[level].count if number == levels.tails[level].number else None
            # The pages of elements before the front may be deleted.
            start = max(self.kept_from // span - number * levels.arity, 0)
            inside = int(times[start:count].searchsorted(time, side="right"))
            number, level = number * levels.arity + start + inside, level - 1
        leaf = self._leaf(number)
        assert leaf.times is not None
        start = max(self.kept_from - leaf.first, 0)
        return leaf.first + start + int(leaf.times[start:].searchsorted(time, side="right"))

    def time_before(self, position: int) -> int | None:
        levels = self.levels
        if position == 0:
            return None
        tail = levels.tails[0]
        if position > tail.first and tail.times is not None:
            return int(tail.times[position - 1 - tail.first])
        if position % levels.spans[1]:
            leaf = self._leaf((position - 1) // levels.spans[1])
            assert leaf.times is not None
            return int(leaf.times[position - 1 - leaf.first])
        for tail in levels.tails[1:]:
            span = levels.spans[tail.level]  # here, the position is a multiple of the span
            number, index = divmod(position // span - 1, levels.arity)
            if number == tail.number or (number + 1) * levels.arity * span > position:
                times = self._group(tail.level, number).times
                assert times is not None
                return None if times[index] == BEFORE_ALL else int(times[index])
        return None


class LevelLog(LeafReader, LevelPages):
    """Events in levels, read by position. Inserting takes amortized 1 combine per event."""

    name = "Level log"
    keeps_recent = True
    back = 0

    def __init__(self, setting: Setting) -> None:
        LevelPages.__init__(self, setting)
        LeafReader.__init__(self, self)

    # --- events in and out ----------------------------------------------------------------------

    def _seal(self) -> None:
        """Seal as the base class does, and keep the sealed leaf in memory for a while."""
        self.have_read(self.levels.seal(), self.front)

    def _evict_before(self, position: int) -> None:
        self.front = position

    def store_chunk(self, new: Events, chunk: Chunk, front: int) -> None:
        self.store(new, front)

    def keep(self, chunk: Chunk) -> None:
        """Keep a stored chunk in memory, for windows that reach it soon."""
        self._chunks = [chunk, *self._chunks[: _CHUNKS - 1]]

    def release(self) -> None:
        """Release the chunks of a batch at its end."""
        self._chunks = []

    # --- reading --------------------------------------------------------------------------------

    def _read_ahead(self, number: int, names: list[bytes]) -> None:
        if number - 1 not in self._fetched or number % (_READ_AHEAD // 2) == 0:
            following = names[number % self.levels.arity + 1 :][: _READ_AHEAD - 1]
            places = [(0, number + i, name) for i, name in enumerate(following, 1)]
            self.levels.pager.prefetch(places)

    def remembered(self) -> LevelLog:
        return self

    reader = remembered

    # --- snapshots --------------------------------------------------------------------------------

    def write_state(self) -> list[Any]:
        return [self.levels.swept, self.kept, self.tail_states()]

    def restore_state(self, snapshot: Snapshot) -> None:
        if list(map(type, snapshot.state)) != [int, list, list]:
            raise corrupt("its state is not one of shared level queues")
        self.restore_tails(snapshot, *snapshot.state)

    @property
    def resident_rows(self) -> int:
        return sum(tail.count for tail in self.levels.tails)

    def check(self) -> None:
        self.check_levels()
