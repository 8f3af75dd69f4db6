"""Columns: how a group of values or of partial aggregates lies in memory and in a page.

A *schema* is one of four, nested freely (``mta.monoids.summary`` has one more):

- ``Array(dtype)``: a numpy array, one number a row;
- ``Objects()``: a list, any Python object a row;
- ``Vector(dtype, width)``: so many numbers a row, in a table;
- ``Record(schemas)``: a tuple of columns; with no columns at all a row weighs nothing (Count).

*Rows* are whatever the schema says; a single row is a number, an object, or a tuple of them.
Everything else in the project treats rows as opaque and asks the schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from decimal import Context, Decimal
from operator import getitem, setitem
from struct import pack
from typing import Any

import numpy as np

from mta.columns import codec
from mta.errors import CorruptPage
from mta.kernels.ranges import rows_of
from mta.times import TimeUnit, require_unit

Rows = Any
Row = Any

#: What ``struct`` calls the kinds of columns of Python's own numbers.
_PACKED = {"<f8": "d", "<i8": "q"}
#: A column in a page: what kind of column, and its bytes.
Payload = tuple[str, bytes]
#: Arithmetic of decimals that rounds none that fit a column.
DIGITS = Context(prec=100)


class Schema(ABC):
    """The layout of rows. Every method costs at most one pass over the rows it is given."""

    #: Bytes per row takes in a page; None when rows vary.
    row_bytes: int | None
    #: Whether a single row is made of Python's own numbers, not of numpy's.
    plain: bool = False

    @abstractmethod
    def new(self, capacity: int) -> Rows:
        """Room for ``capacity`` rows, to be filled from the first on by ``put``."""

    def blank(self, capacity: int) -> Rows:
        """As ``new``, of rows that are the same whenever they are written."""
        return self.new(capacity)

    #: Write one row at a place.
    put: Callable[[Rows, int, Row], None]

    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        """Write rows at the next free places from ``at`` on."""
        room[at : at + len(rows)] = rows

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        """The rows from ``start`` to ``stop``, as a view where there can be one."""
        return rows[start:stop]

    #: One row.
    at: Callable[[Rows, int], Row]

    def listed(self, rows: Rows) -> list[Row]:
        """Rows as a list of single ones: much cheaper than ``at`` for each."""
        return [self.at(rows, index) for index in range(len(rows))]

    def gathered(self, rows: list[Row]) -> Rows:
        """Single rows put together: as ``listed``, the other way round."""
        room = self.new(len(rows))
        for at, row in enumerate(rows):
            self.put(room, at, row)
        return room

    @abstractmethod
    def take(self, rows: Rows, indices: Any) -> Rows:
        """The rows at an array of indices."""

    def ranges(
        self, parts: Sequence[Rows], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> Rows:
        """Ranges of rows, each out of one of some parts, one after the other."""
        found, at = self.new(int(lengths.sum())), 0
        triples = zip(which.tolist(), starts.tolist(), lengths.tolist(), strict=True)
        for of, start, length in triples:
            self.put_many(found, at, self.cut(parts[of], start, start + length))
            at += length
        return found

    @abstractmethod
    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        """Write rows at an array of indices, or at those of a slice."""

    @abstractmethod
    def dump(self, rows: Rows) -> list[Payload]:
        """The rows as page columns."""

    @abstractmethod
    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        """Read ``count`` rows back. Raises CorruptPage when the columns are not as declared."""

    def unpageable(self, rows: Rows) -> int | None:
        """The first row that cannot go into a page; None when all can."""
        return None

    def one(self, row: Row) -> Rows:
        """Rows that hold just this row."""
        room = self.new(1)
        self.put(room, 0, row)
        return room


class Fixed(Schema):
    """Rows of a fixed number of bytes, in one little-endian numpy array."""

    kind: str
    dtype: np.dtype[Any]
    row_bytes: int

    def blank(self, capacity: int) -> Rows:
        room = self.new(capacity)
        room.view(np.uint8)[...] = 0
        return room

    def take(self, rows: Rows, indices: Any) -> Rows:
        return rows[indices]

    def ranges(
        self, parts: Sequence[Rows], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> Rows:
        return rows_of(parts, which, starts, lengths)

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        room[indices] = rows

    def dump(self, rows: Rows) -> list[Payload]:
        return [(self.kind, rows.tobytes())]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        kind, data = next_payload(payloads)
        if kind != self.kind or len(data) != count * self.row_bytes:
            raise CorruptPage(
                f"a column holds {len(data)} bytes of {kind!r} instead of {count} rows of {self!r}"
            )
        return np.frombuffer(data, self.dtype)


class Array(Fixed):
    """One number a row; rows are an array.

    ``exact`` refuses whole numbers and decimals that doubles would round. Pages are the same.

    >>> numbers, doubles = np.array([1.5, 2.5]), Array("f8")
    >>> doubles.at(numbers, 0), doubles.as_plain().at(numbers, 0)
    (np.float64(1.5), 1.5)
    """

    def __init__(self, dtype: Any, exact: bool = False) -> None:
        self.dtype, self.exact = np.dtype(dtype).newbyteorder("<"), exact
        if self.dtype.kind not in "biufmM":
            raise TypeError(f"a column of {self.dtype} has no fixed binary form; use Objects()")
        self.kind = self.dtype.str
        self.row_bytes = self.dtype.itemsize
        self.put: Any = setitem
        self.at: Any = getitem

    def as_plain(self) -> Array:
        """The same, single rows being Python's own numbers."""
        found = copy(self)
        found.plain, found.at = True, np.ndarray.item
        return found

    def __repr__(self) -> str:
        return f"Array({self.kind!r})"

    def listed(self, rows: Rows) -> list[Row]:
        return list(rows.tolist() if self.plain else rows)

    def gathered(self, rows: list[Row]) -> Rows:
        return packed(rows, self.kind) if self.plain else np.array(rows, self.dtype)

    def new(self, capacity: int) -> Rows:
        return np.empty(capacity, self.dtype)


def packed(numbers: list[Any], kind: str) -> np.ndarray:
    """Python's own numbers as an array; a fifth of the time that numpy takes, which looks twice.

    >>> packed([1.5, 2.5], "<f8")
    array([1.5, 2.5])
    """
    if kind not in _PACKED:
        return np.array(numbers, kind)
    return np.frombuffer(pack(f"<{len(numbers)}{_PACKED[kind]}", *numbers), kind)


class Decimals(Array):
    """The type of decimals with a fixed number of places, of at most 18 digits.

    Args:
        places: The number of digits behind the point.

    >>> Decimals(2).shown(np.array([150, -3])).tolist()
    [Decimal('1.50'), Decimal('-0.03')]
    """

    def __init__(self, places: int) -> None:
        super().__init__("i8")
        self.places = places

    def __repr__(self) -> str:
        return f"Decimals({self.places})"

    def shown(self, rows: Any) -> np.ndarray:
        """What rows stand for: an array of decimals."""
        found = np.empty(len(rows), object)
        found[:] = [DIGITS.scaleb(Decimal(row), -self.places) for row in rows.tolist()]
        return found


class Times(Array):
    """Times in whole microseconds: datetimes, or numbers that count ``unit`` since 1970.

    >>> Times("ms")
    Times('ms')
    """

    def __init__(self, unit: TimeUnit = "s") -> None:
        require_unit(unit)
        super().__init__("M8[us]")
        self.unit = unit

    def __repr__(self) -> str:
        return f"Times({self.unit!r})"


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


class Objects(Schema):
    """Any Python object a row, in a list; in a page, msgpack.

    ``only`` is the type of every object that a page may hold, where there is but one.
    """

    kind = "msgpack"
    row_bytes: int | None = None

    def __init__(self, only: type | None = None) -> None:
        self.put, self.at = setitem, getitem
        self._only = only

    def __repr__(self) -> str:
        return "Objects()"

    def new(self, capacity: int) -> Rows:
        return [None] * capacity

    def listed(self, rows: Rows) -> list[Row]:
        return list(rows)

    def gathered(self, rows: list[Row]) -> Rows:
        return list(rows)

    def take(self, rows: Rows, indices: Any) -> Rows:
        return [rows[i] for i in indices]

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        if isinstance(indices, slice):
            room[indices] = rows
            return
        for at, row in zip(indices, rows, strict=True):
            room[at] = row

    def dump(self, rows: Rows) -> list[Payload]:
        return [(self.kind, codec.pack(rows))]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        kind, data = next_payload(payloads)
        rows = codec.unpack(data) if kind == self.kind else None
        if not isinstance(rows, list) or len(rows) != count:
            raise CorruptPage(f"a column of kind {kind!r} does not hold a list of {count} objects")
        if self._only is not None and not {self._only}.issuperset(map(type, rows)):
            raise CorruptPage(f"a column of {self._only.__name__}s holds other objects")
        return rows

    def unpageable(self, rows: Rows) -> int | None:
        if codec.ALWAYS_PLAIN.issuperset(map(type, rows)):
            return None
        return next((at for at, row in enumerate(rows) if not codec.is_plain(row)), None)


class Record(Schema):
    """A tuple of columns."""

    def __init__(self, schemas: Sequence[Schema]) -> None:
        self.schemas = tuple(schemas)
        weights = [schema.row_bytes for schema in self.schemas]
        self.row_bytes = None if None in weights else sum(w for w in weights if w is not None)
        self.plain = all(schema.plain for schema in self.schemas)
        #: Whether each column is cut and filled as Python sequences are.
        self._is_flat = all(type(schema) in (Array, Objects) for schema in self.schemas)

    def __repr__(self) -> str:
        return f"Record({list(self.schemas)!r})"

    def new(self, capacity: int) -> Rows:
        return tuple([schema.new(capacity) for schema in self.schemas])

    def blank(self, capacity: int) -> Rows:
        return tuple([schema.blank(capacity) for schema in self.schemas])

    def put(self, room: Rows, at: int, row: Row) -> None:
        if self._is_flat:
            for column, value in zip(room, row, strict=True):
                column[at] = value
            return
        for schema, column, value in zip(self.schemas, room, row, strict=True):
            schema.put(column, at, value)

    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        if self._is_flat:
            for column, values in zip(room, rows, strict=True):
                column[at : at + len(values)] = values
            return
        for schema, column, values in zip(self.schemas, room, rows, strict=True):
            schema.put_many(column, at, values)

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        if self._is_flat:
            return tuple([column[start:stop] for column in rows])
        return tuple(
            [s.cut(column, start, stop) for s, column in zip(self.schemas, rows, strict=True)]
        )

    def at(self, rows: Rows, index: int) -> Row:
        return tuple([s.at(column, index) for s, column in zip(self.schemas, rows, strict=True)])

    def listed(self, rows: Rows) -> list[Row]:
        columns = [s.listed(column) for s, column in zip(self.schemas, rows, strict=True)]
        return list(zip(*columns, strict=True))

    def gathered(self, rows: list[Row]) -> Rows:
        columns = zip(*rows, strict=True) if rows else [()] * len(self.schemas)
        pairs = zip(self.schemas, columns, strict=True)
        return tuple([schema.gathered(list(column)) for schema, column in pairs])

    def take(self, rows: Rows, indices: Any) -> Rows:
        return tuple(
            [s.take(column, indices) for s, column in zip(self.schemas, rows, strict=True)]
        )

    def ranges(
        self, parts: Sequence[Rows], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> Rows:
        columns = zip(self.schemas, zip(*parts, strict=True), strict=True)
        return tuple([schema.ranges(each, which, starts, lengths) for schema, each in columns])

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        for schema, column, values in zip(self.schemas, room, rows, strict=True):
            schema.put_at(column, indices, values)

    def dump(self, rows: Rows) -> list[Payload]:
        return [p for s, column in zip(self.schemas, rows, strict=True) for p in s.dump(column)]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        return tuple([schema.load(payloads, count) for schema in self.schemas])

    def unpageable(self, rows: Rows) -> int | None:
        pairs = zip(self.schemas, rows, strict=True)
        found = [at for s, column in pairs if (at := s.unpageable(column)) is not None]
        return min(found, default=None)


def _put(room: Rows, at: int, row: Row) -> None:
    room[at] = row


def _at(rows: Rows, index: int) -> Row:
    # A copy: a view would keep the whole table alive.
    return rows[index].copy()


def next_payload(payloads: Iterator[Any]) -> Payload:
    """The next column of a page or a snapshot. Raises CorruptPage when there is none."""
    payload = next(payloads, None)
    if isinstance(payload, (list, tuple)) and len(payload) == 2:
        kind, data = payload
        if type(kind) is str and type(data) is bytes:
            return kind, data
    raise CorruptPage("a column is missing, or is no pair of kind and bytes")
