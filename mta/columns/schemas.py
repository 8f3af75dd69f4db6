"""Columns: how values and partial aggregates are stored in memory and in pages.

There are five kinds of *schemas*, which can be nested (``mta.monoids.summary`` has one more):

- ``Array(dtype)``: a numpy array with one number per row;
- ``Nullable(array)``: the same, with a mask of the nulls;
- ``Objects()``: a list with any Python object per row, or a ``TextColumn`` (``texts``); ``Coded``
  ones have an integer per row;
- ``Vector(dtype, width)``: a table with ``width`` numbers per row;
- ``Record(schemas)``: a tuple of columns; without columns, rows take no space (Count).

The schema determines the type of *rows*. A single row is a number, an object, or a tuple of these.
All other code uses rows only through their schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from decimal import Context, Decimal
from itertools import chain
from operator import getitem, setitem
from struct import pack
from typing import Any

import numpy as np

from mta.columns import codec
from mta.columns.texts import TextColumn, text_column, text_ranges
from mta.errors import CorruptPage
from mta.kernels.native import Buffer, rows_of, spread
from mta.times import TimeUnit, require_unit

Rows = Any
Row = Any

#: The formats in ``struct`` of columns of Python numbers.
_PACKED = {"<f8": "d", "<i8": "q"}
#: A column in a page: its kind and its bytes.
Payload = tuple[str, Buffer]
#: Ranges of objects are copied one by one if all rows are more than this many times as many.
_SPARSE = 4
#: Decimal arithmetic without rounding for all decimals that fit a column.
DIGITS = Context(prec=100)


class Schema(ABC):
    """The layout of rows. Every method costs at most one pass over its rows."""

    #: The size of a row in a page in bytes; None if sizes vary.
    row_bytes: int | None
    #: Whether single rows consist of Python numbers, not of numpy scalars.
    plain: bool = False
    #: Whether every row has the same size, in memory and in pages.
    is_fixed: bool = False

    @property
    def columns(self) -> tuple[Schema, ...]:
        """The schemas of the columns of a record; any other schema has one column."""
        return (self,)

    @property
    def bare(self) -> Schema:
        """The schema of the values that are not null."""
        return self

    @abstractmethod
    def new(self, capacity: int) -> Rows:
        """Return space for ``capacity`` rows, which ``put`` fills in order."""

    def blank(self, capacity: int) -> Rows:
        """Return the same as ``new``, but with constant content, so that pages are reproducible."""
        return self.new(capacity)

    #: Writes one row at a place.
    put: Callable[[Rows, int, Row], None]

    def put_many(self, room: Rows, at: int, rows: Rows) -> None:
        """Write rows at the free places from ``at`` on."""
        room[at : at + len(rows)] = rows

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        """Return the rows from ``start`` to ``stop``, as a view if possible."""
        return rows[start:stop]

    #: Returns one row.
    at: Callable[[Rows, int], Row]

    def listed(self, rows: Rows, count: int) -> list[Row]:
        """Return a list of all ``count`` rows; much cheaper than ``at`` for each row."""
        return [self.at(rows, index) for index in range(count)]

    def gathered(self, rows: list[Row]) -> Rows:
        """Return rows from a list of single rows, the inverse of ``listed``."""
        room = self.new(len(rows))
        for at, row in enumerate(rows):
            self.put(room, at, row)
        return room

    @abstractmethod
    def take(self, rows: Rows, indices: Any) -> Rows:
        """Return the rows at an array of indices."""

    def ranges(
        self, parts: Sequence[Rows], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> Rows:
        """Return ranges of rows, concatenated; ``which`` has the part of each range."""
        sizes = lengths.tolist()
        triples = zip(which.tolist(), starts.tolist(), sizes, strict=True)
        return self.joined([self.cut(parts[of], at, at + size) for of, at, size in triples], sizes)

    def joined(self, parts: Sequence[Rows], sizes: Sequence[int]) -> Rows:
        """Return a copy of the rows of at least one part, concatenated."""
        found, at = self.new(sum(sizes)), 0
        for part, size in zip(parts, sizes, strict=True):
            self.put_many(found, at, part)
            at += size
        return found

    @abstractmethod
    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        """Write rows at an array of indices, or at a slice."""

    @abstractmethod
    def dump(self, rows: Rows) -> list[Payload]:
        """Return rows as page columns."""

    @abstractmethod
    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        """Read ``count`` rows. Raises CorruptPage for columns of another kind or length."""

    def unpageable(self, rows: Rows) -> int | None:
        """Return the index of the first row that pages cannot store; None if there is none."""
        return None

    def one(self, row: Row) -> Rows:
        """Return rows that consist of a single row."""
        room = self.new(1)
        self.put(room, 0, row)
        return room


class Fixed(Schema):
    """Rows of a fixed number of bytes in a little-endian numpy array."""

    kind: str
    dtype: np.dtype[Any]
    row_bytes: int
    is_fixed = True

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

    def joined(self, parts: Sequence[Rows], sizes: Sequence[int]) -> Rows:
        return np.concatenate(parts, dtype=self.dtype, casting="unsafe")

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        room[indices] = rows

    def dump(self, rows: Rows) -> list[Payload]:
        return [(self.kind, rows.tobytes())]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        kind, data = next_payload(payloads)
        if kind != self.kind or len(data) != count * self.row_bytes:
            raise CorruptPage(
                f"a column has {len(data)} bytes of {kind!r} instead of {count} rows of {self!r}"
            )
        return np.frombuffer(data, self.dtype)


class Array(Fixed):
    """An array with one number per row.

    With ``exact``, a column refuses decimals, and integers that doubles would round; a column of
    booleans refuses all other values. Pages are the same.

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
        """Return the same schema, with Python's numbers as single rows."""
        found = copy(self)
        found.plain, found.at = True, np.ndarray.item
        return found

    def __repr__(self) -> str:
        return f"Array({self.kind!r})"

    def listed(self, rows: Rows, count: int) -> list[Row]:
        return list(rows.tolist() if self.plain else rows)

    def gathered(self, rows: list[Row]) -> Rows:
        return packed(rows, self.kind) if self.plain else np.array(rows, self.dtype)

    def new(self, capacity: int) -> Rows:
        return np.empty(capacity, self.dtype)


class NullableColumn:
    """An array of numbers, and which of them are valid; ``valid`` is None if there are no nulls.

    The number of a null is 0, so that equal columns have equal bytes.
    """

    __slots__ = ("_has_nulls", "_samples", "valid", "values")

    def __init__(self, values: Any, valid: np.ndarray | None = None) -> None:
        self.values, self.valid = values, valid
        self._samples: np.ndarray | None = None
        self._has_nulls: bool | None = False if valid is None else None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, some: slice) -> NullableColumn:
        return NullableColumn(self.values[some], None if self.valid is None else self.valid[some])

    def take(self, rows: np.ndarray) -> NullableColumn:
        values, valid = self.values, self.valid
        if isinstance(values, list):
            values = [values[row] for row in rows.tolist()]
        else:
            values = values.take(rows)
        return NullableColumn(values, None if valid is None else valid.take(rows))

    def tolist(self) -> list[Any]:
        """Return Python values, with None for nulls."""
        values: list[Any] = self.values if isinstance(self.values, list) else self.values.tolist()
        if self.valid is None:
            return values
        pairs = zip(values, self.valid.tolist(), strict=True)
        return [value if is_valid else None for value, is_valid in pairs]

    def nulls(self) -> np.ndarray | None:
        """Return a mask of the nulls; None if there are none."""
        return ~self.valid if self.has_nulls and self.valid is not None else None

    def shown(self, values: np.ndarray | None = None) -> np.ndarray:
        """Return an array for users: masked if there are nulls, or of objects with None for nulls.

        Masked values are NaN or NaT, and 0 for integers. ``values`` replace those of the column.
        """
        nulls = self.nulls()
        if values is None:
            if isinstance(self.values, list):
                values = np.empty(len(self.values), object)
                values[:] = self.tolist()
                return values
            values = np.asarray(self.values)
        if nulls is None:
            return values
        if values.dtype.kind in "fmM":
            none = np.array([np.nan if values.dtype.kind == "f" else "NaT"], values.dtype)
            values = np.where(nulls, none, values)
        return np.ma.MaskedArray(values, nulls)

    @property
    def has_nulls(self) -> bool:
        """Return whether there is a null; cached until rows are written."""
        if self._has_nulls is None:
            self._has_nulls = self.valid is not None and not bool(self.valid.all())
        return self._has_nulls

    def changed(self, with_nulls: bool) -> None:
        """Note that rows are written; ``with_nulls`` says whether nulls are among them."""
        if with_nulls and self.valid is None:
            self.valid = np.ones(len(self), bool)
        if self.valid is not None:
            self._has_nulls = True if with_nulls else None
        self._samples = None

    def samples(self) -> np.ndarray:
        """Return 1 for each value and 0 for each null; the same array until rows are written."""
        if self._samples is None:
            valid = np.ones(len(self), "i8") if self.valid is None else self.valid.astype("i8")
            self._samples = valid
        return self._samples


def shown_column(column: Any) -> np.ndarray:
    """Return a column of events as an array for users."""
    return column.shown() if isinstance(column, NullableColumn) else np.asarray(column)


def column_of(array: np.ndarray) -> NullableColumn:
    """Return an array as a nullable column; masked values are null."""
    if not isinstance(array, np.ma.MaskedArray):
        return NullableColumn(array)
    nulls = np.ma.getmaskarray(array)
    return NullableColumn(np.where(nulls, np.zeros(1, array.dtype), array.data), ~nulls)


class Nullable(Schema):
    """A ``NullableColumn`` with one number or null per row; a null row is None.

    A page stores the numbers, then a column of bits, which is empty if no row is null.

    >>> column = Nullable(Array("i8"))
    >>> rows = column.gathered([7, None, 9])
    >>> rows.tolist(), [len(data) for _, data in column.dump(rows)]
    ([7, None, 9], [24, 1])
    """

    #: The kind of a column of bits in pages.
    BITS = "bits"

    def __init__(self, inner: Array) -> None:
        self.inner, self.row_bytes, self.plain = inner, inner.row_bytes, inner.plain
        #: As in ``Array``.
        self.exact = inner.exact
        self.put, self.at = self._put, self._at

    @property
    def bare(self) -> Array:
        return self.inner

    def __repr__(self) -> str:
        return f"Nullable({self.inner!r})"

    def new(self, capacity: int) -> NullableColumn:
        return NullableColumn(self.inner.new(capacity))

    def blank(self, capacity: int) -> NullableColumn:
        return NullableColumn(self.inner.blank(capacity))

    def _put(self, room: NullableColumn, at: int, row: Row) -> None:
        room.changed(row is None)
        if room.valid is not None:
            room.valid[at] = row is not None
        if row is None:
            room.values[at : at + 1].view("u1")[:] = 0
        else:
            self.inner.put(room.values, at, row)

    def _at(self, rows: NullableColumn, index: int) -> Row:
        if rows.valid is not None and not rows.valid[index]:
            return None
        return self.inner.at(rows.values, index)

    def put_many(self, room: NullableColumn, at: int, rows: NullableColumn) -> None:
        self.put_at(room, slice(at, at + len(rows)), rows)

    def put_at(self, room: NullableColumn, indices: Any, rows: NullableColumn) -> None:
        room.changed(rows.has_nulls)
        room.values[indices] = rows.values
        if room.valid is not None:
            room.valid[indices] = True if rows.valid is None else rows.valid

    def listed(self, rows: NullableColumn, count: int) -> list[Row]:
        found, nulls = self.inner.listed(rows.values, count), rows.nulls()
        for at in () if nulls is None else np.flatnonzero(nulls).tolist():
            found[at] = None
        return found

    def take(self, rows: NullableColumn, indices: Any) -> NullableColumn:
        return rows[indices] if isinstance(indices, slice) else rows.take(indices)

    def ranges(
        self, parts: Sequence[Rows], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> NullableColumn:
        values = rows_of([part.values for part in parts], which, starts, lengths)
        if not any(part.has_nulls for part in parts):
            return NullableColumn(values)
        masks = [np.ones(len(p), bool) if p.valid is None else p.valid for p in parts]
        return NullableColumn(values, rows_of(masks, which, starts, lengths))

    def dump(self, rows: NullableColumn) -> list[Payload]:
        nulls = rows.nulls()
        bits = b"" if nulls is None else packed_bits(~nulls)
        return [*self.inner.dump(rows.values), (self.BITS, bits)]

    def load(self, payloads: Iterator[Payload], count: int) -> NullableColumn:
        values = self.inner.load(payloads, count)
        kind, data = next_payload(payloads)
        if kind != self.BITS or len(data) not in (0, -(-count // 8)):
            raise CorruptPage(
                f"a column has {len(data)} bytes of {kind!r} instead of the bits of {count} rows"
            )
        return NullableColumn(values, unpacked(data, count) if data else None)


def packed_bits(valid: np.ndarray) -> bytes:
    """Return booleans as bits of a page."""
    return np.packbits(valid, bitorder="little").tobytes()


def unpacked(bits: Buffer, count: int) -> np.ndarray:
    """Return bits of a page as booleans."""
    found = np.unpackbits(np.frombuffer(bits, "u1"), count=count, bitorder="little")
    return found.view(bool)


class Presence(Array):
    """Which values of a column, of any type, are not null; the values are not stored."""

    def __init__(self) -> None:
        super().__init__("?")

    def __repr__(self) -> str:
        return "Presence()"


def nullable(schema: Schema) -> Schema:
    """Return a schema whose rows may be null."""
    if isinstance(schema, Record):
        return Record([nullable(each) for each in schema.schemas])
    if type(schema) is Objects or isinstance(schema, Coded):
        found = copy(schema)
        found.nullable = True
        return found
    if isinstance(schema, Array) and not isinstance(schema, Presence):
        return Nullable(schema)
    return schema


def packed(numbers: list[Any], kind: str) -> np.ndarray:
    """Return Python numbers as an array, five times faster than numpy, which inspects each twice.

    >>> packed([1.5, 2.5], "<f8")
    array([1.5, 2.5])
    """
    if kind not in _PACKED:
        return np.array(numbers, kind)
    return np.frombuffer(pack(f"<{len(numbers)}{_PACKED[kind]}", *numbers), kind)


class Decimals(Array):
    """The type of decimals with a fixed number of places, of at most 18 digits.

    ``LongDecimals`` have more digits.

    Args:
        places: The number of digits after the decimal point.

    >>> Decimals(2).shown(np.array([150, -3])).tolist()
    [Decimal('1.50'), Decimal('-0.03')]
    """

    def __init__(self, places: int) -> None:
        super().__init__("i8")
        self.places = places

    def __repr__(self) -> str:
        return f"Decimals({self.places})"

    def shown(self, rows: Any) -> np.ndarray:
        found = np.empty(len(rows), object)
        found[:] = [DIGITS.scaleb(Decimal(row), -self.places) for row in rows.tolist()]
        return found


class Times(Array):
    """Times in whole microseconds, from datetimes or from numbers of ``unit`` since 1970.

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
    """A table with a fixed number of numbers per row; a single row is an array of that length.

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
        self.put, self.at = setitem, _at

    def __repr__(self) -> str:
        return f"Vector({self.dtype.str!r}, {self.width})"

    def new(self, capacity: int) -> Rows:
        return np.empty((capacity, self.width), self.dtype)

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        return super().load(payloads, count).reshape(count, self.width)


class Objects(Schema):
    """A list with any Python object per row; msgpack in pages, text under many keys apart.

    Rows may also be a ``TextColumn``, as long as all of them are text or None.

    ``only`` is the type of all objects, if they have one: of partials in pages, or of values whose
    first ones gave the column its type. In a ``nullable`` column, None is null, and NaN is read as
    None.
    """

    kind = "msgpack"
    row_bytes: int | None = None
    nullable = False

    def __init__(self, only: type | None = None) -> None:
        self.put, self.at, self.only = setitem, getitem, only

    def __repr__(self) -> str:
        return "Nullable(Objects())" if self.nullable else "Objects()"

    def new(self, capacity: int) -> Rows:
        return [None] * capacity

    def listed(self, rows: Rows, count: int) -> list[Row]:
        return list(rows)

    def gathered(self, rows: list[Row]) -> Rows:
        return list(rows)

    def take(self, rows: Rows, indices: Any) -> Rows:
        if isinstance(rows, TextColumn):
            return rows.take(indices)
        return [rows[i] for i in np.asarray(indices).tolist()]

    def ranges(
        self, parts: Sequence[Rows], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
    ) -> Rows:
        if any(isinstance(part, TextColumn) for part in parts):
            columns = list(map(text_column, parts))
            if all(isinstance(part, TextColumn) for part in columns):
                return text_ranges(columns, which, starts, lengths)
            parts = list(map(list, parts))
        ends = np.cumsum([0, *map(len, parts)])
        if ends[-1] > _SPARSE * int(lengths.sum()):
            return super().ranges(parts, which, starts, lengths)
        rows = parts[0] if len(parts) == 1 else list(chain.from_iterable(parts))
        places = spread(starts + ends[which], lengths)
        return list(map(rows.__getitem__, places.tolist()))

    def put_at(self, room: Rows, indices: Any, rows: Rows) -> None:
        if isinstance(indices, slice):
            room[indices] = rows
            return
        for at, row in zip(np.asarray(indices).tolist(), rows, strict=True):
            room[at] = row

    def dump(self, rows: Rows) -> list[Payload]:
        return [(self.kind, codec.pack(list(rows)))]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        kind, data = next_payload(payloads)
        rows = codec.unpack(data) if kind == self.kind else None
        if not isinstance(rows, list) or len(rows) != count:
            raise CorruptPage(f"a column of kind {kind!r} is not a list of {count} objects")
        if self.only is not None and not {self.only, type(None)}.issuperset(map(type, rows)):
            raise CorruptPage(f"a column of {self.only.__name__}s has other objects")
        return rows

    def unpageable(self, rows: Rows) -> int | None:
        if isinstance(rows, TextColumn) and "".join(rows.words.texts).isascii():
            return None
        kinds = set(map(type, rows))
        if kinds <= codec.ALWAYS_PLAIN or (kinds == {str} and "".join(rows).isascii()):
            return None
        return next((at for at, row in enumerate(rows) if not codec.is_plain(row)), None)


def with_texts(schema: Schema, rows: Rows) -> Rows:
    """Return rows with columns of text in place of lists of text and None."""
    if isinstance(schema, Record):
        pairs = zip(schema.schemas, rows, strict=True)
        return tuple([with_texts(part, column) for part, column in pairs])
    return text_column(rows) if type(schema) is Objects else rows


class Coded(Objects):
    r"""A list with a Python integer per row, each of which stands for a value; None is null.

    Integers are compared, hashed and added several times faster than the values themselves. A page
    stores them with the same number of bytes each, then a column of bits as in ``Nullable``.

    >>> [payload for payload in LongDecimals(2).dump([300, None])]
    [('integers', b',\x01\x00\x00'), ('bits', b'\x01')]
    """

    #: The same for all pages, which are read together; their integers differ in size.
    kind = "integers"
    #: The largest magnitude of an integer.
    most: int

    @abstractmethod
    def shown(self, row: int | None) -> Any:
        """Return the value that an integer stands for; None for None."""

    def dump(self, rows: Rows) -> list[Payload]:
        bits = b""
        if None in rows:
            valid = np.array([row is not None for row in rows], bool)
            rows, bits = [row or 0 for row in rows], packed_bits(valid)
        extremes = (min(rows, default=0), max(rows, default=0))
        width = max(value.bit_length() for value in extremes) // 8 + 1
        data = b"".join([row.to_bytes(width, "little", signed=True) for row in rows])
        return [(self.kind, data), (Nullable.BITS, bits)]

    def load(self, payloads: Iterator[Payload], count: int) -> Rows:
        (kind, data), (of_bits, bits) = next_payload(payloads), next_payload(payloads)
        width = len(data) // count if count else 0
        is_whole = len(data) == count * width and kind == self.kind
        if not is_whole or of_bits != Nullable.BITS or len(bits) not in (0, -(-count // 8)):
            raise CorruptPage(f"a column of kind {kind!r} has not {count} rows of {self!r}")
        content, read = bytes(data), int.from_bytes
        found = [
            read(content[at : at + width], "little", signed=True)
            for at in range(0, len(content), width or 1)
        ]
        if found and not -self.most <= min(found) <= max(found) <= self.most:
            raise CorruptPage(f"a column of {self!r} has numbers out of range")
        rows: list[int | None] = [*found]
        for at in np.flatnonzero(~unpacked(bits, count)).tolist() if bits else ():
            rows[at] = None
        return rows

    def unpageable(self, rows: Rows) -> int | None:
        return None


class LongDecimals(Coded):
    """The type of decimals with a fixed number of places, of at most 76 digits.

    Slower than ``Decimals``, which have at most 18 digits.

    Args:
        places: The number of digits after the decimal point.

    >>> LongDecimals(2).shown(12345678901234567890123)
    Decimal('123456789012345678901.23')
    """

    most = 10**76 - 1

    def __init__(self, places: int) -> None:
        super().__init__()
        self.places = places

    def __repr__(self) -> str:
        name = f"LongDecimals({self.places})"
        return f"Nullable({name})" if self.nullable else name

    def shown(self, row: int | None) -> Decimal | None:
        return None if row is None else DIGITS.scaleb(Decimal(row), -self.places)


class Datetimes(Coded):
    """The type of datetimes or durations in lists of values.

    Args:
        unit: The numpy type, such as "M8[us]".

    >>> Datetimes("M8[D]").shown(19723)
    np.datetime64('2024-01-01')
    """

    most = (1 << 63) - 1

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.dtype = np.dtype(unit)

    def __repr__(self) -> str:
        name = f"Datetimes({self.dtype.str!r})"
        return f"Nullable({name})" if self.nullable else name

    def shown(self, row: int | None) -> Any:
        return None if row is None else np.array(row, "i8").view(self.dtype)[()]


class Record(Schema):
    """A tuple of columns."""

    def __init__(self, schemas: Sequence[Schema]) -> None:
        self.schemas = tuple(schemas)
        weights = [schema.row_bytes for schema in self.schemas]
        self.row_bytes = None if None in weights else sum(w for w in weights if w is not None)
        self.plain = all(schema.plain for schema in self.schemas)
        self.is_fixed = all(schema.is_fixed for schema in self.schemas)
        #: Whether each column can be sliced and filled like a Python sequence.
        self._is_flat = all(type(schema) in (Array, Objects) for schema in self.schemas)

    @property
    def columns(self) -> tuple[Schema, ...]:
        return self.schemas

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
        for schema, column, values in zip(self.schemas, room, rows, strict=True):
            schema.put_many(column, at, values)

    def cut(self, rows: Rows, start: int, stop: int) -> Rows:
        if self._is_flat:
            return tuple([column[start:stop] for column in rows])
        pairs = zip(self.schemas, rows, strict=True)
        return tuple([s.cut(column, start, stop) for s, column in pairs])

    def at(self, rows: Rows, index: int) -> Row:
        return tuple([s.at(column, index) for s, column in zip(self.schemas, rows, strict=True)])

    def listed(self, rows: Rows, count: int) -> list[Row]:
        columns = [s.listed(column, count) for s, column in zip(self.schemas, rows, strict=True)]
        return list(zip(*columns, strict=True)) if columns else [()] * count

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

    def joined(self, parts: Sequence[Rows], sizes: Sequence[int]) -> Rows:
        columns = zip(self.schemas, zip(*parts, strict=True), strict=True)
        return tuple([schema.joined(each, sizes) for schema, each in columns])

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


def _at(rows: Rows, index: int) -> Row:
    return rows[index].copy()  # a view would keep the whole table in memory


def next_payload(payloads: Iterator[Any]) -> Payload:
    """Return the next column of a page or snapshot. Raises CorruptPage if there is none."""
    payload = next(payloads, None)
    if isinstance(payload, (list, tuple)) and len(payload) == 2:
        kind, data = payload
        if type(kind) is str and type(data) in (bytes, memoryview):
            return kind, data
    raise CorruptPage("a column is missing, or is not a pair of kind and bytes")
