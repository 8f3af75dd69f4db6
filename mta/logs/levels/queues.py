"""The level queues of MTA, with groups of ``arity`` siblings instead of pairs.

    level 2   [ g g . . ]                     the open group: the level's tail
    level 1   [ p p p p ] [ p p p . ]         an element = the fold of one sealed group below
    level 0   [v v v v] ... [v v v v] [v . . .]

This module implements sections 4.1.1, 4.2.1 and 4.2.2 (Algorithm 3) of the MTA paper. Positions are
absolute: element j of level l covers the events [j * span(l), (j + 1) * span(l)). Only the tails
are in memory. A sealed group is a page.

Invariants (numbers 1 to 3 of the paper, for groups):

1. A level consists of full groups, followed by its tail. The tail has at least one element, but the
   tail of level 0 may be empty. Elements before the front are dead: the paper's neutral elements.
   They keep their aggregates until elements are added that do not follow them (``with_neutral``).
2. Element j of level l + 1 exists exactly when group j of level l is sealed, which happens when the
   next element of level l arrives. So every tail is the root group of its own tree.
3. The tail of level l begins where the elements of level l + 1 end.

``swept`` is the position before which pages have been deleted. It lags behind the front, because
existing snapshots still need the pages in between. The trees are kept from ``swept`` on, so that a
walk finds the names of the pages to delete, and no list of them is necessary.

Groups are read ahead of the front, so that in steady state no event waits for a page. The paper
refills its head cache when half of it is used. ``ReadAhead`` does the same: it requests the next
``depth`` leaf groups of the front, and requests more when half of them are used. The best depth
depends on the latency of the store and the speed of the window. The depth starts small, because a
window that is restored for a few events needs no more. It doubles whenever the front had to wait.

      front       depth / 2 left: request more           requested
        |               |                                     |
      [ 4 ][ 5 ][ 6 ][ 7 ][ 8 ][ 9 ][ 10 ][ 11 ][ 12 ]      leaf groups

The names of pages are in the groups above them, and the head path and the tails are in memory. The
inner pages that the front needs next are prefetched in the same way, level by level and twice as
far ahead, so they are in memory when the leaves need them. ``ReadAhead`` never waits or fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from mta.columns.schemas import Payload, Row, Rows
from mta.errors import CorruptPage, CorruptSnapshot, InvariantViolation, MissingPage
from mta.logs.base import Leaf, Setting
from mta.monoids.base import Partial, Refold
from mta.pages import (
    MAX_LEVELS,
    NO_NAME,
    Group,
    Layout,
    Numbered,
    Pager,
    Place,
    ResidentPager,
    StorePager,
    layouts_of,
    read_columns,
    write_columns,
)

BEFORE_ALL = np.iinfo(np.int64).min
#: The most pages to write in one store call when many events arrive together.
TOGETHER = 16


class Tail(Group):
    """The open group of a level, with room for ``capacity`` elements."""

    __slots__ = ("_layout", "capacity", "first", "folded", "level", "number", "unchanged")

    #: Whether its elements can be read without a store call.
    is_loaded = True
    #: How many elements were removed (``parts.LastLeaf``): none.
    dropped = 0

    def __init__(self, levels: Levels, level: int, number: int) -> None:
        self.level, self.number = level, number
        self.capacity = levels.arities[level > 0]
        #: The index of the group's first element in its level.
        self.first = number * self.capacity
        self._layout = levels.layouts[level]
        #: An upper bound on how many elements are in parts. These elements do not change.
        self.unchanged = 0
        #: How many elements the last snapshot or insertion folded, and their aggregate.
        self.folded: tuple[int, Partial] = (0, None)
        self.rows, self.count = self._layout.schema.new(self.capacity), 0
        self.times = np.empty(self.capacity, "<i8") if levels.timed else None
        self.names = []

    def columns(self, start: int = 0) -> list[Payload]:
        """Return the columns from an element on, in the format of a snapshot."""
        return write_columns(self.group(start, self.count), self._layout)

    def group(self, start: int, stop: int) -> Group:
        return self.cut(self._layout.schema, start, stop)

    def about_to_change(self) -> None:
        """Prepare for a replacement of elements."""


class RestoredTail(Tail):
    """A tail from a snapshot. Its columns and parts are read on first use."""

    __slots__ = ("_elements", "_read_parts", "_saved", "_saved_count", "_start")

    def __init__(
        self, levels: Levels, level: int, number: int, count: int, columns: list[Payload],
        read_parts: Callable[[], list[Group]] = list, start: int = 0,
    ) -> None:  # fmt: skip
        self.level, self.number, self.count = level, number, count
        self.capacity, self._layout = levels.arities[level > 0], levels.layouts[level]
        self.first = number * self.capacity
        self.folded = (0, None)
        #: The columns from the snapshot, valid until the count changes.
        self._saved, self._saved_count = columns, count
        #: Reads the elements before ``start``, which are in pages.
        self._read_parts, self._start = read_parts, start
        self.unchanged = start
        self._elements: Group | None = None

    @property
    def is_loaded(self) -> bool:  # type: ignore[override]
        return not self._start or self._elements is not None

    @property
    def rows(self) -> Rows:
        return self._read().rows

    @property
    def times(self) -> np.ndarray | None:  # type: ignore[override]
        return self._read().times

    @property
    def names(self) -> list[bytes]:  # type: ignore[override]
        return self._read().names

    def _read(self) -> Group:
        """Return the elements. Raises CorruptSnapshot, and the errors of reading parts."""
        if self._elements is not None:
            return self._elements
        groups = self._read_parts()
        try:
            groups.append(read_columns(self._saved_count - self._start, self._saved, self._layout))
        except CorruptPage as error:
            raise CorruptSnapshot(
                f"the snapshot's level {self.level} cannot be read: {error}; use an earlier one"
            ) from error
        schema = self._layout.schema
        times = np.empty(self.capacity, "<i8") if self._layout.timed else None
        elements = Group(schema.new(self.capacity), times, [], 0)
        for group in groups:
            elements.extend(schema, group, 0, group.count)
        self._elements = elements
        return elements

    def columns(self, start: int = 0) -> list[Payload]:
        """Return the columns in the format of a snapshot, reusing those of an unchanged tail."""
        as_saved = (self.count, start) == (self._saved_count, self._start)
        return self._saved if as_saved else super().columns(start)

    def about_to_change(self) -> None:
        self._read()  # the saved columns become invalid
        self._saved_count = -1


@lru_cache
def spans_of(leaf_arity: int, arity: int) -> tuple[int, ...]:
    """Return the number of events that an element of each level covers."""
    return (1, *(leaf_arity * arity**level for level in range(MAX_LEVELS + 1)))


class Levels:
    """The trees: tails in memory, and sealed groups in the pager."""

    def __init__(self, setting: Setting) -> None:
        self.monoid, self.timed = monoid, timed = setting.monoid, setting.timed
        #: The sizes of groups: of leaves, and of all levels above.
        self.arities = self.leaf_arity, self.arity = setting.leaf_arity, setting.arity
        if min(self.arities) < 2:
            raise ValueError(f"arities must be at least 2, not {self.leaf_arity} and {self.arity}")
        #: By level, the number of events that an element covers.
        self.spans = spans_of(*self.arities)
        leaf = Layout(monoid.inputs, timed, named=False)
        self.layouts = layouts_of(leaf, Layout(monoid.partials, timed, named=True))
        self.pager: Pager = ResidentPager()
        if setting.store is not None:
            self.pager = StorePager(setting.store, setting.window, self.layouts)
        self.swept = 0
        self.tails: list[Tail] = [Tail(self, 0, 0)]
        self.put = monoid.inputs.put
        #: Whether ``fold_tail`` gives the aggregate of a sealed group. If not, the whole group is
        #: folded again, so that pages do not depend on earlier queries.
        self.seals_folded = False

    def end(self, level: int) -> int:
        """Return the position where this level's elements end and the lower tail starts."""
        if level >= len(self.tails):
            return self.swept
        tail = self.tails[level]
        return (tail.first + tail.count) * self.spans[level]

    def top(self, front: int) -> int:
        """Return the level whose tail is the leftmost root with events after ``front``."""
        level = len(self.tails) - 1
        while level and self.end(level) <= front:
            level -= 1
        return level

    def partials(self, level: int, group: Group | Leaf, start: int, stop: int) -> Rows:
        """Return the elements of a group as partials, lifting values."""
        rows = self.layouts[level].schema.cut(group.rows, start, stop)
        return rows if level else self.monoid.lift_rows(rows, stop - start)

    def fold_tail(self, tail: Tail) -> Partial:
        """Return the aggregate of a tail. One combine per element not in ``folded``.

        Does not update ``folded``: the rounding of results must not depend on earlier queries.
        """
        done, aggregate = tail.folded
        if done < tail.count:
            rows = self.partials(tail.level, tail, done, tail.count)
            more = self.monoid.fold(rows, tail.count - done)
            aggregate = self.monoid.combine(aggregate, more) if done else more
        return aggregate if tail.count else self.monoid.identity

    def update_fold(self, tail: Tail) -> Partial:
        """Return the aggregate of a tail, and update ``folded``, for snapshots and insertions."""
        aggregate = self.fold_tail(tail)
        tail.folded = tail.count, aggregate
        return aggregate

    def fold_on(self, leaf: Tail, rows: list[Row]) -> None:
        """Update the aggregate of the leaf tail with its newest events. One combine per event.

        Combines them one by one, so that rounding does not depend on the size of batches. Leaves
        the aggregate as it is if an earlier event is missing in it.
        """
        done, aggregate = leaf.folded
        if done + len(rows) < leaf.count:
            return
        try:
            for row in rows:
                lifted = self.monoid.lift(row)
                aggregate = self.monoid.combine(aggregate, lifted) if done else lifted
                done += 1
        except Exception:  # the events are stored: a caller that needs the aggregate gets the error
            return
        leaf.folded = done, aggregate

    def refold(self, level: int, group: Group) -> Refold:
        """Return the aggregate of a group, to check the one that its parent has."""
        rows = self.partials(level, group, 0, group.count)
        return Refold.of_rows(self.monoid, rows, group.count)

    # --- insertion --------------------------------------------------------------------------

    def append(self, row: Row, time: int | None) -> None:
        """Add one event to the leaf tail, which must have room."""
        leaf = self.tails[0]
        self.put(leaf.rows, leaf.count, row)
        if leaf.times is not None:
            leaf.times[leaf.count] = time
        leaf.count += 1

    def append_many(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events to the leaf tail, which must have room for them."""
        leaf = self.tails[0]
        self.monoid.inputs.put_many(leaf.rows, leaf.count, rows)
        if leaf.times is not None and times is not None:
            leaf.times[leaf.count : leaf.count + count] = times
        leaf.count += count

    def fits(self, count: int) -> bool:
        return count <= self.leaf_arity - self.tails[0].count

    def extend(
        self, rows: Rows, times: np.ndarray | None, count: int, unneeded: int
    ) -> list[Numbered]:
        """Add events, which may fill many groups; return the first needed groups of each level.

        The front reaches those groups soon. Pages that end before position ``unneeded`` are not
        written. About one combine per event outside those pages; one store call for each
        ``TOGETHER`` pages of a level. If the store fails, nothing changes.
        """
        unneeded = max(unneeded, self.swept)  # no sweep looks for a group that is swept already
        joining: Group | None = Group(rows, times, [], count)
        changes, written, index = list[tuple[Tail, Group, int]](), list[Numbered](), 0
        leaf, tails = self.tails[0], self.tails.copy()
        if unneeded >= leaf.first + leaf.capacity:  # the group of the first event is not folded
            tails = self.with_neutral()
        while joining is not None:
            level = len(changes)
            tail = tails[level] if level < len(tails) else self._new_level(level, index)
            index, filled = tail.number, (tail.count + joining.count - 1) // tail.capacity
            above, used = None, 0
            if filled:
                above = self._fill(tail, joining, filled, unneeded, written)
                used = filled * tail.capacity - tail.count
                tail = Tail(self, level, index + filled)
            changes.append((tail, joining, used))
            joining = above
        for level, (tail, group, used) in enumerate(changes):
            tail.extend(self.layouts[level].schema, group, used, group.count)
            tails[level : level + 1] = [tail]
        self.tails = tails
        return written

    def _fill(
        self, tail: Tail, joining: Group, filled: int, unneeded: int, written: list[Numbered]
    ) -> Group:
        """Write the groups that a tail (unchanged) and new elements fill; return those above."""
        level, size, first, partials = tail.level, tail.capacity, tail.number, self.monoid.partials
        above, full, is_first = self._above(tail, joining, filled), list[Numbered](), True
        ranges = self._needed(tail, joining, filled, unneeded)
        for start, stop in ranges:
            elements = self._elements(tail, joining, start * size, stop * size)
            rows, count, schema = elements.rows, elements.count, self.layouts[level].schema
            lifted = rows if level else self.monoid.lift_rows(rows, count)
            partials.put_many(above.rows, start, self.monoid.folds(lifted, count, size))
            for at in range(0, count, size):
                group = elements if size == count else elements.cut(schema, at, at + size)
                full.append((level, first + start + at // size, group))
            if len(full) >= TOGETHER or stop == ranges[-1][1]:
                for (_, number, _), name in zip(full, self.pager.write(full), strict=True):
                    above.names[number - first] = name
                written += full if is_first else []
                full, is_first = [], False
        return above

    def _above(self, tail: Tail, joining: Group, count: int) -> Group:
        """Return the elements above the groups to fill, whose folds and names are unknown yet."""
        size, held, times = tail.capacity, tail.count, None
        if joining.times is not None and tail.times is not None:
            times = joining.times[np.arange(1, count + 1) * size - held - 1]
            if held == size:
                times[:1] = tail.times[-1:]
        return Group(self.monoid.identities(count), times, [NO_NAME] * count, count)

    def _needed(
        self, tail: Tail, joining: Group, count: int, unneeded: int
    ) -> list[tuple[int, int]]:
        """Return which of ``count`` full groups to write, in ranges of at most ``TOGETHER``."""
        size, first, span = tail.capacity, tail.number, self.spans[tail.level + 1]
        names, begin = tail.names + joining.names, min(max(unneeded // span - first, 0), count)
        starts = range(begin, count, TOGETHER)
        needed = list(zip(starts, [*starts[1:], count], strict=False))
        # An unneeded group must still be written if its names lead the next sweep to pages that
        # no sweep has passed.
        for at in range(begin if names else 0):
            is_named = names[at * size : (at + 1) * size].count(NO_NAME) < size
            if is_named and (first + at + 1) * span > self.swept:
                needed.append((at, at + 1))
        return needed

    def _elements(self, tail: Tail, joining: Group, start: int, stop: int) -> Group:
        """Return elements of a tail and new ones, counted from the tail's first.

        If they are one group, its new elements fill the room of the tail. Otherwise, they are a
        copy.
        """
        held, schema = tail.count, self.layouts[tail.level].schema
        if stop == tail.capacity:
            elements = Group(tail.rows, tail.times, list(tail.names), held)
            elements.extend(schema, joining, 0, stop - held)
            return elements
        first, last = max(start - held, 0), stop - held
        parts = schema.cut(tail.rows, start, held), schema.cut(joining.rows, first, last)
        rows, times = schema.joined(parts, (max(held - start, 0), last - first)), None
        if tail.times is not None and joining.times is not None:
            times = np.concatenate((tail.times[start:held], joining.times[first:last]))
        names = tail.names[start:held] + joining.names[first:last]
        return Group(rows, times, names, stop - start)

    def take_back(self) -> None:
        """Undo the last ``append``. The leaf tail is replaced, so no cache has its last event."""
        longer = self.tails[0]
        leaf = self.tails[0] = Tail(self, 0, longer.number)
        leaf.extend(self.monoid.inputs, longer, 0, longer.count - 1)
        leaf.unchanged = longer.unchanged
        if longer.folded[0] <= leaf.count:
            leaf.folded = longer.folded

    def seal(self) -> list[Numbered]:
        """Seal the full tails from the leaves up to the first level with room (Algorithm 3).

        Returns the sealed groups. One combine per sealed element, so amortized 1 + 1/(arity - 1)
        per event. One store call for all pages. If the store fails, nothing changes.
        """
        sealed, folds = list[Numbered](), list[Partial]()
        for tail in self.tails:
            level, count = tail.level, tail.count
            if count < tail.capacity:
                break
            sealed.append((level, tail.number, tail))
            if self.seals_folded:
                folds.append(self.fold_tail(tail))
            else:
                rows = tail.rows if level else self.monoid.lift_rows(tail.rows, count)
                folds.append(self.monoid.fold(rows, count))
        # The last group may end where the sweep ended. Nothing reads its page again and no sweep
        # looks for it. Only the element above it matters, for the time of its last event.
        is_swept = (sealed[-1][1] + 1) * self.spans[len(sealed)] <= self.swept
        names = self.pager.write(sealed[:-1] if is_swept else sealed)
        if is_swept:
            names = [*names, NO_NAME]
        for level, number, _ in sealed:
            self.tails[level] = Tail(self, level, number + 1)
        if len(sealed) == len(self.tails):
            self.tails.append(self._new_level(len(sealed), sealed[-1][1]))
        for (level, _, group), aggregate, name in zip(sealed, folds, names, strict=True):
            last = None if group.times is None else group.times[-1]
            self._put(self.tails[level + 1], aggregate, last, name)
        return sealed

    def with_neutral(self) -> list[Tail]:
        """Return the tails if no element above the leaves is live: copies with neutral elements.

        The elements still name their pages. If they kept their aggregates, these would be combined
        with elements that are added later, which may not be their neighbors.
        """
        tails = self.tails[:1]
        for tail in self.tails[1:]:
            tails.append(Tail(self, tail.level, tail.number))
            for at, name in enumerate(tail.names):
                last = None if tail.times is None else tail.times[at]
                self._put(tails[-1], self.monoid.identity, last, name)
        return tails

    def _new_level(self, level: int, index: int) -> Tail:
        """Return the tail of a new level, whose first element is ``index``."""
        tail = Tail(self, level, index // self.arity)
        # Everything before the first element of a new level was swept earlier.
        for _ in range(index % self.arity):
            self._put(tail, self.monoid.identity, BEFORE_ALL, NO_NAME)
        return tail

    def _put(self, tail: Tail, aggregate: Partial, last: Any, name: bytes) -> None:
        self.monoid.partials.put(tail.rows, tail.count, aggregate)
        if tail.times is not None:
            tail.times[tail.count] = last
        tail.names.append(name)
        tail.count += 1

    # --- deletion ---------------------------------------------------------------------------

    def sweep(self, upto: int) -> int:
        """Delete the pages that end at or before ``upto``; return how many.

        Reads the inner pages since the last sweep, 1/arity of the pages that it deletes. Children
        are deleted before their parents, so the next sweep continues an interrupted one.
        """
        places: list[Place] = []
        for tail in reversed(self.tails[1:]):
            places.extend(self._pages_before(tail.level, tail.first, tail, upto))
        self.pager.delete(places)
        self.swept = max(self.swept, upto)
        # A level that ends here stays, because it has the time of the last event before ``swept``.
        while len(self.tails) > 1 and self.end(len(self.tails) - 1) < self.swept:
            self.tails.pop()
        return len(places)

    def _pages_before(self, level: int, first: int, group: Group, upto: int) -> Iterator[Place]:
        span = self.spans[level]
        start = max(self.swept // span - first, 0)
        stop = min(-(-upto // span) - first, group.count)
        for index in range(start, stop):
            number, name = first + index, group.names[index]
            if name == NO_NAME:
                continue
            if level > 1:
                try:
                    below = self.pager.read(level - 1, number, name)
                except (MissingPage, CorruptPage):
                    # An earlier sweep already deleted the page, or the names below are unknown.
                    # Evicted events must not stop the window.
                    continue
                yield from self._pages_before(level - 1, number * self.arity, below, upto)
            if self.swept < (number + 1) * span <= upto:
                yield level - 1, number, name

    # --- invariants -------------------------------------------------------------------------

    def check(self, front: int, back: int) -> None:
        """Assert invariants 1 to 3, reading every page. Raises InvariantViolation."""
        for level, tail in enumerate(self.tails):
            if level and not 0 < tail.count <= tail.capacity:
                raise InvariantViolation(f"invariant 1: the tail of level {level} is empty")
            if level and len(tail.names) != tail.count:
                raise InvariantViolation(f"level {level} has elements without names")
            begin = tail.first * self.spans[level]
            if level + 1 < len(self.tails) and begin != self.end(level + 1):
                raise InvariantViolation(f"invariant 3: level {level} does not begin at {begin}")
        leaf = self.tails[0]
        if back != leaf.first + leaf.count or not self.swept <= front <= back:
            raise InvariantViolation(f"swept {self.swept}, front {front}, back {back}")
        for tail in self.tails[1:]:
            self._check_below(tail.level, tail.first, tail, front)

    def _check_below(self, level: int, first: int, group: Group, front: int) -> None:
        """Check invariant 2: every live element is the fold of the group below it."""
        for index in range(max(front // self.spans[level] - first, 0), group.count):
            below = self.pager.read_again(level - 1, first + index, group.names[index])
            if below.count != self.arities[level > 1]:
                raise InvariantViolation(f"invariant 1: group {first + index} is not full")
            if (first + index) * self.spans[level] >= front:
                fold = self.refold(level - 1, below)
                if not fold.agrees(self.monoid.partials.at(group.rows, index)):
                    raise InvariantViolation(
                        f"invariant 2: element {first + index} of level {level} is not its fold"
                    )
            if level > 1:
                self._check_below(level - 1, (first + index) * self.arity, below, front)


# --- reading ahead --------------------------------------------------------------------------------


#: Returns a group that is in memory, by level and number.
Groups = Callable[[tuple[int, int]], Group | None]

_FIRST_DEPTH = 8


class ReadAhead:
    """Requests the next groups of one window's front from the pager."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        #: How many leaf groups after the front's leaf group to request.
        self.depth = _FIRST_DEPTH
        #: By level, the first group that was not requested.
        self._asked: dict[int, int] = {0: -1}
        #: The leaf group of the front when all following groups were last requested again.
        self._restarted = 0
        #: By level, the number of the group that was last looked up, and the names in it.
        self._known: dict[int, tuple[int, list[bytes]]] = {}

    def follow(self, leaf: int, path: Groups) -> None:
        """Record that the front opened a leaf group; ``path`` finds the groups above it.

        No store call, but sometimes a prefetch of about half the depth.
        """
        pager = self._levels.pager
        jumped = leaf > self._asked[0]
        late = pager.waited and leaf - self._restarted >= self.depth // 2
        if late and not jumped:  # the front waited for the store, or the cache was too small
            self.depth *= 2
        if late or jumped:
            self._asked, self._restarted = {0: leaf + 1}, leaf
        depth = self.depth = min(self.depth, pager.read_ahead)
        if self._asked[0] - leaf - 1 > depth // 2:
            return
        arity, places = self._levels.arity, []
        for level in reversed(range(1, len(self._levels.tails) - 1)):
            groups = arity**level
            # Includes the front's own group, because deletions read it too.
            places += self._missing(level, leaf // groups, 2 * depth // groups + 2, path)
        places += self._missing(0, leaf + 1, depth, path)
        if places:
            pager.prefetch(places)

    def _missing(self, level: int, start: int, count: int, path: Groups) -> list[Place]:
        """Return those of ``count`` groups from ``start`` on that are known and unrequested."""
        places: list[Place] = []
        arity, number = self._levels.arity, max(start, self._asked.get(level, 0))
        stop = min(start + count, self._levels.tails[level].number)
        while number < stop:
            above, within = divmod(number, arity)
            names = self._names(level + 1, above, path)
            if names is None:
                break
            some = names[within : within + stop - number]
            places += [(level, number + i, name) for i, name in enumerate(some)]
            number += len(some)
        self._asked[level] = number
        return places

    def _names(self, level: int, number: int, path: Groups) -> list[bytes] | None:
        """Return the names in a group, or None if its page is not in memory."""
        levels = self._levels
        if level >= len(levels.tails):
            return None
        if number == levels.tails[level].number:
            return levels.tails[level].names
        if level in self._known and self._known[level][0] == number:
            return self._known[level][1]
        group = path((level, number))
        if group is None:
            above = self._names(level + 1, number // levels.arity, path)
            if above is None:
                return None
            group = levels.pager.peek(level, number, above[number % levels.arity])
        if group is None or len(group.names) != levels.arity:  # reading the page raises the error
            return None
        self._known[level] = number, group.names
        return group.names
