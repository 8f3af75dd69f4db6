"""How sealed groups are stored, read and deleted.

``StorePager`` writes groups as pages to a store; ``ResidentPager`` keeps groups in memory. A page
that a structure no longer references is *retired*: it is deleted once no snapshot that may still be
restored needs it. A snapshot stores retired pages as follows:

    retired  = array of arrays of notes: for each earlier snapshot that may still be restored, the
               pages that were retired before the next snapshot
    note     = [level, number, name, gone]
    gone     = number of the page's subtrees whose pages are all retired as well; -1 for all
               subtrees
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mta.errors import CorruptPage, MissingPage
from mta.pages import page
from mta.pages.page import NO_NAME, Group, Layout, is_name
from mta.pages.snapshot import MAX_LEVELS, corrupt
from stores import PageStore

#: The location of a page: its level, the number of its group in that level, and its name.
Place = tuple[int, int, bytes]
#: A retired page, as stored in a snapshot.
Note = list[Any]
#: The level of pages that contain notes; no structure has this many levels.
NOTES = 255

#: How many of the groups last read from each level stay in memory.
_LAST = 2


class Pager(ABC):
    """Stores the sealed groups of one window."""

    #: Whether ``prefetch`` has an effect.
    reads_ahead = False
    #: If ``reads_ahead``, how many prefetched leaf groups fit in memory.
    read_ahead = 0
    #: Whether the last read waited for the store.
    waited = False

    @abstractmethod
    def write(self, groups: Sequence[tuple[int, int, Group]]) -> list[bytes]:
        """Store all groups (level, number, group) or none; return their names. One store call."""

    @abstractmethod
    def read(self, level: int, number: int, name: bytes) -> Group:
        """Return a group. One store call, or none for the last groups read of its level.

        Raises MissingPage or CorruptPage.
        """

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        """Return a group, read again from the store. One store call. Raises as ``read`` does."""
        return self.read(level, number, name)

    def read_many(self, places: Sequence[Place]) -> list[Group]:
        """Return groups. One store call for those not prefetched. Raises as ``read`` does."""
        return [self.read(*place) for place in places]

    @abstractmethod
    def delete(self, places: Sequence[Place]) -> None:
        """Delete groups in this order. One store call. Missing groups are not an error."""

    def prefetch(self, places: Sequence[Place]) -> None:
        """Announce that these groups will be read soon. Does not wait."""
        del places

    def prefetched(self, level: int, number: int, name: bytes) -> Group | None:
        """Return a group if no store call is needed and it is undamaged, else None."""
        del level, number, name
        return None


class ResidentPager(Pager):
    """Keeps groups in memory. Values may be any objects."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], Group] = {}

    def write(self, groups: Sequence[tuple[int, int, Group]]) -> list[bytes]:
        for level, number, group in groups:
            self._groups[level, number] = Group(group.rows, group.times, group.names, group.count)
        return [b"in memory".ljust(page.NAME_BYTES)] * len(groups)

    def read(self, level: int, number: int, name: bytes) -> Group:
        return self._groups[level, number]

    def delete(self, places: Sequence[Place]) -> None:
        for level, number, _ in places:
            self._groups.pop((level, number), None)


class StorePager(Pager):
    """Writes groups as pages to a store, and verifies the pages that it reads."""

    def __init__(self, store: PageStore, window: str, layout_of: Callable[[int], Layout]) -> None:
        self.store = store
        self._window = window
        self._layout_of = layout_of
        self._ahead_bytes = store.capabilities.read_ahead
        self.reads_ahead = self._ahead_bytes > 0
        #: The last groups read of each level, with their names: after a search for a cut, the
        #: eviction reads the same path, or two paths for two policies.
        self._last: dict[int, list[tuple[bytes, Group]]] = {}

    def write(self, groups: Sequence[tuple[int, int, Group]]) -> list[bytes]:
        names, pages = [], {}
        for level, number, group in groups:
            data = page.encode(self._window, level, number, group, self._layout_of(level))
            name = page.name_of(data)
            pages[page.key_of(self._window, level, number, name)] = data
            names.append(name)
        self.store.put_many(pages)
        return names

    def read(self, level: int, number: int, name: bytes) -> Group:
        last = self._last.get(level, [])
        for known, group in last:
            if known == name:
                return group
        group = self.read_again(level, number, name)
        self._last[level] = [(name, group), *last[: _LAST - 1]]
        return group

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        return self.read_many([(level, number, name)])[0]

    def read_many(self, places: Sequence[Place]) -> list[Group]:
        keys = [page.key_of(self._window, *place) for place in places]
        found = {key: self.store.peek(key) for key in keys} if self.reads_ahead else {}
        missing = [key for key in keys if found.get(key) is None]
        self.waited = bool(missing)
        place_of = dict(zip(keys, places, strict=True))

        def opened(pages: Mapping[str, Any]) -> dict[str, Group | CorruptPage | None]:
            return {key: self._opened(*place_of[key], data) for key, data in pages.items()}

        groups = opened({key: data for key, data in found.items() if data is not None})
        if missing:
            groups |= self.store.view_many(
                missing, lambda pages: opened(dict(zip(missing, pages, strict=True)))
            )
        return [self._whole(key, groups[key]) for key in keys]

    def _opened(
        self, level: int, number: int, name: bytes, data: bytes | memoryview | None
    ) -> Group | CorruptPage | None:
        """Decode a page; return an error instead of raising it, as the store is still waiting."""
        if data is None:
            return None
        if level == 0:
            self.read_ahead = self._ahead_bytes // max(len(data), 1)
        try:
            return page.decode(data, self._window, level, number, name, self._layout_of(level))
        except CorruptPage as error:
            return error.with_traceback(None)

    def _whole(self, key: str, group: Group | CorruptPage | None) -> Group:
        """Return the group, or raise MissingPage or CorruptPage."""
        if group is None:
            raise MissingPage.of(key, self.store)
        if isinstance(group, CorruptPage):
            self.store.discard([key])  # the page in the store may be whole, and only this copy bad
            raise group
        return group

    def delete(self, places: Sequence[Place]) -> None:
        keys = [page.key_of(self._window, *place) for place in places if place[2] != NO_NAME]
        if keys:
            self.store.delete_many(keys)

    def prefetch(self, places: Sequence[Place]) -> None:
        self.store.prefetch([page.key_of(self._window, *place) for place in places])

    def prefetched(self, level: int, number: int, name: bytes) -> Group | None:
        data = self.store.peek(page.key_of(self._window, level, number, name))
        if data is None:
            return None
        try:
            return page.decode(data, self._window, level, number, name, self._layout_of(level))
        except CorruptPage:  # ``read`` raises this error
            return None


class RetiredPages:
    """The retired pages, in one list per snapshot, the oldest first.

    ``below`` returns the notes of the pages that are retired together with a page, if any.
    """

    def __init__(
        self, pager: Pager, below: Callable[[int, Group, int], Iterable[Note]] | None = None
    ) -> None:
        self._pager, self._below = pager, below
        #: Each snapshot starts a new list, because it needs the pages that are retired after it.
        self._lists: list[list[Note]] = [[]]

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __iter__(self) -> Iterator[Note]:
        return (note for notes in self._lists for note in notes)

    @property
    def newest(self) -> list[Note]:
        """The notes since the last snapshot."""
        return self._lists[-1]

    def add(self, places: Iterable[Place], gone: int = 0) -> None:
        """Add pages that the structure no longer references."""
        self.newest.extend([*place, gone] for place in places)

    def hold(self) -> None:
        """Start a new list, because a snapshot was taken."""
        self._lists.append([])

    def delete(self, snapshots: int) -> None:
        """Delete the pages retired before the last ``snapshots`` snapshots; with 0, all of them.

        At most one store call, plus reads of pages that have retired children. Children are deleted
        before parents, and missing pages are no error, so you can repeat an interrupted deletion.
        """
        going = self._lists[: max(0, len(self._lists) - snapshots)]
        places = [place for notes in going for place in self._with_those_below(notes)]
        if places:
            self._pager.delete(places)
        self._lists = self._lists[len(going) :] if snapshots else [[]]

    def _with_those_below(self, notes: Iterable[Note]) -> Iterator[Place]:
        for level, number, name, gone in notes:
            if gone and self._below is not None:
                try:
                    group = self._pager.read(level, number, name)
                except (MissingPage, CorruptPage):
                    continue  # the page is deleted already, or its children are unknown
                yield from self._with_those_below(self._below(level, group, gone))
            yield level, number, name

    def state(self) -> list[list[Note]]:
        return self._lists

    def restore(self, state: Any, most: int | None = None) -> None:
        """Load the lists of a snapshot, at most ``most``. Raises CorruptPage or CorruptSnapshot."""
        lists = isinstance(state, list) and all(isinstance(notes, list) for notes in state)
        if not lists or not state or (most is not None and len(state) > max(most, 1)):
            raise corrupt("it does not have one list of retired pages for each earlier snapshot")
        for notes in state:
            for note in notes:
                check_note(note)
                if note[3] and self._below is None:
                    raise corrupt("a note of a retired page names what is below it")
        self._lists = state


def check_note(note: Any) -> None:
    """Raise CorruptPage for an invalid note of a retired page."""
    if type(note) is not list or list(map(type, note)) != [int, int, bytes, int]:
        raise CorruptPage("the record of a retired page has the wrong type")
    level, number, name, gone = note
    if not (0 <= level <= MAX_LEVELS or level == NOTES) or number < 0 or gone < -1:
        raise CorruptPage("the record of a retired page is invalid")
    if level == 0 and gone:
        raise CorruptPage("the record of a retired leaf names children")
    if not is_name(name):
        raise CorruptPage("the record of a retired page has no name")
