"""Reading ahead of the front, so that in steady state no event waits for a page.

The paper's head cache is refilled when half of it is used. So is this one: the next ``depth`` leaf
groups of the front are requested, and again when half of them are used. The number depends on the
latency of the store and the speed of the window. So the depth starts small, as a window that is
restored for a few events needs no more, and doubles whenever the front had to wait.

      front       depth / 2 left: ask again                 asked
        |               |                                     |
      [ 4 ][ 5 ][ 6 ][ 7 ][ 8 ][ 9 ][ 10 ][ 11 ][ 12 ]      leaf groups

The names of pages are in the groups above them. The head path and the tails are in memory. The
inner pages after the next border are prefetched in the same way, level by level and twice as far
ahead, so that they are in memory when the leaves need them. Nothing here waits or fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from mta.logs.levels.queues import Levels
from mta.pages.page import Group
from mta.pages.pager import Place

#: Groups by level and number.
Groups = Mapping[tuple[int, int], Group]

_FIRST_DEPTH = 8


class ReadAhead:
    """Requests from the pager the next groups of the front of one window."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        #: How many leaf groups after the front's are requested.
        self.depth = _FIRST_DEPTH
        #: By level, the first group that has not been requested.
        self._asked: dict[int, int] = {0: -1}
        #: The leaf group at which everything after it was last requested again.
        self._restarted = 0
        #: By level, the group of the last lookup: its number, and the names in it.
        self._known: dict[int, tuple[int, list[bytes]]] = {}

    def follow(self, leaf: int, path: Groups) -> None:
        """Note that the front has opened a leaf group; ``path`` has the groups above it.

        No store call; sometimes a hint that names about half the depth.
        """
        pager = self._levels.pager
        jumped = leaf > self._asked[0]
        late = pager.waited and leaf - self._restarted >= self.depth // 2
        if late and not jumped:  # or the cache had no room for them
            self.depth *= 2
        if late or jumped:
            self._asked, self._restarted = {0: leaf + 1}, leaf
        depth = self.depth = min(self.depth, pager.read_ahead)
        if self._asked[0] - leaf - 1 > depth // 2:
            return
        arity, places = self._levels.arity, []
        for level in reversed(range(1, len(self._levels.tails) - 1)):
            groups = arity**level
            # From the front's own group on, because deletions read it too.
            places += self._missing(level, leaf // groups, 2 * depth // groups + 2, path)
        places += self._missing(0, leaf + 1, depth, path)
        if places:
            pager.prefetch(places)

    def _missing(self, level: int, start: int, count: int, path: Groups) -> list[Place]:
        """Return those of ``count`` groups from ``start`` on not requested yet, if known."""
        places: list[Place] = []
        arity, number = self._levels.arity, max(start, self._asked.get(level, 0))
        stop = min(start + count, self._levels.tails[level].number)
        while number < stop:
            above, within = divmod(number, arity)
            names = self._names(level + 1, above, path)
            if names is None:
                break
            some = names[within : within + stop - number]
            places += [(level, number + i, name) for i, name in enumerate(some)]
            number += len(some)
        self._asked[level] = number
        return places

    def _names(self, level: int, number: int, path: Groups) -> list[bytes] | None:
        """Return the names in a group, None if its page is not in memory."""
        levels = self._levels
        if level >= len(levels.tails):
            return None
        if number == levels.tails[level].number:
            return levels.tails[level].names
        if level in self._known and self._known[level][0] == number:
            return self._known[level][1]
        group = path.get((level, number))
        if group is None:
            above = self._names(level + 1, number // levels.arity, path)
            if above is None:
                return None
            group = levels.pager.prefetched(level, number, above[number % levels.arity])
        if group is None or len(group.names) != levels.arity:  # a reader of the page gets the error
            return None
        self._known[level] = number, group.names
        return group.names
