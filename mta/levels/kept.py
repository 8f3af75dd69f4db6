"""Kept events: level queues without a front of their own, for windows that share them.

Events come in at the back and are sealed into pages as in ``queues``; nothing is aggregated beyond
that, since every window has a cursor (``cursors``) which reads here through ``leaves``. Eviction
only moves the position before which pages may be deleted: no read, no combine.

In a handle, beside the common fields:

    state    = [swept, kept, tails], each as in ``pages``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.cursors.ordered import Hand, Leaf
from mta.levels.leaves import LeafReader
from mta.levels.pages import LevelPages
from mta.levels.queues import Levels
from mta.monoids.base import AbstractMonoid, Partial
from mta.monoids.product import Columns
from mta.pages.handle import Handle, corrupt
from mta.pages.structure import Setting
from mta.policies.base import AbstractPolicy, View

Observers = tuple[tuple[AbstractPolicy, Columns, AbstractMonoid], ...]


class KeepAll(AbstractPolicy):
    """Evicts nothing by itself. It stands for the policies of all windows over the events."""

    positional = True

    def __init__(self, timed: bool, observers: Observers = ()) -> None:
        self.needs_times, self._observers = timed, observers

    @property
    def observers(self) -> Observers:
        return self._observers

    def cut(self, view: View, time: int | None) -> int:
        return 0

    def describe(self) -> str:
        return "KeepAll()"


class KeptEvents(LevelPages):
    """Events in levels, read by position. Inserting takes amortised 1 combine an event."""

    name = "Kept events"

    def __init__(self, levels: Levels, setting: Setting) -> None:
        super().__init__(levels, setting)
        self.reader = LeafReader(self)
        self.leaf: Callable[[int], Leaf] = self.reader.stretch
        self.fold: Callable[[int, int], Partial] = self.reader.fold
        self.time_before: Callable[[int], int | None] = self.reader.time_before
        self.stamp = self.reader.stamp

    # --- events in and out ----------------------------------------------------------------------

    def insert(self, row: Row, time: int | None = None) -> None:
        self.room()
        self.levels.append(row, time)

    def take_back(self) -> None:
        self.levels.take_back()
        self.reader.taken_back()

    def _seal(self) -> None:
        leaf = self.levels.tails[0]
        self.levels.seal()
        self.reader.sealed(leaf)

    def evict_to(self, position: int) -> None:
        self.require_events(position)
        self.front = max(self.front, position)

    def hand_with(
        self, rows: Rows, times: np.ndarray | None, count: int
    ) -> tuple[Hand, np.ndarray | None]:
        """New events as a hand; None, as all in it are new."""
        return Hand(self.monoid, self.back, rows, times, count), None

    def keep(self, hand: Hand) -> None:
        """Keep a hand that has just been stored, until ``let_go``."""
        self.reader.keep(hand)

    def let_go(self) -> None:
        """Forget the hands of a batch, at its end."""
        self.reader.let_go()

    def needed_from(self, policy: AbstractPolicy, front: int) -> int:
        """From where on events of a window with a front are needed."""
        del policy
        return front

    # --- reading --------------------------------------------------------------------------------

    def oldest_time(self) -> int | None:
        if self.front == self.back:
            return None
        leaf = self.leaf(self.front)
        assert leaf.times is not None
        return int(leaf.times[self.front - leaf.first])

    def first_after(self, time: int) -> int:
        """The position of the oldest event later than a time; at most a page read a level."""
        return self.reader.first_after(time)

    # --- handles --------------------------------------------------------------------------------

    def write_state(self) -> list[Any]:
        return [self.levels.swept, self.kept, self.tail_states()]

    def take_up_state(self, handle: Handle) -> None:
        if list(map(type, handle.state)) != [int, list, list]:
            raise corrupt("its state is not one of kept events")
        self.restore_tails(handle, handle.front, *handle.state)

    @property
    def resident_rows(self) -> int:
        return sum(tail.count for tail in self.levels.tails)

    def check(self) -> None:
        self.levels.check(self.front)
