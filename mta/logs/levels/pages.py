"""Level queues as a structure of pages and snapshots, whatever is computed over them.

What they keep in a snapshot stands with each of them; all have these in it:

swept    = position before which pages have been deleted
kept     = fronts of the earlier snapshots that are still to be restorable
tails    = from level 0 up, [group, count, columns], columns as in a page; that of the leaves has
           the parts behind its columns, if there are any, which are then of the other events
parts    = [events of a part, names, retired]; see ``parts``
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from mta.columns.schemas import Rows
from mta.logs.base import EventLog, Named, Rebuild, Setting
from mta.logs.levels.parts import LeafParts
from mta.logs.levels.queues import Levels, RestoredTail
from mta.logs.levels.rebuilding import Rebuilder
from mta.pages.page import Group, Layout
from mta.pages.snapshot import MAX_LEVELS, Snapshot, corrupt
from mta.times import are_in_order

#: So many leaf groups leave before their pages are deleted, where no snapshot needs them.
_SWEEP_GROUPS = 32

#: An open group as a snapshot holds it: group, count, columns, and parts where there are any.
TailState = list[Any]


class LevelPages(EventLog):
    """The events of level queues, and their pages, which the tails name."""

    #: Not where events of the open leaf group change, or are needed when a snapshot is restored.
    has_parts = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.levels = Levels(setting)
        self.parts = LeafParts(self.levels, self.has_parts)
        self.front = 0
        #: Fronts of the last snapshots, which stay restorable until the next one is saved.
        self.kept: list[int] = []
        #: Whether pages that have left are deleted from time to time, as no snapshot needs them.
        self.discards = True

    @property
    def back(self) -> int:
        return self.levels.back

    # --- insertion ------------------------------------------------------------------------------

    def room(self) -> int:
        """How many events fit into the leaf tail; a full one is sealed first: one store call."""
        levels = self.levels
        leaf = levels.tails[0]
        if leaf.count == leaf.capacity:
            self.discard()
            self._seal()
            leaf = levels.tails[0]
        return leaf.capacity - leaf.count

    def discard(self) -> None:
        """Delete the pages of what has left, if it is much and no snapshot needs it."""
        levels = self.levels
        if self.discards and self.front - levels.swept >= _SWEEP_GROUPS * levels.leaf_arity:
            levels.sweep(self.front)

    @abstractmethod
    def _seal(self) -> None:
        """Seal the full tails, the leaves' among them; when the store fails, nothing changes."""

    def append(self, rows: Rows, times: np.ndarray | None, count: int) -> None:
        """Add events, for which the leaf tail must have room, without their results."""
        self.levels.append_many(rows, times, count)

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        """Add as many events as the leaf tail has room for, without their results."""
        stop = min(stop, start + self.room())
        coming = None if times is None else times[start:stop]
        self.append(self.monoid.inputs.cut(rows, start, stop), coming, stop - start)
        return stop - start

    # --- snapshots --------------------------------------------------------------------------------

    def prepare(self) -> None:
        self.parts.write()
        self.parts.retired.delete(len(self.kept))
        self.levels.sweep(self.kept[0] if self.kept else self.front)

    def hold(self, retain: int) -> None:
        self.kept = [*self.kept, self.front][-retain:]
        self.parts.retired.hold()
        self.discards = False

    def delete_pages(self) -> None:
        self.parts.delete_all()
        self.levels.sweep(self.levels.back)

    @property
    def height(self) -> int:
        return len(self.levels.tails)

    @property
    def page_count(self) -> int:
        """How many pages a snapshot names, those of earlier snapshots included."""
        swept, span, count = self.levels.swept, 1, 0
        for tail in self.levels.tails:
            span *= tail.capacity
            count += max(0, tail.number - swept // span)
        return count + len(self.parts)

    def tail_states(self) -> list[TailState]:
        """The tails as a snapshot holds them."""
        leaf, *above = self.levels.tails
        states: list[TailState] = [[leaf.number, leaf.count, leaf.columns(self.parts.events)]]
        if parts := self.parts.state(len(self.kept)):
            states[0].append(parts)
        return states + [[tail.number, tail.count, tail.columns()] for tail in above]

    def restore_tails(
        self, snapshot: Snapshot, middle: int, swept: int, kept: list[int], tails: list[TailState]
    ) -> None:
        """Have the levels and positions that a snapshot says.

        Raises CorruptSnapshot unless tails hang together and end at the back, and positions, with a
        ``middle`` between front and back, are in their order.
        """
        check_tails(snapshot, swept, tails)
        fronts = [swept, *kept, snapshot.front]
        if {type(number) for number in kept} - {int}:
            raise corrupt("its positions have the wrong types")
        if not 0 <= swept <= snapshot.front <= middle <= snapshot.back:
            raise corrupt("its positions are out of order")
        if fronts != sorted(fronts):
            raise corrupt("the positions to keep are out of order")
        levels = self.levels
        levels.swept, levels.back = swept, snapshot.back
        (number, count, columns, *parts), *above = tails
        self.parts.restore(parts, number, count, len(kept))
        start = len(self.parts.names) * self.parts.size
        levels.tails = [
            RestoredTail(levels, 0, number, count, columns, self.parts.places(), start),
            *(RestoredTail(levels, level, *tail) for level, tail in enumerate(above, 1)),
        ]
        self.front, self.kept = snapshot.front, kept

    # --- verifying ------------------------------------------------------------------------------

    def check_levels(self) -> None:
        """Assert what holds of the levels and of the parts, reading every page."""
        self.levels.check(self.front)
        self.parts.check()

    def layout_of(self, level: int) -> Layout:
        return self.levels.layout_of(level)

    def pages(self) -> Iterator[Named]:
        yield from self.parts.pages()
        for tail in reversed(self.levels.tails[1:]):
            yield from self._named(tail.level, tail.first, tail)

    def pages_below(self, named: Named, group: Group) -> Iterator[Named]:
        if named.level:
            yield from self._named(named.level, named.number * self.levels.arity, group)

    def _named(self, level: int, first: int, group: Group) -> Iterator[Named]:
        """What the elements of a group name, from ``swept`` on."""
        levels = self.levels
        span, at = levels.span(level), self.monoid.partials.at
        for index in range(max(levels.swept // span - first, 0), group.count):
            last = None if group.times is None else int(group.times[index])
            number, fold = first + index, at(group.rows, index)
            begin, end, name = number * span, (number + 1) * span, group.names[index]
            yield Named(level - 1, number, name, fold, last, begin, end, end > self.front)

    def read(self, named: Named) -> Group:
        return self.levels.pager.read_again(named.level, named.number, named.name)

    def difference(self, named: Named, group: Group) -> str | None:
        if named.fold is None:
            return self.parts.difference(named, group)
        arity = self.levels.arity_of(named.level)
        if group.count != arity:
            return f"it has {group.count} elements in place of {arity}"
        times = group.times
        if times is not None:
            if not are_in_order(times[self.ordered_from(named) :]):
                return "its times decrease"
            if int(times[-1]) != named.last_time:
                return f"its last time is {times[-1]}, its parent says {named.last_time}"
        try:
            agrees = self.levels.refold(named.level, group).agrees(named.fold)
        except Exception as error:  # a user's combine may raise anything at what it never saw
            return f"its elements cannot be folded ({type(error).__name__}: {error})"
        return None if agrees else "its fold is not the aggregate that its parent has"

    def is_past(self, level: int, number: int) -> bool:
        tails = self.levels.tails
        return level < len(tails) and number < tails[level].number

    def ordered_from(self, named: Named) -> int:
        """The element of a page from which on times must not decrease."""
        del named
        return 0

    def rebuilder(self) -> Rebuild | None:
        store = self.setting.store
        if store is None:
            return None
        pages = Rebuilder(self.setting.window, self.levels, store)
        return lambda named: pages.rebuild(named.level, named.number, named.name)


def check_tails(snapshot: Snapshot, swept: int, tails: list[TailState]) -> None:
    """Raises CorruptSnapshot unless tails hang together and end at the back."""
    if not 0 < len(tails) <= MAX_LEVELS or any(
        len(tail) != 3 and (level or len(tail) != 4) for level, tail in enumerate(tails)
    ):
        raise corrupt("its tails do not form a window")
    span, begin = 1, snapshot.back
    for level, (number, count, columns, *_) in enumerate(tails):
        if type(number) is not int or type(count) is not int or type(columns) is not list:
            raise corrupt(f"the tail of level {level} has the wrong types")
        arity = snapshot.arity if level else snapshot.leaf_arity
        end = (number * arity + count) * span
        if number < 0 or not (level > 0) <= count <= arity:
            raise corrupt(f"the tail of level {level} is invalid")
        if begin != end:
            raise corrupt(f"the tail of level {level} does not end where level {level - 1} begins")
        begin = number * arity * span
        span *= arity
    if begin > swept:
        raise corrupt("its highest level does not begin where its pages do")
