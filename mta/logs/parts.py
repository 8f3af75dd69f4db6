"""Parts: pages with events of the last leaf, which keep a snapshot small.

A snapshot includes the open leaf group of level queues, or the last leaf of a tree. Either may have
thousands of events. The events that no longer change are cut into *parts*. Each full part is
written to the store once, before the first snapshot that includes it. Snapshots only name the part:

    last leaf          . v v v | v v v v | v v v v | v v . .      parts of four; one event evicted
    in the snapshot        part      part      part    v v

    parts    = [size, gone, places], or [] if there are none
    size     = number of events in a part
    gone     = number of evicted events of the first part
    places   = array of [number, name]

A part is a page of level 0. In level queues, it has the number of its group; in a tree, it has a
separate number. A part is *retired* with the first snapshot that does not name it: when all its
events were evicted, when a late event was inserted before its end, or when its leaf is no longer
the last leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from mta.columns.schemas import Schema
from mta.errors import InvariantViolation
from mta.logs.base import Named
from mta.pages import (
    Group,
    Layout,
    Pager,
    Place,
    RetiredPages,
    corrupt,
    encode,
    is_name,
    part_rows,
)


@dataclass(frozen=True, slots=True)
class Part(Named):
    """A part of the last leaf."""


class LastLeaf(Protocol):
    """The events of the last leaf, oldest first."""

    count: int
    #: How many were evicted.
    dropped: int
    #: How many events from the start, including evicted events, have not changed since this was
    #: last set.
    unchanged: int

    def group(self, start: int, stop: int) -> Group:
        """Return remaining events, from index ``start`` to ``stop``."""


class LeafParts:
    """The parts that contain the first events of the last leaf.

    A leaf has fewer than ``most`` events. There are no parts if their size would be ``most`` or
    more.
    """

    def __init__(self, pager: Pager, layout: Layout, most: int, retired: RetiredPages) -> None:
        self._pager, self._layout, self._retired = pager, layout, retired
        size = part_rows(layout)
        #: The number of events in each existing part, and in each future part; 0 without parts.
        self.size = self._to_come = size if size < most else 0
        #: The places of the parts, the leaf that they were cut from, and the index of their first
        #: event in it, including evicted events.
        self._places: list[Place] = []
        self._leaf: LastLeaf | None = None
        self._first = 0

    def __len__(self) -> int:
        return len(self._places)

    def held(self, leaf: LastLeaf) -> int:
        """Return how many events of the last leaf are in written parts."""
        if leaf is not self._leaf or not self._places:
            return 0
        return self._first + len(self._places) * self.size - leaf.dropped

    def _of_use(self, leaf: LastLeaf) -> slice:
        """Return the range of the parts that still match the last leaf."""
        if leaf is not self._leaf or not self._places:
            return slice(0, 0)
        gone, same = leaf.dropped - self._first, leaf.unchanged - self._first
        return slice(gone // self.size, max(gone, same) // self.size)

    # --- for snapshots ----------------------------------------------------------------------------

    def write(self, leaf: LastLeaf, numbers: Iterator[int]) -> int:
        """Write the parts that became full since the last snapshot, and return how many.

        They get the next ``numbers``. Parts that no longer match the leaf are retired. One store
        call if a part is written. If the store fails, nothing changes.
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
        """Retire all parts, because no last leaf remains."""
        self._retired.add(self._places)
        self._places, self._leaf = [], None

    def state(self, leaf: LastLeaf) -> list[Any]:
        """Return the state for a snapshot; empty if there are no parts."""
        if not self._places:
            return []
        places = [[number, name] for _, number, name in self._places]
        return [self.size, leaf.dropped - self._first, places]

    def restore(self, state: Any, before: int) -> tuple[int, int]:
        """Restore the parts that a snapshot names, whose pages have numbers below ``before``.

        Returns how many events they have, and how many of these were evicted. Call ``belong`` next
        to assign the parts to a leaf. Raises CorruptSnapshot.
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
        """Return the events of all parts. At most one store call. Raises CorruptSnapshot."""
        groups = self._pager.read_many(self._places) if self._places else []
        if any(group.count != self.size for group in groups):
            raise corrupt("the parts of its last leaf are of another size")
        return groups

    def belong(self, leaf: LastLeaf, gone: int) -> None:
        """Assign the parts to a leaf; ``gone`` events of the first part were evicted."""
        self._leaf, self._first = leaf, leaf.dropped - gone

    # --- verifying ------------------------------------------------------------------------------

    def pages(self, leaf: LastLeaf, first: int) -> Iterator[Named]:
        """Yield every part that a snapshot names; the leaf starts at position ``first``."""
        of_use = self._of_use(leaf)
        for index, (level, number, name) in enumerate(self._places):
            begin = first + self._first + index * self.size - leaf.dropped
            needed = of_use.start <= index < of_use.stop
            yield Part(level, number, name, None, None, begin, begin + self.size, needed)

    def difference(self, group: Group) -> str | None:
        """Describe what is wrong with a readable part, except for its times, or return None."""
        if group.count != self.size:
            return f"it has {group.count} events instead of {self.size}"
        return None

    def check(self, leaf: LastLeaf) -> None:
        """Assert that the parts equal the leaf, reading each. Raises InvariantViolation."""
        of_use, schema = self._of_use(leaf), self._layout.schema
        for index, place in enumerate(self._places[of_use], of_use.start):
            start = self._first + index * self.size - leaf.dropped
            gone = max(0, -start)
            held = leaf.group(start + gone, start + self.size)
            found = _cut(schema, self._pager.read_again(*place), gone)
            one, other = (encode("", 0, 0, group, self._layout) for group in (found, held))
            if one != other:
                raise InvariantViolation(f"part {index} of the last leaf contains other events")


def _cut(schema: Schema, group: Group, start: int) -> Group:
    """Return the events of a group from ``start`` on."""
    times = None if group.times is None else group.times[start:]
    rows = schema.cut(group.rows, start, group.count)
    return Group(rows, times, [], group.count - start)
