"""FlatFAT, the flat fixed-sized aggregator (Reactive Aggregator paper, section 4).

A complete binary tree over ``capacity`` slots, a power of two, in one flat array. The root is row
1, the children of row v are rows 2v and 2v + 1, and slot i is row capacity + i. Row 0 is not used.
Each row is the aggregate of the slots below it (equation 4.1). The paper's Figure 3 shows a sum:

    row 1                      36
    rows 2, 3          10              26
    rows 4 to 7     3       7      11      15
    rows 8 to 15  1   2   3   4   5   6   7   8        prefix(7) = row 2 + row 6 + row 14 = 28

Slots are numbered from 0, and in the paper from 1. So ``prefix(i)``, the first i slots, is the same
as in the paper, and ``suffix(j)`` is the paper's suffix(j + 1).

An empty slot contains the monoid's ``identity`` object, which stands for the paper's empty marker.
If one side of a combine is this object, the result is the other side, without a call.

Change propagation (Algorithm 2, lines 3 to 9) goes up level by level. It combines all nodes of a
level together if the monoid is columnar, and one by one if it is not or if few nodes are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from mta.columns.schemas import Objects, Rows
from mta.errors import InvariantViolation
from mta.monoids.base import AbstractMonoid, Partial, Refold

#: Slots to change: a sequence of distinct numbers.
Slots = Sequence[int] | np.ndarray
#: Up to this many nodes, single combines cost less than a vector expression.
_FEW = 4


class FlatFAT:
    """``capacity`` slots, with the aggregate of any prefix or suffix in O(log n)."""

    def __init__(self, monoid: AbstractMonoid, capacity: int) -> None:
        """Start with empty slots; no combine."""
        if capacity < 1 or capacity & (capacity - 1):
            raise ValueError(f"a capacity must be a power of two, not {capacity}")
        self.monoid = monoid
        self.capacity = capacity
        self._join = partial(join, monoid)
        #: If nodes are combined one by one, lists of partials are faster than columns.
        self._schema = monoid.partials if monoid.is_columnar else Objects()
        self._rows = self._schema.new(2 * capacity)
        self._schema.put_many(self._rows, 0, self.empty(2 * capacity))

    @classmethod
    def new(cls, monoid: AbstractMonoid, capacity: int, partials: Rows, count: int) -> FlatFAT:
        """Build a tree with ``count`` filled slots (Algorithm 1); at most capacity - 1 combines."""
        fat = cls(monoid, capacity)
        fat.update(range(count), partials)
        return fat

    def copy(self) -> FlatFAT:
        """Return a copy; no combine."""
        other = FlatFAT(self.monoid, self.capacity)
        self._schema.put_many(other._rows, 0, self._rows)
        return other

    def empty(self, count: int) -> Rows:
        return self._schema.take(self._schema.one(self.monoid.identity), np.zeros(count, "i8"))

    def update(self, slots: Slots, partials: Rows) -> None:
        """Write m distinct slots (Algorithm 2); at most m (1 + ceil(log2(n/m))) combines.

        Raises IndexError for a slot that does not exist; then nothing has changed.
        """
        self.write(slots, partials)
        self.propagate(slots)

    def write(self, slots: Slots, partials: Rows) -> None:
        """Write slots; the caller must ``propagate`` them before the next query. No combine."""
        if isinstance(partials, tuple) and isinstance(self._schema, Objects):
            at = self.monoid.partials.at
            partials = [at(partials, i) for i in range(len(slots))]
        self._schema.put_at(self._rows, self._places(slots), partials)

    def put(self, slot: int, partial: Partial) -> None:
        """Write one existing slot, as ``write`` does."""
        self._schema.put(self._rows, self.capacity + slot, partial)

    def aggregate(self) -> Partial:
        """Return the aggregate of all slots, in order; no combine."""
        return self._schema.at(self._rows, 1)

    def prefix(self, stop: int) -> Partial:
        """Return the aggregate of slots before ``stop`` (Algorithm 3); at most log2(n) combines."""
        if stop == 0:
            return self.monoid.identity
        node = self.capacity + stop - 1
        fold = self._schema.at(self._rows, node)
        while node > 1:
            if node & 1:
                fold = self._join(self._schema.at(self._rows, node - 1), fold)
            node >>= 1
        return fold

    def suffix(self, start: int) -> Partial:
        """Return the aggregate of the slots from ``start`` on; at most log2(n) combines."""
        if start == self.capacity:
            return self.monoid.identity
        node = self.capacity + start
        fold = self._schema.at(self._rows, node)
        while node > 1:
            if not node & 1:
                fold = self._join(fold, self._schema.at(self._rows, node + 1))
            node >>= 1
        return fold

    def between(self, start: int, stop: int) -> Partial:
        """Return the aggregate of the slots from ``start`` to before ``stop``.

        At most 2 log2(n) combines. Not in the paper: walks up from both sides until they meet.
        """
        at, rows, left = self._schema.at, self._rows, self.monoid.identity
        right, low, high = left, start + self.capacity, stop + self.capacity
        while low < high:
            if low & 1:
                left = self._join(left, at(rows, low))
                low += 1
            if high & 1:
                high -= 1
                right = self._join(at(rows, high), right)
            low, high = low >> 1, high >> 1
        return self._join(left, right)

    def leaf(self, slot: int) -> Partial:
        return self._schema.at(self._rows, self.capacity + slot)

    def slots(self, slots: Slots) -> Rows:
        return self._schema.take(self._rows, self._places(slots))

    def _places(self, slots: Slots) -> np.ndarray:
        """Return the row numbers of slots. Raises IndexError for a slot that does not exist."""
        places = np.asarray(slots, "i8") + self.capacity
        low, high = places.min(initial=self.capacity), places.max(initial=0)
        if low < self.capacity or high >= 2 * self.capacity:
            raise IndexError(
                f"slots {low - self.capacity} to {high - self.capacity} of {self.capacity}"
            )
        return places

    # --- change propagation ---------------------------------------------------------------------

    def propagate(self, slots: Slots) -> None:
        """Recompute every node above the slots, level by level; by columns if there are many."""
        schema, rows = self._schema, self._rows
        if self.monoid.is_columnar and len(slots) > _FEW:
            found = np.sort(np.asarray(slots) + self.capacity)
            while len(found) > _FEW:
                found = found >> 1
                found = found[np.append(True, found[1:] != found[:-1])]
                lefts, rights = schema.take(rows, 2 * found), schema.take(rows, 2 * found + 1)
                schema.put_at(rows, found, self.monoid.combine_rows(lefts, rights, len(found)))
            nodes = {node >> 1 for node in found.tolist()}
        else:
            nodes = {(self.capacity + int(slot)) >> 1 for slot in slots}
        at, put, join = schema.at, schema.put, self._join
        if len(nodes) == 1:
            node = nodes.pop()
            while node:
                put(rows, node, join(at(rows, 2 * node), at(rows, 2 * node + 1)))
                node >>= 1
        while nodes and 0 not in nodes:
            for node in nodes:
                put(rows, node, join(at(rows, 2 * node), at(rows, 2 * node + 1)))
            nodes = {node >> 1 for node in nodes}

    # --- invariants -----------------------------------------------------------------------------

    def check(self) -> None:
        """Assert equation 4.1 at every node. Raises InvariantViolation."""
        at, rows, nothing = self._schema.at, self._rows, Refold(self.monoid)
        expected = [nothing] * (2 * self.capacity)
        for node in range(2 * self.capacity - 1, 0, -1):
            if node >= self.capacity:
                expected[node] = Refold(self.monoid, [at(rows, node)])
                continue
            expected[node] = expected[2 * node] + expected[2 * node + 1]
            if not expected[node].agrees(at(rows, node)):
                raise InvariantViolation(
                    f"row {node} is {at(rows, node)!r} instead of {expected[node]!r}"
                )


def join(monoid: AbstractMonoid, left: Partial, right: Partial) -> Partial:
    """Combine; no combine if one side is the monoid's ``identity`` object (no events)."""
    identity = monoid.identity
    if left is identity:
        return right
    return left if right is identity else monoid.combine(left, right)
