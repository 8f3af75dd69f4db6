"""Amortized MTA with groups of two, in memory: the idea of this package in a hundred lines.

A sliding window aggregates its events with any associative operation. ``MinimalMTA`` takes O(1)
combines per event, amortized, and O(log n) for a bulk eviction (MTA paper, 4.2):

    level 2   [     aaaa     ] [     bbbb     ]      an element is the aggregate of the two below
    level 1   [ aa ]    [ aa ] [ bb ]    [ bb ]
    level 0   x    x    f    a b    b    b    b  n   f: the front; x: evicted; n: the newest event
                        ^      ^
              stack:    |      from here to the newest event when this entry was made
                        from the front to the newest event when this entry was made

The *levels* are a binary counter: two elements of a level become one element of the next. The
*stack* has the folds from some positions to the newest event, the front's on top. An eviction drops
entries. The next query splits the range between the front and the first remaining entry into
elements, and adds an entry for each. Later events are combined once, into ``since`` of the top
entry.

The other modules add to this, each in one place:

- ``mta.monoids``: operations on whole columns; ``mta.frames``: which events a window contains
- ``mta.logs``: levels of any arity, whose groups are immutable pages in a store; a finger tree for
  late events
- ``mta.evaluators``: the stack over a log, for one window or many, event by event or in batches
- ``mta.windows``: the public classes; ``stack`` there serves single events without the log
- ``mta.keyed``: many small windows in one log-structured tree

>>> window = MinimalMTA(max)
>>> for value in [3, 1, 4, 1, 5]:
...     window.insert(value)
>>> window.evict(3)
>>> window.query(), len(window)
(5, 2)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Fold(Generic[T]):
    """An entry of the stack: the fold from a position on, and the events since it was computed."""

    start: int
    fold: T
    since: T | None = None


class MinimalMTA(Generic[T]):
    """A window over values that an associative ``combine`` aggregates."""

    def __init__(self, combine: Callable[[T, T], T]) -> None:
        self._combine = combine
        #: The positions of the oldest event, and after the newest event.
        self.front = self.back = 0
        #: Level l has aggregates of 2^l events, from element ``_first[l]`` on.
        self._levels: list[deque[T]] = [deque()]
        self._first = [0]
        self._stack: list[_Fold[T]] = []

    def __len__(self) -> int:
        return self.back - self.front

    def insert(self, value: T) -> None:
        """Add an event; 2 combines, amortized."""
        if self._stack:
            self._stack[-1].since = self._joined(self._stack[-1].since, value)
        self.back += 1
        element, level, number = value, 0, self.back - 1
        while True:
            self._levels[level].append(element)
            if number % 2 == 0 or len(self._levels[level]) < 2:
                return
            element = self._combine(self._levels[level][-2], element)
            level, number = level + 1, number // 2
            if level == len(self._levels):
                self._levels.append(deque())
                self._first.append(number)
            elif not self._levels[level]:
                self._first[level] = number

    def evict(self, count: int = 1) -> None:
        """Remove the oldest events; O(log n) combines at most."""
        if count > len(self):
            raise IndexError(f"cannot evict {count} events of a window of {len(self)}")
        self.front += count
        while self._stack and self._stack[-1].start < self.front:
            left = self._stack.pop()
            if self._stack and left.since is not None:
                self._stack[-1].since = self._joined(self._stack[-1].since, left.since)
        for level, elements in enumerate(self._levels):
            while elements and self._first[level] << level < self.front:
                elements.popleft()  # it has evicted events, so no later fold needs it
                self._first[level] += 1

    def query(self) -> T:
        """Return the aggregate of a window with events; 3 combines, amortized."""
        if not len(self):
            raise IndexError("the window has no events")
        end = self._stack[-1].start if self._stack else self.back
        for start, element in reversed(list(self._elements(end))):
            right = self._value() if self._stack else None
            fold = element if right is None else self._combine(element, right)
            self._stack.append(_Fold(start, fold))
        return self._value()

    def _elements(self, end: int) -> Iterator[tuple[int, T]]:
        """Split the events from the front to ``end`` into the largest elements of the levels."""
        start = self.front
        while start < end:
            level = 0
            while start % (2 << level) == 0 and start + (2 << level) <= end:
                level += 1
            yield start, self._levels[level][(start >> level) - self._first[level]]
            start += 1 << level

    def _value(self) -> T:
        """Return the aggregate from the start of the top entry to the newest event."""
        top = self._stack[-1]
        return top.fold if top.since is None else self._combine(top.fold, top.since)

    def _joined(self, older: T | None, newer: T) -> T:
        return newer if older is None else self._combine(older, newer)
