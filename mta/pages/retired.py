"""Pages that a structure names no longer, kept until no handle that may be restored needs them.

In a handle, for each of the earlier handles that are kept: the pages that were retired since it was
taken, each as [level, group, name].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mta.pages.handle import MAX_LEVELS, corrupt
from mta.pages.page import is_name
from mta.pages.pager import Pager, Place


class RetiredPages:
    """Pages by how many handles were taken before they were retired, the oldest first."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        #: Every handle begins another list: what is lost from then on is needed by one more.
        self._lists: list[list[Place]] = [[]]

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __iter__(self) -> Iterator[Place]:
        return (place for places in self._lists for place in places)

    def add(self, places: Iterable[Place]) -> None:
        """These are named no longer."""
        self._lists[-1].extend(places)

    def hold(self) -> None:
        """A handle has been taken."""
        self._lists.append([])

    def delete(self, handles: int) -> None:
        """Delete what was retired before the last so many handles; one store call, if there is any.

        With 0 of them all of it.
        """
        going = self._lists[: max(0, len(self._lists) - handles)]
        self._pager.delete([place for places in going for place in places])
        self._lists = self._lists[len(going) :] if handles else [[]]

    def state(self, handles: int) -> list[list[Place]]:
        """As a handle holds it that keeps so many."""
        return self._lists[len(self._lists) - handles :]

    def restore(self, state: list[Any], handles: int) -> None:
        """Have what a handle says that keeps so many. Raises CorruptSnapshot."""
        if len(state) != handles:
            raise corrupt("it has not as many lists of retired pages as handles to keep")
        self._lists = [[_place(place) for place in places] for places in state]


def _place(place: Any) -> Place:
    """A retired page. Raises CorruptSnapshot."""
    if list(map(type, place)) != [int, int, bytes]:
        raise corrupt("its retired pages are of the wrong types")
    level, number, name = place
    if not 0 <= level < MAX_LEVELS or number < 0 or not is_name(name):
        raise corrupt("its retired pages cannot be")
    return level, number, name
