"""Ranges of retained events, by position and by time, and the view that a frame has of them.

If some events of a range were evicted, the result covers only the others, and you must pass
``partial=True`` to get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mta.columns.schemas import Schema
from mta.errors import CorruptPage, EventsGone, InvalidTime
from mta.folds.sliding import Events
from mta.frames.base import Frame
from mta.logs.base import JoinedLeaf, Leaf, OrderedEvents, Remembered
from mta.monoids.base import Partial
from mta.times import clock


class Positions:
    """The view of a frame on positions and times, wherever its window ends (``frames.View``).

    A frame that ``merges`` also sees totals.
    """

    def __init__(
        self,
        back: Callable[[], int],
        first_after: Callable[[int], int],
        total: Callable[[Frame], Any] | None = None,
    ) -> None:
        self._back, self.first_after = back, first_after
        self.total: Callable[..., Any] = total or self._never

    @property
    def back(self) -> int:
        return self._back()

    def _never(self, *args: Any) -> Any:
        raise TypeError("a frame on positions and times alone asked for an aggregate")

    longest_prefix: Callable[..., int] = _never
    longest_suffix: Callable[..., int] = _never
    all_prefixes: Callable[..., Iterable[tuple[int, Any]]] = _never
    all_suffixes: Callable[..., Iterable[tuple[int, Any]]] = _never


def fold_between(events: Remembered, after: int, until: int, partial: bool) -> tuple[Partial, int]:
    """Return the aggregate and the number of events with after < t <= until, in microseconds.

    Raises InvalidTime, and EventsGone.
    """
    if until < after:
        raise InvalidTime(f"the range from {clock(after)} to {clock(until)} ends before it begins")
    front, start = events.kept_from, events.first_after(after)
    # A late event may be older than events that were evicted.
    if front > 0 and (start == front or events.by_time) and not partial:
        before = events.time_before(front)
        if start == front if before is None else before > after:
            raise _gone(f"after {clock(after)}", front)
    stop = events.first_after(until)
    return events.fold(start, stop), stop - start


def fold_positions(events: Remembered, start: int, stop: int, partial: bool) -> tuple[Partial, int]:
    """Return the aggregate from position ``start`` to ``stop``, and the number of retained events.

    Raises EventsGone, and ValueError for positions that do not exist yet.
    """
    if not 0 <= start <= stop <= events.back:
        raise ValueError(
            f"positions {start} to {stop} are not a range of the {events.back} events so far"
        )
    if start < events.kept_from and not partial:
        raise _gone(f"from position {start} on", events.kept_from)
    start = max(start, min(events.kept_from, stop))
    return events.fold(start, stop), stop - start


def leaves_from(
    events: OrderedEvents, position: int, schema: Schema, stop: int | None = None
) -> Iterator[Leaf]:
    """Yield the events from a position to ``stop``, leaf by leaf. Raises CorruptPage."""
    end = events.back if stop is None else stop
    while position < end:
        leaf = events.leaf(position, end)
        if not leaf.first <= position < leaf.stop:
            raise CorruptPage(f"a leaf has other events than the one at position {position}")
        stop_here = min(leaf.stop, end)
        yield leaf.between(position, stop_here, schema)
        position = stop_here


def events_in(leaves: Iterable[Leaf], schema: Schema, timed: bool) -> Events:
    """Return the events of leaves as one group, with their times if ``timed``."""
    none = Events(schema.new(0), np.zeros(0, "<i8") if timed else None, 0)
    groups = [none, *(group for leaf in leaves for group in leaf.groups)]
    leaf = JoinedLeaf(schema, 0, groups)
    return Events(leaf.rows, leaf.times if timed else None, leaf.count)


def _gone(what: str, kept: int) -> EventsGone:
    return EventsGone(
        f"events {what} have left already; those from position {kept} on are retained. Ask for a "
        "later range, accept the remaining events with partial=True, or retain more "
        "(retain_for=...)"
    )
