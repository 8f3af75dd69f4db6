"""The head path: the groups on the way from the leftmost tree's root to the oldest event.

    level 2   [ . . g g ]            root: the elements from ``next`` on are left
    level 1   [ . p p p ]
    level 0   [ . . . v ]            leaf: the oldest event

From left to right a window is the frames of its head path, leaf first, and then the tails below the
leftmost tree, highest first. Every search walks these *segments* (``search``).
"""

from __future__ import annotations

from mta.columns.schemas import Rows
from mta.pages.page import Group

#: Some elements of a group: level, index of the group's first element, group, start, stop.
Segment = tuple[int, int, Group, int, int]


class Frame:
    """A group on the head path: the elements from ``next`` to ``stop`` are left."""

    __slots__ = ("first", "group", "level", "next", "origin", "stop", "suffixes")

    def __init__(self, level: int, first: int, group: Group, start: int, stop: int) -> None:
        self.level, self.first, self.group = level, first, group
        self.next = self.origin = start
        self.stop = stop
        #: Amortized MTA: the folds from element origin, origin + 1, ... stop to the middle.
        self.suffixes: Rows = None

    @property
    def segment(self) -> Segment:
        """The elements that are left."""
        return self.level, self.first, self.group, self.next, self.stop

    def moved_on(self, index: int) -> Frame:
        """The same frame with its front at another element; this one stays as it was."""
        moved = Frame(self.level, self.first, self.group, index, self.stop)
        moved.origin, moved.suffixes = self.origin, self.suffixes
        return moved
