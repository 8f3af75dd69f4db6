"""Whether LMDB's file has all of its pages.

LMDB maps its file. If the file was truncated, such as by an interrupted copy, a read beyond its end
kills the process with SIGBUS, which no code can catch. So the size of the file is compared with the
number of its last page before anything is read.

A sound file may be shorter: LMDB numbers a page at the end, frees it in the same transaction, and
then never writes it. All missing pages are in the list of free pages then, which LMDB stores as a
tree of its own.

    page     number, 8 bytes; 2 unused; flags, 2; then of a tree: end of the places, 2; 2 unused;
             the places of its nodes, 2 each
             in front of a chain of pages: how many there are, 4; bytes
    node     low, 2; high, 2; flags, 2; size of the key, 2; key; data
             in a branch, low, high and flags are the page below; in a leaf, low and high are the
             size of the data, and with the flag 1 the data is the first page of a chain
    meta     page header, 16; magic, 4; version, 4; address, 8; size of the map, 8; free pages, 48;
             stored pages, 48; last page, 8; transaction, 8
    tree     40 bytes; page of the root, 8 (all bits set if there are no pages)
    free     key: transaction, 8; data: count, 8; page numbers, 8 each
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import error, unpack_from
from typing import Any, NamedTuple

_HEADER = 16
_FREE_ROOT, _LAST_PAGE = _HEADER + 24 + 40, _HEADER + 24 + 96
_BRANCH, _LEAF, _IN_CHAIN = 1, 2, 1
_NO_PAGE = (1 << 64) - 1
_DEEPEST = 32


def missing_pages(path: str, database: Any) -> int:
    """Return how many pages an open LMDB environment needs beyond the end of its file.

    Reads two pages, and the list of free pages if the file is shorter than its last page.
    """
    page_bytes: int = database.stat()["psize"]
    while True:
        size: int = database.info()["last_pgno"] + 1
        if os.stat(path).st_size >= size * page_bytes:
            return 0
        with database.begin() as transaction, open(path, "rb", buffering=0) as file:
            found = _File(file.fileno(), page_bytes)
            missing = size - os.fstat(file.fileno()).st_size // page_bytes
            try:
                size, root = found.meta(transaction.id())
                missing = size - os.fstat(file.fileno()).st_size // page_bytes
                free = {page for page in found.free_pages(root) if page >= size - missing}
                return max(0, missing - len(free))
            except LookupError:
                continue  # other processes have committed twice meanwhile: look again
            except (error, EOFError):
                return missing  # so is the list of free pages, or a part: none counts as free


class _File(NamedTuple):
    descriptor: int
    page_bytes: int

    def meta(self, transaction: int) -> tuple[int, int]:
        """Return the number of pages and the root of the free pages, as of a transaction.

        Raises LookupError for a transaction that two later ones have overwritten.
        """
        metas = [self._read(page) for page in (0, 1)]
        found = [unpack_from("=QQ", meta, _LAST_PAGE) for meta in metas]
        numbers = [number for _, number in found]
        if transaction not in numbers:
            raise LookupError(transaction)
        at = numbers.index(transaction)
        return found[at][0] + 1, unpack_from("=Q", metas[at], _FREE_ROOT)[0]

    def free_pages(self, root: int, depth: int = 0) -> Iterator[int]:
        """Yield the free pages in the tree below a page. Raises EOFError for a missing page."""
        if root == _NO_PAGE:
            return
        page = self._read(root)
        flags, end = unpack_from("=HH", page, 10)
        if depth > _DEEPEST or not flags & (_BRANCH | _LEAF):
            raise EOFError
        for (place,) in (unpack_from("=H", page, at) for at in range(_HEADER, end, 2)):
            low, high, marks, key_bytes = unpack_from("=HHHH", page, place)
            if flags & _BRANCH:
                yield from self.free_pages(low | high << 16 | marks << 32, depth + 1)
                continue
            data = page[place + 8 + key_bytes :][: low | high << 16]
            if marks & _IN_CHAIN:
                first = unpack_from("=Q", page, place + 8 + key_bytes)[0]
                data = self._read(first, unpack_from("=I", self._read(first), 12)[0])[_HEADER:]
            count = unpack_from("=Q", data)[0]
            yield from unpack_from(f"={count}Q", data, 8)

    def _read(self, page: int, count: int = 1) -> bytes:
        data = os.pread(self.descriptor, count * self.page_bytes, page * self.page_bytes)
        if len(data) < count * self.page_bytes:
            raise EOFError
        return data
