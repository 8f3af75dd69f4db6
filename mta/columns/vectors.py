"""A schema for partials of many numbers, which are combined by ufuncs over whole tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mta.columns.schemas import Fixed, Payload, Row, Rows


class Vector(Fixed):
    """A fixed number of numbers a row, in a table; a row is an array of that length.

    >>> column = Vector("f8", 3)
    >>> rows = column.new(2)
    >>> column.put(rows, 0, [1, 2, 3])
    >>> column.at(rows, 0).tolist()
    [1.0, 2.0, 3.0]
    """

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype, self.width = np.dtype(dtype).newbyteorder("<"), width
        self.kind = f"{self.dtype.str}*{width}"
        self.row_bytes = self.dtype.itemsize * width
        self.put, self.at = _put, _at

    def __repr__(self) -> str:
        return f"Vector({self.dtype.str!r}, {self.width})"

    def new(self, capacity: int) -> Rows:
        return np.empty((capacity, self.width), self.dtype)

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        return super().load(payloads, count).reshape(count, self.width)


def _put(room: Rows, at: int, row: Row) -> None:
    room[at] = row


def _at(rows: Rows, index: int) -> Row:
    # A copy: a view would keep the whole table alive.
    return rows[index].copy()
