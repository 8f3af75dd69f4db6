"""Rows in order, with room for more: what a node of a tree keeps its entries and sums in."""

from __future__ import annotations

from typing import Any

import numpy as np

from mta.columns.schemas import Record, Row, Rows


class Shelf:
    """Rows of one schema that may be added and removed anywhere.

    Rows that came out of a page are not written to; the first change copies them.
    """

    __slots__ = ("_capacity", "_room", "_start", "count", "derived", "schema")

    def __init__(self, schema: Record, rows: Rows = None, count: int = 0) -> None:
        self.schema, self.count = schema, count
        self._room = schema.new(0) if rows is None else rows
        #: Rows that there is room for; 0 while the room is somebody else's.
        self._capacity = 0
        self._start = 0
        #: What somebody has computed of the rows; None after every change to them.
        self.derived: Any = None

    @property
    def rows(self) -> Rows:
        """All rows, as a view."""
        return self.cut(0, self.count)

    def cut(self, start: int, stop: int) -> Rows:
        """Some rows, as a view."""
        return self.schema.cut(self._room, self._start + start, self._start + stop)

    def numbers(self, which: int) -> np.ndarray:
        """One of the columns that are arrays, as a view."""
        column: np.ndarray = self._room[which][self._start : self._start + self.count]
        return column

    def part(self, which: int, start: int, stop: int) -> Rows:
        """Some rows of one of the columns, as a view."""
        first = self._start
        return self.schema.schemas[which].cut(self._room[which], first + start, first + stop)

    def at(self, index: int) -> Row:
        """One row."""
        return self.schema.at(self._room, self._start + index)

    def part_at(self, which: int, index: int) -> Row:
        """One row of one of the columns."""
        return self.schema.schemas[which].at(self._room[which], self._start + index)

    def put(self, index: int, row: Row) -> None:
        """Replace one row."""
        self._own(self.count)
        self.schema.put(self._room, self._start + index, row)

    def insert(self, index: int, row: Row) -> None:
        """Put a row before the one at an index; those after it move on."""
        self._own(self.count + 1)
        schema, room, at = self.schema, self._room, self._start + index
        if index < self.count:
            schema.put_many(room, at + 1, schema.cut(room, at, self._start + self.count))
        schema.put(room, at, row)
        self.count += 1

    def remove(self, index: int) -> Row:
        """Take a row out; those after it move back, unless it was the first."""
        row = self.at(index)
        if index == 0:
            self.drop(1)
            return row
        self._own(self.count)
        schema, room, at = self.schema, self._room, self._start + index
        schema.put_many(room, at, schema.cut(room, at + 1, self._start + self.count))
        self.count -= 1
        return row

    def extend(self, rows: Rows, count: int) -> None:
        """Add rows at the end."""
        self._own(self.count + count)
        self.schema.put_many(self._room, self._start + self.count, rows)
        self.count += count

    def extend_front(self, rows: Rows, count: int) -> None:
        """Add rows before the first."""
        old, size = self.rows, self.count
        self._room = self.schema.new(count + size)
        self._capacity, self._start = count + size, 0
        self.schema.put_many(self._room, 0, rows)
        self.schema.put_many(self._room, count, old)
        self.count = count + size
        self.derived = None

    def drop(self, count: int) -> None:
        """Remove the first rows; nothing is moved."""
        self._start += count
        self.count -= count
        self.derived = None

    def truncate(self, count: int) -> None:
        """Keep the first rows alone."""
        self.count = count
        self.derived = None

    def copy(self, start: int, stop: int) -> Shelf:
        """Some rows, on a shelf of their own."""
        copied = Shelf(self.schema)
        copied.extend(self.cut(start, stop), stop - start)
        return copied

    def _own(self, size: int) -> None:
        """Make the room ours, and large enough for so many rows, which are about to change."""
        self.derived = None
        if self._start + size <= self._capacity:
            return
        rows = self.rows
        self._capacity, self._start = size + size // 2 + 4, 0
        self._room = self.schema.new(self._capacity)
        self.schema.put_many(self._room, 0, rows)
