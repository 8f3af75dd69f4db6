"""The open leaf group's events in pages of their own, which keep a snapshot small.

A snapshot holds the tails, and the leaves' tail may have thousands of events. What is written of it
never changes until the group is sealed, so it is cut into *parts*, and each full part is put in the
store once, before the first snapshot that would hold it. The snapshot names it:

    open leaf group     [v v v v | v v v v | v v . . | . . . .]       parts of four
    in the snapshot         name      name     v v

A part is a page of level 0 under its group's number. When the group is sealed all its parts are
*retired*: deleted once no snapshot that may still be restored names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mta.errors import InvariantViolation
from mta.logs.base import Named
from mta.logs.levels.queues import Levels, Tail
from mta.pages.page import Group, encode, is_name, part_rows
from mta.pages.pager import Place
from mta.pages.retired import RetiredPages
from mta.pages.snapshot import corrupt
from mta.times import are_in_order

#: How parts stand in a snapshot, if there are any: how many events one has, the names of the open
#: group's, and those retired since each of the snapshots that are kept.
State = list[Any]


class LeafParts:
    """Which parts of the open leaf group are in the store."""

    def __init__(self, levels: Levels, wanted: bool) -> None:
        self._levels = levels
        most = part_rows(levels.layout_of(0))
        #: How many events a part has, and how many one of the groups that are to come; 0 where a
        #: whole group is no more than one, and where none are wanted.
        self.size = self._to_come = most if wanted and most < levels.leaf_arity else 0
        self._number = 0
        self.names: list[bytes] = []
        #: Parts of groups that have been sealed.
        self.retired = RetiredPages(levels.pager)

    def __len__(self) -> int:
        """How many pages there are, the retired ones included."""
        return len(self.names) + len(self.retired)

    @property
    def events(self) -> int:
        """How many events of the open group they hold, from its first on."""
        return len(self.current) * self.size

    @property
    def current(self) -> list[bytes]:
        """The names of the open group's parts; none when it has been sealed."""
        return self.names if self._number == self._levels.tails[0].number else []

    # --- for snapshots ----------------------------------------------------------------------------

    def write(self) -> None:
        """Before a snapshot is taken: write the parts that became full; one store call, if any did.

        Retires those of a group that has been sealed. When the store fails, no part is added.
        """
        levels = self._levels
        tail = levels.tails[0]
        if self._number != tail.number:
            self._retire()
            self._number, self.size = tail.number, self._to_come
        size, done = self.size, self.events
        if size and tail.count - done >= size:
            starts = range(done, tail.count - size + 1, size)
            groups = [(0, tail.number, self._part(tail, start)) for start in starts]
            self.names = self.names + levels.pager.write(groups)

    def delete_all(self) -> None:
        """Delete every part."""
        self._retire()
        self.retired.delete(0)

    def _retire(self) -> None:
        self.retired.add(self.places())
        self.names = []

    def state(self, snapshots: int) -> State:
        """As a snapshot holds it that keeps so many; empty where there are no parts."""
        retired = self.retired.state(snapshots)
        return [self.size, self.current, retired] if self.current or any(retired) else []

    def restore(self, states: list[Any], number: int, count: int, snapshots: int) -> None:
        """Have what a snapshot says, if it says anything, of an open group of so many events.

        Raises CorruptSnapshot.
        """
        [state] = states or [[self.size, [], [[]] * snapshots]]
        match state:
            case [int(size), list(names), list(retired)] if all(map(is_name, names)):
                pass
            case _:
                raise corrupt("its parts have the wrong types")
        if size < bool(names) or len(names) * size > count:
            raise corrupt("it has more parts than its open leaf group has events")
        self.retired.restore(retired, snapshots)
        if any(level or group >= number for level, group, _ in self.retired):
            raise corrupt("its retired parts are of no leaf group that was sealed")
        self._number, self.names, self.size = number, names, size

    def places(self) -> list[Place]:
        """Where the open group's parts are."""
        return [(0, self._number, name) for name in self.names]

    def _part(self, tail: Tail, start: int) -> Group:
        """The part of the open group that begins at one of its events."""
        stop = start + self.size
        times = None if tail.times is None else tail.times[start:stop]
        rows = self._levels.monoid.inputs.cut(tail.rows, start, stop)
        return Group(rows, times, [], self.size)

    # --- verifying ------------------------------------------------------------------------------

    def pages(self) -> Iterator[Named]:
        """Every part as a snapshot names it."""
        size, arity, current = self.size, self._levels.leaf_arity, self.current
        for index, name in enumerate(current):
            begin = self._number * arity + index * size
            yield Named(0, self._number, name, None, None, begin, begin + size)
        for level, number, name in [*self.retired, *([] if current else self.places())]:
            begin = number * arity
            yield Named(level, number, name, None, None, begin, begin + arity, needed=False)

    def difference(self, named: Named, group: Group) -> str | None:
        """What is wrong with a part that can be read."""
        times = group.times
        if named.needed and group.count != self.size:
            return f"it has {group.count} events in place of {self.size}"
        if times is not None and not are_in_order(times):
            return "its times decrease"
        return None

    def check(self) -> None:
        """Assert that parts hold what the group does, reading each. Raises InvariantViolation."""
        levels, tail = self._levels, self._levels.tails[0]
        for index, name in enumerate(self.current):
            found = levels.pager.read_again(0, tail.number, name)
            held = self._part(tail, index * self.size)
            one, other = (encode("", 0, 0, g, levels.layout_of(0)) for g in (found, held))
            if one != other:
                raise InvariantViolation(f"part {index} of the open leaf group holds other events")
