r"""The formats of the two kinds of objects in an object store: packs of pages, and pack lists.

    pack    = head page* index tail
    head    = "mta-pack" version
    version = 1 byte, 1
    index   = msgpack array [entries, deleted]
    entries = array of [key, length], in the order of the pages
    deleted = map: name of an earlier pack -> array of the numbers of its entries that are deleted
    tail    = length of the index, 4 bytes little-endian, and digest
    digest  = xxh3_128 of head, index and length, 16 bytes

    list    = "mta-list" version body digest
    body    = msgpack array [packs, deleted]
    packs   = array of [name, size of the object, entries, array of the numbers deleted so far]
    digest  = xxh3_128 of all bytes before it, 16 bytes

A pack is written once and never changes. It holds the pages of one flush, and lists the pages of
earlier packs that were deleted by then. The index is at the end of the pack, so a reader that knows
only the name of the pack gets the index with one ranged read. A list repeats the indexes of many
packs, so a reader of thousands of packs reads a few lists instead of thousands of indexes. Lists
hold no other information.

The pages follow the head without gaps, so an entry needs no offset.

For example, the page ``b"page"`` under the key "w/0", without deletions, is this pack:

    "mta-pack" 01 "page" 92 91 92 a3 "w/0" 04 80 09 00 00 00 (16 bytes)

    >>> data = encode_pack({"w/0": b"page"}, {})
    >>> data[:-16]
    b'mta-pack\x01page\x92\x91\x92\xa3w/0\x04\x80\t\x00\x00\x00'
    >>> decode_index(data, len(data)).entries
    [Entry(key='w/0', start=9, length=4)]
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgpack
import xxhash

from .errors import StoreDamaged

VERSION = 1
HEAD = b"mta-pack" + bytes([VERSION])
LIST_HEAD = b"mta-list" + bytes([VERSION])
_DIGEST_BYTES = 16
_LENGTH = struct.Struct("<I")
_TAIL_BYTES = _LENGTH.size + _DIGEST_BYTES

Deleted = Mapping[str, Collection[int]]
"""The numbers of deleted entries, by the name of their pack."""


class Entry(NamedTuple):
    """The place of a page in its pack."""

    key: str
    start: int
    length: int


@dataclass(slots=True)
class PackIndex:
    """The index at the end of a pack."""

    entries: list[Entry]
    deleted: dict[str, list[int]] = field(default_factory=dict)


class Listed(NamedTuple):
    """A pack as it is repeated in a list."""

    name: str
    size: int
    entries: list[Entry]
    deleted: list[int]


class NeedsMore(Exception):
    """The index starts before the given bytes: read ``length`` bytes from the end of the object."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


def encode_pack(pages: Mapping[str, bytes], deleted: Deleted) -> bytes:
    """Return a pack of these pages, with these deletions in other packs."""
    entries = [[key, len(page)] for key, page in pages.items()]
    index: bytes = msgpack.packb([entries, {name: sorted(at) for name, at in deleted.items()}])
    length = _LENGTH.pack(len(index))
    digest = xxhash.xxh3_128_digest(HEAD + index + length)
    return b"".join((HEAD, *pages.values(), index, length, digest))


def entries_of(pages: Mapping[str, bytes]) -> list[Entry]:
    """Return the entries of the pack that ``encode_pack`` makes of the pages."""
    return _placed([key, len(page)] for key, page in pages.items())


def decode_index(end: bytes, size: int) -> PackIndex:
    """Return the index of a pack of ``size`` bytes, from the bytes at its end.

    Raises ``NeedsMore`` if these are too few, and ``StoreDamaged`` if they are invalid.
    """
    if size < len(HEAD) + _TAIL_BYTES or len(end) < _TAIL_BYTES:
        raise StoreDamaged("it is too short")
    (length,) = _LENGTH.unpack_from(end, len(end) - _TAIL_BYTES)
    if length > size - len(HEAD) - _TAIL_BYTES:
        raise StoreDamaged("the length of its index is impossible")
    if length + _TAIL_BYTES > len(end):
        raise NeedsMore(length + _TAIL_BYTES)
    index = end[len(end) - _TAIL_BYTES - length : len(end) - _DIGEST_BYTES]
    if xxhash.xxh3_128_digest(HEAD + index) != end[-_DIGEST_BYTES:]:
        raise StoreDamaged(f"its index does not match its digest, or its version is not {VERSION}")
    try:
        entries, deleted = msgpack.unpackb(index[: -_LENGTH.size])
        found = PackIndex(_placed(entries), _numbers_by_pack(deleted))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StoreDamaged(f"its index cannot be read ({error})") from error
    if _end(found.entries) != size - length - _TAIL_BYTES:
        raise StoreDamaged("its pages do not add up to its size")
    return found


def encode_list(packs: Iterable[Listed], deleted: Deleted) -> bytes:
    """Return a list of these packs, with deletions in other packs."""
    records = [
        [pack.name, pack.size, [[e.key, e.length] for e in pack.entries], sorted(pack.deleted)]
        for pack in packs
    ]
    body = msgpack.packb([records, {name: sorted(at) for name, at in deleted.items()}])
    data: bytes = LIST_HEAD + body
    return data + xxhash.xxh3_128_digest(data)


def decode_list(data: bytes) -> tuple[list[Listed], dict[str, list[int]]]:
    """Return the packs of a list, and deletions in other packs. Raises ``StoreDamaged``."""
    body = data[:-_DIGEST_BYTES]
    if not body.startswith(LIST_HEAD) or xxhash.xxh3_128_digest(body) != data[-_DIGEST_BYTES:]:
        raise StoreDamaged(f"it does not match its digest, or its version is not {VERSION}")
    try:
        records, deleted = msgpack.unpackb(body[len(LIST_HEAD) :])
        packs = [_listed(*record) for record in records]
        return packs, _numbers_by_pack(deleted)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StoreDamaged(f"it cannot be read ({error})") from error


def _listed(name: Any, size: Any, entries: Any, deleted: Any) -> Listed:
    if not isinstance(name, str) or not isinstance(size, int):
        raise TypeError("a pack has no name or no size")
    found = Listed(name, size, _placed(entries), _numbers(deleted))
    if any(at >= len(found.entries) for at in found.deleted) or _end(found.entries) > size:
        raise ValueError("a pack has more deleted pages than entries")
    return found


def _placed(entries: Iterable[Any]) -> list[Entry]:
    found, start = [], len(HEAD)
    for key, length in entries:
        if not isinstance(key, str) or not isinstance(length, int) or length < 0:
            raise TypeError("an entry is not a key with a length")
        found.append(Entry(key, start, length))
        start += length
    return found


def _end(entries: list[Entry]) -> int:
    return entries[-1].start + entries[-1].length if entries else len(HEAD)


def _numbers_by_pack(deleted: Any) -> dict[str, list[int]]:
    if not isinstance(deleted, dict) or not all(isinstance(name, str) for name in deleted):
        raise TypeError("the deleted pages are not a map of packs")
    return {name: _numbers(at) for name, at in deleted.items()}


def _numbers(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(at) is int and at >= 0 for at in values):
        raise TypeError("the numbers of entries are invalid")
    return values
