"""The packs in one folder, as known to one process: where each page is, and which are deleted.

The catalog makes no requests; ``pack_folder`` fills it. Invariants:

1. A pack is in ``packs`` while its object is known to exist. Names of removed packs stay in
   ``_gone`` for a while, so that a list or a late listing that still has them does not restore
   them.
2. A page is readable if some pack has an entry for it whose number is not in ``Pack.deleted``. The
   same page may be in several packs, because a replay puts it again; a delete marks every copy.
3. A deletion is in ``pending`` until an object records it: the index of the next pack, or a list.
4. The object of a pack may be removed once all its entries are deleted, and the deletions in other
   packs that it records are also in a list, or those packs are gone (``removable``).
5. Deletions name a pack and a number, not a key: a page that is put again after its delete is a new
   entry, for all processes and in whatever order they read the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .packs import Deleted, Entry, Listed, PackIndex

_GONE = 10_000  # how many names of removed packs are remembered


@dataclass(slots=True, eq=False)
class Pack:
    """A pack, described by its index and later deletions."""

    name: str
    size: int
    entries: list[Entry]
    says: dict[str, list[int]]
    """Deletions in other packs that this pack's index records."""
    deleted: set[int] = field(default_factory=set)
    listed: bool = False
    """Whether a list repeats this pack and the deletions in it."""
    was_read: bool = False
    """Whether this process has read pages of this pack."""

    def live(self) -> Iterator[Entry]:
        """Return the entries that are not deleted."""
        return (each for at, each in enumerate(self.entries) if at not in self.deleted)

    def live_bytes(self) -> int:
        """Return the bytes of the entries that are not deleted."""
        return sum(entry.length for entry in self.live())


@dataclass(slots=True)
class _List:
    """A list that is in the store."""

    names: set[str]
    entries: int
    says: dict[str, list[int]]


class Catalog:
    """The packs of one folder. Not thread-safe: callers need the folder's lock."""

    def __init__(self) -> None:
        self.packs: dict[str, Pack] = {}
        self.pending: dict[str, set[int]] = {}
        self._copies: dict[str, list[tuple[Pack, int]]] = {}
        self._dead: dict[str, Pack] = {}
        self._lists: dict[str, _List] = {}
        #: While objects are being added: deletions in packs that are not known yet.
        self._early: dict[str, set[int]] = {}
        self._gone: dict[str, None] = {}

    # --- look-ups -------------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        """Return whether a pack or list is known to exist, or known to be removed."""
        return name in self.packs or name in self._lists or name in self._gone

    def find(self, key: str) -> tuple[str, Entry] | None:
        """Return the pack of a page and its place there, None if no known pack has the page."""
        for pack, at in reversed(self._copies.get(key, ())):
            if at not in pack.deleted:
                return pack.name, pack.entries[at]
        return None

    def keys(self, prefix: str) -> list[str]:
        """Return the keys of all readable pages with a prefix."""
        return [key for key in self._copies if key.startswith(prefix) and self.find(key)]

    def unlisted(self) -> int:
        """Return how many packs no list repeats; O(packs)."""
        return sum(not pack.listed for pack in self.packs.values())

    def names(self) -> set[str]:
        """Return the names of all known packs and lists."""
        return self.packs.keys() | self._lists.keys()

    # --- adding and removing packs --------------------------------------------------------------

    def add(self, name: str, size: int, index: PackIndex) -> None:
        """Add a pack whose object exists."""
        if name not in self.packs:
            self._add(Pack(name, size, index.entries, index.deleted))
            self._mark(index.deleted)

    def add_list(
        self,
        name: str,
        packs: Sequence[Listed],
        says: dict[str, list[int]],
        exists: Callable[[str], bool],
    ) -> None:
        """Add a list whose object exists, with those packs in it that exist."""
        for each in packs:
            if each.name not in self.packs and each.name not in self._gone and exists(each.name):
                self._add(Pack(each.name, each.size, each.entries, {}))
            self._mark({each.name: each.deleted})
            if each.name in self.packs:
                self.packs[each.name].listed = True
        self._mark(says)
        entries = sum(len(each.entries) for each in packs)
        self._lists[name] = _List({each.name for each in packs}, entries, says)

    def apply_deletions(self) -> None:
        """Apply the deletions that objects record, once all objects of a listing are added."""
        known: list[Pack | _List] = [*self.packs.values(), *self._lists.values()]
        for each in known:
            self._mark(each.says)
        self._early.clear()

    def remove(self, name: str) -> None:
        """Remove a pack or list whose object has been removed."""
        self._gone[name] = None
        while len(self._gone) > _GONE:
            del self._gone[next(iter(self._gone))]
        self._lists.pop(name, None)
        self.pending.pop(name, None)
        self._dead.pop(name, None)
        pack = self.packs.pop(name, None)
        for each in pack.entries if pack is not None else ():
            copies = [copy for copy in self._copies[each.key] if copy[0] is not pack]
            if copies:
                self._copies[each.key] = copies
            else:
                del self._copies[each.key]

    def _add(self, pack: Pack) -> None:
        self.packs[pack.name] = pack
        pack.deleted |= self._early.pop(pack.name, set())
        for at, entry in enumerate(pack.entries):
            self._copies.setdefault(entry.key, []).append((pack, at))
        self._note_if_dead(pack)

    def _mark(self, says: Deleted) -> None:
        for name, numbers in says.items():
            pack = self.packs.get(name)
            if pack is not None:
                pack.deleted.update(at for at in numbers if at < len(pack.entries))
                self._note_if_dead(pack)
            elif name not in self._gone:
                self._early.setdefault(name, set()).update(numbers)

    def _note_if_dead(self, pack: Pack) -> None:
        if len(pack.deleted) == len(pack.entries):
            self._dead[pack.name] = pack

    # --- deletions ------------------------------------------------------------------------------

    def delete(self, key: str) -> bool:
        """Mark every copy of a page as deleted; return whether any copy is known."""
        copies = self._copies.get(key, [])
        for pack, at in copies:
            if at not in pack.deleted:
                pack.deleted.add(at)
                self.pending.setdefault(pack.name, set()).add(at)
                self._note_if_dead(pack)
        return bool(copies)

    def take_pending(self) -> dict[str, list[int]]:
        """Take the deletions that no object records; after a failure, call ``restore_pending``."""
        pending, self.pending = self.pending, {}
        return {name: sorted(numbers) for name, numbers in pending.items()}

    def restore_pending(self, pending: Deleted) -> None:
        """Make these deletions pending again."""
        for name, numbers in pending.items():
            if name in self.packs:
                self.pending.setdefault(name, set()).update(numbers)

    def removable(self) -> list[str]:
        """Return the packs whose objects are no longer needed."""
        there = self.packs.keys()
        return [p.name for p in self._dead.values() if p.listed or there.isdisjoint(p.says)]

    def empty_lists(self) -> list[str]:
        """Return the lists that say nothing about existing packs."""
        there = self.packs.keys()
        return [
            name
            for name, each in self._lists.items()
            if there.isdisjoint(each.names) and there.isdisjoint(each.says)
        ]

    # --- lists ----------------------------------------------------------------------------------

    def next_list(
        self, *, whole: bool = False
    ) -> tuple[list[Listed], dict[str, list[int]], list[str]]:
        """Return the packs of the next list, deletions in other packs, and the lists it replaces.

        It has the unlisted packs, and the packs of each list that it replaces: those at most twice
        as large as the content so far. So there are O(log n) lists, and an entry is rewritten
        O(log n) times. ``whole`` replaces all lists.
        """
        packs = {pack.name: pack for pack in self.packs.values() if whole or not pack.listed}
        size = sum(len(pack.entries) for pack in packs.values())
        says = {name for pack in packs.values() for name in pack.says}
        replaces = []
        for name, each in sorted(self._lists.items(), key=lambda item: item[1].entries):
            if not whole and each.entries > 2 * size:
                break
            replaces.append(name)
            size += each.entries
            says |= each.says.keys()
            packs |= {name: self.packs[name] for name in each.names if name in self.packs}
        records = [Listed(p.name, p.size, p.entries, sorted(p.deleted)) for p in packs.values()]
        return records, self._deletions_in(says - packs.keys()), replaces

    def said_by(self, packs: Collection[Pack]) -> dict[str, list[int]]:
        """Return the deletions in remaining packs that the packs to be replaced record."""
        says = {name for pack in packs for name in pack.says}
        return self._deletions_in(says - {pack.name for pack in packs})

    def _deletions_in(self, names: Iterable[str]) -> dict[str, list[int]]:
        return {name: sorted(self.packs[name].deleted) for name in names if name in self.packs}

    # --- compaction -----------------------------------------------------------------------------

    def wasteful(self, small: int) -> list[Pack]:
        """Return packs to rewrite, oldest first: with deleted pages, or smaller than ``small``.

        A single small pack is not worth rewriting: it would only be copied.
        """
        holed = [pack for pack in self.packs.values() if pack.deleted]
        little = [p for p in self.packs.values() if not p.deleted and p.live_bytes() < small]
        both = holed + (little if len(holed) + len(little) > 1 else [])
        return sorted(both, key=lambda pack: pack.name)
