"""Columns: how a group of values or of partial aggregates lies in memory and in a page.

A *schema* is one of three, nested freely (``vectors`` and ``summary`` have one more each):

- ``Array(dtype)``: a numpy array, one number a row;
- ``Objects()``: a list, any Python object a row;
- ``Record(schemas)``: a tuple of columns; with no columns at all a row weighs nothing (Count).

*Rows* are whatever the schema says; a single row is a number, an object, or a tuple of them.
Everything else in the project treats rows as opaque and asks the schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import getitem, setitem
from typing import Any

import numpy as np

from mta.columns import codec
from mta.columns.nulls import is_null
from mta.errors import CorruptPage, InvalidValue

Rows = Any
Row = Any
#: A column in a page: what kind of column, and its bytes.
Payload = tuple[str, bytes]


class Schema(ABC):
    """The layout of rows. Every method costs at most one pass over the rows it is given."""

    #: Bytes a row takes in a page; None when rows vary.
    row_bytes: int | None

    @abstractmethod
    def new(self, capacity: int) -> Rows:
        """Room for ``capacity`` rows, to be filled from the first on by ``put``."""

    #: Write one row at a place.
    put: Callable[[Rows, int, Row], None]

    @abstractmethod
    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        """Write rows at the next free places from ``at`` on."""

    @abstractmethod
    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        """The rows from ``start`` to ``stop``, as a view where there can be one."""

    #: One row.
    at: Callable[[Rows, int], Row]

    @abstractmethod
    def take(self, rows: Rows, indices: Any) -> Rows:
        """The rows at an array of indices."""

    @abstractmethod
    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        """Write rows at an array of indices."""

    @abstractmethod
    def dump(self, rows: Rows) -> list[Payload]:
        """The rows as page columns."""

    @abstractmethod
    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        """Read ``count`` rows back. Raises CorruptPage when the columns are not as declared."""

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

    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        room[at : at + len(rows)] = rows

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        return rows[start:stop]

    def take(self, rows: Rows, indices: Any) -> Rows:
        return rows[indices]

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
    """One number a row; rows are an array."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        if self.dtype.kind not in "biufmM":
            raise TypeError(f"a column of {self.dtype} has no fixed binary form; use Objects()")
        self.kind = self.dtype.str
        self.row_bytes = self.dtype.itemsize
        self.put, self.at = setitem, getitem

    def __repr__(self) -> str:
        return f"Array({self.kind!r})"

    def new(self, capacity: int) -> Rows:
        return np.empty(capacity, self.dtype)


class Objects(Schema):
    """Any Python object a row, in a list; in a page, msgpack."""

    kind = "msgpack"
    row_bytes: int | None = None

    def __init__(self) -> None:
        self.put, self.at = setitem, getitem

    def __repr__(self) -> str:
        return "Objects()"

    def new(self, capacity: int) -> Rows:
        return [None] * capacity

    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        room[at : at + len(rows)] = rows

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        return rows[start:stop]

    def take(self, rows: Rows, indices: Any) -> Rows:
        return [rows[i] for i in indices]

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        for at, row in zip(indices, rows, strict=True):
            room[at] = row

    def dump(self, rows: Rows) -> list[Payload]:
        return [(self.kind, codec.pack(rows))]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        kind, data = next_payload(payloads)
        rows = codec.unpack(data) if kind == self.kind else None
        if not isinstance(rows, list) or len(rows) != count:
            raise CorruptPage(f"a column of kind {kind!r} does not hold a list of {count} objects")
        return rows


class Record(Schema):
    """A tuple of columns."""

    def __init__(self, schemas: Sequence[Schema]) -> None:
        self.schemas = tuple(schemas)
        weights = [schema.row_bytes for schema in self.schemas]
        self.row_bytes = None if None in weights else sum(w for w in weights if w is not None)
        #: Whether each column is cut and filled as Python sequences are.
        self._is_flat = all(type(schema) in (Array, Objects) for schema in self.schemas)

    def __repr__(self) -> str:
        return f"Record({list(self.schemas)!r})"

    def new(self, capacity: int) -> Rows:
        return tuple([schema.new(capacity) for schema in self.schemas])

    def put(self, room: Rows, at: int, row: Row) -> None:
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

    def take(self, rows: Rows, indices: Any) -> Rows:
        return tuple(
            [s.take(column, indices) for s, column in zip(self.schemas, rows, strict=True)]
        )

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        for schema, column, values in zip(self.schemas, room, rows, strict=True):
            schema.put_at(column, indices, values)

    def dump(self, rows: Rows) -> list[Payload]:
        return [p for s, column in zip(self.schemas, rows, strict=True) for p in s.dump(column)]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        return tuple([schema.load(payloads, count) for schema in self.schemas])


def next_payload(payloads: Iterator[Any]) -> Payload:
    """The next column of a page or a handle. Raises CorruptPage when there is none."""
    payload = next(payloads, None)
    if isinstance(payload, (list, tuple)) and len(payload) == 2:
        kind, data = payload
        if type(kind) is str and type(data) is bytes:
            return kind, data
    raise CorruptPage("a column is missing, or is no pair of kind and bytes")


def read_value(value: Any, schema: Schema) -> Any:
    """A user's value as one row of a column. Raises InvalidValue."""
    if not isinstance(schema, Array):
        return value
    kind, given = schema.dtype.kind, type(value)
    try:
        if (given is float and kind == "f") or (given is int and kind in "iuf"):
            return schema.dtype.type(value)
        return _as_column([value], schema)[0]
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(
            f"{value!r} is not a number that fits {schema.dtype}; convert it first"
        ) from None


def read_column(values: Any, schema: Schema) -> Any:
    """A user's batch (list, numpy, pandas, Arrow) as a column; in numbers, nulls become NaN.

    Raises InvalidValue for what is no number.
    """
    if not isinstance(schema, Array):
        listed = getattr(values, "tolist", None) or getattr(values, "to_pylist", None)
        try:
            return list(listed() if listed else values)
        except TypeError:
            raise InvalidValue(f"a batch is a column of values, not {values!r}") from None
    if type(values).__module__.startswith("pyarrow"):
        values = values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(False)
    try:
        return _as_column(values, schema)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(
            f"the values cannot be read as {schema.dtype} ({error}); convert the column first"
        ) from None


def _as_column(values: Any, schema: Array) -> np.ndarray:
    """Numbers as a column. Raises TypeError or ValueError rather than change a number."""
    column, dtype = np.asarray(values), schema.dtype
    if column.dtype.kind == "O":
        column = np.asarray(values, dtype) if dtype.kind in "mM" else _without_nulls(column)
    if column.ndim != 1:
        raise ValueError(f"{column.ndim} dimensions in place of one")
    numbers = column.dtype.kind in "biuf"
    if len(column) and (not numbers if dtype.kind in "biuf" else column.dtype.kind != dtype.kind):
        raise TypeError(f"they are {column.dtype}")
    if dtype.kind in "biu" and not np.can_cast(column.dtype, dtype):
        with np.errstate(invalid="ignore"):
            whole = column.astype(dtype)
        if not np.array_equal(whole, column):
            raise ValueError("fractions, nulls or numbers out of range")
        return whole
    return column.astype(dtype, copy=False)


_NO_NUMBERS = (str, bytes, np.datetime64, np.timedelta64)


def _without_nulls(column: np.ndarray) -> np.ndarray:
    """A column of objects as numbers, nulls as NaN."""
    items = column.tolist()
    if column.ndim != 1 or any(isinstance(item, _NO_NUMBERS) for item in items):
        raise TypeError("text, dates or nested values")
    clear = [np.nan if is_null(item) else item for item in items]
    numbers = np.asarray(clear)
    return np.asarray(clear, dtype="f8") if numbers.dtype.kind == "O" else numbers
