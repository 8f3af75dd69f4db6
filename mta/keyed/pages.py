"""The format of the pages above the tables of keyed windows: indexes, and lists of pages to delete.

    page    = msgpack array [magic, version, window, level, run, count, columns]
    magic   = "mta-keys"
    version = 1
    window  = text, the name of the windows
    level   = l > 0 for an index of pages of level l - 1, 15 for a list of pages to delete
    run     = number of the run that the page belongs to, from 1 on
    count   = number of pages below, or of entries
    columns = array of [kind, bytes]

    of an index:
        firsts    "<u8" hash of the first key of each page
        names     "name" 16-byte digests of the pages, concatenated
        oldest    "<i8" for each page, a time before which none of its keys becomes idle; only if
                  the windows store times

    of a list:
        entries   "msgpack" array of entries

    entry   = bytes, the snapshot of a window
            | [number, level, below, names]: pages of a run; ``below`` says whether the pages below
              them are deleted too; ``names`` has their digests, concatenated

    name    = xxh3_128 of the page's bytes
    key     = window "/" level "/" run "/" name in hexadecimal

The pages of level 0 are tables (``mta.keyed.leaves``). Every page contains the number of its run.
So no two runs share a page, and the pages that are deleted with a run belong to no other run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from mta.columns.schemas import Array, Payload, next_payload
from mta.errors import CorruptPage
from mta.kernels.native import Buffer
from mta.keyed import leaves
from mta.keyed.keys import range_of
from mta.keyed.leaves import Leaves, TableLayout
from mta.keyed.table import Table
from mta.pages import NAME_BYTES, damage, key_of, name_of

MAGIC = "mta-keys"
VERSION = 1
#: The maximum number of levels of a run: more would mean over 2^40 pages.
MAX_HEIGHT = 6
_U8, _I8 = Array("<u8"), Array("<i8")
#: The type of digests in an array; ``tolist`` converts them to bytes.
NAMES = np.dtype((np.void, NAME_BYTES))

#: The level of pages that list pending deletions, higher than any run.
LIST = 15
#: The maximum size in bytes of the pending deletions in a snapshot, and of a page of a list.
ROOM, _LIST_BYTES = 1 << 13, 1 << 14


@dataclass(frozen=True, slots=True)
class PendingPages:
    """Pages of one level of a run; with ``below``, also all pages below them."""

    number: int
    level: int
    names: list[bytes]
    below: bool = True


Entry = PendingPages | bytes


def digests(names: Sequence[bytes]) -> np.ndarray:
    """Return digests as an array."""
    return np.frombuffer(b"".join(names), NAMES)


@dataclass(slots=True)
class Index:
    """Pages of one level, in order: first hashes, names, and times before which no key is idle."""

    firsts: np.ndarray
    names: np.ndarray
    """Digests, of the type ``NAMES``."""
    oldest: np.ndarray | None

    def __len__(self) -> int:
        return len(self.names)

    def cut(self, start: int, stop: int) -> Index:
        oldest = None if self.oldest is None else self.oldest[start:stop]
        return Index(self.firsts[start:stop], self.names[start:stop], oldest)

    @property
    def earliest(self) -> int:
        """Return a time before which no key of these pages is idle."""
        assert self.oldest is not None
        return int(self.oldest.min())

    def renewed(
        self, places: np.ndarray, oldest: Sequence[int], names: Sequence[bytes] | None = None
    ) -> Index:
        """Return this index with other moments at some places, and other names if given."""
        assert self.oldest is not None
        moments, found = self.oldest.copy(), self.names
        moments[places] = oldest
        if names is not None:
            found = found.copy()
            found[places] = digests(names)
        return Index(self.firsts, found, moments)

    def holding(self, hashes: np.ndarray) -> np.ndarray:
        """Return each page that may have keys with some hashes, which never decrease."""
        if len(hashes) < len(self):  # search for the shorter list in the longer one
            found = np.searchsorted(self.firsts, hashes, "right") - 1
            found = found[found >= 0]
            return found[np.diff(found, prepend=-1) > 0]
        first = np.searchsorted(hashes, self.firsts)
        return np.flatnonzero(np.diff(first, append=len(hashes)))

    def between(self, low: int, high: int | None) -> np.ndarray:
        """Return the names of pages that may have keys from hash ``low`` on, before ``high``."""
        start, stop = range_of(self.firsts, low, high)
        return self.names[max(0, start - 1) : stop]

    def dump(self) -> list[Payload]:
        columns: list[Payload] = [*_U8.dump(self.firsts), ("name", self.names.tobytes())]
        return columns if self.oldest is None else columns + _I8.dump(self.oldest)

    @classmethod
    def load(cls, payloads: Iterator[Payload], count: int, timed: bool) -> Index:
        """Return an index from its columns. Raises CorruptPage."""
        firsts = _U8.load(payloads, count)
        kind, data = next_payload(payloads)
        if kind != "name" or len(data) != count * NAME_BYTES:
            raise CorruptPage("its names have the wrong kind or length")
        if (firsts[1:] < firsts[:-1]).any():
            raise CorruptPage("its pages are out of order")
        names = np.frombuffer(data, NAMES)
        return cls(firsts, names, _I8.load(payloads, count) if timed else None)


Content = Index | list[Entry]


def encode(layout: TableLayout, level: int, run: int, content: Table | Content) -> bytes:
    """Encode a table, an index or a list. Raises NotPageable for values that are not plain data."""
    if isinstance(content, Table):
        return leaves.encode(layout, run, content)
    fields = [MAGIC, VERSION, layout.window, level, run, *dump(content)]
    packed: bytes = msgpack.packb(fields)
    return packed


def dump(content: Content) -> tuple[int, list[Payload]]:
    """Return the count and the columns of a page above the tables."""
    if isinstance(content, list):
        return len(content), [("msgpack", msgpack.packb(dump_entries(content)))]
    return len(content), content.dump()


def require_whole(layout: TableLayout, level: int, run: int, name: bytes, page: Buffer) -> None:
    """Raise CorruptPage if a page does not match its name."""
    if name_of(page) != name:
        error = CorruptPage("its bytes do not match its name")
        raise damaged(layout, level, run, name, error) from error


def decode(layout: TableLayout, level: int, run: int, name: bytes, page: bytes) -> Table | Content:
    """Decode the bytes of a page. Raises CorruptPage for anything unexpected."""
    require_whole(layout, level, run, name, page)
    try:
        if level == 0:
            return Leaves(layout, [run], [page]).table()
        return read(layout, level, run, page)
    except (ValueError, TypeError) as error:
        raise damaged(layout, level, run, name, error) from error


def damaged(
    layout: TableLayout, level: int, run: int, name: bytes, error: Exception
) -> CorruptPage:
    """Return the error for a damaged page."""
    return damage(key_of(layout.window, level, run, name), error)


def read(layout: TableLayout, level: int, run: int, page: Buffer) -> Content:
    """Decode the bytes of a page above the tables. Raises CorruptPage."""
    try:
        fields = msgpack.unpackb(page)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise CorruptPage(f"it is not the msgpack of a page of keys: {error}") from error
    if not isinstance(fields, list) or fields[:2] != [MAGIC, VERSION] or len(fields) != 7:
        raise CorruptPage(f"it is not a page of keys of format {VERSION}")
    if fields[2:5] != [layout.window, level, run]:
        raise CorruptPage(f"it is the page of {fields[2]!r}, {fields[3]}/{fields[4]}")
    return load(layout, level, fields[5], fields[6])


def load(layout: TableLayout, level: int, count: Any, columns: Any) -> Content:
    """Decode the count and the columns of a page or a snapshot. Raises CorruptPage."""
    if type(count) is not int or count < 0 or not isinstance(columns, list):
        raise CorruptPage("its count or its columns have the wrong type")
    payloads = iter(columns)
    found: Content
    if level == LIST:
        found = _load_list(payloads, count)
    else:
        found = Index.load(payloads, count, layout.timed)
    if next(payloads, None) is not None:
        raise CorruptPage("it has too many columns")
    return found


def _load_list(payloads: Iterator[Payload], count: int) -> list[Entry]:
    kind, data = next_payload(payloads)
    entries = load_entries(msgpack.unpackb(data), MAX_HEIGHT) if kind == "msgpack" else []
    if len(entries) != count:
        raise CorruptPage(f"it does not have the {count} entries that it declares")
    return entries


def parts_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Split entries into the contents of list pages."""
    found: list[list[Entry]] = []
    room = 0
    for entry in entries:
        weight = weight_of(entry)
        if weight > room:
            found.append([])
            room = _LIST_BYTES
        found[-1].append(entry)
        room -= weight
    return found


def dump_entries(entries: Sequence[Entry]) -> list[Any]:
    """Return entries as plain data."""
    return [
        e if isinstance(e, bytes) else [e.number, e.level, e.below, b"".join(e.names)]
        for e in entries
    ]


def load_entries(entries: Any, most: int) -> list[Entry]:
    """Return entries from plain data; ``most`` is the maximum level. Raises CorruptPage."""
    if not isinstance(entries, list):
        raise CorruptPage("the pending deletions are not a list")
    return [_entry(entry, most) for entry in entries]


def _entry(entry: Any, most: int) -> Entry:
    match entry:
        case bytes():
            return entry
        case [int(number), int(level), bool(below), bytes(names)]:
            fits = number >= 0 and (0 <= level <= most or level == LIST)
            if fits and not len(names) % NAME_BYTES:
                digests = [names[at : at + NAME_BYTES] for at in range(0, len(names), NAME_BYTES)]
                return PendingPages(number, level, digests, below)
    raise CorruptPage("an entry of the pending deletions is invalid")


def weight_of(entry: Entry) -> int:
    """Return the approximate size of an entry in a snapshot, in bytes."""
    return len(entry) + 5 if isinstance(entry, bytes) else NAME_BYTES * len(entry.names) + 20
