"""A run over a short window, whose results are folds of ranges (``blocks``), not of a stack."""

from __future__ import annotations

import numpy as np

from mta.columns.schemas import Rows
from mta.levels.tree import Frame, MonoidTree


class ShortRun:
    """A short window and the events to come, side by side; what a policy may ask of them."""

    def __init__(
        self, tree: MonoidTree, head: Frame, new: Rows, coming: np.ndarray | None, count: int
    ) -> None:
        self._tree, self._new, self._coming = tree, new, coming
        self.front, self.back = tree.front, tree.back
        self._size = len(tree) + count
        leaf = tree.levels.tails[0]
        self._pieces = [(head.group, head.next, head.stop)]
        if head.group is not leaf:
            self._pieces.append((leaf, 0, leaf.count))

    def rows(self) -> Rows:
        """The values of all events."""
        schema = self._tree.monoid.inputs
        rows, at = schema.new(self._size), 0
        for group, start, stop in self._pieces:
            schema.put_many(rows, at, schema.cut(group.rows, start, stop))
            at += stop - start
        schema.put_many(rows, at, self._new)
        return rows

    def oldest_time(self) -> int:
        """The time of the oldest event, which may be one to come."""
        oldest = self._tree.oldest_time()
        if oldest is None:
            assert self._coming is not None
            return int(self._coming[0])
        return oldest

    def head_times(self) -> tuple[int, np.ndarray]:
        """The times of all events, and the position of the first of them."""
        assert self._coming is not None
        times = [g.times[i:j] for g, i, j in self._pieces if g.times is not None]
        return self.front, np.concatenate([*times, self._coming])
