"""Where sealed groups go, and when they are deleted.

One pager writes pages to a store, and another keeps groups in memory. Pages that a structure no
longer names are *retired*: they are deleted when no snapshot that may still be restored needs them.
In a snapshot:

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

#: A page's place: level, number of the group in that level, name.
Place = tuple[int, int, bytes]
#: A retired page, as it is in a snapshot.
Note = list[Any]
#: The level of pages that hold notes; no structure has so many levels.
NOTES = 255

#: The number of groups of a level that are remembered.
_LAST = 2


class Pager(ABC):
    """Stores the sealed groups of one window."""

    #: Whether ``prefetch`` does anything.
    reads_ahead = False
    #: How many leaf groups fit in addition to those in use, if it reads ahead.
    read_ahead = 0
    #: Whether the last group read was not in memory.
    waited = False

    @abstractmethod
    def write(self, groups: Sequence[tuple[int, int, Group]]) -> list[bytes]:
        """Store groups (level, number, group), all or none; return their names. One store call."""

    @abstractmethod
    def read(self, level: int, number: int, name: bytes) -> Group:
        """Return a group; one store call, but none for the last groups read of its level.

        Raises MissingPage or CorruptPage.
        """

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        """Return a group as it is in the store now; one store call. Raises as ``read``."""
        return self.read(level, number, name)

    def read_many(self, places: Sequence[Place]) -> list[Group]:
        """Return some groups; one store call for those not prefetched. Raises as ``read``."""
        return [self.read(*place) for place in places]

    @abstractmethod
    def delete(self, places: Sequence[Place]) -> None:
        """Delete groups, in this order; one store call. Missing ones are not an error."""

    def prefetch(self, places: Sequence[Place]) -> None:
        """Hint that these groups will be read soon; does not wait."""
        del places

    def prefetched(self, level: int, number: int, name: bytes) -> Group | None:
        """Return a group if it takes no store call; else, or if it is damaged, None."""
        del level, number, name
        return None


class ResidentPager(Pager):
    """Keeps groups in memory; values may be any objects."""

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
    """Writes groups as pages to a store, and reads and verifies them."""

    def __init__(self, store: PageStore, window: str, layout_of: Callable[[int], Layout]) -> None:
        self.store = store
        self._window = window
        self._layout_of = layout_of
        self._ahead_bytes = store.capabilities.read_ahead
        self.reads_ahead = self._ahead_bytes > 0
        #: By level, the last groups read, by their names. A search for a cut reads the path that
        #: the eviction then opens, or two paths for two policies.
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
        """A page as a group; the error where it is none, as the store waits meanwhile."""
        if data is None:
            return None
        if level == 0:
            self.read_ahead = self._ahead_bytes // max(len(data), 1)
        try:
            return page.decode(data, self._window, level, number, name, self._layout_of(level))
        except CorruptPage as error:
            return error.with_traceback(None)

    def _whole(self, key: str, group: Group | CorruptPage | None) -> Group:
        """Raises MissingPage and CorruptPage."""
        if group is None:
            raise MissingPage.of(key, self.store)
        if isinstance(group, CorruptPage):
            self.store.discard([key])  # it may be whole in the store, and damaged on its way here
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
        except CorruptPage:  # a reader of the page gets the error
            return None


class RetiredPages:
    """Retired pages by the number of snapshots taken before, the oldest first.

    ``below`` returns what is retired with a page, as notes; without it, nothing is.
    """

    def __init__(
        self, pager: Pager, below: Callable[[int, Group, int], Iterable[Note]] | None = None
    ) -> None:
        self._pager, self._below = pager, below
        #: Every snapshot starts another list: pages retired later are needed by one more.
        self._lists: list[list[Note]] = [[]]

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __iter__(self) -> Iterator[Note]:
        return (note for notes in self._lists for note in notes)

    @property
    def newest(self) -> list[Note]:
        """Return what has been retired since the last snapshot."""
        return self._lists[-1]

    def add(self, places: Iterable[Place], gone: int = 0) -> None:
        """Add pages that are no longer named."""
        self.newest.extend([*place, gone] for place in places)

    def hold(self) -> None:
        """A snapshot has been taken."""
        self._lists.append([])

    def delete(self, snapshots: int) -> None:
        """Delete what was retired before the last ``snapshots`` snapshots; with 0, everything.

        Children are deleted before parents. At most one store call, and reads of the pages with
        others below them. Missing pages are not an error, so an interrupted deletion can be
        repeated.
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
                    continue  # deleted already, or the names below are unknown
                yield from self._with_those_below(self._below(level, group, gone))
            yield level, number, name

    def state(self) -> list[list[Note]]:
        """Return the state for a snapshot."""
        return self._lists

    def restore(self, state: Any, most: int | None = None) -> None:
        """Load the state of a snapshot, for ``most`` earlier ones. Raises CorruptSnapshot.

        Raises CorruptSnapshot.
        """
        lists = isinstance(state, list) and all(isinstance(notes, list) for notes in state)
        if not lists or not state or (most is not None and len(state) > max(most, 1)):
            raise corrupt("its lists of retired pages are not one for each earlier snapshot")
        for notes in state:
            for note in notes:
                check_note(note)
                if note[3] and self._below is None:
                    raise corrupt("a note of a retired page names what is below it")
        self._lists = state


def check_note(note: Any) -> None:
    """Raises CorruptPage for an invalid note of a retired page."""
    if type(note) is not list or list(map(type, note)) != [int, int, bytes, int]:
        raise CorruptPage("the record of a retired page has the wrong type")
    level, number, name, gone = note
    if not (0 <= level <= MAX_LEVELS or level == NOTES) or number < 0 or gone < -1:
        raise CorruptPage("the record of a retired page is invalid")
    if level == 0 and gone:
        raise CorruptPage("the record of a retired leaf names children")
    if not is_name(name):
        raise CorruptPage("the record of a retired page has no name")
