"""Which results are incomplete after windows or aggregations were changed, and until when.

A ``Start`` describes what a change has lost. Every missing event is at or before its ``moment``.
None of the last ``known`` events before the oldest event that a key still accepts is missing. Both
numbers determine when each result is complete (``Incomplete``):

    TimeWindow(60)                  from a moment on
    CountWindow(9)                  after a number of events of a key
    TimeWindow(60) | CountWindow(9) after either, because the window is the shorter of the two
    TimeWindow(60) & CountWindow(9) after both
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np

from mta.evaluators.coverage import Incomplete
from mta.frames.base import Frame
from mta.frames.known import AT_ONCE, Whole, all_of, covers, held_for, whole_after
from mta.keyed.kind import Retention
from mta.keyed.snapshot import Start
from mta.keyed.table import Lanes
from mta.monoids.base import AbstractMonoid
from mta.monoids.product import columns_read, mark_of


class Losses:
    """The events of their previous windows that keys have lost."""

    def __init__(self, retention: Retention, starts: Mapping[str, Start]) -> None:
        self._retention, self._starts = retention, starts
        #: What any key may miss because no previous window retained it; None if nothing.
        self._start: Start | None = None
        #: What keys with discarded events miss; None if there are no such keys.
        self._given_up: Start | None = None

    def add(self, start: Start) -> None:
        """Note what a key misses."""
        self._start = _both(self._start, start)

    def give_up(self, clock: int | None) -> None:
        """Note that all events of a key were discarded."""
        self.add(Start(clock, 0))
        self._given_up = _both(self._given_up, Start(clock, 0))

    def note(self, lanes: Lanes, clocks: np.ndarray | None) -> None:
        """Note the retained events of keys that have all lost earlier events."""
        known = int((self._retention.known(lanes, clocks) - lanes.bounds[:-1]).min())
        if clocks is None:
            self.add(Start(None, known))
            return
        gone = clocks.copy()
        some = np.flatnonzero(np.diff(lanes.bounds))
        if lanes.times is not None and len(some):
            gone[some] = np.minimum(gone[some], lanes.times[lanes.bounds[some]])
        cutoffs = self._retention.late.cutoffs(clocks)
        for name, frame in self._retention.frames.items():
            start, held = self._starts.get(name), cutoffs - held_for(frame)
            if start is None:
                gone = np.minimum(gone, held)
            elif start.moment is not None:
                gone = np.minimum(gone, np.maximum(held, start.moment))
        self.add(Start(int(gone.max()), known))

    def of(self, frame: Frame, others: Sequence[str]) -> Start | None:
        """Return what a window misses; ``others`` are previous windows with the same frame."""
        frames = self._retention.frames
        wider = {*others, *(n for n, held in frames.items() if covers(held, frame))}
        if wider <= self._starts.keys() and self._start is not None:
            # Each is an upper bound on what is missing, so the smallest applies.
            found = [self._start, *(self._starts[name] for name in wider)]
            moments = [each.moment for each in found if each.moment is not None]
            least = Start(min(moments, default=None), max(each.known for each in found))
            return least if self._given_up is None else _both(least, self._given_up)
        return self._given_up


def _both(one: Start | None, other: Start) -> Start:
    """Return a start that covers two losses."""
    if one is None:
        return other
    moments = [m for m in (one.moment, other.moment) if m is not None]
    return Start(max(moments) if len(moments) == 2 else None, min(one.known, other.known))


def add_start(starts: dict[str, Start], name: str, start: Start) -> None:
    """Add a loss to what a window or column misses."""
    starts[name] = _both(starts.get(name), start)


def incomplete(
    starts: Mapping[str, Start], monoid: AbstractMonoid, frames: Mapping[str, Frame]
) -> list[Incomplete]:
    """Return the incomplete results, and when each is complete again."""
    found = []
    for window, frame in frames.items():
        for alias, (read, part) in monoid.by_alias().items():
            names = [window, *map(mark_of, columns_read(read, part))]
            some = [starts[name] for name in names if name in starts]
            each = incomplete_after(window, alias, frame, some)
            found += [] if each is None else [each]
    return found


def incomplete_after(
    window: str, aggregation: str, frame: Frame, starts: Sequence[Start]
) -> Incomplete | None:
    """Return a result with the losses of all ``starts``; None if it is complete."""
    return _incomplete(window, aggregation, [whole_after(frame, *start) for start in starts])


def latest(found: Iterable[Incomplete]) -> list[Incomplete]:
    """Return each result once; it is complete when all of its descriptions are."""
    by_name: dict[tuple[str, str], Incomplete] = {}
    for each in found:
        name = each.window, each.aggregation
        by_name[name] = _later(by_name.get(name, each), each)
    return list(by_name.values())


def _later(one: Incomplete, other: Incomplete) -> Incomplete:
    found = _incomplete(one.window, one.aggregation, [_wholes(one), _wholes(other)])
    assert found is not None
    return found


def _incomplete(
    window: str, aggregation: str, sides: Sequence[Sequence[Whole]]
) -> Incomplete | None:
    """Return a result that is complete once each side meets one of its conditions."""
    wholes = reduce(all_of, sides, [AT_ONCE])
    if AT_ONCE in wholes:
        return None
    moment = next((w.moment for w in wholes if not w.events), None)
    events = next((w.events for w in wholes if w.moment is None), None)
    both = next((w for w in wholes if w.events and w.moment is not None), None)
    return Incomplete(
        window, aggregation, None if moment is None else np.datetime64(moment, "us"), events,
        None if both is None else (np.datetime64(both.moment, "us"), both.events),
    )  # fmt: skip


def _wholes(found: Incomplete) -> list[Whole]:
    wholes = []
    if found.complete_from is not None:
        wholes.append(Whole(int(found.complete_from.astype("M8[us]").astype("i8")), 0))
    if found.complete_after_events is not None:
        wholes.append(Whole(None, found.complete_after_events))
    if found.complete_after_both is not None:
        moment, events = found.complete_after_both
        wholes.append(Whole(int(moment.astype("M8[us]").astype("i8")), events))
    return wholes
