"""Pagers: where sealed groups go. One puts pages into a store, one keeps groups in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from mta.errors import CorruptPage, MissingPage
from mta.pages import page
from mta.pages.page import NO_NAME, Group, Layout
from stores import PageStore

#: A page's place: level, number of the group in that level, name.
Place = tuple[int, int, bytes]


#: So many groups of a level are remembered.
_LAST = 2


class Pager(ABC):
    """Keeps the sealed groups of one window."""

    #: Whether ``prefetch`` does anything.
    reads_ahead = False
    #: How many leaf groups it can keep beside those that are in use, if it reads ahead.
    read_ahead = 0
    #: Whether the group that was read last had to be waited for.
    waited = False

    @abstractmethod
    def write(self, groups: Sequence[tuple[int, int, Group]]) -> list[bytes]:
        """Keep groups (level, number, group), all or none; return their names. One store call."""

    @abstractmethod
    def read(self, level: int, number: int, name: bytes) -> Group:
        """One group; one store call, but none for one of those of its level that were read last.

        Raises MissingPage or CorruptPage.
        """

    def read_again(self, level: int, number: int, name: bytes) -> Group:
        """One group as it is in the store now; one store call. Raises as ``read``."""
        return self.read(level, number, name)

    def read_many(self, places: Sequence[Place]) -> list[Group]:
        """Some groups; one store call for those that are not prefetched. Raises as ``read``."""
        return [self.read(*place) for place in places]

    @abstractmethod
    def delete(self, places: Sequence[Place]) -> None:
        """Forget groups, in this order; one store call. Those already gone are no error."""

    def prefetch(self, places: Sequence[Place]) -> None:
        """Say that these groups will be read soon; no waiting."""
        del places

    def prefetched(self, level: int, number: int, name: bytes) -> Group | None:
        """One group, if it takes no store call; else, or when it is damaged, None."""
        del level, number, name
        return None


class ResidentPager(Pager):
    """Keeps groups as they are, in memory; values may be any objects."""

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
    """Writes groups as pages into a store and reads them back, verified."""

    def __init__(self, store: PageStore, window: str, layout_of: Callable[[int], Layout]) -> None:
        self.store = store
        self._window = window
        self._layout_of = layout_of
        self._ahead_bytes = store.capabilities.read_ahead
        self.reads_ahead = self._ahead_bytes > 0
        #: By level, the groups that were read last, by their names. A search for a cut reads the
        #: path that the eviction then opens, or two where two policies are asked.
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
        if missing:
            found |= dict(zip(missing, self.store.get_many(missing), strict=True))
        pairs = zip(places, keys, strict=True)
        return [self._opened(*place, key, found[key]) for place, key in pairs]

    def _opened(self, level: int, number: int, name: bytes, key: str, data: bytes | None) -> Group:
        if data is None:
            raise MissingPage.of(key, self.store)
        if level == 0:
            self.read_ahead = self._ahead_bytes // max(len(data), 1)
        try:
            return page.decode(data, self._window, level, number, name, self._layout_of(level))
        except CorruptPage:
            self.store.discard([key])  # it may be whole in the store, and damaged on its way here
            raise

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
        except CorruptPage:  # whoever reads it gets the error
            return None
