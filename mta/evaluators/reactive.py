"""The Reactive Aggregator in pages: any event may be evicted (section 5 of its paper).

Its FlatFAT (``flatfat``) has events at fixed *slots*. An event that is evicted from the middle
leaves a hole. Its leaf block and the blocks above it, up to the open block, are rewritten once:
before the next snapshot, or when too many blocks wait. Their previous pages are retained as long as
a snapshot needs them. *Positions* are counted backwards from the newest event, over the remaining
events. So the position of an event increases by one when a newer event is evicted:

    slots       4  5  6  7  8  9        4  5  .  7  8  9          6 is evicted
    positions   4  5  6  7  8  9        5  6  .  7  8  9          front 4 becomes 5, back stays 10

In the paper, holes are filled to make room in the buffer. Here, the buffer has no fixed size, so
holes are only filled to avoid pages that consist of holes. ``compact`` runs before an eviction from
the middle if there are more holes than events, and more holes than slots in a leaf block. It moves
the events to new slots at the back, with O(1/arity) page writes for each eviction that made a hole.
The new slots begin with a leaf block, and the blocks above are neutral up to there. So no event is
combined with those in the old slots, which are later events.
``resize`` and FIFO windows work as in ``flatfat``, which has no marks and no counts.

A range query covers the remaining events. It is complete although events were evicted from the
middle, but not if events of the range have left at the front. The time of the last event that has
left is in the slot before the front. If that slot is a hole, or if its event was moved, the
snapshot contains the time.

Costs in combines are those of FlatFAT, plus log2(n) for an eviction from the middle. Such an
eviction reads at most one page per level, and writes one page per level before the next snapshot.

In a snapshot, after the common fields:

    state = [front, back, fat], and newest if needed
    front    = slot of the oldest event
    back     = slot after the newest event
    fat      = the state of FlatFAT
    newest   = microseconds since 1970 of the newest event that has left at the front; -2^63 if
               none has left
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import index as whole_number
from typing import Any

import numpy as np

from mta.columns.schemas import Array, Record, Row, Rows
from mta.errors import EmptyWindow, InvariantViolation
from mta.evaluators.cursor import cursor_of
from mta.evaluators.flatfat import PagedFlatFAT
from mta.evaluators.range_fold import RangeFold
from mta.folds.sliding import Events
from mta.logs.base import Aggregator, Chunk, Leaf, Lens, PathGroup, Setting, Undo
from mta.logs.flatfat import BlockReader
from mta.logs.levels.queues import BEFORE_ALL, Levels
from mta.monoids.base import AbstractMonoid, Partial, lift_where
from mta.monoids.equality import Scale
from mta.pages import Group, Named, corrupt
from mta.snapshots import Snapshot

_MARK, _COUNT = Array("?"), Array("<i8")


class WithHoles(AbstractMonoid):
    """``main`` over marked rows; its partials are pairs of main's partial and a count.

    A slot whose event was removed is a hole (the empty marker of section 5.1.1). Its row is blank
    and unmarked, and lifts to the identity. Partials count the remaining events, so the n-th event
    is found by walking down the tree. A hole costs no combine: if one side of a combine has no
    event, the other side is the result.

    In pages, the mark is an additional column of events, ``|b1``, after those of the values. The
    count is an additional column of aggregates, ``<i8``, after those of the aggregates.
    """

    def __init__(self, main: AbstractMonoid) -> None:
        self.main = main
        self.name = main.name
        self.identity = (main.identity, 0)
        self.inputs = Record([main.inputs, _MARK])
        self.partials = Record([main.partials, _COUNT])
        self.outputs, self.empty = main.outputs, main.empty
        self.is_columnar, self.commutative = main.is_columnar, main.commutative

    def _identifies(self) -> tuple[Any, ...]:
        return (type(self).__name__, self.main.fingerprint)

    # --- rows -----------------------------------------------------------------------------------

    def marked(self, rows: Rows, count: int) -> Rows:
        return rows, np.broadcast_to(np.True_, count)

    def row(self, value: Any) -> Row:
        return self.main.row(value), True

    def rows(self, values: Any, count: int | None = None) -> tuple[Rows, int]:
        rows, count = self.main.rows(values, count)
        return self.marked(rows, count), count

    def is_valid(self, row: Row) -> bool:
        return self.main.is_valid(row[0])

    def invalid(self, rows: Rows, count: int) -> np.ndarray | None:
        return self.main.invalid(rows[0], count)

    # --- partials -------------------------------------------------------------------------------

    def combine(self, left: Partial, right: Partial) -> Partial:
        """Combine with ``main``; no combine if one side has no event."""
        if not left[1]:
            return right
        if not right[1]:
            return left
        return self.main.combine(left[0], right[0]), int(left[1]) + int(right[1])

    def lift(self, row: Row) -> Partial:
        return (self.main.lift(row[0]), 1) if row[1] else self.identity

    def lower(self, partial: Partial) -> Any:
        return self.main.lower(partial[0])

    def lift_rows(self, rows: Rows, count: int) -> Rows:
        values, marks = rows
        where = None if marks.all() else marks
        return lift_where(self.main, values, count, where), marks.astype("<i8")

    def lower_rows(self, partials: Rows) -> Rows:
        return self.main.lower_rows(partials[0])

    def fold(self, partials: Rows, count: int) -> Partial:
        return self.main.fold(partials[0], count), int(partials[1].sum())

    def prefixes(self, partials: Rows, count: int, left: Partial) -> Rows:
        counts = np.cumsum(partials[1]) + left[1]
        return self.main.prefixes(partials[0], count, left[0]), counts

    def suffixes(self, partials: Rows, count: int, right: Partial) -> Rows:
        counts = np.full(count + 1, right[1], "<i8")
        counts[:count] += np.cumsum(partials[1][::-1])[::-1]
        return self.main.suffixes(partials[0], count, right[0]), counts

    def combine_rows(self, left: Any, right: Any, count: int) -> Rows:
        return self.main.combine_rows(left[0], right[0], count), left[1] + right[1]

    def results(self, outputs: Rows) -> Any:
        return self.main.results(outputs)

    def same(self, one: Partial, other: Partial, scale: Scale | None = None) -> bool:
        part = None if scale is None else scale.spread(one)[0]
        return bool(one[1] == other[1]) and self.main.same(one[0], other[0], part)


class PagedReactiveAggregator(Aggregator):
    """A window in pages from which any event may be evicted."""

    name = "Reactive Aggregator"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._holed = WithHoles(setting.monoid)
        self.fat = PagedFlatFAT(replace(setting, monoid=self._holed), has_window=False)
        self.layouts = self.fat.layouts
        self._back = self._count = 0
        self.cursor = cursor_of(self, self.reader(), RangeFold)
        #: The time of the newest event that left at the front, if no slot contains it.
        self._newest_left: int | None = None

    @property
    def front(self) -> int:  # type: ignore[override]
        """Return the position of the oldest event."""
        return self._back - self._count

    @property
    def back(self) -> int:
        """Return the position after the newest event, which is the number of inserted events."""
        return self._back

    @property
    def holes(self) -> int:
        """Return how many slots of the window are empty."""
        return self.fat.back - self.fat.front - self._count

    @property
    def levels(self) -> Levels:
        return self.fat.levels

    # --- events in and out ----------------------------------------------------------------------

    def insert(self, row: Row, time: int | None = None) -> Undo:
        """Add one event; no combine until the next query."""
        undo = self.fat.insert((row, True), time)
        self._add(1)

        def take_out() -> None:
            undo()
            self._add(-1)

        return take_out

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add as many events as the open leaf block has room for; no combine."""
        marked = self._holed.marked(rows, stop)
        count = self.fat.extend(marked, times, start, stop)
        self._add(count)
        return count

    def _add(self, count: int) -> None:
        self._back += count
        self._count += count

    def _evict_before(self, position: int) -> None:
        """Evict without a combine; at most two page reads per level."""
        slot, newest = self.fat.front + position - self.front, None
        if self.holes:
            events = self.remembered()
            newest = events.time_before(position) if self.setting.timed else None
            slot = events.slot(position)
            events.retain()  # keep the pages of the new front
        self.fat.evict_to(slot)
        self._newest_left, self._count = newest, self._back - position
        self.cursor.move(position)

    def evict_at(self, positions: Sequence[int]) -> None:
        """Remove events anywhere in the window; events after them keep their positions.

        For m events in b leaf blocks, takes at most m (1 + ceil(log2(n/m))) combines and O(b) page
        reads. Pages are written before the next snapshot, or when several blocks of a level wait.
        Raises EmptyWindow for a position without an event, and TypeError for a position that is not
        an integer. Removes block by block from the left, and the window's oldest events last. If
        the store fails, a note of the error says how many events were removed.
        """
        wanted = sorted({whole_number(position) for position in positions})
        if wanted and not self.front <= wanted[0] <= wanted[-1] < self._back:
            raise EmptyWindow(
                f"there are only events at positions {self.front} to {self._back - 1}"
            )
        oldest = 0
        while oldest < len(wanted) and wanted[oldest] == self.front + oldest:
            oldest += 1
        count = self._count
        try:
            with np.errstate(all="ignore"):
                self._evict_inside(wanted[oldest:])
            self.evict_to(self.front + oldest)
        except Exception as error:
            error.add_note(f"{count - self._count} of {len(wanted)} events were removed")
            raise

    def _evict_inside(self, positions: Sequence[int]) -> None:
        """Remove events other than the oldest; of each leaf block, either all of them or none."""
        arity = self.levels.spans[1]
        if positions and self.holes > max(self._count, arity):
            self.compact()
        slots = [self.slot(position) for position in positions]
        for number, found in groupby(slots, lambda slot: slot // arity):
            inside = [slot - number * arity for slot in found]
            self.fat.replace(number, inside, self._holed.inputs.blank(len(inside)))
            self._count -= len(inside)
            self.cursor.place(self.front, self.back)

    def compact(self) -> None:
        """Move all events to slots at the back without holes; reads and writes the whole window.

        If anything fails, nothing has changed.
        """
        fat = self.fat
        newest = self.newest_left() if self.setting.timed else None
        with fat.undone_on_failure():
            fat.begin_tree()
            end = fat.back
            for leaf in self.leaves():
                rows, done = self._holed.marked(leaf.rows, leaf.count), 0
                while done < leaf.count:
                    done += fat.extend(rows, leaf.times, done, leaf.count)
            fat.evict_to(end)
        self._newest_left = newest

    # --- slots and positions --------------------------------------------------------------------

    def slot(self, position: int) -> int:
        """Return the slot of a position; O(1) without holes, otherwise one page read per level."""
        return self.remembered().slot(position)

    def position(self, slot: int) -> int:
        """Return the position of a slot; O(1) without holes, otherwise one page read per level."""
        return self.remembered().position(slot)

    def remembered(self) -> PlacedEvents:
        return PlacedEvents(self, self.fat.remembered())

    def reader(self) -> PlacedEvents:
        return PlacedEvents(self, self.fat.reader())

    def leaves(self) -> Iterator[Leaf]:
        position = self.front
        for leaf in self.fat.leaves():
            if (there := self.remaining(leaf, position)).count:
                yield there
                position = there.stop

    def remaining(self, leaf: Leaf, first: int, start: int = 0) -> Leaf:
        """Return the events of a leaf of slots from one on, the first of them at a position."""
        values, marks = leaf.rows
        there = start + np.flatnonzero(marks[start:])
        times = None if leaf.times is None else leaf.times[there]
        return Leaf(first, self.monoid.inputs.take(values, there), times, len(there))

    def newest_left(self) -> int | None:
        """Return the time of the newest event that left at the front; None if unknown.

        At most one page read per level.
        """
        if self._newest_left is not None:
            return self._newest_left
        front = self.fat.front
        return self.fat.remembered().time_before(front) if front else BEFORE_ALL

    # --- folds and searches ---------------------------------------------------------------------

    def query(self) -> Partial:
        """Return the aggregate of the window; ``flatfat`` describes the costs."""
        return self.fat.query()[0]

    def most_together(self, left: int, each: bool) -> int:
        return self.fat.most_together(left, each)

    def leaves_at_once(self, times: np.ndarray | None, start: int) -> bool:
        return self.holes > 0

    def store_chunk(self, new: Events, chunk: Chunk, front: int) -> None:
        """Add events whose results are known to a window without holes, and move its front."""
        before, slot = self.front, self.fat.back + front - self.back
        marked = self._holed.marked(new.rows, new.size)
        self.fat.store_chunk(Events(marked, new.times, new.size), chunk, slot)
        self._add(new.size)
        self._count = self._back - front
        if front > before:
            self._newest_left = None

    def longest_prefix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self.position(self.fat.longest_prefix(_inner(lens), accepts))

    def longest_suffix(self, lens: Lens, accepts: Callable[[Any], bool]) -> int:
        return self.position(self.fat.longest_suffix(_inner(lens), accepts))

    # --- pages and snapshots ----------------------------------------------------------------------

    def prepare(self) -> None:
        self.fat.prepare()

    def retain_snapshot(self, retain: int) -> None:
        self.fat.retain_snapshot(retain)

    def delete_pages(self) -> None:
        self.fat.delete_pages()

    def write_state(self) -> list[Any]:
        newest = [] if self._newest_left is None else [self._newest_left]
        return [self.fat.front, self.fat.back, self.fat.write_state(), *newest]

    def restore_state(self, snapshot: Snapshot) -> None:
        if list(map(type, snapshot.state)) not in ([int, int, list], [int, int, list, int]):
            raise corrupt("its state is not that of a Reactive Aggregator")
        front, back, state, *newest = snapshot.state
        if newest and not (snapshot.timed and BEFORE_ALL <= newest[0] < -BEFORE_ALL):
            raise corrupt("the time of its evicted events is invalid")
        self._newest_left = newest[0] if newest else None
        if not 0 <= front <= back or not snapshot.back - snapshot.front <= back - front:
            raise corrupt("its slots are invalid")
        self.fat.restore_state(replace(snapshot, front=front, back=back, state=state))
        self._back, self._count = snapshot.back, snapshot.back - snapshot.front
        self.cursor.place(self.front, self.back)
        self.restore_front_time(snapshot.front_time)
        if not 0 <= self.fat.left[1] <= self._count:
            raise corrupt("its aggregate counts the wrong events")
        for tail in self.levels.tails[1:]:
            counts = tail.rows[1][: tail.count]
            if not 0 <= counts.min() <= counts.max() <= self.levels.spans[tail.level]:
                raise corrupt("an aggregate counts events outside its slots")

    @property
    def height(self) -> int:
        return self.fat.height

    @property
    def page_count(self) -> int:
        return self.fat.page_count

    @property
    def resident_rows(self) -> int:
        return self.fat.resident_rows

    # --- verifying ------------------------------------------------------------------------------

    def pages(self) -> Iterator[Named]:
        return self.fat.pages()

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        return self.fat.pages_below(named, group)

    def read(self, named: Named) -> Group:
        return self.fat.read(named)

    def difference(self, named: Named, group: Group) -> str | None:
        return self.fat.difference(named, group)

    def check(self) -> None:
        self.fat.check()
        with self.fat.preserving_state():
            count = sum(1 for _ in self.events())
            if count != self._count or self.fat.query()[1] != count:
                raise InvariantViolation(f"{count} events in a window of {self._count}")
            if count and not next(iter(self.fat.events()))[1]:
                raise InvariantViolation("the front is at a hole")


class PlacedEvents:
    """The remaining events by position and by time, for one range query or one batch.

    A batch is read only from a window without holes, which has an event in each slot. Finds slots
    by counting from the newest event. Each slot or position takes one page read per level, and each
    page is read once.
    """

    stamp, by_time, looks_back = 0, False, False

    def __init__(self, tree: PagedReactiveAggregator, slots: BlockReader) -> None:
        self._tree, self._slots = tree, slots
        #: Positions with known slots.
        self._known: dict[int, int] = {}

    @property
    def kept_from(self) -> int:
        return self._tree.front

    @property
    def back(self) -> int:
        return self._tree.back

    def fold(self, start: int, stop: int) -> Partial:
        if start >= stop:
            return self._tree.monoid.identity
        return self._slots.fold(self.slot(start), self.slot(stop))[0]

    def first_after(self, time: int) -> int:
        slot = self._slots.first_after(time)
        position = self.position(slot)
        self._known[position] = slot
        return position

    @property
    def open_from(self) -> int:
        return self.back

    def leaf(self, position: int, upto: int = 0, until: int | None = None) -> Leaf:
        slot = self.slot(position)
        leaf = self._slots.leaf(slot, upto, until)
        gone = max(0, self._tree.fat.front - leaf.first)  # also what was moved to later slots
        before = int(leaf.rows[1][gone : slot - leaf.first].sum())  # events may leave with holes
        return self._tree.remaining(leaf, position - before, gone)

    def settled(self, front: int, end: int) -> int:
        return end

    def path(self, position: int, below: int | None = None) -> Sequence[PathGroup]:
        return ()

    def folds_behind(self, position: int, back: int) -> tuple[np.ndarray, Rows]:
        return np.array([position]), self._tree.monoid.partials.one(self.fold(position, back))

    def time_before(self, position: int) -> int | None:
        if position == self.kept_from:
            return self._tree.newest_left()
        return self._slots.time_before(self.slot(position - 1) + 1)

    def retain(self) -> None:
        """Keep the pages that were read in memory until the next range query."""
        self._slots.retain()

    def slot(self, position: int) -> int:
        tree, levels, after = self._tree, self._tree.levels, self.back - position
        if not tree.holes or not after:
            return tree.fat.back - after
        if position in self._known:
            return self._known[position]
        for tail in levels.tails:
            count = int(tail.rows[1][: tail.count].sum())  # sums the marks in a leaf block
            if after <= count:
                break
            after -= count
        level, number = tail.level, tail.number
        while True:
            group = self._slots.group_at(level, number)
            sums = np.cumsum(group.rows[1][: group.count][::-1])
            last = int(sums.searchsorted(after))
            after -= int(sums[last - 1]) if last else 0
            number = number * levels.arities[level > 0] + group.count - 1 - last
            if level == 0:
                return number
            level -= 1

    def position(self, slot: int) -> int:
        """Return the position of a slot's event, or of the next event after a hole."""
        tree, levels, after = self._tree, self._tree.levels, 0
        if not tree.holes or slot == tree.fat.back:
            return tree.back - (tree.fat.back - slot)
        level, number = 0, slot
        while True:
            number, index = divmod(number, levels.arities[level > 0])
            group = self._slots.group_at(level, number)
            after += int(group.rows[1][index + (level > 0) : group.count].sum())
            if number == levels.tails[level].number:
                break
            level += 1
        after += sum(int(tail.rows[1][: tail.count].sum()) for tail in levels.tails[:level])
        return tree.back - after


def _inner(lens: Lens) -> Lens:
    """Return a lens for partials with a count."""
    monoid, pick = lens
    return monoid, lambda partial: pick(partial[0])
