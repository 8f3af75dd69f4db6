"""Pages that a structure names no longer, kept until no snapshot that may be restored needs them.

In a snapshot, for each of the earlier snapshots that are kept: the pages that were retired since it
was taken, each as [level, group, name].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mta.pages.page import is_name
from mta.pages.pager import Pager, Place
from mta.pages.snapshot import MAX_LEVELS, corrupt


class RetiredPages:
    """Pages by how many snapshots were taken before they were retired, the oldest first."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        #: Every snapshot begins another list: what is lost from then on is needed by one more.
        self._lists: list[list[Place]] = [[]]

    def __len__(self) -> int:
        return sum(map(len, self._lists))

    def __iter__(self) -> Iterator[Place]:
        return (place for places in self._lists for place in places)

    def add(self, places: Iterable[Place]) -> None:
        """These are named no longer."""
        self._lists[-1].extend(places)

    def hold(self) -> None:
        """A snapshot has been taken."""
        self._lists.append([])

    def delete(self, snapshots: int) -> None:
        """Delete what was retired before the last so many snapshots; at most one store call.

        With 0 of them all of it.
        """
        going = self._lists[: max(0, len(self._lists) - snapshots)]
        self._pager.delete([place for places in going for place in places])
        self._lists = self._lists[len(going) :] if snapshots else [[]]

    def state(self, snapshots: int) -> list[list[Place]]:
        """As a snapshot holds it that keeps so many."""
        return self._lists[len(self._lists) - snapshots :]

    def restore(self, state: list[Any], snapshots: int) -> None:
        """Have what a snapshot says that keeps so many. Raises CorruptSnapshot."""
        if len(state) != snapshots:
            raise corrupt("it has not as many lists of retired pages as snapshots to keep")
        self._lists = [[_place(place) for place in places] for places in state]


def _place(place: Any) -> Place:
    """A retired page. Raises CorruptSnapshot."""
    if list(map(type, place)) != [int, int, bytes]:
        raise corrupt("its retired pages have the wrong types")
    level, number, name = place
    if not 0 <= level < MAX_LEVELS or number < 0 or not is_name(name):
        raise corrupt("its retired pages are invalid")
    return level, number, name
