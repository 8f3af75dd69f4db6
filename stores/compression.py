"""Smaller pages: a store that compresses on put, and decompresses on get.

Keys are those of the uncompressed pages, so compression does not change names, snapshots or
replays. Every reader decompresses, with or without the option. The wrapper is directly in front of
the store. The write buffer and the cache hold uncompressed pages, and their threads do the
compression.

    packed  = 0xC1 "mta-z" version size length codec payload
    version = 1 byte, 1
    size    = 4 bytes, little-endian: the length of the page
    length  = 1 byte: the length of the codec's name
    codec   = ASCII, "zstd" or "raw"

No page starts with 0xC1, which msgpack never writes. A page that does not become smaller is stored
unchanged. A value that starts like a compressed page is stored as "raw".

The codec "zstd" works best for pages that consist mostly of columns of 8-byte numbers. It groups
the bytes into planes: the first bytes of all numbers, then the second bytes, and so on. Each plane
is replaced by the differences of its bytes, modulo 256, and zstd compresses the result. So sorted
times become runs of a few different bytes. The bytes after the last full number are unchanged.

    >>> bytes(_planes(bytes([1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9])))[:4].hex()
    '01020000'
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .base import PageStore, T, WrapperStore, check_pages
from .errors import MissingDependency, UnsupportedOperation, pip_install

MAGIC = b"\xc1mta-z"
_MAGIC_BYTES = len(MAGIC)
VERSION = 1
#: Longer pages are stored unchanged, and no page is decompressed to more than this.
MAX_BYTES = 16 << 20
_HEAD = struct.Struct("<6sBIB")
_LEVEL = 1


class CompressedStore(WrapperStore):
    """A store that compresses pages with ``codec``, "zstd" or None, and reads all pages.

    A damaged page is returned as its stored bytes, which do not match its digest. Raises
    UnsupportedOperation for an unknown codec, and MissingDependency.
    """

    def __init__(self, store: PageStore, codec: str | None = None) -> None:
        super().__init__(store)
        self._codec = codec
        if codec is not None:
            _library()

    def put_many(self, pages: Mapping[str, bytes]) -> None:
        """Store the pages, compressed where that is shorter; one store call."""
        check_pages(pages, self.capabilities)
        zstd = None if self._codec is None else _library().ZstdCompressor(level=_LEVEL)
        self.store.put_many({key: _packed(page, zstd) for key, page in pages.items()})

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the pages as they were put; one store call."""
        return _all_unpacked(keys, self.store.get_many(keys))

    async def get_many_async(self, keys: Sequence[str]) -> list[bytes | None]:
        return _all_unpacked(keys, await self.store.get_many_async(keys))

    def view_many(self, keys: Sequence[str], see: Callable[[list[Any]], T]) -> T:
        """Return what ``see`` returns for the pages as they were put; one store call."""
        return self.store.view_many(keys, lambda pages: see(_all_unpacked(keys, pages)))

    def peek(self, key: str) -> bytes | None:
        """Return the page if it is in memory and uncompressed, because decompression may fail."""
        page = self.store.peek(key)
        return None if page is not None and page.startswith(MAGIC) else page

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.store, self._codec)


def _library() -> Any:
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"compressed pages need the library 'zstandard': {pip_install('compression')}"
        ) from error
    return zstandard


def _packed(page: bytes, zstd: Any) -> bytes:
    if zstd is not None and len(page) <= MAX_BYTES:
        packed: bytes = _head("zstd", len(page)) + zstd.compress(_planes(page))
        if len(packed) < len(page):
            return packed
    return _head("raw", len(page)) + page if page.startswith(MAGIC) else page


def _head(codec: str, size: int) -> bytes:
    return _HEAD.pack(MAGIC, VERSION, size, len(codec)) + codec.encode()


def _all_unpacked(keys: Sequence[str], pages: list[Any]) -> list[Any]:
    packed = [page is not None and page[:_MAGIC_BYTES] == MAGIC for page in pages]
    if not any(packed):
        return pages
    triples = zip(keys, pages, packed, strict=True)
    return [_unpacked(bytes(page), key) if at else page for key, page, at in triples]


def _unpacked(packed: bytes, key: str) -> bytes:
    """Return the page, or the packed bytes if they are damaged."""
    if len(packed) < _HEAD.size:
        return packed
    _, version, size, length = _HEAD.unpack_from(packed)
    name, payload = packed[_HEAD.size : _HEAD.size + length], packed[_HEAD.size + length :]
    if version != VERSION or name not in (b"zstd", b"raw"):
        raise UnsupportedOperation(
            f"page {key} is compressed with {name!r}, version {version}, which this program does "
            "not support: read it with the version that wrote it, or restore a good copy of the "
            "page"
        )
    page = payload if name == b"raw" else _decompressed(payload, size)
    return packed if page is None or len(page) != size else page


def _decompressed(payload: bytes, size: int) -> bytes | None:
    """Return the page; None if it is damaged, or longer than its head says or than any page."""
    zstandard = _library()
    try:
        if size > MAX_BYTES or zstandard.frame_content_size(payload) != size:
            return None
        return _in_order(zstandard.ZstdDecompressor().decompress(payload, allow_extra_data=False))
    except zstandard.ZstdError:
        return None


def _planes(page: bytes) -> bytes:
    """Return the first bytes of all numbers, then the second, ..., as differences."""
    whole = len(page) // 8 * 8
    planes = np.frombuffer(page, np.uint8, whole).reshape(-1, 8).T.copy()
    planes[:, 1:] -= planes[:, :-1].copy()
    return planes.tobytes() + page[whole:]


def _in_order(planes: bytes) -> bytes:
    """Undo ``_planes``."""
    whole = len(planes) // 8 * 8
    table = np.frombuffer(planes, np.uint8, whole).reshape(8, -1)
    return np.add.accumulate(table, axis=1, dtype=np.uint8).T.tobytes() + planes[whole:]
