"""Columns of text: distinct texts in order, and for each row the place of its text.

    rows     "b"  None  "a"  "b"
    words    "a"  "b"
    codes     1    -1    0    1

Most columns of text have few distinct values: states, countries, merchants. Rows are then moved,
compared and counted as integers, in whole columns, and a text is touched once per batch. The words
are sorted as Python sorts text, so the order of codes is that of their texts.

Everything that uses columns of objects accepts a ``TextColumn`` in place of a list. It may have
words that no row has; ``take`` and ``ranges`` drop these once they outnumber the rows.

>>> column = text_column(["b", None, "a", "b"])
>>> column.codes.tolist(), column.words.texts, column.take(np.array([3, 1])).tolist()
([1, -1, 0, 1], ['a', 'b'], ['b', None])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np

from mta.kernels.native import Buffer, bounds_of, items_of, rows_of

#: The code of a null.
NULL = -1
#: Words that no row has are dropped if there are more words than twice the rows and this number.
_FEW = 64


class Words:
    """Distinct texts in order."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @cached_property
    def array(self) -> np.ndarray:
        """Return an array of the texts, and of None at the place of ``NULL``."""
        found = np.empty(len(self.texts) + 1, object)
        found[:-1] = self.texts
        return found

    @cached_property
    def encoded(self) -> tuple[bytes, np.ndarray]:
        """Return all texts in UTF-8, and where each starts. Raises UnicodeEncodeError."""
        return "".join(self.texts).encode(), bounds_of(self.sizes[:-1])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Return the size of each text in bytes, and 0 for null."""
        texts: Iterable[Any] = self.texts
        if not "".join(self.texts).isascii():
            texts = [text.encode("utf-8", "surrogatepass") for text in self.texts]
        return np.append(np.fromiter(map(len, texts), np.int64, len(self)), 0)


class TextColumn(Sequence[Any]):
    """A column of texts and nulls, which never changes."""

    __slots__ = ("codes", "words")

    def __init__(self, codes: np.ndarray, words: Words) -> None:
        self.codes, self.words = codes, words

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return TextColumn(self.codes[at], self.words)
        return self.words.array[self.codes[at]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __contains__(self, value: object) -> bool:
        return value in self.tolist() if value is not None else self.nulls() is not None

    def __repr__(self) -> str:
        return f"TextColumn({self.tolist()!r})"

    def tolist(self) -> list[Any]:
        """Return the texts, and None for nulls."""
        found: list[Any] = self.shown().tolist()
        return found

    def shown(self) -> np.ndarray:
        """Return an array of objects."""
        found: np.ndarray = self.words.array[self.codes]
        return found

    def nulls(self) -> np.ndarray | None:
        """Return a mask of the nulls; None if there are none."""
        found = self.codes < 0
        return found if found.any() else None

    def sizes(self) -> np.ndarray:
        """Return the size of each text in bytes."""
        found: np.ndarray = self.words.sizes[self.codes]
        return found

    def where(self, mask: np.ndarray) -> TextColumn:
        """Return the column with nulls in all rows that a mask does not mark."""
        return TextColumn(np.where(mask, self.codes, NULL), self.words)

    def take(self, places: Any) -> TextColumn:
        """Return the rows at some places."""
        return TextColumn(self.codes[places], self.words)._compact()

    def _compact(self) -> TextColumn:
        if len(self.words) <= 2 * len(self.codes) + _FEW:
            return self
        return self.used()

    def used(self) -> TextColumn:
        """Return the same rows, without words that no row has."""
        used, codes = distinct_codes(self.codes, len(self.words))
        return TextColumn(codes, Words([self.words.texts[at] for at in used.tolist()]))

    def to_page(self) -> tuple[np.ndarray, bytes, bytes]:
        """Return places, bounds and texts as in a page. Raises UnicodeEncodeError, OverflowError.

        The place of a null is 0, and that of a text is the place of its word, from 1 on.
        """
        used, codes = distinct_codes(self.codes, len(self.words))
        blob, bounds = self.words.encoded
        if len(used) < len(self.words):
            starts, sizes = bounds[used], bounds[used + 1] - bounds[used]
            blob = bytes(items_of([blob], 1, np.zeros_like(used), starts, sizes))
            bounds = bounds_of(sizes)
        if len(blob) >= 1 << 32:
            raise OverflowError("too much text for a page")
        return codes + 1, bounds.astype("<u4").tobytes() if len(used) else b"", blob


def distinct_codes(codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes, below ``count`` and in order, and the place of each among them.

    >>> [each.tolist() for each in distinct_codes(np.array([7, -1, 3, 7]), 9)]
    [[3, 7], [1, -1, 0, 1]]
    """
    if count > 4 * len(codes) + _FEW:
        used, places = np.unique(codes, return_inverse=True)
        nulls = int(len(used) > 0 and used[0] < 0)
        return used[nulls:], places.reshape(-1) - nulls
    seen = np.zeros(count + 1, bool)
    seen[codes] = True
    used = np.flatnonzero(seen[:-1])
    if len(used) == count:
        return used, codes
    places = np.full(count + 1, NULL)
    places[used] = np.arange(len(used))
    return used, places[codes]


def text_column(rows: Any) -> Any:
    """Return a column of objects as text if all of them are text or null; otherwise unchanged."""
    if isinstance(rows, TextColumn) or not {str, type(None)}.issuperset(map(type, rows)):
        return rows
    texts = set(rows)
    has_nulls = None in texts
    texts.discard(None)
    words = Words(sorted(texts))
    places: dict[Any, int] = dict(zip(words.texts, range(len(words)), strict=True))
    if has_nulls:
        places[None] = NULL
    codes = np.fromiter(map(places.__getitem__, rows), np.int64, len(rows))
    return TextColumn(codes, words)


def text_of_codes(codes: np.ndarray, texts: list[str]) -> TextColumn:
    """Return a column from the place of each row's text in a list, in any order; -1 for null.

    >>> text_of_codes(np.array([0, -1, 1, 2]), ["b", "a", "b"]).codes.tolist()
    [1, -1, 0, 1]
    """
    words, (places,) = _union([Words(texts)])
    return TextColumn(places[codes + 1], words)


def text_ranges(
    parts: Sequence[TextColumn], which: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> TextColumn:
    """Return ranges of rows of columns; ``which`` has the column of each range."""
    codes = rows_of([part.codes for part in parts], which, starts, lengths)
    words = parts[0].words
    if all(part.words is words for part in parts):
        return TextColumn(codes, words)._compact()
    words, maps = _union([part.words for part in parts])
    first = bounds_of(np.array([len(each) for each in maps]))[:-1]
    codes = np.concatenate(maps)[codes + 1 + np.repeat(first[which], lengths)]
    return TextColumn(codes, words)._compact()


def _union(parts: Sequence[Words]) -> tuple[Words, list[np.ndarray]]:
    """Return all words, and for each part the places of null and of its words among them."""
    words = Words(sorted(set(chain.from_iterable(part.texts for part in parts))))
    places = dict(zip(words.texts, range(len(words)), strict=True))
    maps = []
    for part in parts:
        found = np.empty(len(part) + 1, np.int64)
        found[0] = NULL
        found[1:] = np.fromiter(map(places.__getitem__, part.texts), np.int64, len(part))
        maps.append(found)
    return words, maps


def texts_of(blob: Buffer, sizes: np.ndarray) -> list[str]:
    """Return the texts in UTF-8 bytes. Raises UnicodeDecodeError."""
    ends = pairwise(bounds_of(sizes).tolist())
    data = bytes(blob)
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in ends]
    return [data[start:stop].decode() for start, stop in ends]


def listed_text(rows: Any) -> Any:
    """Return rows with lists in place of columns of text."""
    if isinstance(rows, tuple):
        return tuple(map(listed_text, rows))
    return rows.tolist() if isinstance(rows, TextColumn) else rows
