"""Nodes of the trees: timed values, and in inner nodes the subtrees between them.

    inner node of arity 4:   [c0] e0 [c1] e1 [c2] e2 [c3]     e = time and value, c = subtree

As in the FiBA paper, section 3.1, inner nodes contain values too, and the *arity* of a node is the
number of its entries plus one, also in a leaf. The up-aggregate of a subtree is the fold of all its
values. The parent stores it with the name of the subtree's page, so folding a node does not need
its children. On the spines it is not kept up to date (see ``fingers``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mta.columns.schemas import Array, Record, Row, Rows
from mta.monoids.base import AbstractMonoid, Partial, Refold
from mta.pages import NO_NAME, Group, Layout, Note, layouts_of

WHOLE_NUMBERS = Array("<i8")
#: Partial aggregates in order, and their number.
Piece = tuple[Rows, int]
_NOTES_LAYOUT = Layout(Record([WHOLE_NUMBERS] * 3), timed=False, named=True)
#: The note of a node that has none.
NO_NOTE: tuple[int, Note] = (0, [])


class RowBuffer:
    """Rows of one schema in order, with room for more: the entries and sums of a node.

    Rows read from a page, or shared, are immutable: the first change copies them.
    """

    __slots__ = (
        "_capacity", "_room", "_shared", "_start", "count", "derived", "dropped", "schema",
        "unchanged",
    )  # fmt: skip

    def __init__(self, schema: Record, rows: Rows = None, count: int = 0) -> None:
        self.schema, self.count = schema, count
        self._room = schema.new(0) if rows is None else rows
        #: The capacity in rows; 0 if another object owns the memory.
        self._capacity = 0
        #: In the buffer, the end of the rows that other objects may read, and the first row.
        self._shared = self._start = 0
        #: A value that a caller computes from the rows; None after every change to them.
        self.derived: Any = None
        #: How many rows were dropped, and how many rows from the start, including dropped rows,
        #: have not changed since this was last set.
        self.dropped = self.unchanged = 0

    @property
    def rows(self) -> Rows:
        return self.cut(0, self.count)

    def share(self, start: int, stop: int) -> Rows:
        """Return some rows as an immutable view: the first change to them copies the buffer."""
        self._shared = max(self._shared, self._start + stop)
        return self.cut(start, stop)

    def cut(self, start: int, stop: int) -> Rows:
        """Return some rows, as a view."""
        return self.schema.cut(self._room, self._start + start, self._start + stop)

    def group(self, start: int, stop: int) -> Group:
        """Return some rows of a leaf's times and values as the columns of a page."""
        times, values = self.cut(start, stop)
        return Group(values, times, [], stop - start)

    def numbers(self, which: int) -> np.ndarray:
        """Return a column that is an array, as a view."""
        column: np.ndarray = self._room[which][self._start : self._start + self.count]
        return column

    def part(self, which: int, start: int, stop: int) -> Rows:
        """Return some rows of one column, as a view."""
        first = self._start
        return self.schema.schemas[which].cut(self._room[which], first + start, first + stop)

    def at(self, index: int) -> Row:
        return self.schema.at(self._room, self._start + index)

    def part_at(self, which: int, index: int) -> Row:
        """Return one row of one column."""
        return self.schema.schemas[which].at(self._room[which], self._start + index)

    def put(self, index: int, row: Row) -> None:
        self._own(self.count, index)
        self.schema.put(self._room, self._start + index, row)

    def insert(self, index: int, row: Row) -> None:
        """Insert a row before the row at an index."""
        self._own(self.count + 1, index)
        schema, room, at = self.schema, self._room, self._start + index
        if index < self.count:
            schema.put_many(room, at + 1, schema.cut(room, at, self._start + self.count))
        schema.put(room, at, row)
        self.count += 1

    def insert_many(self, index: int, rows: Rows, count: int) -> None:
        """Insert rows before the row at an index."""
        self._own(self.count + count, index)
        schema, room, at = self.schema, self._room, self._start + index
        if index < self.count:
            schema.put_many(room, at + count, schema.cut(room, at, self._start + self.count))
        schema.put_many(room, at, rows)
        self.count += count

    def remove(self, index: int) -> Row:
        """Remove a row. Moves the rows after it, unless it is the first."""
        row = self.at(index)
        if index == 0:
            self.drop(1)
            return row
        self._own(self.count, index)
        schema, room, at = self.schema, self._room, self._start + index
        schema.put_many(room, at, schema.cut(room, at + 1, self._start + self.count))
        self.count -= 1
        return row

    def extend(self, rows: Rows, count: int) -> None:
        self.insert_many(self.count, rows, count)

    def drop(self, count: int) -> None:
        """Remove the first rows without moving the others."""
        self._start += count
        self.dropped += count
        self.count -= count
        self.derived = None

    def truncate(self, count: int) -> None:
        self.count = count
        self._changed(count)

    def copy(self, start: int, stop: int, capacity: int = 0) -> RowBuffer:
        """Return a copy of some rows, with no spare room unless ``capacity`` is larger."""
        capacity = max(capacity, stop - start)
        room = self.schema.new(capacity)
        self.schema.put_many(room, 0, self.cut(start, stop))
        copied = RowBuffer(self.schema, room, stop - start)
        copied._capacity = capacity
        return copied

    def has_room(self, count: int) -> bool:
        """Return whether ``count`` rows can be added without moving the existing rows."""
        return self._start + self.count + count <= self._capacity

    def _changed(self, index: int) -> None:
        """Record that rows from an index on change."""
        self.derived = None
        self.unchanged = min(self.unchanged, self.dropped + index)

    def _own(self, size: int, index: int) -> None:
        """Make the memory private, with ``size`` rows, before rows from ``index`` on change."""
        self._changed(index)
        if self._start + size <= self._capacity and self._start + index >= self._shared:
            return
        rows = self.rows
        self._capacity, self._start, self._shared = size + size // 2 + 4, 0, 0
        self._room = self.schema.new(self._capacity)
        self.schema.put_many(self._room, 0, rows)


@dataclass(slots=True, eq=False)
class Link:
    """What a node stores of a child without reading it."""

    node: Node | None
    """The child, if it is in memory."""
    number: int = 0
    """The number of the page with the child's current content."""
    name: bytes = NO_NAME
    """The name of that page; NO_NAME if there is none."""


class Node:
    """A node in memory. Report changes with ``Tree.touch``."""

    __slots__ = (
        "agg", "entries", "level", "link", "links", "note", "paged", "parent", "saved", "stack",
        "sums",
    )  # fmt: skip

    def __init__(self, level: int, entries: RowBuffer, sums: RowBuffer) -> None:
        self.level = level
        #: Times and values, in order.
        self.entries = entries
        #: The subtrees; empty in a leaf.
        self.links: list[Link] = []
        #: The up-aggregate of each subtree, and its number of events.
        self.sums = sums
        self.parent: Node | None = None
        #: What the parent stores of this node; unused in a root.
        self.link = Link(self)
        #: The aggregate for the node's place in the tree.
        self.agg: Partial = None
        #: The suffix folds of a leaf from which events are evicted one by one.
        self.stack: LeafStack | None = None
        #: The names of the subtrees in the last page of this node.
        self.paged: list[bytes] = []
        #: The epoch in which the node first differed from that page, and the page's note.
        self.note: tuple[int, Note] = NO_NOTE
        #: The columns of this node in a snapshot, until the node changes.
        self.saved: list[Any] | None = None

    @property
    def count(self) -> int:
        return self.entries.count

    @property
    def arity(self) -> int:
        """The number of entries plus one; in an inner node, the number of subtrees."""
        return self.entries.count + 1

    @property
    def times(self) -> np.ndarray:
        """The times of the entries, as a view."""
        return self.entries.numbers(0)

    def values(self, start: int, stop: int) -> Rows:
        return self.entries.part(1, start, stop)

    def time_at(self, index: int) -> int:
        return int(self.entries.part_at(0, index))

    def index_of(self, child: Node) -> int:
        links = self.links
        return len(links) - 1 if links[-1] is child.link else links.index(child.link)

    def folds(self, start: int, stop: int) -> Rows:
        """Return the up-aggregates of some subtrees, as a view."""
        return self.sums.part(0, start, stop)

    def sizes(self) -> np.ndarray:
        """Return the number of events in each subtree, as a view."""
        return self.sums.numbers(1)

    def fold_at(self, index: int) -> Partial:
        return self.sums.part_at(0, index)

    def size_at(self, index: int) -> int:
        return int(self.sums.numbers(1)[index])

    def adopt(self, index: int, child: Node, aggregate: Partial) -> None:
        """Insert a child before the child at an index. The caller must set its sum later."""
        self.adopt_many(index, [child], self.sums.schema.one((aggregate, 0)))

    def adopt_many(self, index: int, children: Sequence[Node], sums: Rows) -> None:
        """Insert children and their sums before the child at an index."""
        for child in children:
            child.parent = self
        self.links[index:index] = [child.link for child in children]
        self.sums.insert_many(index, sums, len(children))

    def take(self, links: Sequence[Link]) -> None:
        """Become the parent of these children."""
        for link in links:
            if link.node is not None:
                link.node.parent = self


def parent_of(node: Node) -> Node:
    """Return the parent of a node that is not the root."""
    assert node.parent is not None
    return node.parent


@dataclass(slots=True, eq=False)
class LeafStack:
    """A leaf as Two-Stacks: the folds of its oldest entries, and the fold of the newer ones.

    Evicting single events from a leaf of any size then takes amortized O(1) combines.
    """

    suffixes: Rows
    """The folds of the last ``size``, size - 1, ..., 0 entries."""
    size: int
    added: Partial
    at: int = 0


class Kind:
    """Creates and folds the nodes of one tree."""

    def __init__(self, monoid: AbstractMonoid) -> None:
        self.monoid = monoid
        self.entries = Record([WHOLE_NUMBERS, monoid.inputs])
        self.sums = Record([monoid.partials, WHOLE_NUMBERS])
        inner = Record([monoid.partials, monoid.inputs, WHOLE_NUMBERS, WHOLE_NUMBERS])
        #: The layouts of pages by level (``node_cache``).
        self.layouts = layouts_of(
            Layout(monoid.inputs, timed=True, named=False),
            Layout(inner, timed=True, named=True),
            _NOTES_LAYOUT,
        )
        # Never modified: a buffer that is created from rows copies them before a change.
        self._no_entries, self._no_sums = self.entries.new(0), self.sums.new(0)

    def node(
        self,
        level: int,
        entries: RowBuffer | None = None,
        sums: RowBuffer | None = None,
        links: Sequence[Link] = (),
    ) -> Node:
        """Return a node that is empty, or has these entries and subtrees."""
        entries = entries or RowBuffer(self.entries, self._no_entries)
        node = Node(level, entries, sums or RowBuffer(self.sums, self._no_sums))
        node.links.extend(links)
        node.take(links)
        return node

    def lift(self, node: Node, start: int, stop: int) -> Rows:
        return self.monoid.lift_rows(node.values(start, stop), stop - start)

    def fold(self, node: Node) -> Partial:
        """Return the fold of a node without its first and last subtree. At most 2 * arity combines.

        No combines for a leaf that has not changed since the last call.
        """
        entries, count = node.entries, node.count
        if not count:
            return self.monoid.identity
        if node.level:
            return self.monoid.fold(*self.piece(node, 0, count))
        if entries.derived is None:
            entries.derived = self.monoid.fold(self.lift(node, 0, count), count)
        return entries.derived

    def piece(self, node: Node, start: int, stop: int, before: bool = False) -> Piece:
        """Return at least one entry of a node, alternating with the subtrees between them.

        With ``before``, include the subtree before the first entry.
        """
        count, lifted = stop - start, self.lift(node, start, stop)
        if not node.level or count + before == 1:
            return lifted, count
        partials, size = self.monoid.partials, 2 * count - 1 + before
        mixed = partials.new(size)
        partials.put_at(mixed, slice(before, size, 2), lifted)
        partials.put_at(mixed, slice(not before, size, 2), node.folds(start + (not before), stop))
        return mixed, size

    def but_first(self, node: Node) -> Partial:
        """Return the fold of everything except the first subtree."""
        fold = self.fold(node)
        return self.monoid.combine(fold, node.fold_at(node.count)) if len(node.links) > 1 else fold

    def but_last(self, node: Node) -> Partial:
        """Return the fold of everything except the last subtree."""
        fold = self.fold(node)
        return self.monoid.combine(node.fold_at(0), fold) if len(node.links) > 1 else fold

    def whole(self, node: Node) -> Partial:
        """Return the fold of everything in a node whose sums are up to date."""
        if not node.level:
            return self.fold(node)
        return self.monoid.combine(node.fold_at(0), self.but_first(node))

    def refold(self, node: Node) -> Refold:
        """Return ``whole`` in a form that can check the aggregate in the parent."""
        fold = Refold(self.monoid)
        if node.count:
            fold = Refold.of_rows(self.monoid, *self.piece(node, 0, node.count))
        if node.level:
            fold = Refold(self.monoid, [node.fold_at(0)]) + fold
        if len(node.links) > 1:
            fold += Refold(self.monoid, [node.fold_at(node.count)])
        return fold

    def size(self, node: Node) -> int:
        """Return the number of events in a subtree whose sums are up to date."""
        return node.count + (int(node.sizes().sum()) if node.level else 0)

    def stack(self, leaf: Node) -> LeafStack:
        """Return the suffix folds of a leaf. One combine per entry."""
        identity = self.monoid.identity
        lifted = self.lift(leaf, 0, leaf.count)
        return LeafStack(self.monoid.suffixes(lifted, leaf.count, identity), leaf.count, identity)
