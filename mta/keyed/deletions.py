"""Pending deletions: pages and whole windows to delete once no restorable snapshot needs them.

A merge leaves runs behind, and standalone windows are left when their keys expire. Earlier
snapshots still name them, and as many of these as ``retain`` may be restored while the next
snapshot is taken, which may fail. So they are deleted ``retain`` snapshots later. Until then
snapshots list them, in a group for each snapshot to come:

    pending   = array of [snapshots, array of entry]
    snapshots = after how many more snapshots these go
    entry  = bytes, the snapshot of a window
           | [number, level, below, names]: pages of a run; ``below`` if those below them go too,
             ``names`` the digests one after the other

However many there are, a snapshot has room: a group that is too large becomes pages of level LIST,
and its entry is one name. Of these "below" is what they list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mta.errors import CorruptPage
from mta.pages.page import NAME_BYTES

#: The level of pages that list pending deletions; no run is so high.
LIST = 15
#: What the groups in a snapshot may weigh, and what a page of a list weighs, in bytes.
ROOM, _LIST_BYTES = 1 << 13, 1 << 14


@dataclass(frozen=True, slots=True)
class PendingPages:
    """Pages of one level of a run, and with ``below`` all that these name."""

    number: int
    level: int
    names: list[bytes]
    below: bool = True


Entry = PendingPages | bytes


@dataclass(slots=True)
class PendingDeletions:
    """Entries since the last snapshot, and groups by how many snapshots they must outlive."""

    fresh: list[Entry] = field(default_factory=list)
    groups: list[tuple[int, list[Entry]]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.fresh or self.groups)

    def due(self) -> list[Entry]:
        """What goes with this snapshot."""
        return [entry for snapshots, entries in self.groups if snapshots <= 0 for entry in entries]

    def all(self) -> list[Entry]:
        """All pending deletions."""
        return [*self.fresh, *(entry for _, entries in self.groups for entry in entries)]

    @property
    def is_heavy(self) -> bool:
        """Whether all of it is too much for a snapshot."""
        return sum(map(_weight, self.all())) > ROOM

    def age(self, retain: int) -> None:
        """A snapshot is taken, and what was due is gone."""
        self.groups = [
            (snapshots - 1, entries) for snapshots, entries in self.groups if snapshots > 0
        ]
        if self.fresh:
            self.groups.append((retain - 1, self.fresh))
            self.fresh = []


def parts(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries as so many pages of a list."""
    found: list[list[Entry]] = []
    room = 0
    for entry in entries:
        weight = _weight(entry)
        if weight > room:
            found.append([])
            room = _LIST_BYTES
        found[-1].append(entry)
        room -= weight
    return found


def dump(entries: Sequence[Entry]) -> list[Any]:
    """Entries as plain data."""
    return [
        e if isinstance(e, bytes) else [e.number, e.level, e.below, b"".join(e.names)]
        for e in entries
    ]


def load(entries: Any, most: int) -> list[Entry]:
    """Plain data as entries, of runs up to a height. Raises CorruptPage."""
    if not isinstance(entries, list):
        raise CorruptPage("the pending deletions are no list")
    return [_entry(entry, most) for entry in entries]


def _entry(entry: Any, most: int) -> Entry:
    match entry:
        case bytes():
            return entry
        case [int(number), int(level), bool(below), bytes(names)]:
            fits = number >= 0 and (0 <= level <= most or level == LIST)
            if fits and not len(names) % NAME_BYTES:
                digests = [names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES)]
                return PendingPages(number, level, digests, below)
    raise CorruptPage("an entry of the pending deletions cannot be")


def _weight(entry: Entry) -> int:
    return len(entry) + 5 if isinstance(entry, bytes) else NAME_BYTES * len(entry.names) + 20
