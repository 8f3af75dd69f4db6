"""Reading ahead of the front, so that in steady state no event waits for a page.

The paper refills its head cache when half of it is used. This module does the same: it requests the
next ``depth`` leaf groups of the front, and requests more when half of them are used. The best
depth depends on the latency of the store and the speed of the window. The depth starts small,
because a window that is restored for a few events needs no more. It doubles whenever the front had
to wait.

      front       depth / 2 left: request more           requested
        |               |                                     |
      [ 4 ][ 5 ][ 6 ][ 7 ][ 8 ][ 9 ][ 10 ][ 11 ][ 12 ]      leaf groups

The names of pages are in the groups above them, and the head path and the tails are in memory. The
inner pages that the front needs next are prefetched in the same way, level by level and twice as
far ahead, so they are in memory when the leaves need them. Nothing in this module waits or fails.
"""

from __future__ import annotations

from collections.abc import Mapping

from mta.logs.levels.queues import Levels
from mta.pages import Group, Place

#: Groups by level and number.
Groups = Mapping[tuple[int, int], Group]

_FIRST_DEPTH = 8


class ReadAhead:
    """Requests the next groups of one window's front from the pager."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        #: How many leaf groups after the front's leaf group to request.
        self.depth = _FIRST_DEPTH
        #: By level, the first group that was not requested.
        self._asked: dict[int, int] = {0: -1}
        #: The leaf group of the front when all following groups were last requested again.
        self._restarted = 0
        #: By level, the number of the group that was last looked up, and the names in it.
        self._known: dict[int, tuple[int, list[bytes]]] = {}

    def follow(self, leaf: int, path: Groups) -> None:
        """Record that the front opened a leaf group; ``path`` contains the groups above it.

        No store call, but sometimes a prefetch of about half the depth.
        """
        pager = self._levels.pager
        jumped = leaf > self._asked[0]
        late = pager.waited and leaf - self._restarted >= self.depth // 2
        if late and not jumped:  # the front waited for the store, or the cache was too small
            self.depth *= 2
        if late or jumped:
            self._asked, self._restarted = {0: leaf + 1}, leaf
        depth = self.depth = min(self.depth, pager.read_ahead)
        if self._asked[0] - leaf - 1 > depth // 2:
            return
        arity, places = self._levels.arity, []
        for level in reversed(range(1, len(self._levels.tails) - 1)):
            groups = arity**level
            # Includes the front's own group, because deletions read it too.
            places += self._missing(level, leaf // groups, 2 * depth // groups + 2, path)
        places += self._missing(0, leaf + 1, depth, path)
        if places:
            pager.prefetch(places)

    def _missing(self, level: int, start: int, count: int, path: Groups) -> list[Place]:
        """Return those of ``count`` groups from ``start`` on that are known and unrequested."""
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
        """Return the names in a group, or None if its page is not in memory."""
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
        if group is None or len(group.names) != levels.arity:  # reading the page raises the error
            return None
        self._known[level] = number, group.names
        return group.names
