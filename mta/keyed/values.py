"""The columns of values in the pages of keyed windows, and how ranges of events are read from them.

Each column has a *role*, which follows from the schema:

    fixed                        as many bytes for each event
    bits                         which values of the previous column are not null
    places, ends, text, msgpack  a column of objects; ``leaves`` describes it
    packed                       columns of other types, which are read as a whole

Text is read like numbers: the places of the wanted events, then the words at these places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from mta.columns.schemas import (
    Fixed,
    Nullable,
    Objects,
    Payload,
    Record,
    Rows,
    Schema,
    unpacked,
)
from mta.columns.texts import TextColumn, distinct_codes, text_column, text_of_codes, texts_of
from mta.errors import CorruptPage, NotPageable
from mta.kernels.native import (
    Buffer,
    bounds_of,
    items_of,
    numbers_of,
    rows_of,
    shortened,
)

PLACES, ENDS, TEXT, OBJECTS = "places", "ends", "text", Objects.kind
FIXED, BITS, PACKED = "fixed", Nullable.BITS, "packed"
#: The columns of a column of objects.
ENTRIES = (PLACES, ENDS, TEXT, OBJECTS)


def dumped(schema: Schema, rows: Rows) -> Iterator[tuple[str, tuple[int, int, Buffer]]]:
    """Yield the columns of values: kind, base, unit and bytes. Raises NotPageable."""
    if isinstance(schema, Record):
        for part, column in zip(schema.schemas, rows, strict=True):
            yield from dumped(part, column)
        return
    if type(schema) is not Objects:
        for kind, data in schema.dump(rows):
            yield kind, (0, 0, data)
        return
    values, found = text_column(rows), [(0, 1, b"")] * 2 + [(0, 0, b"")] * 2
    try:
        if isinstance(values, TextColumn):
            places, ends, text = values.to_page()
            found[:3] = [shortened(places, 1), (0, 1, ends), (0, 0, text)]
        else:
            [(_, data)] = schema.dump(rows)
            found[3] = (0, 0, bytes(data))
    except (UnicodeEncodeError, OverflowError) as error:
        raise NotPageable(f"a value cannot be written to a page: {error}") from error
    yield from zip(ENTRIES, found, strict=True)


def roles_of(schema: Schema) -> list[str]:
    """Return what the columns of values have: FIXED, BITS, PACKED, or those of objects."""
    if isinstance(schema, Record):
        return [role for part in schema.schemas for role in roles_of(part)]
    if type(schema) is Objects:
        return [*ENTRIES]
    if isinstance(schema, Nullable):
        return [FIXED, BITS]
    if isinstance(schema, Fixed):
        return [FIXED]
    return [PACKED] * len(schema.dump(schema.new(0)))


class PageRanges(NamedTuple):
    """Ranges of events: the page of each, its first event there, and the number of events."""

    pages: np.ndarray
    starts: np.ndarray
    counts: np.ndarray


class ValueColumns:
    """The columns of values in some pages.

    Args:
        schema: The schema of the values.
        kinds: The kind of each column in the pages. Raises CorruptPage for another kind of column
            than the schema has; a schema without columns skips all values.
    """

    def __init__(self, schema: Schema, kinds: list[str]) -> None:
        self._schema, self._kinds = schema, kinds
        # A reader without columns skips all values.
        self._roles = [PACKED] * len(kinds) if schema.row_bytes == 0 else roles_of(schema)
        pairs = zip(kinds, self._roles, strict=False)
        if len(kinds) != len(self._roles) or any(
            role not in (FIXED, PACKED, kind) for kind, role in pairs
        ):
            raise CorruptPage("its columns have other kinds")

    def __len__(self) -> int:
        return len(self._roles)

    def of_role(self, *roles: str) -> list[int]:
        """Return the columns with one of some roles."""
        return [at for at, role in enumerate(self._roles) if role in roles]

    def open(
        self, pages: list[Buffer], columns: np.ndarray, sizes: np.ndarray, events: np.ndarray
    ) -> None:
        """Read from pages with so many events each; ``columns`` are as for ``native``."""
        self._pages, self._columns, self._sizes, self._events = pages, columns, sizes, events

    def rows(self, some: PageRanges) -> Rows:
        """Return the events in some ranges. Raises CorruptPage."""
        if (some.starts + some.counts > self._events[some.pages]).any():
            raise CorruptPage("the events of a key end after the page")
        return self._rows_of(self._schema, iter(range(len(self))), some)

    def _rows_of(self, schema: Schema, columns: Iterator[int], some: PageRanges) -> Rows:
        """Return ranges of events of a schema, whose columns come next."""
        if isinstance(schema, Record):
            parts = schema.schemas
            return tuple([self._rows_of(p, columns, some) for p in parts])
        own = [at for _, at in zip(roles_of(schema), columns, strict=False)]
        if type(schema) is Objects:
            return self._objects(schema, own, some)
        if not isinstance(schema, Fixed | Nullable):
            return self._by_page(schema, some, lambda page: self._whole(schema, own, page))
        payloads: list[Payload] = []
        for at in own:
            kind = self._kinds[at]
            if self._roles[at] == BITS:
                payloads.append((kind, self._bits_of(at, some)))
                continue
            width = int(self._columns[at][2].max())
            if (self._sizes[at] != width * self._events).any():
                raise CorruptPage("its number of values does not match its number of events")
            payloads.append((kind, items_of(self._pages, self._columns[at], *some)))
        return loaded(schema, iter(payloads), int(some.counts.sum()))

    def _bits_of(self, column: int, some: PageRanges) -> bytes:
        """Return ranges of bits from pages as one column; 1 for pages without bits."""
        sizes = self._sizes[column]
        if not sizes[some.pages].any():
            return b""
        used, which = np.unique(some.pages, return_inverse=True)
        masks = []
        for page in used.tolist():
            start, size, events = (
                int(each[page]) for each in (self._columns[column, 0], sizes, self._events)
            )
            data = bytes(self._pages[page][start : start + size])
            masks.append(unpacked(data, events) if size else np.ones(events, bool))
        return np.packbits(
            rows_of(masks, which, some.starts, some.counts), bitorder="little"
        ).tobytes()

    @staticmethod
    def _by_page(schema: Schema, some: PageRanges, read: Callable[[int], Rows]) -> Rows:
        """Return ranges of events of pages that are read as a whole, one after the other."""
        if not len(some.pages):
            return schema.new(0)
        used, which = np.unique(some.pages, return_inverse=True)
        return schema.ranges([*map(read, used.tolist())], which, some.starts, some.counts)

    def _whole(self, schema: Schema, own: list[int], page: int) -> Rows:
        """Return all events of a page."""
        starts, sizes = self._columns[own, 0, page].tolist(), self._sizes[own, page].tolist()
        payloads = [
            (self._kinds[at], bytes(self._pages[page][start : start + size]))
            for at, start, size in zip(own, starts, sizes, strict=True)
        ]
        return loaded(schema, iter(payloads), int(self._events[page]))

    def _objects(self, schema: Objects, own: list[int], some: PageRanges) -> Rows:
        """Return objects: text by whole columns, others page by page."""
        packed = self._sizes[own[-1]] > 0
        if not packed[some.pages].any():
            return self._texts(schema, own, some)

        def read(page: int) -> Rows:
            if packed[page]:
                return self._whole(schema, own[-1:], page)
            every = PageRanges(np.array([page]), np.zeros(1, np.int64), self._events[[page]])
            return self._texts(schema, own, every)

        return self._by_page(schema, some, read)

    def _texts(self, schema: Objects, own: list[int], some: PageRanges) -> Rows:
        """Return text; of the words of the pages, only those of these rows are decoded."""
        at_places, at_ends, at_text, _ = own
        places = numbers_of(self._pages, self._columns[at_places], *some)
        numbers = np.maximum(self._columns[at_ends, 1] - 1, 0)
        of_rows = np.repeat(some.pages, some.counts)
        if len(places) and (int(places.min()) < 0 or (places > numbers[of_rows]).any()):
            raise CorruptPage("a text has a place that is not in the page")
        first = bounds_of(numbers)
        codes = np.where(places > 0, places - 1 + first[of_rows], -1)
        used, codes = distinct_codes(codes, int(first[-1]))
        pages = np.searchsorted(first, used, side="right") - 1
        two = np.full(len(used), 2)
        ends = numbers_of(self._pages, self._columns[at_ends], pages, used - first[pages], two)
        begins, sizes = ends[::2], ends[1::2] - ends[::2]
        if (
            (begins < 0).any()
            or (sizes < 0).any()
            or (ends[1::2] > self._sizes[at_text][pages]).any()
        ):
            raise CorruptPage("a text ends before it begins, or after the page")
        try:
            blob = items_of(self._pages, self._columns[at_text], pages, begins, sizes)
            texts = texts_of(blob, sizes)
        except UnicodeDecodeError as error:
            raise CorruptPage(f"a text is not UTF-8: {error}") from error
        if schema.only not in (None, str) and texts:
            raise CorruptPage(f"a column of {schema.only.__name__}s has text")
        return text_of_codes(codes, texts)


def loaded(schema: Schema, payloads: Iterator[Payload], count: int) -> Rows:
    """Return columns as rows. Raises CorruptPage unless there are ``count`` rows and no others."""
    rows = schema.load(payloads, count)
    if next(payloads, None) is not None:
        raise CorruptPage("it has too many columns")
    return rows
