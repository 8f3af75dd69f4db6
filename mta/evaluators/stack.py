"""The entries of a cursor's stack: aggregates that reach from some positions to the back."""

from __future__ import annotations

from sys import maxsize

import numpy as np

from mta.columns.schemas import Rows
from mta.monoids.base import Partial


class Folds:
    """An entry of the stack: folds from some positions on, to the back when they were folded."""

    __slots__ = ("level", "reach", "right", "rows", "since", "start", "starts", "stop")

    def __init__(
        self,
        start: int,
        stop: int,
        rows: Rows,
        starts: np.ndarray | range | None = None,
        level: int | None = None,
    ) -> None:
        self.start, self.stop, self.rows = start, stop, rows
        #: From where the folds are; None where from each event before ``stop``.
        self.starts = starts
        #: The level of the group whose elements these are.
        self.level = level
        #: The position that the folds reach to; where that is not known, beyond all.
        self.reach = maxsize
        #: What follows the folds, where they do not reach to the back; None where they do.
        self.right: Partial | None = None
        #: What has come between these folds and those above them, or the present; None for nothing.
        self.since: Partial | None = None

    def again(self) -> Folds:
        """The same, to be changed by itself."""
        other = Folds(self.start, self.stop, self.rows, self.starts, self.level)
        other.reach, other.right, other.since = self.reach, self.right, self.since
        return other

    def index(self, position: int) -> int:
        """Which of the folds begins at a position."""
        if self.starts is None:
            return position - self.start
        if isinstance(self.starts, range):
            return self.starts.index(position)
        return int(self.starts.searchsorted(position))

    def knows(self, position: int) -> bool:
        """Whether one of the folds of a path begins at a position."""
        return self.starts is not None and position in self.starts
