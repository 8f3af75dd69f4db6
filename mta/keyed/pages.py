"""The formats of keyed windows' pages: indexes of pages of keys, and pages of keys of version 1.

    page    = msgpack array [magic, version, window, level, run, count, columns]
    magic   = "mta-keys"
    version = 1
    window  = text, the name of the windows
    level   = 0 for a table, l > 0 for an index of pages of level l - 1, 15 for a list of what is
              to be deleted
    run     = number of the run that the page belongs to, from 1 on
    count   = number of keys, of pages below, or of entries
    columns = array of [kind, bytes]

    of a table, keys in order of hash and bytes:
        keys      "<i8" whole numbers; for keys of other kinds three columns: "<u8" hashes, "<u2"
                  lengths, and "key" with the bytes of all keys
        marks     "|u1" 0 more events, 1 all events, 2 a handle, 3 expired; "zero" if all are 0
        left      "<i8" events that came before these and have left; "zero" if all are 0
        counts    "<i8" events of each key; "zero" or "one" if all are
        times     "<i8" microseconds since 1970, where the windows keep times
        handles   "msgpack" array of bytes, one for each mark 2; only where there are any
        values    the columns of the values, as in a page of events (``mta.pages.page``)

    of an index:
        firsts    "<u8" hash of the first key of each page
        names     "name" 16-byte digests of the pages, one after the other
        oldest    "<i8" no key here whose newest event may fall silent is silent before; only where
                  the windows keep times

    of a list:
        entries   "msgpack" array of entries (``mta.keyed.doomed``)

    name    = xxh3_128 of the page's bytes
    key     = window "/" level "/" run "/" name in hexadecimal

A column "zero" or "one" has no bytes. A run's number is in its pages so that no two runs share one:
what is deleted with a run is of no other.

New pages of keys are of version 2 (``mta.keyed.leaves``); those of version 1 are read, and a root
has its tables as their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from mta.columns.schemas import Array, Payload, Rows, Schema, next_payload
from mta.errors import CorruptPage
from mta.kernels.ranges import Buffer
from mta.kernels.segments import bounds_of
from mta.keyed import doomed, leaves
from mta.keyed.doomed import LIST, Entry
from mta.keyed.key_types import WHOLE
from mta.keyed.keys import Keys, hashes_of_ints, range_of
from mta.keyed.leaves import Leaves, TableLayout
from mta.keyed.table import EXPIRED, HANDLE, Table
from mta.pages.page import NAME_BYTES, key_of, name_of

MAGIC = "mta-keys"
VERSION = 1
#: No run is higher: its pages would be more than 2^40.
MAX_HEIGHT = 6
#: A key has no more events in a page, and where an event has no bytes, nor have all of them.
_MOST_OF_KEY, _MOST_OF_NOTHING = 1 << 32, 1 << 26
_U1, _U2, _U8, _I8 = Array("|u1"), Array("<u2"), Array("<u8"), Array("<i8")


@dataclass(slots=True)
class Index:
    """Pages of one level, in order: their first hashes, names, and oldest newest events."""

    firsts: np.ndarray
    names: list[bytes]
    oldest: np.ndarray | None

    def __len__(self) -> int:
        return len(self.names)

    def cut(self, start: int, stop: int) -> Index:
        """Those from ``start`` to ``stop``."""
        oldest = None if self.oldest is None else self.oldest[start:stop]
        return Index(self.firsts[start:stop], self.names[start:stop], oldest)

    @property
    def earliest(self) -> int:
        """From when on it pays to look for silent keys."""
        assert self.oldest is not None
        return int(self.oldest.min())

    def renewed(
        self, places: np.ndarray, oldest: Sequence[int], names: Sequence[bytes] = ()
    ) -> Index:
        """This with other moments at some places, and other names if there are any."""
        assert self.oldest is not None
        moments, found = self.oldest.copy(), list(self.names)
        moments[places] = oldest
        for at, name in zip(places.tolist(), names, strict=False):
            found[at] = name
        return Index(self.firsts, found, moments)

    def holding(self, hashes: np.ndarray) -> np.ndarray:
        """Which pages may hold keys of some hashes, which never decrease; each once."""
        first = np.searchsorted(hashes, self.firsts)
        return np.flatnonzero(np.diff(first, append=len(hashes)))

    def between(self, low: int, high: int | None) -> list[bytes]:
        """The names of the pages that may hold keys of hashes from ``low`` on, before ``high``."""
        start, stop = range_of(self.firsts, low, high)
        return self.names[max(0, start - 1) : stop]

    def dump(self) -> list[Payload]:
        """As columns."""
        columns: list[Payload] = [*_U8.dump(self.firsts), ("name", b"".join(self.names))]
        return columns if self.oldest is None else columns + _I8.dump(self.oldest)

    @classmethod
    def load(cls, payloads: Iterator[Payload], count: int, timed: bool) -> Index:
        """Columns as an index. Raises CorruptPage."""
        firsts = _U8.load(payloads, count)
        kind, data = next_payload(payloads)
        if kind != "name" or len(data) != count * NAME_BYTES or not _grow(firsts):
            raise CorruptPage("its names are not those of pages in order")
        names = [data[at : at + NAME_BYTES] for at in range(0, len(data), NAME_BYTES)]
        return cls(firsts, names, _I8.load(payloads, count) if timed else None)


Whole = Table | Index | list[Entry]


def encode(layout: TableLayout, level: int, run: int, content: Whole) -> bytes:
    """A table, an index or a list as page bytes.

    Raises NotPageable for values that are no plain data.
    """
    if isinstance(content, Table):
        return leaves.encode(layout, run, content)
    fields = [MAGIC, VERSION, layout.window, level, run, len(content), dump(content)]
    packed: bytes = msgpack.packb(fields)
    return packed


def dump(content: Whole) -> list[Payload]:
    """What a page holds as columns. Raises NotPageable for values that are no plain data."""
    if isinstance(content, list):
        return [("msgpack", msgpack.packb(doomed.dump(content)))]
    return _dump_table(content) if isinstance(content, Table) else content.dump()


#: What a page holds, as it came: its count and its columns.
Content = tuple[int, list[Any]]


def require_whole(layout: TableLayout, level: int, run: int, name: bytes, page: Buffer) -> None:
    """Raises CorruptPage where a page is not what its name says."""
    if name_of(page) != name:
        error = CorruptPage("its bytes do not match its name")
        raise damaged(layout, level, run, name, error) from error


def opened(layout: TableLayout, level: int, run: int, name: bytes, page: Buffer) -> Content:
    """What a page of version 1 holds, if it is what its place says; else CorruptPage."""
    try:
        fields = msgpack.unpackb(page)
        if not isinstance(fields, list) or fields[:2] != [MAGIC, VERSION] or len(fields) != 7:
            raise CorruptPage(f"it is not a page of keys of format {VERSION}")
        if fields[2:5] != [layout.window, level, run]:
            raise CorruptPage(f"it is the page of {fields[2]!r}, {fields[3]}/{fields[4]}")
        return _content(fields[5], fields[6])
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise damaged(layout, level, run, name, error) from error


def decode(layout: TableLayout, level: int, run: int, name: bytes, page: bytes) -> Whole:
    """Page bytes as what they must hold. Raises CorruptPage for anything else."""
    require_whole(layout, level, run, name, page)
    try:
        if leaves.is_leaf(page):
            if level:
                raise CorruptPage(f"it is the page of {layout.window!r}, 0")
            return Leaves(layout, [run], [page]).table()
        count, columns = opened(layout, level, run, name, page)
        return load(layout, level, count, columns)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise damaged(layout, level, run, name, error) from error


def damaged(
    layout: TableLayout, level: int, run: int, name: bytes, error: Exception
) -> CorruptPage:
    """The error for a page that is not what it should be."""
    return CorruptPage(
        f"page {key_of(layout.window, level, run, name)} is damaged: {error}; restore from an "
        "earlier root, or put back a good copy of the page"
    )


def load(layout: TableLayout, level: int, count: Any, columns: Any) -> Whole:
    """Columns of a page or a root as what they are. Raises CorruptPage."""
    content = _content(count, columns)
    if level == 0:
        return load_tables(layout, [content])
    payloads = iter(content[1])
    found: Whole
    if level == LIST:
        found = _load_list(payloads, content[0])
    else:
        found = Index.load(payloads, content[0], layout.timed)
    if next(payloads, None) is not None:
        raise CorruptPage("it has columns too many")
    return found


def _content(count: Any, columns: Any) -> Content:
    if type(count) is not int or count < 0 or not isinstance(columns, list):
        raise CorruptPage("its count or its columns are of the wrong type")
    return count, columns


def _load_list(payloads: Iterator[Payload], count: int) -> list[Entry]:
    kind, data = next_payload(payloads)
    entries = doomed.load(msgpack.unpackb(data), MAX_HEIGHT) if kind == "msgpack" else []
    if len(entries) != count:
        raise CorruptPage(f"it does not have the {count} entries that it says")
    return entries


# --- tables ---------------------------------------------------------------------------------------


def _dump_table(table: Table) -> list[Payload]:
    columns: list[Payload] = [*_dump_keys(table.keys)]
    columns.append(_dump(_U1, table.marks))
    columns.append(_dump(_I8, table.left))
    columns.append(_dump(_I8, table.counts))
    if table.times is not None:
        columns += _I8.dump(table.times)
    if table.handles:
        columns.append(("msgpack", msgpack.packb(table.handles)))
    return columns + table.schema.dump(table.rows)


def load_tables(layout: TableLayout, contents: Sequence[Content]) -> Table:
    """Tables, each with later keys than the one before it, as one. Raises CorruptPage.

    Column by column for all of them, so that a page costs a few microseconds.
    """
    parts = _Parts(contents)
    keys = parts.keys(layout.kind)
    marks, left, counts = parts.of_keys(_U1), parts.of_keys(_I8), parts.of_keys(_I8)
    if (marks > EXPIRED).any() or (left < 0).any() or (counts < 0).any():
        raise CorruptPage("its marks or counts cannot be")
    if int(counts.max(initial=0)) > _MOST_OF_KEY:
        raise CorruptPage("its counts cannot be")
    bounds = bounds_of(counts)
    if not layout.timed and layout.schema.row_bytes == 0 and bounds[-1] > _MOST_OF_NOTHING:
        raise CorruptPage(f"its {bounds[-1]} events without any bytes are too many")
    ends = bounds_of(np.array(parts.counts))
    events = np.diff(bounds[ends]).tolist()
    times = parts.numbers(_I8, events) if layout.timed else None
    handles = []
    if (marks == HANDLE).any():
        of_parts = np.diff(bounds_of(marks == HANDLE)[ends])
        for count, payloads in zip(of_parts.tolist(), parts.payloads, strict=True):
            handles += _load_handles(payloads, count)
    rows = parts.rows(layout.schema, events)
    return Table(layout.schema, keys, marks, left, bounds, times, rows, handles)


class _Parts:
    """Tables as they came, read side by side."""

    def __init__(self, contents: Sequence[Content]) -> None:
        self.counts = [count for count, _ in contents]
        self.payloads = [iter(columns) for _, columns in contents]

    def of_keys(self, schema: Array) -> np.ndarray:
        """A number for each key."""
        return self.numbers(schema, self.counts)

    def numbers(self, schema: Array, counts: Sequence[int]) -> np.ndarray:
        """So many numbers of each table."""
        found = []
        for payloads, count in zip(self.payloads, counts, strict=True):
            kind, data = next_payload(payloads)
            if kind in _SAME and not data and count <= _MOST:
                data = _SAME[kind][schema.kind] * count
            elif kind != schema.kind or len(data) != count * schema.row_bytes:
                raise CorruptPage(
                    f"a column holds {len(data)} bytes of {kind!r} instead of {count} numbers"
                )
            found.append(data)
        return np.frombuffer(b"".join(found), schema.dtype)

    def keys(self, kind: str) -> Keys:
        """The keys of all tables."""
        if kind in WHOLE:
            ints = self.of_keys(_I8)
            bounds = np.arange(0, 8 * len(ints) + 1, 8)
            keys = Keys(kind, hashes_of_ints(ints), ints.view("u1"), bounds)
        else:
            hashes, lengths = self.of_keys(_U8), self.of_keys(_U2)
            found = [next_payload(payloads) for payloads in self.payloads]
            blob, bounds = b"".join([data for _, data in found]), bounds_of(lengths)
            ends = bounds[bounds_of(np.array(self.counts))]
            if [len(data) for _, data in found] != np.diff(ends).tolist():
                raise CorruptPage("its keys have other lengths than it says")
            keys = Keys(kind, hashes, np.frombuffer(blob, "u1"), bounds)
        if not _grow(keys.hashes):
            raise CorruptPage("its keys are out of order")
        return keys

    def rows(self, schema: Schema, events: Sequence[int]) -> Rows:
        """The rows of all tables: what is left of their columns."""
        columns = [list(payloads) for payloads in self.payloads]
        if len(columns) == 1:
            return _whole(schema, columns[0], events[0])
        sizes = {len(each) for each in columns}
        pairs = [next_payload(iter([pair])) for each in columns for pair in each]
        if len(sizes) == 1 and all(kind != "msgpack" for kind, _ in pairs):
            width, total = sizes.pop(), sum(events)
            joined: list[Payload] = []
            for place in range(width):
                column = pairs[place::width]
                data = b"".join([part for _, part in column])
                odd = any(
                    kind != column[0][0] or len(part) * total != len(data) * count
                    for (kind, part), count in zip(column, events, strict=True)
                )
                if odd:
                    raise CorruptPage("its values are not as many as its events")
                joined.append((column[0][0], data))
            return _whole(schema, joined, total)
        rows, at = schema.new(sum(events)), 0
        for each, count in zip(columns, events, strict=True):
            schema.put_many(rows, at, _whole(schema, each, count))
            at += count
        return rows


#: A number that stands for as many as there are, as bytes.
_SAME = {
    kind: {s.kind: np.array(value, s.dtype).tobytes() for s in (_U1, _U2, _U8, _I8)}
    for value, kind in enumerate(("zero", "one"))
}
#: No page has more keys, so that a hostile one cannot ask for unbounded memory.
_MOST = 1 << 24


def _whole(schema: Schema, columns: Sequence[Any], count: int) -> Rows:
    return leaves.loaded(schema, iter(columns), count)


def _dump(schema: Array, column: np.ndarray) -> Payload:
    """A column, without bytes where all of it is 0 or 1."""
    for value, kind in enumerate(("zero", "one")):
        if (column == value).all():
            return kind, b""
    return schema.kind, column.astype(schema.dtype, copy=False).tobytes()


def _dump_keys(keys: Keys) -> list[Payload]:
    if keys.is_whole:
        return [("<i8", keys.blob.tobytes())]
    lengths = np.diff(keys.bounds).astype("<u2")
    return [*_U8.dump(keys.hashes), *_U2.dump(lengths), ("key", keys.blob.tobytes())]


def _load_handles(payloads: Iterator[Payload], count: int) -> list[bytes]:
    if not count:
        return []
    kind, data = next_payload(payloads)
    handles = msgpack.unpackb(data) if kind == "msgpack" else None
    if not isinstance(handles, list) or [type(handle) for handle in handles] != [bytes] * count:
        raise CorruptPage(f"it does not have the {count} handles that it says")
    return handles


def _grow(hashes: np.ndarray) -> bool:
    return bool((hashes[1:] >= hashes[:-1]).all())
