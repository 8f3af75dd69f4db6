"""The format of a page: one sealed group of one level, immutable and named by its content.

    page    = msgpack array [magic, version, window, level, group, count, columns]
    magic   = "mta-page"
    version = 1
    window  = text, the window's name
    level   = 0 for events, l > 0 for aggregates of groups of level l - 1
    group   = number of the group in its level; its first element is group * arity
    count   = number of elements: the level's arity, or the size of a part of the open leaf group
    columns = array of [kind, bytes]: the value columns of the events or the columns of the
              partial aggregates, then (if the window stores times) "<i8" times in microseconds
              since 1970, of each event or of the last event below each element, then (levels > 0)
              "name" with the 16-byte digests of the pages below, one after the other
    kind    = a numpy little-endian type such as "<f8", "msgpack" for a list of plain data, or
              "bits": one bit per number of the previous column, set unless the number is null,
              starting with the lowest bit of the first byte; empty if no number is null

    name    = xxh3_128 of the page's bytes
    key     = window "/" level "/" group "/" name in hexadecimal

The digest covers window, level and group, so a page under the wrong key is detected like a damaged
page. If the page of an element was never needed, because its events left before it was sealed, its
name is 16 zero bytes.

For example, the events 1.0 and 2.0 of window "w", with arity 2 and without times, are this page:

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
#: How many bytes of events a part of an open leaf has: with its envelope it just fits 4 disk pages
#: of 4 KiB.
PART_BYTES = 16256
#: The assumed weight of a value whose size only its encoding would show.
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
    """Return how many events a part of an open leaf has."""
    weight = layout.schema.row_bytes
    row = (OBJECT_BYTES if weight is None else weight) + 8 * layout.timed
    return max(1, PART_BYTES // max(row, 1))


def encode(window: str, level: int, number: int, group: Group, layout: Layout) -> bytes:
    """A group as page bytes. Raises NotPageable for values that are no plain data."""
    columns, packer = write_columns(group, layout), msgpack.Packer()
    fields = [MAGIC, VERSION, window, level, number, group.count]
    pieces = [packer.pack_array_header(len(fields) + 1), *map(packer.pack, fields)]
    pieces.append(packer.pack_array_header(len(columns)))
    for kind, data in columns:  # each copied once, where msgpack would copy it twice
        pieces += [packer.pack_array_header(2), packer.pack(kind), _bytes_head(len(data)), data]
    return b"".join(pieces)


def _bytes_head(size: int) -> bytes:
    """What msgpack writes before so many bytes."""
    code, width = next(
        (code, n) for code, n in ((0xC4, 1), (0xC5, 2), (0xC6, 4)) if size >> 8 * n == 0
    )
    return bytes([code]) + size.to_bytes(width)


def write_columns(group: Group, layout: Layout) -> list[Payload]:
    """Return the columns of a group, as in a page and in a snapshot."""
    columns: list[Payload] = layout.schema.dump(group.rows)
    if layout.timed:
        assert group.times is not None
        columns += _TIMES.dump(group.times)
    if layout.named:
        columns.append(("name", b"".join(group.names)))
    return columns


def name_of(page: bytes | memoryview) -> bytes:
    """Return the digest that names a page; 0.1 us per KiB."""
    return xxhash.xxh3_128_digest(page)


def require_named(key: str, page: bytes | memoryview) -> None:
    """Raises CorruptPage if a page is not what the end of its key says."""
    if xxhash.xxh3_128_hexdigest(page) != key[-2 * NAME_BYTES :]:
        raise damage(key, "its bytes do not match its name")


def key_of(window: str, level: int, number: int, name: bytes) -> str:
    """Return the page's key in the store."""
    return f"{window}/{level}/{number}/{name.hex()}"


def keys_of(window: str, pages: Sequence[tuple[int, int, bytes]]) -> list[str]:
    """The keys of pages by their levels, numbers and names."""
    names, size = b"".join([name for _, _, name in pages]).hex(), 2 * NAME_BYTES
    starts = range(0, len(names), size)
    return [
        f"{window}/{level}/{number}/{names[at : at + size]}"
        for (level, number, _), at in zip(pages, starts, strict=True)
    ]


def decode(
    page: bytes | memoryview, window: str, level: int, number: int, name: bytes, layout: Layout
) -> Group:
    """Page bytes as the group they must hold. Raises CorruptPage for anything else."""
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
    """Return columns of a page or a snapshot as a group. Raises CorruptPage for invalid columns."""
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
    """The error for a page that is not what it should be."""
    return CorruptPage(
        f"page {key} is damaged: {what}; restore from an earlier snapshot, or restore a good copy "
        "of the page"
    )
