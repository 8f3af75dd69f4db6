"""The last leaf's events in separate pages, which keep a snapshot small.

A snapshot holds the open leaf group of level queues, or the last leaf of a tree. These may have
thousands of events. The events that no longer change are cut into *parts*. Each full part is
written to the store once, before the first snapshot that includes it. Snapshots only name the part:

    last leaf          . v v v | v v v v | v v v v | v v . .      parts of four; one event has left
    in the snapshot        part      part      part    v v

    parts    = [size, gone, places], or [] if there are none
    size     = number of events in a part
    gone     = number of events of the first part that have left
    places   = array of [number, name]

A part is a page of level 0. In level queues, it has the number of its group; in a tree, it has a
separate number. A part is *retired* with the first snapshot that does not name it. This happens
when all its events have left, when a late event is inserted before its end, or when its leaf is no
longer the last leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from mta.columns.schemas import Schema
from mta.errors import InvariantViolation
from mta.logs.base import Named
from mta.pages.page import Group, Layout, encode, is_name, part_rows
from mta.pages.pager import Pager, Place, RetiredPages
from mta.pages.snapshot import corrupt


@dataclass(frozen=True, slots=True)
class Part(Named):
    """A part of the last leaf."""


class LastLeaf(Protocol):
    """The events of the last leaf, oldest first."""

    count: int
    #: How many have left.
    dropped: int
    #: All events before this one, counted with those that have left, are unchanged since this was
    #: last set.
    unchanged: int

    def group(self, start: int, stop: int) -> Group:
        """Return some of the remaining events."""


class LeafParts:
    """Which events of the last leaf are in parts, from its first one on.

    A leaf has fewer than ``most`` events; if that is at most the size of a part, there are no
    parts.
    """

    def __init__(self, pager: Pager, layout: Layout, most: int, retired: RetiredPages) -> None:
        self._pager, self._layout, self._retired = pager, layout, retired
        size = part_rows(layout)
        #: The number of events in a part, and in a future part; 0 without parts.
        self.size = self._to_come = size if size < most else 0
        #: The places of the parts; the leaf that they were cut from; and the first of its events in
        #: them, counted with those that have left.
        self._places: list[Place] = []
        self._leaf: LastLeaf | None = None
        self._first = 0

    def __len__(self) -> int:
        return len(self._places)

    def held(self, leaf: LastLeaf) -> int:
        """Return how many events of the last leaf are in parts, once these have been written."""
        if leaf is not self._leaf or not self._places:
            return 0
        return self._first + len(self._places) * self.size - leaf.dropped

    def _of_use(self, leaf: LastLeaf) -> slice:
        """Return which parts still match the last leaf."""
        if leaf is not self._leaf or not self._places:
            return slice(0, 0)
        gone, same = leaf.dropped - self._first, leaf.unchanged - self._first
        return slice(gone // self.size, max(gone, same) // self.size)

    # --- for snapshots ----------------------------------------------------------------------------

    def write(self, leaf: LastLeaf, numbers: Iterator[int]) -> int:
        """Write the parts that became full, before a snapshot, and return how many.

        They get the next ``numbers``. Retires those that are no longer useful. One store call, if
        any is written. If the store fails, nothing has changed.
        """
        of_use = self._of_use(leaf)
        kept = self._places[of_use]
        first, size = self._first + of_use.start * self.size, self.size
        if not kept:
            first, size = leaf.dropped, self._to_come
        start = first + len(kept) * size - leaf.dropped
        starts = range(start, leaf.count - size + 1, size) if size else ()
        groups = [(0, next(numbers), leaf.group(at, at + size)) for at in starts]
        names = self._pager.write(groups) if groups else []
        new = [(0, number, name) for (_, number, _), name in zip(groups, names, strict=True)]
        self._retired.add(self._places[: of_use.start] + self._places[of_use.start + len(kept) :])
        self._places, self._first, self.size = kept + new, first, size
        self._leaf, leaf.unchanged = leaf, leaf.dropped + leaf.count
        return len(groups)

    def retire_all(self) -> None:
        """Retire all parts, as there is no last leaf any more."""
        self._retired.add(self._places)
        self._places, self._leaf = [], None

    def state(self, leaf: LastLeaf) -> list[Any]:
        """Return the state for a snapshot; empty without parts."""
        if not self._places:
            return []
        places = [[number, name] for _, number, name in self._places]
        return [self.size, leaf.dropped - self._first, places]

    def restore(self, state: Any, before: int) -> tuple[int, int]:
        """Restore the parts that a snapshot names, whose pages have numbers below ``before``.

        Returns how many events they have, and how many of these have left; ``belong`` assigns them
        to a leaf. Raises CorruptSnapshot.
        """
        match state:
            case []:
                return 0, 0
            case [int(size), int(gone), [_, *_] as places] if 0 <= gone < size:
                pass
            case _:
                raise corrupt("its parts have the wrong types")
        for place in places:
            match place:
                case [int(number), name] if 0 <= number < before and is_name(name):
                    self._places.append((0, number, name))
                case _:
                    raise corrupt("its parts are invalid")
        self.size = size
        return size * len(places), gone

    def read(self) -> list[Group]:
        """Return the events of all parts; one store call, if any. Raises CorruptSnapshot.

        Raises CorruptSnapshot.
        """
        groups = self._pager.read_many(self._places) if self._places else []
        if any(group.count != self.size for group in groups):
            raise corrupt("the parts of its last leaf are of another size")
        return groups

    def belong(self, leaf: LastLeaf, gone: int) -> None:
        """Assign the parts to a leaf; ``gone`` events of the first part have left."""
        self._leaf, self._first = leaf, leaf.dropped - gone

    # --- verifying ------------------------------------------------------------------------------

    def pages(self, leaf: LastLeaf, first: int) -> Iterator[Named]:
        """Return every part as a snapshot names it, for a leaf that starts at this position."""
        of_use = self._of_use(leaf)
        for index, (level, number, name) in enumerate(self._places):
            begin = first + self._first + index * self.size - leaf.dropped
            needed = of_use.start <= index < of_use.stop
            yield Part(level, number, name, None, None, begin, begin + self.size, needed)

    def difference(self, group: Group) -> str | None:
        """Describe what is wrong with a readable part, apart from its times."""
        if group.count != self.size:
            return f"it has {group.count} events in place of {self.size}"
        return None

    def check(self, leaf: LastLeaf) -> None:
        """Assert that parts equal the leaf, reading each. Raises InvariantViolation."""
        of_use, schema = self._of_use(leaf), self._layout.schema
        for index, place in enumerate(self._places[of_use], of_use.start):
            start = self._first + index * self.size - leaf.dropped
            gone = max(0, -start)
            held = leaf.group(start + gone, start + self.size)
            found = _cut(schema, self._pager.read_again(*place), gone)
            one, other = (encode("", 0, 0, group, self._layout) for group in (found, held))
            if one != other:
                raise InvariantViolation(f"part {index} of the last leaf holds other events")


def _cut(schema: Schema, group: Group, start: int) -> Group:
    """Return a group from one of its events on."""
    times = None if group.times is None else group.times[start:]
    rows = schema.cut(group.rows, start, group.count)
    return Group(rows, times, [], group.count - start)
