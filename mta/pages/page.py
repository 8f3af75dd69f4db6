"""The format of a page: an immutable sealed group of one level, named by a digest of its bytes.

    page    = msgpack array [magic, version, window, level, group, count, columns]
    magic   = "mta-page"
    version = 1
    window  = text, the window's name
    level   = 0 for events, l > 0 for aggregates of groups of level l - 1
    group   = number of the group in its level; its first element is group * arity
    count   = number of elements: the level's arity, or the size of a part of the open leaf group
    columns = array of [kind, bytes]: the value columns of the events or the columns of the
              partial aggregates, then (if the window stores times) "<i8" times in microseconds
              since 1970 of each event or of the last event below each element, then (levels > 0)
              "name" with the concatenated 16-byte digests of the pages below
    kind    = a numpy little-endian type such as "<f8", "msgpack" for a list of plain data, or
              "bits": one bit per number of the previous column, set unless the number is null,
              starting at the lowest bit of the first byte; empty if no number is null

    name    = xxh3_128 of the page's bytes
    key     = window "/" level "/" group "/" name in hexadecimal

The digest covers the window, the level and the group, so reading a page stored under the wrong key
raises the same error as reading a damaged page. An element has 16 zero bytes as its name if its
events were evicted before their page was sealed, because nothing reads that page.

For example, this page holds the events 1.0 and 2.0 of window "w", with arity 2 and without times:

    97 a8 "mta-page" 01 a1 "w" 00 00 02 91 92 a3 "<f8" c4 10 (16 bytes)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
import xxhash

from mta.columns.schemas import Array, Payload, Rows, Schema, next_payload
from mta.errors import CorruptPage

MAGIC = "mta-page"
VERSION = 1
NAME_BYTES = 16
NO_NAME = bytes(NAME_BYTES)
#: The bytes of events in one part of an open leaf: with its header, a part fits 4 disk pages of
#: 4 KiB.
PART_BYTES = 16256
#: The assumed size of a value whose exact size only encoding would reveal.
OBJECT_BYTES = 64
_TIMES = Array("<i8")


@dataclass(slots=True, eq=False)
class Group:
    """Elements of one level: values or partials, their times, and the names of their pages."""

    rows: Rows
    times: np.ndarray | None
    names: list[bytes]
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the pages of one level."""

    schema: Schema
    timed: bool
    named: bool


def is_name(value: Any) -> bool:
    """Return whether a value can be the name of a page."""
    return isinstance(value, bytes) and len(value) == NAME_BYTES and value != NO_NAME


def part_rows(layout: Layout) -> int:
    """Return the number of events in one part of an open leaf."""
    weight = layout.schema.row_bytes
    row = (OBJECT_BYTES if weight is None else weight) + 8 * layout.timed
    return max(1, PART_BYTES // max(row, 1))


def encode(window: str, level: int, number: int, group: Group, layout: Layout) -> bytes:
    """Encode a group as page bytes. Raises NotPageable for values that are not plain data."""
    columns, packer = write_columns(group, layout), msgpack.Packer()
    fields = [MAGIC, VERSION, window, level, number, group.count]
    pieces = [packer.pack_array_header(len(fields) + 1), *map(packer.pack, fields)]
    pieces.append(packer.pack_array_header(len(columns)))
    for kind, data in columns:  # copies the data once; a msgpack packer would copy it twice
        pieces += [packer.pack_array_header(2), packer.pack(kind), _bytes_head(len(data)), data]
    return b"".join(pieces)


def _bytes_head(size: int) -> bytes:
    """Return the msgpack header of a byte string of this size."""
    code, width = next(
        (code, n) for code, n in ((0xC4, 1), (0xC5, 2), (0xC6, 4)) if size >> 8 * n == 0
    )
    return bytes([code]) + size.to_bytes(width)


def write_columns(group: Group, layout: Layout) -> list[Payload]:
    """Return the columns of a group in the encoding that pages and snapshots share."""
    columns: list[Payload] = layout.schema.dump(group.rows)
    if layout.timed:
        assert group.times is not None
        columns += _TIMES.dump(group.times)
    if layout.named:
        columns.append(("name", b"".join(group.names)))
    return columns


def name_of(page: bytes | memoryview) -> bytes:
    """Return the digest that names a page. Takes 0.1 us per KiB."""
    return xxhash.xxh3_128_digest(page)


def require_named(key: str, page: bytes | memoryview) -> None:
    """Raise CorruptPage if the digest of a page is not the one at the end of its key."""
    if xxhash.xxh3_128_hexdigest(page) != key[-2 * NAME_BYTES :]:
        raise damage(key, "its bytes do not match its name")


def key_of(window: str, level: int, number: int, name: bytes) -> str:
    """Return the page's key in the store."""
    return f"{window}/{level}/{number}/{name.hex()}"


def keys_of(window: str, pages: Sequence[tuple[int, int, bytes]]) -> list[str]:
    """Return the keys of pages, given as (level, number, name)."""
    names, size = b"".join([name for _, _, name in pages]).hex(), 2 * NAME_BYTES
    starts = range(0, len(names), size)
    return [
        f"{window}/{level}/{number}/{names[at : at + size]}"
        for (level, number, _), at in zip(pages, starts, strict=True)
    ]


def decode(
    page: bytes | memoryview, window: str, level: int, number: int, name: bytes, layout: Layout
) -> Group:
    """Decode a page. Raises CorruptPage unless it is the page of this window, level and number."""
    if name_of(page) != name:
        raise _corrupt(window, level, number, name, "its bytes do not match its name")
    try:
        fields = msgpack.unpackb(page)
        if not isinstance(fields, list) or fields[:2] != [MAGIC, VERSION] or len(fields) != 7:
            raise CorruptPage(f"it is not a page of format {VERSION}")
        if fields[2:5] != [window, level, number]:
            raise CorruptPage(f"it is the page of window {fields[2]!r}, {fields[3]}/{fields[4]}")
        return read_columns(fields[5], fields[6], layout)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise _corrupt(window, level, number, name, str(error)) from error


def read_columns(count: Any, columns: Any, layout: Layout) -> Group:
    """Decode the columns of a page or a snapshot. Raises CorruptPage for invalid columns."""
    if not isinstance(count, int) or not isinstance(columns, list):
        raise CorruptPage("its count or its columns have the wrong type")
    payloads = iter(columns)
    rows = layout.schema.load(payloads, count)
    times = _TIMES.load(payloads, count) if layout.timed else None
    names: list[bytes] = []
    if layout.named:
        found, data = next_payload(payloads)
        if found != "name" or len(data) != count * NAME_BYTES:
            raise CorruptPage(
                f"a column of {len(data)} bytes of {found!r} stands for {count} names"
            )
        names = [bytes(data[at : at + NAME_BYTES]) for at in range(0, len(data), NAME_BYTES)]
    if next(payloads, None) is not None:
        raise CorruptPage("it has too many columns")
    return Group(rows, times, names, count)


def _corrupt(window: str, level: int, number: int, name: bytes, what: str) -> CorruptPage:
    return damage(key_of(window, level, number, name), what)


def damage(key: str, what: object) -> CorruptPage:
    """Return the error for a damaged page."""
    return CorruptPage(
        f"page {key} is damaged: {what}; restore from an earlier snapshot, or restore a good copy "
        "of the page"
    )
