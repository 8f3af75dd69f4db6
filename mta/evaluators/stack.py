"""The entries of a cursor's stack: aggregates from some positions to the back; what enters it."""

from __future__ import annotations

from dataclasses import dataclass
from sys import maxsize

import numpy as np

from mta.columns.schemas import Rows
from mta.folds.sliding import EachFront, SlidingFolds
from mta.monoids.base import Partial


class Folds:
    """An entry of the stack: folds from some positions to the back as of their computation."""

    __slots__ = (
        "before", "level", "mark", "reach", "right", "rows", "since", "start", "starts", "stop",
    )  # fmt: skip

    def __init__(
        self,
        start: int,
        stop: int,
        rows: Rows,
        starts: np.ndarray | range | None = None,
        level: int | None = None,
    ) -> None:
        self.start, self.stop, self.rows = start, stop, rows
        #: The starts of the folds; None for a fold from each event before ``stop``.
        self.starts = starts
        #: The level of the group whose elements these are.
        self.level = level
        #: The position where the folds end; if unknown, a position after all.
        self.reach = maxsize
        #: What follows the folds, if they do not extend to the back; else None.
        self.right: Partial | None = None
        #: The events between these folds and those above them, or the present; None for nothing.
        self.since: Partial | None = None
        #: A position after these folds, and the events between them and it; a position after all if
        #: none is known.
        self.mark, self.before = maxsize, self.since

    def again(self) -> Folds:
        """Return a copy that can be changed."""
        other = Folds(self.start, self.stop, self.rows, self.starts, self.level)
        other.reach, other.right, other.since = self.reach, self.right, self.since
        other.mark, other.before = self.mark, self.before
        return other

    def index(self, position: int) -> int:
        """Return which of the folds starts at a position."""
        if self.starts is None:
            return position - self.start
        if isinstance(self.starts, range):
            return self.starts.index(position)
        return int(self.starts.searchsorted(position))

    def knows(self, position: int) -> bool:
        """Return whether one of the folds of a path starts at a position."""
        return self.starts is not None and position in self.starts


@dataclass(slots=True)
class Entering:
    """The events that enter a window during a run, and the window after each event of the run.

    Positions are counted from ``first``, the position of the oldest of these events.
    """

    first: int
    sliding: SlidingFolds
    fronts: EachFront
    stops: EachFront
    total: Partial | None = None
    """The aggregate of the events before the last stop, if a kernel has found it."""

    def known(self) -> Partial | None:
        """Return the aggregate of the events before the last stop; None without any."""
        return self.upto(int(self.stops[-1])) if self.total is None else self.total

    def upto(self, stop: int) -> Partial | None:
        """Return the aggregate of the first events; None without any."""
        if not stop:
            return None
        return self.sliding.monoid.partials.at(self.sliding.prefixes, stop - 1)
