"""The Reactive Aggregator in memory (Reactive Aggregator paper, section 5).

The slots of a FlatFAT are a circular buffer of lifted events, from a front to a back slot. Inserts
and evictions only write slots, and record them. The next query propagates all changes together, so
m changes take m (1 + ceil(log2(n/m))) combines. The paper's Figure 5 shows a window of four:

    7 3 2 after 4 7 3 2 arrived and 4 left   [ _ F7 3 2B ]
    then 9 arrives                           [ 9B F7 3 2 ]     inverted: back before front

If the buffer is inverted and the operation is not commutative, the root has the events in the wrong
order. The result is then suffix(front) combined with prefix(back) (section 5.1.2).

Any event can be evicted, and leaves a hole. A full buffer is compacted if at most 3/4 of the slots
have events; otherwise its size is doubled. If an eviction leaves events in fewer than 1/4 of the
slots, the size is halved, but not below the initial capacity. So each of these costs amortized O(1)
combines per event.

With ``fifo=True``, only the oldest events can be evicted. There are no holes, so the buffer is
never compacted, and positions are not stored.

The position of an event is the number of events inserted before it. Slots store positions, which
increase around the buffer, so a binary search finds an event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from copy import copy
from operator import index as whole_number

import numpy as np

from mta.columns.schemas import Row, Rows
from mta.errors import EmptyWindow, InvariantViolation
from mta.in_order.flat_fat import FlatFAT
from mta.monoids.base import AbstractMonoid, Partial, Refold


class ReactiveAggregator:
    """A window whose events arrive at the back and leave anywhere; see the module docstring.

    >>> from mta import Monoid
    >>> window = ReactiveAggregator(Monoid(identity="", combine=lambda a, b: a + b), capacity=4)
    >>> positions = [window.insert(letter) for letter in "abcd"]
    >>> window.evict()
    >>> window.evict(positions[2])
    >>> window.query()
    'bd'
    """

    def __init__(self, monoid: AbstractMonoid, capacity: int = 64, fifo: bool = False) -> None:
        self.monoid = monoid
        self.fifo = fifo
        self._smallest = capacity
        self._count = self._back = 0
        self._begin(FlatFAT(monoid, capacity), np.empty(0, "i8"))

    def _begin(self, fat: FlatFAT, positions: np.ndarray) -> None:
        """Use the first slots of a FlatFAT as the window; its events have these positions."""
        self.fat, count = fat, len(positions)
        self._front, self._used = 0, count
        #: Slots that changed since the last propagation, one by one and in runs; at most the
        #: slots of a whole window that leaves and another that arrives.
        self._changed: list[int] = []
        self._runs: list[np.ndarray] = []
        self._pending = 0
        if not self.fifo:
            self._live = np.arange(fat.capacity) < count
            self._positions = np.empty(fat.capacity, "i8")
            self._positions[:count] = positions

    def __len__(self) -> int:
        return self._count

    @property
    def capacity(self) -> int:
        return self.fat.capacity

    @property
    def back(self) -> int:
        """Return the position after the newest event, which is the number of inserted events."""
        return self._back

    @property
    def is_inverted(self) -> bool:
        """Return whether newer events are in earlier slots than older ones."""
        return self._front + self._used > self.capacity

    # --- events in and out ----------------------------------------------------------------------

    def insert(self, row: Row) -> int:
        """Add one event and return its position; no combine, O(n) in the rare compact or resize."""
        partial = self.monoid.lift(row)
        if self._used == self.capacity:
            self._make_room(1)
        slot = (self._front + self._used) % self.capacity
        self.fat.put(slot, partial)
        if not self.fifo:
            self._live[slot], self._positions[slot] = True, self._back
        self._used += 1
        self._count += 1
        self._back += 1
        self._note([slot])
        return self._back - 1

    def bulk_insert(self, rows: Rows, count: int) -> None:
        """Add events; no combine until the next query."""
        partials = self.monoid.lift_rows(rows, count)
        if self._used + count > self.capacity:
            self._make_room(count)
        slots = self._ring(self._used, count)
        self.fat.write(slots, partials)
        if not self.fifo:
            self._live[slots] = True
            self._positions[slots] = np.arange(self._back, self._back + count)
        self._used += count
        self._count += count
        self._back += count
        self._note(slots)

    def evict(self, position: int | None = None) -> None:
        """Remove the oldest event, or the event at a position; no combine.

        Raises EmptyWindow if there is no such event, TypeError for a position that is not an
        integer, and ValueError for an event in the middle of a FIFO window.
        """
        slot = self._front
        if position is not None and whole_number(position) != self.oldest():
            slot = self._find(position)
        if not self._count:
            raise EmptyWindow("cannot evict an event of an empty window")
        self._count -= 1
        self.fat.put(slot, self.monoid.identity)
        if self.fifo:
            self._front, self._used = (slot + 1) % self.capacity, self._count
        else:
            self._live[slot] = False
            self._skip_holes()
        self._note([slot])
        self._shrink()

    def bulk_evict(self, count: int) -> None:
        """Remove the oldest events; no combine. Raises EmptyWindow if there are too few."""
        count = whole_number(count)
        if not 0 <= count <= self._count:
            raise EmptyWindow(f"cannot evict {count} events of a window of {self._count}")
        while count:
            slots = self._ring(0, min(count, self._used))
            self.fat.write(slots, self.fat.empty(len(slots)))
            gone = len(slots)
            if not self.fifo:
                gone = int(self._live[slots].sum())
                self._live[slots] = False
            self._front = (self._front + len(slots)) % self.capacity
            self._used -= len(slots)
            self._count -= gone
            self._note(slots)
            count -= gone
        self._skip_holes()
        self._shrink()

    def oldest(self) -> int | None:
        """Return the position of the oldest event; None in an empty window."""
        if not self._count:
            return None
        return self._back - self._count if self.fifo else int(self._positions[self._front])

    def _find(self, position: int) -> int:
        """Return the slot of an event; log2(n) comparisons."""

        def after(offset: int) -> int:
            return (self._front + offset) % self.capacity

        if self.fifo:
            raise ValueError("a FIFO window evicts only its oldest event: use fifo=False")
        offset = bisect_left(range(self._used), position, key=lambda n: self._positions[after(n)])
        slot = after(offset)
        if offset == self._used or self._positions[slot] != position or not self._live[slot]:
            raise EmptyWindow(f"there is no event at position {position} of the window")
        return slot

    def _skip_holes(self) -> None:
        """Move the front to the next event; each hole is skipped once."""
        while not self.fifo and self._used and not self._live[self._front]:
            self._front = (self._front + 1) % self.capacity
            self._used -= 1

    # --- the result -----------------------------------------------------------------------------

    def query(self) -> Partial:
        """Return the aggregate of the window.

        Takes m (1 + ceil(log2(n/m))) combines for m slots that changed since the last query, and
        2 log2(n) + 1 more if the buffer is inverted and the operation is not commutative.
        """
        self._propagate()
        if not self._count:
            return self.monoid.identity
        if self.monoid.commutative or not self.is_inverted:
            return self.fat.aggregate()
        back = self._front + self._used - self.capacity
        return self.monoid.combine(self.fat.suffix(self._front), self.fat.prefix(back))

    def _note(self, slots: np.ndarray | list[int]) -> None:
        if isinstance(slots, list):
            self._changed += slots
        else:
            self._runs.append(slots)
        self._pending += len(slots)
        if self._pending > 2 * self.capacity:
            self._propagate()

    def _propagate(self) -> None:
        if self._runs:
            slots = np.concatenate([*self._runs, np.array(self._changed, "i8")])
            self.fat.propagate(np.unique(slots))
        elif self._changed:
            self.fat.propagate(list(set(self._changed)))
        self._runs, self._changed, self._pending = [], [], 0

    # --- compact and resize ---------------------------------------------------------------------

    def _make_room(self, count: int) -> None:
        """Compact the full buffer, or double its size as often as needed."""
        if 4 * self._count <= 3 * self.capacity:
            self.compact()
        capacity = self.capacity
        if self._used + count > capacity:
            capacity *= 2
            while self._count + count > capacity:
                capacity *= 2
            self.resize(capacity)

    def compact(self) -> None:
        """Shift events towards the front until no hole is left; at most capacity - 1 combines."""
        slots = self._ring(0, self._used)
        if self.fifo or self._count == self._used:
            return
        live = self._live[slots]
        first = int(np.argmin(live))
        moved = slots[first:][live[first:]]
        to, freed = slots[first : self._count], slots[self._count :]
        self.fat.write(to, self.fat.slots(moved))
        self.fat.write(freed, self.fat.empty(len(freed)))
        self._positions[to] = self._positions[moved]
        self._live[to], self._live[freed] = True, False
        self._used = self._count
        self._note(slots[first:])

    def resize(self, capacity: int) -> None:
        """Move the window into a FlatFAT of another capacity; at most capacity - 1 combines."""
        slots = self._ring(0, self._used)
        if self.fifo:
            positions = np.arange(self._back - self._count, self._back)
        else:
            slots = slots[self._live[slots]]
            positions = self._positions[slots]
        fat = FlatFAT.new(self.monoid, capacity, self.fat.slots(slots), len(slots))
        self._begin(fat, positions)

    def _shrink(self) -> None:
        capacity = self.capacity
        while capacity > self._smallest and 4 * self._count < capacity:
            capacity //= 2
        if capacity < self.capacity:
            self.resize(capacity)

    def _ring(self, start: int, count: int) -> np.ndarray:
        """Return ``count`` slots around the buffer, ``start`` slots after the front."""
        first = self._front + start
        return np.arange(first, first + count) % self.capacity

    # --- inspection -----------------------------------------------------------------------------

    def events(self) -> Iterator[Partial]:
        for slot in self._ring(0, self._used).tolist():
            if self.fifo or self._live[slot]:
                yield self.fat.leaf(slot)

    def check(self) -> None:
        """Assert the paper's invariants; changes nothing. Raises InvariantViolation."""
        window = copy(self)  # leaves the pending changes in this window
        window.fat = self.fat.copy()
        window._propagate()
        window.fat.check()
        events = list(self.events())
        fold, count, found = Refold(self.monoid, events), len(events), window.query()
        if count != len(self) or not fold.agrees(found):
            raise InvariantViolation(f"the result is {found!r} instead of {fold!r}")
        if 4 * count < self.capacity and self.capacity > self._smallest:
            raise InvariantViolation(f"{count} events in {self.capacity} slots")
        if not self.fifo:
            self._check_slots()

    def _check_slots(self) -> None:
        """Check that holes are marked, empty and not at the front, and that positions increase."""
        slots = self._ring(0, self._used)
        live = np.zeros(self.capacity, bool)
        live[slots] = self._live[slots]
        if self._used and not self._live[self._front]:
            raise InvariantViolation("the front slot is a hole")
        if (live != self._live).any() or (np.diff(self._positions[slots]) <= 0).any():
            raise InvariantViolation("marks or positions of slots are wrong")
        for slot in np.flatnonzero(~live).tolist():
            if not self.monoid.same(self.fat.leaf(slot), self.monoid.identity):
                raise InvariantViolation(f"slot {slot} is free but not empty")
