"""The search for a cut: which of the oldest events a policy evicts (MTA paper, Algorithm 2).

A window is a row of segments, whole elements of the levels. A search goes through them from the
left, skips elements that leave as a whole, and goes down into the one where the cut lies: one page
read a level. Where the paper walks from the root down, this walks up the head path first, since
most cuts are near the front.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mta.monoids.base import Partial
from mta.pages.structure import Lens

if TYPE_CHECKING:
    from mta.levels.queues import Levels
    from mta.levels.tree import Frame, Segment


class Segmented(Protocol):
    """A window over level queues, as searches go through it."""

    levels: Levels
    front: int

    @property
    def back(self) -> int:
        """The position after the newest event."""

    def query(self) -> Partial:
        """The aggregate of the window."""

    def open_path(self) -> Frame | None:
        """The leaf group of the oldest event; None in an empty window."""

    def segments(self) -> Iterator[Segment]:
        """The window from left to right."""


def first_after(tree: Segmented, time: int) -> int:
    """The position of the oldest event later than ``time``; at most one page read a level."""

    def search(segment: Segment) -> int | None:
        _, _, group, start, stop = segment
        assert group.times is not None
        index = int(np.searchsorted(group.times[start:stop], time, side="right")) + start
        return index if index < stop else None

    return _descend(tree, search)


def longest_prefix(tree: Segmented, lens: Lens, accepts: Callable[[Any], bool]) -> int:
    """Where the longest prefix ends whose result is accepted (Algorithm 2).

    The head events are tried one by one first, as many as there are levels; then the search
    takes O(arity * log n) combines, O(log n) questions and a page read a level.
    """
    monoid, pick = lens
    prefix = monoid.identity
    head = tree.open_path()
    position = tree.front
    if head is not None:
        tries = min(len(tree.levels.tails) + 1, head.stop - head.next)
        rows = pick(tree.levels.partials(0, head.group, head.next, head.next + tries))
        for i in range(tries):
            longer = monoid.combine(prefix, monoid.partials.at(rows, i))
            if not accepts(monoid.lower(longer)):
                return position + i
            prefix = longer
    prefix = monoid.identity

    def search(segment: Segment) -> int | None:
        nonlocal prefix
        level, _, group, start, stop = segment
        rows = pick(tree.levels.partials(level, group, start, stop))
        scan = monoid.prefixes(rows, stop - start, prefix)
        at = monoid.partials.at
        index = bisect_left(
            range(stop - start), True, key=lambda i: not accepts(monoid.lower(at(scan, i)))
        )
        if index:
            prefix = at(scan, index - 1)
        return start + index if index < stop - start else None

    return _descend(tree, search)


def longest_suffix(tree: Segmented, lens: Lens, accepts: Callable[[Any], bool]) -> int:
    """Where the longest suffix begins whose result is accepted; costs as longest_prefix."""
    monoid, pick = lens
    if accepts(monoid.lower(pick(tree.query()))):
        return tree.front
    tree.open_path()
    segments = list(tree.segments())
    rights = [monoid.identity]
    for level, _, group, start, stop in reversed(segments):
        fold = monoid.fold(pick(tree.levels.partials(level, group, start, stop)), stop - start)
        rights.append(monoid.combine(fold, rights[-1]))
    rights.pop()
    for segment in segments:
        position = _suffix_within(tree, segment, rights.pop(), lens, accepts)
        if position is not None:
            return position
    return tree.back


def _suffix_within(
    tree: Segmented, segment: Segment, right: Partial, lens: Lens, accepts: Callable[[Any], bool]
) -> int | None:
    """Where in a segment the longest accepted suffix begins, ``right`` being what follows."""
    monoid, pick = lens
    while True:
        level, first, group, start, stop = segment
        rows = pick(tree.levels.partials(level, group, start, stop))
        scan = monoid.suffixes(rows, stop - start, right)
        at = monoid.partials.at
        index = bisect_left(
            range(stop - start + 1), True, key=lambda i: accepts(monoid.lower(at(scan, i)))
        )
        if index > stop - start:
            return None
        span = tree.levels.span(level)
        if level == 0 or index == 0:
            return (first + start + index) * span
        # The suffix may begin inside the element before the first boundary that is accepted.
        inside, right = start + index - 1, at(scan, index)
        below = tree.levels.child(level, first, group, inside)
        first = (first + inside) * tree.levels.arity_of(level - 1)
        segment = (level - 1, first, below, 0, below.count)


def _descend(tree: Segmented, search: Callable[[Segment], int | None]) -> int:
    """The position that ``search`` finds, going into one element a level; else the back.

    ``search`` answers with the index of the element where the cut lies, None to go on.
    """
    for segment in tree.segments():
        index = search(segment)
        while index is not None:
            level, first, group, _, _ = segment
            if level == 0:
                return first + index
            below = tree.levels.child(level, first, group, index)
            first = (first + index) * tree.levels.arity_of(level - 1)
            segment = (level - 1, first, below, 0, below.count)
            index = search(segment)
            if index is None:
                return (first + below.count) * tree.levels.span(level - 1)
    return tree.back
