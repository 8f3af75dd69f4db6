"""The last leaf's events in pages of their own, which keep a snapshot small.

A snapshot holds the root and the right spine, whose leaf may have thousands of events. Those that
stay as they are for long are cut into *parts*, as the open leaf group of level queues is; each is
put in the store once, before the first snapshot that would hold it, and the snapshot names it:

    last leaf          . v v v | v v v v | v v v v | v v . .      parts of four; one event has left
    in the snapshot        part      part      part    v v

A part is a page of level 0 under a number of its own. It is *retired*, as all pages of the tree
are, as soon as a snapshot is taken that does not name it: when all its events have left, when a
late event has come before its end, and when the leaf is no longer the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mta.errors import InvariantViolation
from mta.logs.base import Named
from mta.logs.finger_tree.node import Node, RowBuffer
from mta.logs.finger_tree.node_cache import PagedNodeCache
from mta.pages.page import Group, encode, is_name, part_rows
from mta.pages.snapshot import corrupt


@dataclass(frozen=True, slots=True)
class Part(Named):
    """A part of the last leaf."""


class LastLeafParts:
    """Which events of the last leaf are in parts, from its first one on."""

    def __init__(self, cache: PagedNodeCache, leaf_arity: int) -> None:
        self._cache, self._layout = cache, cache.kind.layout_of(0)
        most = part_rows(self._layout)
        #: How many events a part has, and how many one that is to come; 0 where no leaf has more.
        self.size = self._to_come = most if most < 2 * leaf_arity else 0
        #: The parts' numbers and names; the events they are of, as they were then; and of these,
        #: counted with those dropped, the first.
        self._places: list[tuple[int, bytes]] = []
        self._rows: RowBuffer | None = None
        self._first = 0

    def __len__(self) -> int:
        return len(self._places)

    def held(self, leaf: Node) -> int:
        """How many events of the last leaf are in parts, once these have been written."""
        rows = leaf.entries
        return self._first + len(self._places) * self.size - rows.dropped if self._places else 0

    def _of_use(self, rows: RowBuffer) -> slice:
        """Which parts still hold what the last leaf does."""
        if rows is not self._rows or not self._places:
            return slice(0, 0)
        gone, same = rows.dropped - self._first, rows.unchanged - self._first
        return slice(gone // self.size, max(gone, same) // self.size)

    # --- for snapshots ----------------------------------------------------------------------------

    def write(self, leaf: Node) -> None:
        """Before a snapshot is taken: write the parts that became full; one store call, if any did.

        Retires those that are of no use any more. When the store fails, nothing has changed.
        """
        rows, of_use = leaf.entries, self._of_use(leaf.entries)
        kept = self._places[of_use]
        first, size = self._first + of_use.start * self.size, self.size
        if not kept:
            first, size = rows.dropped, self._to_come
        start = first + len(kept) * size - rows.dropped
        starts = range(start, rows.count - size + 1, size) if size else ()
        cache = self._cache
        groups = [(0, cache.serial + i, _cut(leaf, at, size)) for i, at in enumerate(starts)]
        names = cache.pager.write(groups) if groups else []
        if groups or len(kept) < len(self._places):
            leaf.saved = None
        new = [(number, name) for (_, number, _), name in zip(groups, names, strict=True)]
        self._retire(self._places[: of_use.start] + self._places[of_use.start + len(kept) :])
        cache.serial += len(groups)
        self._places, self._first, self.size = kept + new, first, size
        self._rows, rows.unchanged = rows, rows.dropped + rows.count

    def retire_all(self) -> None:
        """There is no last leaf any more."""
        self._retire(self._places)
        self._places, self._rows = [], None

    def _retire(self, places: list[tuple[int, bytes]]) -> None:
        self._cache.retired.extend([0, number, name, 0] for number, name in places)

    def state(self, leaf: Node) -> list[Any]:
        """As a snapshot holds it: size, how many events of the first part have left, and the parts.

        Empty without parts.
        """
        if not self._places:
            return []
        places = [[number, name] for number, name in self._places]
        return [self.size, leaf.entries.dropped - self._first, places]

    def restore(self, state: list[Any], leaf: Node) -> None:
        """Put the events of the parts that a snapshot names before those it has of the last leaf.

        One store call, if there are any. Raises CorruptSnapshot, and as a page that is read.
        """
        match state:
            case []:
                return
            case [int(size), int(gone), [_, *_] as places] if 0 <= gone < size:
                pass
            case _:
                raise corrupt("its parts have the wrong types")
        if not all(map(self._may_be, places)):
            raise corrupt("its parts are invalid")
        groups = self._cache.pager.read_many([(0, number, name) for number, name in places])
        if any(group.count != size for group in groups):
            raise corrupt("the parts of its last leaf are of another size")
        entries, at = leaf.entries, 0
        schema, count = entries.schema, size * len(groups)
        rows = schema.new(count)
        for group in groups:
            schema.put_many(rows, at, (group.times, group.rows))
            at += size
        entries.extend_front(schema.cut(rows, gone, count), count - gone)
        entries.unchanged = entries.dropped + entries.count
        self._rows, self._first, self.size = entries, entries.dropped - gone, size
        self._places = [(number, name) for number, name in places]

    def _may_be(self, place: Any) -> bool:
        """Whether a snapshot may name a part so."""
        match place:
            case [int(number), name]:
                return 0 <= number < self._cache.serial and is_name(name)
        return False

    # --- verifying ------------------------------------------------------------------------------

    def pages(self, leaf: Node, first: int) -> Iterator[Named]:
        """Every part as a snapshot names it, of a leaf whose first event has this position."""
        of_use = self._of_use(leaf.entries)
        for index, (number, name) in enumerate(self._places):
            begin = first + self._first + index * self.size - leaf.entries.dropped
            needed = of_use.start <= index < of_use.stop
            yield Part(0, number, name, None, None, begin, begin + self.size, needed)

    def difference(self, group: Group) -> str | None:
        """What is wrong with a part that can be read, its times aside."""
        if group.count != self.size:
            return f"it has {group.count} events in place of {self.size}"
        return None

    def check(self, leaf: Node) -> None:
        """Assert that parts hold what the leaf does, reading each. Raises InvariantViolation."""
        rows, of_use = leaf.entries, self._of_use(leaf.entries)
        for index in range(of_use.start, of_use.stop):
            number, name = self._places[index]
            start = self._first + index * self.size - rows.dropped
            gone = max(0, -start)
            page = self._cache.to_node(0, self._cache.pager.read_again(0, number, name))
            pair = _cut(page, gone, self.size - gone), _cut(leaf, start + gone, self.size - gone)
            one, other = (encode("", 0, 0, group, self._layout) for group in pair)
            if one != other:
                raise InvariantViolation(f"part {index} of the last leaf holds other events")


def _cut(leaf: Node, start: int, size: int) -> Group:
    """Some events of a leaf."""
    stop = start + size
    return Group(leaf.values(start, stop), leaf.times[start:stop], [], size)
