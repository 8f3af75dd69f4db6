"""The chunked-array queue (DEBS 2017 paper, section 4.1): a queue with pointers into it.

A doubly linked list of chunks, each a fixed-size array. A pointer is a chunk and an index into the
chunk. The end pointer is after the last element, at a free place (the paper's sentinel):

    [ . . a b ] <-> [ c d e f ] <-> [ g S . . ]
          begin                         end

Every operation takes O(1) time in the worst case. Memory is allocated and released in chunks.
Elements may have several *columns* with common pointers (DABA's queues ``vals`` and ``aggs``):

>>> queue = ChunkedQueue(columns=2, chunk_size=2)
>>> vals, aggs = queue.columns
>>> for letter in "abc":
...     queue.push_back(letter, letter.upper())
>>> pointer = queue.after(queue.begin)
>>> vals[pointer], aggs[queue.after(pointer)]
('b', 'C')
>>> queue.pop_front()
>>> queue.begin == pointer, queue.after(queue.after(pointer)) == queue.end
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class QueueSegment:
    """A chunk of the queue: one list of elements per column, linked to its neighbors."""

    __slots__ = ("columns", "next", "previous")

    def __init__(self, columns: int, size: int, previous: QueueSegment | None) -> None:
        self.columns = [[None] * size for _ in range(columns)]
        self.previous = previous
        self.next: QueueSegment | None = None


#: A chunk and an index into it. Pointers to the same element are equal.
Pointer = tuple[QueueSegment, int]


class QueueColumn:
    """One column of a queue: ``column[pointer]`` reads it, ``column[pointer] = x`` writes it."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    def __getitem__(self, pointer: Pointer) -> Any:
        chunk, index = pointer
        return chunk.columns[self._number][index]

    def __setitem__(self, pointer: Pointer, item: Any) -> None:
        chunk, index = pointer
        chunk.columns[self._number][index] = item


class ChunkedQueue:
    """A first-in first-out queue; every operation takes O(1) time in the worst case."""

    __slots__ = ("_size", "begin", "columns", "end")

    def __init__(self, columns: int = 1, chunk_size: int = 64) -> None:
        if chunk_size < 1:
            raise ValueError(f"a chunk has at least 1 element, not {chunk_size}")
        self._size = chunk_size
        self.columns = tuple(QueueColumn(number) for number in range(columns))
        #: Pointers to the first element, and to the place after the last.
        self.begin: Pointer = (QueueSegment(columns, chunk_size, None), 0)
        self.end = self.begin

    def push_back(self, *items: Any) -> None:
        """Add an element at the end, with one item per column."""
        chunk, index = self.end
        for column, item in zip(chunk.columns, items, strict=True):
            column[index] = item
        if index + 1 < self._size:
            self.end = (chunk, index + 1)
        else:
            chunk.next = QueueSegment(len(self.columns), self._size, chunk)
            self.end = (chunk.next, 0)

    def pop_front(self) -> None:
        chunk, index = self.begin
        for column in chunk.columns:
            column[index] = None
        self.begin = self.after(self.begin)
        if self.begin[0] is not chunk:
            self.begin[0].previous = chunk.next = None  # breaks a cycle, to free the chunk now

    def after(self, pointer: Pointer) -> Pointer:
        """Return the paper's p + 1."""
        chunk, index = pointer
        if index + 1 < self._size:
            return chunk, index + 1
        assert chunk.next is not None, "nothing is behind the end"
        return chunk.next, 0

    def before(self, pointer: Pointer) -> Pointer:
        """Return the paper's p - 1."""
        chunk, index = pointer
        if index:
            return chunk, index - 1
        assert chunk.previous is not None, "nothing is before the first element"
        return chunk.previous, self._size - 1

    def span(self, start: Pointer, stop: Pointer) -> Iterator[Pointer]:
        """Yield the pointers from ``start`` to before ``stop``."""
        while start != stop:
            yield start
            start = self.after(start)
