"""Events kept in order of time, without a window of their own, for windows that share them.

What ``levels.kept`` is to level queues: every window has a cursor which reads here.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index as whole_number

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.cursors.ordered import Hand, Leaf
from mta.fiba.events import needed_from
from mta.fiba.node import Kind
from mta.fiba.pages import TreePages
from mta.monoids.base import Partial
from mta.pages.structure import Setting
from mta.policies.base import AbstractPolicy

#: How many events of a batch go in at once.
_RUN = 8192


class KeptTree(TreePages):
    """Events in a tree by time, read by position; costs as FiBA's."""

    name = "Kept events by time"

    def __init__(self, setting: Setting, kind: Kind | None = None) -> None:
        super().__init__(setting, kind)
        self.leaf: Callable[[int], Leaf] = self.stored.leaf
        self.fold: Callable[[int, int], Partial] = self.stored.fold
        self.time_before: Callable[[int], int | None] = self.stored.time_before

    @property
    def stamp(self) -> int:
        """Grows whenever events before the back have changed positions."""
        return self.stored.stamp

    @property
    def discards(self) -> bool:
        """Whether events may be let go of at any time, as no handle needs them."""
        return self.setting.store is None or not self.paged.retain

    # --- events in and out ----------------------------------------------------------------------

    def insert(self, row: Row, time: int | None = None) -> None:
        assert time is not None
        self.trim()
        self.stored.add(row, time)
        self.last_insert, self.front = time, self.stored.front

    def take_back(self) -> None:
        self.stored.take_back(self.last_insert)
        self.front = self.stored.front

    def extend(self, rows: Rows, times: np.ndarray | None, start: int, stop: int) -> int:
        assert times is not None
        stop = min(stop, start + _RUN)
        self.trim()
        new = self.monoid.inputs.cut(rows, start, stop)
        self.stored.add_sorted(new, times[start:stop], stop - start)
        self.front = self.stored.front
        return stop - start

    def hand_with(
        self, rows: Rows, times: np.ndarray | None, count: int
    ) -> tuple[Hand, np.ndarray | None]:
        """New events and the stored ones among them, as one hand, and which are new."""
        assert times is not None
        return self.stored.hand_with(rows, times, count)

    def keep(self, hand: Hand) -> None:
        del hand  # late events may come among its own

    def let_go(self) -> None:
        pass

    def evict_to(self, position: int) -> None:
        position = whole_number(position)
        if position <= self.front:
            return
        self.require_events(position)
        self.trim()
        self.stored.cut_off(position)
        self.front = position

    def cut_off_what_left(self) -> None:
        self.trim()

    def needed_from(self, policy: AbstractPolicy, front: int) -> int:
        """From where on a window with a front may still be asked for, as late events look back."""
        return needed_from(self.stored, policy, self.setting.lateness, front)

    def query(self) -> Partial:
        return self.fold(self.front, self.back)

    # --- searches -------------------------------------------------------------------------------

    def restore_front_time(self, time: int | None) -> None:
        del time  # it is looked up

    def oldest_time(self) -> int | None:
        return None if self.front == self.back else self.stored.time_at(self.front)
