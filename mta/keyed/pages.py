"""The formats of keyed windows' pages: keys with their events, and indexes of such pages.

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
        keys      "<i8" integers; for keys of other kinds three columns: "<u8" hashes, "<u2"
                  lengths, and "key" with the bytes of all keys
        marks     "|u1" 0 more events, 1 all events, 2 a handle, 3 forgotten; "zero" if all are 0
        left      "<i8" events that came before these and have left; "zero" if all are 0
        counts    "<i8" events of each key; "zero" or "one" if all are
        times     "<i8" microseconds since 1970, where the windows keep times
        values    the columns of the values, as in a page of events (``mta.pages.page``)
        handles   "msgpack" array of bytes, one for each mark 2; only where there are any

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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from mta.columns.schemas import Array, Payload, Schema, next_payload
from mta.errors import CorruptPage
from mta.kernels.segments import bounds_of
from mta.keyed import doomed
from mta.keyed.doomed import LIST, Entry
from mta.keyed.keys import Keys, hashes_of_ints
from mta.keyed.table import FORGOTTEN, HANDLE, Table
from mta.pages.page import NAME_BYTES, key_of, name_of

MAGIC = "mta-keys"
VERSION = 1
#: No run is higher: its pages would be more than 2^40.
MAX_HEIGHT = 6
#: A key has no more events in a page, and where an event has no bytes, nor have all of them.
_MOST_OF_KEY, _MOST_OF_NOTHING = 1 << 32, 1 << 26
_U1, _U2, _U8, _I8 = Array("|u1"), Array("<u2"), Array("<u8"), Array("<i8")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How the pages of some windows are laid out."""

    window: str
    kind: str
    schema: Schema
    timed: bool


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
        """Which pages may hold keys of some hashes, in order; each once."""
        places = np.searchsorted(self.firsts, hashes, side="right") - 1
        return np.unique(places[places >= 0])

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


Content = Table | Index | list[Entry]


def encode(layout: TableLayout, level: int, run: int, content: Content) -> bytes:
    """A table, an index or a list as page bytes.

    Raises NotPageable for values that are no plain data.
    """
    fields = [MAGIC, VERSION, layout.window, level, run, len(content), dump(content)]
    packed: bytes = msgpack.packb(fields)
    return packed


def dump(content: Content) -> list[Payload]:
    """What a page holds as columns. Raises NotPageable for values that are no plain data."""
    if isinstance(content, list):
        return [("msgpack", msgpack.packb(doomed.dump(content)))]
    return _dump_table(content) if isinstance(content, Table) else content.dump()


def decode(layout: TableLayout, level: int, run: int, name: bytes, page: bytes) -> Content:
    """Page bytes as what they must hold. Raises CorruptPage for anything else."""
    try:
        if name_of(page) != name:
            raise CorruptPage("its bytes do not match its name")
        fields = msgpack.unpackb(page)
        if not isinstance(fields, list) or fields[:2] != [MAGIC, VERSION] or len(fields) != 7:
            raise CorruptPage(f"it is not a page of keys of format {VERSION}")
        if fields[2:5] != [layout.window, level, run]:
            raise CorruptPage(f"it is the page of {fields[2]!r}, {fields[3]}/{fields[4]}")
        return load(layout, level, fields[5], fields[6])
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        key = key_of(layout.window, level, run, name)
        raise CorruptPage(
            f"page {key} is damaged: {error}; restore from an earlier root, or put back a good "
            "copy of the page"
        ) from error


def load(layout: TableLayout, level: int, count: Any, columns: Any) -> Content:
    """Columns of a page or a root as what they are. Raises CorruptPage."""
    if type(count) is not int or count < 0 or not isinstance(columns, list):
        raise CorruptPage("its count or its columns are of the wrong type")
    payloads = iter(columns)
    content: Content
    if level == LIST:
        content = _load_list(payloads, count)
    elif level:
        content = Index.load(payloads, count, layout.timed)
    else:
        content = _load_table(payloads, count, layout)
    if next(payloads, None) is not None:
        raise CorruptPage("it has columns too many")
    return content


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
    columns += table.schema.dump(table.rows)
    if table.handles:
        columns.append(("msgpack", msgpack.packb(table.handles)))
    return columns


def _load_table(payloads: Iterator[Payload], count: int, layout: TableLayout) -> Table:
    keys = _load_keys(payloads, count, layout.kind)
    marks, left = _load(_U1, payloads, count), _load(_I8, payloads, count)
    counts = _load(_I8, payloads, count)
    if (marks > FORGOTTEN).any() or (left < 0).any() or (counts < 0).any():
        raise CorruptPage("its marks or counts cannot be")
    if len(counts) > _MOST_OF_NOTHING or int(counts.max(initial=0)) > _MOST_OF_KEY:
        raise CorruptPage("its counts cannot be")
    bounds = bounds_of(counts)
    events = int(bounds[-1])
    if not layout.timed and layout.schema.row_bytes == 0 and events > _MOST_OF_NOTHING:
        raise CorruptPage(f"its {events} events without any bytes are too many")
    times = _I8.load(payloads, events) if layout.timed else None
    rows = layout.schema.load(payloads, events)
    handles = _load_handles(payloads, int((marks == HANDLE).sum()))
    return Table(layout.schema, keys, marks, left, bounds, times, rows, handles)


def _dump(schema: Array, column: np.ndarray) -> Payload:
    """A column, without bytes where all of it is 0 or 1."""
    for value, kind in enumerate(("zero", "one")):
        if (column == value).all():
            return kind, b""
    return schema.kind, column.astype(schema.dtype, copy=False).tobytes()


def _load(schema: Array, payloads: Iterator[Payload], count: int) -> np.ndarray:
    payload = next_payload(payloads)
    if payload == ("zero", b""):
        return np.zeros(count, schema.dtype)
    if payload == ("one", b""):
        return np.ones(count, schema.dtype)
    loaded: np.ndarray = schema.load(iter([payload]), count)
    return loaded


def _dump_keys(keys: Keys) -> list[Payload]:
    if keys.kind == "int":
        return [("<i8", keys.blob.tobytes())]
    lengths = np.diff(keys.bounds).astype("<u2")
    return [*_U8.dump(keys.hashes), *_U2.dump(lengths), ("key", keys.blob.tobytes())]


def _load_keys(payloads: Iterator[Payload], count: int, kind: str) -> Keys:
    if kind == "int":
        ints = _I8.load(payloads, count)
        bounds = np.arange(0, 8 * count + 1, 8)
        keys = Keys(kind, hashes_of_ints(ints), ints.view("u1"), bounds)
    else:
        hashes, lengths = _U8.load(payloads, count), _U2.load(payloads, count)
        column, data = next_payload(payloads)
        bounds = bounds_of(lengths)
        if column != "key" or len(data) != bounds[-1]:
            raise CorruptPage("its keys have other lengths than it says")
        keys = Keys(kind, hashes, np.frombuffer(data, "u1"), bounds)
    if not _grow(keys.hashes):
        raise CorruptPage("its keys are out of order")
    return keys


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
